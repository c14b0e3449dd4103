"""The tool calls of one answer: the calls to run, and the answers to the others.

A log keeps the last calls of this process: which ran, which were refused and why; neither arguments
nor results.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Literal, final

from pydantic import BaseModel

from graphrag.agent.events import ToolFinished
from graphrag.agent.history import cut_text
from graphrag.approvals import Approval
from graphrag.llm.base import ToolCall, ToolMessage
from tools.arguments import MalformedArguments, parse_arguments
from tools.base import Problem, ToolContext, ToolError, ToolResult, failure
from tools.proposals import canonical_json
from tools.session_tools import AskPerson
from tools.tool_box import ToolBox

KEPT = 200

Outcome = Literal[
    "ok",
    "error",
    "unchanged",
    "reused",
    "duplicate",
    "repeated",
    "cut",
    "over_limit",
    "not_alone",
    "interrupted",
    "timeout",
    "broke",
]
"""The outcome of a call. `unchanged`: the same error as before. `reused`: a result that was read
before. `not_alone`: this call, or one beside it, must be the only one of its step. `interrupted`:
an act that began before.
"""

NOT_RUN: frozenset[Outcome] = frozenset(
    ("duplicate", "repeated", "cut", "over_limit", "not_alone", "interrupted")
)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class CallRecord:
    """A call in the log. Units: `time` in milliseconds since 1970, `ms` in milliseconds. `tool`: as
    the model wrote it.

    `error`: code of an error. `workspace`: whose admins may see it.
    """

    workspace: str
    tool: str
    thread_id: str
    turn: int
    round: int
    outcome: Outcome
    time: int
    ms: float = 0.0
    error: str | None = None

    @property
    def refused(self) -> str | None:
        """The reason why the call was not run; None if it was."""
        if self.outcome in NOT_RUN:
            return self.outcome
        return self.error if self.error in _NOT_TAKEN else None


_NOT_TAKEN = frozenset(
    ("unknown_tool", "not_permitted", "malformed_arguments", "invalid_arguments")
)


@final
class CallLog:
    """Keeps the last KEPT calls. `on_call` is called with each and may not raise."""

    def __init__(self, on_call: Callable[[CallRecord], None] | None = None) -> None:
        self._on_call = on_call
        self._calls: deque[CallRecord] = deque(maxlen=KEPT)

    def add(self, call: CallRecord) -> None:
        self._calls.appendleft(call)
        if self._on_call is not None:
            self._on_call(call)

    def of(self, workspaces: Collection[str]) -> list[CallRecord]:
        """Returns the calls of some workspaces, newest first."""
        return [call for call in self._calls if call.workspace in workspaces]


_REPEATED = (
    "this call came with an id that was used before, so it was not run; call again if needed"
)
_INTERRUPTED = '{"success":false,"error":"interrupted; it may have been carried out"}'
_CUT_OFF = "the arguments were cut off, so the call was not run; call again, with less at once"
_NAMELESS = "the call has no name of a tool, so it was not run; call again with the name"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class CallLimits:
    """Units: calls of a step, seconds, characters of a result for the model."""

    calls_a_step: int = 10
    timeout_s: float = 15.0
    reuse_s: float = 30.0
    result_chars: int = 16_000


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A call and its result. With an `approval` or a `question`, a person decides what the model
    gets. `unsure`: a proposal may have been stored although storing it failed. Units: `ms` of the
    tool; `ended` in seconds of `time.perf_counter`.
    """

    call: ToolCall
    result: ToolResult
    approval: Approval | None = None
    outcome: Outcome = "ok"
    ms: float = 0.0
    unsure: bool = False
    ended: float = field(default_factory=time.perf_counter, compare=False)

    @property
    def last_problem(self) -> str:
        """The last sentence of its error; empty without an error."""
        problems = self.result.error.problems if self.result.error else ()
        return problems[-1].what if problems else ""

    @property
    def question(self) -> AskPerson | None:
        return self.result.data if isinstance(self.result.data, AskPerson) else None

    def message(self, limits: CallLimits) -> ToolMessage:
        return ToolMessage(
            call_id=self.call.id,
            name=self.call.name,
            content=cut_text(self.result.text, limits.result_chars),
            is_error=self.result.is_error,
            outcome=self.result.outcome,
        )

    def event(self) -> ToolFinished:
        data = self.result.data
        return ToolFinished(
            call_id=self.call.id,
            name=self.call.name,
            arguments=self.call.arguments,
            result_text=self.result.text,
            is_error=self.result.is_error,
            data=data.model_dump(by_alias=True) if isinstance(data, BaseModel) else data,
        )


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Requested:
    """The calls of one answer. `repeated`: ids that occurred twice; `cut`: ids whose arguments were
    cut off. Neither is run. `may_be_stored`: an ended process may have stored some of the
    proposals.
    """

    calls: Sequence[ToolCall]
    repeated: Collection[str] = ()
    cut: Collection[str] = ()
    may_be_stored: bool = False


def left_out(
    requested: Requested, box: ToolBox, context: ToolContext, *, limit: int
) -> dict[str, Answered]:
    """Returns the answers to calls that are not run, by id. Of equal calls the first is run.

    Two acts with equal arguments and different ids are two acts.
    """
    refused: dict[str, Answered] = {}
    firsts: dict[tuple[str, str], str] = {}
    alone = _alone(requested.calls, box, context)
    for call in requested.calls:
        what = signature(call)
        if (tool := box.get(call.name)) is not None and tool.effect == "acts":
            what = (call.name, call.id)
        first = firsts.get(what)
        if (unusable := faulty(call, requested)) is not None:
            refused[call.id] = unusable
        elif alone is not None:
            text = f"{alone} must be the only call of its step; no call of this step was run"
            problem = Problem(what=text, allowed=f"{alone} alone, or the other calls without it")
            result = failure("not_permitted", problem)
            refused[call.id] = Answered(call=call, result=result, outcome="not_alone")
        elif first is not None:
            result = ToolResult(text=f"The same as call {first} of this step: see its result.")
            refused[call.id] = Answered(call=call, result=result, outcome="duplicate")
        elif len(firsts) >= limit:
            text = f"only {limit} calls run in one step; this one did not: call it in the next step"
            result = failure("unavailable", Problem(what=text))
            refused[call.id] = Answered(call=call, result=result, outcome="over_limit")
        else:
            firsts[what] = call.id
    return refused


def _alone(calls: Sequence[ToolCall], box: ToolBox, context: ToolContext) -> str | None:
    """Returns the tool among several calls that must be called alone."""
    tools = [box.get(call.name) for call in calls] if len(calls) > 1 else []
    asked = (context.role, context.session_kind, context.features)
    return next((t.name for t in tools if t is not None and t.alone and t.is_for(*asked)), None)


def faulty(call: ToolCall, requested: Requested) -> Answered | None:
    """Returns the answer to a call that cannot be run, None if it can."""
    if call.id in requested.repeated:
        result = failure("invalid_arguments", Problem(what=_REPEATED))
        return Answered(call=call, result=result, outcome="repeated")
    if call.id in requested.cut:
        result = failure("malformed_arguments", Problem(what=_CUT_OFF if call.name else _NAMELESS))
        return Answered(call=call, result=result, outcome="cut")
    return None


def interrupted(call: ToolCall) -> Answered:
    """Returns the answer to an act that began before: it may have been carried out."""
    error = ToolError(code="unavailable", problems=(Problem(what="interrupted"),))
    return Answered(
        call=call, result=ToolResult(text=_INTERRUPTED, error=error), outcome="interrupted"
    )


def unchanged(result: ToolResult) -> ToolResult:
    """Returns the answer to a call that failed with the same error before; it ends the turn's
    calls.
    """
    assert result.error is not None
    what = "unchanged: the same error as for this call before; tell the person"
    return failure(result.error.code, Problem(what=what), *result.error.problems[:1])


def signature(call: ToolCall) -> tuple[str, str]:
    """Returns a key that is equal for calls of the same tool with equal arguments."""
    try:
        return call.name, canonical_json(parse_arguments(call.arguments).values)
    except MalformedArguments:
        return call.name, f"?{call.arguments}"
