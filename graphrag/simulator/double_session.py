"""One session of the double: its conversation, and its reactions to events of the client.

Nothing here blocks. Source: OpenAI API reference, "Realtime"; recorded sessions for the order of
events; codes and texts of errors as seen in public reports.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import orjson

from graphrag.simulator.double_responses import DoubleResponse, Event, merged, new_id
from graphrag.simulator.minds import Mind, words_of
from graphrag.simulator.voice_activity import VoiceActivity

KEPT_EVENTS = 2_000
MAX_WAITING = 64  # queued events; then speaking and reading pause for a slow reader
LIFETIME_S = 3_600.0
FORMAT = {"type": "audio/pcmu"}  # the only supported audio format

# Starts a task that ends with the connection.
Start = Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class DoubleSetup:
    """Settings shared by the sessions of a double.

    `voice` returns μ-law sound of a text in a language, `hear` the words of the next segment of
    speech. `rate`: speed of sent sound relative to its playback, None for no limit.
    """

    mind: Mind
    voice: Callable[[str, str], Awaitable[bytes]]
    hear: Callable[[], str]
    rate: float | None = None


class EventRefused(Exception):
    """Raised for an event of the client that is answered by an error."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class DoubleSession:
    """A session.

    `active`: response of the conversation in progress. `beside`: response outside the conversation.
    `received`: the last 2,000 events of the client except sound. `errors`: number of sent errors by
    code. `sound_ms`: length of the sent sound by item. `refusal`: code with which the connection is
    closed after its events are sent.
    """

    def __init__(self, model: str, setup: DoubleSetup, start: Start) -> None:
        self.setup = setup
        self.start = start
        self.out = asyncio.Queue[bytes]()
        self.has_room = asyncio.Event()
        self.has_room.set()
        self.conversation_id = new_id("conv")
        self.items: list[Event] = []
        self.sound_ms: dict[str, float] = {}
        self.received: deque[Event] = deque(maxlen=KEPT_EVENTS)
        self.errors = Counter[str]()
        self.refusal: str | None = None
        self.activity = VoiceActivity()
        self.active: DoubleResponse | None = None
        self.beside: DoubleResponse | None = None
        self._speech_id, self._speech_ms = "", 0
        self._silent_since_ms: int | None = None
        self.session = _new_session(model)

    @property
    def sound_in(self) -> Mapping[str, Any]:
        return cast(Event, self.session["audio"]["input"])

    @property
    def language(self) -> str:
        """Language of the transcription, English by default."""
        return str(cast(Event, self.sound_in["transcription"] or {}).get("language") or "en")

    def begin(self) -> None:
        """Sends `session.created`."""
        self.emit("session.created", session=self.session)

    def expire(self) -> None:
        """Ends the session at its maximum duration."""
        self.refuse("session_expired", "Your session hit the maximum duration of 60 minutes.")

    def refuse(self, code: str, message: str) -> None:
        """Sends an error, then closes the connection."""
        self.refusal = code
        self._emit_error(code, message)

    def emit(self, kind: str, **fields: Any) -> None:
        """Queues an event with the current state of its fields."""
        self.out.put_nowait(orjson.dumps({"type": kind, "event_id": new_id("event"), **fields}))
        if self.out.qsize() >= MAX_WAITING:
            self.has_room.clear()

    def _emit_error(self, code: str, message: str, caused_by: Any = None) -> None:
        self.errors[code] += 1
        kind = "server_error" if code == "server_error" else "invalid_request_error"
        error = {
            "type": kind,
            "code": code,
            "message": message,
            "param": None,
            "event_id": caused_by,
        }
        self.emit("error", error=error)

    def add_item(self, item: Event) -> str | None:
        """Adds an item to the conversation and announces it. Returns the id of its predecessor."""
        before = self.items[-1]["id"] if self.items else None
        self.items.append(item)
        self.emit("conversation.item.added", previous_item_id=before, item=item)
        return before

    # -- events of the client

    def receive(self, raw: str | bytes) -> None:
        """Handles a frame of the client. An invalid frame is answered by an `error` event."""
        event: Event = {}
        try:
            event = _parsed(raw)
            if event["type"] != "input_audio_buffer.append":
                self.received.append(event)
            self.take(event)
        except EventRefused as error:
            self._emit_error(error.code, str(error), event.get("event_id"))
        except KeyError as error:
            missing = f"Missing required parameter: {error}."
            self._emit_error("missing_required_parameter", missing, event.get("event_id"))
        except (AttributeError, TypeError, ValueError) as error:
            self._emit_error("invalid_value", f"Invalid event: {error}", event.get("event_id"))

    def take(self, event: Event) -> None:
        """Handles an event. Raises: EventRefused."""
        _HANDLERS[event["type"]](self, event)

    def on_update(self, event: Event) -> None:
        changed = merged(self.session, event["session"])
        for side in ("input", "output"):
            wanted = changed["audio"][side]["format"].get("type")
            if wanted != FORMAT["type"]:
                raise EventRefused(
                    "invalid_value", f"Invalid value: '{wanted}'. Expected 'audio/pcmu'."
                )
        self.session = changed
        self.emit("session.updated", session=changed)

    def on_sound(self, event: Event) -> None:
        try:
            sound = base64.b64decode(event["audio"], validate=True)
        except (binascii.Error, TypeError, ValueError):
            raise EventRefused("invalid_value", "Invalid 'audio'. Expected base64.") from None
        detection = self.sound_in["turn_detection"]
        for edge in self.activity.take(sound, detection or {}):
            if detection and edge.kind == "started":
                self._speech_started(edge.at_ms, interrupts=detection["interrupt_response"])
            elif detection:
                where = {"audio_end_ms": edge.at_ms, "item_id": self._speech_id}
                self.emit("input_audio_buffer.speech_stopped", **where)
                self._commit(edge.at_ms - self._speech_ms, answers=detection["create_response"])
        if detection:
            self._look_for_silence(detection.get("idle_timeout_ms"))

    def on_clear(self, event: Event) -> None:  # noqa: ARG002 - signature of the handlers
        self.activity.clear()
        self.emit("input_audio_buffer.cleared")

    def on_item(self, event: Event) -> None:
        item: Event = {"id": new_id("item"), "status": "completed", **event["item"]}
        missing = [name for name in _PARTS[item["type"]] if name not in item]
        if missing:
            raise KeyError(missing[0])
        words_of(item)  # raises for malformed content
        if item["type"] == "function_call_output":
            item.pop("status")
            if all(other.get("call_id") != item["call_id"] for other in self.items):
                why = f"Tool call ID '{item['call_id']}' not found in conversation."
                raise EventRefused("invalid_tool_call_id", why)
        before = self.add_item(item)
        self.emit("conversation.item.done", previous_item_id=before, item=item)

    def on_truncate(self, event: Event) -> None:
        item = self._known(event["item_id"], "truncate")
        wanted = int(event["audio_end_ms"])
        if not any(part["type"] == "output_audio" for part in item.get("content", ())):
            why = "Only model output audio messages can be truncated"
            raise EventRefused("unsupported_content_type", why)
        length = int(self.sound_ms.get(item["id"], 0))
        if wanted > length:
            why = f"Audio content of {length}ms is already shorter than {wanted}ms"
            raise EventRefused("invalid_value", why)
        words = words_of(item)
        part = item["content"][0]
        part["transcript"] = words[: len(words) * wanted // max(1, length)]
        self.sound_ms[item["id"]] = wanted
        where = {
            "item_id": item["id"],
            "content_index": event["content_index"],
            "audio_end_ms": wanted,
        }
        self.emit("conversation.item.truncated", **where)

    def on_delete(self, event: Event) -> None:
        self.items.remove(self._known(event["item_id"], "delete"))
        self.emit("conversation.item.deleted", item_id=event["item_id"])

    def _known(self, item_id: str, verb: str) -> Event:
        item = next((item for item in self.items if item["id"] == item_id), None)
        if item is None:
            why = f"Error {verb[:-1]}ing item: the item with id '{item_id}' does not exist."
            raise EventRefused(f"item_{verb}_invalid_item_id", why)
        return item

    def on_respond(self, event: Event) -> None:
        asked = cast(Event, event.get("response") or {})
        if self.active is not None and asked.get("conversation") != "none":
            raise EventRefused(
                "conversation_already_has_active_response",
                f"Conversation already has an active response in progress: {self.active.id}. "
                "Wait until the response is finished before creating a new one.",
            )
        self.respond(asked)

    def on_cancel(self, event: Event) -> None:
        wanted = event.get("response_id")
        running = [
            run
            for run in (self.active, self.beside)
            if run is not None and wanted in (None, run.id)
        ]
        if not running:
            raise EventRefused(
                "response_cancel_not_active", "Cancellation failed: no active response found"
            )
        running[0].cancel("client_cancelled")

    # -- turns

    def _speech_started(self, at_ms: int, *, interrupts: bool) -> None:
        self._speech_id = new_id("item")
        self._speech_ms = at_ms
        self._silent_since_ms = None
        self.emit(
            "input_audio_buffer.speech_started", audio_start_ms=at_ms, item_id=self._speech_id
        )
        if self.active is not None and interrupts:
            self.active.cancel("turn_detected")

    def _look_for_silence(self, idle_ms: int | None) -> None:
        since = self._silent_since_ms
        now = self.activity.heard_ms
        if since is None or idle_ms is None or self.active is not None or self.activity.is_speaking:
            return
        if now < since + idle_ms:
            return
        self._silent_since_ms, self._speech_id = None, new_id("item")
        where = {"audio_start_ms": since, "audio_end_ms": now, "item_id": self._speech_id}
        self.emit("input_audio_buffer.timeout_triggered", **where)
        self._commit(idle_ms, answers=True, is_silent=True)

    def _commit(self, length_ms: int, *, answers: bool, is_silent: bool = False) -> None:
        """Commits the sound as an item. Its words follow after the answer has begun."""
        part: Event = {"type": "input_audio", "transcript": None}
        about = {"type": "message", "status": "completed", "role": "user", "content": [part]}
        item: Event = {"id": self._speech_id, **about}
        before = self.items[-1]["id"] if self.items else None
        self.emit("input_audio_buffer.committed", previous_item_id=before, item_id=item["id"])
        self.add_item(item)
        self.emit("conversation.item.done", previous_item_id=before, item=item)
        part["transcript"] = words = "" if is_silent else self.setup.hear()
        if answers and self.active is None:
            self.respond({})
        if self.sound_in["transcription"] and not is_silent:
            self._write_words(item["id"], words, length_ms)

    def _write_words(self, item_id: str, words: str, length_ms: int) -> None:
        where = {"item_id": item_id, "content_index": 0}
        kind = "conversation.item.input_audio_transcription"
        for place, word in enumerate(words.split()):
            self.emit(f"{kind}.delta", **where, delta=f" {word}" if place else word)
        usage = {"type": "duration", "seconds": max(1, round(length_ms / 1000))}
        self.emit(f"{kind}.completed", **where, transcript=words, usage=usage)

    def respond(self, asked: Mapping[str, Any]) -> None:
        """Starts a response."""
        response = DoubleResponse(self, asked)
        if response.is_beside:
            self.beside = response
        else:
            self.active = response
        response.begin()

    def response_over(self, response: DoubleResponse) -> None:
        """Records the end of a response, which begins the silence of the caller."""
        if response is self.beside:
            self.beside = None
        if response is self.active:
            self.active = None
            self._silent_since_ms = round(self.activity.heard_ms + response.sound_ms)


def _new_session(model: str) -> Event:
    """Returns a new session with the values of recorded sessions."""
    detection = {
        "type": "server_vad",
        "threshold": 0.5,
        "prefix_padding_ms": 300,
        "silence_duration_ms": 200,
        "idle_timeout_ms": None,
        "create_response": True,
        "interrupt_response": True,
    }
    sound_in = {
        "format": FORMAT,
        "transcription": None,
        "noise_reduction": None,
        "turn_detection": detection,
    }
    return {
        "type": "realtime",
        "object": "realtime.session",
        "id": new_id("sess"),
        "model": model,
        "output_modalities": ["audio"],
        "instructions": "You are a helpful assistant.",
        "tools": [],
        "tool_choice": "auto",
        "max_output_tokens": "inf",
        "truncation": "auto",
        "expires_at": int(time.time() + LIFETIME_S),
        "audio": {"input": sound_in, "output": {"format": FORMAT, "voice": "alloy", "speed": 1.0}},
    }


def _parsed(raw: str | bytes) -> Event:
    """Returns a parsed event of a supported type. Raises: EventRefused."""
    try:
        parsed: Any = orjson.loads(raw)
    except ValueError:
        parsed = None
    if not isinstance(parsed, dict):
        raise EventRefused("invalid_json", "The event is no JSON object.")
    event = cast(Event, parsed)
    kind = event.get("type")
    if not isinstance(kind, str) or kind not in _HANDLERS:
        raise EventRefused(
            "invalid_value", f"Invalid value: '{kind}'. Supported: {', '.join(_HANDLERS)}."
        )
    return event


_HANDLERS: Mapping[str, Callable[[DoubleSession, Event], None]] = {
    "session.update": DoubleSession.on_update,
    "input_audio_buffer.append": DoubleSession.on_sound,
    "input_audio_buffer.clear": DoubleSession.on_clear,
    "conversation.item.create": DoubleSession.on_item,
    "conversation.item.truncate": DoubleSession.on_truncate,
    "conversation.item.delete": DoubleSession.on_delete,
    "response.create": DoubleSession.on_respond,
    "response.cancel": DoubleSession.on_cancel,
}
_PARTS: Mapping[str, Sequence[str]] = {
    "message": ("role", "content"),
    "function_call": ("call_id", "name", "arguments"),
    "function_call_output": ("call_id", "output"),
}
