"""REST of a live graph: its state at one moment, its editors, the latest edits, and their undo.

A view has its time, so that a client that then listens on the WebSocket knows which messages it
contains.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import Field

from datasources.builtin_types import types_by_name
from datasources.types import NodeTypeConfig
from graphrag.importers.json_values import as_dict
from graphrag.importers.usual_fields import usual_schema
from graphrag.live.edit_history import PastEdit, edits_newest_first
from graphrag.workers import run_limited
from server.bodies import AnswerBody, Id
from server.downloads import Step
from server.error_schemas import ERRORS
from server.graph_json import GraphPages, view_steps, whole_graph
from server.requests import EDITORS, EXCLUDE_NONE, Limit, NamedGraph, state_of

router = APIRouter(prefix="/api/graphs", tags=["live edits"], responses=ERRORS)
_SHOWN = (
    "_key",
    "workspace",
    "version",
    "displayName",
    "description",
    "category",
    "icon",
    "border",
    "dataSchema",
)


class GraphSnapshot(AnswerBody):
    """A graph as it is at one moment.

    `timestamp`: it holds every live edit up to then (0: nobody edits it). Units:
    milliseconds since 1970.
    """

    graph: dict[str, Any]
    nodes: list[dict[str, Any]]
    edges: list[dict[str, Any]]
    types: list[dict[str, Any]]
    timestamp: int


@router.get("/{graph_key}/view", response_model=GraphSnapshot, **EXCLUDE_NONE)
async def view(request: Request, place: NamedGraph) -> Response:
    """Returns a graph with its nodes, edges and usable types, as they are at one moment."""
    configs = types_by_name(await place.services.source.get_node_configs()).values()
    types = await run_limited(lambda: [_type(config) for config in configs])

    def steps(content: GraphPages, timestamp: int) -> AsyncIterator[Step]:
        return view_steps(content, types=types, timestamp=timestamp)

    return await whole_graph(request, place, steps)


def _type(config: NodeTypeConfig) -> dict[str, Any]:
    """Returns the shown fields of a type, without the page that it draws, which can be large."""
    document = config.to_document()
    shown = {name: document[name] for name in _SHOWN if document.get(name) is not None}
    of_nodes = {
        name: document["node"][name] for name in ("handles", "size") if name in document["node"]
    }
    origin = as_dict(document.get("origin")) or {}
    family = origin.get("format")
    usual = usual_schema(family, config.type)
    return {
        **({"dataSchema": usual} if usual is not None else {}),
        **shown,
        **of_nodes,
        "type": config.type,
        "process": config.node.process,
        "family": family,
    }


class GraphEditor(AnswerBody):
    """A person on a sheet of the graph, with the number of their windows."""

    user_id: str
    sheet: str
    windows: int


class EditorList(AnswerBody):
    """`embedding`: nodes of the graph that wait to be embedded."""

    editors: list[GraphEditor]
    embedding: int = 0


@router.get("/{graph_key}/editors")
async def editors(request: Request, place: NamedGraph) -> EditorList:
    """Returns who edits a graph through this server now, and how many of its nodes are
    left to embed.
    """
    live = state_of(request).backend.live.get(place.person.workspace, place.graph.key)
    windows = Counter((member.user_id, member.sheet) for member in (live.members if live else ()))
    return EditorList(
        embedding=place.services.embedding_queue.pending(place.graph.key),
        editors=[
            GraphEditor(user_id=user, sheet=sheet, windows=count)
            for (user, sheet), count in sorted(windows.items())
        ],
    )


class LiveEdit(AnswerBody):
    """A live edit. Units: `time` in milliseconds since 1970.

    `steps` say what was done: `{type, keys, field?, name?}`. `takesBack` is the edit that it undid,
    `takenBackBy` the one that undid it. Not `saved`: it is journalled and waits for the next save.
    """

    id: str
    time: int
    user_id: str
    saved: bool
    steps: list[dict[str, Any]]
    undoes: str | None = Field(default=None, serialization_alias="takesBack")
    undone_by: str | None = Field(default=None, serialization_alias="takenBackBy")


class HistoryAnswer(AnswerBody):
    """Live edits, newest first."""

    edits: list[LiveEdit]


@router.get("/{graph_key}/history", **EXCLUDE_NONE)
async def history(request: Request, place: NamedGraph, limit: Limit = 100) -> HistoryAnswer:
    """Returns the latest live edits of a graph, newest first, also those that are not saved yet."""
    state = state_of(request)
    name = place.person.workspace
    live = state.backend.live.get(name, place.graph.key)
    unsaved = () if live is None else live.unsaved_history
    edits: list[PastEdit] = []
    async with aclosing(
        edits_newest_first(state.backend.shared.database.records(name), place.graph.key, unsaved)
    ) as past:
        async for edit in past:
            edits.append(edit)
            if len(edits) == limit:
                break
    undone = {edit.undoes: edit.id for edit in reversed(edits) if edit.undoes is not None}
    return HistoryAnswer(
        edits=[
            LiveEdit(
                id=edit.id,
                time=edit.at,
                user_id=edit.user_id,
                saved=edit.is_saved,
                steps=edit.steps(),
                undoes=edit.undoes,
                undone_by=undone.get(edit.id),
            )
            for edit in edits
        ]
    )


class EditUndone(AnswerBody):
    """An edit was undone by another one, `id`, which can be undone in its turn.

    `messages` are what the graph's editors were sent.
    """

    id: str
    undone: str = Field(serialization_alias="takenBack")
    revision: int
    messages: list[dict[str, Any]]


@router.post("/{graph_key}/history/{edit_id}/take-back", **EDITORS)
async def undo_edit(request: Request, place: NamedGraph, edit_id: Id) -> EditUndone:
    """Undoes a live edit, by another edit that all editors receive. For editors.

    Refused (422) if a later change prevents it; 503 while another server edits the graph.
    """
    live = await state_of(request).backend.live.open(place.person.workspace, place.graph.key)
    done = await live.undo_edit(edit_id, place.person.user_id)
    return EditUndone(
        id=str(done.timestamp), undone=edit_id, revision=done.revision, messages=list(done.messages)
    )
