"""The steps of a turn: the model is asked, and what it calls is run, until there is an answer
or a wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from datasources.base import GraphDataSource
from graphrag.agent.answer_check import mark_claims
from graphrag.agent.events import Ending, Event, PendingQuestion, ToolFinished, UsageReported
from graphrag.agent.model_caller import ModelCaller
from graphrag.agent.requested_calls import Answered, Requested
from graphrag.agent.running_turn import RunningTurn
from graphrag.agent.thread_store import Threads
from graphrag.agent.tool_calls import CallPlace, ToolCalls
from graphrag.agent.turn_lease import TurnLeases
from graphrag.agent.turn_trace import Traces
from graphrag.approvals import Approval, Approvals, Person
from graphrag.commands import BlockReader
from graphrag.llm.base import LLMProvider, Message, SystemMessage, UserMessage
from graphrag.llm.usage_meter import Payer
from graphrag.logs import bind_log_context
from graphrag.retrieval.context import ContextOptions
from graphrag.retrieval.prepared_prompt import prepare_prompt, write_instructions
from graphrag.retrieval.retriever import Retriever
from graphrag.retrieval.workspace_search import WorkspaceSearch
from tools.base import ToolContext

Start = Ending | tuple[Requested | None, bool]
"""How a resumed turn ends at once, or the calls that are run first and whether the
answer is final.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentLimits:
    """Rounds of tools of a turn: at first, and at most once a person grants more."""

    rounds: int = 5
    max_rounds: int = 10


class TurnSteps:
    """What an agent works with, and how it goes from step to step."""

    def __init__(
        self,
        *,
        source: GraphDataSource,
        retriever: Retriever,
        caller: ModelCaller,
        calls: ToolCalls,
        threads: Threads,
        leases: TurnLeases,
        approvals: Approvals,
        blocks: BlockReader,
        context_options: ContextOptions,
        limits: AgentLimits | None = None,
        traces: Traces | None = None,
    ) -> None:
        self.limits = limits or AgentLimits()
        self._traces = traces
        self._source = source
        self._retriever = retriever
        self._caller = caller
        self._calls = calls
        self._threads = threads
        self.leases = leases
        self._approvals = approvals
        self._context_options = context_options
        self.on_turn: Callable[[str], Awaitable[None]] | None = None
        """Called with the key of a graph when a turn about it begins, beside the turn; it
        may not raise.
        """
        self._calling = set[asyncio.Future[None]]()
        self.blocks = blocks

    @property
    def provider(self) -> LLMProvider:
        """Whose model answers."""
        return self._caller.provider

    async def answer_alone(
        self, messages: Sequence[Message], by: Person
    ) -> tuple[str, UsageReported]:
        """Return the model's answer to messages that are no conversation of ours, and what it used.

        Raises: ModelError, UsageLimitReached.
        """
        payer = Payer(workspace=by.workspace, person=by.user_id)
        return await self._caller.answer_alone(messages, payer)

    async def _instructions(self, turn: RunningTurn) -> SystemMessage:
        graph = await self._source.get_graph(turn.graph_key)
        small = self._caller.is_small
        return await write_instructions(
            self._source,
            graph,
            role=turn.role,
            language=turn.language,
            compact=small,
            session_kind=turn.session.kind,
            calls=turn.calls_allowed,
        )

    async def _instruct(self, turn: RunningTurn) -> None:
        """Puts the instructions at the beginning of a conversation that has
        none: another program's.
        """
        if _instructions_in(turn) is None:
            turn.messages.insert(0, await self._instructions(turn))

    async def _open(self, turn: RunningTurn, said: UserMessage) -> None:
        """Retrieve for a message; put context, message and what its blocks find at
        the conversation's end.

        A new thread gets its instructions, once. Nothing is stored.
        Raises: GraphNotFound, PromptError.
        """
        when: dict[str, Any] = {"calendar": turn.calendar, "reference": turn.reference}
        data = await self.blocks.read(said, turn.graph_key, turn.role, turn.language, **when)
        caller = self._caller
        look = caller.second_look(turn, self._retriever)
        sent = said.content if data is None else f"{said.content}\n{data.content}"
        prepared = await prepare_prompt(
            self._source,
            look or self._retriever,
            turn.graph_key,
            said.content,
            role=turn.role,
            options=replace(self._context_options, language=turn.language),
            instructions=_instructions_in(turn),
            compact=caller.is_small,
            session_kind=turn.session.kind,
            calls=turn.calls_allowed,
            always_tokens=caller.always_tokens,
            context_room=lambda taken, wanted: caller.context_room(turn, taken, sent, wanted),
        )
        turn.always_sent = () if prepared.always_sent is None else (prepared.always_sent,)
        if _instructions_in(turn) is None:
            turn.messages.insert(0, prepared.instructions)
        question = replace(said, retrieved=prepared.question.retrieved)
        turn.begin(prepared.context_message, question, rounds=self.limits.rounds)
        if data is not None:
            turn.messages.append(data)
        turn.reasons = {scored.node.key: scored.reasons for scored in prepared.retrieval.nodes}
        turn.words_only = prepared.retrieval.words_only
        turn.trace.retrieved(prepared.retrieval)
        if look is not None:
            caller.looked(turn, look)

    async def _loop(
        self, turn: RunningTurn, take_up: Callable[[], Awaitable[Start]] | None = None
    ) -> AsyncGenerator[Event]:
        """Ask and run what is called, in turns, until there is an answer or somebody
        to wait for.
        """
        bind_log_context(turn=turn.state.number)
        start: Start = (None, False) if take_up is None else await take_up()
        while not isinstance(start, Ending):
            requested, final = start
            if requested is not None:
                waiting: list[Approval] = []
                async with aclosing(self._round(turn, requested)) as answers:
                    async for answered in answers:
                        event = self._take_in(turn, answered, waiting)
                        if isinstance(event, PendingQuestion):
                            yield await turn.ask_person(event)
                            return
                        if event is not None:
                            yield event
                happened, start = await self._after_round(turn, waiting, final=final)
            elif turn.is_over:
                happened = ()
                start = await turn.complete()
            else:
                async with aclosing(self._caller.ask(turn, final=final)) as events:
                    async for event in events:
                        yield event
                happened, start = await self._after_reply(turn, final=final)
            for event in happened:
                yield event
        yield start

    async def _after_reply(
        self, turn: RunningTurn, *, final: bool
    ) -> tuple[Sequence[Event], Start]:
        """Take the model's answer in; return the events of that, and how the turn goes on."""
        reply = turn.take_reply()
        if not reply.calls:
            if final or not turn.is_wrong_form(reply):
                await mark_claims(self._source, turn, reply)
                return (), await turn.complete()
            return (), (None, not await turn.correct(reply))
        turn.corrections = 0
        allowed = turn.state.rounds_allowed
        if turn.state.rounds_used >= (self.limits.max_rounds if turn.interactive else allowed):
            turn.answer_rest("limit_reached")
            await turn.save("running")
            return (), (None, True)
        if turn.state.rounds_used >= allowed:
            unusable = self._calls.unusable(reply.requested, self._place(turn))
            turn.messages += [answered.message(self._calls.limits) for answered in unusable]
            return [answered.event() for answered in unusable], await turn.at_limit(
                self.limits.max_rounds
            )
        requested = turn.accept(reply, self._calls.writes)
        if turn.session.kind != "chat" or not self._calls.only_read(requested):
            await turn.save("running")  # before anything is done, so that what is done is known of
        return (), (requested, final)

    async def _after_round(
        self, turn: RunningTurn, waiting: list[Approval], *, final: bool
    ) -> tuple[Sequence[Event], Start]:
        """Take in what was proposed in a step; return the events of that, and how the
        turn goes on.
        """
        turn.stepped(waiting)
        events: list[Event] = []
        if waiting:
            events, waiting = await turn.decide_by_policy(self._approvals, waiting)
        if waiting:
            return events, await turn.wait(waiting)
        turn.repair_history()
        await turn.save("running")
        return events, (None, final or turn.failed_twice is not None)

    def _round(self, turn: RunningTurn, step: Requested) -> AsyncGenerator[Answered]:
        """Count another round of tools; return its calls, each as it is answered."""
        turn.change(rounds_used=turn.state.rounds_used + 1)
        return self._calls.run(step, self._place(turn))

    def _take_in(
        self, turn: RunningTurn, answered: Answered, made: list[Approval]
    ) -> ToolFinished | PendingQuestion | None:
        """Take in what a call gave and return the event of that; a proposal, which has none,
        goes to `made`.

        A question is the only call of its round.
        """
        turn.trace.called(answered)
        if answered.approval is not None:
            turn.opened([answered.approval])
            made.append(answered.approval)
            return None
        if answered.question is not None:
            return PendingQuestion(call_id=answered.call.id, question=answered.question)
        if answered.outcome == "unchanged" and turn.session.kind == "chat":
            turn.failed_twice = answered
        if answered.unsure:
            turn.change(unsure=[*turn.state.unsure, answered.call.id])
        turn.take_answer(answered, self._calls.limits)
        return answered.event()

    def _place(self, turn: RunningTurn) -> CallPlace:
        return CallPlace(
            context=ToolContext(
                source=self._source,
                graph_key=turn.graph_key,
                role=turn.role,
                session_kind=turn.session.kind,
                features=turn.features,
                language=turn.language,
                search=self._retriever.search,
                search_all=WorkspaceSearch(self._retriever),
                history=self.blocks.history_of(turn.calendar, turn.reference),
            ),
            person=turn.person,
            thread_id=turn.thread_id,
            turn=turn.state.number,
            model=self._caller.provider.model,
            round=turn.state.rounds_used,
            write_guard=turn.hold.write,
            session=turn.session,
            message=turn.asked,
            started=turn.state.started,
            begin_act=turn.begin_act,
            end_act=partial(turn.end_act, limits=self._calls.limits),
        )


def _instructions_in(turn: RunningTurn) -> SystemMessage | None:
    return next((m for m in turn.messages if isinstance(m, SystemMessage) and m.stable), None)
