"""What differs between the engines of calls: the protocol of the phone side, the state machine that
decides, and what carries out its requests to the model.

`RealtimeEngine` passes sound between the phone and a Realtime model; `TextEngine` answers
recognised words with the model of chats. `ActiveCall` serves a call with either.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, final

from graphrag.agent.turn_lease import TurnLease
from graphrag.bridge.phone_messages import StreamStart
from graphrag.bridge.signals import Action, PhoneStopped, Signal
from graphrag.bridge.transcript import Transcript, TranscriptEntry
from graphrag.realtime.session_settings import SessionSettings
from graphrag.voice.call_setup import CallSetup
from graphrag.voice.call_thread import CallThread
from graphrag.voice.call_tools import CallTools

# Starts a task that ends with the call.
Spawn = Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]


class PhoneReader(Protocol):
    """Reads the messages of a phone side.

    `bad`: number of invalid ones; `gaps`: number of sequence errors.
    """

    bad: int
    gaps: int

    def read(self, text: str) -> Signal | StreamStart | None:
        """Returns the signal of a message, None if it has none. Raises: MessageRefused."""
        ...

    def closed(self, code: int | None) -> PhoneStopped:
        """Returns the end of a call whose phone side was closed without a message."""
        ...


class CallDialogue(Protocol):
    """The state machine of a call: signals in, actions out, no I/O.

    `transcribes`: the caller's words are known. `began`: seconds of the clock of `now`.
    """

    session: SessionSettings
    began: float
    transcript: Transcript

    @property
    def phase(self) -> str: ...

    @property
    def transcribes(self) -> bool: ...

    def feed(self, signal: Signal, now: float) -> list[Action]:
        """Processes a signal. Returns the actions to carry out, in order; none after the end."""
        ...

    def next_time(self) -> float | None:
        """Returns when the next `Tick` is due, None if no timer runs."""
        ...

    def heard(self, now: float) -> Iterator[TranscriptEntry]:
        """Yields the transcript in order. Answers hold only the words heard until `now`."""
        ...


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class OpenCall:
    """The parts of a call that exist once its session is open."""

    dialogue: CallDialogue
    thread: CallThread
    tools: CallTools


class EngineRecorder(Protocol):
    """Records what an engine reports."""

    def transcript(self) -> Sequence[dict[str, Any]]:
        """Returns the transcript until now, in its stored form."""
        ...

    def show(self, message: dict[str, Any]) -> None:
        """Sends a message to the followers, and has the call stored soon."""
        ...

    def touch(self) -> None:
        """Has the call stored soon."""
        ...

    def used(self, usage: AnswerTokens) -> None:
        """Adds tokens of the model to the call."""
        ...


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerTokens:
    """Tokens of one answer or transcription. `cost_usd`: None if the price is unknown."""

    audio_in: int = 0
    audio_out: int = 0
    text_in: int = 0
    text_out: int = 0
    cost_usd: float | None = None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class EngineParts:
    """What an engine works with. `take` feeds a signal to the dialogue."""

    setup: CallSetup
    start: StreamStart
    hold: TurnLease
    take: Callable[[Signal], None]
    spawn: Spawn
    recorder: EngineRecorder


class CallEngine(Protocol):
    """The engine of one call."""

    @property
    def reader(self) -> PhoneReader:
        """Reads the messages of the phone side."""
        ...

    async def open(self) -> OpenCall:
        """Stores the conversation. Returns its parts.

        Raises: AgentError, PromptError, SourceError, UsageLimitReached.
        """
        ...

    def begin(self) -> None:
        """Starts the work with the model, once the dialogue can be fed."""
        ...

    def do(self, action: Action) -> None:
        """Carries out an action that concerns the model; others are ignored."""
        ...

    def fed(self, signal: Signal, now: float) -> None:
        """Is told of a signal after the dialogue has processed it, for measures."""
        ...
