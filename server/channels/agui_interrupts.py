"""What a turn waits for as interrupts of AG-UI, and the answers to these.

Source: AG-UI 1.0, interrupts and resume.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from ag_ui.core import Interrupt
from pydantic import ConfigDict, Field, ValidationError

from graphrag.agent.events import PendingQuestion, ProposalPending, QuestionAsked, ToolLimit
from graphrag.approvals import review_words
from graphrag.approvals.approval import MAX_FEEDBACK
from graphrag.i18n import Language, text
from server.bodies import Id, RequestBody
from server.channels.turn_documents import Links, ending_document
from tools.proposals import to_document
from tools.session_tools import Response, WrongResponse

# Units: characters of JSON. A larger proposal is sent with its title and link alone.
MAX_CARD = 32_768
MAX_CARDS = 8 * MAX_CARD  # of all proposals of a turn

# Prefixes of the ids of these interrupts.
QUESTION = "question/"
LIMIT = "rounds/"


class ProtocolForm(RequestBody):
    """A form that AG-UI clients send. Unknown fields are ignored, as the protocol demands."""

    model_config = ConfigDict(extra="ignore")


class ResumeAnswer(ProtocolForm):
    """The answer to one interrupt. `payload`: of a proposal `{approved, feedback, editedAction}`,
    of a limit `{approved}`, of a question `{response}`; a plain value stands for its first field. A
    proposal that is `cancelled` is rejected, a limit is not raised, a question gets no answer.
    """

    interrupt_id: Id
    status: Literal["resolved", "cancelled"]
    payload: Any = None


class DecisionPayload(RequestBody):
    approved: bool
    feedback: Annotated[str, Field(max_length=MAX_FEEDBACK)] | None = None
    edited_action: dict[str, Any] | None = None


_REFUSED = DecisionPayload.model_validate({"approved": False})
_DECISION_SCHEMA = DecisionPayload.model_json_schema()
_GRANT_SCHEMA = {
    "type": "object",
    "properties": {"approved": {"type": "boolean"}},
    "required": ["approved"],
}


def decision_payload(answer: ResumeAnswer) -> DecisionPayload:
    """Returns the decision in an answer. Raises: WrongResponse."""
    if answer.status == "cancelled":
        return _REFUSED
    given: Any = (
        {"approved": answer.payload} if isinstance(answer.payload, bool) else answer.payload
    )
    try:
        return DecisionPayload.model_validate(given)
    except ValidationError:
        allowed = "true, false, {approved, feedback, editedAction}"
        raise WrongResponse(allowed=allowed) from None


def response_of(answer: ResumeAnswer) -> Response:
    """Returns a person's answer to a question. Raises: WrongResponse."""
    given = answer.payload
    if isinstance(given, Mapping):
        given = given.get("response")  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    if not isinstance(given, str | bool):
        raise WrongResponse(allowed='{response: "…"}')
    return given


def question_id(asked: PendingQuestion) -> str:
    return f"{QUESTION}{asked.call_id}"


def limit_id(turn: int) -> str:
    return f"{LIMIT}{turn}"


def json_size(value: Any, most: int) -> int | None:
    """Returns the number of characters of a value as JSON, None if it is more than `most`."""
    size = 0
    for piece in json.JSONEncoder().iterencode(value):
        size += len(piece)
        if size > most:
            return None
    return size


def of_proposals(waiting: ProposalPending, language: Language, link: Links) -> list[Interrupt]:
    """Returns an interrupt for each proposal, with its card while there is room."""
    interrupts: list[Interrupt] = []
    room = MAX_CARDS
    for approval in waiting.approvals:
        words = review_words(approval, language)
        card = {"id": approval.id, "link": link(approval), **words, "reason": approval.reason}
        whole = {**card, "action": to_document(approval.action), "preview": approval.preview}
        size = json_size(whole, min(room, MAX_CARD))
        if size is None:
            whole = {
                "id": approval.id,
                "link": card["link"],
                "title": words["title"],
                "shortened": True,
            }
        else:
            room -= size
        interrupts.append(
            Interrupt(
                id=approval.id,
                reason="tool_call",
                message=words["title"],
                tool_call_id=approval.tool_call_id,
                response_schema=_DECISION_SCHEMA,
                expires_at=datetime.fromtimestamp(approval.expires / 1000, UTC).isoformat(),
                metadata={"nodius": whole},
            )
        )
    return interrupts


def of_question(waiting: QuestionAsked) -> Interrupt:
    card = waiting.asked.question.card
    one_of: list[dict[str, Any]] = [{"enum": card["responses"]}]
    if card["freeText"]:
        one_of.append({"type": "string", "minLength": 1, "maxLength": card["freeText"]})
    return Interrupt(
        id=question_id(waiting.asked),
        reason="input_required",
        message=card["text"],
        tool_call_id=waiting.asked.call_id,
        response_schema={
            "type": "object",
            "properties": {"response": {"anyOf": one_of}},
            "required": ["response"],
        },
        metadata={"nodius": card},
    )


def of_limit(waiting: ToolLimit, turn: int, language: Language) -> Interrupt:
    document = ending_document(waiting, language)
    facts = {name: document[name] for name in ("roundsUsed", "maxExtended")}
    return Interrupt(
        id=limit_id(turn),
        reason="tool_limit",
        message=text(
            "agui_tool_limit", language, used=waiting.rounds_used, most=waiting.max_extended
        ),
        response_schema=_GRANT_SCHEMA,
        metadata={"nodius": facts},
    )
