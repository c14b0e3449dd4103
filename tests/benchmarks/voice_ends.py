"""The two ends of a measured call: frames that say when they were sent, and a model side in
its own process.

Both read one monotonic clock, so that a frame's delay is known where it
arrives. Units: microseconds.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import random
import sys
import time
from array import array
from collections import Counter, defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import orjson
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

_STAMP: Final = 15
"""Bytes of a stamp: 20 characters of base64, which say when a frame was sent and in which call."""
CALLER_TAIL: Final = base64.b64encode(b"\xff" * (160 - _STAMP)).decode()
DELTA_MS: Final = 100
AGENT_TAIL: Final = base64.b64encode(b"\x7f" * (DELTA_MS * 8 - _STAMP)).decode()
LINEAR: Final = base64.b64encode(bytes(DELTA_MS * 48)).decode()
LOUD: Final = 8_000
SILENT: Final = logging.getLogger(f"{__name__}.frames")
SILENT.disabled = True
OPTIONS: Final[dict[str, Any]] = {"compression": None, "max_size": 2**24, "logger": SILENT}


def now_us() -> int:
    return time.monotonic_ns() // 1_000


def stamped(call: int, tail: str) -> str:
    """Return sound in base64 that says when it was made, and in which call."""
    return base64.b64encode(b"%011d%04d" % (now_us() % 10**11, call)).decode() + tail


def read_stamp(text: str, before: str) -> tuple[int, int] | None:
    """Return when the sound in a message was made, and in which call; None where it is
    none of ours.
    """
    at = text.find(before)
    if at < 0:
        return None
    try:
        stamp = base64.b64decode(text[at + len(before) : at + len(before) + 20])
        return int(stamp[:11]), int(stamp[11:])
    except ValueError:
        return None


@dataclass(slots=True)
class Plan:
    """What the model side does in each call. Frames that were sent before `since` are not measured.

    `interrupts_s`: so often it notices that the caller speaks; `tool`: what it calls
    again and again.
    """

    since: int = 0
    interrupts_s: float = 0.0
    tool: str = ""
    arguments: str = "{}"
    breaks: float = 0.0
    """The share of calls whose model side breaks off."""
    begins: bool = False
    """It speaks without being asked, and linear sound."""


@dataclass(slots=True)
class Seen:
    """What was measured on one side."""

    delays: list[int] = field(default_factory=list[int])
    frames: Counter[int] = field(default_factory=Counter[int])
    speech: defaultdict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    tools: list[int] = field(default_factory=list[int])
    unanswered: int = 0
    errors: int = 0
    loud: list[int] = field(default_factory=list[int])
    """Of a bridge that writes sound again: when a loud piece of it came."""

    def arrived(self, stamp: tuple[int, int], since: int) -> None:
        sent, call = stamp
        if sent >= since % 10**11:
            self.delays.append((now_us() - sent) % 10**11)
            self.frames[call] += 1


class ModelEnd:
    """Speaks to each connection without end, as a Realtime server does, and measures
    what it gets.
    """

    def __init__(self) -> None:
        self.plan, self.seen, self.open = Plan(), Seen(), 0

    async def serve(self, socket: ServerConnection) -> None:
        self.open += 1
        connection = _Connection(self, socket)
        try:
            with suppress(ConnectionClosed):
                await connection.run()
        finally:
            # a tool that is under way when a call breaks off has no answer
            late = now_us() - 2_000_000
            self.seen.unanswered += sum(asked < late for asked in connection.asked.values())
            connection.stop()
            self.open -= 1


class _Connection:
    def __init__(self, end: ModelEnd, socket: ServerConnection) -> None:
        self.end = end
        self.socket = socket
        self.call = 0
        self.asked: dict[str, int] = {}
        self.numbers = iter(range(1, 10**9))
        self.talking: asyncio.Task[None] | None = None
        self.breaks = random.random() < end.plan.breaks

    def stop(self) -> None:
        if self.talking is not None:
            self.talking.cancel()

    async def send(self, kind: str, **fields: Any) -> None:
        event = {"type": kind, "event_id": f"e{next(self.numbers)}", **fields}
        await self.socket.send(orjson.dumps(event), text=True)

    async def run(self) -> None:
        await self.send("session.created", session={"id": "s", "type": "realtime"})
        async for text in self.socket:
            assert isinstance(text, str)
            stamp = read_stamp(text, '"audio":"') if "input_audio_buffer.append" in text else None
            if stamp is not None:
                self.call = stamp[1]
                self.end.seen.arrived(stamp, self.end.plan.since)
                continue
            event = orjson.loads(text)
            await self.take(event["type"], event)

    async def take(self, kind: str, event: dict[str, Any]) -> None:
        match kind:
            case "session.update":
                await self.send("session.updated", session=event["session"])
                if self.end.plan.begins and self.talking is None:
                    self.talking = asyncio.create_task(self.talk())
            case "response.create" if self.talking is None or self.talking.done():
                self.talking = asyncio.create_task(self.talk())
            case "conversation.item.create":
                item = {"id": f"i{next(self.numbers)}", **event["item"]}
                began = self.asked.pop(str(item.get("call_id")), None)
                if began is not None:
                    self.end.seen.tools.append(now_us() - began)
                for what in ("added", "done"):
                    await self.send(f"conversation.item.{what}", item=item)
            case "conversation.item.truncate":
                where = {name: event[name] for name in ("item_id", "content_index", "audio_end_ms")}
                await self.send("conversation.item.truncated", **where)
            case "input_audio_buffer.append":
                sound = array("h", base64.b64decode(event["audio"]))
                if max(map(abs, sound), default=0) > LOUD:
                    self.end.seen.loud.append(now_us())
            case _:
                pass

    async def talk(self) -> None:
        with suppress(ConnectionClosed):
            await self.speak()

    async def begun(self, item: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        response = f"r{next(self.numbers)}"
        await self.send(
            "response.created", response={"id": response, "status": "in_progress", "output": []}
        )
        item = {"id": f"i{next(self.numbers)}", "status": "in_progress", **item}
        await self.send(
            "response.output_item.added", response_id=response, output_index=0, item=item
        )
        return response, item

    async def ended(self, response: str, item: dict[str, Any], status: str = "completed") -> None:
        where = {"response_id": response, "item_id": item["id"], "output_index": 0}
        if item["type"] == "message":
            await self.send("response.output_audio.done", **where, content_index=0)
        item = item | {"status": "completed"}
        await self.send(
            "response.output_item.done", response_id=response, output_index=0, item=item
        )
        if item["type"] == "function_call":
            self.asked[item["call_id"]] = now_us()
        output = {"id": response, "status": status, "output": [item], "usage": None}
        await self.send("response.done", response=output)

    async def speak(self) -> None:
        message: dict[str, Any] = {"type": "message", "role": "assistant", "content": []}
        due = time.monotonic()
        next_speech = time.monotonic() + random.uniform(0.5, 1.5)
        response, item = await self.begun(message)
        while True:
            delta = LINEAR if self.end.plan.begins else stamped(self.call, AGENT_TAIL)
            where = {
                "response_id": response,
                "item_id": item["id"],
                "output_index": 0,
                "content_index": 0,
            }
            await self.send("response.output_audio.delta", **where, delta=delta)
            due += DELTA_MS / 1000
            await asyncio.sleep(due - time.monotonic())
            plan = self.end.plan
            if self.breaks and random.random() < 0.1:
                self.socket.transport.abort()
                return
            if plan.interrupts_s and time.monotonic() > next_speech:
                next_speech = time.monotonic() + plan.interrupts_s * random.uniform(0.7, 1.3)
                said = f"u{next(self.numbers)}"
                self.end.seen.speech[self.call].append(now_us())
                await self.send("input_audio_buffer.speech_started", item_id=said, audio_start_ms=0)
                await self.ended(response, item, "cancelled")
                await self.send("input_audio_buffer.speech_stopped", item_id=said, audio_end_ms=100)
                await self.send("input_audio_buffer.committed", item_id=said, previous_item_id=None)
                if plan.tool:
                    await self.call_tool(plan)
                    return  # it is asked for the next answer
                response, item = await self.begun(message)

    async def call_tool(self, plan: Plan) -> None:
        call = {"name": plan.tool, "call_id": f"c{next(self.numbers)}", "arguments": plan.arguments}
        response, item = await self.begun({"type": "function_call", **call})
        await self.ended(response, item)


async def _main() -> None:
    """Serve; take plans line by line, and give what was measured since the last for each."""
    end = ModelEnd()
    async with serve(end.serve, "127.0.0.1", 0, **OPTIONS) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        print(f"ws://127.0.0.1:{port}/v1/realtime", flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            seen = end.seen
            end.seen = Seen()
            end.plan = Plan(**json.loads(line))
            facts = {name: getattr(seen, name) for name in Seen.__slots__}
            print(json.dumps({**facts, "open": end.open}), flush=True)


if __name__ == "__main__":
    asyncio.run(_main())
