"""Rules for all automations of a workspace: a pause with its reason, and a budget of a day."""

from __future__ import annotations

from typing import Any, Final

from pydantic import ConfigDict, Field

from datasources.base import Record, RecordStore
from datasources.types import Document, parse_document
from graphrag.automations.automation import SkipReason
from graphrag.automations.automation_store import Automations
from graphrag.automations.errors import AutomationRefused, AutomationsSpent
from graphrag.automations.session_control import check_role
from graphrag.roles import Person
from graphrag.stored_records import change_record

KIND: Final = "automation_rules"
KEY: Final = "rules"
MAX_REASON_CHARS: Final = 500
MAX_COUNTED: Final = 10_000  # automations whose usage is added up


class WorkspacePause(Document):
    """Who paused all automations, when, and why. Units: milliseconds since 1970."""

    model_config = ConfigDict(extra="forbid")

    by: str
    reason: str = Field(default="", max_length=MAX_REASON_CHARS)
    time: int


class WorkspaceBudget(Document):
    """Limits of one day for all automations together. Units: tokens, US dollars; None: no limit."""

    model_config = ConfigDict(extra="forbid")

    day_tokens: int | None = Field(default=None, ge=1)
    day_cost_usd: float | None = Field(default=None, gt=0)

    @property
    def is_set(self) -> bool:
        return self.day_tokens is not None or self.day_cost_usd is not None


class WorkspaceUsage(Document):
    """What all automations used on their day. Units: tokens, US dollars; None: a price is
    unknown.
    """

    tokens: int = 0
    cost_usd: float | None = 0.0


class WorkspaceRules(Document):
    """The stored rules of a workspace."""

    model_config = ConfigDict(extra="forbid")

    paused: WorkspacePause | None = None
    budget: WorkspaceBudget = WorkspaceBudget()

    def skip_reason(self, used: WorkspaceUsage) -> SkipReason | None:
        """Returns why no run may begin, or None."""
        if self.paused is not None:
            return "all_paused"
        budget = self.budget
        if budget.day_tokens is not None and used.tokens >= budget.day_tokens:
            return "workspace_budget"
        if budget.day_cost_usd is not None and (used.cost_usd or 0.0) >= budget.day_cost_usd:
            return "workspace_budget"
        return None


async def read_rules(records: RecordStore) -> WorkspaceRules:
    """Returns the rules of a workspace. Raises: BadDocument, SourceError."""
    record = await records.get(KIND, KEY)
    return parse_document(WorkspaceRules, record.data, KIND) if record else WorkspaceRules()


async def used_today(automations: Automations) -> WorkspaceUsage:
    """Returns the usage of all automations on their present day. Raises: SourceError."""
    now = automations.clock()
    tokens, cost = 0, 0.0
    is_priced = True
    for automation in await automations.list(limit=MAX_COUNTED):
        spent = automation.spent_on(now)
        tokens += sum(spent.tokens.values())
        cost += sum(spent.cost_usd.values())
        is_priced = is_priced and spent.is_priced
    return WorkspaceUsage(tokens=tokens, cost_usd=cost if is_priced else None)


async def reason_to_skip(automations: Automations) -> SkipReason | None:
    """Returns why no automation of the workspace may begin a run, or None. Raises: BadDocument,
    SourceError.
    """
    rules = await read_rules(automations.records)
    has_budget = rules.paused is None and rules.budget.is_set
    return rules.skip_reason(await used_today(automations) if has_budget else WorkspaceUsage())


async def check_workspace(automations: Automations) -> None:
    """Raises: AutomationRefused if all automations are paused, AutomationsSpent if the budget of
    the day is used up.
    """
    rules = await read_rules(automations.records)
    if rules.paused is not None:
        raise AutomationRefused("automations_paused", by=rules.paused.by, why=rules.paused.reason)
    if rules.budget.is_set and rules.skip_reason(await used_today(automations)) is not None:
        raise AutomationsSpent("automations_budget_spent")


async def pause_all(automations: Automations, person: Person, reason: str) -> WorkspaceRules:
    """Pauses all automations of a workspace. Raises: AutomationForbidden, SourceError."""
    check_role(person, "reviewer")
    paused = WorkspacePause(
        by=person.user_id, reason=reason[:MAX_REASON_CHARS], time=automations.clock()
    )
    return await _change(automations.records, {"paused": paused})


async def resume_all(automations: Automations, person: Person) -> WorkspaceRules:
    """Ends the pause of all automations. Raises: AutomationForbidden, SourceError."""
    check_role(person, "reviewer")
    return await _change(automations.records, {"paused": None})


async def set_budget(
    automations: Automations, person: Person, budget: WorkspaceBudget
) -> WorkspaceRules:
    """Sets the limits of a day. Raises: AutomationForbidden, SourceError."""
    check_role(person, "admin")
    return await _change(automations.records, {"budget": budget})


async def _change(records: RecordStore, changes: dict[str, Any]) -> WorkspaceRules:
    def changed(earlier: Record | None) -> dict[str, Any]:
        before = parse_document(WorkspaceRules, earlier.data, KIND) if earlier else WorkspaceRules()
        return before.model_copy(update=changes).model_dump(by_alias=True, exclude_none=True)

    await change_record(records, KIND, KEY, changed)
    return await read_rules(records)
