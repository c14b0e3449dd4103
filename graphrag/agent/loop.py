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
from dataclasses import dataclass, replace
from functools import partial

from graphrag.agent.events import Ending, Event
from graphrag.agent.history import unanswered
from graphrag.agent.requested_calls import Requested
from graphrag.agent.running_turn import RunningTurn
from graphrag.agent.thread_store import (
    EmptyMessage,
    NothingToResume,
    StoredThread,
    Thread,
    ThreadOfOtherGraph,
)
from graphrag.agent.turn_guard import begin, held, open_turn, watched
from graphrag.agent.turn_lease import TurnLease, take_over
from graphrag.agent.turn_steps import Start, TurnSteps
from graphrag.approvals import Approval, Decision, Person
from graphrag.commands import SentBlock
from graphrag.i18n import Language
from graphrag.llm.base import UserMessage
from graphrag.llm.message_text import clean
from graphrag.logs import bind_log_context
from tools.base import NO_FEATURES
from tools.session_tools import QUESTIONS, Response

log = logging.getLogger(__name__)


FEATURES = frozenset({QUESTIONS})
"""What a client may be able to show beyond what every client can."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentAsked:
    """With which declarative agent a conversation is to be; `caller_phone`: on whose behalf it begins."""

    agent_id: str | None = None
    caller_phone: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenKeys:
    """Keys of what a message makes, where its channel chooses them: of a new conversation without an agent,
    and of the message."""

    thread: str | None = None
    message: str | None = None


Answer = Callable[[Thread], Awaitable[tuple[Decision | None, bool | None]]]
"""What a person answered to a waiting thread: a decision, and whether they grant more rounds of tools."""


class Agent(TurnSteps):
    """Answers the messages of people about the graphs of one workspace."""

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
        asked: AgentAsked | None = None,
        keys: ChosenKeys | None = None,
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
        language = language or self._context_options.language
        if thread_id is None:
            said = await self.blocks.checker.checked(graph_key, message, blocks, language)
            stored = await self._begun(graph_key, person, message, context_type, asked)
            if keys is not None and keys.thread is not None:
                named = stored.thread.model_copy(update={"key": keys.thread})
                stored = replace(stored, thread=named)
        else:
            stored = await self._threads.get(thread_id, person)
            if stored.thread.graph_key != graph_key:
                about = stored.thread.graph_key
                raise ThreadOfOtherGraph(thread_id=thread_id, graph_key=about, asked=graph_key)
            said = await self.blocks.checker.checked(graph_key, message, blocks, language)
        if keys is not None and keys.message is not None:
            said = replace(said, id=keys.message, time=self._threads.clock())
        thread, agent = stored.thread, await self._agent_of(stored.thread, asked)
        bind_log_context(threadId=thread.key)
        facts = {"graphKey": graph_key, "threadId": thread.key, "messageLen": len(message)}
        log.debug("agent_chat_start", extra=facts | {"role": person.role})
        last: Ending | None = None
        async with self.leases.held(thread.key, facts={"graphKey": graph_key}) as hold:
            self._turn_begins(graph_key)
            if stored.version is not None:
                stored = await take_over(self._threads, thread.key, person)
            turn = agent._turn_of(stored, person, language, hold)
            self._trace(turn)
            turn.interactive, turn.features = interactive, features & FEATURES
            turn.answer_started()
            turn.close_question()
            events, _ = await turn.collect_outcomes(self._approvals, keep_waiting=False)
            await agent._caller.prepare()
            with turn.traced_opening():
                await agent._open(turn, said)
                await begin(turn)
            async with aclosing(watched(turn, events, agent._loop(turn))) as watching:
                async for event in watching:
                    if isinstance(event, Ending):
                        last = event
                    else:
                        yield event
        if last is not None:
            yield await agent._finished(last)

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
            agent = await self._agent_of(stored.thread)
            turn = agent._turn_of(stored, person, language, hold)
            self._trace(turn)
            turn.interactive, turn.features = interactive, features & FEATURES
            turn.answer_started()
            turn.answer.append(turn.state.text)
            if response is None and turn.question is not None and QUESTIONS not in turn.features:
                raise NothingToResume(thread_id=thread_id, status=turn.state.status)
            events, waiting = await agent._decide(turn, response, decision, approval_id)
            status = turn.state.status
            if status in ("idle", "stopped") and not turn.has_outcomes and not waiting:
                raise NothingToResume(thread_id=thread_id, status=status)
            going_on = agent._loop(turn, partial(agent._take_up, turn, waiting, grant_rounds))
            async with aclosing(watched(turn, events, going_on)) as watching:
                async for event in watching:
                    if isinstance(event, Ending):
                        last = event
                    else:
                        yield event
        if last is not None:
            yield await agent._finished(last)

    async def _begun(
        self,
        graph_key: str,
        person: Person,
        message: str,
        context_type: str | None,
        asked: AgentAsked | None,  # noqa: ARG002 - who has declarative agents looks at it
    ) -> StoredThread:
        """Return a new thread; it need not be stored yet."""
        return self._threads.begin(graph_key, person, title=message, context_type=context_type)

    async def _agent_of(self, thread: Thread, asked: AgentAsked | None = None) -> Agent:  # noqa: ARG002
        """Return who takes up a turn of a thread."""
        return self

    async def _finished(self, last: Ending) -> Ending:
        """Return the last event of a turn, once its thread is free again."""
        return last

    def _turn_of(
        self, stored: StoredThread, person: Person, language: Language, hold: TurnLease
    ) -> RunningTurn:
        """Return the turn of a held thread."""
        return RunningTurn(self._threads, stored, stored.thread.messages, person, language, hold)

    async def _open(self, turn: RunningTurn, said: UserMessage) -> None:
        """Put what the model is to know, and the message, at the conversation's end; nothing is stored.

        Raises: GraphNotFound, PromptError.
        """
        source, retriever, options = self._source, self._retriever, self._context_options
        rounds = self.limits.rounds
        await open_turn(turn, said, self.blocks, source, retriever, options, self._caller, rounds=rounds)

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

    def _turn_begins(self, graph_key: str) -> None:
        if self.on_turn is not None and graph_key:
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

    async def _take_up(self, turn: RunningTurn, waiting: list[Approval], grant_rounds: bool | None) -> Start:
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
