"""What the text engine adds to the turns of calls: from the caller's words to the model's request,
and from a piece of the model's answer to the telephone.

The model's server stamps each piece of its answers with the time at which it left. Service and
model are processes of their own.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from graphrag.simulator.twilio_line import TwilioLine, opened_stream
from tests.benchmarks.load_server import GRAPH, Loaded, loaded
from tests.benchmarks.voice_processes import at, median, worked_s

PIECES, PACE_MS = 20, 50.0
"""An answer of one second."""
LETTER = "t"  # an answer of digits alone is held back, as it may be a call written as text
TURN_S = 2.0
MOST_S = 60
P99_AT_MOST_MS = 200.0
DOCUMENT: dict[str, Any] = {
    "version": "2.0",
    "agent": {"id": "text", "name": "Bench"},
    "session": {"mode": "inline", "instructions": "Answer."},
    "graphs": [GRAPH],
    "greeting": {"unknown_customer": "Greet the caller."},
    "voice": {"engine": "text", "silence_prompts": 0},
    "limits": {"max_calls": 1000, "max_tool_calls": 500},
}
_numbers = count(1)


@dataclass(frozen=True, slots=True)
class Row:
    what: str
    goal: str
    figure: str


@dataclass
class TextPhone:
    """A caller who asks every TURN_S. Units: milliseconds.

    `asked`: from the caller's words to the model's request. `pieces`: from the model to here.
    `lost`: turns without a whole answer.
    """

    asked: list[float] = field(default_factory=list[float])
    pieces: list[float] = field(default_factory=list[float])
    turns: int = 0
    lost: int = 0
    is_greeted: bool = False

    async def talk(self, address: str, begin: asyncio.Event, seconds: float) -> None:
        caller = f"+337{next(_numbers):08}"
        answer = await TwilioLine(url=f"{address}/voice/default/text", caller=caller).dial()
        assert answer.stream is not None, answer
        place = answer.stream
        async with await opened_stream(place) as socket:
            setup = {"type": "setup", "sessionId": "VX1", "callSid": place.call_sid}
            setup |= {"from": caller, "to": "+33100000000", "direction": "inbound"}
            await socket.send(json.dumps(setup | {"customParameters": {"token": place.token}}))
            await self._answer(socket, 0)
            self.is_greeted = True
            await begin.wait()
            await asyncio.sleep(random.random() * TURN_S)
            until = time.monotonic() + seconds
            while (now := time.monotonic()) < until:
                words = {"type": "prompt", "voicePrompt": "Who plays?", "lang": "en-US"}
                sent = time.time_ns()
                await socket.send(json.dumps(words | {"last": True}))
                self.turns += 1
                with suppress(TimeoutError, ConnectionClosed):
                    async with asyncio.timeout(20):
                        self.lost += not await self._answer(socket, sent)
                await asyncio.sleep(max(0.0, now + TURN_S - time.monotonic()))

    async def _answer(self, socket: ClientConnection, sent: int) -> bool:
        """Read an answer to its end; return whether all of it came. `sent`: when its question
        was, 0 for the greeting, which is not measured.
        """
        came = 0
        async for text in socket:
            now = time.time_ns()
            message = json.loads(text)
            if message.get("type") != "text":
                continue
            stamps = [int(word.removeprefix(LETTER)) for word in message["token"].split()]
            if sent and stamps:
                if not came:
                    self.asked.append((stamps[0] - sent) / 1e6 - PACE_MS)
                self.pieces += [(now - stamp) / 1e6 for stamp in stamps]
            came += len(stamps)
            if message.get("last"):
                return came == PIECES
        return False


@dataclass
class _Measured:
    phones: Sequence[TextPhone]
    cpu_ms: float

    def of(self, name: str, share: float) -> float:
        return at([each for phone in self.phones for each in getattr(phone, name)], share)

    @property
    def lost(self) -> int:
        return sum(phone.lost for phone in self.phones)


@asynccontextmanager
async def _served() -> AsyncIterator[Loaded]:
    """Run `nodius serve` with an agent whose calls the stamping model answers."""
    more = {"NODIUS_VOICE_MAX_CALLS": "1000"}
    async with (
        loaded(pieces=PIECES, pace_ms=PACE_MS, letter=LETTER, **more) as server,
        server.client() as client,
    ):
        stored = await client.put("/api/agents/text", json={"document": DOCUMENT})
        assert stored.status_code == 200, stored.text
        begun = await client.post("/api/agents/text/start")
        assert begun.status_code == 200, begun.text
        yield server


async def text_rows(seconds: float, runs: int, most: int) -> list[Row]:
    """Measure calls that the model of chats answers."""
    async with _served() as server:
        await _measure(server, 2, 2)  # what is loaded once
        rows: list[Row] = []
        for calls in (1, 50):
            found = [await _measure(server, calls, seconds) for _ in range(runs)]
            rows += _rows(calls, found)
        return [*rows, await _at_once(server, most)]


def _rows(calls: int, found: Sequence[_Measured]) -> list[Row]:
    named = f"text engine, {calls} call{'s' if calls > 1 else ''}"

    def both(name: str) -> str:
        shares = (median([one.of(name, share) for one in found]) for share in (0.5, 0.99))
        return " / ".join(f"{value:.1f}" for value in shares) + " ms"

    cpu = f"{median([one.cpu_ms for one in found]):.1f} ms"
    lost = f"{sum(one.lost for one in found)} of {_turns(found)} answers not whole"
    return [
        Row(f"{named}: caller's words to the model's request p50 / p99", "", both("asked")),
        Row(f"{named}: piece of the answer to the telephone p50 / p99", "", both("pieces")),
        Row(f"{named}: processor time, a call and second", "", f"{cpu}; {lost}"),
    ]


def _turns(found: Sequence[_Measured]) -> int:
    return sum(phone.turns for one in found for phone in one.phones)


async def _at_once(server: Loaded, most: int) -> Row:
    figure = "none of 20"
    for calls in range(20, most + 1, 20):
        one = await _measure(server, calls, 6)
        p99 = max(one.of("asked", 0.99), one.of("pieces", 0.99))
        if one.lost or not p99 <= P99_AT_MOST_MS:
            figure += f" (at {calls}: p99 {p99:.0f} ms, {one.lost} answers not whole)"
            break
        figure = str(calls)
    what = f"text engine: calls at once with p99 ≤ {P99_AT_MOST_MS:.0f} ms, a turn every {TURN_S:.0f} s"
    return Row(what, "", figure)


async def _measure(server: Loaded, calls: int, seconds: float) -> _Measured:
    phones = [TextPhone() for _ in range(calls)]
    begin = asyncio.Event()
    tasks: list[asyncio.Task[None]] = []
    for phone in phones:
        tasks.append(
            asyncio.create_task(phone.talk(f"http://127.0.0.1:{server.port}", begin, seconds))
        )
        await asyncio.sleep(0.05)
    async with asyncio.timeout(MOST_S):
        while not all(phone.is_greeted for phone in phones):
            for task in tasks:
                if task.done():
                    task.result()
            await asyncio.sleep(0.1)
    before, began = worked_s(server.pid), time.monotonic()
    begin.set()
    await asyncio.gather(*tasks)
    worked = (worked_s(server.pid) - before) / (time.monotonic() - began)
    return _Measured(phones=phones, cpu_ms=worked * 1000 / calls)
