"""One session of the double: what it does about each event of the client.

Nothing here waits. Source: OpenAI API reference, "Realtime"; recorded sessions for the order of events; codes
and texts of errors as seen in public reports.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import orjson

from graphrag.voice.realtime.double_state import Event, EventRefused, merged, new_id
from graphrag.voice.realtime.double_turns import DoubleTurns
from graphrag.voice.realtime.minds import words_of
from graphrag.voice.realtime.voice_activity import FORMATS


class DoubleSession(DoubleTurns):
    """A session. `refusal`: the code for which the connection is closed once its events are sent."""

    refusal: str | None = None

    def begin(self) -> None:
        """Greet the client, or refuse it."""
        if self.faults.refused_code:
            self._refuse(self.faults.refused_code, "The double refuses this connection.")
        else:
            self.emit("session.created", session=self.session)

    def expire(self) -> None:
        self._refuse("session_expired", "Your session hit the maximum duration of 60 minutes.")

    def _refuse(self, code: str, message: str) -> None:
        self.refusal = code
        self.emit_error(code, message)

    def receive(self, raw: str | bytes) -> None:
        """React to a frame of the client; what is wrong with it is said by an `error` event."""
        event: Event = {}
        try:
            event = _parsed(raw)
            self._take(event)
        except EventRefused as error:
            caused_by = event.get("event_id")
            self.emit_error(error.code, error.message, caused_by=caused_by, param=error.param)
        except KeyError as error:
            self.emit_error(
                "missing_required_parameter",
                f"Missing required parameter: {error}.",
                caused_by=event.get("event_id"),
                param=str(error.args[0]),
            )
        except (AttributeError, TypeError, ValueError) as error:
            self.emit_error("invalid_value", f"Invalid event: {error}", caused_by=event.get("event_id"))

    def _take(self, event: Event) -> None:
        kind = event["type"]
        if kind != "input_audio_buffer.append":
            self.received.append(event)
        if kind in self.faults.ignored:
            return
        if code := self.faults.errors.get(kind):
            raise EventRefused(code, "The double was asked to fail here.")
        _HANDLERS[kind](self, event)

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

    def on_item(self, event: Event) -> None:
        item: Event = {"id": new_id("item"), "status": "completed", **event["item"]}
        missing = [name for name in _PARTS[item["type"]] if name not in item]
        if missing:
            raise KeyError(missing[0])
        words_of(item)  # which is an error where the content has another form
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
        item, wanted = self._known(event["item_id"], "truncate"), int(event["audio_end_ms"])
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
        where = {"item_id": item["id"], "content_index": event["content_index"], "audio_end_ms": wanted}
        self.emit("conversation.item.truncated", **where)

    def on_delete(self, event: Event) -> None:
        self.items.remove(self._known(event["item_id"], "delete"))
        self.emit("conversation.item.deleted", item_id=event["item_id"])

    def on_retrieve(self, event: Event) -> None:
        self.emit("conversation.item.retrieved", item=self._known(event["item_id"], "retrieve"))

    def _known(self, item_id: str, verb: str) -> Event:
        item = self.item(item_id)
        if item is None:
            why = f"Error {verb[:-1]}ing item: the item with id '{item_id}' does not exist."
            raise EventRefused(f"item_{verb}_invalid_item_id", why, "item_id")
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
        running = [run for run in (self.active, self.beside) if run is not None and wanted in (None, run.id)]
        if not running:
            raise EventRefused("response_cancel_not_active", "Cancellation failed: no active response found")
        running[0].cancel("client_cancelled")


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
_PARTS: Mapping[str, Sequence[str]] = {
    "message": ("role", "content"),
    "function_call": ("call_id", "name", "arguments"),
    "function_call_output": ("call_id", "output"),
}
