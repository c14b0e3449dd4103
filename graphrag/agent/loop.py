"""The agent: one loop of events from a person's message to an answer, for every channel.

Retrieve → ask the model → run its calls → ask again, until it answers. A change of the graph
becomes a proposal, and the turn waits; `resume` gives the decision to the model and goes on. The
thread is stored after every step, so that any process can take the turn up.

Decision: a process leases a thread while it runs a turn of it; for others the thread is busy. Calls
with effects are stored before they run, so that none runs twice. Reads of a conversation are
stored with their answers: after a kill before that, the model is asked again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import final

from graphrag.agent.assistant import Assistants, TurnSetup
from graphrag.agent.events import (
    AlreadyAnswered,
    Event,
    PendingQuestion,
    UsageReported,
    standing_answer,
)
from graphrag.agent.model_caller import ModelCaller
from graphrag.agent.thread_store import (
    EmptyMessage,
    NothingToResume,
    StoredThread,
    Thread,
    ThreadBusy,
    ThreadOfOtherGraph,
    Threads,
)
from graphrag.agent.turn import Turn
from graphrag.agent.turn_events import opening, turn_events
from graphrag.agent.turn_lease import TurnLease, TurnLeases, take_over
from graphrag.agent.turn_outcomes import collect_outcomes, decide_by_policy
from graphrag.agent.turn_steps import AgentLimits
from graphrag.agent.turn_trace import Traces, TurnTrace
from graphrag.approvals import Approval, Approvals, Decision, Person
from graphrag.commands import BlockReader, SentBlock
from graphrag.i18n import Language
from graphrag.llm.base import LLMProvider, Message, clean
from graphrag.llm.usage_meter import Payer
from graphrag.logs import bind_log_context
from tools.base import NO_FEATURES
from tools.session_tools import QUESTIONS, Response

log = logging.getLogger(__name__)

FEATURES = frozenset({QUESTIONS})  # optional abilities that a client may declare

Answer = Callable[[Thread], Awaitable[tuple[Decision | None, bool | None]]]
"""Returns a person's decision for a waiting thread, and whether they grant more rounds of tools."""
OnTurn = Callable[[str], Awaitable[None]]
"""Called with the graph's key when a turn begins, beside the turn; it may not raise."""


@final
class Agent:
    """Answers the messages of people about the graphs of one workspace."""

    def __init__(
        self,
        assistants: Assistants,
        *,
        caller: ModelCaller,
        threads: Threads,
        leases: TurnLeases,
        approvals: Approvals,
        blocks: BlockReader,
        language: Language,
        limits: AgentLimits | None = None,
        traces: Traces | None = None,
        on_turn: OnTurn | None = None,
    ) -> None:
        """`language` is the default; `caller` is the model outside of conversations."""
        self._assistants = assistants
        self._caller = caller
        self._threads = threads
        self.leases = leases
        self._approvals = approvals
        self.blocks = blocks
        self._language: Language = language
        self.limits = limits or AgentLimits()
        self._traces = traces
        self._on_turn = on_turn
        self._calling = set[asyncio.Future[None]]()

    @property
    def provider(self) -> LLMProvider:
        """The provider of the model."""
        return self._caller.provider

    async def answer_alone(
        self, messages: Sequence[Message], by: Person
    ) -> tuple[str, UsageReported]:
        """Returns the model's answer to messages outside of any conversation, and its usage.

        Raises: ModelError, UsageLimitReached.
        """
        payer = Payer(workspace=by.workspace, person=by.user_id)
        return await self._caller.answer_alone(messages, payer)

    async def run(
        self,
        thread_id: str | None,
        graph_key: str,
        message: str,
        person: Person,
        *,
        agent_id: str | None = None,
        caller_phone: str | None = None,
        context_type: str | None = None,
        language: Language | None = None,
        interactive: bool = True,
        features: frozenset[str] = NO_FEATURES,
        blocks: Sequence[SentBlock] = (),
        new_key: str | None = None,
        message_key: str | None = None,
    ) -> AsyncGenerator[Event]:
        """Answers a message in a thread (None: a new one). Close the generator to stop the turn.

        `agent_id`: the declarative agent of a new thread; `caller_phone`: the number on whose
        behalf, only with the first message. Without `interactive` a turn that needs more rounds of
        tools does not ask for them: it answers without tools. `features`: optional abilities of the
        client (`questions`). `blocks`: blocks of the message. `new_key`, `message_key`: keys of a
        new thread and of the message, if the channel chooses them.

        Raises, before the first event: EmptyMessage, ThreadNotFound, ThreadOfOtherGraph,
        ThreadBusy, GraphNotFound, TooManyBlocks, BlockRefused, AgentError. Later failures are
        `Failed`.
        """
        if not (message := clean(message)).strip():
            raise EmptyMessage
        language = language or self._language
        thread = None if thread_id is None else await self._threads.get(thread_id, person)
        if thread is not None and (about := thread.thread.graph_key) != graph_key:
            raise ThreadOfOtherGraph(thread_id=thread.thread.key, graph_key=about, asked=graph_key)
        question = await self.blocks.checker.checked(graph_key, message, blocks, language)
        if message_key is not None:
            question = replace(question, id=message_key, time=self._threads.clock())
        stored = thread or self._threads.begin(
            graph_key, person, title=message, context_type=context_type, key=new_key
        )
        stored = await self._assistants.admit(stored, person, agent_id, caller_phone)
        bind_log_context(threadId=(thread_id := stored.thread.key))
        facts = {"graphKey": graph_key, "threadId": thread_id, "messageLen": len(message)}
        log.debug("agent_chat_start", extra=facts | {"role": person.role})
        async with self.leases.held(thread_id, facts={"graphKey": graph_key}) as hold:
            self._announce_turn(graph_key)
            if stored.version is not None:
                stored = await take_over(self._threads, thread_id, person)
            setup = await self._assistants.set_up(stored, person)
            turn = self._turn(setup, stored, person, language, hold, interactive, features)
            turn.close_question()
            events, _ = await collect_outcomes(turn, self._approvals, keep_waiting=False)
            async with opening(turn):
                await setup.steps.caller.prepare()
                await setup.assistant.open(turn, question)
                await turn.save("running")
            async with aclosing(turn_events(turn, setup.steps.run(turn), events)) as shown:
                async for event in shown:
                    yield event
        yield await setup.assistant.finish(turn, turn.ending)

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
        """Takes a thread up that waits or broke off: with a decision of one of its proposals (by
        default the oldest), with more rounds granted or not, with the response to a question, or
        with none of these.

        `answer` returns decision and grant for the thread as it is read. The thread is read once
        its lease is held; the lease of an ended process is taken over at once.

        Raises, before the first event: ThreadNotFound, ThreadBusy, NothingToResume, the errors of
        `Approvals.decide`, and for a response NoQuestion, AlreadyAnswered and WrongResponse; the
        turn then waits as before.
        """
        bind_log_context(threadId=thread_id)
        language = language or self._language
        async with self._held(thread_id, person, is_answering=response is not None) as hold:
            stored = await take_over(self._threads, thread_id, person)
            self._announce_turn(stored.thread.graph_key)
            if answer is not None:
                decision, grant_rounds = await answer(stored.thread)
            setup = await self._assistants.set_up(stored, person)
            turn = self._turn(setup, stored, person, language, hold, interactive, features)
            turn.continue_text()
            await _add_instructions(setup, turn)
            events, waiting = await self._decide(setup, turn, response, decision, approval_id)
            take_up = partial(setup.steps.take_up, turn, waiting, grant_rounds)
            async with aclosing(turn_events(turn, setup.steps.run(turn, take_up), events)) as shown:
                async for event in shown:
                    yield event
        yield await setup.assistant.finish(turn, turn.ending)

    async def stop(self, thread_id: str, person: Person) -> bool:
        """Asks the process that runs a turn of a person's thread to stop it soon.

        Returns whether a turn is under way. Raises: ThreadNotFound.
        """
        await self._threads.get(thread_id, person)
        return await self.leases.ask_to_stop(thread_id)

    async def propose_waiting(self, thread_id: str, person: Person) -> Thread:
        """Makes the proposals that a conversation of the editor waits with, so that they can be
        decided. Asks no model.

        Returns the thread. Raises: ThreadNotFound, ThreadBusy.
        """
        async with self.leases.held(thread_id) as hold:
            stored = await take_over(self._threads, thread_id, person)
            setup = await self._assistants.set_up(stored, person)
            turn = self._turn(setup, stored, person, self._language, hold, True, NO_FEATURES)
            await _add_instructions(setup, turn)
            await setup.steps.propose_pending(turn)
            return turn.stored.thread

    def _turn(
        self,
        setup: TurnSetup,
        stored: StoredThread,
        person: Person,
        language: Language,
        hold: TurnLease,
        interactive: bool,
        features: frozenset[str],
    ) -> Turn:
        """Returns the turn of a leased thread, with an answer for each act that broke off."""
        turn = Turn(
            self._threads,
            stored,
            person,
            language,
            hold,
            setup.kind,
            setup.role,
            interactive=interactive,
            features=features & FEATURES,
            trace=TurnTrace(self._traces),
        )
        turn.answer_started()
        return turn

    @asynccontextmanager
    async def _held(
        self, thread_id: str, person: Person, *, is_answering: bool
    ) -> AsyncGenerator[TurnLease]:
        """Leases a thread that was not read yet.

        Raises: ThreadBusy; AlreadyAnswered if its question was answered before;
        ThreadNotFound to everybody but its owner.
        """
        async with AsyncExitStack() as stack:
            try:
                hold = await stack.enter_async_context(self.leases.held(thread_id))
            except ThreadBusy:
                thread = (await self._threads.get(thread_id, person)).thread
                earlier = standing_answer(thread.messages) if is_answering else None
                if earlier is not None and PendingQuestion.of(thread) is None:
                    raise AlreadyAnswered(thread_id=thread_id, answer=earlier) from None
                raise
            yield hold

    async def _decide(
        self,
        setup: TurnSetup,
        turn: Turn,
        response: Response | None,
        decision: Decision | None,
        approval_id: str | None,
    ) -> tuple[list[Event], list[Approval]]:
        """Takes in a person's response or decision. Returns its events, and the proposals that
        still wait.

        Raises: NothingToResume, and the errors of `resume` for decisions and responses.
        """
        if response is None and turn.question is not None and QUESTIONS not in turn.features:
            raise NothingToResume(thread_id=turn.thread_id, status=turn.state.status)
        answered = [] if response is None else [turn.answer_question(response)]
        if not answered and await setup.steps.propose_pending(turn):
            decision = None  # every proposal was refused: the model is given the reasons
        if decision is not None:
            chosen = approval_id or await self._oldest(turn)
            await self._approvals.decide(chosen, decision, turn.person, thread_id=turn.thread_id)
        events, waiting = await collect_outcomes(turn, self._approvals, keep_waiting=True)
        decided, waiting = await decide_by_policy(turn, self._approvals, waiting)
        if answered:  # other open proposals do not hold up a turn whose question is answered
            waiting = []
        status = turn.state.status
        if status in ("idle", "stopped") and not turn.has_outcomes and not waiting:
            raise NothingToResume(thread_id=turn.thread_id, status=status)
        return [*answered, *events, *decided], waiting

    async def _oldest(self, turn: Turn) -> str:
        """Returns the id of the oldest proposal that waits."""
        _, waiting = await collect_outcomes(turn, self._approvals, keep_waiting=True)
        if not waiting:
            raise NothingToResume(thread_id=turn.thread_id, status=turn.state.status)
        return waiting[0].id

    def _announce_turn(self, graph_key: str) -> None:
        if self._on_turn is not None and graph_key:
            calling = asyncio.ensure_future(self._on_turn(graph_key))
            self._calling.add(calling)
            calling.add_done_callback(self._calling.discard)


async def _add_instructions(setup: TurnSetup, turn: Turn) -> None:
    """Adds the instructions to a conversation of another program, which has none."""
    if turn.conversation.instructions is None:
        turn.conversation.insert_instructions(await setup.assistant.write_instructions(turn))
