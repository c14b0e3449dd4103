"""Handles failures of the model side: lost connections, refusals, rate limits and other errors."""

from __future__ import annotations

from typing import Any, Final, cast, final

from graphrag.agents.model_refusal import ModelRefusal, refusal_of
from graphrag.bridge import signals
from graphrag.bridge.dialogue import Dialogue, Event
from graphrag.bridge.outbox import milliseconds_in
from graphrag.bridge.timers import AWAITED

RECONNECT_S: Final = 60.0  # a second loss within this time ends the call
MAX_WAIT_S: Final = 20.0  # longest pause that a rate limit may ask for while a caller waits
PAUSE_S: Final = 1.0  # before another attempt if a rate limit names no time
MAX_REFUSALS: Final = 3  # consecutive refusals by a rate limit after which the call ends


@final
class ModelFailures:
    """Decides whether a call goes on after a failure of its model.

    `refusal`: the last refusal, until the service works again. `transcribes`: whether the caller's
    words are transcribed.
    """

    def __init__(self, dialogue: Dialogue) -> None:
        self.refusal: ModelRefusal | None = None
        self.transcribes = True
        self._dialogue = dialogue
        self._outbox = dialogue.outbox
        self._failed = 0
        self._limited = 0
        self._reset_s: float | None = None
        self._lost_at: float | None = None

    def lost(self, now: float, *, fatal: bool = False) -> None:
        """Reconnects to the model; ends the call after a second loss within `RECONNECT_S`."""
        dialogue = self._dialogue
        if dialogue.phase == "leaving":
            dialogue.end(dialogue.leaving)
            return
        wait_s = self._pause_s() if self.refusal is not None and self.refusal.is_rate_limit else 0.0
        again = self._lost_at is not None and now - self._lost_at < RECONNECT_S
        if fatal or again or wait_s > MAX_WAIT_S:
            dialogue.end("model_unreachable" if self.refusal is None else "model_refused")
            return
        self._lost_at = now
        self._failed = 0
        dialogue.reset_session()
        dialogue.timers.start("opening", now, delay_s=wait_s)
        dialogue.timers.stop(*AWAITED, "response", "session_again")
        self._outbox.add(signals.Counted("voice_reconnects"), signals.Reconnect(wait_s))

    def report(self, refusal: ModelRefusal) -> None:
        """Counts a refusal, and has it logged and stored with the call."""
        self._outbox.add(
            signals.Counted(f"voice_errors.{refusal.code}"), signals.ModelRefused(refusal)
        )

    def _pause_s(self) -> float:
        """Returns the wait that a rate limit asks for: by its message, else by the last report."""
        wait_s = self.refusal.wait_s if self.refusal is not None else None
        wait_s = self._reset_s if wait_s is None else wait_s
        return PAUSE_S if wait_s is None else wait_s

    def _session_refused(self, refusal: ModelRefusal, now: float) -> None:
        """Opens the session without a refused transcription or after a wait, else ends the call."""
        dialogue = self._dialogue
        self.report(refusal)
        if self.transcribes and refusal.is_about_transcription and not refusal.is_final:
            self.transcribes = False
            self.open_session(now)
            return
        self.refusal = refusal
        self._limited += 1
        may_wait = (
            refusal.is_rate_limit
            and self._pause_s() <= MAX_WAIT_S
            and self._limited <= MAX_REFUSALS
        )
        if may_wait:
            dialogue.timers.start("opening", now, delay_s=self._pause_s())
            dialogue.timers.start("session_again", now, delay_s=self._pause_s())
        elif refusal.is_our_request or refusal.is_rate_limit:
            dialogue.end("model_refused")
        else:
            self.lost(now)

    def open_session(self, now: float) -> None:
        """Sends the settings of the session."""
        self._dialogue.timers.start("opening", now)
        settings = self._dialogue.session.update(transcribes=self.transcribes)
        self._outbox.send("session.update", session=settings)

    def response_refused(self, refusal: ModelRefusal, now: float) -> None:
        """Asks for a response again, now or after the wait of a rate limit, else ends the call."""
        dialogue = self._dialogue
        self.refusal = refusal
        self.report(refusal)
        if dialogue.phase == "leaving" or refusal.is_our_request:
            dialogue.end(dialogue.leaving if dialogue.phase == "leaving" else "model_refused")
        elif refusal.is_rate_limit:
            self._limited += 1
            if self._pause_s() > MAX_WAIT_S or self._limited > MAX_REFUSALS:
                dialogue.end("model_refused")
                return
            dialogue.gate.hold(now + self._pause_s())
            dialogue.timers.stop(*AWAITED)
            dialogue.timers.start("answer", now, delay_s=self._pause_s())
        else:
            self._failed += 1
            if self._failed >= 2:
                self.lost(now)
            else:
                dialogue.gate.hold(now)
                dialogue.ask_if_wanted(now)

    def service_works(self) -> None:
        """Forgets earlier failures: the service has answered."""
        self.refusal, self._failed, self._limited = None, 0, 0

    def on_error(self, event: Event, now: float) -> None:
        """Handles an `error` event of the model side."""
        dialogue = self._dialogue
        error = cast(Event, event.get("error") or {})
        refusal = refusal_of(error)
        caused = self._outbox.cause_of(error)
        kind = None if caused is None else caused["type"]
        if refusal.code == "session_expired":
            self.lost(now)
        elif refusal.is_final:
            self.refusal = refusal
            self.report(refusal)
            self.lost(now, fatal=True)
        elif dialogue.phase == "opening" and kind in (None, "session.update"):
            self._session_refused(refusal, now)
        elif refusal.code == "conversation_already_has_active_response":
            self._outbox.add(signals.Counted(f"voice_errors.{refusal.code}"))
            if dialogue.gate.refused(now):
                self.lost(now)
        elif kind == "response.create" or (
            kind is None and (refusal.is_rate_limit or refusal.type == "server_error")
        ):
            if dialogue.gate.state == "requested":
                self.response_refused(refusal, now)
            else:
                self.report(refusal)
        else:
            self._minor_error(refusal, error, caused, now)

    def _minor_error(
        self, refusal: ModelRefusal, error: Event, caused: Event | None, now: float
    ) -> None:
        """Corrects a truncation beyond the end of an item; other errors are only counted."""
        self._outbox.add(signals.Counted(f"voice_errors.{refusal.code}"))
        if caused is not None and caused["type"] == "conversation.item.truncate":
            lengths = milliseconds_in(str(error.get("message")))
            # a corrected truncation is not remembered with its time, so it is not corrected again
            if lengths and lengths[0] < caused.get("audio_end_ms", 0):
                self._dialogue.truncate(caused["item_id"], lengths[0], again=True)
        elif caused is None:
            self._dialogue.gate.doubt(now)

    def on_limits(self, event: Event, now: float) -> None:  # noqa: ARG002
        """Stores when the used-up rate limits are reset."""
        rows = (
            cast(list[Any], event["rate_limits"])
            if isinstance(event.get("rate_limits"), list)
            else []
        )
        limits = [cast(Event, row) for row in rows if isinstance(row, dict)]
        used_up = [row.get("reset_seconds") for row in limits if row.get("remaining") == 0]
        self._reset_s = max(
            (float(reset_s) for reset_s in used_up if isinstance(reset_s, int | float)),
            default=None,
        )

    def disconnected(self, refusal: ModelRefusal | None, now: float, *, fatal: bool) -> None:
        """Handles the loss of the connection, with the refusal that the server gave for it."""
        if refusal is not None:
            self.refusal = refusal
            self.report(refusal)
        self.lost(now, fatal=fatal)
