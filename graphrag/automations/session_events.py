"""Applies events to runs that no process executes: from people, from the clock, or
after a crash.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphrag.agent.session_turn import notes_of, report_of
from graphrag.agent.thread_messages import to_stored
from graphrag.agent.thread_store import Thread, session_of
from graphrag.agent.turn_lease import TurnLeases
from graphrag.automations.automation_store import Automations
from graphrag.automations.errors import SessionRefused
from graphrag.i18n import Language
from graphrag.llm.base import AssistantMessage
from graphrag.sessions.agent_session import STATUS_OF, AgentSession
from graphrag.sessions.machine import SessionEvent, SessionLimits
from graphrag.sessions.phases import Phase


class SessionEvents:
    """The stored runs of one workspace. Each is changed under its lease."""

    def __init__(
        self, store: Automations, leases: TurnLeases, *, limits: SessionLimits | None = None
    ) -> None:
        self.store, self.leases, self.limits = store, leases, limits or SessionLimits()

    async def apply(
        self,
        session_id: str,
        event: SessionEvent,
        *,
        language: Language = "en",
        ends_because: str = "",
    ) -> Thread:
        """Stores the run after an event and returns it. A run that ends gets a report: the last
        answer of the model, after `ends_because`.

        Raises: SessionNotFound, SessionRefused (its phase does not allow the event), ThreadBusy (a
        process executes it).
        """
        async with self.leases.held(session_id):
            stored = await self.store.session(session_id)
            thread = stored.thread
            transition = session_of(thread).after(event, self.limits, self.store.clock())
            if transition is None:
                raise refused(thread)
            session = transition.state
            ends = (Phase.WAITING_COMPLETION_CONFIRMATION, Phase.COMPLETED)
            if session.phase in ends and session.report is None:
                words = "\n\n".join(filter(None, (ends_because, _last_answer(thread))))
                report = report_of(session, words, thread.messages, language)
                session = session.model_copy(update={"report": report})
            turn = thread.turn.model_copy(update={"status": STATUS_OF[session.phase]})
            history = [*thread.conversation_history, *to_stored(notes_of(transition, language))]
            update = {"session": session, "turn": turn, "conversation_history": history}
            changed = thread.model_copy(update=update)
            return (await self.store.put_session(changed, stored.version)).thread

    async def note_expiry_notified(self, session_id: str) -> bool:
        """Records that the operator was notified of expiring proposals. Returns False if that was
        done before or nothing waits.

        Raises: SessionNotFound, ThreadBusy (a process executes it).
        """

        def change(session: AgentSession) -> dict[str, Any] | None:
            waits = session.phase is Phase.WAITING_VALIDATION
            return {"expiry_notified": True} if waits and not session.expiry_notified else None

        return await self._note(session_id, change)

    async def note_announced(self, announced: AgentSession, session_id: str) -> bool:
        """Records that the state of a run was announced. Returns False if it has changed, or was
        recorded before.

        Raises: SessionNotFound, ThreadBusy (a process executes it).
        """

        def change(session: AgentSession) -> dict[str, Any] | None:
            is_same = (session.phase, session.last_event_time) == (
                announced.phase,
                announced.last_event_time,
            )
            return {"unannounced": None} if session.unannounced and is_same else None

        return await self._note(session_id, change)

    async def _note(
        self, session_id: str, note: Callable[[AgentSession], dict[str, Any] | None]
    ) -> bool:
        """Stores the changes of a run that `note` returns. Returns False if it returns None."""
        async with self.leases.held(session_id):
            stored = await self.store.session(session_id)
            session = session_of(stored.thread)
            changes = note(session)
            if changes is None:
                return False
            changed = session.model_copy(update=changes)
            await self.store.put_session(
                stored.thread.model_copy(update={"session": changed}), stored.version
            )
            return True


def refused(thread: Thread) -> SessionRefused:
    """Returns the error for a request that the run's phase does not allow."""
    session = session_of(thread)
    end = session.end_reason.value if session.end_reason else None
    return SessionRefused(id=thread.key, phase=session.phase.value, end=end or "-")


def _last_answer(thread: Thread) -> str:
    texts = (
        message.content
        for message in reversed(thread.messages)
        if isinstance(message, AssistantMessage)
    )
    return next((content for content in texts if content.strip()), "")
