"""Handles events of the model side: sound, words, responses, tool calls, the caller's speech."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Any, Final, cast, final

from graphrag.agents.model_refusal import ModelRefusal, refusal_of
from graphrag.bridge import signals
from graphrag.bridge.dialogue import Dialogue, Event
from graphrag.bridge.model_failures import ModelFailures
from graphrag.bridge.timers import AWAITED
from graphrag.bridge.transcript import MAX_CHARS
from graphrag.realtime import model_messages as wire

MAX_UNPLAYED_S: Final = 300.0  # sound waiting to be played; further sound is dropped
_OBJECTS: Final = ("response", "item", "session", "error")
_TEXTS: Final = ("delta", "transcript", "text", "item_id", "response_id", "previous_item_id")
# Events of the published protocol that a call has no use for.
_IGNORED: Final = frozenset(
    {
        "conversation.created",
        *(f"conversation.item.{name}" for name in ("added", "created", "deleted", "done")),
        *(f"conversation.item.{name}" for name in ("retrieved", "truncated")),
        "conversation.item.input_audio_transcription.segment",
        *(f"input_audio_buffer.{name}" for name in ("cleared", "dtmf_event_received")),
        *(f"output_audio_buffer.{name}" for name in ("cleared", "started", "stopped")),
        *(f"response.content_part.{name}" for name in ("added", "done")),
        *(f"response.function_call_arguments.{name}" for name in ("delta", "done")),
        "response.output_item.added",
        *(f"mcp_list_tools.{name}" for name in ("in_progress", "completed", "failed")),
        *(f"response.mcp_call_arguments.{name}" for name in ("delta", "done")),
        *(f"response.mcp_call.{name}" for name in ("in_progress", "completed", "failed")),
    }
)
_TEXT_ONLY: Final = {
    "code": "text_only",
    "message": "the model answers with text where it is asked for speech",
}
_NEVER_ENDED: Final = {
    "code": "response_never_ended",
    "message": "the response began and nothing came of it",
}


@final
class ModelEvents:
    """Updates a dialogue by the events of its model.

    `wall`: difference in seconds between the time since 1970 and the clock of the call.
    """

    def __init__(self, dialogue: Dialogue, failures: ModelFailures, *, wall: float) -> None:
        self._dialogue = dialogue
        self._failures = failures
        self._outbox = dialogue.outbox
        self._wall = wall
        self._was_open = False
        self._silent_item: str | None = None  # item in which a silent caller was noticed
        self._speaks_text = False
        self._handlers: Mapping[str, Callable[[Event, float], None]] = {
            "response.output_audio.delta": self._on_audio,
            "response.output_audio.done": self._on_audio_done,
            "response.output_audio_transcript.delta": self._on_words,
            "response.output_audio_transcript.done": self._on_words_done,
            "response.output_text.delta": self._on_text,
            "response.output_text.done": self._on_text,
            "response.created": self._on_created,
            "response.done": self._on_response_done,
            "response.output_item.done": self._on_item_done,
            "input_audio_buffer.speech_started": self._on_speech_started,
            "input_audio_buffer.speech_stopped": self._on_speech_stopped,
            "input_audio_buffer.committed": self._on_committed,
            "input_audio_buffer.timeout_triggered": self._on_silence,
            "conversation.item.input_audio_transcription.delta": self._on_caller_words,
            "conversation.item.input_audio_transcription.completed": self._on_caller_words,
            "conversation.item.input_audio_transcription.failed": self._on_caller_words,
            "session.created": self._on_session_created,
            "session.updated": self._on_session_updated,
            "rate_limits.updated": failures.on_limits,
            "error": failures.on_error,
        }

    def handle(self, event: Event, now: float) -> None:
        """Handles an event. Malformed and unknown ones are counted."""
        gate = self._dialogue.gate
        if gate.response_id is not None and event.get("response_id") == gate.response_id:
            self._dialogue.timers.start("response", now)
        handler = self._handlers.get(event["type"])
        if handler is None:
            if event["type"] not in _IGNORED:
                self._outbox.add(signals.Counted("voice_errors.unknown_event"))
            return
        if _is_well_formed(event):
            handler(event, now)
        else:
            self._outbox.add(signals.Counted("voice_errors.event"))

    def _on_audio(self, event: Event, now: float) -> None:
        dialogue = self._dialogue
        response_id = str(event.get("response_id"))
        item_id = str(event.get("item_id"))
        if response_id in dialogue.interrupted:
            return
        try:
            audio = base64.b64decode(event["delta"])
        except (binascii.Error, KeyError, TypeError, ValueError):
            self._outbox.add(signals.Counted("voice_errors"))
            return
        dialogue.timers.stop(*AWAITED)
        dialogue.has_output = dialogue.has_output or response_id == dialogue.gate.response_id
        if dialogue.phase == "leaving" and response_id != dialogue.before_goodbye:
            dialogue.said_goodbye = dialogue.leaving not in ("agent_hung_up", "transferred")
        if dialogue.playback.unplayed_s(now) > MAX_UNPLAYED_S:
            self._outbox.add(signals.Counted("voice_errors.too_much_audio"))
            return
        filler = response_id in dialogue.fillers
        if dialogue.stopped_at is not None and not filler:
            self._outbox.add(signals.Counted("voice_turn_seconds", now - dialogue.stopped_at))
            dialogue.stopped_at = None
        dialogue.play(
            dialogue.playback.received(item_id, response_id, audio, now, is_filler=filler), now
        )

    def _on_audio_done(self, event: Event, now: float) -> None:
        dialogue = self._dialogue
        if str(event.get("response_id")) not in dialogue.interrupted:
            dialogue.play(dialogue.playback.completed(str(event.get("item_id")), now), now)

    def _on_words(self, event: Event, now: float) -> None:
        dialogue = self._dialogue
        response_id = str(event.get("response_id"))
        item_id = str(event.get("item_id"))
        if response_id in dialogue.interrupted or response_id in dialogue.fillers:
            return
        dialogue.transcript.begin(item_id, "assistant", now - dialogue.began)
        if dialogue.transcript.add(item_id, str(event.get("delta") or "")):
            self._outbox.add(signals.WordsChanged(item_id))

    def _on_words_done(self, event: Event, now: float) -> None:  # noqa: ARG002
        item_id = str(event.get("item_id"))
        self._dialogue.timers.stop(*AWAITED)
        if self._dialogue.transcript.finish(item_id, str(event.get("transcript") or "")):
            self._outbox.add(signals.WordsChanged(item_id))

    def _on_text(self, event: Event, now: float) -> None:  # noqa: ARG002
        """Keeps a text-only answer, which nobody has heard yet."""
        dialogue = self._dialogue
        response_id = str(event.get("response_id"))
        item_id = str(event.get("item_id"))
        if response_id in dialogue.fillers:
            return
        dialogue.timers.stop(*AWAITED)
        whole = event.get("text")
        before = dialogue.texts.get(item_id, "")
        dialogue.texts[item_id] = (
            before + str(event.get("delta") or "") if whole is None else str(whole)
        )[:MAX_CHARS]

    def _speak_texts(self, now: float, *, are_wanted: bool) -> None:
        """Replaces the text-only answers of a response by spoken ones.

        Without `are_wanted` they are only deleted: the caller has interrupted them.
        """
        dialogue = self._dialogue
        texts = {item_id: text.strip() for item_id, text in dialogue.texts.items() if text.strip()}
        dialogue.texts.clear()
        for item_id in texts:
            self._outbox.send("conversation.item.delete", item_id=item_id)
        if not texts or not are_wanted:
            return
        if self._speaks_text:  # it was asked for speech already
            self._failures.response_refused(refusal_of(_TEXT_ONLY), now)
            return
        instruction = dialogue.session.text("voice_say_exactly", text=" ".join(texts.values()))
        dialogue.request = wire.spoken_response(instruction)
        if dialogue.phase == "open":
            dialogue.ask(now)
        elif dialogue.phase == "leaving" and dialogue.gate.ask(
            now, caller_speaks=dialogue.caller_speaks
        ):
            dialogue.request_response()

    def _on_caller_words(self, event: Event, now: float) -> None:
        dialogue = self._dialogue
        item_id = str(event.get("item_id"))
        dialogue.transcript.begin(item_id, "user", now - dialogue.began)
        final = not event["type"].endswith(".delta")
        if final:
            failed = event["type"].endswith(".failed")
            changed = dialogue.transcript.finish(
                item_id, None if failed else str(event.get("transcript") or "")
            )
        else:
            changed = dialogue.transcript.add(item_id, str(event.get("delta") or ""))
        if changed:
            self._outbox.add(signals.WordsChanged(item_id))

    def _on_created(self, event: Event, now: float) -> None:
        dialogue = self._dialogue
        response = cast(Event, event.get("response") or {})
        response_id = str(response.get("id"))
        if wire.is_filler(response):
            dialogue.fillers.add(response_id)
            return
        dialogue.unanswered = dialogue.has_output = False
        self._speaks_text = bool(dialogue.request)
        dialogue.request = {}
        dialogue.texts.clear()
        dialogue.gate.created(response_id)
        dialogue.timers.start("response", now)
        if dialogue.greeting == "":
            dialogue.greeting = response_id

    def _on_response_done(self, event: Event, now: float) -> None:
        dialogue = self._dialogue
        response = cast(Event, event.get("response") or {})
        response_id = str(response.get("id"))
        status = response.get("status")
        if response_id in dialogue.fillers:
            dialogue.fillers.discard(response_id)
            return
        is_last = dialogue.gate.done(response_id)
        if is_last:
            dialogue.timers.stop("response")
        dialogue.greeting_done(response_id)
        is_wanted = response_id not in dialogue.interrupted
        dialogue.interrupted.discard(response_id)
        if status == "failed":
            self._outbox.add(signals.Counted("voice_responses_failed"))
        refusal = _refusal_in(response)
        is_cut = status == "incomplete" and (dialogue.has_output or bool(dialogue.texts))
        if refusal is not None and is_last and not is_cut:
            self._speak_texts(now, are_wanted=False)
            dialogue.tools.take_round_done()  # the next response covers the round
            self._failures.response_refused(refusal, now)
            return
        if refusal is not None:
            self._failures.report(refusal)
        if status in ("completed", "incomplete"):
            dialogue.timers.stop(*AWAITED)
        if is_last and dialogue.texts:
            self._speak_texts(now, are_wanted=is_wanted and status != "cancelled")
        elif status == "completed":
            self._failures.service_works()
        self._after_response(now)

    def _after_response(self, now: float) -> None:
        """Continues after a response: sends outputs and asks for the next response if wanted."""
        dialogue = self._dialogue
        if dialogue.phase == "ended":
            return
        if (
            dialogue.unanswered
            and not dialogue.session.server_interrupts
            and not dialogue.caller_speaks
        ):
            dialogue.unanswered = False
            dialogue.gate.want()
        dialogue.send_outputs(now)
        dialogue.ask_if_wanted(now)

    def _on_item_done(self, event: Event, now: float) -> None:
        dialogue = self._dialogue
        item = cast(Event, event.get("item") or {})
        if item.get("type") != "function_call" or item.get("status") != "completed":
            return
        dialogue.timers.stop(*AWAITED)
        dialogue.has_output = True
        response_id = str(event.get("response_id"))
        self._outbox.add(*dialogue.tools.called(item, response_id, now))
        dialogue.send_outputs(now)

    def _on_silence(self, event: Event, now: float) -> None:
        self._silent_item = event.get("item_id")
        if self._dialogue.timers.asked_silent():
            self._dialogue.leave_politely("caller_silent", now)

    def _on_session_created(self, event: Event, now: float) -> None:
        dialogue = self._dialogue
        if dialogue.phase != "opening":  # a repeated event
            return
        expires = cast(Event, event.get("session") or {}).get("expires_at")
        if isinstance(expires, int | float):
            dialogue.timers.shorten(expires - self._wall)
        dialogue.timers.stop(*AWAITED)
        self._failures.open_session(now)

    def _on_session_updated(self, event: Event, now: float) -> None:  # noqa: ARG002
        dialogue = self._dialogue
        if dialogue.phase != "opening":
            return
        dialogue.timers.stop("opening", "session_again")
        again = self._was_open
        self._was_open = True
        dialogue.session_opened()
        if again:
            self._restore()
        audio = b"".join(map(_decoded, dialogue.early_audio.take()))
        if audio:
            self._outbox.add(
                signals.SendModel(wire.append_frame(base64.b64encode(audio).decode("ascii")))
            )
        if again:
            dialogue.tools.take_round_done()  # its outputs were sent as messages
            dialogue.say_to_model("system", dialogue.session.text("voice_go_on"))
            dialogue.ask(now)
        elif dialogue.session.note is not None:
            self._restore()
            dialogue.say_to_model("system", dialogue.session.note)
            dialogue.ask(now)
        elif dialogue.session.greeting:
            dialogue.greeting = ""
            dialogue.timers.start("ask_again", now)
            dialogue.say_to_model("user", dialogue.session.greeting)
            dialogue.ask(now)

    def _restore(self) -> None:
        """Gives a new session the transcript, and outputs of earlier tool calls as messages."""
        dialogue = self._dialogue
        spoken = ((entry.role, entry.text) for entry in dialogue.transcript.ordered())
        for role, words in (*dialogue.session.earlier, *spoken):
            self._outbox.send("conversation.item.create", item=wire.text_item(role, words))
        for output in dialogue.tools.orphaned():
            dialogue.say_to_model("system", output)

    def response_never_ended(self, now: float) -> None:
        """Continues without the end of a response that no longer sends events."""
        dialogue = self._dialogue
        response_id = dialogue.gate.response_id
        if response_id is None:
            return
        self._outbox.send("response.cancel", response_id=response_id)
        for item_id in list(dialogue.playback.items):
            dialogue.play(dialogue.playback.completed(item_id, now), now)
        dialogue.interrupted.add(response_id)
        dialogue.gate.done(response_id)
        dialogue.timers.stop(*AWAITED)
        if dialogue.texts:
            self._speak_texts(now, are_wanted=True)
        elif not dialogue.has_output:
            self._failures.response_refused(refusal_of(_NEVER_ENDED), now)
            return
        self._after_response(now)

    def _on_speech_started(self, event: Event, now: float) -> None:
        dialogue = self._dialogue
        dialogue.caller_started()
        dialogue.transcript.begin(str(event.get("item_id")), "user", now - dialogue.began)
        is_speaking = dialogue.playback.is_playing or dialogue.gate.state == "active"
        if dialogue.phase == "leaving" or not is_speaking:
            return
        barge_in = dialogue.session.options.barge_in
        since = dialogue.playing_since
        guarded = since is not None and now - since < barge_in.guard_ms / 1000
        protected = not dialogue.session.greeting_is_interruptible and dialogue.in_greeting()
        if barge_in.mode == "off" or guarded or protected:
            return
        if barge_in.mode == "confirmed":
            dialogue.confirm_at = now + barge_in.min_speech_ms / 1000
        else:
            dialogue.interrupt(now)

    def _on_speech_stopped(self, event: Event, now: float) -> None:  # noqa: ARG002
        self._dialogue.caller_stopped(now)

    def _on_committed(self, event: Event, now: float) -> None:
        dialogue = self._dialogue
        dialogue.transcript.begin(
            str(event.get("item_id")),
            "user",
            now - dialogue.began,
            after=event.get("previous_item_id"),
        )
        dialogue.unanswered = dialogue.gate.state != "idle"
        is_silent = event.get("item_id") == self._silent_item
        self._silent_item = None
        if (
            not self._failures.transcribes
            and not is_silent
            and dialogue.transcript.finish(str(event.get("item_id")), None)
        ):
            self._outbox.add(signals.WordsChanged(str(event.get("item_id"))))


def _refusal_in(response: Event) -> ModelRefusal | None:
    """Returns why a response failed or is incomplete, None if it is neither."""
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


def _is_well_formed(event: Event) -> bool:
    """Returns True if the fields read here have the expected types."""
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
