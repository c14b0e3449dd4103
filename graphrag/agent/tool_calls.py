"""Runs the tool calls of one step, each at most once, and answers every one.

Reads run concurrently. Writes run one after another and become proposals. Acts are not answered
from memory, never run twice for one id, and are finished once begun. Mistakes of a model and
failures of tools and stores are answers to the call, not exceptions.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar, final

from datasources.errors import SourceError
from graphrag.agent.requested_calls import (
    Answered,
    CallLimits,
    CallLog,
    CallRecord,
    Outcome,
    Requested,
    faulty,
    interrupted,
    left_out,
    signature,
    unchanged,
)
from graphrag.agent.thread_store import ThreadBusy
from graphrag.approvals import (
    CHAT_SESSION,
    AlreadyProposed,
    Approval,
    ApprovalError,
    Approvals,
    Asked,
    Person,
    ProposalRefused,
    ProposingSession,
    RejectedBefore,
)
from graphrag.approvals.approval_context import WriteGuard
from graphrag.leases import now_ms
from graphrag.llm.base import ToolCall
from tools.arguments import MalformedArguments, parse_arguments
from tools.base import GRAPH_ARGUMENT, Effect, Problem, ToolContext, ToolResult, failure
from tools.compact import cut
from tools.proposals import MalformedProposal
from tools.tool_box import ToolBox
from tools.write_tools.propose_tools import MAX_REASON_CHARS

log = logging.getLogger(__name__)

T = TypeVar("T")

REMEMBERED = 256  # results of reads, and errors, that may be reused; the oldest is dropped first
FINISH_S = 10.0  # for the act under way when a turn is stopped
LOOK_S = 2.0  # to look for a proposal that may have been stored although storing it failed
_UNSURE = (
    "storing the proposal did not end in time: it may appear later. "
    "Do not propose it again; tell the person"
)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class CallPlace:
    """Where the calls of a step run, for whom, and in which session. `write_guard` stores proposals
    while the turn's lease is held.

    `round`: number of the step in its turn. `begin_act` stores that a call is about to act;
    `end_act` stores its answer at once, even if the turn was stopped. `started`: ids of acts that
    began before and are not run again. `message`: the person's message, the reason of a proposal
    that gives none.
    """

    context: ToolContext
    person: Person
    thread_id: str
    turn: int
    model: str
    round: int = 0
    write_guard: WriteGuard | None = None
    session: ProposingSession = CHAT_SESSION
    begin_act: Callable[[str], Awaitable[None]] | None = None
    end_act: Callable[[Answered], Awaitable[None]] | None = None
    started: Collection[str] = ()
    message: str = ""


class CallRunner(Protocol):
    """Runs the tool calls of a turn."""

    @property
    def limits(self) -> CallLimits: ...

    def with_tools(self, box: ToolBox, graphs: tuple[str, ...] = ()) -> CallRunner:
        """Returns calls of other tools, with the same approvals, limits and log."""
        ...

    def unusable(self, requested: Requested, place: CallPlace) -> list[Answered]:
        """Returns the answers to the calls that cannot be run."""
        ...

    def run(self, requested: Requested, place: CallPlace) -> AsyncGenerator[Answered]:
        """Yields each call with its answer, in order."""
        ...

    def writes(self, name: str) -> bool:
        """Returns whether a tool proposes changes of a graph."""
        ...

    def only_read(self, requested: Requested) -> bool:
        """Returns whether calls have no effects, so that they may run again after a kill."""
        ...


@final
class ToolCalls:
    """Runs the tool calls of all threads. Results of reads are reused for a while if the graph did
    not change. A proposal belongs to the graph that its call names, if that is one of `graphs`.
    """

    def __init__(
        self,
        box: ToolBox,
        approvals: Approvals,
        *,
        limits: CallLimits | None = None,
        log: CallLog | None = None,
        clock: Callable[[], float] = time.monotonic,
        graphs: tuple[str, ...] = (),
    ) -> None:
        self._limits = limits or CallLimits()
        self._log = log or CallLog()
        self._graphs = graphs
        self._box = box
        self._approvals = approvals
        self._clock = clock
        self._remembered: OrderedDict[tuple[Any, ...], tuple[float, ToolResult]] = OrderedDict()
        self._failed: OrderedDict[tuple[Any, ...], ToolResult] = OrderedDict()
        self._begun: OrderedDict[tuple[Any, ...], None] = OrderedDict()
        self._acting: set[asyncio.Task[Answered]] = set()

    @property
    def limits(self) -> CallLimits:
        return self._limits

    def with_tools(self, box: ToolBox, graphs: tuple[str, ...] = ()) -> ToolCalls:
        """Returns calls of other tools, with the same approvals, limits and log."""
        return ToolCalls(
            box,
            self._approvals,
            limits=self.limits,
            log=self._log,
            clock=self._clock,
            graphs=graphs,
        )

    def unusable(self, requested: Requested, place: CallPlace) -> list[Answered]:
        """Returns the answers to the calls that cannot be run."""
        found = (faulty(call, requested) for call in requested.calls)
        return [self._noted(answered, place) for answered in found if answered is not None]

    async def run(self, requested: Requested, place: CallPlace) -> AsyncGenerator[Answered]:
        """Yields each call with its answer, in order.

        If it is closed or cancelled, it cancels the reads under way and begins no further act.
        """
        refused = left_out(requested, self._box, place.context, limit=self.limits.calls_a_step)
        asked = [
            call
            for call in requested.calls
            if call.id not in refused and self._effect(call) == "read"
        ]
        state = await self._state(place) if any(self._reusable(call) for call in asked) else None
        reads = {call.id: asyncio.create_task(self._read(call, place, state)) for call in asked}
        try:
            for call in requested.calls:
                if call.id in refused:
                    answered = refused[call.id]
                elif call.id in reads:
                    answered = await reads[call.id]
                elif self._effect(call) == "acts":
                    answered = await self._act(call, place)
                else:
                    found = await self._looked_for(call, place) if requested.may_be_stored else None
                    answered = (
                        await self._propose(call, place) if found is None else _stored(call, found)
                    )
                yield self._noted(answered, place)
        finally:
            for task in reads.values():
                task.cancel()
            await asyncio.gather(*reads.values(), return_exceptions=True)
        ran = len(requested.calls) - len(refused)
        log.debug("tools_ran", extra={"calls": len(requested.calls), "run": ran})

    def writes(self, name: str) -> bool:
        """Returns whether a tool proposes changes of a graph."""
        tool = self._box.get(name)
        return tool is not None and tool.effect == "proposes"

    def only_read(self, requested: Requested) -> bool:
        """Returns whether calls have no effects, so that they may run again after a kill."""
        return all(self._effect(call) == "read" for call in requested.calls)

    def _effect(self, call: ToolCall) -> Effect:
        tool = self._box.get(call.name)
        return "read" if tool is None else tool.effect

    def _noted(self, answered: Answered, place: CallPlace) -> Answered:
        """Records an answer. Returns it, shortened if the same call failed with it before in this
        turn.
        """
        if answered.outcome == "error" and self._reusable(answered.call):
            key = (place.thread_id, place.turn, hash(signature(answered.call)))
            before, self._failed[key] = self._failed.get(key), answered.result
            _forget_oldest(self._failed)
            if before is not None and before.text == answered.result.text:
                answered = replace(answered, result=unchanged(answered.result), outcome="unchanged")
        error = answered.result.error
        self._log.add(
            CallRecord(
                workspace=place.person.workspace,
                tool=answered.call.name[:100],
                thread_id=place.thread_id,
                turn=place.turn,
                round=place.round,
                outcome=answered.outcome,
                time=now_ms(),
                ms=answered.ms,
                error=error.code if error else None,
            )
        )
        return answered

    async def _state(self, place: CallPlace) -> tuple[Any, ...] | None:
        """Returns the state of the graph under which a result may be reused; None: not at all."""
        context = place.context
        try:
            graph = await context.source.get_graph(context.graph_key)
        except SourceError:
            return None  # the tools will say so
        return (place.thread_id, context.role, graph.key, graph.revision, graph.created_time)

    def _reusable(self, call: ToolCall) -> bool:
        tool = self._box.get(call.name)
        return tool is None or (tool.reusable and tool.effect != "acts")

    async def _read(
        self, call: ToolCall, place: CallPlace, state: tuple[Any, ...] | None
    ) -> Answered:
        reusable = self._reusable(call)
        key = (state, signature(call))
        earlier = self._remembered.get(key) if reusable else None
        if earlier is not None and self._clock() - earlier[0] < self.limits.reuse_s:
            log.debug("tool_answer_reused", extra={"tool": call.name})
            return Answered(call=call, result=earlier[1], outcome="reused")
        answered = await self._guarded(call, self._called(call, place.context))
        if reusable and state is not None and not answered.result.is_error:
            self._remembered[key] = (self._clock(), answered.result)
            self._remembered.move_to_end(key)
            _forget_oldest(self._remembered)
        return answered

    def _called(self, call: ToolCall, context: ToolContext) -> Awaitable[ToolResult]:
        return self._box.run(call.name, call.arguments, replace(context, call_id=call.id))

    async def _act(self, call: ToolCall, place: CallPlace) -> Answered:
        """Runs a call that acts, after storing that it begins.

        If the turn is stopped meanwhile, the act is awaited for FINISH_S and finishes later in any
        case. Raises: the errors of `begin_act` and `end_act`; after one of `begin_act` the call is
        not run.
        """
        begun = (place.person.workspace, place.thread_id, call.id)
        if call.id in place.started or begun in self._begun:
            return interrupted(call)
        self._begun[begun] = None
        _forget_oldest(self._begun)
        if place.begin_act is not None:
            await place.begin_act(call.id)
        task = asyncio.create_task(self._acted(call, place))
        self._acting.add(task)
        task.add_done_callback(self._ended)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            await asyncio.wait((task,), timeout=FINISH_S)
            raise

    async def _acted(self, call: ToolCall, place: CallPlace) -> Answered:
        answered = await self._guarded(call, self._called(call, place.context))
        if place.end_act is not None:
            await place.end_act(answered)
        return answered

    def _ended(self, task: asyncio.Task[Answered]) -> None:
        self._acting.discard(task)
        if not task.cancelled() and (failed := task.exception()) is not None:
            log.warning("act_not_stored", extra={"error": type(failed).__name__})

    async def guarded(self, name: str, work: Awaitable[ToolResult]) -> ToolResult:
        """Returns the result of a read that no model called, within the same limits."""
        answered = await self._guarded(ToolCall(id=name, name=name, arguments="{}"), work)
        return replace(answered.result, text=cut(answered.result.text, self.limits.result_chars))

    async def _guarded(self, call: ToolCall, work: Awaitable[ToolResult]) -> Answered:
        """Returns the result of a tool. A timeout or an exception becomes an error result."""
        started = time.perf_counter()
        log.debug("tool_execute", extra={"tool": call.name})
        outcome: Outcome
        tool = self._box.get(call.name)
        timeout_s = (
            self.limits.timeout_s if tool is None or tool.timeout_s is None else tool.timeout_s
        )
        try:
            async with asyncio.timeout(timeout_s):
                result = await work
            outcome = "error" if result.is_error else "ok"
        except TimeoutError:
            log.warning("tool_timed_out", extra={"tool": call.name, "seconds": timeout_s})
            what = f"no result within {timeout_s:g} s; ask for less, or tell the person"
            result = failure("unavailable", Problem(what=what))
            outcome = "timeout"
        except Exception as exc:  # a call without an answer would break the conversation
            log.exception("tool_broke", extra={"tool": call.name, "error": type(exc).__name__})
            what = "the tool failed; tell the person"
            result = failure("unavailable", Problem(what=what))
            outcome = "broke"
        ms = round((time.perf_counter() - started) * 1e3, 2)
        if outcome in ("ok", "error"):
            log.debug(
                "tool_result", extra={"tool": call.name, "resultLen": len(result.text), "ms": ms}
            )
        return Answered(call=call, result=result, outcome=outcome, ms=ms)

    async def _propose(self, call: ToolCall, place: CallPlace) -> Answered:
        """Runs a write tool, which only validates, and stores its proposal for a person to decide.

        Both share one time limit. If storing failed, the proposal is looked for, as it may exist.
        """
        place = self._place_of(call, place)
        context = place.context
        graph_key = place.context.graph_key
        validated: list[ToolResult] = []
        stored: list[Approval] = []

        async def validate_and_store() -> ToolResult:
            source = await self._approvals.pending_view(
                graph_key=graph_key, thread_id=place.thread_id
            )
            result = await self._called(call, replace(context, source=source))
            if result.is_error:
                return result
            validated.append(result)
            return await self._stored(call, place, result, stored)

        answered = await self._guarded(call, validate_and_store())
        error = answered.result.error
        if not validated or stored or error is None or error.code != "unavailable":
            return replace(answered, approval=stored[0] if stored else None)
        found = await self._looked_for(call, place)
        if found is None:
            result = failure("unavailable", Problem(what=_UNSURE))
            return replace(answered, result=result, unsure=True)
        result = replace(validated[0], data=found.to_document()["action"])
        return replace(answered, result=result, approval=found)

    def _place_of(self, call: ToolCall, place: CallPlace) -> CallPlace:
        """Returns the place of a proposal, with the graph that the call names."""
        try:
            named = parse_arguments(call.arguments).values.get(GRAPH_ARGUMENT)
        except MalformedArguments:
            return place
        if named not in self._graphs:
            return place
        return replace(place, context=replace(place.context, graph_key=named))

    async def _stored(
        self, call: ToolCall, place: CallPlace, result: ToolResult, stored: list[Approval]
    ) -> ToolResult:
        asked = Asked(
            graph_key=place.context.graph_key,
            thread_id=place.thread_id,
            turn=place.turn,
            tool_call_id=call.id,
            asker=place.person,
            model=place.model,
            reason=_argument(call, "reason", "") or place.message[:MAX_REASON_CHARS],
            write_guard=place.write_guard,
            session=place.session,
            ask_first=_argument(call, "askFirst", False),
        )
        try:
            approval = await self._approvals.propose(result.data, asked)
        except ProposalRefused as exc:
            return failure("invalid_arguments", *exc.problems[:8])
        except (AlreadyProposed, RejectedBefore) as exc:
            return ToolResult(text=f"{exc}.", outcome={"status": exc.code, **exc.facts})
        except (ApprovalError, MalformedProposal) as exc:
            return failure("invalid_arguments", Problem(what=str(exc)))
        except (SourceError, ThreadBusy) as exc:
            log.warning("proposal_failed", extra={"error": type(exc).__name__})
            return failure(
                "unavailable", Problem(what="the proposal could not be stored; tell the person")
            )
        stored.append(approval)
        log.debug("hitl_interrupt", extra={"tool": call.name, "approvalId": approval.id})
        return replace(result, data=approval.to_document()["action"])

    async def _looked_for(self, call: ToolCall, place: CallPlace) -> Approval | None:
        try:
            async with asyncio.timeout(LOOK_S):
                found = await self._approvals.list(thread_id=place.thread_id, by=place.person)
        except (SourceError, TimeoutError):
            return None
        return next((approval for approval in found if approval.tool_call_id == call.id), None)


def _stored(call: ToolCall, proposal: Approval) -> Answered:
    result = ToolResult(text="", data=proposal.to_document()["action"])
    return Answered(call=call, result=result, approval=proposal)


def _forget_oldest(remembered: OrderedDict[Any, Any]) -> None:
    while len(remembered) > REMEMBERED:
        remembered.popitem(last=False)


def _argument(call: ToolCall, name: str, default: T) -> T:
    """Returns an argument of a call, or the default if it has another type."""
    value = parse_arguments(call.arguments).values.get(name)
    return value if isinstance(value, type(default)) else default
