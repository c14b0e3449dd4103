"""One session of the double: what it does about each event of the client, and about the caller's speech.

Nothing here waits. Source: OpenAI API reference, "Realtime"; recorded sessions for the order of events; codes
and texts of errors as seen in public reports.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Any, cast

import orjson

from graphrag.voice.realtime.double_responses import DoubleResponse
from graphrag.voice.realtime.double_state import DoubleState, Event, merged, new_id
from graphrag.voice.realtime.minds import words_of
from graphrag.voice.realtime.voice_activity import FORMATS


class EventRefused(Exception):
    """Raised where an event of the client is answered by an error."""

    def __init__(self, code: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.code, self.message, self.param = code, message, param


class DoubleSession(DoubleState):
    """A session. `active`: the response of the conversation that is being made, None where none is.

    `is_refused`: the connection is closed once its events are sent.
    """

    is_refused = False
    active: DoubleResponse | None = None
    _beside: DoubleResponse | None = None
    _speech_id = ""
    _speech_ms = 0
    _committed_ms = 0
    _asked_silent_ms: int | None = None
    _words_to_tell: Callable[[], None] | None = None

    def begin(self) -> None:
        """Greet the client, or refuse it."""
        if self.faults.refused_code:
            self.is_refused = True
            self.emit_error(self.faults.refused_code, "The double refuses this connection.")
        else:
            self.emit("session.created", session=self.session)

    def expire(self) -> None:
        self.is_refused = True
        self.emit_error("session_expired", "Your session hit the maximum duration of 60 minutes.")

    def receive(self, raw: str | bytes) -> None:
        """React to a frame of the client; what is wrong with it is said by an `error` event."""
        event: Event = {}
        try:
            event = _parsed(raw)
            self._take(event)
        except EventRefused as error:
            caused_by = event.get("event_id")
            self.emit_error(error.code, error.message, caused_by=caused_by, param=error.param)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            why = f"Invalid event: {type(error).__name__} {error}"
            self.emit_error("invalid_value", why, caused_by=event.get("event_id"))

    def _take(self, event: Event) -> None:
        kind = event["type"]
        if kind != "input_audio_buffer.append":
            self.received.append(event)
        if kind in self.faults.ignored:
            return
        if code := self.faults.errors.get(kind):
            raise EventRefused(code, "The double was asked to fail here.")
        _HANDLERS[kind](self, event)

    # The session and the caller's sound

    def on_update(self, event: Event) -> None:
        changed = merged(self.session, event["session"])
        for side in ("input", "output"):
            wanted = changed["audio"][side]["format"].get("type")
            if wanted not in FORMATS:
                raise EventRefused(
                    "invalid_value",
                    f"Invalid value: '{wanted}'. Supported values are: 'audio/pcm' and 'audio/pcmu'.",
                    f"session.audio.{side}.format.type",
                )
            if wanted != "audio/pcm":
                changed["audio"][side]["format"] = {"type": wanted}
        self.session = changed
        self.emit("session.updated", session=changed)

    def on_sound(self, event: Event) -> None:
        try:
            sound = base64.b64decode(event["audio"], validate=True)
        except (binascii.Error, TypeError, ValueError):
            raise EventRefused("invalid_value", "Invalid 'audio'. Expected base64.", "audio") from None
        detection = self.sound_in["turn_detection"]
        for edge in self.activity.take(sound, self.format_in, detection or {}):
            if not detection:
                continue
            if edge.kind == "started":
                self._speech_started(edge.at_ms)
            else:
                self.emit(
                    "input_audio_buffer.speech_stopped", audio_end_ms=edge.at_ms, item_id=self._speech_id
                )
                self._commit(edge.at_ms - self._speech_ms, answers=detection["create_response"])
        if detection:
            self._look_for_silence(detection.get("idle_timeout_ms"))

    def on_clear(self, event: Event) -> None:  # noqa: ARG002 - one form for all
        self.activity.clear()
        self._committed_ms = self.activity.heard_ms
        self.emit("input_audio_buffer.cleared")

    def on_commit(self, event: Event) -> None:  # noqa: ARG002
        length_ms = self.activity.heard_ms - self._committed_ms
        if length_ms < 100:
            raise EventRefused(
                "input_audio_buffer_commit_empty",
                "Error committing input audio buffer: buffer too small. Expected at least 100ms of audio, "
                f"but buffer only has {length_ms:.2f}ms of audio.",
            )
        self._speech_id = new_id("item")
        self._commit(length_ms, answers=False)

    def _speech_started(self, at_ms: int) -> None:
        self._speech_id, self._speech_ms, self._asked_silent_ms = new_id("item"), at_ms, None
        self.emit("input_audio_buffer.speech_started", audio_start_ms=at_ms, item_id=self._speech_id)
        if self.active is not None and self.sound_in["turn_detection"]["interrupt_response"]:
            self.active.cancel("turn_detected")

    def _look_for_silence(self, idle_ms: int | None) -> None:
        since = self._asked_silent_ms
        if since is None or idle_ms is None or self.active is not None or self.activity.is_speaking:
            return
        now = self.activity.heard_ms
        if now < since + idle_ms:
            return
        self._asked_silent_ms, self._speech_id = None, new_id("item")
        where = {"audio_start_ms": since, "audio_end_ms": now, "item_id": self._speech_id}
        self.emit("input_audio_buffer.timeout_triggered", **where)
        self._commit(idle_ms, answers=True, is_silent=True)

    def _commit(self, length_ms: int, *, answers: bool, is_silent: bool = False) -> None:
        """Make an item of the sound; what was said in it becomes known with the answer or after it."""
        self._committed_ms = self.activity.heard_ms
        part: Event = {"type": "input_audio", "transcript": None}
        item: Event = {
            "id": self._speech_id,
            "type": "message",
            "status": "completed",
            "role": "user",
            "content": [part],
        }
        before = self.items[-1]["id"] if self.items else None
        self.emit("input_audio_buffer.committed", previous_item_id=before, item_id=item["id"])
        self.add_item(item)
        self.emit("conversation.item.done", previous_item_id=before, item=item)
        part["transcript"] = words = "" if is_silent else self.setup.hear()
        if self.sound_in["transcription"] and not is_silent:
            self._words_to_tell = lambda: self._tell_words(item["id"], words, length_ms)
        if answers and self.active is None:
            self._respond({})
        if not self.faults.late_words or self.active is None:
            self._tell()

    def _tell(self) -> None:
        tell, self._words_to_tell = self._words_to_tell, None
        if tell is not None:
            tell()

    def _tell_words(self, item_id: str, words: str, length_ms: int) -> None:
        where = {"item_id": item_id, "content_index": 0}
        kind = "conversation.item.input_audio_transcription"
        if self.faults.failed_words:
            error = {
                "type": "transcription_error",
                "code": "audio_unintelligible",
                "message": "",
                "param": None,
            }
            self.emit(f"{kind}.failed", **where, error=error)
            return
        for place, word in enumerate(words.split()):
            self.emit(f"{kind}.delta", **where, delta=f" {word}" if place else word)
        usage = {"type": "duration", "seconds": max(1, round(length_ms / 1000))}
        self.emit(f"{kind}.completed", **where, transcript=words, usage=usage)

    # The conversation

    def on_item(self, event: Event) -> None:
        item: Event = {"id": new_id("item"), "status": "completed", **event["item"]}
        if item["type"] == "function_call_output":
            item.pop("status")
            if all(known.get("call_id") != item["call_id"] for known in self.items):
                why = f"Tool call ID '{item['call_id']}' not found in conversation."
                raise EventRefused("invalid_tool_call_id", why, "item.call_id")
        after = event.get("previous_item_id")
        if after is not None and after != "root":
            place = self.items.index(self._known(after, "create")) + 1
        else:
            place = len(self.items) if after is None else 0
        before = self.add_item(item, place)
        self.emit("conversation.item.done", previous_item_id=before, item=item)

    def on_truncate(self, event: Event) -> None:
        item, wanted = self._known(event["item_id"], "truncate"), event["audio_end_ms"]
        if not any(part["type"] == "output_audio" for part in item.get("content", ())):
            raise EventRefused(
                "unsupported_content_type", "Only model output audio messages can be truncated"
            )
        length = int(self.sound_ms.get(item["id"], 0))
        if wanted > length:
            raise EventRefused(
                "invalid_value", f"Audio content of {length}ms is already shorter than {wanted}ms"
            )
        words, part = words_of(item), item["content"][0]
        part["transcript"] = words[: len(words) * wanted // max(1, length)]
        self.sound_ms[item["id"]] = wanted
        where = {"item_id": item["id"], "content_index": 0, "audio_end_ms": wanted}
        self.emit("conversation.item.truncated", **where)

    def on_delete(self, event: Event) -> None:
        self.items.remove(self._known(event["item_id"], "delete"))
        self.emit("conversation.item.deleted", item_id=event["item_id"])

    def on_retrieve(self, event: Event) -> None:
        self.emit("conversation.item.retrieved", item=self._known(event["item_id"], "retrieve"))

    def _known(self, item_id: str, verb: str) -> Event:
        item = self.item(item_id)
        if item is None:
            doing = {
                "delete": "deleting",
                "truncate": "truncating",
                "retrieve": "retrieving",
                "create": "creating",
            }
            why = f"Error {doing[verb]} item: the item with id '{item_id}' does not exist."
            raise EventRefused(f"item_{verb}_invalid_item_id", why, "item_id")
        return item

    # Responses

    def on_respond(self, event: Event) -> None:
        asked = cast(Event, event.get("response") or {})
        if self.active is not None and asked.get("conversation") != "none":
            raise EventRefused(
                "conversation_already_has_active_response",
                f"Conversation already has an active response in progress: {self.active.id}. "
                "Wait until the response is finished before creating a new one.",
            )
        self._respond(asked)

    def on_cancel(self, event: Event) -> None:
        wanted = event.get("response_id")
        running = [run for run in (self.active, self._beside) if run is not None and wanted in (None, run.id)]
        if not running:
            raise EventRefused("response_cancel_not_active", "Cancellation failed: no active response found")
        running[0].cancel("client_cancelled")

    def _respond(self, asked: Mapping[str, Any]) -> None:
        response = DoubleResponse(self, asked, self._over)
        if response.is_beside:
            self._beside = response
        else:
            self.active = response
        response.begin()

    def _over(self, response: DoubleResponse) -> None:
        if response is self._beside:
            self._beside = None
        if response is self.active:
            self.active = None
            self._asked_silent_ms = round(self.activity.heard_ms + response.sound_ms)
            self._tell()


def _parsed(raw: str | bytes) -> Event:
    """Return an event with all that its type needs. Raises: EventRefused."""
    try:
        parsed: Any = orjson.loads(raw)
    except ValueError:
        parsed = None
    if not isinstance(parsed, dict):
        raise EventRefused("invalid_json", "The event is no JSON object.")
    event = cast(Event, parsed)
    kind = event.get("type")
    if not isinstance(kind, str) or kind not in _HANDLERS:
        known = ", ".join(f"'{name}'" for name in _HANDLERS)
        raise EventRefused(
            "invalid_value", f"Invalid value: '{kind}'. Supported values are: {known}.", "type"
        )
    for name, wanted in _NEEDED.get(kind, {}).items():
        if not isinstance(event.get(name), wanted):
            raise EventRefused("missing_required_parameter", f"Missing required parameter: '{name}'.", name)
    return event


_HANDLERS: Mapping[str, Callable[[DoubleSession, Event], None]] = {
    "session.update": DoubleSession.on_update,
    "input_audio_buffer.append": DoubleSession.on_sound,
    "input_audio_buffer.clear": DoubleSession.on_clear,
    "input_audio_buffer.commit": DoubleSession.on_commit,
    "conversation.item.create": DoubleSession.on_item,
    "conversation.item.truncate": DoubleSession.on_truncate,
    "conversation.item.delete": DoubleSession.on_delete,
    "conversation.item.retrieve": DoubleSession.on_retrieve,
    "response.create": DoubleSession.on_respond,
    "response.cancel": DoubleSession.on_cancel,
}
_NEEDED: Mapping[str, Mapping[str, type]] = {
    "session.update": {"session": dict},
    "input_audio_buffer.append": {"audio": str},
    "conversation.item.create": {"item": dict},
    "conversation.item.truncate": {"item_id": str, "content_index": int, "audio_end_ms": int},
    "conversation.item.delete": {"item_id": str},
    "conversation.item.retrieve": {"item_id": str},
}
