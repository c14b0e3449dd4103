"""Constructs the automation service of a workspace."""

from __future__ import annotations

from collections.abc import Callable

from graphrag.agent.turn_lease import TurnLeases
from graphrag.app.wiring import Services
from graphrag.automations.automation_store import Automations
from graphrag.automations.service import AutomationService
from graphrag.automations.session_control import SessionControl
from graphrag.commands import BlockChecker
from graphrag.leases import now_ms
from graphrag.llm.registry import Pricing, choose


def automation_service(
    services: Services,
    *,
    on_changed: Callable[[], None] = lambda: None,
    pricing: Callable[[str | None, str | None], Pricing] | None = None,
    clock: Callable[[], int] = now_ms,
) -> AutomationService:
    """Returns the automations of a workspace. Calls `on_changed` when a scheduler must read them
    again.
    """
    records = services.database.records(services.settings.workspace)
    store = Automations(records, workspace=services.settings.workspace, clock=clock)
    control = SessionControl(
        store,
        TurnLeases(records, clock=clock),
        chats=services.threads,
        approvals=services.approvals,
        on_changed=on_changed,
    )
    return AutomationService(
        store=store,
        source=services.source,
        chats=services.threads,
        approvals=services.approvals,
        settings=services.settings,
        pricing=pricing
        or (lambda provider, model: choose(services.settings, provider, model).pricing),
        blocks=BlockChecker(source=services.source, history=services.history, clock=clock),
        sessions=control,
        on_changed=on_changed,
    )
