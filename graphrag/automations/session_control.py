"""What people do with runs: see, stop, resume, decide and confirm them, and go on with
one as a conversation.

Works on what is stored, under the lease of the run: a process that works on the run
meanwhile is asked.
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
from graphrag.llm.base import AssistantMessage, SystemMessage, UserMessage
from graphrag.roles import Person, Role
from graphrag.sessions.machine import SessionEvent
from graphrag.sessions.phases import EndReason, EventName, Phase, SessionKind
from graphrag.stored_records import given

STOPPED_IN_S: Final = 2.5
"""So long what a person does waits for the process that works on the run to leave it."""
_LOOK_S: Final = 0.1
MAX_LISTED: Final = 1_000


def check_role(person: Person, needed: Role) -> None:
    """Raises: AutomationForbidden."""
    if not person.at_least(needed):
        raise errors.AutomationForbidden("automation_needs_role", role=person.role, needed=needed)


def check_own(owner: str, person: Person) -> None:
    """Raises: AutomationForbidden for who is neither an admin nor an editor who is the owner."""
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
        self.on_changed = on_changed
        """Called when the scheduler has to look again."""

    # -- reading

    @staticmethod
    def sees(owner: str, person: Person) -> bool:
        """Whether a person sees the runs of an owner's automations: their own,
        and reviewers all.
        """
        return person.user_id == owner or person.at_least("reviewer")

    def check_sees(self, owner: str, person: Person) -> None:
        """Raises: AutomationForbidden for who is neither the owner nor a reviewer."""
        if not self.sees(owner, person):
            raise errors.AutomationForbidden("automation_sessions_of_other", owner=owner)

    async def get(self, session_id: str, person: Person) -> Thread:
        """Return a run or a template. Raises: SessionNotFound, AutomationForbidden,
        ThreadVersion.
        """
        return (await self._known(session_id, person)).thread

    async def list(
        self,
        person: Person,
        *,
        graph_key: str | None = None,
        phase: Phase | None = None,
        is_open: bool | None = None,
        limit: int = 100,
    ) -> list[Thread]:
        """Return the runs that a person may see, newest first."""
        if person.workspace != self.store.workspace:
            return []
        own = None if person.at_least("reviewer") else person.user_id
        where = given(graphKey=graph_key, phase=phase and phase.value, open=is_open, userId=own)
        # templates have no time: they are the last
        found = await self.store.sessions(where, limit=limit)
        return [
            each.thread for each in found if session_of(each.thread).kind is SessionKind.AUTOMATION
        ]

    async def _known(self, session_id: str, person: Person) -> StoredThread:
        if person.workspace != self.store.workspace:
            raise errors.SessionNotFound(id=session_id)
        stored = await self.store.session(session_id)
        self.check_sees(stored.thread.user_id, person)
        return stored

    async def _run(self, session_id: str, person: Person) -> Thread:
        """Return a run that a person may act on. Raises: as `get`, AutomationRefused
        for a template.
        """
        thread = (await self._known(session_id, person)).thread
        if session_of(thread).kind is not SessionKind.AUTOMATION:
            raise errors.AutomationRefused("template_not_run")
        return thread

    async def _own(self, session_id: str, person: Person) -> Thread:
        thread = await self._run(session_id, person)
        check_own(thread.user_id, person)
        return thread

    # -- acting

    async def stop(self, session_id: str, person: Person) -> Thread:
        """End a run; what it proposed stays to be decided. Raises: SessionRefused when
        it is over.
        """
        thread = await self._own(session_id, person)
        session = session_of(thread)
        if session.phase is Phase.COMPLETED:
            raise refused(thread)
        return await self.cancel(thread)

    async def cancel(self, thread: Thread) -> Thread:
        """End a run, also one that a process works on. Raises: ThreadBusy when that does
        not leave it.
        """
        ended = SessionEvent(name=EventName.SESSION_COMPLETED, reason=EndReason.CANCELLED)
        acted = SessionEvent(name=EventName.ACTIONS_EXECUTED)
        waited_until = asyncio.get_running_loop().time() + STOPPED_IN_S * 4
        while True:
            if await self._leases.ask_to_stop(thread.key):
                thread = await self._left(thread)
                if session_of(thread).phase is Phase.COMPLETED:
                    break
            try:
                thread = await self.events.apply(thread.key, ended)
                break
            except errors.SessionRefused:
                thread = (await self.store.session(thread.key)).thread
                if session_of(thread).phase is Phase.COMPLETED:  # it ended meanwhile
                    break
                if session_of(thread).phase is not Phase.EXECUTING_ACTIONS:
                    raise
                with suppress(errors.SessionRefused, ThreadBusy):
                    # Its process is gone: a change is one write under the lease, made by
                    # now or never.
                    await self.events.apply(thread.key, acted)
            except ThreadBusy:
                if asyncio.get_running_loop().time() >= waited_until:
                    raise
                await asyncio.sleep(_LOOK_S)
        await self._note_last(thread)
        self.on_changed()
        return thread

    async def _left(self, thread: Thread) -> Thread:
        """Return a run that its process was asked to leave, as it is stored once it did, or
        in a while.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(STOPPED_IN_S):
                while await self._leases.runs(thread.key):  # noqa: ASYNC110 - another process leaves it
                    await asyncio.sleep(_LOOK_S)
        return (await self.store.session(thread.key)).thread

    async def resume(self, session_id: str, person: Person) -> Thread:
        """Lets a run that waits for the network, or ended without it, continue with the next tick.

        Its attempts are counted from 0 again: by that the tick knows that a person asked.
        Raises: SessionRefused for any other.
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
        """End a run that is about to end, or let it go on. Raises: SessionRefused where
        none is asked.
        """
        await self._own(session_id, person)
        name = EventName.COMPLETION_CONFIRMED if end else EventName.COMPLETION_REJECTED
        return await self._changed(session_id, SessionEvent(name=name))

    async def answer(
        self, session_id: str, person: Person, *, approved: bool, feedback: str = ""
    ) -> tuple[Thread, list[Approval]]:
        """Decide all proposals of a run that are open, in order, as that person.

        Raises: AutomationRefused where none is, and what deciding raises.
        """
        thread = await self._run(session_id, person)
        waiting = await self._approvals.list(
            graph_key=thread.graph_key,
            thread_id=thread.key,
            status="pending",
            limit=MAX_LISTED,
            by=person,
        )
        if not waiting:
            raise errors.AutomationRefused(
                "session_no_question", phase=session_of(thread).phase.value
            )
        decision = Approve(feedback) if approved else Reject(feedback)
        decided: list[Approval] = []
        for approval in sorted(waiting, key=lambda each: (each.created, each.id)):
            try:
                decided.append(await self._approvals.decide(approval.id, decision, person))
            except (AlreadyDecided, ProposalExpired):  # somebody was faster: theirs stands
                continue
        if not decided:
            raise errors.AutomationRefused(
                "session_no_question", phase=session_of(thread).phase.value
            )
        self.on_changed()
        return (await self.store.session(session_id)).thread, decided

    async def chat_copy(self, session_id: str, person: Person) -> Thread:
        """Store a copy of a run or a template as a conversation of this person, and return it."""
        thread = (await self._known(session_id, person)).thread
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
        # What a person said last and nobody answered is answered when they try again.
        status = "failed" if copied and isinstance(copied[-1], UserMessage) else "stopped"
        turn = begun.thread.turn.model_copy(update={"number": turns, "status": status})
        counted = {"turn": turn, "message_count": turns}
        stored = replace(begun, thread=begun.thread.model_copy(update=counted))
        return (await self._chats.save(stored, copied)).thread

    async def _changed(self, session_id: str, event: SessionEvent) -> Thread:
        """Apply an event; a process that is just leaving the run is waited
        for. Raises: ThreadBusy.
        """
        waited_until = asyncio.get_running_loop().time() + STOPPED_IN_S
        while True:
            try:
                thread = await self.events.apply(session_id, event)
                break
            except ThreadBusy:  # people see what is stored before the lease is given back
                if asyncio.get_running_loop().time() >= waited_until:
                    raise
            await asyncio.sleep(_LOOK_S)
        self.on_changed()
        return thread

    async def _note_last(self, thread: Thread) -> None:
        def noted(automation: Automation) -> Automation:
            if automation.last_session_id == thread.key:
                return automation
            return automation.model_copy(update={"last_session_id": thread.key})

        try:
            await self.store.update(session_of(thread).automation_id, noted)
        except errors.AutomationError:  # it is removed
            return


def decided_documents(decided: Sequence[Approval]) -> list[dict[str, Any]]:
    """Return what became of decided proposals, as clients and scripts see it."""
    return [{"approvalId": approval.id, "status": approval.status} for approval in decided]
