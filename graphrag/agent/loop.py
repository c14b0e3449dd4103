"""The agent: one loop of events from a person's message to an answer, for every channel.

Retrieve → ask the model → run what it calls → ask again, until it answers. What would change the
graph becomes a proposal and the turn waits; `resume` tells the model what people decided and goes on.
The thread is stored after every step, so a turn can be taken up wherever it stopped.

Decision: a process holds a thread while it runs a turn of it; to all others the thread is busy. What
a call does is stored before it is done, so nothing is done twice.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial

from datasources.base import GraphDataSource
from graphrag.agent.events import Ending, Event
from graphrag.agent.history import unanswered
from graphrag.agent.model_caller import ModelCaller
from graphrag.agent.pending_question import PendingQuestion
from graphrag.agent.requested_calls import Requested
from graphrag.agent.running_turn import RunningTurn
from graphrag.agent.thread_store import (
    EmptyMessage,
    NothingToResume,
    Thread,
    ThreadOfOtherGraph,
    Threads,
)
from graphrag.agent.tool_calls import CallPlace, ToolCalls
from graphrag.agent.turn_guard import begin, held, open_turn, watched
from graphrag.agent.turn_lease import TurnLeases, take_over
from graphrag.approvals import Approval, Approvals, Decision, Person
from graphrag.commands import BlockReader, SentBlock
from graphrag.i18n import Language
from graphrag.llm.base import LLMProvider, SystemMessage
from graphrag.llm.message_text import clean
from graphrag.logs import bind_log_context
from graphrag.retrieval.context import ContextOptions
from graphrag.retrieval.prepared_prompt import write_instructions
from graphrag.retrieval.retriever import Retriever
from tools.base import NO_FEATURES, ToolContext
from tools.session_tools import QUESTIONS, Response

log = logging.getLogger(__name__)


FEATURES = frozenset({QUESTIONS})
"""What a client may be able to show beyond what every client can."""


_Start = Ending | tuple[Requested | None, bool]
"""How a resumed turn ends at once, or the calls that are run first and whether the answer is final."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentLimits:
    """Rounds of tools of a turn: at first, and at most once a person grants more."""

    rounds: int = 5
    max_rounds: int = 10


Answer = Callable[[Thread], Awaitable[tuple[Decision | None, bool | None]]]
"""What a person answered to a waiting thread: a decision, and whether they grant more rounds of tools."""


class Agent:
    """Answers the messages of people about the graphs of one workspace."""

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
    ) -> None:
        self.limits = limits or AgentLimits()
        self._source, self._retriever, self._caller, self._calls = source, retriever, caller, calls
        self._threads, self.leases, self._approvals = threads, leases, approvals
        self._context_options = context_options
        self.on_turn: Callable[[str], Awaitable[None]] | None = None
        """Called with the key of a graph when a turn about it begins, beside the turn; it may not raise."""
        self._calling = set[asyncio.Future[None]]()
        self.blocks = blocks

    @property
    def provider(self) -> LLMProvider:
        """Whose model answers."""
        return self._caller.provider

    async def run(
        self,
        thread_id: str | None,
        graph_key: str,
        message: str,
        person: Person,
        *,
        context_type: str | None = None,
        language: Language | None = None,
        interactive: bool = True,
        features: frozenset[str] = NO_FEATURES,
        blocks: Sequence[SentBlock] = (),
    ) -> AsyncGenerator[Event]:
        """Answer a message in a thread (None: a new one). Close the generator to stop the turn.

        Without `interactive` nobody is asked for more rounds of tools: an answer without tools follows.
        `features`: what else the person's client can show (`questions`); `blocks`: those of the message.
        The last event comes when the thread can be used again.

        Raises, before the first event: EmptyMessage, ThreadNotFound, ThreadOfOtherGraph, ThreadBusy,
        GraphNotFound, TooManyBlocks, BlockRefused. Later failures are `Failed`.
        """
        message = clean(message)
        if not message.strip():
            raise EmptyMessage
        if thread_id is None:
            stored = self._threads.begin(graph_key, person, title=message, context_type=context_type)
        else:
            stored = await self._threads.get(thread_id, person)
        thread = stored.thread
        if thread.graph_key != graph_key:
            raise ThreadOfOtherGraph(thread_id=thread.key, graph_key=thread.graph_key, asked=graph_key)
        language = language or self._context_options.language
        said = await self.blocks.checker.checked(graph_key, message, blocks, language)
        bind_log_context(threadId=thread.key)
        facts = {"graphKey": graph_key, "threadId": thread.key, "messageLen": len(message)}
        log.debug("agent_chat_start", extra=facts | {"role": person.role})
        last: Ending | None = None
        async with self.leases.held(thread.key, facts={"graphKey": graph_key}) as hold:
            self._turn_begins(graph_key)
            if thread_id is not None:
                stored = await take_over(self._threads, thread_id, person)
            turn = RunningTurn(self._threads, stored, stored.thread.messages, person, language, hold)
            turn.interactive, turn.features = interactive, features & FEATURES
            turn.close_question()
            events, _ = await turn.collect_outcomes(self._approvals, keep_waiting=False)
            options, rounds = self._context_options, self.limits.rounds
            await self._caller.prepare()
            source, retriever = self._source, self._retriever
            await open_turn(turn, said, self.blocks, source, retriever, options, self._caller, rounds=rounds)
            await begin(turn)
            async with aclosing(watched(turn, events, self._loop(turn))) as watching:
                async for event in watching:
                    if isinstance(event, Ending):
                        last = event
                    else:
                        yield event
        if last is not None:
            yield last

    async def resume(
        self,
        thread_id: str,
        person: Person,
        *,
        decision: Decision | None = None,
        approval_id: str | None = None,
        grant_rounds: bool | None = None,
        response: Response | None = None,
        answer: Answer | None = None,
        language: Language | None = None,
        interactive: bool = True,
        features: frozenset[str] = NO_FEATURES,
    ) -> AsyncGenerator[Event]:
        """Take a thread up where it waits or broke off: with a decision of one of its proposals (by
        default the oldest), with more rounds granted or not, with the response to a question, or with
        none of these, to look and go on.

        `answer` returns decision and grant, where they depend on how the thread stands.
        The thread is read once, when its lease is held; another person's lease ends at once.

        Raises, before the first event: ThreadNotFound, ThreadBusy, NothingToResume, what
        `Approvals.decide` raises, and for a response NoQuestion, AlreadyAnswered and WrongResponse; the turn
        then waits as it did.
        """
        bind_log_context(threadId=thread_id)
        language = language or self._context_options.language
        last: Ending | None = None
        answering = response is not None
        async with held(self._threads, self.leases, thread_id, person, is_answering=answering) as hold:
            stored = await take_over(self._threads, thread_id, person)
            self._turn_begins(stored.thread.graph_key)
            if answer is not None:
                decision, grant_rounds = await answer(stored.thread)
            turn = RunningTurn(self._threads, stored, stored.thread.messages, person, language, hold)
            turn.interactive, turn.features = interactive, features & FEATURES
            turn.answer.append(turn.state.text)
            if response is None and turn.question is not None and QUESTIONS not in turn.features:
                raise NothingToResume(thread_id=thread_id, status=turn.state.status)
            events, waiting = await self._decide(turn, response, decision, approval_id)
            status = turn.state.status
            if status in ("idle", "stopped") and not turn.has_outcomes and not waiting:
                raise NothingToResume(thread_id=thread_id, status=status)
            going_on = self._loop(turn, partial(self._take_up, turn, waiting, grant_rounds))
            async with aclosing(watched(turn, events, going_on)) as watching:
                async for event in watching:
                    if isinstance(event, Ending):
                        last = event
                    else:
                        yield event
        if last is not None:
            yield last

    async def _decide(
        self,
        turn: RunningTurn,
        response: Response | None,
        decision: Decision | None,
        approval_id: str | None,
    ) -> tuple[list[Event], list[Approval]]:
        """Take in what a person answered; return the events of that, and what the turn still waits for."""
        answered = [] if response is None else [turn.answer_question(response)]
        if not answered and await self._propose_pending(turn):
            decision = None  # there is nothing to decide: the model is given the reason
        if decision is not None:
            chosen = approval_id or await self._oldest(turn)
            await self._approvals.decide(chosen, decision, turn.person, thread_id=turn.thread_id)
        events, waiting = await turn.collect_outcomes(self._approvals, keep_waiting=True)
        decided, waiting = await turn.decide_by_policy(self._approvals, waiting)
        # What else is open does not hold up a turn whose question is answered.
        return [*answered, *events, *decided], [] if answered else waiting

    async def _instructions(self, turn: RunningTurn) -> SystemMessage:
        graph = await self._source.get_graph(turn.graph_key)
        small = self._caller.is_small
        return await write_instructions(
            self._source,
            graph,
            role=turn.person.role,
            language=turn.language,
            compact=small,
            session_kind=turn.session_kind,
            calls=turn.calls_allowed,
        )

    def _turn_begins(self, graph_key: str) -> None:
        if self.on_turn is not None:
            calling = asyncio.ensure_future(self.on_turn(graph_key))
            self._calling.add(calling)
            calling.add_done_callback(self._calling.discard)

    async def stop(self, thread_id: str, person: Person) -> bool:
        """Have whichever process runs a turn of a person's thread stop it soon; say whether one does.

        Raises: ThreadNotFound.
        """
        await self._threads.get(thread_id, person)
        return await self.leases.ask_to_stop(thread_id)

    async def _propose_pending(self, turn: RunningTurn) -> bool:
        """Make the proposal that another program's turn waits for; return whether it was refused."""
        calls = unanswered(turn.messages)
        if turn.state.status != "waiting" or turn.state.open or turn.question or not calls:
            return False
        turn.messages.insert(0, await self._instructions(turn))
        made: list[Approval] = []
        async with aclosing(self._round(turn, Requested(calls=calls), made)) as events:
            async for _ in events:
                pass
        if made:
            await turn.wait(made)
        else:
            await turn.save("running")
        return not made

    async def _oldest(self, turn: RunningTurn) -> str:
        _, waiting = await turn.collect_outcomes(self._approvals, keep_waiting=True)
        if not waiting:
            raise NothingToResume(thread_id=turn.thread_id, status=turn.state.status)
        return waiting[0].id

    async def _take_up(self, turn: RunningTurn, waiting: list[Approval], grant_rounds: bool | None) -> _Start:
        """Return how a resumed turn goes on, and store that it does."""
        requested, final = None, False
        if (asked := turn.question) is not None:
            return await turn.ask_person(asked)
        if turn.state.status == "limit":
            if grant_rounds is None:
                return await turn.at_limit(self.limits.max_rounds)
            if grant_rounds:
                turn.change(rounds_allowed=self.limits.max_rounds)
                requested = Requested(calls=unanswered(turn.messages))
            else:
                turn.answer_rest("limit_refused")
                final = True
        elif waiting:
            turn.answer_rest("interrupted")
            return await turn.wait(waiting)
        if requested is None:
            turn.repair_history()
        await turn.save("running")
        return requested, final

    async def _loop(
        self, turn: RunningTurn, take_up: Callable[[], Awaitable[_Start]] | None = None
    ) -> AsyncGenerator[Event]:
        """Ask and run what is called, in turns, until there is an answer or somebody to wait for."""
        bind_log_context(turn=turn.state.number)
        start = (None, False) if take_up is None else await take_up()
        if isinstance(start, Ending):
            yield start
            return
        requested, final = start
        while True:
            if requested is None:
                if turn.is_over:
                    yield await turn.complete()
                    return
                async with aclosing(self._caller.ask(turn, final=final)) as events:
                    async for event in events:
                        yield event
                reply = turn.take_reply()
                if not reply.calls:
                    if final or not turn.is_wrong_form(reply):
                        yield await turn.complete()
                        return
                    final = not await turn.correct(reply)
                    continue
                allowed = turn.state.rounds_allowed
                if turn.state.rounds_used >= (self.limits.max_rounds if turn.interactive else allowed):
                    turn.answer_rest("limit_reached")
                    final = True
                    await turn.save("running")
                    continue
                if turn.state.rounds_used >= allowed:
                    for answered in self._calls.unusable(reply.requested, self._place(turn)):
                        turn.messages.append(answered.message(self._calls.limits))
                        yield answered.event()
                    yield await turn.at_limit(self.limits.max_rounds)
                    return
                requested = turn.accept(reply, self._calls.writes)
                await turn.save("running")  # before anything is done, so that what is done is known of
            waiting: list[Approval] = []
            async with aclosing(self._round(turn, requested, waiting)) as events:
                async for event in events:
                    if isinstance(event, PendingQuestion):
                        yield await turn.ask_person(event)
                        return
                    yield event
            turn.stepped(waiting)
            if waiting:
                events, waiting = await turn.decide_by_policy(self._approvals, waiting)
                for event in events:
                    yield event
            if waiting:
                yield await turn.wait(waiting)
                return
            requested = None
            turn.repair_history()
            await turn.save("running")

    async def _round(
        self, turn: RunningTurn, step: Requested, made: list[Approval]
    ) -> AsyncGenerator[Event | PendingQuestion]:
        """Run the calls of a step; proposals made in it are added to `made`. A question is the only call."""
        turn.change(rounds_used=turn.state.rounds_used + 1)
        async with aclosing(self._calls.run(step, self._place(turn))) as answers:
            async for answered in answers:
                if answered.approval is not None:
                    turn.opened([answered.approval])
                    made.append(answered.approval)
                    continue
                if answered.question is not None:
                    yield PendingQuestion(call_id=answered.call.id, question=answered.question)
                    return
                if answered.unsure:
                    turn.change(unsure=[*turn.state.unsure, answered.call.id])
                if not turn.answered(answered):
                    turn.messages.append(answered.message(self._calls.limits))
                yield answered.event()

    def _place(self, turn: RunningTurn) -> CallPlace:
        return CallPlace(
            context=ToolContext(
                source=self._source,
                graph_key=turn.graph_key,
                role=turn.person.role,
                session_kind=turn.session_kind,
                features=turn.features,
                language=turn.language,
                search=self._retriever.search,
                history=self.blocks.history_of(turn.calendar, turn.reference),
            ),
            person=turn.person,
            thread_id=turn.thread_id,
            turn=turn.state.number,
            model=self._caller.provider.model,
            round=turn.state.rounds_used,
            write_guard=turn.hold.write,
            session=turn.session,
        )
