"""REST of the programs that propose from outside: those seen, what each may propose, undoing one."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from pydantic import Field

from graphrag.approvals.programs import MAX_ID, Program, ProgramRule, RuleDeciders
from graphrag.approvals.validation import ActionClass
from graphrag.i18n import Language
from server.approval_documents import ApprovalDocument, ApprovalListing
from server.error_responses import error_response
from server.openapi_errors import ERRORS
from server.requests import EXCLUDE_NONE, AnswerBody, InLanguage, RequestBody, Workspaces
from server.rest_review import NotDecided

router = APIRouter(prefix="/api/programs", tags=["review"], responses=ERRORS)
ProgramId = Annotated[str, Field(min_length=1, max_length=MAX_ID)]


class RuleDocument(AnswerBody):
    """What a program may propose: of these `classes`, so many `daily`; without them, all. `deciders`: who
    decides it. Nothing is taken from a `blocked` one."""

    classes: list[ActionClass] | None = None
    daily: int | None = None
    deciders: RuleDeciders = "workspace"
    blocked: bool = False


class ProgramDocument(AnswerBody):
    """A program that proposed, or that a rule is for; `client` as it named itself last (`channel`, `name`,
    `version`, `keyId`). `today`: what counted against its rule's `daily`. Units: times in milliseconds since
    1970."""

    id: str
    client: dict[str, str]
    first: int | None = Field(default=None, alias="firstTime")
    last: int | None = Field(default=None, alias="lastTime")
    proposed: int = 0
    today: int = 0
    rule: RuleDocument | None = None


class ProgramList(AnswerBody):
    programs: list[ProgramDocument]


def _listed(found: list[Program]) -> ProgramList:
    return ProgramList(programs=[ProgramDocument.model_validate(one) for one in found])


@router.get("", **EXCLUDE_NONE)
async def programs(workspaces: Workspaces) -> ProgramList:
    """List the programs that proposed from outside (MCP, AG-UI, OpenAI's interface, REST) or have a rule."""
    place = await workspaces.one()
    return _listed(await place.services.approvals.programs(place.person))


class RuleRequest(RequestBody):
    """`program`: `key:ID` of an API key, `CHANNEL/NAME` or `CHANNEL`; the most special rule holds alone.
    Without `rule` its rule is removed."""

    class Rule(RequestBody):
        classes: Annotated[list[ActionClass], Field(max_length=6)] | None = None
        daily: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
        deciders: RuleDeciders = "workspace"
        blocked: bool = False

    program: ProgramId
    rule: Rule | None = None


@router.put("/rule", **EXCLUDE_NONE)
async def set_rule(workspaces: Workspaces, body: RuleRequest) -> ProgramList:
    """Say what a program may propose; the audit log keeps it."""
    place = await workspaces.one()
    given, rule = body.rule, None
    if given is not None:
        rule = ProgramRule(
            classes=None if given.classes is None else tuple(given.classes),
            daily=given.daily,
            deciders=given.deciders,
            blocked=given.blocked,
        )
    return _listed(await place.services.approvals.set_program_rule(body.program, rule, place.person))


class ProgramUndone(AnswerBody):
    """The undos, and the changes that stand because later ones rest on them, with why."""

    undone: list[ApprovalDocument]
    refused: list[NotDecided]


class UndoProgramRequest(RequestBody):
    program: ProgramId


@router.post("/undo", **EXCLUDE_NONE)
async def undo(workspaces: Workspaces, language: InLanguage, body: UndoProgramRequest) -> ProgramUndone:
    """Undo all changes of a program that were applied and stand, the latest first."""
    place = await workspaces.one()
    found = await place.services.approvals.undo_program(body.program, place.person)
    refused = [_refused(approval.id, exc, language) for approval, exc in found.refused]
    listing = ApprovalListing(language)
    return ProgramUndone(undone=[listing.document(place, one) for one in found.done], refused=refused)


def _refused(approval_id: str, exc: Exception, language: Language) -> NotDecided:
    said = error_response(exc, language)
    return NotDecided(id=approval_id, code=said.code, message=said.message)
