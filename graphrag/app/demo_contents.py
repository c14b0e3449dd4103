"""What the demo stores beside its graphs, so that no panel of the page is empty: an agent, a
simulated call, an automation with a finished run, a proposal that waits, and a recorded
conversation with a model.

Each is stored once. The database keeps which were, so that a second start adds nothing and what a
person deleted does not come back.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final

from datasources.base import Record, RecordStore
from graphrag.agent.events import ProposalPending, TurnStarted
from graphrag.agent.loop import Agent
from graphrag.agent.thread_store import ThreadError
from graphrag.agents.errors import AgentError
from graphrag.app.automation_services import automation_service
from graphrag.app.model_services import agent_of, worker_of
from graphrag.app.models import Model, open_model, rules_provider
from graphrag.app.recorded_conversation import store_recorded_conversation
from graphrag.app.wiring import Services
from graphrag.approvals import ApprovalError
from graphrag.automations.drafts import AutomationDraft
from graphrag.automations.errors import AutomationError
from graphrag.automations.scheduler import Scheduler
from graphrag.automations.templates import templates
from graphrag.automations.worker import Worker
from graphrag.i18n import text
from graphrag.sessions.machine import SessionLimits
from graphrag.stored_records import change_record
from mock_data import load_json

log = logging.getLogger(__name__)

KIND: Final = "demo_contents"
KEY: Final = "contents"
_AGENT: Final = "agents/helpdesk.json"
_ADDRESS: Final = "https://api.example.com"  # of the agent's API; nothing answers there
_TEMPLATE: Final = "nightly-check"

Made = Mapping[str, Any]  # facts of a part; empty where it has none


async def store_demo_contents(services: Services, graph: str, *, others: tuple[str, ...]) -> None:
    """Stores the parts that were never stored, and a new proposal in place of one that expired.

    `others`: further graphs that the agent reads. No key and no network: rules answer in place of
    a model, and the recording is played over loopback.
    """
    records = services.database.records(services.settings.workspace)
    made = await _made(records)
    parts: dict[str, Callable[[], Awaitable[Made]]] = {
        "recording": partial(_recording, services, graph),
        "agent": partial(_agent, services, (graph, *others)),
    }
    waits = await _waits(services, made.get("proposal"))
    if not waits or not {*parts, "automation"} <= made.keys():
        async with open_model(
            services.settings, rules_provider(), embedder=services.embedder
        ) as model:
            parts["automation"] = partial(_automation, services, model, graph)
            before = made.get("proposal", {})
            parts["proposal"] = partial(
                _proposal, services, agent_of(services, model), graph, before.get("thread")
            )
            for name, store in parts.items():
                if name not in made or (name == "proposal" and not waits):
                    await _note(records, name, await store())


async def is_call_stored(services: Services) -> bool:
    """Returns whether the demo stored a simulated call; a person may have deleted it since."""
    return "call" in await _made(services.database.records(services.settings.workspace))


async def note_call(services: Services, *, call_id: str | None) -> None:
    """Stores that the demo made its simulated call."""
    await _note(services.database.records(services.settings.workspace), "call", {"id": call_id})


async def _made(records: RecordStore) -> dict[str, Made]:
    record = await records.get(KIND, KEY)
    return {} if record is None else dict(record.data)


async def _note(records: RecordStore, name: str, facts: Made) -> None:
    def noted(before: Record | None) -> dict[str, Any]:
        return {**(before.data if before else {}), name: dict(facts)}

    await change_record(records, KIND, KEY, noted)


async def _recording(services: Services, graph: str) -> Made:
    await store_recorded_conversation(services, graph)
    return {}


async def _agent(services: Services, graphs: tuple[str, ...]) -> Made:
    """Stores the sample agent, stopped: to start it would look up the address of its API."""
    document: dict[str, Any] = load_json(_AGENT)
    document["agent"]["language"] = services.settings.language
    document |= {"base_url": _ADDRESS, "graphs": list(graphs)}
    try:
        await services.agents.apply(document, services.local_person(), expected_version=0)
    except AgentError as exc:  # one of this id is there already
        log.info("demo_part_left_out", extra={"part": "agent", "reason": type(exc).__name__})
    return {"id": document["agent"]["id"]}


async def _automation(services: Services, model: Model, graph: str) -> Made:
    """Stores the prepared check as an automation that reports, and lets it run once, to its end."""
    person = services.local_person()
    language = services.settings.language
    service = automation_service(services)
    fields = {**templates(language)[_TEMPLATE].fields(graph), "mode": "report"}
    try:
        added = await service.add(AutomationDraft.read(fields), person, language)
        await service.run(added.id, person)
    except AutomationError as exc:  # all are paused, or one of this name is there already
        log.info("demo_part_left_out", extra={"part": "automation", "reason": type(exc).__name__})
        return {}

    async def workspaces() -> list[str]:
        return [services.settings.workspace]

    async def opened(_: str) -> Worker:
        # A run ends at once: no person is there to continue it.
        return worker_of(services, model, limits=SessionLimits(confirm_ms=0))

    await Scheduler(workspaces, opened, at_once=1).run_due()
    return {"id": added.id}


async def _proposal(services: Services, agent: Agent, graph: str, thread: str | None) -> Made:
    """Has rules propose a node, in a conversation of its own, or again in that one."""
    command = text("demo_command", services.settings.language, type="log-node")
    facts: dict[str, Any] = {}
    try:
        async for event in agent.run(thread, graph, command, services.local_person()):
            if isinstance(event, TurnStarted):
                facts["thread"] = event.thread_id
            elif isinstance(event, ProposalPending):
                facts["id"] = event.approvals[0].id
    except ThreadError as exc:  # a person deleted it
        log.info("demo_part_left_out", extra={"part": "proposal", "reason": type(exc).__name__})
        return {}
    return facts


async def _waits(services: Services, made: Made | None) -> bool:
    """Returns whether the proposal is there, was decided or deleted: all but expired."""
    if made is None:
        return False
    if "id" not in made:
        return True
    try:
        approval = await services.approvals.get(made["id"], services.local_person())
    except ApprovalError:
        return True
    return approval.status != "expired"
