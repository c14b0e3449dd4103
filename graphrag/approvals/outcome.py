"""What the model, and the person, are told of a decision: what really happened, in few words."""

from __future__ import annotations

from graphrag.approvals.model import Approval, Outcome
from graphrag.messages import Language, message
from tools.proposals import describe

_SHOWN = 20


def outcome_text(approval: Approval, language: Language = "en") -> str:
    """Return what came of it: applied with keys, edited into what, stale because; and the feedback on it."""
    text, decision = _outcome(approval, language), approval.decision
    if decision is None or not decision.feedback or approval.is_open:
        return text
    return f"{text} {message('outcome_feedback', language).format(feedback=decision.feedback)}"


def _outcome(approval: Approval, language: Language) -> str:
    what = describe(approval.action, language)
    decision, result = approval.decision, approval.result
    by = decision.by if decision else "?"
    if approval.undone_by is not None:
        return message("outcome_undone", language).format(what=what, by=by)
    match approval.status:
        case "pending":
            code = "outcome_waits" if approval.depends_on else "outcome_pending"
            return message(code, language).format(what=what, others=", ".join(approval.depends_on))
        case "applied":
            return _applied(approval, what, by, language)
        case "rejected":
            return message("outcome_rejected", language).format(what=what, by=by)
        case "expired":
            return message("outcome_expired", language).format(what=what)
        case "stale" | "failed":
            why = reason_text(result, language)
            return message(f"outcome_{approval.status}", language).format(what=what, why=why)


def _applied(approval: Approval, what: str, by: str, language: Language) -> str:
    decision, result = approval.decision, approval.result
    keys = _keys(result, language)
    revision = result.revision if result else None
    if approval.undoes is not None:
        return message("outcome_undo", language).format(what=what, by=by, keys=keys, revision=revision)
    if decision is not None and decision.action is not None:
        instead = describe(decision.action, language)
        return message("outcome_edited", language).format(
            what=what, instead=instead, by=by, keys=keys, revision=revision
        )
    return message("outcome_applied", language).format(what=what, by=by, keys=keys, revision=revision)


def reason_text(result: Outcome | None, language: Language) -> str:
    """Return why it came to nothing."""
    if result is None or result.reason is None:
        return "?"
    return message(result.reason.code, language).format(**result.reason.facts)


def _keys(result: Outcome | None, language: Language) -> str:
    parts: list[str] = []
    for name, keys in (result.keys if result else {}).items():
        shown = ", ".join(keys[:_SHOWN]) + (f" (+{len(keys) - _SHOWN})" if len(keys) > _SHOWN else "")
        parts.append(f"{message(f'keys_{name}', language)}: {shown}")
    return "; ".join(parts) or "-"
