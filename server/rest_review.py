"""REST of review: proposals, decisions, undo, policies and the audit log."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Final, Literal, Self

from fastapi import APIRouter, Query, Response
from pydantic import Field, StringConstraints, model_validator

from graphrag.approvals import Approval, NotAllowed, Status
from graphrag.approvals.approval import MAX_FEEDBACK
from graphrag.approvals.broken_code import broken_code
from graphrag.approvals.conflicts import Conflict, conflicts_of
from graphrag.approvals.discussion import MAX_COMMENT_CHARS
from graphrag.approvals.policies import PolicyView
from graphrag.approvals.validation import ActionClass
from graphrag.i18n import Language
from server.approval_documents import (
    ApprovalDocument,
    ApprovalListing,
    CodeError,
    approval_document,
    large_answer,
)
from server.bodies import AnswerBody, Id, RequestBody
from server.error_responses import error_response
from server.error_schemas import ERRORS
from server.requests import (
    EXCLUDE_NONE,
    REVIEWERS,
    GraphKey,
    InLanguage,
    Limit,
    NamedGraph,
    Workspaces,
    text_query,
)
from server.rest_ai import decision_of
from server.workspaces import WorkspaceContext
from tools.proposals import parse_action
from tools.write_tools import resolve_action
from tools.write_tools.graph_reads import load_near

router = APIRouter(prefix="/api", tags=["review"], responses=ERRORS)
MAX_AT_ONCE: Final = 100


class ApprovalList(AnswerBody):
    """Proposals with their `conflicts`, if both of a pair are listed. In a long list the later ones
    are `shortened`: without their changes.
    """

    approvals: list[ApprovalDocument]
    conflicts: list[Conflict] = Field(default_factory=list[Conflict])


OfThread = Annotated[
    str | None, text_query("Of one conversation or run only.", most=400, alias="threadId")
]
AskedBy = Annotated[str | None, text_query("Asked for by one person only.")]
VoiceCode = Annotated[
    str | None,
    text_query("Named so on the telephone: amber river 42.", most=60, alias="spokenCode"),
]


@router.get("/approvals", response_model=ApprovalList, **EXCLUDE_NONE)
async def approvals(
    workspaces: Workspaces,
    language: InLanguage,
    graph_key: GraphKey = None,
    thread_id: OfThread = None,
    status: Annotated[Status | None, Query(description="In one state only.")] = None,
    asker: AskedBy = None,
    voice_code: VoiceCode = None,
    limit: Limit = 100,
) -> Response:
    """Lists proposed changes: what waits for a decision first, then what was
    decided, newest first.
    """
    listed_with_place: list[tuple[WorkspaceContext, Approval]] = []
    for place in await workspaces.all():
        listed = await place.services.approvals.list(
            graph_key=graph_key,
            thread_id=thread_id,
            status=status,
            asker=asker,
            voice_code=voice_code,
            limit=limit,
            by=place.person,
        )
        listed_with_place += [(place, approval) for approval in listed]
    listed_with_place.sort(key=lambda one: (not one[1].is_open, -one[1].created, one[1].id))

    def answer() -> ApprovalList:
        shown = listed_with_place[:limit]
        conflicts = conflicts_of(approval for _, approval in shown if approval.is_open)
        listing = ApprovalListing(language)
        return ApprovalList(
            approvals=[listing.document(place, approval) for place, approval in shown],
            conflicts=conflicts,
        )

    return await large_answer(await asyncio.to_thread(answer), is_list=True)


class DecisionRequest(RequestBody):
    """`editedAction` is carried out instead of the proposed one; only with an approval. The audit
    log and the model get the `feedback` of either verdict.
    """

    verdict: Literal["approve", "reject"]
    feedback: Annotated[str, Field(max_length=MAX_FEEDBACK)] = ""
    edited_action: dict[str, Any] | None = None


@router.post("/approvals/{approval_id}/decision", response_model=ApprovalDocument, **EXCLUDE_NONE)
async def decide(
    workspaces: Workspaces, approval_id: Id, language: InLanguage, body: DecisionRequest
) -> Response:
    """Decides a proposed change, once. The result may also be out of date or failed: see `status`.
    Its conversation continues when it is next resumed.
    """
    place, _ = await workspaces.of_approval(approval_id)
    decision = decision_of(body.verdict == "approve", body.feedback, body.edited_action)
    done = await place.services.approvals.decide(approval_id, decision, place.person)
    return await large_answer(await asyncio.to_thread(approval_document, place, done, language))


class DecisionsRequest(RequestBody):
    """One verdict on several proposals."""

    approval_ids: Annotated[list[Id], Field(min_length=1, max_length=MAX_AT_ONCE)]
    verdict: Literal["approve", "reject"]
    feedback: Annotated[str, Field(max_length=MAX_FEEDBACK)] = ""


class NotDecided(AnswerBody):
    id: str
    code: str
    message: str


def _refused(approval_id: str, exc: Exception, language: Language) -> NotDecided:
    answer = error_response(exc, language)
    return NotDecided(id=approval_id, code=answer.code, message=answer.message)


class Decisions(AnswerBody):
    """The outcome of each decision; `refused` are those that were not accepted, with the reason."""

    approvals: list[ApprovalDocument]
    refused: list[NotDecided]


@router.post("/approvals/decisions", response_model=Decisions, **EXCLUDE_NONE)
async def decide_all(
    workspaces: Workspaces, language: InLanguage, body: DecisionsRequest
) -> Response:
    """Decides several proposed changes, each once and by itself, after those it depends on. If a
    person may decide none of them, the answer is 403.
    """
    places: dict[str, tuple[WorkspaceContext, list[Approval]]] = {}
    for approval_id in dict.fromkeys(body.approval_ids):
        place, approval = await workspaces.of_approval(approval_id)
        places.setdefault(place.person.workspace, (place, []))[1].append(approval)
    decision = decision_of(body.verdict == "approve", body.feedback, None)
    done: list[tuple[WorkspaceContext, Approval]] = []
    refused: list[NotDecided] = []
    failures: list[Exception] = []
    for place, approvals_ in places.values():
        for approval_id, outcome in await place.services.approvals.decide_all(
            approvals_, decision, place.person
        ):
            if isinstance(outcome, Approval):
                done.append((place, outcome))
            else:
                failures.append(outcome)
                refused.append(_refused(approval_id, outcome, language))
    if not done and failures and all(isinstance(one, NotAllowed) for one in failures):
        raise failures[0]

    def answer() -> Decisions:
        listing = ApprovalListing(language)
        return Decisions(approvals=[listing.document(*one) for one in done], refused=refused)

    return await large_answer(await asyncio.to_thread(answer), is_list=True)


@router.get("/approvals/{approval_id}", response_model=ApprovalDocument, **EXCLUDE_NONE)
async def approval(workspaces: Workspaces, approval_id: Id, language: InLanguage) -> Response:
    """Returns a proposed change: its effect, reason, asker and outcome."""
    place, found = await workspaces.of_approval(approval_id)
    return await large_answer(await asyncio.to_thread(approval_document, place, found, language))


class EditedCode(RequestBody):
    edited_action: dict[str, Any]


class CodeErrors(AnswerBody):
    """The code that cannot be parsed; empty if all can."""

    code_errors: list[CodeError]


@router.post("/approvals/{approval_id}/code", **EXCLUDE_NONE)
async def check_code(workspaces: Workspaces, approval_id: Id, body: EditedCode) -> CodeErrors:
    """Checks the code of an edited action before it is approved. Nothing is stored."""
    place, found = await workspaces.of_approval(approval_id)
    action = parse_action(body.edited_action)
    snapshot = await load_near(place.services.source, found.graph_key, action)
    resolved, _ = await asyncio.to_thread(resolve_action, action, snapshot)
    broken = await asyncio.to_thread(broken_code, resolved, snapshot)
    return CodeErrors(code_errors=[CodeError(key=one.key, line=one.line) for one in broken])


class CommentRequest(RequestBody):
    text: Annotated[
        str, StringConstraints(strip_whitespace=True, min_length=1, max_length=MAX_COMMENT_CHARS)
    ]


@router.post("/approvals/{approval_id}/comments", **EXCLUDE_NONE)
async def comment(
    workspaces: Workspaces, approval_id: Id, language: InLanguage, body: CommentRequest
) -> ApprovalDocument:
    """Adds a comment to a proposed change, before or after its decision. No model reads it."""
    place, _ = await workspaces.of_approval(approval_id)
    done = await place.services.approvals.comment(approval_id, body.text, place.person)
    return approval_document(place, done, language)


class UndoRequest(RequestBody):
    """The change to undo; by default the last one of the graph that is not undone. With `turn`, all
    changes of its turn, in one step.
    """

    approval_id: Id | None = None
    turn: bool = False


@router.post("/graphs/{graph_key}/undo", **EXCLUDE_NONE)
async def undo(place: NamedGraph, body: UndoRequest, language: InLanguage) -> ApprovalDocument:
    """Undoes an applied change, or all changes of a turn. Returns the undo, which can be undone by
    its own id.
    """
    done = await place.services.approvals.undo(
        place.graph.key, body.approval_id, by=place.person, turn=body.turn
    )
    return approval_document(place, done, language)


GraphOfPolicy = Annotated[str | None, text_query("Also what this graph demands.", alias="graphKey")]


@router.get("/policy", **EXCLUDE_NONE)
async def policy(workspaces: Workspaces, graph_key: GraphOfPolicy = None) -> PolicyView:
    """Returns for which changes people must be asked: by settings, workspace, graph and
    node types.
    """
    place = await workspaces.one()
    return await place.services.approvals.policy(place.person, graph_key)


class PolicyRequest(RequestBody):
    """`classes` of the workspace (for admins); with `graphKey` of this graph (for reviewers); with
    `typeKey` also, of a node type that the workspace has.
    """

    classes: Annotated[list[ActionClass], Field(max_length=6)]
    graph_key: Id | None = None
    type_key: Annotated[str, Field(min_length=1, max_length=400)] | None = None

    @model_validator(mode="after")
    def _names_a_graph(self) -> Self:
        if self.type_key is not None and self.graph_key is None:
            raise ValueError("give graphKey with typeKey")
        return self


@router.put("/policy", **EXCLUDE_NONE)
async def set_policy(workspaces: Workspaces, body: PolicyRequest) -> PolicyView:
    """Sets for which changes people must be asked. It can only demand more than the other levels
    do.
    """
    place = await workspaces.one()
    return await place.services.approvals.set_policy(
        body.classes, place.person, graph_key=body.graph_key, type_name=body.type_key
    )


class AuditList(AnswerBody):
    entries: list[dict[str, Any]]


@router.get("/audit", **REVIEWERS)
async def audit(
    workspaces: Workspaces, graph_key: GraphKey = None, limit: Limit = 100
) -> AuditList:
    """Returns who asked for what, who decided and what changed, newest first. For reviewers."""
    rows: list[dict[str, Any]] = []
    for place in await workspaces.all():
        entries = await place.services.approvals.audit.entries(graph_key=graph_key, limit=limit)
        rows += [{**entry.to_document(), "workspace": place.person.workspace} for entry in entries]
    rows.sort(key=lambda entry: (-int(entry["at"]), -int(entry["sequence"])))
    return AuditList(entries=rows[:limit])


class AuditVerdict(AnswerBody):
    workspace: str
    sound: bool
    entries: int
    head: str
    faults: list[str] = Field(default_factory=list[str])


@router.get("/audit/verify", **REVIEWERS)
async def verify(
    workspaces: Workspaces,
    head: Annotated[
        str | None, text_query("A head noted earlier; it must be in the chain.", most=64)
    ] = None,
) -> AuditVerdict:
    """Checks that no entry of a workspace's audit log was changed, removed or
    added. For reviewers.
    """
    place = await workspaces.one()
    verdict = await place.services.approvals.audit.verify(noted=head)
    return AuditVerdict(
        workspace=place.person.workspace,
        sound=verdict.is_sound,
        entries=verdict.entries,
        head=verdict.head,
        faults=list(verdict.faults),
    )
