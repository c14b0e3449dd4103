"""The tour of the `demo` command: prints what the service can do, and leaves the graph unchanged.

Rules answer, not a model, so that the output is the same on every machine.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import suppress
from datetime import UTC, datetime
from itertools import count
from socket import socket
from typing import Any

from cli import render
from cli.call_display import show_call
from cli.common import exit_codes
from cli.diff import print_preview
from cli.serve import served_here
from cli.turn_display import TurnView, show_proposal
from datasources.types import Mutation
from graphrag.agent.events import Event, ProposalPending, TurnStarted
from graphrag.agent.loop import Agent
from graphrag.agents.errors import AgentNotFound, AgentStateRefused
from graphrag.app.automation_services import automation_service
from graphrag.app.model_services import open_agent, worker_of
from graphrag.app.models import open_model, rules_provider
from graphrag.app.simulated_calls import LocalAnswers, ScriptedCall, call_here
from graphrag.app.wiring import Services
from graphrag.approvals import Approve, outcome_text
from graphrag.automations.automation_view import AutomationAnswer
from graphrag.automations.drafts import AutomationDraft
from graphrag.automations.scheduler import Scheduler
from graphrag.automations.service import AutomationService
from graphrag.automations.templates import templates
from graphrag.automations.worker import Worker
from graphrag.config import Settings
from graphrag.i18n import Language, text
from graphrag.leases import now_ms
from graphrag.samples.demo_api import demo_api_on
from graphrag.sessions.machine import SessionLimits
from graphrag.simulator.call_script import CallScript
from graphrag.simulator.fast_loop import run_fast
from graphrag.simulator.simulated_call import SimulatedCall
from mock_data import load_json

HELPDESK = "agents/helpdesk.json"
NIGHTS = 3
DELIVERY_WAIT_S = 5.0
SPEED = 20.0  # of the call
BARGE_IN_S = 4.0  # after the beginning of the answer


class Tour:
    """Prints the tour. `first` numbers its first part; the API of the sample agent is served on
    `listening`.
    """

    def __init__(self, services: Services, graph: str, *, first: int, listening: socket) -> None:
        self._services = services
        self._graph = graph
        self._listening = listening
        self._person = services.local_person()
        self._language: Language = services.settings.language
        self._numbers = count(first)

    async def show(self) -> int:
        """Prints all parts and returns the number of the next one."""
        async with open_agent(self._services, rules_provider()) as chats:
            await self._talk(chats)
            await self._check(chats)
            await self._helpdesk(chats)
        return next(self._numbers)

    def _part(self, title: str) -> None:
        render.heading(f"{next(self._numbers)}. {title}")

    async def _talk(self, chats: Agent) -> None:
        """Asks a question and for a change, approves the change and undoes it."""
        talk = _TourConversation(self._services, chats, self._graph)
        language = self._language
        self._part("Talk about it (no model is configured here: rules answer)")
        await talk.say(text("demo_question", language))
        self._part("Ask for a change: it is only proposed")
        pending = await talk.say(text("demo_command", language, type="log-node"))
        if isinstance(pending, ProposalPending):
            proposed = pending.approvals[0]
            show_proposal(proposed, language)
            self._part("Approve it: it is applied, once, and the answer continues")
            await talk.approve(proposed.id)
            await talk.say(text("demo_again", language))
            self._part("Undo it: this is recorded too, and can be undone")
            undone = await self._services.approvals.undo(self._graph, proposed.id, by=self._person)
            render.line(outcome_text(undone, language, to_person=True))
            print_preview(undone.preview)
            await talk.say(text("demo_again", language))
        await talk.delete()

    async def _check(self, chats: Agent) -> None:
        """Makes a mistake that the prepared check finds, and saves the conversation as an
        automation.
        """
        services = self._services
        self._part("An edge is drawn twice by mistake; ask for what is wrong")
        first = min(await services.source.get_edges(self._graph), key=lambda edge: edge.key)
        again = first.replace(key=f"{first.key}-twice")
        await services.source.apply(Mutation(graph_key=self._graph, put_edges=[again]))
        talk = _TourConversation(services, chats, self._graph)
        nightly = templates(self._language)["nightly-check"]
        await talk.say(nightly.message)
        nights = _Nights(services)
        service = automation_service(services, clock=lambda: nights.now)
        if await service.list(self._person):  # these would be due as well
            render.note(
                "This workspace has automations of its own: the clock is not moved forward."
            )
        elif talk.thread is not None:
            self._part(f"Save the conversation as an automation, and let {NIGHTS} nights pass")
            fields = {**nightly.fields(self._graph), "message": "", "fromThreadId": talk.thread}
            await nights.show(
                await service.add(AutomationDraft.read(fields), self._person, self._language),
                service,
            )
        await talk.delete()

    async def _helpdesk(self, chats: Agent) -> None:
        """Stores and starts the sample agent, talks with it and deletes it."""
        services = self._services
        person = self._person
        self._part("Chat with an agent of a document, which tells its API how it ended")
        document: dict[str, Any] = load_json(HELPDESK)
        document["agent"]["id"] = agent_id = "demo-helpdesk"
        document["base_url"] = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        async with demo_api_on(self._listening) as api:
            await _forget(services, agent_id)
            await services.agents.apply(document, person)
            await services.agents.start(agent_id)
            try:
                render.line(document["chat"]["opening"])
                talk = _TourConversation(services, chats, self._graph, agent_id)
                await talk.say(text("demo_question", self._language))
                render.line("> /end", "bold")
                thread = str(talk.thread)
                await services.life.endings.end_by_person(thread, person)
                await services.life.deliveries.wait_until_sent([thread], timeout_s=DELIVERY_WAIT_S)
                for request in api.requests:
                    body = json.dumps(request["body"], ensure_ascii=False)
                    render.passage(f"its API got {request['method']} {request['path']} {body}")
                await talk.delete()
            finally:
                await _forget(services, agent_id)


class _TourConversation:
    """A conversation of the tour, printed while it runs."""

    def __init__(
        self, services: Services, chats: Agent, graph: str, agent_id: str | None = None
    ) -> None:
        self._services = services
        self._chats = chats
        self._graph = graph
        self._agent_id = agent_id
        self._person = services.local_person()
        self._view = TurnView(services.settings.language)
        self.thread: str | None = None

    async def say(self, message: str) -> object:
        """Sends a message, prints the answer and returns the end of the turn."""
        render.line(f"> {message}", "bold")
        return await self._shown(
            self._chats.run(
                self.thread, self._graph, message, self._person, agent_id=self._agent_id
            )
        )

    async def approve(self, approval_id: str) -> None:
        thread = str(self.thread)
        decision = Approve()
        await self._shown(
            self._chats.resume(thread, self._person, decision=decision, approval_id=approval_id)
        )

    async def _shown(self, events: AsyncGenerator[Event]) -> object:
        ending = await self._view.show(events)
        started = [event for event in self._view.events if isinstance(event, TurnStarted)]
        self.thread = started[-1].thread_id if started else self.thread
        return ending

    async def delete(self) -> None:
        """Deletes the conversation. Its decisions stay in the audit log."""
        if self.thread is not None:
            await self._services.threads.delete(self.thread, self._person)


class _Nights:
    """Nights of an automation, on a clock that is moved forward. Units: `now` in milliseconds since
    1970.
    """

    def __init__(self, services: Services) -> None:
        self._services = services
        self._person = services.local_person()
        self.now = now_ms()

    async def show(self, automation: AutomationAnswer, service: AutomationService) -> None:
        """Runs the automation on each night and removes it. Its runs and decisions stay."""
        services = self._services
        key = automation.id
        try:
            async with open_model(
                services.settings, rules_provider(), embedder=services.embedder
            ) as model:
                for _ in range(NIGHTS):
                    self.now = automation.next_time or self.now
                    # A run ends at once: no person is there to continue it.
                    limits = SessionLimits(confirm_ms=0)
                    await self._pass(
                        key, worker_of(services, model, lambda: self.now, limits=limits)
                    )
                    automation = await service.get(key, self._person, services.settings.language)
                    self._show(automation)
        finally:
            await service.remove(key, self._person)

    async def _pass(self, automation_key: str, worker: Worker) -> None:
        """Starts due runs, approves their proposals, and waits for their end."""
        services = self._services
        place = self._services.settings.workspace

        async def workspaces() -> list[str]:
            return [place]

        async def opened(_: str) -> Worker:
            return worker

        scheduler = Scheduler(workspaces, opened, at_once=1)
        await scheduler.run_due()
        for approval in await services.approvals.list(status="pending", by=self._person):
            if approval.automation_id == automation_key:
                show_proposal(approval, services.settings.language)
                await services.approvals.decide(approval.id, Approve(), self._person)
                render.line("approved")
                scheduler.wake(place)
        await scheduler.run_due()

    def _show(self, seen: AutomationAnswer) -> None:
        report = seen.last.report if seen.last else None
        at = datetime.fromtimestamp(self.now / 1000, UTC)
        render.line(f"{at:%Y-%m-%d %H:%M} UTC, {seen.name}:", "bold")
        if seen.skipped and seen.skipped[0].time == self.now:
            render.line(f"skipped ({seen.skipped[0].reason}): no call of the model")
        elif report is not None:
            render.passage(report["text"])


async def _forget(services: Services, agent_id: str) -> None:
    with suppress(AgentNotFound, AgentStateRefused):
        await services.agents.stop(agent_id)
        await services.agents.delete(agent_id)


def call_the_helpdesk(settings: Settings, graph: str) -> SimulatedCall | None:
    """Calls the sample agent, asks, interrupts its answer and hangs up. The agent is temporary.

    Returns None, with a note, where no socket can be used.
    """
    document: dict[str, Any] = {**load_json(HELPDESK), "graphs": [graph]}
    language = document["agent"]["language"] = settings.language
    interruption = {
        "say": text("demo_call_thanks", language),
        "interrupt_after_s": BARGE_IN_S,
        "replies": [{"says": text("demo_call_goodbye", language)}],
    }
    question = {"say": text("demo_question", language)}
    answer = {"wait": "answer"}
    script = CallScript.model_validate(
        {
            "name": "demo",
            "language": language,
            "api": "demo",
            "greeting": text("demo_call_greeting", language),
            "steps": [answer, question, interruption, answer, {"hangup": True}],
        }
    )
    call = ScriptedCall(agent_id="helpdesk", script=script)
    calling = call_here(settings, call, LocalAnswers(document=document), served_here)
    try:
        with exit_codes(language):
            return run_fast(calling, speed=SPEED)
    except OSError as exc:
        render.note(f"left out: no socket of this machine can be used ({exc})")
        return None


def show_the_helpdesk_call(settings: Settings, graph: str) -> None:
    """Calls the sample agent and prints the call."""
    simulated = call_the_helpdesk(settings, graph)
    if simulated is None:
        return
    show_call(simulated.document)
    render.note(f"{simulated.seconds:.0f} seconds on the line; simulated faster than real time.")
