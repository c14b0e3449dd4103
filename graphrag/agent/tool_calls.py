"""Runs the tool calls of one step, each at most once, and gives every one an answer.

Reads run side by side; writes run after one another and become proposals. Nothing that a model
writes, a tool does or a store fails at is an exception here: it is the answer to its call.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from datasources.errors import SourceError
from graphrag.agent.events import ToolFinished
from graphrag.agent.history import cut_text
from graphrag.agent.thread_store import ThreadBusy
from graphrag.approvals import AlreadyProposed, Approval, ApprovalError, Approvals, Person, ProposalRefused
from graphrag.approvals.store import WriteGuard
from graphrag.llm.base import ToolCall, ToolMessage
from tools.arguments import MalformedArguments, parse_arguments
from tools.base import Problem, Tool, ToolBox, ToolContext, ToolResult, failure
from tools.proposals import MalformedProposal, canonical_json

log = logging.getLogger(__name__)

REMEMBERED = 256
"""Results of reads that are stored to be given again; the oldest goes first."""
_REPEATED = "this call came with an id that was used before, so it was not run; call again if needed"
_CUT_OFF = "the arguments were cut off because the answer grew too long; send less at once"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallLimits:
    """Units: calls of a step, seconds, characters of a result as the model gets it."""

    calls_a_step: int = 10
    timeout_s: float = 15.0
    reuse_s: float = 30.0
    result_chars: int = 16_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CallPlace:
    """Where the calls of a step run, and for whom. `write_guard` stores proposals while the turn is held."""

    context: ToolContext
    person: Person
    thread_id: str
    turn: int
    model: str
    write_guard: WriteGuard | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A call and what came of it. With an `approval` a person decides what the model gets as its answer."""

    call: ToolCall
    result: ToolResult
    approval: Approval | None = None

    def message(self, limits: CallLimits) -> ToolMessage:
        return ToolMessage(
            call_id=self.call.id,
            name=self.call.name,
            content=cut_text(self.result.text, limits.result_chars),
            is_error=self.result.is_error,
        )

    def event(self) -> ToolFinished:
        return ToolFinished(
            call_id=self.call.id,
            name=self.call.name,
            arguments=self.call.arguments,
            result_text=self.result.text,
            is_error=self.result.is_error,
            data=self.result.data,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Requested:
    """The calls of one answer. `repeated` ids stood twice, `cut` ones were cut off: neither is run."""

    calls: Sequence[ToolCall]
    repeated: Collection[str] = ()
    cut: Collection[str] = ()


class ToolCalls:
    """Runs calls of all threads. Remembers what was read for a while, as long as the graph is the same."""

    def __init__(
        self,
        box: ToolBox,
        approvals: Approvals,
        *,
        limits: CallLimits | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.limits = limits or CallLimits()
        self._box, self._approvals, self._clock = box, approvals, clock
        self._remembered: OrderedDict[tuple[Any, ...], tuple[float, ToolResult]] = OrderedDict()

    def unusable(self, requested: Requested) -> list[Answered]:
        """Return the answers to calls that are never run."""
        found = ((call, _fault_of(call, requested)) for call in requested.calls)
        return [Answered(call=call, result=result) for call, result in found if result is not None]

    async def run(self, requested: Requested, place: CallPlace) -> AsyncGenerator[Answered]:
        """Yield each call with its answer, in the order asked.

        Stopped early (closed or cancelled), it stops the reads that are under way.
        """
        refused, firsts = self._sorted_out(requested)
        state = await self._state(place)
        reads = {
            call.id: asyncio.create_task(self._read(call, place, state))
            for call in requested.calls
            if call.id not in refused and not self._writes(call.name)
        }
        try:
            for call in requested.calls:
                if call.id in refused:
                    yield Answered(call=call, result=refused[call.id])
                elif call.id in reads:
                    yield Answered(call=call, result=await reads[call.id])
                else:
                    yield await self._propose(call, place)
        finally:
            for task in reads.values():
                task.cancel()
            await asyncio.gather(*reads.values(), return_exceptions=True)
        log.debug("tools_ran", extra={"calls": len(requested.calls), "run": len(firsts)})

    def _writes(self, name: str) -> bool:
        tool = self._box.get(name)
        return tool is not None and tool.writes

    def _sorted_out(self, requested: Requested) -> tuple[dict[str, ToolResult], dict[tuple[str, str], str]]:
        """Return the answers to calls that are not run, and of the others the first of each signature."""
        refused: dict[str, ToolResult] = {}
        firsts: dict[tuple[str, str], str] = {}
        limit = self.limits.calls_a_step
        for call in requested.calls:
            signature = _signature(call)
            first = firsts.get(signature)
            if (fault := _fault_of(call, requested)) is not None:
                refused[call.id] = fault
            elif first is not None:
                refused[call.id] = ToolResult(text=f"The same as call {first} of this step: see its result.")
            elif len(firsts) >= limit:
                what = f"only {limit} calls run in one step; this one did not: call it in the next step"
                refused[call.id] = failure("unavailable", Problem(what=what))
            else:
                firsts[signature] = call.id
        return refused, firsts

    async def _state(self, place: CallPlace) -> tuple[Any, ...] | None:
        """Return what a remembered result must have been read under; None: remember nothing."""
        context = place.context
        try:
            graph = await context.source.get_graph(context.graph_key)
        except SourceError:
            return None  # the tools will say so
        return (place.thread_id, context.role, graph.key, graph.revision, graph.created_time)

    async def _read(self, call: ToolCall, place: CallPlace, state: tuple[Any, ...] | None) -> ToolResult:
        key = (state, _signature(call))
        earlier = self._remembered.get(key)
        if earlier is not None and self._clock() - earlier[0] < self.limits.reuse_s:
            log.debug("tool_answer_reused", extra={"tool": call.name})
            return earlier[1]
        result = await self._guarded(call, self._box.run(call.name, call.arguments, place.context))
        if state is not None and not result.is_error:
            self._remembered[key] = (self._clock(), result)
            self._remembered.move_to_end(key)
            while len(self._remembered) > REMEMBERED:
                self._remembered.popitem(last=False)
        return result

    async def _guarded(self, call: ToolCall, work: Awaitable[ToolResult]) -> ToolResult:
        """Return the result of a tool, whatever becomes of it."""
        started = time.perf_counter()
        log.debug("tool_execute", extra={"tool": call.name})
        try:
            async with asyncio.timeout(self.limits.timeout_s):
                result = await work
        except TimeoutError:
            log.warning("tool_timed_out", extra={"tool": call.name, "seconds": self.limits.timeout_s})
            what = f"no result within {self.limits.timeout_s:g} s; ask for less, or tell the person"
            return failure("unavailable", Problem(what=what))
        except Exception as exc:  # a call without an answer would break the conversation
            log.exception("tool_broke", extra={"tool": call.name, "error": type(exc).__name__})
            return failure("unavailable", Problem(what="the tool failed; tell the person"))
        ms = round((time.perf_counter() - started) * 1e3, 2)
        log.debug("tool_result", extra={"tool": call.name, "resultLen": len(result.text), "ms": ms})
        return result

    async def _propose(self, call: ToolCall, place: CallPlace) -> Answered:
        """Run a write tool, which only validates; store what it proposes for a person to decide."""
        context, graph_key = place.context, place.context.graph_key
        stored: list[Approval] = []

        async def validate() -> ToolResult:
            source = await self._approvals.pending_view(graph_key=graph_key, thread_id=place.thread_id)
            return await self._box.run(call.name, call.arguments, replace(context, source=source))

        async def store() -> ToolResult:
            approval = await self._approvals.propose(
                graph_key=graph_key,
                thread_id=place.thread_id,
                turn=place.turn,
                tool_call_id=call.id,
                action=result.data,
                asker=place.person,
                model=place.model,
                reason=_reason(self._box.get(call.name), call),
                write_guard=place.write_guard,
            )
            stored.append(approval)
            log.debug("hitl_interrupt", extra={"tool": call.name, "approvalId": approval.id})
            return replace(result, data=approval.to_document()["action"])

        result = await self._guarded(call, validate())
        if not result.is_error:
            result = await self._guarded(call, _with_refusals(store()))
        return Answered(call=call, result=result, approval=stored[0] if stored else None)


async def _with_refusals(work: Awaitable[ToolResult]) -> ToolResult:
    try:
        return await work
    except ProposalRefused as exc:
        problems = exc.problems[:8]
        return failure("invalid_arguments", *problems)
    except AlreadyProposed as exc:
        return ToolResult(text=f"{exc}.")
    except (ApprovalError, MalformedProposal) as exc:
        return failure("invalid_arguments", Problem(what=str(exc)))
    except (SourceError, ThreadBusy) as exc:
        log.warning("proposal_failed", extra={"error": type(exc).__name__})
        return failure("unavailable", Problem(what="the proposal could not be stored; tell the person"))


def _fault_of(call: ToolCall, requested: Requested) -> ToolResult | None:
    if call.id in requested.repeated:
        return failure("invalid_arguments", Problem(what=_REPEATED))
    return failure("malformed_arguments", Problem(what=_CUT_OFF)) if call.id in requested.cut else None


def _signature(call: ToolCall) -> tuple[str, str]:
    """Return what makes two calls the same: name and arguments, however these are written."""
    try:
        return call.name, canonical_json(parse_arguments(call.arguments).values)
    except MalformedArguments:
        return call.name, f"?{call.arguments}"


def _reason(tool: Tool[Any] | None, call: ToolCall) -> str:
    reason = parse_arguments(call.arguments).values.get("reason")
    return reason if tool is not None and isinstance(reason, str) else ""
