"""A turn in documents that no channel owns: its ending, its context, its tokens and its text.

Each channel maps these to its protocol, so that all channels say the same of a turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from graphrag.agent.events import (
    Completed,
    Ending,
    Failed,
    ProposalPending,
    QuestionAsked,
    ToolLimit,
    TurnStarted,
    UsageReported,
)
from graphrag.approvals import Approval, review_words, title
from graphrag.i18n import Language, text
from server.redaction import without_places
from tools.proposals import to_document

Document = dict[str, Any]

# Returns the address where a person decides a proposal.
Links = Callable[[Approval], str]


def ending_document(ending: Ending, language: Language) -> Document:
    """Returns how a turn ended: `{type, message, …}` with the facts of its type.

    Types: `message`, `interrupt` (proposals wait), `tool_limit`, `question` and `error`.
    """
    match ending:
        case Completed():
            return {"type": "message", "message": ending.text, **_completion(ending)}
        case ProposalPending():
            return _interrupt(ending, language)
        case ToolLimit():
            rounds = {"roundsUsed": ending.rounds_used, "maxExtended": ending.max_extended}
            return {"type": "tool_limit", "message": ending.text, **rounds}
        case QuestionAsked():
            return ending.asked.shown(ending.text)
        case Failed():
            return _error(ending, language)


def _completion(ending: Completed) -> Document:
    facts: Document = {"stopped": True} if ending.stopped else {}
    if ending.end_reason is not None:
        facts["ended"] = {"reason": ending.end_reason, "outcome": ending.outcome}
    if ending.not_in_graph is not None:
        facts["notInGraph"] = dict(ending.not_in_graph)
    return facts


def _interrupt(ending: ProposalPending, language: Language) -> Document:
    """Returns the waiting proposals; the oldest also alone, for clients that show one."""
    first = ending.approvals[0]
    action = to_document(first.action)
    document: Document = {
        "type": "interrupt",
        "message": ending.text,
        "proposedAction": action,
        "toolCall": {
            "id": first.tool_call_id,
            "name": f"propose_{action['type']}",
            "args": proposal_arguments(first),
        },
        "approvals": [
            {
                "id": approval.id,
                "toolCallId": approval.tool_call_id,
                "action": to_document(approval.action),
                **review_words(approval, language),
                "preview": approval.preview,
                "reason": approval.reason,
                "dependsOn": list(approval.depends_on),
                "expiresAt": approval.expires,
            }
            for approval in ending.approvals
        ],
    }
    diffs = code_diffs(first)
    return {**document, "codeDiffs": diffs} if diffs else document


def _error(ending: Failed, language: Language) -> Document:
    fault = ending.fault
    details: Document = {"threadId": ending.thread_id}
    if fault.retry_after_s is not None:
        details["retryAfterS"] = fault.retry_after_s
    if fault.details:
        details["reason"] = fault.details
    return {
        "type": "error",
        "message": without_places(fault.message(language)),
        "code": fault.code,
        "retryable": fault.retryable,
        "details": details,
    }


def proposal_arguments(approval: Approval) -> Document:
    """Returns the arguments of the call that made a proposal."""
    return {**to_document(approval.action)["payload"], "reason": approval.reason}


def proposal_sentence(approval: Approval, link: str, language: Language) -> str:
    """Returns the sentence that names a proposal and the address where a person decides it."""
    named = title(approval, language)
    return text("mcp_proposed", language, title=named, id=approval.id, link=link)


def code_diffs(approval: Approval) -> list[Document]:
    """Returns the code that a proposal changes, before and after."""
    changed = [*approval.preview.get("nodesChanged", []), *approval.preview.get("typesChanged", [])]
    payload = to_document(approval.action)["payload"]
    return [
        {
            "field": ".".join(field["path"]),
            "original": field.get("before") or "",
            "modified": field.get("after") or "",
            "patches": payload.get("patches") or [],
            "key": change["key"],
        }
        for change in changed
        for field in change["fields"]
        if field["path"][-1:] == ["process"]
        and isinstance(field.get("before") or "", str)
        and isinstance(field.get("after") or "", str)
    ]


def context_document(started: TurnStarted) -> list[Document]:
    """Returns the nodes that the model was shown, most relevant first, and why."""
    return [
        {"nodeKey": key, "reasons": list(started.reasons.get(key, ()))} for key in started.retrieved
    ]


def tokens_document(reports: Sequence[UsageReported]) -> Document:
    """Returns the tokens of model calls. `cost` in US dollars, absent if a price is unknown."""
    prompt = sum(report.prompt for report in reports)
    completion = sum(report.completion for report in reports)
    tokens: Document = {
        "promptTokens": prompt,
        "completionTokens": completion,
        "totalTokens": prompt + completion,
    }
    costs = [report.cost_usd for report in reports if report.cost_usd is not None]
    return {**tokens, "cost": sum(costs)} if len(costs) == len(reports) else tokens


class AnswerText:
    """The text of an answer while it is written."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._kept = 0  # pieces of earlier model calls, which are not taken back

    def __len__(self) -> int:
        return len(self._pieces)

    def __str__(self) -> str:
        return "".join(self._pieces)

    def add(self, pieces: Iterable[str]) -> None:
        """Adds what the model wrote."""
        self._pieces.extend(pieces)

    def end_call(self) -> None:
        """Keeps what was written so far: a further model call follows, or none."""
        self._kept = len(self._pieces)

    def take_back(self) -> None:
        """Removes what was written since the last model call."""
        del self._pieces[self._kept :]
