"""Approvals as REST and the WebSocket send them."""

from __future__ import annotations

from typing import Any, cast

import orjson
from fastapi import Response
from pydantic import Field

from graphrag.approvals import Approval, Status, outcome_text, review_words
from graphrag.approvals.stored_parts import SHOWN
from graphrag.approvals.wording import BROKEN
from graphrag.config import Settings
from graphrag.i18n import Language
from graphrag.i18n import text as text_of
from graphrag.importers.json_values import pieces
from graphrag.page_address import page_address
from graphrag.workers import run_limited
from server.bodies import AnswerBody
from server.channels.rest_answers import ReviewWords
from server.channels.turn_documents import code_diffs
from server.webhook_target import page_url
from server.workspaces import WorkspaceContext
from tools.proposals import to_document

# Parts of a result that only an undo and the clients that apply it need.
_INNER = ("mutation", "inverse", "irregular", "conversion", "counts")
# Units: bytes of actions, previews and results of one list. Further approvals are shortened.
MAX_LISTED = 4 * 1024 * 1024
MAX_SHORTENED_PARTS = 20


class CodeError(AnswerBody):
    """Code that cannot be parsed, of the node `key` or the type `type/NAME`. Lines start at 1."""

    key: str
    line: int


class ApprovalDocument(ReviewWords):
    """An approval as stored, without the parts that only an undo needs.

    `outcome` says what became of it. `automationId`, `scheduledTime` and `seedVersion` name the run
    that proposed it, `codemodId` the replacement over many graphs that it is part of, and
    `spokenCode` its name on the telephone. `client`: the program that proposed it (`channel`,
    `name`, `version`, `keyId`); `program`: its id. `objection`: why the reader may not decide it;
    absent if they may. `codeErrors`: new code that cannot be parsed, also listed in `warnings`.
    `shortened`: the list or the change is large, and the changes are left out here; read it by its
    id.
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
    code_errors: list[CodeError] = Field(default_factory=list[CodeError])
    decision: dict[str, Any] | None = None
    result: dict[str, Any] | None = None
    undoes: str | None = None
    undoes_also: list[str] = Field(default_factory=list[str])
    undone_by: str | None = None
    outcome: str = ""
    objection: str | None = None
    comments: list[dict[str, Any]] = Field(default_factory=list[dict[str, Any]])
    automation_id: str | None = None
    codemod_id: str | None = None
    scheduled_time: int | None = None
    seed_version: int | None = None
    voice_code: str | None = Field(default=None, alias="spokenCode")
    client: dict[str, str] | None = None
    program: str | None = None
    shortened: bool | None = None


def approval_document(
    place: WorkspaceContext, approval: Approval, language: Language
) -> ApprovalDocument:
    """Returns an approval as a person sees it."""
    person = place.person
    code = place.services.approvals.objection(approval.asker, person)
    document = approval.to_document()
    result = {k: v for k, v in document.get("result", {}).items() if k not in _INNER}
    more = {
        "action": to_document(approval.action),
        "result": result or None,
        "codeDiffs": code_diffs(approval),
        "codeErrors": [
            {"key": one.facts["key"], "line": int(one.facts["n"])}
            for one in approval.warnings
            if one.code == BROKEN
        ],
        **review_words(approval, language),
        "outcome": outcome_text(approval, language, to_person=True),
        "objection": text_of(code, language, user=person.user_id, role=person.role)
        if code
        else None,
    }
    return ApprovalDocument.model_validate({**document, **more})


class ApprovalListing:
    """The approvals of one answer: complete while there is room, then shortened."""

    def __init__(self, language: Language) -> None:
        self._language: Language = language
        self._left = MAX_LISTED

    def document(self, place: WorkspaceContext, approval: Approval) -> ApprovalDocument:
        """Returns the next document."""
        document = approval_document(place, approval, self._language)
        if SHOWN in approval.apart:  # lists do not read it
            return _shortened(document)
        parts = (
            document.action,
            document.preview,
            document.code_diffs,
            document.decision,
            document.result,
        )
        size = len(orjson.dumps(parts, option=orjson.OPT_NON_STR_KEYS))
        if size > self._left:
            return _shortened(document)
        self._left -= size
        return document


def _shortened(document: ApprovalDocument) -> ApprovalDocument:
    return document.model_copy(
        update={
            "action": {"type": document.action["type"], "payload": {}},
            "preview": {},
            "code_diffs": [],
            "parts": document.parts[:MAX_SHORTENED_PARTS],
            "decision": _without(document.decision, "action", "preview"),
            "result": _without(document.result, "keys"),
            "shortened": True,
        }
    )


def _without(document: dict[str, Any] | None, *names: str) -> dict[str, Any] | None:
    return document and {name: value for name, value in document.items() if name not in names}


async def large_answer(answer: AnswerBody, *, is_list: bool = False) -> Response:
    """Returns an answer with approvals as JSON, written in a thread.

    A single approval is written part by part, since it may hold thousands of documents. An approval
    of a list (`ApprovalListing`) is written at once, since a list is bounded by `MAX_LISTED`.
    """

    def written() -> bytes:
        return b"".join(pieces(_plain(answer), depth=2 if is_list else 5))

    return Response(await run_limited(written), media_type="application/json")


def _plain(value: Any) -> Any:
    if isinstance(value, ApprovalDocument):
        large = {"action": value.action, "preview": value.preview}
        return (
            value.model_dump(mode="json", by_alias=True, exclude_none=True, exclude=set(large))
            | large
        )
    if isinstance(value, AnswerBody):
        named = {
            info.alias or name: getattr(value, name)
            for name, info in type(value).model_fields.items()
        }
        return {name: _plain(one) for name, one in named.items() if one is not None}
    return [_plain(one) for one in cast(list[Any], value)] if isinstance(value, list) else value


def review_link(settings: Settings, approval: Approval) -> str:
    """Returns the address of a proposal in the page, where those who may decide it do so."""
    address = page_address(approval.graph_key, panel="review", approval=approval.id)
    return f"{page_url(settings)}/{address}"
