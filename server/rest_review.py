"""REST of review: what waits for a decision, deciding, undoing, the audit log."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from fastapi import APIRouter, Body, Query
from fastapi.openapi.models import Example
from pydantic import Field, model_validator

from graphrag.approvals import Approval, Status, outcome_text, review_words
from graphrag.approvals.approval import MAX_FEEDBACK
from graphrag.approvals.validation import ActionClass
from graphrag.i18n import Language
from server.chat_answer import ReviewWords
from server.openapi_errors import ERRORS
from server.requests import (
    EXCLUDE_NONE,
    AnswerBody,
    GraphKey,
    Id,
    InLanguage,
    Limit,
    NamedGraph,
    RequestBody,
    Workspaces,
)
from server.resuming import decision_of
from server.ws_events import code_diffs
from tools.proposals import to_document

router = APIRouter(prefix="/api", tags=["review"], responses=ERRORS)
_INNER = ("mutation", "inverse", "irregular", "conversion")
"""Of a result only an undo and the clients that apply it need these."""


class ApprovalDocument(ReviewWords):
    """An approval as stored, without what only an undo needs.

    `outcome` says what became of it. `automationId`, `scheduledTime` and `seedVersion` name the run that
    proposed it, `spokenCode` what a caller on the telephone names it by.
    """

    id: str
    workspace: str
    graph_key: str
    thread_id: str
    turn: int
    tool_call_id: str
    status: Status
    action: dict[str, Any]
    preview: dict[str, Any]
    reason: str = ""
    user_id: str
    model: str
    base_revision: int
    created_time: int
    expires_time: int
    depends_on: list[str] = Field(default_factory=list[str])
    code_diffs: list[dict[str, Any]] = Field(default_factory=list[dict[str, Any]])
    decision: dict[str, Any] | None = None
    result: dict[str, Any] | None = None
    undoes: str | None = None
    undoes_also: list[str] = Field(default_factory=list[str])
    undone_by: str | None = None
    outcome: str = ""
    automation_id: str | None = None
    scheduled_time: int | None = None
    seed_version: int | None = None
    voice_code: str | None = Field(default=None, alias="spokenCode")


def approval_document(approval: Approval, language: Language) -> ApprovalDocument:
    """Return an approval as clients see it."""
    document = approval.to_document()
    result = {k: v for k, v in document.get("result", {}).items() if k not in _INNER}
    more = {
        "action": to_document(approval.action),
        "result": result or None,
        "codeDiffs": code_diffs(approval),
        **review_words(approval, language),
        "outcome": outcome_text(approval, language, to_person=True),
    }
    return ApprovalDocument.model_validate({**document, **more})


class ApprovalList(AnswerBody):
    approvals: list[ApprovalDocument]


@router.get("/approvals", **EXCLUDE_NONE)
async def approvals(
    workspaces: Workspaces,
    language: InLanguage,
    graph_key: GraphKey = None,
    status: Annotated[Status | None, Query(description="In one state only.")] = None,
    asker: Annotated[
        str | None, Query(min_length=1, max_length=200, description="Asked for by one person only.")
    ] = None,
    voice_code: Annotated[
        str | None,
        Query(
            alias="spokenCode",
            min_length=1,
            max_length=60,
            description="Named so on the telephone: amber river 42.",
        ),
    ] = None,
    limit: Limit = 100,
) -> ApprovalList:
    """List proposed changes: what waits for a decision first, then what was decided, newest first."""
    found: list[Approval] = []
    for place in await workspaces.all():
        found += await place.services.approvals.list(
            graph_key=graph_key,
            status=status,
            asker=asker,
            voice_code=voice_code,
            limit=limit,
            by=place.person,
        )
    found.sort(key=lambda approval: (not approval.is_open, -approval.created, approval.id))
    return ApprovalList(approvals=[approval_document(a, language) for a in found[:limit]])


@router.get("/approvals/{approval_id}", **EXCLUDE_NONE)
async def approval(workspaces: Workspaces, approval_id: Id, language: InLanguage) -> ApprovalDocument:
    """Return a proposed change: what it does, why, who asked, and what came of it."""
    _, found = await workspaces.of_approval(approval_id)
    return approval_document(found, language)


class DecisionRequest(RequestBody):
    """`editedAction` is carried out in place of the proposed one; only with an approval. The audit log and
    the model get the `feedback` of either verdict."""

    verdict: Literal["approve", "reject"]
    feedback: Annotated[str, Field(max_length=MAX_FEEDBACK)] = ""
    edited_action: dict[str, Any] | None = None


DECISION_EXAMPLES: dict[str, Example] = {
    "approve": Example(summary="Approve", value={"verdict": "approve"}),
    "edit": Example(
        summary="Approve something else",
        value={
            "verdict": "approve",
            "editedAction": {
                "type": "update_node",
                "payload": {"nodeKey": "error-handler", "changes": {"data.name": "Report the error"}},
            },
        },
    ),
    "reject": Example(summary="Reject", value={"verdict": "reject", "feedback": "Not now"}),
}


@router.post("/approvals/{approval_id}/decision", **EXCLUDE_NONE)
async def decide(
    workspaces: Workspaces,
    approval_id: Id,
    language: InLanguage,
    body: Annotated[DecisionRequest, Body(openapi_examples=DECISION_EXAMPLES)],
) -> ApprovalDocument:
    """Decide a proposed change, once. What comes back may also be out of date or failed: see `status`.

    Its conversation goes on when it is next resumed.
    """
    place, _ = await workspaces.of_approval(approval_id)
    decision = decision_of(body.verdict == "approve", body.feedback, body.edited_action)
    done = await place.services.approvals.decide(approval_id, decision, place.person)
    return approval_document(done, language)


class UndoRequest(RequestBody):
    """Which change is undone; by default the graph's last that stands. With `turn`, everything that was
    applied of the change's turn, in one step."""

    approval_id: Id | None = None
    turn: bool = False


@router.post("/graphs/{graph_key}/undo", **EXCLUDE_NONE)
async def undo(graph: NamedGraph, body: UndoRequest, language: InLanguage) -> ApprovalDocument:
    """Undo an applied change, or all of a turn; the answer is the undo, whose own id undoes it."""
    place, found = graph
    done = await place.services.approvals.undo(found.key, body.approval_id, by=place.person, turn=body.turn)
    return approval_document(done, language)


class PolicyDocument(AnswerBody):
    """The classes of change for which each level wants a person; any level that does is enough."""

    application: list[ActionClass]
    workspace: list[ActionClass]
    graph: list[ActionClass] | None = None
    node_types: dict[str, list[ActionClass]]


GraphOfPolicy = Annotated[
    str | None,
    Query(alias="graphKey", min_length=1, max_length=200, description="Also what this graph demands."),
]


@router.get("/policy", **EXCLUDE_NONE)
async def policy(workspaces: Workspaces, graph_key: GraphOfPolicy = None) -> PolicyDocument:
    """Return for which changes people must be asked: settings, workspace, graph and node types."""
    place = await workspaces.one()
    found = await place.services.approvals.policy(place.person, graph_key)
    return PolicyDocument.model_validate(found)


class PolicyRequest(RequestBody):
    """`classes` of the workspace (for admins); with `graphKey` of this graph (for reviewers), with `typeKey`
    also, of a node type that the graph's workspace has."""

    classes: Annotated[list[ActionClass], Field(max_length=6)]
    graph_key: Id | None = None
    type_key: Annotated[str, Field(min_length=1, max_length=400)] | None = None

    @model_validator(mode="after")
    def _names_a_graph(self) -> Self:
        if self.type_key is not None and self.graph_key is None:
            raise ValueError("give graphKey with typeKey")
        return self


@router.put("/policy", **EXCLUDE_NONE)
async def set_policy(workspaces: Workspaces, body: PolicyRequest) -> PolicyDocument:
    """Say for which changes people must be asked. It can only demand more than the other levels do."""
    place = await workspaces.one()
    found = await place.services.approvals.set_policy(
        body.classes, place.person, graph_key=body.graph_key, type_name=body.type_key
    )
    return PolicyDocument.model_validate(found)


class AuditList(AnswerBody):
    entries: list[dict[str, Any]]


@router.get("/audit")
async def audit(workspaces: Workspaces, graph_key: GraphKey = None, limit: Limit = 100) -> AuditList:
    """Return who asked for what, who decided and what changed, newest first. For reviewers."""
    workspaces.identity.require("reviewer")
    found: list[dict[str, Any]] = []
    for place in await workspaces.all():
        entries = await place.services.approvals.audit.entries(graph_key=graph_key, limit=limit)
        found += [{**entry.to_document(), "workspace": place.person.workspace} for entry in entries]
    found.sort(key=lambda entry: (-int(entry["at"]), -int(entry["sequence"])))
    return AuditList(entries=found[:limit])


class AuditVerdict(AnswerBody):
    workspace: str
    sound: bool
    entries: int
    head: str
    faults: list[str] = Field(default_factory=list[str])


@router.get("/audit/verify")
async def verify(
    workspaces: Workspaces,
    head: Annotated[
        str | None,
        Query(min_length=1, max_length=64, description="A head noted earlier; it must be in the chain."),
    ] = None,
) -> AuditVerdict:
    """Check that no entry of a workspace's audit log was changed, removed or added. For reviewers."""
    workspaces.identity.require("reviewer")
    place = await workspaces.one()
    found = await place.services.approvals.audit.verify(noted=head)
    return AuditVerdict(
        workspace=place.person.workspace,
        sound=found.is_sound,
        entries=found.entries,
        head=found.head,
        faults=list(found.faults),
    )
