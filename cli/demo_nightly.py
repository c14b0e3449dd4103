"""The nights of the demo: a conversation becomes an automation, which checks, proposes and reports."""

from __future__ import annotations

from datetime import UTC, datetime

from cli import render
from cli.turn_display import show_proposal
from datasources.types import Mutation
from graphrag.app.automation_services import automation_service
from graphrag.app.models import Model, open_model, rules_provider
from graphrag.app.wiring import Services, worker_of
from graphrag.approvals import Approve
from graphrag.automations.automation_view import AutomationView
from graphrag.automations.drafts import draft_of
from graphrag.automations.scheduler import Scheduler
from graphrag.automations.templates import AutomationTemplate, templates
from graphrag.automations.worker import Worker
from graphrag.leases import now_ms
from graphrag.sessions.machine import SessionLimits

NIGHTS = 3


def nightly_check(services: Services) -> AutomationTemplate:
    """Return the prepared automation that the demo shows."""
    return templates(services.settings.language)["nightly-check"]


async def draw_edge_twice(services: Services, graph: str) -> None:
    """Make a mistake by hand that the check finds; its repair takes it away again."""
    first = min(await services.source.get_edges(graph), key=lambda edge: edge.key)
    again = first.replace(key=f"{first.key}-twice")
    await services.source.apply(Mutation(graph_key=graph, put_edges=[again]))


async def show_nights(services: Services, graph: str, thread: str, *, first: int) -> None:
    """Save a conversation as an automation and let nights pass, on a clock that is put forward.

    `first` numbers its first part. The automation goes in the end; its runs and decisions stay. Where a
    workspace has automations already, none is made: theirs would be due as well.
    """
    person, language = services.local_person(), services.settings.language
    nights = _Nights(services)
    service = automation_service(services, clock=lambda: nights.now)
    if await service.list(person):
        render.note("This workspace has automations of its own: no night is put forward here.")
        return
    fields = {**nightly_check(services).fields(graph), "message": "", "fromThreadId": thread}
    made = await service.add(draft_of(fields), person, language)
    render.heading(f"{first}. Save the conversation as an automation, and let {NIGHTS} nights pass")
    try:
        async with open_model(services.settings, rules_provider(), embedder=services.embedder) as model:
            for _ in range(NIGHTS):
                await nights.pass_one(made, model)
                made = await service.get(made.automation.key, person, language)
                _show_night(made, nights.now)
    finally:
        await service.remove(made.automation.key, person)


def _show_night(seen: AutomationView, now: int) -> None:
    automation, session = seen.automation, seen.last.session if seen.last else None
    render.line(f"{datetime.fromtimestamp(now / 1000, UTC):%Y-%m-%d %H:%M} UTC, {automation.name}:", "bold")
    if automation.skipped and automation.skipped[0].time == now:
        render.line(f"skipped ({automation.skipped[0].reason}): no call of the model")
    elif session is not None and session.report is not None:
        render.passage(session.report.text)


class _Nights:
    """The time of the demo, and what happens at two o'clock. Units: `now` in milliseconds since 1970."""

    def __init__(self, services: Services) -> None:
        self._services, self.now = services, now_ms()

    async def pass_one(self, made: AutomationView, model: Model) -> None:
        """Put the clock forward to the next run, approve what it proposes, and let it end."""
        services = self._services
        # Nobody is there to keep a run from ending.
        worker = worker_of(services, model, lambda: self.now, limits=SessionLimits(confirm_ms=0))

        async def workspaces() -> list[str]:
            return [services.settings.workspace]

        async def opened(_: str) -> Worker:
            return worker

        scheduler = Scheduler(workspaces, opened, at_once=1)
        self.now = made.automation.next_time or self.now
        await scheduler.run_due()
        person = services.local_person()
        for approval in await services.approvals.list(status="pending", by=person):
            if approval.automation_id == made.automation.key:
                show_proposal(approval, services.settings.language)
                await services.approvals.decide(approval.id, Approve(), person)
                render.line("approved")
                scheduler.wake(services.settings.workspace)
        await scheduler.run_due()
