"""Simulates Twilio's ConversationRelay: recognised words go to the service, its words are spoken.

Sources: Twilio, "ConversationRelay: WebSocket messages" and "TwiML Voice: <ConversationRelay>".
Nothing sounds: words pass at the speed of speech. One clock of 20 ms drives both sides. Times are
seconds of the event loop's clock.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Self, cast, final

import orjson
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from graphrag.simulator.relay_rules import invalid
from graphrag.simulator.twilio_line import ACCOUNT, CALLED, CALLER, StreamPlace, opened_stream
from graphrag.workers import end_tasks

STEP_S: Final = 0.02
CHARS_A_S: Final = 15.0
PAUSE_S: Final = 0.3  # words after a longer silence count as a new answer
CLOSING_S: Final = 2.0
_SPEECH: Final = ("any", "speech", "true")


@dataclass(slots=True)
class _ToSpeak:
    """Words that wait to be spoken."""

    text: str
    interruptible: bool


@final
class RelayPhone:
    """The telephone of one call; an async context manager.

    `answers`: number of answers of the agent. `strange`: messages that Twilio would not process.
    `length_s`: how long the call lasted. `interrupts`: number of interruptions.
    """

    def __init__(self, place: StreamPlace) -> None:
        self._place = place
        self._options: Mapping[str, str] = place.relay or {}
        self.strange: list[str] = []
        self.answers = self.interrupts = 0
        self.length_s = 0.0
        self.ended = asyncio.Event()
        self._to_speak: deque[_ToSpeak] = deque()
        self._spoken = ""  # since the agent began to speak
        self._reported = 0
        self._budget = 0.0
        self._speaks = False
        self._is_open = False  # more words of the answer come
        self._skips = False  # the rest of an interrupted answer is not spoken
        self._run_s, self._quiet_s = 0.0, PAUSE_S
        self._to_service: asyncio.Queue[str] = asyncio.Queue()
        self._tasks: list[asyncio.Task[None]] = []
        self._connection: ClientConnection | None = None

    async def __aenter__(self) -> Self:
        """Opens the connection and starts both directions. Raises: LineRefused."""
        self._connection = await opened_stream(self._place)
        self._put(
            "setup",
            sessionId="VX" + secrets.token_hex(16),
            accountSid=ACCOUNT,
            callSid=self._place.call_sid,
            **{"from": CALLER, "to": CALLED},
            direction="inbound",
            callType="PSTN",
            callStatus="RINGING",
            customParameters={"token": self._place.token},
        )
        if welcome := self._options.get("welcomeGreeting"):
            may = self._options.get("welcomeGreetingInterruptible", "any") in _SPEECH
            self._to_speak.append(_ToSpeak(welcome, may))
        works = (self._write(), self._read(), self._run_clock())
        self._tasks = [asyncio.create_task(work) for work in works]
        return self

    async def __aexit__(self, *_: object) -> None:
        if not self.ended.is_set():
            await self.hang_up()
        await end_tasks(*self._tasks)
        self.ended.set()

    # -- what a script asks of a telephone

    @property
    def playing_s(self) -> float:
        """Seconds for which the agent has been heard without a pause."""
        return self._run_s if self._speaks else 0.0

    @property
    def quiet_s(self) -> float:
        """Seconds since the agent was last heard."""
        return 0.0 if self._speaks else self._quiet_s

    async def speak(self, words: str) -> None:
        """Speaks. Words that the service is not to be told while the agent speaks get lost."""
        is_heard = True
        if self._speaks:
            is_heard = self._interrupt()
        self._event("clientSpeaking", "on")
        with suppress(TimeoutError):
            async with asyncio.timeout(len(words) / CHARS_A_S):
                await self.ended.wait()
        self._event("clientSpeaking", "off")
        if is_heard:
            language = self._options.get("language", "en-US")
            self._put("prompt", voicePrompt=words, lang=language, last=True)

    def press(self, digits: str) -> None:
        """Presses keys."""
        if self._options.get("dtmfDetection") == "true":
            for digit in digits:
                self._put("dtmf", digit=digit)

    async def hang_up(self) -> None:
        """Ends the call as a caller does: the service closes the connection."""
        assert self._connection is not None
        for closing in (self._to_service.join, self._connection.close):
            with suppress(TimeoutError):
                async with asyncio.timeout(CLOSING_S):
                    await closing()
        self.ended.set()

    # -- the connection

    def _put(self, kind: str, **fields: Any) -> None:
        self._to_service.put_nowait(orjson.dumps({"type": kind, **fields}).decode())

    def _event(self, name: str, value: str) -> None:
        wanted = "tokens-played" if name == "tokensPlayed" else "speaker-events"
        if wanted in self._options.get("events", "").split():
            self._put("info", name=name, value=value)

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
                if not self._take(message):
                    await self._connection.close()
                    break
        self.ended.set()

    def _take(self, raw: str | bytes) -> bool:
        """Handles a message of the service. Returns False once it ends the session."""
        problem = invalid(raw)
        if problem is not None:
            text = raw if isinstance(raw, str) else raw.decode("latin-1")
            self.strange.append(f"{problem}: {text[:200]}")
            self._put("error", description=f"Invalid message received: {text[:200]}")
            return True
        message = cast(dict[str, Any], orjson.loads(raw))
        if message["type"] == "text":
            self._speak(message)
        return message["type"] != "end"

    def _speak(self, message: Mapping[str, Any]) -> None:
        if not self._skips and message["token"]:
            default = self._options.get("interruptible", "any") in _SPEECH
            may = bool(message.get("interruptible", default))
            self._to_speak.append(_ToSpeak(message["token"], may))
        self._is_open = not message.get("last")
        self._skips = self._skips and self._is_open

    # -- speech

    def _interrupt(self) -> bool:
        """Silences the agent if the words being spoken may be interrupted. Returns whether."""
        if self._to_speak and not self._to_speak[0].interruptible:
            return False
        self.interrupts += 1
        self._put(
            "interrupt",
            utteranceUntilInterrupt=self._spoken,
            durationUntilInterruptMs=round(self._run_s * 1000),
        )
        self._to_speak.clear()
        self._skips = self._is_open
        self._falls_silent()
        return True

    async def _run_clock(self) -> None:
        loop = asyncio.get_running_loop()
        due = began = loop.time()
        while not self.ended.is_set():
            await asyncio.sleep(max(0.0, due - loop.time()))
            self._step()
            self.length_s = loop.time() - began
            due += STEP_S

    def _step(self) -> None:
        """Speaks 20 ms."""
        if not self._to_speak:
            if self._speaks:
                self._falls_silent()
            self._quiet_s += STEP_S
            return
        if not self._speaks:
            self._speaks = True
            self.answers += self._quiet_s >= PAUSE_S
            self._run_s = self._budget = 0.0
            self._spoken, self._reported = "", 0
            self._event("agentSpeaking", "on")
        self._quiet_s = 0.0
        self._run_s += STEP_S
        self._budget += STEP_S * CHARS_A_S
        while self._to_speak and self._budget >= 1:
            words = self._to_speak[0]
            length = min(len(words.text), int(self._budget))
            self._spoken += words.text[:length]
            self._budget -= length
            words.text = words.text[length:]
            if not words.text:
                self._to_speak.popleft()
        self._report()

    def _report(self, *, whole: bool = False) -> None:
        """Reports the words that were spoken, up to the last space."""
        until = len(self._spoken) if whole else self._spoken.rfind(" ") + 1
        if until > self._reported:
            self._event("tokensPlayed", self._spoken[self._reported : until])
            self._reported = until

    def _falls_silent(self) -> None:
        self._report(whole=True)
        self._speaks = False
        self._event("agentSpeaking", "off")
