"""Applies events to runs that nobody works on: a person's, the clock's, or those of a
process that died.
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
    """The stored runs of one workspace, each changed under its lease."""

    def __init__(
        self, store: Automations, leases: TurnLeases, *, limits: SessionLimits | None = None
    ) -> None:
        self.store, self.leases, self.limits = store, leases, limits or SessionLimits()

    async def apply(
        self, session_id: str, event: SessionEvent, *, language: Language = "en"
    ) -> Thread:
        """Store what an event makes of a run, and return it; one that ends has a report.

        Raises: SessionNotFound, SessionRefused (it is past that), ThreadBusy (a process
        works on it).
        """
        async with self.leases.held(session_id):
            stored = await self.store.session(session_id)
            thread = stored.thread
            made = session_of(thread).after(event, self.limits, self.store.clock())
            if made is None:
                raise refused(thread)
            session = made.state
            ends = (Phase.WAITING_COMPLETION_CONFIRMATION, Phase.COMPLETED)
            if session.phase in ends and session.report is None:
                report = report_of(session, _said(thread), thread.messages, language)
                session = session.model_copy(update={"report": report})
            turn = thread.turn.model_copy(update={"status": STATUS_OF[session.phase]})
            history = [*thread.conversation_history, *to_stored(notes_of(made, language))]
            update = {"session": session, "turn": turn, "conversation_history": history}
            changed = thread.model_copy(update=update)
            return (await self.store.put_session(changed, stored.version)).thread

    async def note_expiry_notified(self, session_id: str) -> bool:
        """Note that an operator is notified of a run whose proposals expire; False: one was,
        or none waits.

        Raises: SessionNotFound, ThreadBusy (a process works on it).
        """

        def noted(session: AgentSession) -> dict[str, Any] | None:
            waits = session.phase is Phase.WAITING_VALIDATION
            return {"expiry_notified": True} if waits and not session.expiry_notified else None

        return await self._note(session_id, noted)

    async def note_announced(self, known: AgentSession, session_id: str) -> bool:
        """Note that a run's state was announced; False: it is past that, or another server
        has noted it.

        Raises: SessionNotFound, ThreadBusy (a process works on it).
        """

        def noted(session: AgentSession) -> dict[str, Any] | None:
            is_same = (session.phase, session.last_event_time) == (
                known.phase,
                known.last_event_time,
            )
            return {"unannounced": None} if session.unannounced and is_same else None

        return await self._note(session_id, noted)

    async def _note(
        self, session_id: str, note: Callable[[AgentSession], dict[str, Any] | None]
    ) -> bool:
        """Store the fields of a run that `note` gives; False where it gives none."""
        async with self.leases.held(session_id):
            stored = await self.store.session(session_id)
            session = session_of(stored.thread)
            changes = note(session)
            if changes is None:
                return False
            noted = session.model_copy(update=changes)
            await self.store.put_session(
                stored.thread.model_copy(update={"session": noted}), stored.version
            )
            return True


def refused(thread: Thread) -> SessionRefused:
    """Return the error for what a session is past."""
    session = session_of(thread)
    end = session.end_reason.value if session.end_reason else None
    return SessionRefused(id=thread.key, phase=session.phase.value, end=end or "-")


def _said(thread: Thread) -> str:
    said = (
        message.content
        for message in reversed(thread.messages)
        if isinstance(message, AssistantMessage)
    )
    return next((content for content in said if content.strip()), "")
