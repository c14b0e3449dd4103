"""Telephones that measure: they send a frame every 20 ms, and see when sound and `clear` come."""

from __future__ import annotations

import asyncio
import base64
import json
import math
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from graphrag.simulator.twilio_line import TwilioLine
from tests.benchmarks.voice_bridges import KEYS
from tests.benchmarks.voice_ends import CALLER_TAIL, OPTIONS, Seen, now_us, read_stamp, stamped

FRAME_S = 0.02
MOST_S = 60
PAUSE_S = 0.05
"""Between the beginnings of calls."""
SILENCE, SHOUT = (base64.b64encode(byte * 160).decode() for byte in (b"\xff", b"\x00"))
Dial = Callable[[], Awaitable[ClientConnection]]
_numbers = count(1)


@dataclass
class Phone:
    """One caller. `begins`: what of a message comes before its sound; direct ones
    speak to the model.
    """

    number: int
    seen: Seen
    is_direct: bool = False
    is_loud: bool = False
    """Each fiftieth frame is loud and the others silent, for a bridge that writes sound again."""
    since: int = 0
    until: float = math.inf
    loud: list[int] = field(default_factory=list[int])
    silent: int = 0
    sent: int = 0
    clears: list[int] = field(default_factory=list[int])
    first_sound: int = 0
    socket: ClientConnection | None = None

    async def talk(self, dial: Dial) -> None:
        """Talk until `until` of the monotonic clock. Ends at once where the other side does."""
        begun = False
        self.socket = await dial()
        try:
            if self.is_direct:
                await self.socket.send('{"type":"response.create"}')
            reading = asyncio.create_task(self._read(self.socket))
            due = time.monotonic() + random.random() * FRAME_S
            begun = True
            while (now := time.monotonic()) < self.until and not reading.done():
                if now < due:
                    await asyncio.sleep(due - now)
                due += FRAME_S
                frame = (
                    self._loud_or_silent() if self.is_loud else stamped(self.number, CALLER_TAIL)
                )
                if self.is_direct:
                    await self.socket.send(
                        f'{{"type":"input_audio_buffer.append","audio":"{frame}"}}'
                    )
                else:
                    await self.socket.send(
                        f'{{"event":"media","streamSid":"MZ","media":{{"payload":"{frame}"}}}}'
                    )
                self.sent += 0 < self.since <= now_us() and not self.is_loud
            await asyncio.sleep(0.5)  # what is under way arrives
            reading.cancel()
        except ConnectionClosed:
            assert begun
        finally:
            with suppress(ConnectionClosed):
                await self.socket.send('{"event":"stop","streamSid":"MZ"}')
            await self.socket.close()

    def _loud_or_silent(self) -> str:
        self.silent = (self.silent + 1) % 50
        if self.silent:
            return SILENCE
        self.loud.append(now_us())
        return SHOUT

    async def _read(self, socket: ClientConnection) -> None:
        before = '"delta":"' if self.is_direct else '"payload":"'
        loop = asyncio.get_running_loop()
        marks = set[asyncio.Task[None]]()
        with suppress(ConnectionClosed):
            async for text in socket:
                assert isinstance(text, str)
                if text.startswith('{"event":"mark"'):
                    loop.call_later(0.1, self._echo, text, marks)
                elif text.startswith('{"event":"clear"'):
                    self.clears.append(now_us())
                elif before[:8] in text:
                    self.first_sound = self.first_sound or now_us()
                    stamp = read_stamp(text, before) if self.since else None
                    if stamp is not None:
                        self.seen.arrived(stamp, self.since)

    def _echo(self, mark: str, marks: set[asyncio.Task[None]]) -> None:
        async def send() -> None:
            with suppress(ConnectionClosed):
                await self.socket.send(mark)  # type: ignore[union-attr]

        task = asyncio.create_task(send())
        marks.add(task)
        task.add_done_callback(marks.discard)


def straight(url: str) -> Dial:
    """Return how a model side is reached without a bridge."""

    async def dial() -> ClientConnection:
        return await connect(
            url, additional_headers=KEYS, proxy=None, open_timeout=MOST_S, **OPTIONS
        )

    return dial


def streamed(url: str) -> Dial:
    """Return how a bridge is reached that takes any stream."""

    async def dial() -> ClientConnection:
        return await _begun(
            await connect(url, proxy=None, open_timeout=MOST_S, **OPTIONS), "", "CA0"
        )

    return dial


def dialled(address: str, agent_id: str) -> Dial:
    """Return how a service is called: its webhook, then the stream that it names."""

    async def dial() -> ClientConnection:
        caller = f"+336{next(_numbers):08}"  # each calls for itself: one caller has a share of the places
        answer = await TwilioLine(url=f"{address}/voice/default/{agent_id}", caller=caller).dial()
        assert answer.stream is not None, answer
        place = answer.stream
        socket = await connect(place.url, proxy=None, open_timeout=MOST_S, **OPTIONS)
        return await _begun(socket, place.token, place.call_sid)

    return dial


async def _begun(socket: ClientConnection, token: str, call_sid: str) -> ClientConnection:
    sound = {"encoding": "audio/x-mulaw", "sampleRate": 8000, "channels": 1}
    start = {
        "accountSid": "AC0",
        "streamSid": "MZ",
        "callSid": call_sid,
        "tracks": ["inbound"],
        "mediaFormat": sound,
        "customParameters": {"token": token},
    }
    await socket.send('{"event":"connected","protocol":"Call","version":"1.0.0"}')
    await socket.send(
        json.dumps({"event": "start", "streamSid": "MZ", "sequenceNumber": "1", "start": start})
    )
    return socket


@dataclass
class Talked:
    """What the phones of one run saw. `sent`: frames of each call that count."""

    seen: Seen
    sent: Counter[int]
    loud: list[int]
    clears: dict[int, list[int]]


async def talk(
    dial: Dial,
    calls: int,
    seconds: float,
    begun: Callable[[int], Awaitable[None]],
    is_direct: bool,
    is_loud: bool,
) -> Talked:
    """Hold so many calls at once, for `seconds` from when all were answered; frames from
    then on count.

    `begun` is given that moment.
    """
    seen = Seen()
    phones = [Phone(number, seen, is_direct, is_loud) for number in range(1, calls + 1)]
    tasks: list[asyncio.Task[None]] = []
    for phone in phones:
        tasks.append(asyncio.create_task(phone.talk(dial)))
        await asyncio.sleep(PAUSE_S)
    async with asyncio.timeout(MOST_S):
        waiting = phones
        while waiting:
            await asyncio.sleep(0.1)
            waiting = [
                one for one in waiting if not (one.first_sound or tasks[one.number - 1].done())
            ]
    since = now_us() + 500_000
    for phone in phones:
        phone.since = since
        phone.until = since / 1e6 + seconds
    await begun(since)
    await asyncio.gather(*tasks)
    sent = Counter({phone.number: phone.sent for phone in phones})
    loud = sorted(when for phone in phones for when in phone.loud if when >= since)
    clears = {phone.number: phone.clears for phone in phones}
    return Talked(seen=seen, sent=sent, loud=loud, clears=clears)
