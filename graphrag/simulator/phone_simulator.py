"""Simulates a telephone: opens the stream of a call as Twilio does, speaks and plays sound.

Source: Twilio's "Media Streams - WebSocket messages". One clock of 20 ms drives both directions, so
that both recordings have the same timeline. Times are seconds of the event loop's clock.
"""

from __future__ import annotations

import asyncio
import base64
import secrets
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Self, cast

import orjson
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from graphrag.simulator.mu_law import SILENCE
from graphrag.simulator.twilio_line import ACCOUNT, StreamPlace, opened_stream
from graphrag.workers import end_tasks

FRAME = 160
FRAME_S = 0.02
FIRST_TIMESTAMP_MS = 155  # of the first sound, as on real lines
CLOSING_S = 2.0
PAUSE_FRAMES = 15  # sound after a longer silence counts as a new answer
QUIET_FRAME = bytes([SILENCE]) * FRAME


class PhoneSimulator:
    """The telephone of one call; an async context manager.

    `lines`: the sounds of words. `heard`, `spoken`: both directions in μ-law, from the same moment.
    `answers`: number of answers of the agent. `strange`: messages for which Twilio would close the
    stream.
    """

    def __init__(self, place: StreamPlace, lines: Mapping[str, bytes] | None = None) -> None:
        self._place = place
        self._lines = lines or {}
        self.stream_sid = "MZ" + secrets.token_hex(16)
        self.heard = bytearray()
        self.spoken = bytearray()
        self.strange: list[str] = []
        self.answers = 0
        self.ended = asyncio.Event()
        self._to_service: asyncio.Queue[str] = asyncio.Queue()
        self._to_play: deque[bytes | str] = deque()
        self._to_say: deque[tuple[bytes, asyncio.Future[None]]] = deque()
        self._run_ms = self._quiet_frames = 0
        self._hung_up = False
        self._sequence = self._chunk = 0
        self._tasks: list[asyncio.Task[None]] = []
        self._connection: ClientConnection | None = None

    async def __aenter__(self) -> Self:
        """Opens the stream and starts both directions. Raises: LineRefused."""
        place = self._place
        self._connection = await opened_stream(place)
        self._tasks = [asyncio.create_task(self._write()), asyncio.create_task(self._read())]
        self._put({"event": "connected", "protocol": "Call", "version": "1.0.0"})
        start = {
            "accountSid": ACCOUNT,
            "streamSid": self.stream_sid,
            "callSid": place.call_sid,
            "tracks": ["inbound"],
            "mediaFormat": {"encoding": "audio/x-mulaw", "sampleRate": 8000, "channels": 1},
            "customParameters": {"token": place.token},
        }
        self._put({"event": "start", "start": start}, numbered=True)
        self._tasks.append(asyncio.create_task(self._run_clock()))
        return self

    async def __aexit__(self, *_: object) -> None:
        if not self.ended.is_set():
            await self.hang_up()
        await end_tasks(*self._tasks)
        self._release()

    @property
    def length_s(self) -> float:
        """How long the call lasted."""
        return max(len(self.heard), len(self.spoken)) / FRAME * FRAME_S

    @property
    def is_playing(self) -> bool:
        return self._run_ms > 0 and self._quiet_frames == 0

    @property
    def playing_s(self) -> float:
        """Seconds for which the agent has been heard without a pause."""
        return self._run_ms / 1000 if self.is_playing else 0.0

    @property
    def quiet_s(self) -> float:
        """Seconds since the agent was last heard."""
        return 0.0 if self.is_playing else self._quiet_frames * FRAME_S

    async def say(self, sound: bytes) -> None:
        """Speaks. Returns when everything was spoken or the stream has ended."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self.ended.is_set():
            return
        self._to_say.append((sound, done))
        await done

    async def speak(self, words: str) -> None:
        """Speaks words whose sound is known, as `say` does."""
        await self.say(self._lines[words])

    def press(self, digits: str) -> None:
        """Presses keys."""
        for digit in digits:
            self._put(
                {"event": "dtmf", "dtmf": {"track": "inbound_track", "digit": digit}}, numbered=True
            )

    async def hang_up(self) -> None:
        """Ends the call as a caller does."""
        self._hung_up = True
        stop = {"accountSid": ACCOUNT, "callSid": self._place.call_sid}
        self._put({"event": "stop", "stop": stop}, numbered=True)
        assert self._connection is not None
        for closing in (self._to_service.join, self._connection.close):
            with suppress(TimeoutError):
                async with asyncio.timeout(CLOSING_S):
                    await closing()
        self._release()

    def _put(self, message: dict[str, Any], *, numbered: bool = False) -> None:
        if numbered:
            self._sequence += 1
            message |= {"sequenceNumber": str(self._sequence), "streamSid": self.stream_sid}
        self._to_service.put_nowait(orjson.dumps(message).decode())

    async def _write(self) -> None:
        assert self._connection is not None
        while True:
            message = await self._to_service.get()
            with suppress(ConnectionClosed):
                await self._connection.send(message)
            self._to_service.task_done()

    async def _read(self) -> None:
        assert self._connection is not None
        with suppress(ConnectionClosed):
            async for message in self._connection:
                self._take(message if isinstance(message, str) else message.decode("latin-1"))
        self._release()

    def _take(self, text: str) -> None:
        """Handles a message of the service."""
        try:
            message = cast(dict[str, Any], orjson.loads(text))
            match message["streamSid"] == self.stream_sid and message["event"]:
                case "media":
                    self._to_play.append(
                        base64.b64decode(message["media"]["payload"], validate=True)
                    )
                case "mark":
                    self._to_play.append(str(message["mark"]["name"]))
                case "clear":
                    self._clear()
                case _:
                    self.strange.append(text[:200])
        except (ValueError, KeyError, TypeError):
            self.strange.append(text[:200])

    def _clear(self) -> None:
        left = self._to_play
        self._to_play = deque()
        self._run_ms = 0
        for part in left:
            if isinstance(part, str):
                self._mark(part)

    def _mark(self, name: str) -> None:
        self._put({"event": "mark", "mark": {"name": name}}, numbered=True)

    async def _run_clock(self) -> None:
        """Plays and speaks a frame every 20 ms until the stream ends. Late frames are caught up."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        while not self.ended.is_set():
            await asyncio.sleep(max(0.0, due - loop.time()))
            if self._hung_up:
                return
            self._play_frame()
            self._speak_frame()
            due += FRAME_S

    def _play_frame(self) -> None:
        """Plays 20 ms. A mark is returned once the sound before it has been played."""
        frame = b""
        while self._to_play and (isinstance(self._to_play[0], str) or len(frame) < FRAME):
            part = self._to_play.popleft()
            if isinstance(part, str):
                if len(frame) == FRAME:  # the mark belongs to the next frame
                    self._to_play.appendleft(part)
                    break
                self._mark(part)
                continue
            room = FRAME - len(frame)
            frame += part[:room]
            if len(part) > room:
                self._to_play.appendleft(part[room:])
        if frame:
            self.answers += self._run_ms == 0 or self._quiet_frames > PAUSE_FRAMES
            self._run_ms = len(frame) // 8 + (0 if self._quiet_frames else self._run_ms)
            self._quiet_frames = 0
        else:
            self._quiet_frames += 1
        self.heard += frame.ljust(FRAME, bytes([SILENCE]))

    def _speak_frame(self) -> None:
        """Sends 20 ms of the caller: speech or silence."""
        frame = QUIET_FRAME
        if self._to_say:
            sound, done = self._to_say.popleft()
            frame = sound[:FRAME].ljust(FRAME, bytes([SILENCE]))
            rest = sound[FRAME:]
            if rest:
                self._to_say.appendleft((rest, done))
            elif not done.done():
                done.set_result(None)
        self.spoken += frame
        self._chunk += 1
        media = {
            "track": "inbound",
            "chunk": str(self._chunk),
            "timestamp": str(FIRST_TIMESTAMP_MS + 20 * (self._chunk - 1)),
            "payload": base64.b64encode(frame).decode("ascii"),
        }
        self._put({"event": "media", "media": media}, numbered=True)

    def _release(self) -> None:
        """Wakes everything that waits for the stream."""
        self.ended.set()
        for _, done in self._to_say:
            if not done.done():
                done.set_result(None)
        self._to_say.clear()
