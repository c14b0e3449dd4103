"""Words the outcome of a decision for the model and the person: what really happened."""

from __future__ import annotations

from typing import Any

from graphrag.approvals.approval import Approval, Outcome
from graphrag.approvals.titles import names_in, title
from graphrag.i18n import Language
from graphrag.i18n import text as text_of

_SHOWN = 20


def outcome_text(approval: Approval, language: Language = "en", *, to_person: bool = False) -> str:
    """Return what came of it: applied, edited into what, stale because; and the feedback on it.

    A model is given the keys of what changed, a person names.
    """
    text, decision = _outcome(approval, language, to_person=to_person), approval.decision
    if decision is None or not decision.feedback or approval.is_open:
        return text
    return f"{text} {text_of('outcome_feedback', language, feedback=decision.feedback)}"


def outcome_facts(approval: Approval, language: Language = "en") -> dict[str, Any]:
    """Return what came of it as facts: its status, the change in words, why not, feedback, created nodes."""
    decision, edited = approval.decision, _edited(approval)
    facts = {
        "status": _code(approval),
        "what": title(approval, language, edited or approval.action),
        "why": reason_text(approval.result, language) if approval.status in ("stale", "failed") else "",
        "feedback": decision.feedback if decision else "",
        "created": list(approval.result.keys.get("nodesCreated", ()))[:_SHOWN] if approval.result else [],
    }
    return {name: value for name, value in facts.items() if value}


def _outcome(approval: Approval, language: Language, *, to_person: bool) -> str:
    decision, result, edited = approval.decision, approval.result, _edited(approval)
    facts: dict[str, Any] = {
        "what": title(approval, language, approval.action),
        "by": decision.by if decision else "?",
        "others": ", ".join(approval.depends_on),
        "keys": _keys(approval, language, to_person=to_person),
        "revision": result.revision if result else None,
        "why": reason_text(result, language) if approval.status in ("stale", "failed") else "",
    }
    if edited is not None:
        facts["instead"] = title(approval, language, edited)
    return text_of(f"outcome_{_code(approval)}", language, **facts)


def _edited(approval: Approval) -> Any:
    return approval.decision.action if approval.decision else None


def _code(approval: Approval) -> str:
    """Return which text says what came of it."""
    match approval.status:
        case "pending":
            return "waits" if approval.depends_on else "pending"
        case "applied" if approval.undone_by is not None:
            return "undone"
        case "applied" if approval.undoes is not None:
            return "undo"
        case "applied" if approval.is_by_policy:
            return "policy"
        case "applied":
            return "applied" if _edited(approval) is None else "edited"
        case _:
            return approval.status


def reason_text(result: Outcome | None, language: Language) -> str:
    """Return why it came to nothing."""
    if result is None or result.reason is None:
        return "?"
    return text_of(result.reason.code, language, **result.reason.facts)


def _keys(approval: Approval, language: Language, *, to_person: bool) -> str:
    names = {**approval.labels, **names_in(approval.effective_preview)} if to_person else {}
    parts: list[str] = []
    for kind, keys in (approval.result.keys if approval.result else {}).items():
        shown = ", ".join(names.get(key, key) for key in keys[:_SHOWN])
        shown += f" (+{len(keys) - _SHOWN})" if len(keys) > _SHOWN else ""
        if to_person and kind.startswith("edges"):
            shown = str(len(keys))
        parts.append(f"{text_of(f'keys_{kind}', language)}: {shown}")
    return "; ".join(parts) or "-"
