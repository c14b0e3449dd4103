"""Tries an automation: a whole run on the stored graph, whose records are kept in memory only.

A person sees what it would report and propose before it runs.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final, final

from datasources.base import Database
from datasources.split_database import SplitDatabase
from graphrag.agent.thread_store import Thread, Threads
from graphrag.agent.turn_trace import Traces
from graphrag.app.databases import open_database
from graphrag.app.model_services import worker_of
from graphrag.app.models import Model
from graphrag.app.wiring import Services, tools_without_renewal
from graphrag.approvals import Approval, Approvals
from graphrag.automations.automation import Automation
from graphrag.automations.automation_store import Automations
from graphrag.automations.beginning import begin_run, check_may_run
from graphrag.automations.errors import AutomationRefused
from graphrag.automations.service import AutomationService
from graphrag.automations.session_control import check_own
from graphrag.llm.base import Message
from graphrag.roles import Person
from graphrag.sessions.machine import SessionLimits
from graphrag.sessions.phases import EventName

MAX_TRIALS: Final = 4  # at once in a process; one of each person
MAX_S: Final = 240  # of one trial; its automation may allow less
MAX_PROPOSALS: Final = 100


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class AutomationTrial:
    """How a tried run ended, or what it would wait for, and what it would propose, in order."""

    run: Thread
    proposals: Sequence[Approval]


@final
@dataclass(slots=True)
class TrialPlaces:
    """The persons whose trials are under way in a process."""

    _persons: set[str] = field(default_factory=set[str])

    @contextmanager
    def taken(self, person: Person) -> Generator[None]:
        """Raises: AutomationRefused if the person tries another, or too many do."""
        if person.user_id in self._persons:
            raise AutomationRefused("automation_trial_open")
        if len(self._persons) >= MAX_TRIALS:
            raise AutomationRefused("automation_trials_full", n=MAX_TRIALS)
        self._persons.add(person.user_id)
        try:
            yield
        finally:
            self._persons.discard(person.user_id)


async def try_automation(
    services: Services,
    model: Model,
    automations: AutomationService,
    automation_id: str,
    person: Person,
) -> AutomationTrial:
    """Runs an automation as it would run now, in the caller's name and with the lower of both
    roles, until it ends or would wait for a decision. Only the usage of the model is stored.

    Its limits apply; it may be paused. Raises: AutomationNotFound, AutomationForbidden,
    AutomationsSpent, GraphNotFound, SourceError.
    """
    messages = await automations.messages(automation_id, person)
    stored = await automations.store.get(automation_id)
    check_own(stored.user_id, person)
    check_may_run(stored.model_copy(update={"enabled": True}), automations.store.clock())
    async with open_database("memory:", services.settings.workspace) as memory:
        trial = _with_records(services, memory)
        return await _tried(trial, model, _for_trial(stored, person), messages)


def _for_trial(stored: Automation, person: Person) -> Automation:
    """Returns the automation with everything that it changes left to a decision."""
    budget = stored.budget
    role = stored.role if person.at_least(stored.role) else person.role
    return stored.model_copy(
        update={
            "record_version": None,
            "user_id": person.user_id,
            "role": role,
            "enabled": True,
            "paused_reason": None,
            "require_validation": True,
            "budget": budget.model_copy(update={"active_s": min(budget.active_s, MAX_S)}),
        }
    )


def _with_records(services: Services, memory: Database) -> Services:
    """Returns services that read the stored graphs, and store records in memory.

    Nothing is applied: these records hold no policy that would allow it.
    """
    database = SplitDatabase(graphs=services.database, records=memory)
    records = database.records(services.settings.workspace)
    return replace(
        services,
        database=database,
        threads=Threads(records),
        approvals=Approvals(services.approvals.source, records),
        traces=Traces(records, days=services.settings.trace_days),
        box=tools_without_renewal(),
    )


async def _tried(
    services: Services, model: Model, automation: Automation, messages: Sequence[Message]
) -> AutomationTrial:
    workspace = services.settings.workspace
    records = services.database.records(workspace)
    store = Automations(records, workspace=workspace)
    automation = await store.create(automation, messages)
    worker = worker_of(services, model, limits=SessionLimits(confirm_ms=0))
    run = await begin_run(
        services.approvals, worker.runner.events, automation, store.clock(), trigger="manual"
    )
    assert run is not None, "no other process knows these records"
    await worker.runner.run(run.key, EventName.SESSION_ACTIVATION_REQUESTED)
    owner = Person(automation.user_id, automation.role, workspace)
    proposals = await services.approvals.list(thread_id=run.key, limit=MAX_PROPOSALS, by=owner)
    proposals.sort(key=lambda one: one.created)
    return AutomationTrial(run=(await store.session(run.key)).thread, proposals=proposals)
