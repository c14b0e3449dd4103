"""A client of the double that keeps and checks all that goes over the wire, both ways."""

import asyncio
import base64
import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, get_args

import yaml
from openai.types.realtime import RealtimeClientEvent, RealtimeServerEvent
from pydantic import BaseModel

from graphrag.realtime.openai_side import OpenAISide
from graphrag.simulator.minds import Mind
from graphrag.simulator.realtime_double import RealtimeDouble
from graphrag.simulator.speech import Speech, tones
from tests.graphrag.bridge.fed_call import a_session
from tests.support.data_files import ours, published
from tests.support.faulty_double import Faults, FaultyDouble
from tests.support.scripted_mind import ScriptedMind


def _by_type(union: Any) -> Mapping[str, type[BaseModel]]:
    models = get_args(get_args(union)[0])
    return {get_args(model.model_fields["type"].annotation)[0]: model for model in models}


CLIENT = _by_type(RealtimeClientEvent)
SERVER = _by_type(RealtimeServerEvent)
RECORDINGS = {
    path.stem: path
    for path in (*ours("realtime", "*.json"), *published("realtime/openai", "*.yaml"))
}
"""Recorded sessions by name: ours, and published ones where they are there."""
TONES = Speech(None, {})
KEY = "sk-test-0123456789"

Event = dict[str, Any]


def recorded(name: str) -> list[Event]:
    """Returns the events of a recorded session, each with its direction."""
    return yaml.safe_load(RECORDINGS[name].read_text(encoding="utf-8"))["interactions"]


def at_hand(*rows: Any) -> list[Any]:
    """Returns the rows whose recording, which they name first, is there."""
    return [row for row in rows if (row if isinstance(row, str) else row[0]) in RECORDINGS]


def silence(ms: int) -> bytes:
    return b"\xff" * (8 * ms)


def speech(ms: int) -> bytes:
    return tones("x" * (ms // 60 + 1))[: 8 * ms]


class Client:
    """Sends events, and reads those of the server up to one it waits for."""

    def __init__(self, side: OpenAISide) -> None:
        self.side, self.events, self.number = side, side.events(), 0
        self.seen: list[Event] = []

    async def send(self, kind: str, **fields: Any) -> str:
        self.number += 1
        event = {"type": kind, "event_id": f"c{self.number}", **fields}
        CLIENT[kind].model_validate(event)
        await self.side.send(json.dumps(event))
        return event["event_id"]

    async def until(self, kind: str, wanted: Callable[[Event], bool] = lambda event: True) -> Event:
        """Read up to an event; the server's connection may not end before."""
        async with asyncio.timeout(60):
            async for event in self.events:
                SERVER[event["type"]].model_validate(event)
                self.seen.append(event)
                if event["type"] == kind and wanted(event):
                    return event
        raise AssertionError(f"no {kind} among {self.kinds}")

    async def update(self, **options: Any) -> None:
        """Set the session as a call does."""
        await self.until("session.created")
        await self.send("session.update", session=a_session(**options).update())
        await self.until("session.updated")

    async def speak(self, sound: bytes, piece_ms: int = 20) -> None:
        size = 8 * piece_ms
        for at in range(0, len(sound), size):
            payload = base64.b64encode(sound[at : at + size]).decode()
            await self.side.send(
                json.dumps({"type": "input_audio_buffer.append", "audio": payload})
            )

    async def write(self, text: str, role: str = "user") -> None:
        kind = "output_text" if role == "assistant" else "input_text"
        part = {"type": kind, "text": text}
        await self.send(
            "conversation.item.create", item={"type": "message", "role": role, "content": [part]}
        )

    @property
    def kinds(self) -> list[str]:
        return [event["type"] for event in self.seen]

    def of(self, kind: str) -> list[Event]:
        return [event for event in self.seen if event["type"] == kind]


@asynccontextmanager
async def conversing(
    *script: Any, mind: Mind | None = None, faults: Faults | None = None, **options: Any
) -> AsyncGenerator[tuple[Client, RealtimeDouble]]:
    """Yield a client that is connected to a double, whose session is not set yet."""
    given = (faults,) if faults else ()
    made: dict[str, Any] = {"voice": TONES.say, "faults": given, **options}
    async with FaultyDouble(mind or ScriptedMind(script), **made) as double:
        side = OpenAISide(double.url, KEY, "gpt-realtime")
        await side.open()
        try:
            yield Client(side), double
        finally:
            await side.close()
