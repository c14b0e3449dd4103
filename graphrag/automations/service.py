"""Operations on automations for REST, WebSocket, page and command line: roles,
validation, views.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from datasources.base import GraphDataSource
from datasources.errors import BadDocument
from graphrag.agent.thread_store import (
    StoredThread,
    Thread,
    ThreadBusy,
    ThreadError,
    ThreadOfOtherGraph,
    Threads,
    session_of,
)
from graphrag.approvals import Approvals
from graphrag.automations import drafts, errors
from graphrag.automations.automation import Automation
from graphrag.automations.automation_store import Automations
from graphrag.automations.automation_view import AutomationAnswer, automation_answer
from graphrag.automations.beginning import begin_run, check_may_run, reference_of
from graphrag.automations.session_control import SessionControl, check_own, check_role
from graphrag.automations.workspace_rules import check_workspace
from graphrag.commands import BlockChecker, SentBlock, blocks_of, words_of
from graphrag.config import Settings, SettingsError
from graphrag.i18n import Language, text
from graphrag.llm.base import SystemMessage, UsageReport, UserMessage
from graphrag.llm.registry import Pricing
from graphrag.roles import Person
from graphrag.sessions.agent_session import Trigger
from graphrag.sessions.schedule_words import day_and_time, in_words, next_times
from graphrag.sessions.schedules import check_distance, schedule

log = logging.getLogger(__name__)

MAX_WAITING: Final = 1_000
_MAX_CONCURRENT_READS: Final = 8
_MAX_ATTEMPTS: Final = 5


@dataclass(slots=True, kw_only=True)
class AutomationService:
    """The automations of one workspace. `on_changed` is called when the scheduler should check
    again.
    """

    store: Automations
    source: GraphDataSource
    chats: Threads
    approvals: Approvals
    settings: Settings
    # Returns the prices of a provider's model, None for the configured ones.
    pricing: Callable[[str | None, str | None], Pricing]
    blocks: BlockChecker
    sessions: SessionControl
    on_changed: Callable[[], None] = lambda: None

    # -- reading

    async def get(
        self, automation_id: str, person: Person, language: Language = "en"
    ) -> AutomationAnswer:
        """Returns an automation. Raises: AutomationNotFound, BadDocument."""
        stored = await self._stored_automation(automation_id, person)
        return (await self._views([stored], person, language))[0]

    async def messages(self, automation_id: str, person: Person) -> list[UserMessage]:
        """Returns the messages of the template. Raises: AutomationNotFound, SessionNotFound,
        BadDocument.
        """
        stored = await self._stored_automation(automation_id, person)
        seed = await self.store.seed(stored)
        return [message for message in seed.messages if isinstance(message, UserMessage)]

    async def list(
        self,
        person: Person,
        *,
        graph_key: str | None = None,
        limit: int = 100,
        language: Language = "en",
    ) -> list[AutomationAnswer]:
        """Returns the automations of the workspace by name; empty for a person of another
        workspace.
        """
        if person.workspace != self.store.workspace:
            return []
        automations = await self.store.list(graph_key=graph_key, limit=limit)
        automations.sort(
            key=lambda automation: (
                automation.graph_key,
                automation.name.casefold(),
                automation.key,
            )
        )
        return await self._views(automations, person, language)

    async def runs(self, automation_id: str, person: Person, *, limit: int = 100) -> list[Thread]:
        """Returns an automation's runs, the newest first. Raises: AutomationNotFound,
        AutomationForbidden.
        """
        stored = await self._stored_automation(automation_id, person)
        self.sessions.check_sees(stored.user_id, person)
        sessions = await self.store.sessions({"automationId": automation_id}, limit=limit)
        return [session.thread for session in sessions if session.thread.key != stored.seed_id]

    async def _views(
        self, automations: Sequence[Automation], person: Person, language: Language
    ) -> list[AutomationAnswer]:
        now = self.store.clock()
        reading = asyncio.Semaphore(_MAX_CONCURRENT_READS)
        pending = await self.approvals.list(status="pending", limit=MAX_WAITING, by=person)
        waiting = Counter(approval.automation_id for approval in pending)
        decidable = Counter(
            one.automation_id
            for one in pending
            if self.approvals.objection(one.asker, person) is None
        )

        async def last(automation: Automation) -> Thread | None:
            if automation.last_session_id is None:
                return None
            async with reading:
                try:
                    return (await self.store.session(automation.last_session_id)).thread
                except (
                    errors.AutomationError,
                    ThreadError,
                    BadDocument,
                ):  # deleted, or stored by a newer version
                    return None

        runs = await asyncio.gather(*(last(automation) for automation in automations))
        return [
            automation_answer(
                automation,
                run,
                now,
                sees_runs=self.sessions.sees(automation.user_id, person),
                schedule=in_words(automation.schedule, language, automation.event),
                next_times=next_times(automation.schedule, now) if automation.enabled else [],
                waiting=waiting[automation.key],
                decidable=decidable[automation.key],
            )
            for automation, run in zip(automations, runs, strict=True)
        ]

    async def _stored_automation(self, automation_id: str, person: Person) -> Automation:
        if person.workspace != self.store.workspace:
            raise errors.AutomationNotFound(id=automation_id)
        return await self.store.get(automation_id)

    # -- making and changing

    async def add(
        self, draft: drafts.AutomationDraft, person: Person, language: Language = "en"
    ) -> AutomationAnswer:
        """Stores a new automation. Raises: AutomationError, ScheduleError, GraphNotFound,
        ThreadError.
        """
        check_role(person, "editor")
        if person.workspace != self.store.workspace:
            raise errors.AutomationNotFound(id="")
        graph = await self.source.get_graph(draft.graph_key)
        name = drafts.checked_name(draft.name)
        messages = await self._messages(draft, person)
        maximum = self.settings.automations_max
        if len(await self.store.list(limit=maximum + 1)) >= maximum:
            raise errors.AutomationsSpent("automations_max", most=maximum)
        await self._check_name(graph.key, name)
        new = self.store.begin(
            person,
            graph.key,
            name=name,
            timezone=self.settings.timezone,
            day_start_hour=self.settings.day_start_hour,
            first_day=self.settings.first_day,
            language=language,
        )
        automation = self._checked(draft.apply(new))
        stored = await self.store.create(automation, messages)
        self.on_changed()
        return (await self._views([stored], person, language))[0]

    async def edit(
        self,
        automation_id: str,
        changes: drafts.AutomationChanges,
        person: Person,
        language: Language = "en",
    ) -> AutomationAnswer:
        """Changes an automation; its next run is calculated from now. Raises: as `add`,
        AutomationChanged.
        """

        async def changed(before: Automation) -> tuple[Automation, list[UserMessage] | None]:
            if changes.version != before.version:
                raise errors.AutomationRefused(
                    "automation_changed_since", now=before.version, given=changes.version
                )
            return await self._changed(before, changes, person)

        return await self._store_change(automation_id, person, language, changed)

    async def _changed(
        self, before: Automation, changes: drafts.AutomationChanges, person: Person
    ) -> tuple[Automation, list[UserMessage] | None]:
        """Returns the changed automation, and its new message if that changed."""
        automation = changes.apply(before)
        if changes.name is not None:
            name = drafts.checked_name(changes.name)
            if name != before.name:
                await self._check_name(before.graph_key, name, but=before.key)
            automation = automation.model_copy(update={"name": name})
        messages: list[UserMessage] | None = None
        if changes.message is not None or changes.blocks is not None:
            last_message = (await self.messages(before.key, person))[-1:]
            previous_text = (
                words_of(last_message[0].content, last_message[0].segments) if last_message else ""
            )
            message = changes.message if changes.message is not None else previous_text
            drafts.check_message(message)
            blocks = (
                blocks_of(last_message[0].segments)
                if last_message and changes.blocks is None
                else ()
            )
            sent = [SentBlock.model_validate(block.to_document()) for block in blocks]
            sent = sent if changes.blocks is None else drafts.sent_blocks(changes.blocks)
            language = automation.language
            calendar = automation.calendar
            checked_message = self.blocks.checked(
                before.graph_key, message, sent, language, calendar=calendar, keep_relative=True
            )
            messages = [await checked_message]
        if before.user_id == person.user_id:
            automation = automation.model_copy(update={"role": person.role})
        return self._checked(automation), messages

    async def _store_change(
        self,
        automation_id: str,
        person: Person,
        language: Language,
        change: Callable[[Automation], Awaitable[tuple[Automation, list[UserMessage] | None]]],
    ) -> AutomationAnswer:
        """Stores a person's change, repeating it if the scheduler writes meanwhile. Raises: as
        `edit`.
        """
        for _ in range(_MAX_ATTEMPTS):
            stored = await self._changeable(automation_id, person)
            automation, messages = await change(stored)
            with suppress(errors.AutomationChanged):
                edited = await self.store.edit(automation, messages)
                self.on_changed()
                return (await self._views([edited], person, language))[0]
        raise errors.AutomationChanged(id=automation_id)

    async def remove(self, automation_id: str, person: Person) -> None:
        """Deletes an automation. Its open runs are stopped, and its proposals remain. Raises: as
        `edit`.
        """
        automation = await self._changeable(automation_id, person)
        # Deleted first, so that no other run of it begins.
        for attempts_left in reversed(range(_MAX_ATTEMPTS)):
            try:
                await self.store.remove(automation_id)
                break
            except errors.AutomationChanged:  # a tick changed it meanwhile
                if not attempts_left:
                    raise
        for run in await self.store.sessions({"automationId": automation_id, "open": True}):
            with suppress(errors.SessionRefused, ThreadBusy):  # the next tick ends it
                words = text("run_graph_gone", automation.language)
                await self.sessions.cancel(run.thread, language=automation.language, because=words)
        self.on_changed()

    async def enable(
        self, automation_id: str, person: Person, language: Language = "en"
    ) -> AutomationAnswer:
        """Enables an automation; its next run is calculated from now. Raises: as `edit`."""
        return await self._switched(
            automation_id, person, language, enabled=True, paused_reason=None
        )

    async def pause(
        self, automation_id: str, person: Person, language: Language = "en"
    ) -> AutomationAnswer:
        """Pauses an automation. People can still run it. Raises: as `edit`."""
        return await self._switched(
            automation_id, person, language, enabled=False, paused_reason="person"
        )

    async def take_over(
        self, automation_id: str, person: Person, language: Language = "en"
    ) -> AutomationAnswer:
        """Makes an admin the owner of an automation, in whose name it then runs.
        Raises: as `edit`.
        """
        check_role(person, "admin")
        owner = {"user_id": person.user_id, "role": person.role}
        return await self._switched(automation_id, person, language, **owner)

    async def run(
        self,
        automation_id: str,
        person: Person,
        *,
        supersede: bool = False,
        trigger: Trigger = "manual",
        notes: Sequence[SystemMessage] = (),
        reference: int | None = None,
    ) -> Thread:
        """Begins a run now, or queues it while its graph is busy. `notes`: messages for this run.
        `reference`: the time from which its periods are counted, by default now.

        Raises: AutomationError (paused, another run is open, a daily limit is reached),
        GraphNotFound.
        """
        await check_workspace(self.store)
        stopped: list[StoredThread] = []
        for attempts_left in reversed(range(_MAX_ATTEMPTS)):
            # Read before the open runs, so that a run claimed in between makes this claim fail.
            stored = await self._changeable(automation_id, person)
            check_may_run(stored, now := self.store.clock())
            await self.source.get_graph(stored.graph_key)
            open_runs = await self._open_runs(automation_id, supersede=supersede)
            tended = [run for run in open_runs if session_of(run.thread).is_tended]
            if tended and not attempts_left:  # do not stop a run without beginning one
                break
            for run in tended:  # a process may be executing it
                words = text("run_replaced", stored.language)
                await self.sessions.cancel(run.thread, language=stored.language, because=words)
                stopped.append(run)
            if tended:
                continue
            replaced = [*stopped, *open_runs]
            begun = await begin_run(
                self.approvals,
                self.sessions.events,
                stored,
                now,
                replaced,
                trigger=trigger,
                notes=notes,
                reference=reference,
            )
            if begun is not None:
                self.on_changed()
                return begun
        raise errors.AutomationChanged(id=automation_id)

    async def retry(self, session_id: str, person: Person) -> Thread:
        """Runs an automation again for the time of a run that has ended. Raises: as `run`,
        SessionNotFound, SessionRefused for an open run.
        """
        thread = await self.sessions.get(session_id, person)
        automation_id = session_of(thread).automation_id
        return await self.run(automation_id, person, reference=reference_of(thread))

    async def _open_runs(self, automation_id: str, *, supersede: bool) -> list[StoredThread]:
        """Returns the open runs. Raises: AutomationRefused if there are some that must not be
        replaced.
        """
        runs = await self.store.sessions({"automationId": automation_id, "open": True})
        if runs and not supersede:
            first = runs[0].thread
            phase = session_of(first).phase.value
            raise errors.AutomationRefused("automation_run_open", session=first.key, phase=phase)
        return runs

    async def _switched(
        self, automation_id: str, person: Person, language: Language, **changes: Any
    ) -> AutomationAnswer:
        async def changed(before: Automation) -> tuple[Automation, None]:
            after = before.model_copy(update={**changes, "failures": 0})
            return drafts.scheduled(after, self.settings, self.store.clock()), None

        return await self._store_change(automation_id, person, language, changed)

    async def _changeable(self, automation_id: str, person: Person) -> Automation:
        stored = await self._stored_automation(automation_id, person)
        check_own(stored.user_id, person)
        return stored

    def _checked(self, automation: Automation) -> Automation:
        budget = automation.budget
        is_limited = budget.cost_usd is not None or budget.day_cost_usd is not None
        if is_limited or automation.has_own_model:
            try:
                pricing = self.pricing(automation.provider, automation.model)
            except SettingsError as exc:
                raise errors.AutomationInvalid("automation_model", setting=exc.name) from exc
            if is_limited and pricing.cost_usd(UsageReport(prompt=1, completion=1)) is None:
                raise errors.AutomationInvalid("automation_cost_unpriced", model=pricing.model)
        return drafts.scheduled(automation, self.settings, self.store.clock())

    async def _messages(self, draft: drafts.AutomationDraft, person: Person) -> list[UserMessage]:
        earlier: list[UserMessage] = []
        if draft.from_thread_id is not None:
            thread = (await self.chats.get(draft.from_thread_id, person)).thread
            if thread.graph_key != draft.graph_key:
                about = thread.graph_key
                raise ThreadOfOtherGraph(
                    thread_id=thread.key, graph_key=about, asked=draft.graph_key
                )
            earlier = [
                UserMessage(content=m.content, segments=m.segments)
                for m in thread.messages
                if isinstance(m, UserMessage) and m.content.strip()
            ]
        drafts.check_message("\n".join([*(message.content for message in earlier), draft.message]))
        if earlier and not draft.message.strip():
            return earlier
        sent = drafts.sent_blocks(draft.blocks)
        language = draft.language or self.settings.language
        # Relative periods in it are resolved when it is run.
        message = await self.blocks.checked(
            draft.graph_key, draft.message, sent, language, keep_relative=True
        )
        return [*earlier, message]

    async def _check_name(self, graph_key: str, name: str, but: str | None = None) -> None:
        for other in await self.store.list(graph_key=graph_key):
            if other.name.casefold() == name.casefold() and other.key != but:
                raise errors.AutomationRefused(
                    "automation_name_taken", graph=graph_key, name=other.name, id=other.key
                )

    def preview(
        self,
        cron: str | None,
        dates: Sequence[int],
        timezone: str | None,
        language: Language = "en",
    ) -> dict[str, Any]:
        """Returns a schedule in words with its next times. Raises: ScheduleError."""
        timetable = schedule(cron=cron, dates=dates, timezone=timezone or self.settings.timezone)
        now = self.store.clock()
        check_distance(timetable, now, self.settings.automation_min_interval_s)
        times = next_times(timetable, now)
        return {
            "schedule": in_words(timetable, language),
            "timezone": timetable.zone.key,
            "nextTimes": times,
            "next": [day_and_time(at, timetable.zone, language) for at in times],
        }
