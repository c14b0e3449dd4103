"""Finds the workspace of a person that contains an object. What none of their workspaces contains
is reported as missing.

Graph keys are unique in all workspaces, and ids of threads and approvals cannot be guessed, so a
request need not name a workspace. It may, to look only there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from datasources.errors import GraphNotFound
from datasources.types import Graph
from graphrag.agent.loop import Agent
from graphrag.agent.thread_store import Thread, ThreadNotFound
from graphrag.agent.turn_lease import effective_status
from graphrag.agents.agent_store import StoredAgent
from graphrag.agents.errors import AgentNotFound
from graphrag.app.wiring import Services
from graphrag.approvals import Approval, ApprovalNotFound
from graphrag.approvals.codemods import Codemod
from graphrag.automations.automation_view import AutomationAnswer
from graphrag.automations.errors import AutomationNotFound, SessionNotFound
from graphrag.automations.service import AutomationService
from graphrag.i18n import Language
from graphrag.roles import Channel, Person
from graphrag.voice.call_records import Call
from graphrag.voice.call_service import CallService
from graphrag.voice.errors import CallNotFound
from server.auth import Identity
from server.errors import WorkspaceUnclear
from server.open_workspaces import OpenWorkspaces, Workspace

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceContext:
    """The services and agent of a workspace, and the person who asks there."""

    workspace: Workspace
    person: Person

    @property
    def services(self) -> Services:
        return self.workspace.services

    @property
    def agent(self) -> Agent:
        return self.workspace.agent

    @property
    def calls(self) -> CallService:
        return self.workspace.calls

    @property
    def automations(self) -> AutomationService:
        return self.workspace.automations

    async def effective_status(self, thread: Thread) -> Thread:
        """Returns a stored thread with the actual status of its turn. Raises: SourceError."""
        return await effective_status(self.services.threads, self.agent.leases, thread, self.person)


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphContext(WorkspaceContext):
    """A workspace context with one of its graphs."""

    graph: Graph


class WorkspaceResolver:
    """The workspaces of one caller. `workspace` narrows them to one of theirs, or to none."""

    def __init__(
        self, workspaces: OpenWorkspaces, identity: Identity, workspace: str | None = None
    ) -> None:
        self._workspaces = workspaces
        self._workspace = workspace
        self.identity = identity
        self.names = [name for name in identity.workspaces if workspace in (None, name)]

    def through(self, channel: Channel, name: str = "") -> WorkspaceResolver:
        """Returns a resolver for the caller through a channel and the program that they named, else
        `name`.
        """
        client = self.identity.client
        coming = self.identity.through(channel, client.name or name, client.version)
        return WorkspaceResolver(self._workspaces, coming, self._workspace)

    async def all(self) -> list[WorkspaceContext]:
        return [await self._place(name) for name in self.names]

    async def each(self, read: Callable[[WorkspaceContext], Awaitable[Iterable[T]]]) -> list[T]:
        """Returns the results of `read` in all workspaces, one after the other."""
        return [one for place in await self.all() for one in await read(place)]

    async def first(self) -> WorkspaceContext:
        """Returns the first workspace, for data that is the same in all.

        Raises: WorkspaceUnclear if there is none.
        """
        if not self.names:
            raise WorkspaceUnclear(names=", ".join(self.identity.workspaces[:20]))
        return await self._place(self.names[0])

    async def one(self) -> WorkspaceContext:
        """Returns the only workspace. Raises: WorkspaceUnclear if there are several."""
        if len(self.names) != 1:
            raise WorkspaceUnclear(names=", ".join(self.identity.workspaces[:20]))
        return await self._place(self.names[0])

    async def of_graph(self, graph_key: str) -> GraphContext:
        """Returns a graph with its workspace. Raises: GraphNotFound."""
        missing = GraphNotFound(graph_key=graph_key)
        place, graph = await self.first_of(
            lambda it: it.services.source.get_graph(graph_key), missing
        )
        return GraphContext(workspace=place.workspace, person=place.person, graph=graph)

    async def of_chat(
        self, graph_key: str, thread_id: str | None, agent_id: str | None
    ) -> WorkspaceContext:
        """Returns the workspace of a message: that of its graph, else of its conversation or agent,
        else the one that messages about all graphs belong to.

        Raises: GraphNotFound, ThreadNotFound, AgentNotFound, ThreadVersion, BadDocument,
        WorkspaceUnclear.
        """
        if graph_key:
            return await self.of_graph(graph_key)
        if thread_id is not None:
            return (await self.of_thread(thread_id))[0]
        if agent_id is None:
            return await self.one()
        return (await self.of_agent(agent_id))[0]

    async def of_thread(self, thread_id: str) -> tuple[WorkspaceContext, Thread]:
        """Returns the workspace of a thread of this person.

        Raises: ThreadNotFound, ThreadVersion, BadDocument.
        """

        async def find(place: WorkspaceContext) -> Thread:
            return (await place.services.threads.get(thread_id, place.person)).thread

        return await self.first_of(find, ThreadNotFound(thread_id=thread_id))

    async def with_thread(self, thread_id: str) -> WorkspaceContext:
        """Returns the workspace in which to look for a thread: the only one, else the one that
        contains it.

        Raises: ThreadNotFound, ThreadVersion, BadDocument.
        """
        return await self.one() if len(self.names) == 1 else (await self.of_thread(thread_id))[0]

    async def of_automation(
        self, id: str, language: Language
    ) -> tuple[WorkspaceContext, AutomationAnswer]:
        """Returns the workspace of an automation. Raises: AutomationNotFound, BadDocument."""
        missing = AutomationNotFound(id=id)
        return await self.first_of(
            lambda place: place.automations.get(id, place.person, language), missing
        )

    async def of_agent(self, agent_id: str) -> tuple[WorkspaceContext, StoredAgent]:
        """Returns the workspace of a declarative agent. Raises: AgentNotFound, BadDocument."""
        missing = AgentNotFound(agent_id=agent_id)
        return await self.first_of(
            lambda place: place.services.agents.agents.get(agent_id), missing
        )

    async def of_call(self, call_id: str) -> tuple[WorkspaceContext, Call]:
        """Returns the workspace of a telephone call. Raises: CallNotFound, CallForbidden,
        BadDocument.
        """
        missing = CallNotFound(id=call_id)
        return await self.first_of(lambda place: place.calls.get(call_id, place.person), missing)

    async def of_session(self, session_id: str) -> tuple[WorkspaceContext, Thread]:
        """Returns the workspace of a run or template. Raises: AutomationError, ThreadVersion,
        BadDocument.
        """
        missing = SessionNotFound(id=session_id)
        return await self.first_of(
            lambda place: place.automations.sessions.get(session_id, place.person), missing
        )

    async def of_codemod(self, codemod_id: str) -> tuple[WorkspaceContext, Codemod]:
        """Returns the workspace of a replacement over many graphs. Raises: ApprovalNotFound."""
        missing = ApprovalNotFound(approval_id=codemod_id)
        return await self.first_of(
            lambda place: place.services.codemods.get(codemod_id, place.person), missing
        )

    async def of_approval(self, id: str) -> tuple[WorkspaceContext, Approval]:
        """Returns the workspace of an approval. Raises: ApprovalNotFound."""
        missing = ApprovalNotFound(approval_id=id)
        return await self.first_of(
            lambda place: place.services.approvals.get(id, place.person), missing
        )

    async def first_of(
        self, find: Callable[[WorkspaceContext], Awaitable[T]], missing: Exception
    ) -> tuple[WorkspaceContext, T]:
        """Returns the first workspace in which `find` finds the object. Raises: `missing` if none
        has it.
        """
        for place in await self.all():
            with suppress(type(missing)):
                return place, await find(place)
        raise missing

    async def _place(self, name: str) -> WorkspaceContext:
        workspace = await self._workspaces.get(name)
        person = self.identity.person(name)
        if not workspace.worker.runner.members.is_noted(person):
            await workspace.worker.runner.members.note(person)
        return WorkspaceContext(workspace=workspace, person=person)
