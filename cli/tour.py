"""The tour that `demo` ends with: a question, a proposed change, its approval, and its undo, for real.

The answerer without a model speaks, so that the tour is the same on every machine.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass

from cli import render
from cli.diff import print_preview
from cli.turn_display import TurnView, show_proposal
from graphrag.agent.events import Event, ProposalPending, TurnStarted
from graphrag.agent.loop import Agent
from graphrag.app.wiring import Services, open_agent, rules_provider
from graphrag.approvals import Approve, outcome_text
from graphrag.i18n import Language
from graphrag.roles import Person


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """What the person of the tour types."""

    question: str
    command: str
    again: str


SCRIPTS: dict[Language, Script] = {
    "en": Script(
        question="What happens after fetch-api?",
        command="add a log-node named Active players after filter-active",
        again="What comes after filter-active?",
    ),
    "fr": Script(
        question="Que se passe-t-il après fetch-api ?",
        command="ajoute un log-node nommé Joueurs actifs après filter-active",
        again="Qu’est-ce qui vient après filter-active ?",
    ),
}


async def tour(services: Services, graph: str, *, first: int) -> None:
    """Walk through a conversation and leave the graph as it was. `first` is the number of its first part."""
    language = services.settings.language
    script, person = SCRIPTS[language], services.local_person()
    async with open_agent(services, rules_provider()) as agent:
        guide = _Guide(agent, person, graph, TurnView(language))
        render.heading(f"{first}. Talk about it (no model is configured here: rules answer)")
        await guide.says(script.question)
        render.heading(f"{first + 1}. Ask for a change: it is only proposed")
        pending = await guide.says(script.command)
        if isinstance(pending, ProposalPending):
            show_proposal(pending.approvals[0], language)
            render.heading(f"{first + 2}. Approve it: it is applied, once, and the answer goes on")
            await guide.approves(pending)
            await guide.says(script.again)
            render.heading(f"{first + 3}. Undo it: also that is recorded, and can be undone")
            undone = await services.approvals.undo(graph, pending.approvals[0].id, by=person)
            render.line(outcome_text(undone, language, to_person=True))
            print_preview(undone.preview)
            await guide.says(script.again)
        await guide.leaves(services)


class _Guide:
    """Plays the person in one conversation."""

    def __init__(self, agent: Agent, person: Person, graph: str, view: TurnView) -> None:
        self._agent, self._person, self._graph, self._view = agent, person, graph, view
        self._thread: str | None = None

    async def says(self, message: str) -> object:
        """Say something, show the answer and return how the turn ended."""
        render.line(f"> {message}", "bold")
        return await self._shown(self._agent.run(self._thread, self._graph, message, self._person))

    async def approves(self, pending: ProposalPending) -> object:
        chosen = pending.approvals[0].id
        return await self._shown(
            self._agent.resume(pending.thread_id, self._person, decision=Approve(), approval_id=chosen)
        )

    async def _shown(self, events: AsyncGenerator[Event]) -> object:
        ending = await self._view.show(events)
        started = [event for event in self._view.events if isinstance(event, TurnStarted)]
        self._thread = started[-1].thread_id if started else self._thread
        return ending

    async def leaves(self, services: Services) -> None:
        """Delete the conversation; what was decided in it stays in the audit log."""
        if self._thread is not None:
            await services.threads.delete(self._thread, self._person)
