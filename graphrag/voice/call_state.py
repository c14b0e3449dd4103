"""Where a call stands, and the steps that all share: asking, saying,
interrupting, losing, ending.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import orjson

from graphrag.agents.model_refusal import ModelRefusal
from graphrag.voice import model_messages as wire
from graphrag.voice import signals
from graphrag.voice.call_timers import AWAITED, CallTimers
from graphrag.voice.call_transcript import CallTranscript, Said
from graphrag.voice.gate import ResponseGate
from graphrag.voice.playback import ItemSound, Playback
from graphrag.voice.signals import Action, EndReason
from graphrag.voice.tool_rounds import ToolRounds
from graphrag.voice.voice_session import VoiceSession

RECONNECT_S = 60.0
"""A second loss within so many seconds ends the call."""
GOODBYE_S = 10.0
KNOWN_EVENTS = 200
MOST_WAIT_S = 20.0  # longest pause that a rate limit may ask for while a caller waits
PAUSE_S = 1.0  # before the same is asked again, where a rate limit names no time
MOST_REFUSALS = 3  # refusals by a rate limit in a row after which the call ends
HEARD_MS = 40  # an answer of which so little is missing was heard to its end

CallPhase = Literal["opening", "open", "leaving", "ended"]
Event = Mapping[str, Any]


class CallState:
    """One call. `wall`: what to add to its time for seconds since 1970. `out`: what is
    wanted, in order.

    `interrupted`: responses of which nothing is played any more. `fillers`: responses beside the
    conversation. `greeting`: the response that greets, "" before it began, None without one.
    `clears_input`: what the caller said into a protected greeting is to be forgotten.
    `stopped_at`: when the caller fell silent, until an answer sounds. `refusal`: why the model's
    service does not do what it is asked, until it does again. `transcribes`: whether the caller's
    words are written down.
    `silent_item`: the item in which a silent caller was noticed.
    `texts`: answers of the active response that are no sound, by item. `request`: what the response
    that was asked for is to say. `before_goodbye`: the response that was active when the goodbye
    was asked for.
    """

    def __init__(
        self, session: VoiceSession, stream_id: str, now: float, *, wall: float = 0.0
    ) -> None:
        self.session = session
        self.began = now
        self.wall = wall
        self.transcript = CallTranscript()
        self.playback, self.gate = Playback(), ResponseGate()
        self.tools = ToolRounds(session)
        self.timers = CallTimers(session, now)
        self.phase: CallPhase = "opening"
        self.caller_speaks = False
        self.out: list[Action] = []
        self.stream = stream_id
        self.kept: deque[str] = deque()
        self.kept_bytes = 0
        self.interrupted: set[str] = set()
        self.fillers: set[str] = set()
        self.greeting: str | None = None
        self.clears_input = False
        self.confirm_at: float | None = None
        self.stopped_at: float | None = None
        self.playing_since: float | None = None
        self.unanswered = False
        self.failed = 0
        self.refusal: ModelRefusal | None = None
        self.limited = 0
        self.reset_s: float | None = None
        self.transcribes = True
        self.silent_item: str | None = None
        self.has_output = False
        self.texts: dict[str, str] = {}
        self.request: dict[str, Any] = {}
        self.speaks_text = False
        self.before_goodbye: str | None = None
        self.now = now
        self.lost_at: float | None = None
        self.was_open = False
        self.digits = ""
        self.leaving: EndReason = "agent_hung_up"
        self.leave_at: float | None = None
        self.destination: str | None = None
        self.said_goodbye = False
        self.sent: OrderedDict[str, Mapping[str, Any]] = OrderedDict()
        self.number = 0

    def send(self, kind: str, **fields: Any) -> str:
        self.number += 1
        event_id = f"n{self.number}"
        self.out.append(
            signals.SendModel(
                orjson.dumps({"type": kind, "event_id": event_id, **fields}).decode("utf-8")
            )
        )
        self.sent[event_id] = {"type": kind}
        while len(self.sent) > KNOWN_EVENTS:
            self.sent.popitem(last=False)
        return event_id

    def say_to_model(self, role: str, text: str, **item: Any) -> None:
        if self.phase != "opening":
            self.send("conversation.item.create", item={**wire.text_item(role, text), **item})
        else:
            self.tools.keep_text(text)

    def ask(self, now: float) -> None:
        if self.phase == "leaving":
            return
        if self.phase == "opening":
            self.gate.wanted = True
        elif self.gate.ask(now, caller_speaks=self.caller_speaks):
            self.request_response()

    def request_response(self) -> None:
        self.send("response.create", **({"response": self.request} if self.request else {}))

    def ask_if_wanted(self, now: float) -> None:
        if self.phase == "open" and self.gate.wanted and self.gate.state == "idle":
            self.ask(now)

    def play(self, pieces: Iterator[tuple[str, str]], now: float) -> None:
        for payload, mark in pieces:
            if self.playing_since is None:
                self.playing_since = now
            self.out.append(signals.SendPhone(wire.media_frame(self.stream, payload)))
            self.out.append(signals.SendPhone(wire.mark_frame(self.stream, mark)))

    def send_outputs(self, now: float) -> None:
        if self.phase == "opening":
            return  # kept for the next connection
        for call_id, output in self.tools.outputs():
            self.send("conversation.item.create", item=wire.output_item(call_id, output))
        if self.tools.take_round_done(self.gate.response_id) and self.phase == "open":
            self.ask(now)

    def lost(self, now: float, *, fatal: bool = False) -> None:
        """Opens the model side again, once in a while; else the call is over."""
        if self.phase == "leaving":
            self.end(self.leaving)
            return
        wait_s = self.pause_s() if self.refusal is not None and self.refusal.is_rate_limit else 0.0
        again = self.lost_at is not None and now - self.lost_at < RECONNECT_S
        if fatal or again or wait_s > MOST_WAIT_S:
            self.end("model_unreachable" if self.refusal is None else "model_refused")
            return
        self.lost_at = now
        self.phase = "opening"
        self.failed = 0
        self.gate.lose()
        self.request = {}
        self.texts.clear()
        self.interrupted.clear()
        self.fillers.clear()
        self.caller_speaks, self.confirm_at, self.unanswered = False, None, False
        self.tools.lose_session()
        self.timers.start("opening", now, delay_s=wait_s)
        self.timers.stop(*AWAITED, "response", "session_again")
        self.out += [signals.Counted("voice_reconnects"), signals.Reconnect(wait_s)]

    # -- the model's service refuses

    def note_refusal(self, refusal: ModelRefusal) -> None:
        self.out += [signals.Counted(f"voice_errors.{refusal.code}"), signals.ModelRefused(refusal)]

    def pause_s(self) -> float:
        """Returns how long a rate limit asks to wait, by its sentence, else by the
        limits last reported.
        """
        said = self.refusal.wait_s if self.refusal is not None else None
        said = self.reset_s if said is None else said
        return PAUSE_S if said is None else said

    def session_refused(self, refusal: ModelRefusal, now: float) -> None:
        """Opens the session without what was refused where that is possible; else the
        call is over.
        """
        self.note_refusal(refusal)
        if self.transcribes and refusal.is_about_transcription and not refusal.is_final:
            self.transcribes = False
            self.open_session(now)
            return
        self.refusal = refusal
        self.limited += 1
        may_wait = (
            refusal.is_rate_limit
            and self.pause_s() <= MOST_WAIT_S
            and self.limited <= MOST_REFUSALS
        )
        if may_wait:
            self.timers.start("opening", now, delay_s=self.pause_s())
            self.timers.start("session_again", now, delay_s=self.pause_s())
        elif refusal.is_our_request or refusal.is_rate_limit:
            self.end("model_refused")
        else:
            self.lost(now)

    def open_session(self, now: float) -> None:
        self.timers.start("opening", now)
        self.send("session.update", session=self.session.update(transcribes=self.transcribes))

    def response_refused(self, refusal: ModelRefusal, now: float) -> None:
        """Asks for a response again, at once or when the service says; else ends the call."""
        self.refusal = refusal
        self.note_refusal(refusal)
        if self.phase == "leaving" or refusal.is_our_request:
            self.end(self.leaving if self.phase == "leaving" else "model_refused")
        elif refusal.is_rate_limit:
            self.limited += 1
            if self.pause_s() > MOST_WAIT_S or self.limited > MOST_REFUSALS:
                self.end("model_refused")
                return
            self.gate.hold(now + self.pause_s())
            self.timers.stop(*AWAITED)
            self.timers.start("answer", now, delay_s=self.pause_s())
        else:
            self.failed += 1
            if self.failed >= 2:
                self.lost(now)
            else:
                self.gate.hold(now)
                self.ask_if_wanted(now)

    def service_works(self) -> None:
        self.refusal, self.failed, self.limited = None, 0, 0

    def leave_politely(self, reason: EndReason, now: float) -> None:
        """Have the model say goodbye, then end."""
        if self.phase == "leaving":
            return
        if self.phase == "opening":
            self.end(reason)
            return
        self.leaving = reason
        self.before_goodbye = self.gate.response_id
        self.leave_at = now + GOODBYE_S
        self.say_to_model("system", self.session.text("voice_farewell"))
        self.gate.wanted = True
        self.ask_if_wanted(now)
        self.phase = "leaving"

    def end(self, reason: EndReason) -> None:
        if self.phase != "ended":
            self.digits_into_transcript()
            self.phase = "ended"
            self.cut_unheard()
            self.out.append(signals.CallOver(reason, self.destination, self.said_goodbye))

    # -- what the caller has said with the keypad, and has heard

    def digits_into_transcript(self) -> tuple[str, str] | None:
        """Adds the digits that were pressed to the transcript; returns the item and its words."""
        digits = self.digits
        self.digits = ""
        self.timers.stop("digits")
        if not digits:
            return None
        self.number += 1
        item_id = f"keypad_{self.number}"
        words = self.session.text("voice_keypad", digits=digits)
        self.transcript.begin(item_id, "user", self.now - self.began)
        if self.transcript.finish(item_id, words):
            self.out.append(signals.WordsChanged(item_id))
        return item_id, words

    def cut_unheard(self) -> None:
        """Cuts every answer to the words that the caller has heard; the call is over."""
        for entry in self.transcript.entries.values():
            share = self._heard_of(entry)
            if share is not None and self.transcript.interrupt(entry.item_id, *share):
                self.out.append(signals.WordsChanged(entry.item_id))

    def heard(self, now: float) -> Iterator[Said]:
        """Yields the entries of the transcript in order, of each answer the words that were
        heard by now.
        """
        self.now = now
        for entry in self.transcript.ordered():
            share = self._heard_of(entry)
            known = entry if share is None else entry.until(*share)
            if known.text:
                yield known

    def _heard_of(self, entry: Said) -> tuple[int, int] | None:
        """Returns the milliseconds heard and received of an answer; None where its words
        are not cut.
        """
        if (
            entry.role != "assistant"
            or entry.is_interrupted
            or entry.item_id in self.playback.heard
        ):
            return None
        item = self.playback.items.get(entry.item_id)
        if item is None:  # no sound of it has come
            return 0, 0
        heard_ms = self.playback.heard_ms(item, self.now)
        missing_ms = item.received_ms - heard_ms
        return None if item.is_whole and missing_ms < HEARD_MS else (heard_ms, item.received_ms)

    # -- the caller speaks: does the agent stop, and what does the model learn of what was heard?

    def on_speech_started(self, event: Event, now: float) -> None:
        self.caller_speaks, self.stopped_at = True, None
        self.request = {}  # what waits to be said is not what the caller answers to
        self.timers.caller_spoke()
        self.transcript.begin(str(event.get("item_id")), "user", now - self.began)
        if self.phase == "leaving" or not (self.playback.is_playing or self.gate.state == "active"):
            return
        barge_in = self.session.options.barge_in
        since = self.playing_since
        guarded = since is not None and now - since < barge_in.guard_ms / 1000
        protected = not self.session.greeting_is_interruptible and self.in_greeting()
        if barge_in.mode == "off" or guarded or protected:
            return
        if barge_in.mode == "confirmed":
            self.confirm_at = now + barge_in.min_speech_ms / 1000
        else:
            self.interrupt(now)

    def on_speech_stopped(self, event: Event, now: float) -> None:  # noqa: ARG002
        self.caller_speaks = False
        self.confirm_at = None
        self.stopped_at = now
        self.timers.start("answer", now)

    def on_committed(self, event: Event, now: float) -> None:
        self.transcript.begin(
            str(event.get("item_id")), "user", now - self.began, after=event.get("previous_item_id")
        )
        self.unanswered = self.gate.state != "idle"
        is_silent = event.get("item_id") == self.silent_item
        self.silent_item = None
        if (
            not self.transcribes
            and not is_silent
            and self.transcript.finish(str(event.get("item_id")), None)
        ):
            self.out.append(signals.WordsChanged(str(event.get("item_id"))))

    def in_greeting(self) -> bool:
        if self.greeting is None:
            return False
        playing = any(item.response_id == self.greeting for item in self.playback.items.values())
        return playing or self.greeting in ("", self.gate.response_id)

    def interrupt(self, now: float) -> None:
        """Stop the sound, and have the model know how much of it was played."""
        self.confirm_at = None
        heard = {
            item.item_id: self.playback.heard_ms(item, now) for item in self.playback.items.values()
        }
        self.out.append(signals.SendPhone(wire.clear_frame(self.stream)))
        left = self.playback.clear()
        self.playing_since = None
        running = self.gate.response_id if self.gate.state == "active" else None
        self.interrupted |= {item.response_id for item in left}
        if running is not None:
            self.interrupted.add(running)
            if not self.session.server_interrupts:
                self.send("response.cancel", response_id=self.gate.cancel())
        for response_id in self.fillers & self.interrupted:
            self.send("response.cancel", response_id=response_id)
        for item in left:
            if not item.is_filler:
                self.cut(item, heard[item.item_id])
        self.out.append(signals.Counted("voice_barge_in", next(iter(heard.values()), 0)))

    def cut(self, item: ItemSound, heard_ms: int) -> None:
        end = min(heard_ms, item.received_ms)
        if item.is_whole and item.received_ms - end < HEARD_MS:
            self.playback.heard.add(item.item_id)
            self.out.append(signals.WordsChanged(item.item_id))
            return
        if end > 0:
            self.truncate(item.item_id, end)
        else:
            self.send("conversation.item.delete", item_id=item.item_id)
        if self.transcript.interrupt(item.item_id, end, item.received_ms):
            self.out.append(signals.WordsChanged(item.item_id))

    def truncate(self, item_id: str, end_ms: int, *, again: bool = False) -> None:
        facts = {"item_id": item_id, "content_index": 0, "audio_end_ms": end_ms}
        event_id = self.send("conversation.item.truncate", **facts)
        if not again:
            self.sent[event_id] = {"type": "conversation.item.truncate", **facts}
