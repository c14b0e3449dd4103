"""Signals and actions: the inputs and outputs of the state machine of a call.

Signals come from both sides, tools and the clock. Actions are carried out in their order. Audio is
G.711 μ-law at 8 kHz, 8 bytes a millisecond. The last group of each is for calls in which the
telephone service recognises and speaks (`graphrag.relay`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from graphrag.agent.thread_agent import EndReason
from graphrag.agents.model_refusal import ModelRefusal


@dataclass(frozen=True, slots=True)
class PhoneAudio:
    """Sound from the caller, in base64 as received."""

    payload: str


@dataclass(frozen=True, slots=True)
class PhoneMark:
    """A mark was returned: the sound before it was played, or discarded by a `clear`."""

    name: str


@dataclass(frozen=True, slots=True)
class PhoneDigit:
    """A key was pressed."""

    digit: str


@dataclass(frozen=True, slots=True)
class PhoneStopped:
    """The phone side was closed: the caller hung up or the line was lost."""

    reason: EndReason = "caller_hung_up"


@dataclass(frozen=True, slots=True)
class ModelEvent:
    """A parsed event of the model side, with its name of the GA interface."""

    event: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ModelLost:
    """The connection to the model was lost. `fatal`: another connection would be refused.

    `refusal`: the reason given by the server.
    """

    fatal: bool = False
    refusal: ModelRefusal | None = None


@dataclass(frozen=True, slots=True)
class ToolAnswered:
    """The output of a tool, a text for the model.

    `ends`: the tool ends the call, by a transfer if there is a `destination`.
    """

    call_id: str
    output: str
    ends: bool = False
    destination: str | None = None


@dataclass(frozen=True, slots=True)
class Note:
    """A note for the model, such as a decision about a proposal, to be told to the caller."""

    text: str


@dataclass(frozen=True, slots=True)
class EndWanted:
    """The call is to end: a person asked for it or the service stops."""

    reason: EndReason


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""


@dataclass(frozen=True, slots=True)
class CallerWords:
    """Recognised words of the caller. `is_whole`: the caller has finished."""

    text: str
    is_whole: bool = True


@dataclass(frozen=True, slots=True)
class CallerInterrupted:
    """The caller spoke while the agent did, which silenced the agent.

    `words`: what the agent had said until then; `after_ms`: for how long.
    """

    words: str
    after_ms: int = 0


@dataclass(frozen=True, slots=True)
class SpeechChanged:
    """The agent, or else the caller, has begun or stopped to speak."""

    is_agent: bool
    speaks: bool


@dataclass(frozen=True, slots=True)
class WordsPlayed:
    """The telephone service has spoken some words of the agent."""

    text: str


@dataclass(frozen=True, slots=True)
class AnswerWords:
    """Words of the answer with this number, as they come from the model."""

    number: int
    text: str


@dataclass(frozen=True, slots=True)
class AnswerEnded:
    """The answer with this number is over. `failure`: code of the fault that broke it off.

    `may_retry`: the model may be asked once more.
    """

    number: int
    failure: str | None = None
    may_retry: bool = False


@dataclass(frozen=True, slots=True)
class ToolBegan:
    """A tool of the agent runs. Its end is a `ToolAnswered`."""

    call_id: str
    name: str


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
    | CallerWords
    | CallerInterrupted
    | SpeechChanged
    | WordsPlayed
    | AnswerWords
    | AnswerEnded
    | ToolBegan
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
    """Run a tool of the agent. Its output is fed back as `ToolAnswered`."""

    call_id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Reconnect:
    """Reconnect to the model after `after_s` seconds."""

    after_s: float = 0.0


@dataclass(frozen=True, slots=True)
class ModelRefused:
    """Report a refusal of the model's service to the log, the record and the agent's health."""

    refusal: ModelRefusal


@dataclass(frozen=True, slots=True)
class WordsChanged:
    """Record a new or changed entry of the transcript."""

    item_id: str


@dataclass(frozen=True, slots=True)
class CallOver:
    """End the call: close the phone side, then the model side. The last action.

    `destination`: where the caller is transferred.
    """

    reason: EndReason
    destination: str | None = None
    said_goodbye: bool = False


@dataclass(frozen=True, slots=True)
class Counted:
    """Count or measure something, as `voice_barge_in_seconds`."""

    name: str
    value: float = 1.0


@dataclass(frozen=True, slots=True)
class AskModel:
    """Ask the model for the answer with this number: to the caller's words, or to notes alone.

    `repeats`: the answer before failed, and its question is asked again.
    """

    number: int
    words: str = ""
    notes: tuple[str, ...] = ()
    repeats: bool = False


@dataclass(frozen=True, slots=True)
class StopModel:
    """Break off the answer that the model writes. It still reports its end."""


@dataclass(frozen=True, slots=True)
class CutAnswer:
    """Cut the answer with this number, in what the model remembers, to the words heard.

    Number 0: the welcome.
    """

    number: int
    heard: str


Action = (
    SendPhone
    | SendModel
    | RunTool
    | Reconnect
    | ModelRefused
    | WordsChanged
    | CallOver
    | Counted
    | AskModel
    | StopModel
    | CutAnswer
)
