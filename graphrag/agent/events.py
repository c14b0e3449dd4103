"""The events of a turn, which every channel (command line, HTTP, WebSocket) forwards or collects.

A turn begins with `TurnStarted` and ends with exactly one of `Completed`, `ProposalPending`,
`ToolLimit`, `QuestionAsked` or `Failed`. After `ProposalPending`, `ToolLimit` and `QuestionAsked` the thread
waits for `resume`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from graphrag.agent.failures import TurnFault
from graphrag.agent.pending_question import PendingQuestion
from graphrag.approvals import Approval


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnStarted:
    """The thread is stored: from here on the turn can be stopped and found again.

    `retrieved` holds the keys of the nodes that the model is shown, most relevant first; `reasons` say why
    of those that were found for this message. `words_only`: the embedding service failed, so they were
    found by their words alone.
    """

    thread_id: str
    turn: int
    retrieved: tuple[str, ...] = ()
    reasons: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    words_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A piece of the answer, as it may be shown."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptRead:
    """How much of the prompt the model has read, where its server says so. Units: tokens."""

    done: int
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolStarted:
    """The model writes a call. Comes once a call."""

    call_id: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFinished:
    """A call has its answer. `result_text` is whole, also where the model gets it cut.

    `arguments` is what the model wrote. `data` is the result for a program; of a proposal it is
    the resolved action.
    """

    call_id: str
    name: str
    arguments: str
    result_text: str
    is_error: bool
    data: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageReported:
    """Tokens of one model call. `cost_usd` None: nobody knows the price. `estimated`: counted by us."""

    prompt: int
    completion: int
    cached: int = 0
    cache_written: int = 0
    reasoning: int = 0
    cost_usd: float | None = None
    estimated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionApplied:
    """A proposal of this thread was applied: just now, or meanwhile elsewhere."""

    approval: Approval


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """The answer. `text` is all of it since the person's message or decision. `stopped`: as far as it
    had come when the person stopped it from elsewhere. `end_reason`, `outcome`: of the whole conversation,
    where its agent ended it with this answer."""

    thread_id: str
    text: str
    stopped: bool = False
    end_reason: str | None = None
    outcome: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposalPending:
    """The turn waits for decisions. `text` is what the model said before; oldest proposal first."""

    thread_id: str
    text: str
    approvals: tuple[Approval, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolLimit:
    """The model wants more rounds of tools than it has: a person grants them or asks for an answer."""

    thread_id: str
    text: str
    rounds_used: int
    max_extended: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionAsked:
    """The model asks the person; only to a client that can show it. `text` is what it said before."""

    thread_id: str
    text: str
    asked: PendingQuestion


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The turn broke off. The thread is valid; `resume` tries the step again where that may help."""

    thread_id: str
    fault: TurnFault


Ending = Completed | ProposalPending | ToolLimit | QuestionAsked | Failed
"""With one of these a turn ends."""

Event = (
    TurnStarted
    | Token
    | PromptRead
    | ToolStarted
    | ToolFinished
    | UsageReported
    | ActionApplied
    | Completed
    | ProposalPending
    | ToolLimit
    | QuestionAsked
    | Failed
)
