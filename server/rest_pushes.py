"""REST of pushes: what is written to connected workflow servers, and who decides it."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from graphrag.connections.errors import PushNotFound
from graphrag.connections.stored_push import Push, PushAction, PushState, StoredRemark
from graphrag.i18n import Language, text
from server.bodies import AnswerBody, Id, RequestBody
from server.error_schemas import ERRORS, MODEL_ERRORS
from server.requests import EDITORS, EXCLUDE_NONE, InLanguage, Workspaces
from server.workspaces import WorkspaceContext, WorkspaceResolver

router = APIRouter(prefix="/api", tags=["connections"], responses=ERRORS)
_REMOTE: dict[str, Any] = {"responses": {502: MODEL_ERRORS[502]}}


class PushRequest(RequestBody):
    """The graph whose changes are to be written to the server of a connection."""

    graph: Id


class PushSentence(AnswerBody):
    """A sentence for a person, under its code."""

    code: str
    text: str


class PushedField(AnswerBody):
    """One field that is written: where it is, and its values without secrets, cut short.

    `before` or `after` is left out where the field is not there.
    """

    place: str
    before: Any = None
    after: Any = None


class PushAnswer(AnswerBody):
    """A push. Units: times in milliseconds since 1970.

    `effects`: what starts, ends or goes live. `leftOut`: changes that the server's format cannot
    express. `moreChanges`: fields beyond those shown. `reason`: why it ended otherwise than asked.
    `failures`: nodes that failed on the server in the five minutes after.
    """

    id: str
    connection: str
    graph: str
    workflow: str
    action: PushAction
    state: PushState
    changes: list[PushedField]
    more_changes: int
    problems: list[PushSentence]
    warnings: list[PushSentence]
    effects: list[PushSentence]
    left_out: list[str]
    asked_by: str
    decided_by: str | None = None
    created_time: int
    decided_time: int | None = None
    ended_time: int | None = None
    reason: PushSentence | None = None
    failures: list[PushSentence]
    can_be_undone: bool
    undoes: str | None = None


class PushList(AnswerBody):
    pushes: list[PushAnswer]


class PlannedPush(AnswerBody):
    """What would be written; none where nothing was changed here that the server has not got."""

    push: PushAnswer | None = None


@router.get("/pushes", **EXCLUDE_NONE)
async def list_pushes(workspaces: Workspaces, language: InLanguage) -> PushList:
    """List the latest 100 pushes, newest first."""

    async def read(place: WorkspaceContext) -> list[PushAnswer]:
        return [_answer(push, language) for push in await place.workspace.pushes.list()]

    return PushList(pushes=await workspaces.each(read))


@router.post("/connections/{connection_name}/pushes", **_REMOTE, **EXCLUDE_NONE, **EDITORS)
async def plan(
    workspaces: Workspaces, language: InLanguage, connection_name: Id, body: PushRequest
) -> PlannedPush:
    """Work out what a push of a graph would write, after what changed on the server was merged. It
    waits for a decision; nothing is written yet. For editors.
    """
    place = await workspaces.of_graph(body.graph)
    push = await place.workspace.pushes.plan(connection_name, body.graph, place.person)
    return PlannedPush(push=_answer(push, language) if push is not None else None)


@router.post("/connections/{connection_name}/publications", **_REMOTE, **EXCLUDE_NONE, **EDITORS)
async def plan_publication(
    workspaces: Workspaces, language: InLanguage, connection_name: Id, body: PushRequest
) -> PlannedPush:
    """Work out what goes live if the draft of a graph's workflow is published. It waits for a
    decision as a push does. For editors.
    """
    place = await workspaces.of_graph(body.graph)
    push = await place.workspace.pushes.plan_publish(connection_name, body.graph, place.person)
    return PlannedPush(push=_answer(push, language) if push is not None else None)


@router.post("/connections/{connection_name}/workflows", **_REMOTE, **EXCLUDE_NONE, **EDITORS)
async def plan_creation(
    workspaces: Workspaces, language: InLanguage, connection_name: Id, body: PushRequest
) -> PlannedPush:
    """Work out what a new workflow of the server would be, made from a graph. It waits for a
    decision as a push does. For editors.
    """
    place = await workspaces.of_graph(body.graph)
    push = await place.workspace.pushes.plan_create(connection_name, body.graph, place.person)
    return PlannedPush(push=_answer(push, language) if push is not None else None)


@router.get("/pushes/{push_id}", **EXCLUDE_NONE)
async def get(workspaces: Workspaces, language: InLanguage, push_id: Id) -> PushAnswer:
    """Return a push: what it writes, who decided it and how it ended."""
    _, push = await _of_id(workspaces, push_id)
    return _answer(push, language)


@router.post("/pushes/{push_id}/approve", **_REMOTE, **EXCLUDE_NONE, **EDITORS)
async def approve(workspaces: Workspaces, language: InLanguage, push_id: Id) -> PushAnswer:
    """Send a push that waits, read it back and return how it ended. On a connection with
    `approval`, for reviewers.
    """
    place, _ = await _of_id(workspaces, push_id)
    return _answer(await place.workspace.pushes.approve(push_id, place.person), language)


@router.post("/pushes/{push_id}/reject", **EXCLUDE_NONE, **EDITORS)
async def reject(workspaces: Workspaces, language: InLanguage, push_id: Id) -> PushAnswer:
    """Close a push that waits; nothing is written."""
    place, _ = await _of_id(workspaces, push_id)
    return _answer(await place.workspace.pushes.reject(push_id, place.person), language)


@router.post("/pushes/{push_id}/undo", **_REMOTE, **EXCLUDE_NONE, **EDITORS)
async def undo(workspaces: Workspaces, language: InLanguage, push_id: Id) -> PlannedPush:
    """Work out what takes a push back. It waits for a decision as any push does. For editors."""
    place, _ = await _of_id(workspaces, push_id)
    push = await place.workspace.pushes.plan_undo(push_id, place.person)
    return PlannedPush(push=_answer(push, language) if push is not None else None)


async def _of_id(workspaces: WorkspaceResolver, push_id: str) -> tuple[WorkspaceContext, Push]:
    """Returns where a push is. Raises: PushNotFound."""
    return await workspaces.first_of(
        lambda place: place.workspace.pushes.get(push_id), PushNotFound(push_id=push_id)
    )


def _answer(push: Push, language: Language) -> PushAnswer:
    return PushAnswer(
        id=push.key,
        connection=push.connection,
        graph=push.graph_key,
        workflow=push.name,
        action=push.action,
        state=push.state,
        changes=[
            PushedField(place=change.place, before=change.before, after=change.after)
            for change in push.changes
        ],
        more_changes=push.more_changes,
        problems=[_sentence(each, language) for each in push.problems],
        warnings=[_sentence(each, language) for each in push.warnings],
        effects=[_sentence(each, language) for each in push.effects],
        left_out=list(push.left_out),
        asked_by=push.asked_by,
        decided_by=push.decided_by,
        created_time=push.created_time,
        decided_time=push.decided_time,
        ended_time=push.ended_time,
        reason=_sentence(push.reason, language) if push.reason is not None else None,
        failures=[_sentence(each, language) for each in push.failures],
        can_be_undone=push.can_be_undone,
        undoes=push.undoes,
    )


def _sentence(remark: StoredRemark, language: Language) -> PushSentence:
    return PushSentence(code=remark.code, text=text(remark.code, language, **remark.facts))
