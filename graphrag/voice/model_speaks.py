"""What is done about the events of the model side: its sound, words, responses,
tool calls, faults.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from typing import Any, cast

from graphrag.agents.model_refusal import ModelRefusal, refusal_of
from graphrag.voice import model_messages as wire
from graphrag.voice import signals
from graphrag.voice.call_state import CallState, Event
from graphrag.voice.call_timers import AWAITED
from graphrag.voice.call_transcript import MOST_CHARS

_SHORTER = re.compile(r"\b(\d{1,9})\s*ms")
_OBJECTS = ("response", "item", "session", "error")
_TEXTS = ("delta", "transcript", "text", "item_id", "response_id", "previous_item_id")

_TEXT_ONLY = {
    "code": "text_only",
    "message": "the model answers with text where it is asked for speech",
}
_NEVER_ENDED = {
    "code": "response_never_ended",
    "message": "the response began and nothing came of it",
}

MOST_UNPLAYED_S = 300.0
"""Sound that waits to be played; what comes beyond it is dropped."""


class ModelSpeaks(CallState):
    """Reacts to what the model side says."""

    def take_event(self, event: Event, now: float) -> None:
        """React to an event; those that mean nothing here are ignored, those of
        another form counted.
        """
        if self.gate.response_id is not None and event.get("response_id") == self.gate.response_id:
            self.timers.start("response", now)
        handler = _HANDLERS.get(event["type"])
        if handler is None:
            return
        if _has_form(event):
            handler(self, event, now)
        else:
            self.out.append(signals.Counted("voice_errors.event"))

    def on_audio(self, event: Event, now: float) -> None:
        response_id = str(event.get("response_id"))
        item_id = str(event.get("item_id"))
        if response_id in self.interrupted:
            return
        try:
            audio = base64.b64decode(event["delta"])
        except (binascii.Error, KeyError, TypeError, ValueError):
            self.out.append(signals.Counted("voice_errors"))
            return
        self.timers.stop(*AWAITED)
        self.has_output = self.has_output or response_id == self.gate.response_id
        if self.phase == "leaving" and response_id != self.before_goodbye:
            self.said_goodbye = self.leaving not in ("agent_hung_up", "transferred")
        if self.playback.unplayed_s(now) > MOST_UNPLAYED_S:
            self.out.append(signals.Counted("voice_errors.too_much_audio"))
            return
        filler = response_id in self.fillers
        if self.stopped_at is not None and not filler:
            self.out.append(signals.Counted("voice_turn_seconds", now - self.stopped_at))
            self.stopped_at = None
        self.play(self.playback.received(item_id, response_id, audio, now, is_filler=filler), now)

    def on_audio_done(self, event: Event, now: float) -> None:
        if str(event.get("response_id")) not in self.interrupted:
            self.play(self.playback.completed(str(event.get("item_id")), now), now)

    def on_words(self, event: Event, now: float) -> None:
        response_id = str(event.get("response_id"))
        item_id = str(event.get("item_id"))
        if response_id in self.interrupted or response_id in self.fillers:
            return
        self.transcript.begin(item_id, "assistant", now - self.began)
        if self.transcript.add(item_id, str(event.get("delta") or "")):
            self.out.append(signals.WordsChanged(item_id))

    def on_words_done(self, event: Event, now: float) -> None:  # noqa: ARG002
        item_id = str(event.get("item_id"))
        self.timers.stop(*AWAITED)
        if self.transcript.finish(item_id, str(event.get("transcript") or "")):
            self.out.append(signals.WordsChanged(item_id))

    def on_text(self, event: Event, now: float) -> None:  # noqa: ARG002
        """Keeps an answer that is words alone: nobody has heard it yet."""
        response_id = str(event.get("response_id"))
        item_id = str(event.get("item_id"))
        if response_id in self.fillers:
            return
        self.timers.stop(*AWAITED)
        whole = event.get("text")
        known = self.texts.get(item_id, "")
        self.texts[item_id] = (
            known + str(event.get("delta") or "") if whole is None else str(whole)
        )[:MOST_CHARS]

    def speak_texts(self, now: float, *, are_wanted: bool) -> None:
        """Has the answers of a response that are words alone said; the spoken ones
        take their place.

        Those that the caller has interrupted are forgotten: nobody has heard them.
        """
        texts = {item_id: text.strip() for item_id, text in self.texts.items() if text.strip()}
        self.texts.clear()
        for item_id in texts:
            self.send("conversation.item.delete", item_id=item_id)
        if not texts or not are_wanted:
            return
        if self.speaks_text:  # it was asked to say just that
            self.response_refused(refusal_of(_TEXT_ONLY), now)
            return
        said = self.session.text("voice_say_exactly", text=" ".join(texts.values()))
        self.request = wire.spoken_response(said)
        if self.phase == "open":
            self.ask(now)
        elif self.phase == "leaving" and self.gate.ask(now, caller_speaks=self.caller_speaks):
            self.request_response()

    def on_caller_words(self, event: Event, now: float) -> None:
        item_id = str(event.get("item_id"))
        self.transcript.begin(item_id, "user", now - self.began)
        final = not event["type"].endswith(".delta")
        if final:
            failed = event["type"].endswith(".failed")
            changed = self.transcript.finish(
                item_id, None if failed else str(event.get("transcript") or "")
            )
        else:
            changed = self.transcript.add(item_id, str(event.get("delta") or ""))
        if changed:
            self.out.append(signals.WordsChanged(item_id))

    def on_created(self, event: Event, now: float) -> None:
        response = cast(Event, event.get("response") or {})
        response_id = str(response.get("id"))
        if wire.is_filler(response):
            self.fillers.add(response_id)
            return
        self.unanswered = self.has_output = False
        self.speaks_text = bool(self.request)
        self.request = {}
        self.texts.clear()
        self.gate.created(response_id)
        self.timers.start("response", now)
        if self.greeting == "":
            self.greeting = response_id

    def on_response_done(self, event: Event, now: float) -> None:
        response = cast(Event, event.get("response") or {})
        response_id = str(response.get("id"))
        status = response.get("status")
        if response_id in self.fillers:
            self.fillers.discard(response_id)
            return
        is_last = self.gate.done(response_id)
        if is_last:
            self.timers.stop("response")
        if response_id == self.greeting and self.texts:
            self.greeting = ""  # it is yet to be said
        elif response_id == self.greeting and not self.session.greeting_is_interruptible:
            self.clears_input = True
        is_wanted = response_id not in self.interrupted
        self.interrupted.discard(response_id)
        if status == "failed":
            self.out.append(signals.Counted("voice_responses_failed"))
        refusal = _refusal_in(response)
        is_cut = status == "incomplete" and (self.has_output or bool(self.texts))
        if refusal is not None and is_last and not is_cut:
            self.speak_texts(now, are_wanted=False)
            self.tools.take_round_done()  # what is asked for again goes on with it
            self.response_refused(refusal, now)
            return
        if refusal is not None:
            self.note_refusal(refusal)
        if status in ("completed", "incomplete"):
            self.timers.stop(*AWAITED)
        if is_last and self.texts:
            self.speak_texts(now, are_wanted=is_wanted and status != "cancelled")
        elif status == "completed":
            self.service_works()
        self.after_response(now)

    def after_response(self, now: float) -> None:
        """Goes on when no response is active any more."""
        if self.phase == "ended":
            return
        if self.unanswered and not self.session.server_interrupts and not self.caller_speaks:
            self.unanswered = False
            self.gate.wanted = True
        self.send_outputs(now)
        self.ask_if_wanted(now)

    def on_item_done(self, event: Event, now: float) -> None:
        item = cast(Event, event.get("item") or {})
        if item.get("type") != "function_call" or item.get("status") != "completed":
            return
        self.timers.stop(*AWAITED)
        self.has_output = True
        response_id = str(event.get("response_id"))
        self.out += self.tools.called(item, response_id, now)
        self.send_outputs(now)

    def on_silence(self, event: Event, now: float) -> None:
        self.silent_item = event.get("item_id")
        if self.timers.asked_silent():
            self.leave_politely("caller_silent", now)

    def on_session_created(self, event: Event, now: float) -> None:
        if self.phase != "opening":  # it was said before
            return
        expires = cast(Event, event.get("session") or {}).get("expires_at")
        if isinstance(expires, int | float):
            self.timers.shorten(expires - self.wall)
        self.timers.stop(*AWAITED)
        self.open_session(now)

    def on_session_updated(self, event: Event, now: float) -> None:  # noqa: ARG002
        if self.phase != "opening":
            return
        self.timers.stop("opening", "session_again")
        again = self.was_open
        self.was_open = True
        self.phase = "leaving" if self.leave_at is not None else "open"
        if again:
            self.restore()
        audio = b"".join(_decoded(payload) for payload in self.kept)
        self.kept_bytes = 0
        self.kept.clear()
        if audio:
            self.out.append(
                signals.SendModel(wire.append_frame(base64.b64encode(audio).decode("ascii")))
            )
        if again:
            self.tools.take_round_done()  # what it gave stands in the texts
            self.say_to_model("system", self.session.text("voice_go_on"))
            self.ask(now)
        elif self.session.greeting:
            self.greeting = ""
            self.timers.start("ask_again", now)
            self.say_to_model("user", self.session.greeting)
            self.ask(now)

    def restore(self) -> None:
        """Give a new session what was said; outputs of tools that the old one
        called become texts.
        """
        for entry in self.transcript.ordered():
            self.send("conversation.item.create", item=wire.text_item(entry.role, entry.text))
        for output in self.tools.orphaned():
            self.say_to_model("system", output)

    def caused(self, error: Event) -> Event | None:
        """Return what an error is about: by its id, else the last truncation at the time
        that it names.
        """
        if error.get("event_id") is not None:
            return self.sent.get(str(error["event_id"]))
        named = {int(found) for found in _SHORTER.findall(str(error.get("message")))}
        return next(
            (each for each in reversed(self.sent.values()) if each.get("audio_end_ms") in named),
            None,
        )

    def on_error(self, event: Event, now: float) -> None:
        error = cast(Event, event.get("error") or {})
        refusal = refusal_of(error)
        caused = self.caused(error)
        kind = None if caused is None else caused["type"]
        if refusal.code == "session_expired":
            self.lost(now)
        elif refusal.is_final:
            self.refusal = refusal
            self.note_refusal(refusal)
            self.lost(now, fatal=True)
        elif self.phase == "opening" and kind in (None, "session.update"):
            self.session_refused(refusal, now)
        elif refusal.code == "conversation_already_has_active_response":
            self.out.append(signals.Counted(f"voice_errors.{refusal.code}"))
            if self.gate.refused(now):
                self.lost(now)
        elif kind == "response.create" or (
            kind is None and (refusal.is_rate_limit or refusal.type == "server_error")
        ):
            if self.gate.state == "requested":
                self.response_refused(refusal, now)
            else:
                self.note_refusal(refusal)
        else:
            self.small_error(refusal, error, caused, now)

    def small_error(
        self, refusal: ModelRefusal, error: Event, caused: Event | None, now: float
    ) -> None:
        """Corrects a truncation that went too far; other errors are counted and the
        call goes on.
        """
        self.out.append(signals.Counted(f"voice_errors.{refusal.code}"))
        if caused is not None and caused["type"] == "conversation.item.truncate":
            found = _SHORTER.search(str(error.get("message")))
            if found is not None and int(found[1]) < caused.get(
                "audio_end_ms", 0
            ):  # one said again has none
                self.truncate(caused["item_id"], int(found[1]), again=True)
        elif caused is None:
            self.gate.doubt(now)

    def on_limits(self, event: Event, now: float) -> None:  # noqa: ARG002
        """Takes in when the limits that are used up are there again."""
        rows = (
            cast(list[Any], event["rate_limits"])
            if isinstance(event.get("rate_limits"), list)
            else []
        )
        limits = [cast(Event, row) for row in rows if isinstance(row, dict)]
        used_up = [row.get("reset_seconds") for row in limits if row.get("remaining") == 0]
        self.reset_s = max(
            (float(each) for each in used_up if isinstance(each, int | float)), default=None
        )

    def response_never_ended(self, now: float) -> None:
        """Goes on without the end of a response of which nothing comes any more."""
        response_id = self.gate.response_id
        if response_id is None:
            return
        self.send("response.cancel", response_id=response_id)
        for item_id in list(self.playback.items):
            self.play(self.playback.completed(item_id, now), now)
        self.interrupted.add(response_id)
        self.gate.done(response_id)
        self.timers.stop(*AWAITED)
        if self.texts:
            self.speak_texts(now, are_wanted=True)
        elif not self.has_output:
            self.response_refused(refusal_of(_NEVER_ENDED), now)
            return
        self.after_response(now)


def _refusal_in(response: Event) -> ModelRefusal | None:
    """Returns why a response failed or is incomplete; None where it is neither."""
    details: Any = response.get("status_details")
    facts: Event = cast(dict[str, Any], details) if isinstance(details, dict) else {}
    match response.get("status"):
        case "failed":
            return refusal_of(facts.get("error"), code="response_failed")
        case "incomplete":
            return refusal_of(
                {"message": "the answer is incomplete"},
                code=str(facts.get("reason") or "incomplete"),
            )
        case _:
            return None


def _has_form(event: Event) -> bool:
    """Return whether an event's objects, texts and ids are such, as far as they are read here."""
    if not all(isinstance(event.get(name), dict | None) for name in _OBJECTS):
        return False
    if not all(isinstance(event.get(name), str | None) for name in _TEXTS):
        return False
    if event["type"] == "response.created":
        return isinstance((event.get("response") or {}).get("id"), str)
    item = cast(Event, event.get("item") or {})
    is_call = event["type"] == "response.output_item.done" and item.get("type") == "function_call"
    return not is_call or all(isinstance(item.get(name), str) for name in ("call_id", "name"))


def _decoded(payload: str) -> bytes:
    try:
        return base64.b64decode(payload)
    except (binascii.Error, ValueError):
        return b""


_HANDLERS: Mapping[str, Callable[[ModelSpeaks, Event, float], None]] = {
    "response.output_audio.delta": ModelSpeaks.on_audio,
    "response.output_audio.done": ModelSpeaks.on_audio_done,
    "response.output_audio_transcript.delta": ModelSpeaks.on_words,
    "response.output_audio_transcript.done": ModelSpeaks.on_words_done,
    "response.output_text.delta": ModelSpeaks.on_text,
    "response.output_text.done": ModelSpeaks.on_text,
    "response.created": ModelSpeaks.on_created,
    "response.done": ModelSpeaks.on_response_done,
    "response.output_item.done": ModelSpeaks.on_item_done,
    "input_audio_buffer.speech_started": ModelSpeaks.on_speech_started,
    "input_audio_buffer.speech_stopped": ModelSpeaks.on_speech_stopped,
    "input_audio_buffer.committed": ModelSpeaks.on_committed,
    "input_audio_buffer.timeout_triggered": ModelSpeaks.on_silence,
    "conversation.item.input_audio_transcription.delta": ModelSpeaks.on_caller_words,
    "conversation.item.input_audio_transcription.completed": ModelSpeaks.on_caller_words,
    "conversation.item.input_audio_transcription.failed": ModelSpeaks.on_caller_words,
    "session.created": ModelSpeaks.on_session_created,
    "session.updated": ModelSpeaks.on_session_updated,
    "rate_limits.updated": ModelSpeaks.on_limits,
    "error": ModelSpeaks.on_error,
}
"""What is done about each event of the model side; all others are ignored."""
