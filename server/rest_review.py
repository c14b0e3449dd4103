"""REST of review: what waits for a decision, deciding, undoing, the audit log."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Query, Request

from graphrag.approvals import Approval, Status, outcome_text, title
from graphrag.client.documents import (
    ApprovalDocument,
    ApprovalList,
    AuditList,
    AuditVerdict,
    DecisionRequest,
    Id,
    UndoRequest,
)
from graphrag.i18n import Language
from server.auth import Caller
from server.error_responses import language_of
from server.examples import DECISIONS
from server.openapi_errors import ERRORS
from server.requests import GraphKey, Limit, Workspace, places_of
from server.resuming import decision_of
from server.ws_events import code_diffs
from tools.proposals import to_document

router = APIRouter(prefix="/api", tags=["review"], responses=ERRORS)
WITHOUT_NONE: dict[str, Any] = {"response_model_exclude_none": True}
_INNER = ("mutation", "inverse", "irregular", "conversion")
"""Of a result only an undo and the clients that apply it need these."""


def approval_document(approval: Approval, language: Language) -> ApprovalDocument:
    """Return an approval as clients see it."""
    document = approval.to_document()
    result = {k: v for k, v in document.get("result", {}).items() if k not in _INNER}
    more = {
        "action": to_document(approval.action),
        "result": result or None,
        "codeDiffs": code_diffs(approval),
        "title": title(approval, language),
        "outcome": outcome_text(approval, language, to_person=True),
    }
    return ApprovalDocument.model_validate({**document, **more})


@router.get("/approvals", response_model=ApprovalList, **WITHOUT_NONE)
async def approvals(
    request: Request,
    who: Caller,
    workspace: Workspace = None,
    graph_key: GraphKey = None,
    status: Annotated[Status | None, Query(description="In one state only.")] = None,
    asker: Annotated[
        str | None, Query(min_length=1, max_length=200, description="Asked for by one person only.")
    ] = None,
    limit: Limit = 100,
) -> ApprovalList:
    """List proposed changes: what waits for a decision first, then what was decided, newest first."""
    found: list[Approval] = []
    for place in await places_of(request, who, workspace).all():
        found += await place.services.approvals.list(
            graph_key=graph_key, status=status, asker=asker, limit=limit, by=place.person
        )
    found.sort(key=lambda approval: (not approval.is_open, -approval.created, approval.id))
    language = language_of(request)
    return ApprovalList(approvals=[approval_document(a, language) for a in found[:limit]])


@router.get("/approvals/{approval_id}", response_model=ApprovalDocument, **WITHOUT_NONE)
async def approval(
    request: Request, who: Caller, approval_id: Id, workspace: Workspace = None
) -> ApprovalDocument:
    """Return a proposed change: what it does, why, who asked, and what came of it."""
    _, found = await places_of(request, who, workspace).of_approval(approval_id)
    return approval_document(found, language_of(request))


@router.post("/approvals/{approval_id}/decision", response_model=ApprovalDocument, **WITHOUT_NONE)
async def decide(
    request: Request,
    who: Caller,
    approval_id: Id,
    asked: Annotated[DecisionRequest, Body(openapi_examples=DECISIONS)],
    workspace: Workspace = None,
) -> ApprovalDocument:
    """Decide a proposed change, once. What comes back may also be out of date or failed: see `status`.

    Its conversation hears of it when it is next taken up.
    """
    place, _ = await places_of(request, who, workspace).of_approval(approval_id)
    decision = decision_of(asked.verdict == "approve", asked.feedback, asked.edited_action)
    done = await place.services.approvals.decide(approval_id, decision, place.person)
    return approval_document(done, language_of(request))


@router.post("/graphs/{graph_key}/undo", response_model=ApprovalDocument, **WITHOUT_NONE)
async def undo(
    request: Request, who: Caller, graph_key: Id, asked: UndoRequest, workspace: Workspace = None
) -> ApprovalDocument:
    """Take back an applied change, or all of a turn; the answer is the undo, whose own id takes it back."""
    place, _ = await places_of(request, who, workspace).of_graph(graph_key)
    done = await place.services.approvals.undo(graph_key, asked.approval_id, by=place.person, turn=asked.turn)
    return approval_document(done, language_of(request))


@router.get("/audit", response_model=AuditList)
async def audit(
    request: Request, who: Caller, workspace: Workspace = None, graph_key: GraphKey = None, limit: Limit = 100
) -> AuditList:
    """Return who asked for what, who decided and what changed, newest first. For reviewers."""
    who.require("reviewer")
    found: list[dict[str, Any]] = []
    for place in await places_of(request, who, workspace).all():
        entries = await place.services.approvals.audit.entries(graph_key=graph_key, limit=limit)
        found += [{**entry.to_document(), "workspace": place.person.workspace} for entry in entries]
    found.sort(key=lambda entry: (-int(entry["at"]), -int(entry["sequence"])))
    return AuditList(entries=found[:limit])


@router.get("/audit/verify", response_model=AuditVerdict)
async def verify(
    request: Request,
    who: Caller,
    workspace: Workspace = None,
    head: Annotated[
        str | None,
        Query(min_length=1, max_length=64, description="A head noted earlier; it must be in the chain."),
    ] = None,
) -> AuditVerdict:
    """Check that no entry of a workspace's audit log was changed, removed or added. For reviewers."""
    who.require("reviewer")
    place = await places_of(request, who, workspace).one()
    found = await place.services.approvals.audit.verify(noted=head)
    return AuditVerdict(
        workspace=place.person.workspace,
        sound=found.is_sound,
        entries=found.entries,
        head=found.head,
        faults=list(found.faults),
    )
