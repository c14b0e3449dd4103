"""One response of the double: its items with their sound and words, and its end.

The order of events follows recorded sessions. An interrupted response closes its open item.
"""

from __future__ import annotations

import asyncio
import base64
import re
import secrets
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Literal, cast

from graphrag.llm.errors import ModelError
from graphrag.simulator.minds import CallsTool, Reply, Says, quoted, words_of

if TYPE_CHECKING:
    from graphrag.simulator.double_session import DoubleSession

BYTES_A_MS = 8
DELTA_BYTES = 200 * BYTES_A_MS
_WORD = re.compile(r"\s*\S+\s*$|\s*\S+")

Event = dict[str, Any]


def new_id(kind: str) -> str:
    """Returns a random id with a prefix."""
    return f"{kind}_{secrets.token_hex(10)}"


def merged(old: Mapping[str, Any], new: Mapping[str, Any]) -> Event:
    """Returns `old` recursively updated by `new`."""
    changed: Event = {**old}
    for name, value in new.items():
        before = old.get(name)
        if isinstance(value, dict) and isinstance(before, dict):
            changed[name] = merged(cast(Event, before), cast(Event, value))
        else:
            changed[name] = value
    return changed


class DoubleResponse:
    """A response in progress.

    `asked`: fields of `response.create`. `is_beside`: the response is outside the conversation.
    """

    def __init__(self, state: DoubleSession, asked: Mapping[str, Any]) -> None:
        self.state = state
        self.asked = asked
        self.id = new_id("resp")
        self.is_beside = asked.get("conversation") == "none"
        self.output: list[Event] = []
        self.sound_ms = 0.0
        self.is_over = False
        self._settings = merged(state.session, {k: v for k, v in asked.items() if v is not None})
        self._open: Event | None = None
        self._before: str | None = None
        state.emit("response.created", response=self._resource("in_progress"))

    def begin(self) -> None:
        """Starts the response."""
        self._task = self.state.start(self._run())

    def fail(self, status: Literal["failed", "incomplete"], **details: Any) -> None:
        """Ends a response that has not begun, with the details of a server."""
        self._end(status, **details)

    def cancel(self, reason: str) -> None:
        """Stops the response and closes its open item."""
        self._task.cancel()
        if not self.is_over:
            self._end("cancelled", reason=reason)

    async def _run(self) -> None:
        try:
            reply = await self._reply()
        except ModelError:
            why = "The server had an error while processing your request."
            self._end(
                "failed", error={"type": "server_error", "code": "server_error", "message": why}
            )
            return
        for part in reply:
            if isinstance(part, CallsTool):
                await self._call(part)
            else:
                await self._say(part)
        self._end("completed")

    async def _reply(self) -> Reply:
        instructions = str(self.asked.get("instructions") or "")
        reads = self.asked.get("input", () if self.is_beside else None)
        if instructions and reads is not None and not reads:  # only instructions: they are spoken
            return (Says(quoted(instructions)),)
        given = cast(Sequence[Event] | None, self.asked.get("input"))
        items = self.state.items if given is None else given
        offered = self._settings["tool_choice"] != "none"
        tools = cast(Sequence[Event], self._settings["tools"] if offered else ())
        return await self.state.setup.mind.reply(
            self._settings["instructions"], tuple(items), tools
        )

    async def _say(self, part: Says) -> None:
        """Sends a message word by word, with sound unless only text is requested."""
        state = self.state
        sound = b""
        kind = "text"
        if self._settings["output_modalities"] != ["text"]:
            sound = await state.setup.voice(part.text, state.language)
            kind = "audio"
        words = "transcript" if kind == "audio" else "text"
        message: Event = {
            "type": "message",
            "status": "in_progress",
            "role": "assistant",
            "content": [],
        }
        item = self._begin({"id": new_id("item"), **message})
        item["content"].append({"type": f"output_{kind}", words: ""})
        self._emit("response.content_part.added", part={"type": kind, words: ""})
        event = (
            "response.output_audio_transcript.delta"
            if kind == "audio"
            else "response.output_text.delta"
        )
        pieces = [sound[at : at + DELTA_BYTES] for at in range(0, len(sound), DELTA_BYTES)]
        for word, piece in zip_longest(_WORD.findall(part.text), pieces):
            if word:
                item["content"][0][words] += word
                self._emit(event, delta=word)
            if piece:
                self.sound_ms += len(piece) / BYTES_A_MS
                state.sound_ms[item["id"]] = (
                    state.sound_ms.get(item["id"], 0) + len(piece) / BYTES_A_MS
                )
                delta = base64.b64encode(piece).decode("ascii")
                self._emit("response.output_audio.delta", delta=delta)
            await self._pause(len(piece or b"") / BYTES_A_MS)
        self._close("completed")

    async def _call(self, part: CallsTool) -> None:
        call = {"name": part.name, "call_id": new_id("call"), "arguments": ""}
        item = self._begin(
            {"id": new_id("item"), "type": "function_call", "status": "in_progress", **call}
        )
        for at in range(0, len(part.arguments), 16):
            piece = part.arguments[at : at + 16]
            item["arguments"] += piece
            self._emit(
                "response.function_call_arguments.delta", call_id=item["call_id"], delta=piece
            )
            await self._pause(0)
        self._close("completed")

    async def _pause(self, sound_ms: float) -> None:
        rate = self.state.setup.rate
        await asyncio.sleep(sound_ms / 1000 / rate if rate else 0)
        await self.state.has_room.wait()

    def _begin(self, item: Event) -> Event:
        self.output.append(item)
        self._open = item
        where = {"response_id": self.id, "output_index": len(self.output) - 1}
        self.state.emit("response.output_item.added", **where, item=item)
        if not self.is_beside:
            self._before = self.state.add_item(item)
        return item

    def _close(self, status: Literal["completed", "incomplete"]) -> None:
        """Sends the events that complete the open item."""
        item = self._open
        if item is None:
            return
        item["status"] = status
        if item["type"] == "function_call":
            given = {name: item[name] for name in ("call_id", "name", "arguments")}
            self._emit("response.function_call_arguments.done", **given)
        else:
            words = words_of(item)
            if item["content"][0]["type"] == "output_audio":
                part = {"type": "audio", "transcript": words}
                self._emit("response.output_audio.done")
                self._emit("response.output_audio_transcript.done", transcript=words)
            else:
                part = {"type": "text", "text": words}
                self._emit("response.output_text.done", text=words)
            self._emit("response.content_part.done", part=part)
        if not self.is_beside:
            self.state.emit("conversation.item.done", previous_item_id=self._before, item=item)
        where = {"response_id": self.id, "output_index": len(self.output) - 1}
        self.state.emit("response.output_item.done", **where, item=item)
        self._open = None

    def _emit(self, kind: str, **fields: Any) -> None:
        """Sends an event about the open item."""
        item = cast(Event, self._open)
        where: Event = {
            "response_id": self.id,
            "item_id": item["id"],
            "output_index": len(self.output) - 1,
        }
        if item["type"] == "message":
            where["content_index"] = 0
        self.state.emit(kind, **where, **fields)

    def _end(
        self, status: Literal["completed", "cancelled", "failed", "incomplete"], **details: Any
    ) -> None:
        self._close("incomplete")
        self.is_over = True
        facts = {"type": status, **details} if details else None
        self.state.emit("response.done", response=self._resource(status, facts))
        self.state.response_over(self)

    def _resource(self, status: str, details: Mapping[str, Any] | None = None) -> Event:
        settings = self._settings
        out = {name: settings["audio"]["output"][name] for name in ("format", "voice")}
        return {
            "object": "realtime.response",
            "id": self.id,
            "status": status,
            "status_details": details,
            "output": self.output,
            "conversation_id": None if self.is_beside else self.state.conversation_id,
            "output_modalities": settings["output_modalities"],
            "max_output_tokens": settings["max_output_tokens"],
            "audio": {"output": out},
            "usage": None if status == "in_progress" else self._usage(),
            "metadata": self.asked.get("metadata"),
        }

    def _usage(self) -> Event:
        """Returns an estimate: one token for 4 characters, 100 ms of input or 50 ms of output."""
        read = [self._settings["instructions"], *(words_of(item) for item in self.state.items)]
        texts_in = sum(len(text) for text in read) // 4
        texts_out = (
            sum(len(words_of(item) or item.get("arguments", "")) for item in self.output) // 4
        )
        heard = self.state.activity.heard_ms // 100
        spoken = round(self.sound_ms / 50)
        return {
            "total_tokens": texts_in + heard + texts_out + spoken,
            "input_tokens": texts_in + heard,
            "output_tokens": texts_out + spoken,
            "input_token_details": {
                "text_tokens": texts_in,
                "audio_tokens": heard,
                "cached_tokens": 0,
            },
            "output_token_details": {"text_tokens": texts_out, "audio_tokens": spoken},
        }
