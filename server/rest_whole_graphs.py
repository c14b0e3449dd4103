"""REST of graphs as wholes: new, renamed, copied, deleted and restored; and small
pictures of them.
"""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import AfterValidator, Field, StringConstraints

from datasources.errors import GraphNotFound
from datasources.types import Edge, Family, Graph, Node
from graphrag.app import deleted_graphs as deleted
from graphrag.app import whole_graphs as whole
from graphrag.layout import MAX_EDGES, MAX_NODES, arrange, crossings
from graphrag.workers import free, run_limited
from languages import GraphLanguage
from server.bodies import AnswerBody, Id, RequestBody
from server.error_schemas import ERRORS
from server.requests import EDITORS, EXCLUDE_NONE, NamedGraph, Workspaces
from server.workspaces import WorkspaceContext
from tools.proposal_parts import Strategy

router = APIRouter(prefix="/api", tags=["graphs"], responses=ERRORS)
DRAWN = 120
PICTURES = 60


def _named(name: str) -> str:
    if not name.strip():
        raise ValueError("a name has at least one character")
    return name.strip()


Name = Annotated[
    str,
    StringConstraints(min_length=1, max_length=whole.MAX_NAME, pattern=r"^[^\x00-\x1f\x7f]+$"),
    AfterValidator(_named),
]


class NewGraph(RequestBody):
    """`type`: whose node types it is to be built of. `language`: of its texts, where
    it is not English.
    """

    name: Name
    type: Family = "nodius"
    language: GraphLanguage | None = None


class GraphName(RequestBody):
    name: Name


class GraphMade(AnswerBody):
    graph_key: str
    name: str
    workspace: str


def _made(place: WorkspaceContext, graph: Graph) -> GraphMade:
    """Answers with a graph that was stored; its nodes are embedded in the background."""
    place.services.embedding_queue.add(graph.key, None)
    return GraphMade(graph_key=graph.key, name=graph.name, workspace=graph.workspace)


@router.post("/graphs", **EDITORS)
async def create(workspaces: Workspaces, body: NewGraph) -> GraphMade:
    """Makes an empty graph. For editors."""
    place = await workspaces.one()
    made = await whole.new_graph(
        place.services.approvals, body.name, place.person, family=body.type, language=body.language
    )
    return _made(place, made)


@router.patch("/graphs/{graph_key}", **EDITORS)
async def rename(place: NamedGraph, body: GraphName) -> GraphMade:
    """Rename a graph. For editors."""
    new = await whole.rename_graph(
        place.services.approvals, place.graph.key, body.name, place.person
    )
    return GraphMade(graph_key=new.key, name=new.name, workspace=new.workspace)


@router.post("/graphs/{graph_key}/duplicate", **EDITORS)
async def duplicate(place: NamedGraph, body: GraphName) -> GraphMade:
    """Copies a graph as it is now, with edits that are not saved yet, under a new
    key. For editors.
    """
    made = await whole.copy_graph(
        place.services.approvals, place.graph.key, body.name, place.person
    )
    return _made(place, made)


class DeletedGraphs(AnswerBody):
    graphs: list[deleted.DeletedGraph]


@router.delete("/graphs/{graph_key}", **EDITORS)
async def delete(place: NamedGraph) -> deleted.DeletedGraph:
    """Deletes a graph; for 30 days it can be restored. For editors.

    Its editors are sent away, proposals about it are closed, and its automations pause.
    """
    return await deleted.delete_graph(place.services.approvals, place.graph.key, place.person)


@router.get("/deleted-graphs")
async def list_deleted(workspaces: Workspaces) -> DeletedGraphs:
    """Lists the deleted graphs that can be restored, the latest first."""
    deleted_graphs = await workspaces.each(
        lambda place: deleted.deleted_graphs(place.services.approvals)
    )
    return DeletedGraphs(graphs=sorted(deleted_graphs, key=lambda one: -one.deleted_time))


@router.post("/graphs/{graph_key}/restore", **EDITORS)
async def restore(workspaces: Workspaces, graph_key: Id) -> GraphMade:
    """Restores the graph that was deleted last under this key, under a new key where it is
    taken. For editors.

    Its automations stay paused.
    """
    for place in await workspaces.all():
        approvals = place.services.approvals
        if await deleted.deleted_graphs(approvals, graph_key):
            return _made(place, await deleted.restore_graph(approvals, graph_key, place.person))
    raise GraphNotFound(graph_key=graph_key)


class Thumbnail(AnswerBody):
    """`boxes`: x, y, width and height of some nodes of the first sheet."""

    graph_key: str
    boxes: list[tuple[float, float, float, float]] = Field(max_length=DRAWN)


class Thumbnails(AnswerBody):
    thumbnails: list[Thumbnail]


@router.get("/thumbnails")
async def thumbnails(
    workspaces: Workspaces,
    limit: Annotated[
        int, Query(ge=1, le=PICTURES, description="Of the graphs changed last.")
    ] = PICTURES,
) -> Thumbnails:
    """Returns where nodes stand in the graphs that were changed last, to draw them small."""
    graphs = [
        (place, graph)
        for place in await workspaces.all()
        for graph in await place.services.source.list_graphs()
    ]
    graphs.sort(key=lambda listed: -listed[1].last_updated_time)
    drawn = await asyncio.gather(*(_thumbnail(*listed) for listed in graphs[:limit]))
    return Thumbnails(thumbnails=[one for one in drawn if one is not None])


async def _thumbnail(place: WorkspaceContext, graph: Graph) -> Thumbnail | None:
    sheet = next(iter(graph.sheets_list), "0")
    try:
        nodes = await place.services.source.get_nodes(graph.key, sheet=sheet, limit=DRAWN)
    except GraphNotFound:  # deleted meanwhile
        return None
    boxes = [
        (float(n.pos_x), float(n.pos_y), float(n.size.width), float(n.size.height)) for n in nodes
    ]
    return Thumbnail(graph_key=graph.key, boxes=boxes)


class TidyRequest(RequestBody):
    """Arranges a sheet, some of its nodes, or (with neither) all. A note moves with the nodes in
    it.
    """

    sheet: Id | None = None
    nodes: Annotated[list[Id] | None, Field(min_length=1, max_length=MAX_NODES)] = None
    strategy: Strategy = "left_to_right"


class Spot(AnswerBody):
    """A place on the canvas; the size where it becomes another one. Units: the editor's pixels."""

    x: float
    y: float
    width: float | None = None
    height: float | None = None


class TidyAnswer(AnswerBody):
    """`positions`: of each node that would move or get another size."""

    positions: dict[str, Spot]
    crossings_before: int
    crossings_after: int


@router.post("/graphs/{graph_key}/tidy", response_model=TidyAnswer, **EXCLUDE_NONE)
async def tidy(place: NamedGraph, body: TidyRequest) -> Response:
    """Returns where nodes would stand in order, with the unsaved edits of the graph.
    Nothing is stored.

    Refused (422) for more than 5,000 nodes or 10,000 edges: name a sheet then. Nodes stay in their
    notes, notes grow or shrink to what they hold, and pinned nodes (`pinned: true`) stay where they
    are with the notes around them.
    """
    source = place.services.source
    nodes = await source.get_nodes(place.graph.key, sheet=body.sheet, limit=MAX_NODES + 1)
    edges = await source.get_edges(place.graph.key, sheet=body.sheet, limit=MAX_EDGES + 1)
    try:
        written = await run_limited(_tidied, nodes, edges, body)
    finally:
        free([*nodes, *edges])
    return Response(written, media_type="application/json")


def _tidied(nodes: list[Node], edges: list[Edge], body: TidyRequest) -> str:
    named = set(body.nodes) if body.nodes is not None else None
    known = {node.key: node for node in nodes}
    places = arrange(
        known,
        edges,
        keys=None if named is None else [key for key in known if key in named],
        strategy=body.strategy,
    )
    after = dict(known)
    spots: dict[str, Spot] = {}
    for key, box in places.items():
        old = known[key]
        size = {"width": box.width, "height": box.height}
        is_resized = (box.width, box.height) != (old.size.width, old.size.height)
        if is_resized or (box.x, box.y) != (old.pos_x, old.pos_y):
            spots[key] = Spot(x=box.x, y=box.y, **(size if is_resized else {}))
            after[key] = old.replace(pos_x=box.x, pos_y=box.y, size=size)
    answer = TidyAnswer(
        positions=spots,
        crossings_before=crossings(known, edges),
        crossings_after=crossings(after, edges),
    )
    return answer.model_dump_json(by_alias=True, exclude_none=True)
