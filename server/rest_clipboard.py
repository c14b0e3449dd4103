"""REST of the clipboard: nodes of a graph as text of a tool, and such text as nodes of a graph."""

from __future__ import annotations

from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Response
from pydantic import Field

from graphrag.importers.clipboard import MAX_PASTED, pasted
from graphrag.importers.exchange import export_file
from graphrag.importers.json_values import pieces
from graphrag.workers import run_limited
from server.auth import Caller
from server.openapi_errors import ERRORS
from server.requests import AnswerBody, Id, InLanguage, NamedGraph, RequestBody
from server.rest_graphs import ExportFormat
from tools.write_tools.field_changes import json_document

router = APIRouter(prefix="/api/graphs", tags=["graphs"], responses=ERRORS)
MAX_TEXT = 4_000_000
Coordinate = Annotated[float, Field(strict=False, ge=-1e7, le=1e7)]


class CopyRequest(RequestBody):
    """Of some nodes, or (without `nodes`) of the graph, whole."""

    nodes: Annotated[list[Id] | None, Field(min_length=1, max_length=MAX_PASTED)] = None
    format: ExportFormat


class CopyAnswer(AnswerBody):
    """`remarks` say what the format has no place for."""

    text: str
    remarks: list[str]


@router.post("/{graph_key}/copy", response_model=CopyAnswer)
async def copy(graph: NamedGraph, body: CopyRequest, language: InLanguage) -> Response:
    """Return nodes of a graph with the edges between them as text that a tool takes when it is pasted there.

    Refused (422) where the graph was never a file of that tool and has nodes of other types.
    """
    place, found = graph
    made = await export_file(place.services.approvals, found.key, body.format, only=body.nodes)

    def answer() -> bytes:
        return orjson.dumps({"text": made.text().decode(), "remarks": made.report.lines(language)})

    return Response(await run_limited(answer), media_type="application/json")


class PasteRequest(RequestBody):
    """Text that was copied in a tool, or a file's, and where its nodes go. Units: the editor's pixels."""

    text: Annotated[str, Field(min_length=1, max_length=MAX_TEXT)]
    x: Coordinate
    y: Coordinate
    sheet: Id


class PasteAnswer(AnswerBody):
    """Documents to be added by one live edit, under keys of their own; `types` are new in the workspace."""

    nodes: list[dict[str, Any]]
    edges: list[dict[str, Any]]
    types: list[dict[str, Any]]
    remarks: list[str]


@router.post("/{graph_key}/paste", response_model=PasteAnswer)
async def paste(caller: Caller, graph: NamedGraph, body: PasteRequest, language: InLanguage) -> Response:
    """Read copied text (n8n, Node-RED, Nodius JSON) as nodes and edges of a sheet. For editors.

    Nodes and edges are not stored: an editor adds them. Node types that the workspace lacks are.
    """
    place, found = graph
    caller.require("editor")
    made = await pasted(
        place.services.source, found, body.text, place=(body.x, body.y), sheet=body.sheet, language=language
    )

    def answer() -> bytes:
        parts = {"nodes": made.nodes, "edges": made.edges, "types": made.types}
        documents = {name: [json_document(one) for one in part] for name, part in parts.items()}
        return b"".join(pieces({**documents, "remarks": made.remarks}))

    return Response(await run_limited(answer), media_type="application/json")
