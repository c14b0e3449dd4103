"""The service of automations on the sample graph, people of all roles, a clock that is
set by hand.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

from graphrag.app.automation_services import automation_service
from graphrag.app.wiring import Services
from graphrag.automations.automation_view import AutomationAnswer
from graphrag.automations.drafts import AutomationDraft
from graphrag.automations.service import AutomationService
from graphrag.llm.registry import Pricing
from graphrag.roles import Person
from tools.base import Role

GRAPH = "testgraph001"
NOW = 1_763_632_800_000  # Thu 20 Nov 2025 10:00 UTC
DAY = 86_400_000
VIEWER, EDITOR, OTHER, REVIEWER, ADMIN = (
    Person(name, cast(Role, role), "default")
    for name, role in (
        ("val", "viewer"),
        ("ed", "editor"),
        ("olga", "editor"),
        ("rose", "reviewer"),
        ("ann", "admin"),
    )
)
STRANGER = Person("ed", "admin", "elsewhere")


@dataclass
class Setting:
    """A service over the NBA graph in memory, and its clock."""

    services: Services
    now: int = NOW
    woken: int = 0
    pricing: Pricing = field(default_factory=lambda: Pricing(model="priceless"))

    @property
    def service(self) -> AutomationService:
        return automation_service(
            self.services,
            on_changed=self.wake,
            pricing=lambda *_: self.pricing,
            clock=lambda: self.now,
        )

    def wake(self) -> None:
        self.woken += 1

    async def add(self, person: Person = EDITOR, **fields: Any) -> AutomationAnswer:
        return await self.service.add(AutomationDraft.read(draft(**fields)), person)


def draft(**fields: Any) -> dict[str, Any]:
    usual = {
        "graphKey": GRAPH,
        "name": "Nightly check",
        "message": "Look for errors.",
        "cron": "0 2 * * *",
    }
    return {**usual, **fields}
