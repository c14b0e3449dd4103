"""One run of an HTTP tool: its values, the evaluation of its answers, and its outcome."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from tools.http.compiled import CompiledTool
from tools.http.expressions import Expression
from tools.http.fetch import FailCode, HttpAnswer, PreparedRequest, RequestFailed
from tools.http.filters import TemplateFailed
from tools.http.model import PreStep, Returned
from tools.http.scope import ConversationValues, Scope, Visits
from tools.http.stored_values import store_matches

log = logging.getLogger(__name__)

MAX_ID_CHARS = 150  # of the id of a call in an idempotency key


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOutcome:
    """The result of a tool. `value` is for the model; `stored` and `flags` are names set in ctx.

    `status`: HTTP status of the last answer. `code`: reason of the failure; None on success and if
    a step stopped the tool.
    """

    value: Any
    ok: bool
    status: int | None = None
    code: FailCode | None = None
    stored: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A request that a tool sent, its secrets masked, and the answer; `code`: why there is none."""

    request: PreparedRequest
    ms: int
    answer: HttpAnswer | None = None
    code: FailCode | None = None


@dataclass(slots=True, kw_only=True)
class ToolRun:
    """One call of a tool: its arguments, the values extracted by its steps (`pre`), and the last
    answer.

    `visits`: the number of values that its JSONPaths may still visit, within the tool's timeout.
    `exchanges` gets the requests that were sent; None: they are not kept.
    """

    tool: CompiledTool
    args: Mapping[str, Any]
    values: ConversationValues
    call_id: str
    clock: Callable[[], int]
    visits: Visits = field(default_factory=Visits)
    pre: dict[str, Any] = field(default_factory=dict[str, Any])
    answer: HttpAnswer | None = None
    exchanges: list[Exchange] | None = None

    def scope(self, error: str | None = None) -> Scope:
        answer = self.answer
        return self.values.scope(
            self.clock(),
            args=self.args,
            pre=self.pre,
            error=error,
            status=None if answer is None else answer.status,
            response=None if answer is None else answer.value,
            visits=self.visits,
        )

    def key(self, step: str) -> str:
        """Returns the idempotency key of a request, shortened because servers limit its length."""
        call_id = quote(self.call_id, safe=":")
        if len(call_id) > MAX_ID_CHARS:
            call_id = hashlib.sha256(call_id.encode()).hexdigest()
        return f"{self.values.call_id}:{call_id}:{step}"


def evaluate_answer(run: ToolRun) -> ToolOutcome:
    """Returns the outcome of a tool from its answer, and stores values in ctx.

    Raises: RequestFailed, TemplateFailed.
    """
    tool = run.tool.model
    answer = run.answer
    assert answer is not None
    if not answer.ok:
        raise RequestFailed("refused_by_server", fact=str(answer.status))
    if tool.success_if is not None and not tool.success_if.holds(run.scope()):
        raise RequestFailed("not_accepted")
    stored = store_matches(run.values.ctx, tool.store_in_ctx, answer.value, run.scope())
    flags = tuple(tool.on_success_flags)
    run.values.ctx.update(dict.fromkeys(flags, True))
    value = rendered_result(run, tool.on_success, answer.value)
    if run.visits.are_spent:
        log.warning("answer_not_looked_through", extra={"tool": run.tool.name})
        if run.tool.effect == "read":  # a value that was not reached is not a missing value
            raise _visits_spent(run)
    return ToolOutcome(value=value, ok=True, status=answer.status, stored=stored, flags=flags)


def evaluate_step(run: ToolRun, step: PreStep) -> ToolOutcome | None:
    """Extracts the values of a step from its answer. Returns the outcome if it stops the tool."""
    response = None if run.answer is None else run.answer.value
    for name, path in step.extract.items():
        run.pre[name] = path.first(response, run.scope())
        if run.visits.are_spent:
            raise _visits_spent(run)
    return None if step.fail_if is None else stopped_by(step.fail_if, step, run)


def _visits_spent(run: ToolRun) -> RequestFailed:
    """Returns the error for a call whose JSONPaths visited too many values or ran out of time."""
    if time.monotonic() >= run.visits.until:
        return RequestFailed("timed_out", fact=f"{run.tool.timeout_s:g}", sent=True)
    return RequestFailed("too_large", sent=True)


def stopped_by(condition: Expression, step: PreStep, run: ToolRun) -> ToolOutcome | None:
    """Returns the outcome if the condition of a step is true, else None. Raises: TemplateFailed."""
    if not condition.holds(run.scope()):
        return None
    status = None if run.answer is None else run.answer.status
    return ToolOutcome(value=step.fail_return.render(run.scope()), ok=False, status=status)


def rendered_result(
    run: ToolRun, returned: Returned | None, default: Any, error: str | None = None
) -> Any:
    """Returns the rendered result of a document; `default` if it has none or it cannot be
    rendered.

    A call that succeeded is never reported as failed because its result cannot be rendered.
    """
    if returned is None or returned.return_ is None:
        return default
    try:
        return returned.return_.render(run.scope(error))
    except TemplateFailed:
        log.warning("return_not_rendered", extra={"tool": run.tool.name})
        return default
