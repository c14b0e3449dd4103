"""Words what a person reviews of a proposal: a sentence for each action, who asked for a person, warnings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from graphrag.approvals.approval import Approval, Reason
from graphrag.approvals.approval_context import ApprovalContext
from graphrag.approvals.policies import FOLLOWING
from graphrag.approvals.titles import part_titles, title
from graphrag.approvals.validation import Demand, classes_of
from graphrag.i18n import Language
from graphrag.i18n import text as text_of
from tools.proposals import ConfigureNodeTypeAction, single_actions
from tools.write_tools import Snapshot
from tools.write_tools.graph_reads import nodes_named

MAX_OTHERS = 100
"""Open proposals of a graph that are looked at for one that touches the same node."""
SHOWN = 5
_WHOLE = ("session", "request")
"""Levels that demand a person for everything: their classes are not named."""


def review_words(approval: Approval, language: Language) -> dict[str, Any]:
    """Return what channels show of a proposal, under the names that clients know.

    Shapes: `title`; `parts`: [{where, text, asked}], one an action; `asked`: the levels and classes that
    want a person, as `graph: delete; session`; `warnings`: sentences; `needsPerson`; `byPolicy`.
    """
    titles = part_titles(approval, language)
    following = [one for one in approval.reasons if one.where == FOLLOWING]
    if following:
        titles.append((FOLLOWING, text_of("title_references", language)))
    return {
        "title": title(approval, language),
        "parts": [
            {"where": where, "text": said, "asked": asked_by(_at(approval, where), language)}
            for where, said in titles
        ],
        "asked": asked_by(approval.reasons, language),
        "warnings": [_warning(one, language) for one in approval.warnings],
        "needsPerson": approval.needs_person,
        "byPolicy": approval.is_by_policy,
    }


def _warning(warning: Reason, language: Language) -> str:
    facts: dict[str, Any] = dict(warning.facts)
    return text_of(warning.code, language, **facts | ({"n": int(facts["n"])} if "n" in facts else {}))


def _at(approval: Approval, where: str) -> list[Demand]:
    return [one for one in approval.reasons if one.where == where]


def asked_by(reasons: Iterable[Demand], language: Language) -> str:
    """Return the levels that want a person, each with the classes of change for which it does."""
    found: dict[tuple[str, str], set[str]] = {}
    for one in reasons:
        found.setdefault((one.level, one.name), set()).update(one.classes)
    parts: list[str] = []
    for (level, name), classes in found.items():
        said = text_of(f"level_{level}", language, **({"name": name} if name else {}))
        shown = ", ".join(text_of(f"class_{one}", language) for one in sorted(classes))
        parts.append(said if level in _WHOLE else text_of("asked_for", language, level=said, classes=shown))
    return "; ".join(parts)


async def warnings_of(context: ApprovalContext, approval: Approval, snapshot: Snapshot) -> tuple[Reason, ...]:
    """Return what a person should know before they decide, as it is when the proposal is made."""
    found: list[Reason] = []
    singles = [single for _, single in single_actions(approval.action)]
    configured = {s.payload.type_key for s in singles if isinstance(s, ConfigureNodeTypeAction)}
    stats = await context.source.get_stats(approval.graph_key) if configured else None
    for name in sorted(configured):
        if stats is not None and (count := stats.types.get(name, 0)):
            facts = {"type": approval.labels.get(f"type/{name}", name), "n": str(count)}
            found.append(Reason(code="warning_type_used", facts=facts))
    if any("code" in classes_of(single) for single in singles):
        found.append(Reason(code="warning_code"))
    named = nodes_named(approval.action)
    always: Any = (snapshot.graph.metadata or {}).get("alwaysSend")
    sent = [key for key in sorted(named) if isinstance(always, list) and key in always]
    found += [_about(approval, "warning_always_sent", node=key) for key in sent[:SHOWN]]
    open_now = await context.waiting(graph_key=approval.graph_key, limit=MAX_OTHERS)
    shared = [(one.id, named & nodes_named(one.action)) for one in open_now]
    for other, keys in [(other, keys) for other, keys in shared if keys][:SHOWN]:
        found.append(_about(approval, "warning_touched_too", node=min(keys), other=other))
    return tuple(found)


def _about(approval: Approval, code: str, *, node: str, **facts: str) -> Reason:
    return Reason(code=code, facts={"node": approval.labels.get(node, node), **facts})
