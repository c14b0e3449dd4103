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


def _outcome(approval: Approval, language: Language, *, to_person: bool) -> str:
    decision, result = approval.decision, approval.result
    edited = decision.action if decision else None
    facts: dict[str, Any] = {
        "what": title(approval, language, approval.action),
        "by": decision.by if decision else "?",
        "others": ", ".join(approval.depends_on),
        "keys": _keys(approval, language, to_person=to_person),
        "revision": result.revision if result else None,
    }
    if edited is not None:
        facts["instead"] = title(approval, language, edited)
    match approval.status:
        case "pending":
            code = "waits" if approval.depends_on else "pending"
        case "applied" if approval.undone_by is not None:
            code = "undone"
        case "applied" if approval.undoes is not None:
            code = "undo"
        case "applied":
            code = "applied" if edited is None else "edited"
        case "stale" | "failed":
            code = approval.status
            facts["why"] = reason_text(result, language)
        case _:
            code = approval.status
    return text_of(f"outcome_{code}", language, **facts)


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
