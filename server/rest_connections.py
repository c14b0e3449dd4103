"""REST of connections: the workflows of running n8n and Node-RED servers, and where each graph
stands.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import Field, StringConstraints

from graphrag.connections import (
    LinkedGraph,
    NewConnection,
    ServerConnection,
    Standing,
)
from graphrag.connections.errors import ConnectionNotFound, EditorFault
from graphrag.connections.stored_connection import DEFAULT_INTERVAL_S, EditorKind, PushMode
from graphrag.i18n import Language
from server.bodies import AnswerBody, Id, RequestBody, Success
from server.error_schemas import ERRORS, MODEL_ERRORS
from server.requests import ADMINS, EDITORS, EXCLUDE_NONE, InLanguage, NamedGraph, Workspaces
from server.workspaces import WorkspaceContext, WorkspaceResolver

router = APIRouter(prefix="/api", tags=["connections"], responses=ERRORS)
_REMOTE: dict[str, Any] = {"responses": {502: MODEL_ERRORS[502]}}


class NewConnectionRequest(RequestBody):
    """A server to connect with. `key`: an API key of n8n; for Node-RED a token or `NAME:PASSWORD`,
    none for an open server.

    `workflows`: patterns of names as `Order*`, none for all. `allowPrivate`: that the address may
    be one of a private network. `intervalS`: seconds between two looks at the server, 0 for none.
    `push`: whether changes may be written to the server, and who decides it.
    """

    name: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    kind: EditorKind
    address: Annotated[str, StringConstraints(min_length=1, max_length=2_000)]
    key: Annotated[str, StringConstraints(max_length=4_000)] | None = None
    workflows: Annotated[
        list[Annotated[str, StringConstraints(min_length=1, max_length=200)]],
        Field(default_factory=list[str], max_length=1_000),
    ]
    allow_private: bool = False
    interval_s: int = DEFAULT_INTERVAL_S
    push: PushMode = "never"


class SyncState(AnswerBody):
    """A synchronisation that runs; `total` is 0 until the list of workflows was read."""

    done: int
    total: int


class ConnectionAnswer(AnswerBody):
    """A connection. Units: `intervalS` in seconds, times in milliseconds since 1970.

    `states` counts the workflows by where they stand, `lastChanges` those of the last
    synchronisation by this server by what was done with them. `sync` is there while one runs.
    """

    name: str
    kind: EditorKind
    address: str
    version: str | None = None
    rights: list[str]
    missing_rights: list[str]
    patterns: list[str]
    interval_s: int
    push: PushMode
    is_key_refused: bool
    last_synced_time: int | None = None
    last_error: str | None = None
    unreachable_since: int | None = None
    states: dict[Standing, int]
    last_changes: dict[str, int]
    sync: SyncState | None = None


class ConnectionList(AnswerBody):
    connections: list[ConnectionAnswer]


class ConnectedWorkflow(AnswerBody):
    """A workflow of a server and its graph. `page`: where people open it in its own editor.

    `hasUnpublished`: what runs there is an older version. `approval`: the proposal that a conflict
    became. `reason`: why it could not be read.
    """

    id: str
    name: str
    graph: str | None = None
    state: Standing
    page: str
    labels: list[str]
    has_unpublished: bool
    approval: str | None = None
    reason: str | None = None
    last_synced_time: int


class ConnectionDetail(ConnectionAnswer):
    workflows: list[ConnectedWorkflow]


class GraphConnection(ConnectedWorkflow):
    """The same with the name and kind of the connection, whether changes may be written there, and
    since when its server is away.
    """

    connection: str
    kind: EditorKind
    push: PushMode
    unreachable_since: int | None = None


class GraphConnections(AnswerBody):
    workflows: list[GraphConnection]


class WorkflowComparison(ConnectedWorkflow):
    """Where a workflow stands now, and what changed since the last synchronisation: `here` in the
    graph, `there` on the server, in the form of a proposal's preview.

    Both are left out where nothing can be compared.
    """

    here: dict[str, Any] | None = None
    there: dict[str, Any] | None = None


@router.get("/connections", **EXCLUDE_NONE)
async def list_connections(workspaces: Workspaces, language: InLanguage) -> ConnectionList:
    """List the connections with workflow servers by name, and count where their graphs stand."""

    async def read(place: WorkspaceContext) -> list[ConnectionAnswer]:
        connections = place.workspace.connections
        return [
            _answer(each, await connections.graphs(each, place.person), place, language)
            for each in await connections.list()
        ]

    return ConnectionList(connections=await workspaces.each(read))


@router.post("/connections", status_code=201, **_REMOTE, **EXCLUDE_NONE, **ADMINS)
async def add(
    workspaces: Workspaces, language: InLanguage, body: NewConnectionRequest
) -> ConnectionDetail:
    """Connect with a server, or give a connection of this name and address another key, and begin
    to read its workflows. For admins.

    The key is stored encrypted and never answered.
    """
    place = await workspaces.one()
    new = NewConnection(
        name=body.name,
        kind=body.kind,
        address=body.address,
        key=body.key or None,
        workflows=tuple(body.workflows),
        allow_private=body.allow_private,
        interval_s=body.interval_s,
        push=body.push,
    )
    connection = await place.workspace.connections.add(new, place.person)
    await place.workspace.syncs.start(connection.key, place.person)
    return await _detail(place, connection, language)


@router.get("/connections/{connection_name}", **EXCLUDE_NONE)
async def get(
    workspaces: Workspaces, language: InLanguage, connection_name: Id
) -> ConnectionDetail:
    """Return a connection, where each of its graphs stands, and how far a synchronisation is."""
    place, connection = await _of_name(workspaces, connection_name)
    return await _detail(place, connection, language)


@router.delete("/connections/{connection_name}", **ADMINS)
async def remove(workspaces: Workspaces, connection_name: Id) -> Success:
    """Remove a connection; its graphs stay. For admins."""
    place, connection = await _of_name(workspaces, connection_name)
    await place.workspace.connections.remove(connection.key, place.person)
    return Success()


@router.post("/connections/{connection_name}/sync", status_code=202, **EXCLUDE_NONE, **EDITORS)
async def sync(
    workspaces: Workspaces, language: InLanguage, connection_name: Id
) -> ConnectionDetail:
    """Begin to read what changed on the server; `sync` of the connection tells how far it is, and
    `lastError` why it failed. For editors.
    """
    place, connection = await _of_name(workspaces, connection_name)
    await place.workspace.syncs.start(connection.key, place.person)
    return await _detail(place, connection, language)


@router.get("/connections/{connection_name}/difference", **_REMOTE, **EXCLUDE_NONE, **EDITORS)
async def difference(
    workspaces: Workspaces,
    connection_name: Id,
    workflow: Annotated[str, Query(min_length=1, max_length=200, description="Its id there.")],
) -> WorkflowComparison:
    """Read a workflow from its server and compare it and its graph with the last synchronisation.
    Nothing is stored. For editors.
    """
    place, connection = await _of_name(workspaces, connection_name)
    found = await place.workspace.connections.compare(connection.key, workflow, place.person)
    differences = found.differences
    return WorkflowComparison(
        **dict(_workflow(found.graph)),
        here=dict(differences.here) if differences else None,
        there=dict(differences.there) if differences else None,
    )


@router.get("/graphs/{graph_key}/connections", **EXCLUDE_NONE)
async def of_graph(place: NamedGraph) -> GraphConnections:
    """Return the workflows that a graph is connected with, and where it stands; most have none."""
    linked = await place.workspace.connections.of_graph(place.graph.key, place.person)
    return GraphConnections(
        workflows=[
            GraphConnection(
                **dict(_workflow(graph)),
                connection=connection.key,
                kind=connection.kind,
                push=connection.push,
                unreachable_since=connection.unreachable_since_time,
            )
            for connection, graph in linked
        ]
    )


async def _of_name(
    workspaces: WorkspaceResolver, name: str
) -> tuple[WorkspaceContext, ServerConnection]:
    """Returns where a connection is. Raises: ConnectionNotFound."""
    return await workspaces.first_of(
        lambda place: place.workspace.connections.get(name), ConnectionNotFound(name=name)
    )


async def _detail(
    place: WorkspaceContext, connection: ServerConnection, language: Language
) -> ConnectionDetail:
    graphs = await place.workspace.connections.graphs(connection, place.person)
    answer = _answer(connection, graphs, place, language)
    return ConnectionDetail(**dict(answer), workflows=[_workflow(graph) for graph in graphs])


def _answer(
    connection: ServerConnection,
    graphs: Sequence[LinkedGraph],
    place: WorkspaceContext,
    language: Language,
) -> ConnectionAnswer:
    syncs = place.workspace.syncs
    progress = syncs.progress(connection.key)
    return ConnectionAnswer(
        name=connection.key,
        kind=connection.kind,
        address=connection.address,
        version=connection.server_version or None,
        rights=list(connection.rights),
        missing_rights=list(connection.missing_rights),
        patterns=list(connection.workflows),
        interval_s=connection.interval_s,
        push=connection.push,
        is_key_refused=connection.is_key_refused,
        last_synced_time=connection.last_synced_time,
        last_error=_error_of(connection, language),
        unreachable_since=connection.unreachable_since_time,
        states=Counter(graph.standing for graph in graphs),
        last_changes=syncs.last_counts(connection.key),
        sync=SyncState(done=progress.done, total=progress.total) if progress else None,
    )


def _error_of(connection: ServerConnection, language: Language) -> str | None:
    fault = connection.last_fault
    return EditorFault(fault.code, **fault.facts).text(language) if fault else None


def _workflow(graph: LinkedGraph) -> ConnectedWorkflow:
    link = graph.link
    return ConnectedWorkflow(
        id=link.workflow_id,
        name=link.name,
        graph=link.graph_key or None,
        state=graph.standing,
        page=graph.page,
        labels=list(link.labels),
        has_unpublished=link.has_unpublished,
        approval=link.approval,
        reason=link.reason,
        last_synced_time=link.last_synced_time,
    )
