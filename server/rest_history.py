"""REST of live edits: what editors did to a graph, and taking one edit back."""

from __future__ import annotations

from fastapi import APIRouter, Request

from graphrag.live import Deed, deeds_of
from graphrag.service_documents import DeedDocument, HistoryAnswer, Id, TakenBack
from server.auth import Caller
from server.documents import ERRORS
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
    deeds = await deeds_of(state.shared.database.records(name), found.key, unsaved, limit=limit)
    return HistoryAnswer(edits=[_document(deed) for deed in deeds])


@router.post("/{graph_key}/history/{edit_id}/take-back", response_model=TakenBack)
async def take_back(
    request: Request, who: Caller, graph_key: Id, edit_id: Id, workspace: Workspace = None
) -> TakenBack:
    """Take a live edit back, as an edit of its own that all editors are told. For editors.

    Refused (422) where a later change is in the way; 503 while another server edits the graph.
    """
    who.require("editor")
    place, found = await places_of(request, who, workspace).of_graph(graph_key)
    live = await state_of(request).live.open(place.person.workspace, found.key)
    done = await live.take_back(edit_id, who.user_id)
    return TakenBack(
        id=str(done.timestamp), taken_back=edit_id, revision=done.revision, messages=list(done.messages)
    )


def _document(deed: Deed) -> DeedDocument:
    return DeedDocument(
        id=deed.id,
        time=deed.at,
        user_id=deed.user_id,
        saved=deed.is_saved,
        steps=deed.steps(),
        takes_back=deed.takes_back,
        taken_back_by=deed.taken_back_by,
    )
