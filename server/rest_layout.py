"""REST of a graph's layout: how its nodes would stand in order. Nothing is stored: an editor applies it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Response
from pydantic import Field

from datasources.types import Edge, Node
from graphrag.layout import MAX_EDGES, MAX_NODES, arrange, crossings
from graphrag.workers import free, run_limited
from server.openapi_errors import ERRORS
from server.requests import EXCLUDE_NONE, AnswerBody, Id, NamedGraph, RequestBody
from tools.proposal_parts import Strategy

router = APIRouter(prefix="/api/graphs", tags=["graphs"], responses=ERRORS)


class TidyRequest(RequestBody):
    """Of a sheet, of some nodes of it, or (neither) of all. A note takes along what it holds."""

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


@router.post("/{graph_key}/tidy", response_model=TidyAnswer, **EXCLUDE_NONE)
async def tidy(graph: NamedGraph, body: TidyRequest) -> Response:
    """Return where nodes would stand in order, with the unsaved edits of the graph. Nothing is stored.

    Refused (422) for more than 5,000 nodes or 10,000 edges: name a sheet then.
    Nodes stay in their notes, notes grow or shrink to what they hold, and pinned nodes (`pinned: true`)
    stay where they are with the notes around them.
    """
    place, found = graph
    source = place.services.source
    nodes = await source.get_nodes(found.key, sheet=body.sheet, limit=MAX_NODES + 1)
    edges = await source.get_edges(found.key, sheet=body.sheet, limit=MAX_EDGES + 1)
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
        positions=spots, crossings_before=crossings(known, edges), crossings_after=crossings(after, edges)
    )
    return answer.model_dump_json(by_alias=True, exclude_none=True)
