"""The agent: one loop of events from a person's message to an answer, for every channel.

Retrieve → ask the model → run what it calls → ask again, until it answers. What would change the
graph becomes a proposal and the turn waits; `resume` tells the model what people decided and goes
on. The thread is stored after every step, so a turn can be taken up wherever it stopped.

Decision: a process holds a thread while it runs a turn of it; to all others the thread is busy.
What a call does is stored before it is done, so nothing is done twice. Calls of a conversation that
only read are stored with their answers: killed before that, the model is asked again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import replace
from functools import partial

from datasources.errors import SourceError
from graphrag.agent.events import (
    AlreadyAnswered,
    Completed,
    Ending,
    Event,
    Failed,
    PendingQuestion,
    TurnFault,
    classify,
    standing_answer,
)
from graphrag.agent.history import unanswered
from graphrag.agent.requested_calls import Requested
from graphrag.agent.running_turn import RunningTurn
from graphrag.agent.thread_store import (
    EmptyMessage,
    NothingToResume,
    StoredThread,
    Thread,
    ThreadBusy,
    ThreadError,
    ThreadOfOtherGraph,
)
from graphrag.agent.turn_lease import TurnLease, TurnUnwanted, take_over
from graphrag.agent.turn_steps import Start, TurnSteps
from graphrag.agent.turn_trace import TurnTrace
from graphrag.approvals import Approval, Decision, Person
from graphrag.commands import SentBlock
from graphrag.i18n import Language
from graphrag.llm.base import clean
from graphrag.llm.errors import ModelError
from graphrag.logs import bind_log_context
from tools.base import NO_FEATURES
from tools.session_tools import QUESTIONS, Response

log = logging.getLogger(__name__)

FEATURES = frozenset({QUESTIONS})
"""What a client may be able to show beyond what every client can."""


Answer = Callable[[Thread], Awaitable[tuple[Decision | None, bool | None]]]
"""What a person answered to a waiting thread: a decision, and whether they grant more
rounds of tools.
"""


def _logged(turn: RunningTurn, exc: Exception) -> TurnFault:
    """Log what a turn broke off of, and return what it means."""
    fault = classify(exc)
    if isinstance(exc, ModelError):
        said = {"provider": exc.provider, "model": turn.stored.thread.model, "code": fault.code}
        log.log(logging.ERROR, "llm_error", extra=said | {"statusCode": exc.status})
    facts = {"thread_id": turn.thread_id, "code": fault.code, "error": type(exc).__name__}
    log.warning("turn_failed", extra=facts, exc_info=exc if fault.code == "internal" else None)
    return fault


async def _stored(turn: RunningTurn, leaving: Awaitable[None]) -> bool:
    try:
        await leaving
    except (ThreadError, SourceError) as exc:
        log.warning(
            "turn_not_stored", extra={"thread_id": turn.thread_id, "error": type(exc).__name__}
        )
        return False
    return True


class Agent(TurnSteps):
    """Answers the messages of people about the graphs of one workspace."""

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
        """Answer a message in a thread (None: a new one). Close the generator to stop the turn.

        `agent_id`: with that declarative agent; `caller_phone`: on whose behalf, only with the
        first message. Without `interactive` nobody is asked for more rounds of tools: an answer
        without tools follows.
        `features`: what else the person's client can show (`questions`); `blocks`: those
        of the message.
        `new_key`, `message_key`: of a new thread, and of the message, where the
        channel chooses them.

        Raises, before the first event: EmptyMessage, ThreadNotFound,
        ThreadOfOtherGraph, ThreadBusy, GraphNotFound, TooManyBlocks, BlockRefused,
        AgentError. Later failures are `Failed`.
        """
        if not (message := clean(message)).strip():
            raise EmptyMessage
        language = language or self._context_options.language
        known = None if thread_id is None else await self._threads.get(thread_id, person)
        if known is not None and (about := known.thread.graph_key) != graph_key:
            raise ThreadOfOtherGraph(thread_id=known.thread.key, graph_key=about, asked=graph_key)
        said = await self.blocks.checker.checked(graph_key, message, blocks, language)
        if message_key is not None:
            said = replace(said, id=message_key, time=self._threads.clock())
        stored = known or self._threads.begin(
            graph_key, person, title=message, context_type=context_type, key=new_key
        )
        agent, stored = await self._agent_of(stored, person, agent_id, caller_phone)
        bind_log_context(threadId=(thread_id := stored.thread.key))
        facts = {"graphKey": graph_key, "threadId": thread_id, "messageLen": len(message)}
        log.debug("agent_chat_start", extra=facts | {"role": person.role})
        async with self.leases.held(thread_id, facts={"graphKey": graph_key}) as hold:
            self._turn_begins(graph_key)
            if stored.version is not None:
                stored = await take_over(self._threads, thread_id, person)
            turn = agent._taken(
                agent._turn_of(stored, person, language, hold), interactive, features
            )
            turn.close_question()
            events, _ = await turn.collect_outcomes(self._approvals, keep_waiting=False)
            async with agent._beginning(turn):
                await agent._caller.prepare()
                await agent._open(turn, said)
                await turn.save("running")
            async with aclosing(agent._events(turn, agent._loop(turn), events)) as shown:
                async for event in shown:
                    yield event
        yield await agent.finished(turn.ending)

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
        default the oldest), with more rounds granted or not, with the response to a question, or
        with none of these, to look and go on.

        `answer` returns decision and grant, where they depend on how the thread stands.
        The thread is read once, when its lease is held; another person's lease ends at once.

        Raises, before the first event: ThreadNotFound, ThreadBusy, NothingToResume, what
        `Approvals.decide` raises, and for a response NoQuestion, AlreadyAnswered and WrongResponse;
        the turn then waits as it did.
        """
        bind_log_context(threadId=thread_id)
        language = language or self._context_options.language
        async with self._held(thread_id, person, is_answering=response is not None) as hold:
            stored = await take_over(self._threads, thread_id, person)
            self._turn_begins(stored.thread.graph_key)
            if answer is not None:
                decision, grant_rounds = await answer(stored.thread)
            agent, stored = await self._agent_of(stored, person)
            turn = agent._taken(
                agent._turn_of(stored, person, language, hold), interactive, features
            )
            turn.answer.append(turn.state.text)
            await agent._instruct(turn)
            events, waiting = await agent._decide(turn, response, decision, approval_id)
            going_on = agent._loop(turn, partial(agent._take_up, turn, waiting, grant_rounds))
            async with aclosing(agent._events(turn, going_on, events)) as shown:
                async for event in shown:
                    yield event
        yield await agent.finished(turn.ending)

    async def _events(
        self, turn: RunningTurn, steps: AsyncGenerator[Event], first: Sequence[Event] = ()
    ) -> AsyncGenerator[Event]:
        """Yield the events of a turn that is held and begun, but for the last,
        which is `turn.ending`.

        Closed or cancelled, it stores the turn as stopped, as it does when a person stops it from
        elsewhere; a failure is stored and becomes `Failed`. How it came about is kept with the
        turn: nothing stays of one that cannot be stored, as its thread was deleted meanwhile.
        """
        is_stored = True
        try:
            async with aclosing(steps):
                for event in (turn.started, *first):
                    yield event
                while True:
                    with turn.hold.step(), turn.trace.within():
                        step = await anext(steps, None)
                    if step is None:
                        break
                    if isinstance(step, Ending):
                        turn.ending = step
                    else:
                        yield step
        except (asyncio.CancelledError, GeneratorExit):
            if turn.state.status == "running":
                is_stored = await asyncio.shield(_stored(turn, turn.abandon()))
            raise
        except TurnUnwanted as exc:
            is_stored = await _stored(turn, turn.stop(exc.reason))
            turn.ending = Completed(thread_id=turn.thread_id, text=turn.text, stopped=True)
        except Exception as exc:  # noqa: BLE001 - whatever it was, a person is shown what they may know of it
            turn.ending = Failed(thread_id=turn.thread_id, fault=(fault := _logged(turn, exc)))
            is_stored = not isinstance(exc, ThreadBusy) and await _stored(turn, turn.fail(fault))
        finally:
            facts = turn.trace.close(turn, is_stored=is_stored)
            if facts is not None and turn.trace.traces is not None:
                await asyncio.shield(turn.trace.traces.keep(facts, turn.trace))

    @asynccontextmanager
    async def _held(
        self, thread_id: str, person: Person, *, is_answering: bool
    ) -> AsyncGenerator[TurnLease]:
        """Hold a thread that was not read yet. Raises: ThreadBusy, or AlreadyAnswered where
        somebody was faster; ThreadNotFound to all but its owner.
        """
        async with AsyncExitStack() as stack:
            try:
                hold = await stack.enter_async_context(self.leases.held(thread_id))
            except ThreadBusy:
                thread = (await self._threads.get(thread_id, person)).thread
                standing = standing_answer(thread.messages) if is_answering else None
                if standing is not None and PendingQuestion.of(thread) is None:
                    raise AlreadyAnswered(thread_id=thread_id, answer=standing) from None
                raise
            yield hold

    async def _agent_of(
        self,
        stored: StoredThread,
        person: Person,  # noqa: ARG002 - who has declarative agents looks at these
        agent_id: str | None = None,  # noqa: ARG002
        caller_phone: str | None = None,  # noqa: ARG002
    ) -> tuple[Agent, StoredThread]:
        """Return who takes up a turn of a thread, and the thread: a new one as it begins
        with its agent.
        """
        return self, stored

    async def finished(self, last: Ending) -> Ending:
        """Return the last event of a turn, once its thread is free again."""
        return last

    def _turn_of(
        self, stored: StoredThread, person: Person, language: Language, hold: TurnLease
    ) -> RunningTurn:
        """Return the turn of a held thread."""
        return RunningTurn(self._threads, stored, stored.thread.messages, person, language, hold)

    def _taken(self, turn: RunningTurn, interactive: bool, features: frozenset[str]) -> RunningTurn:
        """Return a turn that is taken up: traced, with an answer for each call that
        began to act.
        """
        turn.trace = TurnTrace(self._traces)
        turn.interactive = interactive
        turn.features = features & FEATURES
        turn.answer_started()
        return turn

    @asynccontextmanager
    async def _beginning(self, turn: RunningTurn) -> AsyncGenerator[None]:
        """Let a turn begin in the block; cancelled once its message is taken in, it is
        stored as stopped.
        """
        before = turn.state.number
        try:
            with turn.trace.within():
                yield
        except BaseException as exc:
            turn.trace.end(failed=True)
            if turn.state.number > before and isinstance(exc, asyncio.CancelledError):
                await asyncio.shield(_stored(turn, turn.abandon()))
            raise

    async def _decide(
        self,
        turn: RunningTurn,
        response: Response | None,
        decision: Decision | None,
        approval_id: str | None,
    ) -> tuple[list[Event], list[Approval]]:
        """Take in what a person answered; return the events of that, and what the turn
        still waits for.

        Raises: NothingToResume, and what `resume` says of decisions and responses.
        """
        if response is None and turn.question is not None and QUESTIONS not in turn.features:
            raise NothingToResume(thread_id=turn.thread_id, status=turn.state.status)
        answered = [] if response is None else [turn.answer_question(response)]
        if not answered and await self._propose_pending(turn):
            decision = None  # there is nothing to decide: the model is given the reason
        if decision is not None:
            chosen = approval_id or await self._oldest(turn)
            await self._approvals.decide(chosen, decision, turn.person, thread_id=turn.thread_id)
        events, waiting = await turn.collect_outcomes(self._approvals, keep_waiting=True)
        decided, waiting = await turn.decide_by_policy(self._approvals, waiting)
        if answered:  # what else is open does not hold up a turn whose question is answered
            waiting = []
        status = turn.state.status
        if status in ("idle", "stopped") and not turn.has_outcomes and not waiting:
            raise NothingToResume(thread_id=turn.thread_id, status=status)
        return [*answered, *events, *decided], waiting

    def _turn_begins(self, graph_key: str) -> None:
        if self.on_turn is not None and graph_key:
            calling = asyncio.ensure_future(self.on_turn(graph_key))
            self._calling.add(calling)
            calling.add_done_callback(self._calling.discard)

    async def stop(self, thread_id: str, person: Person) -> bool:
        """Have whichever process runs a turn of a person's thread stop it soon; say
        whether one does.

        Raises: ThreadNotFound.
        """
        await self._threads.get(thread_id, person)
        return await self.leases.ask_to_stop(thread_id)

    async def _propose_pending(self, turn: RunningTurn) -> bool:
        """Make the proposal that another program's turn waits for; return whether
        it was refused.
        """
        calls = unanswered(turn.messages)
        if turn.state.status != "waiting" or turn.state.open or turn.question or not calls:
            return False
        made: list[Approval] = []
        async with aclosing(self._round(turn, Requested(calls=calls))) as answers:
            async for answered in answers:
                self._take_in(turn, answered, made)
        if made:
            await turn.wait(made)
        else:
            await turn.save("running")
        return not made

    async def propose_waiting(self, thread_id: str, person: Person) -> Thread:
        """Makes the proposals that a conversation of the editor waits with, so that they
        can be decided.

        Asks no model. Returns the thread as it is then. Raises: ThreadNotFound, ThreadBusy.
        """
        async with self.leases.held(thread_id) as hold:
            stored = await take_over(self._threads, thread_id, person)
            agent, stored = await self._agent_of(stored, person)
            language = self._context_options.language
            turn = agent._taken(agent._turn_of(stored, person, language, hold), True, NO_FEATURES)
            await agent._instruct(turn)
            await agent._propose_pending(turn)
            return turn.stored.thread

    async def _oldest(self, turn: RunningTurn) -> str:
        _, waiting = await turn.collect_outcomes(self._approvals, keep_waiting=True)
        if not waiting:
            raise NothingToResume(thread_id=turn.thread_id, status=turn.state.status)
        return waiting[0].id

    async def _take_up(
        self, turn: RunningTurn, waiting: list[Approval], grant_rounds: bool | None
    ) -> Start:
        """Return how a resumed turn goes on, and store that it does."""
        requested, final = None, False
        if (asked := turn.question) is not None:
            return await turn.ask_person(asked)
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
            turn.repair_history()
        await turn.save("running")
        return requested, final
