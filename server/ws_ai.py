"""The conversations of one WebSocket connection: several turns at the same time, each with its
`_id`.

The messages of a turn end with exactly one `ai:complete` or `ai:error`. When the client
disconnects, every turn is stopped and stored. When a waiting proposal is decided elsewhere, its
turn continues under its `_id`.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

from graphrag.agent.events import Ending, Event, ProposalPending, TurnStarted
from graphrag.agent.thread_store import NothingToResume, ThreadBusy
from graphrag.agents.errors import ThreadEnded
from graphrag.i18n import Language
from graphrag.i18n import text as text_of
from graphrag.workers import end_tasks
from server.channels.websocket_messages import Message, WireTurn, ended_document
from server.http_connections import HttpConnection
from server.rest_ai import asked_turn
from server.review_feed import decided_elsewhere
from server.server_state import ServerState
from server.turns import ActiveTurn, stop
from server.workspaces import WorkspaceContext
from server.ws_faults import fault_message, is_unforeseen
from server.ws_messages import AiAnswer, AiChat, AiEnd, AiResume
from server.ws_outbox import ClientGone, Outbox
from server.ws_sign_in import SignIn
from tools.base import NO_FEATURES
from tools.session_tools import QUESTIONS

log = logging.getLogger(__name__)

Events = AsyncGenerator[Event]


@dataclass(frozen=True, slots=True, kw_only=True)
class AiLimits:
    """Limits of one connection: turns at once and waits for decisions; seconds between checks of a
    decision, and of whether a followed conversation runs elsewhere.
    """

    turns: int = 16
    waits: int = 64
    poll_s: float = 1.0
    look_s: float = 2.0


class Conversations:
    """Runs the turns of one client."""

    def __init__(
        self,
        state: ServerState,
        outbox: Outbox,
        language: Language,
        limits: AiLimits,
        connection: HttpConnection | None,
    ) -> None:
        self._state = state
        self._outbox = outbox
        self.limits = limits
        self._connection = connection
        self._language: Language = language
        self._running: set[ActiveTurn] = set()
        self._waits: dict[str, asyncio.Task[None]] = {}

    async def take(
        self, place: WorkspaceContext, asked: AiChat | AiResume | AiAnswer, sign_in: SignIn
    ) -> None:
        """Starts to answer a message, or to continue a waiting thread. Returns at once."""
        event = "ws_chat" if isinstance(asked, AiChat) else "ws_resume"
        new_key = None if asked.thread_id else uuid.uuid4().hex
        log.debug(event, extra={"threadId": asked.thread_id or new_key})
        if isinstance(asked, AiAnswer):
            features = frozenset({QUESTIONS})
            events = place.agent.resume(
                asked.thread_id,
                place.person,
                response=asked.response,
                language=self._language,
                features=features,
            )
        else:
            features = frozenset(asked.features)
            events = asked_turn(place, asked, language=self._language, new_key=new_key)
        question = asked.message if isinstance(asked, AiChat) else None
        await self._begin(
            asked.id, place, events, asked.thread_id, sign_in, question=question, features=features
        )

    def end(self, place: WorkspaceContext, asked: AiEnd) -> None:
        """Starts to end a conversation with an agent; a turn of it stops first. Returns at once."""
        name = f"end {asked.thread_id}"
        if name not in self._waits and len(self._waits) < self.limits.waits:
            task = self._waits[name] = asyncio.create_task(self._end(place, asked))
            task.add_done_callback(lambda _: self._waits.pop(name, None))

    async def _end(self, place: WorkspaceContext, asked: AiEnd) -> None:
        """Sends how a conversation ended, or why it cannot be ended."""
        try:
            endings = place.services.life.endings
            thread = await endings.end_by_person(asked.thread_id, place.person)
            ended = {"threadId": thread.key, **ended_document(thread)}
            await self._outbox.put({"type": "ai:ended", "_id": asked.id, **ended})
        except ClientGone:
            return
        except Exception as exc:  # every failure becomes an answer
            log.info("ws_refused", extra={"type": asked.type, "error": type(exc).__name__},
                     exc_info=exc if is_unforeseen(exc) else None)  # fmt: skip
            await self._outbox.put(fault_message(asked.id, exc, self._language))

    def interrupt_asked(self, id_: float) -> bool:
        """Stops this client's turn with an `_id`. Returns False if there is none."""
        return stop(turn for turn in self._running if turn.wire.id == id_)

    async def aclose(self) -> None:
        """Stops every turn and waits until each is stored, after the client disconnected."""
        await end_tasks(*(turn.task for turn in self._running), *self._waits.values())

    async def _begin(
        self,
        id_: float,
        place: WorkspaceContext,
        events: Events,
        thread_id: str | None,
        sign_in: SignIn,
        *,
        question: str | None = None,
        features: frozenset[str] = NO_FEATURES,
    ) -> None:
        wire = WireTurn(id_, self._language, thread_id)
        if self._is_full(wire):
            await events.aclose()
            text = text_of("turns_at_once", self._language, turns=self.limits.turns)
            await self._outbox.put(wire.error("busy", text, retryable=True))
            return
        turn = ActiveTurn(
            wire=wire,
            place=place,
            sign_in=sign_in,
            owner=self,
            question=question,
            features=features,
        )
        self._state.activity.turns.add(turn)
        self._running.add(turn)
        self._state.monitoring.metrics.turn_began()
        if self._connection is not None:
            self._connection.turn_began()
        began = time.perf_counter()
        task = turn.run(self._run(turn, events))
        task.add_done_callback(lambda _: self._ended(turn, time.perf_counter() - began))

    def _is_full(self, wire: WireTurn) -> bool:
        running = [turn for turn in self._running if not turn.ended]
        return len(running) >= self.limits.turns or any(turn.wire.id == wire.id for turn in running)

    def _ended(self, turn: ActiveTurn, seconds: float) -> None:
        self._state.monitoring.metrics.turn_ended(seconds)
        if self._connection is not None:
            self._connection.turn_ended()
        self._state.activity.turns.remove(turn)
        self._running.discard(turn)

    async def _run(self, turn: ActiveTurn, events: Events) -> None:
        """Sends the messages of a turn until it ends, also by an error."""
        turn.start()
        if turn.interrupted:
            await self._last_word(turn, turn.wire.stopped())
            return
        try:
            await self._state.activity.turns.until_stopped(turn)
            pending = await self._send_all(turn, events)
            if pending is not None:
                self._wait_for(turn, pending)
        except ClientGone:
            self._left(turn)
        except asyncio.CancelledError:
            if not turn.interrupted or turn.ended:
                if not turn.ended:
                    self._left(turn)
                raise
            await self._last_word(turn, turn.wire.stopped())
        except Exception as exc:  # every failure becomes an answer
            facts = {"thread_id": turn.wire.thread_id, "error": type(exc).__name__}
            log.warning("ws_turn_failed", extra=facts, exc_info=exc if is_unforeseen(exc) else None)
            fault = fault_message(turn.wire.id, exc, self._language)
            if turn.wire.thread_id:
                fault["details"] = {"threadId": turn.wire.thread_id, **fault.get("details", {})}
            await self._last_word(turn, fault)

    def _left(self, turn: ActiveTurn) -> None:
        facts = {"threadId": turn.wire.thread_id, "tokensStreamed": len(turn.wire.text)}
        log.warning("client_disconnect_abort", extra=facts)

    async def _send_all(self, turn: ActiveTurn, events: Events) -> ProposalPending | None:
        pending: ProposalPending | None = None
        async with aclosing(events) as stream:
            async for event in stream:
                self._state.monitoring.metrics.event(event)
                turn.sign_in.check(turn.place.person.workspace)
                for message in turn.wire.messages(event):
                    turn.log.add(message)
                    await self._outbox.put(message)
                if isinstance(event, TurnStarted):
                    self._state.activity.turns.begun(turn)
                if isinstance(event, Ending):
                    turn.end()
                if isinstance(event, ProposalPending):
                    pending = event
        return pending

    async def _last_word(self, turn: ActiveTurn, message: Message) -> None:
        turn.log.add(message)
        try:
            await self._outbox.put(message)
        except ClientGone:
            log.debug("client_gone", extra={"thread_id": turn.wire.thread_id})
        turn.end()

    def _wait_for(self, turn: ActiveTurn, pending: ProposalPending) -> None:
        """Continues the turn for this client when its proposals are decided elsewhere."""
        earlier = self._waits.pop(pending.thread_id, None)
        if earlier is not None and earlier is not asyncio.current_task():
            earlier.cancel()
        if len(self._waits) >= self.limits.waits:
            self._waits.pop(next(iter(self._waits))).cancel()
        self._waits[pending.thread_id] = asyncio.create_task(
            self._go_on_when_decided(turn, pending)
        )

    async def _go_on_when_decided(self, turn: ActiveTurn, pending: ProposalPending) -> None:
        place = turn.place
        thread_id = pending.thread_id
        decided = await decided_elsewhere(
            reviews=place.workspace.reviews,
            approvals=place.services.approvals,
            threads=place.services.threads,
            thread_id=thread_id,
            approval_ids=[approval.id for approval in pending.approvals],
            person=place.person,
            is_busy=lambda: any(t.wire.thread_id == thread_id for t in self._running),
            poll_s=self.limits.poll_s,
        )
        self._waits.pop(thread_id, None)
        if decided:
            features = turn.features
            events = self._going_on(place, thread_id, features)
            await self._begin(
                turn.wire.id, place, events, thread_id, turn.sign_in, features=features
            )

    async def _going_on(
        self, place: WorkspaceContext, thread_id: str, features: frozenset[str]
    ) -> Events:
        """Yields the events of a thread after a decision elsewhere, none if another process
        continues it.
        """
        try:
            events = place.agent.resume(
                thread_id, place.person, language=self._language, features=features
            )
            async with aclosing(events) as stream:
                async for event in stream:
                    yield event
        except (ThreadBusy, NothingToResume, ThreadEnded):
            return
