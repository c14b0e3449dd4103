"""REST of copying between tools: nodes as text for another tool, pasted text as nodes."""

from __future__ import annotations

from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Response
from pydantic import Field

from datasources.types import Node
from graphrag.importers.clipboard import MAX_PASTED, pasted, with_free_names
from graphrag.importers.exchange import export_file
from graphrag.importers.json_values import pieces
from graphrag.workers import run_limited
from server.bodies import AnswerBody, Id, RequestBody
from server.error_schemas import ERRORS
from server.requests import EDITORS, InLanguage, NamedGraph
from server.rest_graphs import ExportFormat
from tools.actions.field_changes import json_document

router = APIRouter(prefix="/api/graphs", tags=["graphs"], responses=ERRORS)

MAX_TEXT = 4_000_000  # characters
Coordinate = Annotated[float, Field(strict=False, ge=-1e7, le=1e7)]


class CopyRequest(RequestBody):
    """A copy of some nodes, or of the whole graph without `nodes`."""

    nodes: Annotated[list[Id] | None, Field(min_length=1, max_length=MAX_PASTED)] = None
    format: ExportFormat


class CopyAnswer(AnswerBody):
    """`remarks` say what the format has no place for."""

    text: str
    remarks: list[str]


@router.post("/{graph_key}/copy", response_model=CopyAnswer)
async def copy(place: NamedGraph, body: CopyRequest, language: InLanguage) -> Response:
    """Returns nodes of a graph with the edges between them as text that a tool takes when it
    is pasted there.

    Refused (422) where the graph was never a file of that tool and has nodes of other types.
    """
    exported = await export_file(
        place.services.approvals, place.graph.key, body.format, only=body.nodes
    )

    def answer() -> bytes:
        return orjson.dumps(
            {"text": exported.text().decode(), "remarks": exported.report.lines(language)}
        )

    return Response(await run_limited(answer), media_type="application/json")


class PasteRequest(RequestBody):
    """Text that was copied in a tool, or a file's, and where its nodes go. Units:
    the editor's pixels.
    """

    text: Annotated[str, Field(min_length=1, max_length=MAX_TEXT)]
    x: Coordinate
    y: Coordinate
    sheet: Id


class PasteAnswer(AnswerBody):
    """Documents to be added by one live edit, under keys of their own; `types` are new
    in the workspace.
    """

    nodes: list[dict[str, Any]]
    edges: list[dict[str, Any]]
    types: list[dict[str, Any]]
    remarks: list[str]


@router.post("/{graph_key}/paste", response_model=PasteAnswer, **EDITORS)
async def paste(place: NamedGraph, body: PasteRequest, language: InLanguage) -> Response:
    """Reads copied text (n8n, Node-RED, Nodius JSON) as nodes and edges of a sheet. For editors.

    Nodes and edges are not stored: an editor adds them. Node types that the workspace lacks are.
    """
    pasted_nodes = await pasted(
        place.services.source,
        place.graph,
        body.text,
        place=(body.x, body.y),
        sheet=body.sheet,
        language=language,
    )

    def answer() -> bytes:
        parts = {
            "nodes": pasted_nodes.nodes,
            "edges": pasted_nodes.edges,
            "types": pasted_nodes.types,
        }
        documents = {name: [json_document(one) for one in part] for name, part in parts.items()}
        return b"".join(pieces({**documents, "remarks": pasted_nodes.remarks}))

    return Response(await run_limited(answer), media_type="application/json")


class NamedNode(RequestBody):
    """The parts of a node with its name and its references to others. `key` is only returned."""

    key: Id
    type: Id
    data: Any = None
    process: str | None = None


class FreeNamesRequest(RequestBody):
    nodes: Annotated[list[NamedNode], Field(min_length=1, max_length=MAX_PASTED)]


class NamedNodeAnswer(AnswerBody):
    key: str
    data: Any = None
    process: str | None = None


class FreeNamesAnswer(AnswerBody):
    """The nodes in the order in which they were sent."""

    nodes: list[NamedNodeAnswer]


@router.post("/{graph_key}/free-names", **EDITORS)
async def free_names(place: NamedGraph, body: FreeNamesRequest) -> FreeNamesAnswer:
    """Returns nodes that are to be added to a graph, under names that no node of it
    has. For editors.

    References by name between the nodes follow. Only where nodes call each other by name (n8n);
    elsewhere all stays as it is. Nothing is stored.
    """
    here = await place.services.source.get_nodes(place.graph.key)
    new = [Node(graph_key=place.graph.key, **node.model_dump()) for node in body.nodes]

    def answer() -> FreeNamesAnswer:
        named = with_free_names(place.graph, new, here)
        nodes = [NamedNodeAnswer(key=n.key, data=n.data, process=n.process) for n in named]
        return FreeNamesAnswer(nodes=nodes)

    return await run_limited(answer)
