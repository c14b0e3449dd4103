"""REST of live edits: what editors did to a graph, and taking one edit back."""

from __future__ import annotations

from fastapi import APIRouter, Request

from graphrag.client.documents import DeedDocument, EditUndone, HistoryAnswer, Id
from graphrag.live import ChangeSet, change_sets_of
from server.auth import Caller
from server.openapi_errors import ERRORS
from server.requests import Limit, Workspace, places_of, state_of

router = APIRouter(prefix="/api/graphs", tags=["live edits"], responses=ERRORS)


@router.get("/{graph_key}/history", response_model=HistoryAnswer, response_model_exclude_none=True)
async def history(
    request: Request, who: Caller, graph_key: Id, workspace: Workspace = None, limit: Limit = 100
) -> HistoryAnswer:
    """Return the latest live edits of a graph, newest first, also those that are not saved yet."""
    place, found = await places_of(request, who, workspace).of_graph(graph_key)
    state, name = state_of(request), place.person.workspace
    live = state.live.get(name, found.key)
    unsaved = () if live is None else live.unsaved_history
    change_sets = await change_sets_of(state.shared.database.records(name), found.key, unsaved, limit=limit)
    return HistoryAnswer(edits=[_document(change_set) for change_set in change_sets])


@router.post("/{graph_key}/history/{edit_id}/take-back", response_model=EditUndone)
async def undo(
    request: Request, who: Caller, graph_key: Id, edit_id: Id, workspace: Workspace = None
) -> EditUndone:
    """Take a live edit back, as an edit of its own that all editors are told. For editors.

    Refused (422) where a later change is in the way; 503 while another server edits the graph.
    """
    who.require("editor")
    place, found = await places_of(request, who, workspace).of_graph(graph_key)
    live = await state_of(request).live.open(place.person.workspace, found.key)
    done = await live.undo_edit(edit_id, who.user_id)
    return EditUndone(
        id=str(done.timestamp), taken_back=edit_id, revision=done.revision, messages=list(done.messages)
    )


def _document(change_set: ChangeSet) -> DeedDocument:
    return DeedDocument(
        id=change_set.id,
        time=change_set.at,
        user_id=change_set.user_id,
        saved=change_set.is_saved,
        steps=change_set.steps(),
        takes_back=change_set.takes_back,
        taken_back_by=change_set.taken_back_by,
    )
