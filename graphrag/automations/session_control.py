"""Operations on runs for people: read, stop, resume, decide, confirm, and continue as a
conversation.

They change the stored run under its lease. A process that is executing the run is asked to stop
first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from graphrag.agent.thread_store import StoredThread, Thread, ThreadBusy, Threads, session_of
from graphrag.agent.turn_lease import TurnLeases
from graphrag.approvals import AlreadyDecided, Approval, Approvals, Approve, ProposalExpired, Reject
from graphrag.automations import errors
from graphrag.automations.automation import Automation
from graphrag.automations.automation_store import Automations
from graphrag.automations.session_events import SessionEvents, refused
from graphrag.i18n import Language
from graphrag.llm.base import AssistantMessage, SystemMessage, UserMessage
from graphrag.roles import Person, Role
from graphrag.sessions.machine import SessionEvent
from graphrag.sessions.phases import EndReason, EventName, Phase, SessionKind
from graphrag.stored_records import given

STOP_WAIT_S: Final = 2.5  # Seconds to wait until the process that executes a run has released it.
POLL_S: Final = 0.1
MAX_LISTED: Final = 1_000


def check_role(person: Person, needed: Role) -> None:
    """Checks the person's role. Raises: AutomationForbidden."""
    if not person.at_least(needed):
        raise errors.AutomationForbidden("automation_needs_role", role=person.role, needed=needed)


def check_own(owner: str, person: Person) -> None:
    """Checks that the person is an admin, or an editor who owns it. Raises: AutomationForbidden."""
    check_role(person, "editor")
    if owner != person.user_id and not person.at_least("admin"):
        raise errors.AutomationForbidden("automation_of_other", owner=owner)


class SessionControl:
    """The runs of one workspace. `chats` stores conversations."""

    def __init__(
        self,
        store: Automations,
        leases: TurnLeases,
        *,
        chats: Threads,
        approvals: Approvals,
        on_changed: Callable[[], None] = lambda: None,
    ) -> None:
        self.store = store
        self._leases = leases
        self.events = SessionEvents(store, leases)
        self._chats = chats
        self._approvals = approvals
        # Called when the scheduler should check again.
        self.on_changed = on_changed

    # -- reading

    @staticmethod
    def sees(owner: str, person: Person) -> bool:
        """Returns whether a person may see the runs of an owner's automations: the owner and
        reviewers.
        """
        return person.user_id == owner or person.at_least("reviewer")

    def check_sees(self, owner: str, person: Person) -> None:
        """Raises: AutomationForbidden if the person is neither the owner nor a reviewer."""
        if not self.sees(owner, person):
            raise errors.AutomationForbidden("automation_sessions_of_other", owner=owner)

    async def get(self, session_id: str, person: Person) -> Thread:
        """Returns a run or a template. Raises: SessionNotFound, AutomationForbidden,
        ThreadVersion.
        """
        return (await self._visible_session(session_id, person)).thread

    async def list(
        self,
        person: Person,
        *,
        graph_key: str | None = None,
        phase: Phase | None = None,
        is_open: bool | None = None,
        limit: int = 100,
    ) -> list[Thread]:
        """Returns the runs that the person may see, the newest first."""
        if person.workspace != self.store.workspace:
            return []
        own = None if person.at_least("reviewer") else person.user_id
        where = given(graphKey=graph_key, phase=phase and phase.value, open=is_open, userId=own)
        # Templates have no time, so they come last.
        sessions = await self.store.sessions(where, limit=limit)
        return [
            session.thread
            for session in sessions
            if session_of(session.thread).kind is SessionKind.AUTOMATION
        ]

    async def _visible_session(self, session_id: str, person: Person) -> StoredThread:
        if person.workspace != self.store.workspace:
            raise errors.SessionNotFound(id=session_id)
        stored = await self.store.session(session_id)
        self.check_sees(stored.thread.user_id, person)
        return stored

    async def _run(self, session_id: str, person: Person) -> Thread:
        """Returns a run that the person may act on. Raises: as `get`, AutomationRefused for a
        template.
        """
        thread = (await self._visible_session(session_id, person)).thread
        if session_of(thread).kind is not SessionKind.AUTOMATION:
            raise errors.AutomationRefused("template_not_run")
        return thread

    async def _own(self, session_id: str, person: Person) -> Thread:
        thread = await self._run(session_id, person)
        check_own(thread.user_id, person)
        return thread

    # -- acting

    async def stop(self, session_id: str, person: Person) -> Thread:
        """Ends a run; its proposals remain pending. Raises: SessionRefused if it has ended."""
        thread = await self._own(session_id, person)
        session = session_of(thread)
        if session.phase is Phase.COMPLETED:
            raise refused(thread)
        return await self.cancel(thread)

    async def cancel(
        self, thread: Thread, *, language: Language = "en", because: str = ""
    ) -> Thread:
        """Ends a run, also while a process executes it. Its report begins with `because`.

        Raises: ThreadBusy if the process does not release it.
        """
        ended = SessionEvent(name=EventName.SESSION_COMPLETED, reason=EndReason.CANCELLED)
        acted = SessionEvent(name=EventName.ACTIONS_EXECUTED)
        deadline = asyncio.get_running_loop().time() + STOP_WAIT_S * 4
        while True:
            if await self._leases.ask_to_stop(thread.key):
                thread = await self._released(thread)
                if session_of(thread).phase is Phase.COMPLETED:
                    break
            try:
                thread = await self.events.apply(
                    thread.key, ended, language=language, ends_because=because
                )
                break
            except errors.SessionRefused:
                thread = (await self.store.session(thread.key)).thread
                if session_of(thread).phase is Phase.COMPLETED:  # it has ended meanwhile
                    break
                if session_of(thread).phase is not Phase.EXECUTING_ACTIONS:
                    raise
                with suppress(errors.SessionRefused, ThreadBusy):
                    # Its process has died. A change is a single write under the lease, so it has
                    # either happened or never will.
                    await self.events.apply(thread.key, acted)
            except ThreadBusy:
                if asyncio.get_running_loop().time() >= deadline:
                    raise
                await asyncio.sleep(POLL_S)
        await self._note_last(thread)
        self.on_changed()
        return thread

    async def _released(self, thread: Thread) -> Thread:
        """Returns the stored run after its process has released it, or after the maximum wait."""
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_WAIT_S):
                with self._leases.watched(thread.key) as inbox:
                    while await self._leases.runs(thread.key):  # another process leaves it
                        await inbox.wait(POLL_S)
        return (await self.store.session(thread.key)).thread

    async def resume(self, session_id: str, person: Person) -> Thread:
        """Resumes a run that waits for the network or ended because of it. It continues at the next
        tick.

        Its attempts are counted from 0 again, by which the tick recognizes the request.
        Raises: SessionRefused for other runs.
        """
        thread = await self._own(session_id, person)
        session = session_of(thread)
        if session.phase is Phase.WAITING_NETWORK_RETRY:
            anew = {"retryAt": self.store.clock(), "attempts": 0}
            event = SessionEvent(name=EventName.NETWORK_RETRY_SCHEDULED, data=anew)
        else:
            event = SessionEvent(
                name=EventName.SESSION_ACTIVATION_REQUESTED, facts=frozenset({"slot_free"})
            )
            if session.phase is not Phase.COMPLETED:
                raise refused(thread)
        return await self._changed(session_id, event)

    async def confirm(self, session_id: str, person: Person, *, end: bool) -> Thread:
        """Confirms or rejects the announced end of a run. Raises: SessionRefused if no end is
        announced.
        """
        await self._own(session_id, person)
        name = EventName.COMPLETION_CONFIRMED if end else EventName.COMPLETION_REJECTED
        return await self._changed(session_id, SessionEvent(name=name))

    async def answer(
        self, session_id: str, person: Person, *, approved: bool, feedback: str = ""
    ) -> tuple[Thread, list[Approval]]:
        """Decides all pending proposals of a run, in order, as this person.

        Raises: AutomationRefused if there are none, and the errors of deciding.
        """
        thread = await self._run(session_id, person)
        pending = await self._approvals.list(
            graph_key=thread.graph_key,
            thread_id=thread.key,
            status="pending",
            limit=MAX_LISTED,
            by=person,
        )
        if not pending:
            raise errors.AutomationRefused(
                "session_no_question", phase=session_of(thread).phase.value
            )
        decision = Approve(feedback) if approved else Reject(feedback)
        decided: list[Approval] = []
        for approval in sorted(pending, key=lambda each: (each.created, each.id)):
            try:
                decided.append(await self._approvals.decide(approval.id, decision, person))
            except (AlreadyDecided, ProposalExpired):  # another decision was first
                continue
        if not decided:
            raise errors.AutomationRefused(
                "session_no_question", phase=session_of(thread).phase.value
            )
        self.on_changed()
        return (await self.store.session(session_id)).thread, decided

    async def chat_copy(self, session_id: str, person: Person) -> Thread:
        """Stores a copy of a run or a template as a conversation of this person, and returns it."""
        thread = (await self._visible_session(session_id, person)).thread
        copied = [
            replace(message, execution=None) if isinstance(message, UserMessage) else message
            for message in thread.messages
            if not (
                isinstance(message, SystemMessage | AssistantMessage)
                and message.exclude_from_prompt
            )
        ]
        begun = self._chats.begin(thread.graph_key, person, title=thread.title)
        turns = sum(isinstance(message, UserMessage) for message in copied)
        # A last message without an answer can be sent again.
        status = "failed" if copied and isinstance(copied[-1], UserMessage) else "stopped"
        turn = begun.thread.turn.model_copy(update={"number": turns, "status": status})
        counted = {"turn": turn, "message_count": turns}
        stored = replace(begun, thread=begun.thread.model_copy(update=counted))
        return (await self._chats.save(stored, copied)).thread

    async def _changed(self, session_id: str, event: SessionEvent) -> Thread:
        """Applies an event, waiting for a process that is releasing the run. Raises: ThreadBusy."""
        deadline = asyncio.get_running_loop().time() + STOP_WAIT_S
        with self._leases.watched(session_id) as inbox:
            while True:
                try:
                    thread = await self.events.apply(session_id, event)
                    break
                except ThreadBusy:  # the state is visible before the lease is released
                    if asyncio.get_running_loop().time() >= deadline:
                        raise
                await inbox.wait(POLL_S)
        self.on_changed()
        return thread

    async def _note_last(self, thread: Thread) -> None:
        def with_last(automation: Automation) -> Automation:
            if automation.last_session_id == thread.key:
                return automation
            return automation.model_copy(update={"last_session_id": thread.key})

        try:
            await self.store.update(session_of(thread).automation_id, with_last)
        except errors.AutomationError:  # it was deleted
            return


def decided_documents(decided: Sequence[Approval]) -> list[dict[str, Any]]:
    """Returns the outcomes of decided proposals, for clients and scripts."""
    return [{"approvalId": approval.id, "status": approval.status} for approval in decided]
