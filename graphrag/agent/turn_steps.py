"""The steps of a turn: asks the model and runs its tool calls, until an answer or a wait."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from typing import final

from datasources.base import GraphDataSource
from graphrag.agent.answer_check import mark_claims
from graphrag.agent.events import Ending, Event, PendingQuestion, ToolFinished
from graphrag.agent.history import unanswered
from graphrag.agent.model_caller import ModelCaller
from graphrag.agent.requested_calls import Answered, Requested
from graphrag.agent.tool_calls import CallPlace, CallRunner
from graphrag.agent.turn import Turn
from graphrag.approvals import Approval, Approvals
from graphrag.commands import BlockReader
from graphrag.logs import bind_log_context
from graphrag.retrieval.retriever import Retriever
from graphrag.retrieval.workspace_search import WorkspaceSearch
from tools.base import ToolContext

Start = Ending | tuple[Requested | None, bool]
"""The last event of a turn, or the calls to run first and whether the answer is final."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class AgentLimits:
    """Rounds of tools of a turn: at first, and at most when a person grants more."""

    rounds: int = 5
    max_rounds: int = 10


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TurnSteps:
    """A model with its tools, and the loop of the turns that it answers."""

    source: GraphDataSource
    retriever: Retriever
    blocks: BlockReader
    approvals: Approvals
    caller: ModelCaller
    calls: CallRunner
    limits: AgentLimits = AgentLimits()

    async def run(
        self, turn: Turn, take_up: Callable[[], Awaitable[Start]] | None = None
    ) -> AsyncGenerator[Event]:
        """Asks the model and runs its calls until there is an answer or a decision to wait for.

        Yields the events; the last one is an `Ending`. `take_up` returns how a resumed turn starts.
        """
        bind_log_context(turn=turn.state.number)
        start: Start = (None, False) if take_up is None else await take_up()
        while not isinstance(start, Ending):
            requested, final = start
            if requested is not None:
                proposals: list[Approval] = []
                async with aclosing(self._round(turn, requested)) as answers:
                    async for answered in answers:
                        event = self._take_in(turn, answered, proposals)
                        if isinstance(event, PendingQuestion):
                            yield await turn.ask_person(event)
                            return
                        if event is not None:
                            yield event
                events, start = await self._after_round(turn, proposals, final=final)
            elif (text := turn.kind.final_text(turn)) is not None:
                events = ()
                start = await turn.complete(text)
            else:
                async with aclosing(self.caller.ask(turn, final=final)) as said:
                    async for event in said:
                        yield event
                events, start = await self._after_reply(turn, final=final)
            for event in events:
                yield event
        yield start

    async def take_up(
        self, turn: Turn, waiting: list[Approval], grant_rounds: bool | None
    ) -> Start:
        """Stores that a turn is resumed. Returns how it starts."""
        requested = None
        final = False
        if (question := turn.question) is not None:
            return await turn.ask_person(question)
        if turn.state.status == "limit":
            if grant_rounds is None:
                return await turn.at_limit(self.limits.max_rounds)
            if grant_rounds:
                turn.change(rounds_allowed=self.limits.max_rounds)
                calls = unanswered(turn.messages)
                requested = Requested(calls=calls) if calls else None
            else:
                turn.answer_rest("limit_refused")
                final = True
        elif waiting:
            turn.answer_rest("interrupted")
            return await turn.wait(waiting)
        if requested is None:
            turn.conversation.repair()
        await turn.save("running")
        return requested, final

    async def propose_pending(self, turn: Turn) -> bool:
        """Makes the proposals that a turn of another program waits for.

        Returns True if all of them were refused.
        """
        calls = unanswered(turn.messages)
        if turn.state.status != "waiting" or turn.state.open or turn.question or not calls:
            return False
        proposals: list[Approval] = []
        async with aclosing(self._round(turn, Requested(calls=calls))) as answers:
            async for answered in answers:
                self._take_in(turn, answered, proposals)
        if proposals:
            await turn.wait(proposals)
        else:
            await turn.save("running")
        return not proposals

    async def _after_reply(self, turn: Turn, *, final: bool) -> tuple[Sequence[Event], Start]:
        """Adds the model's answer to the turn. Returns the events, and how the turn goes on."""
        reply = turn.take_reply()
        if not reply.calls:
            may_call_tools = None if final else turn.kind.correct(turn, reply)
            if may_call_tools is None:
                await mark_claims(self.source, turn, reply)
                return (), await turn.complete(turn.text)
            await turn.save("running")
            return (), (None, not may_call_tools)
        turn.reset_corrections()
        allowed = turn.state.rounds_allowed
        if turn.state.rounds_used >= (self.limits.max_rounds if turn.interactive else allowed):
            turn.answer_rest("limit_reached")
            await turn.save("running")
            return (), (None, True)
        if turn.state.rounds_used >= allowed:
            unusable = self.calls.unusable(reply.requested, self.place(turn))
            turn.conversation.add(*(answered.message(self.calls.limits) for answered in unusable))
            ending = await turn.at_limit(self.limits.max_rounds)
            return [answered.event() for answered in unusable], ending
        requested = turn.kind.accept(turn, reply.requested, self.calls.writes)
        events: list[Event] = []
        if turn.session.kind == "automation":
            # Stored with the answer: the calls that remain are run by whoever resumes the run.
            unusable = self.calls.unusable(requested, self.place(turn))
            for answered in unusable:
                turn.trace.called(answered)
                turn.take_answer(answered, self.calls.limits)
                events.append(answered.event())
            answered_ids = {answered.call.id for answered in unusable}
            left = [call for call in requested.calls if call.id not in answered_ids]
            requested = replace(requested, calls=left)
        if turn.session.kind != "chat" or not self.calls.only_read(requested):
            await turn.save("running")  # a call with effects is stored before it runs
        return events, (requested, final)

    async def _after_round(
        self, turn: Turn, proposals: list[Approval], *, final: bool
    ) -> tuple[Sequence[Event], Start]:
        """Ends a round of tools. Returns the events, and how the turn goes on."""
        events, waiting = await turn.kind.end_step(turn, self.approvals, proposals)
        if waiting:
            return events, await turn.wait(waiting)
        turn.conversation.repair()
        await turn.save("running")
        return events, (None, final or turn.failed_twice is not None)

    def _round(self, turn: Turn, requested: Requested) -> AsyncGenerator[Answered]:
        """Counts a round of tools and runs its calls. Yields each call with its answer."""
        turn.change(rounds_used=turn.state.rounds_used + 1)
        return self.calls.run(requested, self.place(turn))

    def _take_in(
        self, turn: Turn, answered: Answered, proposals: list[Approval]
    ) -> ToolFinished | PendingQuestion | None:
        """Adds the answer to a call to the turn, and a proposal to `proposals`. Returns the event.

        A question is the only call of its round.
        """
        turn.trace.called(answered)
        if answered.approval is not None:
            turn.open_proposals([answered.approval])
            proposals.append(answered.approval)
            return None
        if answered.question is not None:
            return PendingQuestion(call_id=answered.call.id, question=answered.question)
        turn.note_failure(answered)
        turn.take_answer(answered, self.calls.limits)
        return answered.event()

    def place(self, turn: Turn) -> CallPlace:
        """Returns where the calls of a turn run, and for whom."""
        return CallPlace(
            context=ToolContext(
                source=self.source,
                graph_key=turn.graph_key,
                role=turn.role,
                session_kind=turn.session.kind,
                features=turn.features,
                language=turn.language,
                search=self.retriever.search,
                search_all=WorkspaceSearch(self.retriever),
                history=self.blocks.history_of(turn.calendar, turn.reference),
            ),
            person=turn.person,
            thread_id=turn.thread_id,
            turn=turn.state.number,
            model=self.caller.provider.model,
            round=turn.state.rounds_used,
            write_guard=turn.hold.write,
            session=turn.session,
            message=turn.conversation.asked,
            started=turn.state.started,
            begin_act=turn.begin_act,
            end_act=partial(turn.end_act, limits=self.calls.limits),
        )
