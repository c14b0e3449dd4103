"""REST of a graph's history: changes, their authors and reasons; the graph at a revision, and its
restoration.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Body, Path, Query, Request, Response
from pydantic import Field

from datasources.builtin_types import types_by_name
from graphrag.approvals import Asked
from graphrag.approvals.preview import preview_of
from graphrag.commands.graph_history import what_was_done
from graphrag.i18n import Language, text
from graphrag.importers.json_values import pieces
from graphrag.live import EditRefused, Revision, Revisions, journalled_history
from graphrag.live.blame import blame
from graphrag.live.merge_remote import difference
from graphrag.live.past_graph import PastGraph, graph_at, present
from graphrag.live.restoring import as_action, restore
from graphrag.workers import run_limited
from server.approval_documents import ApprovalDocument, approval_document, large_answer
from server.bodies import AnswerBody, Id, RequestBody
from server.error_schemas import ERRORS
from server.graph_json import GraphPages, view_steps
from server.requests import EDITORS, EXCLUDE_NONE, InLanguage, NamedGraph, state_of
from server.workspaces import GraphContext, WorkspaceContext
from tools.write_tools import Snapshot

router = APIRouter(prefix="/api/graphs", tags=["history"], responses=ERRORS)
LATEST = 2**48
Moment = Annotated[
    int, Path(ge=0, le=LATEST, description="A revision: its time in milliseconds since 1970.")
]


class ChangeDocument(AnswerBody):
    """`kind`: `edit` by hand, applied `change`, `import`, `undo` of one; or the graph was
    `created`, `renamed` or `restored`.
    """

    kind: str
    by: str
    what: str
    asker: str | None = None
    thread_id: str | None = None
    turn: int | None = None
    approval_id: str | None = None
    automation_id: str | None = None
    reason: str | None = None


class RevisionDocument(ChangeDocument):
    """One change of a graph. `revision` is its time in milliseconds since 1970.

    `id` undoes it: an approval's, or of a live edit, which then has `steps`.
    """

    revision: int
    id: str
    steps: list[dict[str, Any]] | None = None
    undone_by: str | None = None


def _document(revision: Revision, language: Language) -> RevisionDocument:
    facts = revision.facts
    approval = revision.approval
    edit = revision.edit
    reasons = (approval.reason if approval else "", str(facts.get("feedback") or ""))
    return RevisionDocument(
        revision=revision.at,
        id=revision.id,
        kind=revision.kind,
        by=revision.by,
        what=what_was_done(revision, language),
        steps=edit.steps() if edit else None,
        asker=facts.get("asker"),
        thread_id=facts.get("threadId"),
        turn=facts.get("turn") or None,
        approval_id=facts.get("approvalId"),
        automation_id=facts.get("automationId"),
        reason=" · ".join(filter(None, reasons)) or None,
        undone_by=revision.undone_by,
    )


class RevisionList(AnswerBody):
    """Changes, newest first; `cursor` requests earlier ones. `cut`: edits before this time were
    deleted.
    """

    revisions: list[RevisionDocument]
    cursor: str | None = None
    cut: int | None = None


@router.get("/{graph_key}/revisions", **EXCLUDE_NONE)
async def revisions(
    place: NamedGraph,
    language: InLanguage,
    cursor: Annotated[
        str | None, Query(pattern=r"^\d{1,15}$", description="Of the list before.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=500, description="At most so many.")] = 100,
) -> RevisionList:
    """Returns the changes of a graph, newest first: edits, applied changes, imports, runs and
    undos.
    """
    records = place.services.approvals.records
    key = place.graph.key
    history = Revisions(records, key, await journalled_history(records, key))
    shown: list[Revision] = []
    before = None if cursor is None else int(cursor)
    more = False
    async with aclosing(history.newest_first(before=before, past_cut=True)) as stream:
        async for revision in stream:
            more = len(shown) >= limit and revision.at != shown[-1].at
            if more:
                break
            shown.append(revision)
    return RevisionList(
        revisions=await run_limited(lambda: [_document(one, language) for one in shown]),
        cursor=str(shown[-1].at) if more else None,
        cut=history.cut_at,
    )


class FieldOrigin(ChangeDocument):
    """The author of the current value of a field, as `data.name`. Units: `time` in milliseconds
    since 1970.
    """

    field: str
    time: int


class BlameAnswer(AnswerBody):
    """The fields of a node whose origin is known. `cut`: edits before this time were deleted."""

    node: str
    fields: list[FieldOrigin]
    cut: int | None = None


@router.get("/{graph_key}/blame", **EXCLUDE_NONE)
async def blame_of(
    request: Request,
    place: NamedGraph,
    language: InLanguage,
    node: Annotated[str, Query(min_length=1, max_length=200, description="The key of a node.")],
) -> BlameAnswer:
    """Returns for each field of a node who set it, when, in which turn, by which approval
    and why.
    """
    live = state_of(request).backend.live.get(place.person.workspace, place.graph.key)
    now = await present(place.services.source, live, place.graph.key, only=[node])
    if (known := now.state.node(node)) is None:
        raise EditRefused(where="node", reason=f"the graph has no node {node[:80]!r}")
    origins, cut = await blame(place.services.approvals.records, now, known)

    def fields() -> list[FieldOrigin]:
        by_id = {
            one.revision.id: _document(one.revision, language).model_dump(exclude={"steps"})
            for one in origins
        }
        parts = [(".".join(one.field), one.revision) for one in origins]
        return [FieldOrigin(field=field, time=of.at, **by_id[of.id]) for field, of in parts]

    return BlameAnswer(node=node, fields=await run_limited(fields), cut=cut)


@router.get("/{graph_key}/revisions/{revision}")
async def graph_as_it_was(request: Request, place: NamedGraph, revision: Moment) -> Response:
    """Returns the graph after a revision: `{graph, nodes, edges, timestamp, gaps}`.

    `timestamp` is later than requested if the history is shorter; `gaps` counts changes that could
    not be reverted.
    """
    past = await _past(request, place, revision)
    content = GraphPages.held(
        past.state.graph, [*past.state.iter_nodes()], [*past.state.iter_edges()]
    )
    steps = view_steps(content, timestamp=past.at, gaps=past.gaps)
    return await state_of(request).activity.downloads.answer(request, steps)


@router.get("/{graph_key}/compare")
async def compare(
    request: Request,
    place: NamedGraph,
    start: Annotated[int, Query(alias="from", ge=0, le=LATEST, description="A revision.")],
    end: Annotated[
        int, Query(alias="to", ge=0, le=LATEST, description="Another; default: now.")
    ] = LATEST,
) -> Response:
    """Returns the differences between two revisions, as the preview of a proposal: `{preview, from,
    to}`.
    """
    one = await _past(request, place, start)
    other = await _past(request, place, end)
    types = types_by_name(await place.services.source.get_node_configs())
    body = await run_limited(_compared, one, other, types)
    return Response(body, media_type="application/json")


def _compared(one: PastGraph, other: PastGraph, types: Any) -> bytes:
    old = one.state
    changes = replace(difference(one.state, other.state), graph=other.state.graph)
    mutation = changes.mutation(old.graph.key)
    before = Snapshot(graph=old.graph, nodes=old.nodes, edges=old.edges, types=types)
    shown = preview_of(before, mutation)
    return b"".join(pieces({"preview": shown, "from": one.at, "to": other.at}, depth=3))


class RestoreRequest(RequestBody):
    """`nodes`: only these, not the whole graph. `propose`: as a proposal, which people decide."""

    nodes: Annotated[list[Id], Field(min_length=1, max_length=1000)] | None = None
    propose: bool = False


class Restored(AnswerBody):
    """`id`: the live edit that restored it, which undoes in one step; or the `approval`
    that waits.
    """

    id: str | None = None
    approval: ApprovalDocument | None = None


@router.post(
    "/{graph_key}/revisions/{revision}/restore", response_model=Restored, **EXCLUDE_NONE, **EDITORS
)
async def restore_revision(
    request: Request,
    place: NamedGraph,
    language: InLanguage,
    revision: Moment,
    body: Annotated[RestoreRequest, Body()],
) -> Response:
    """Restores nodes, or the whole graph, to the state after a revision. For editors.

    Refused (422) if nothing differs; 503 while another server edits the graph.
    """
    past = await _past(request, place, revision)
    if body.propose:
        return await large_answer(
            Restored(approval=await _propose(place, past, body.nodes, language))
        )
    live = await state_of(request).backend.live.open(place.person.workspace, place.graph.key)
    done = await live.edit(place.person.user_id, None, restore, past.state, body.nodes)
    return await large_answer(Restored(id=str(done.timestamp)))


async def _propose(
    place: WorkspaceContext, past: PastGraph, nodes: Sequence[str] | None, language: Language
) -> ApprovalDocument:
    source = place.services.source
    key = past.state.graph.key
    now = await present(source, None, key)
    name = text("history_state", language, time=place.services.history.iso(past.at))
    action = await run_limited(as_action, now.state, past.state, nodes, name)
    proposed = await place.services.approvals.propose(
        action,
        Asked(
            graph_key=key,
            thread_id=f"restore-{uuid.uuid4().hex}",
            tool_call_id="restore",
            asker=place.person,
            reason=name,
        ),
    )
    return await asyncio.to_thread(approval_document, place, proposed, language)


async def _past(request: Request, place: GraphContext, at: int) -> PastGraph:
    key = place.graph.key
    live = state_of(request).backend.live.get(place.person.workspace, key)
    return await graph_at(place.services.source, place.services.approvals.records, live, key, at)
