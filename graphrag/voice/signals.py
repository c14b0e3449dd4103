"""The inputs of a call's bridge (what happened) and its outputs (what is to be done).

Inputs are what happened on the two sides, in tools and to the clock; actions are carried out in the
order in which they come. Audio is G.711 μ-law, 8 kHz: a byte is an eighth of a millisecond.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from graphrag.agent.thread_agent import EndReason
from graphrag.agents.model_refusal import ModelRefusal


@dataclass(frozen=True, slots=True)
class PhoneAudio:
    """Sound from the caller, in base64 as it came."""

    payload: str


@dataclass(frozen=True, slots=True)
class PhoneMark:
    """A mark came back: the sound before it was played, or thrown away by a `clear`."""

    name: str


@dataclass(frozen=True, slots=True)
class PhoneDigit:
    """A key of the telephone."""

    digit: str


@dataclass(frozen=True, slots=True)
class PhoneStopped:
    """The phone side is gone: the caller hung up, or the line was lost."""

    reason: EndReason = "caller_hung_up"


@dataclass(frozen=True, slots=True)
class ModelEvent:
    """An event of the model side, parsed, under its name of the GA interface."""

    event: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ModelLost:
    """The connection to the model is gone. `fatal`: another one would be refused as well.

    `refusal`: what the server said, where it said something.
    """

    fatal: bool = False
    refusal: ModelRefusal | None = None


@dataclass(frozen=True, slots=True)
class ToolAnswered:
    """A tool gave its output, a text for the model. `ends`: it ends the call, by a transfer to
    `destination` where there is one.
    """

    call_id: str
    output: str
    ends: bool = False
    destination: str | None = None


@dataclass(frozen=True, slots=True)
class Note:
    """Something the model has to know, as a decision of a proposal; it speaks of it when it can."""

    text: str


@dataclass(frozen=True, slots=True)
class EndWanted:
    """The call is to end, because somebody said so or the service stops."""

    reason: EndReason


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""


Signal = (
    PhoneAudio
    | PhoneMark
    | PhoneDigit
    | PhoneStopped
    | ModelEvent
    | ModelLost
    | ToolAnswered
    | Note
    | EndWanted
    | Tick
)


@dataclass(frozen=True, slots=True)
class SendPhone:
    """Send a text frame to the phone side."""

    text: str


@dataclass(frozen=True, slots=True)
class SendModel:
    """Send a frame to the model side."""

    text: str


@dataclass(frozen=True, slots=True)
class RunTool:
    """Run a tool of the agent; its output comes back as `ToolAnswered`."""

    call_id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Reconnect:
    """Open the model side again after `after_s` seconds; its `session.created` is the
    next that comes.
    """

    after_s: float = 0.0


@dataclass(frozen=True, slots=True)
class ModelRefused:
    """The model's service refused something: it goes to the log, the call's record and
    the agent's health.
    """

    refusal: ModelRefusal


@dataclass(frozen=True, slots=True)
class WordsChanged:
    """An entry of the transcript is new or has changed."""

    item_id: str


@dataclass(frozen=True, slots=True)
class CallOver:
    """The call is over: close the phone side, then the model side. Nothing is wanted after it.

    `destination`: to whom the caller is transferred.
    """

    reason: EndReason
    destination: str | None = None
    said_goodbye: bool = False


@dataclass(frozen=True, slots=True)
class Counted:
    """Something worth counting or measuring, as `voice_barge_in_seconds`."""

    name: str
    value: float = 1.0


Action = (
    SendPhone | SendModel | RunTool | Reconnect | ModelRefused | WordsChanged | CallOver | Counted
)
