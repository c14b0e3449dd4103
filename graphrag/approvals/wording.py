"""Texts about proposals and their outcomes, for people (with names of nodes) and for models (with
keys).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, cast, final

from datasources.text import node_label
from datasources.types import Node
from graphrag.approvals.approval import Action, Approval, Outcome, Reason
from graphrag.approvals.approval_context import ApprovalContext
from graphrag.approvals.broken_code import broken_code
from graphrag.approvals.policies import FOLLOWING
from graphrag.approvals.validation import Demand
from graphrag.i18n import Language
from graphrag.i18n import text as text_of
from tools.action_keys import keys_named
from tools.actions.base import SingleAction
from tools.compact import cut_name
from tools.node_meaning import facts_of, line_of
from tools.proposals import single_actions
from tools.write_tools import Snapshot

MAX_CHARS = 60
SHOWN, SHOWN_KEYS = 5, 20
# Number of a graph's open proposals that are checked for ones that touch the same node.
MAX_OTHERS = 100
# The warning about code that cannot be parsed. Its values: `node`, `key` and the line `n`.
BROKEN = "warning_code_broken"
# Levels that require a person for all classes, so the classes are not listed.
_WHOLE = ("session", "request")


def labels_of(
    action: Action, snapshot: Snapshot, others: Iterable[Approval] = ()
) -> dict[str, str]:
    """Returns the display names of the nodes, `type/NAME`s and `edge/KEY`s in an action.

    `others` may create some of them.
    """
    labels: dict[str, str] = {}
    for other in others:
        labels |= names_in(other.preview)
    labels |= {key: node_label(n, snapshot.type_of(n.type)) for key, n in snapshot.nodes.items()}
    for key, edge in snapshot.edges.items():
        ends = (labels.get(end, end) for end in (edge.source, edge.target))
        labels[f"edge/{key}"] = " → ".join(_short(end) for end in ends)
    labels |= {f"type/{name}": config.display_name for name, config in snapshot.types.items()}
    singles = [single for _, single in single_actions(action) if single.names_nodes]
    wanted: set[str] = set()
    for single in singles:
        wanted |= keys_named(single, "node")
        wanted |= {
            f"{kind}/{name}" for kind in ("edge", "type") for name in keys_named(single, kind)
        }
    return {name: _short(label) for name, label in labels.items() if name in wanted}


def names_in(preview: Mapping[str, Any]) -> dict[str, str]:
    """Returns the names of the nodes that a change creates, changes and deletes, by key."""
    whole: Iterable[Mapping[str, Any]] = [
        *preview.get("nodesRemoved", ()),
        *preview.get("nodesAdded", ()),
    ]
    names = {str(change["key"]): str(change["name"]) for change in preview.get("nodesChanged", ())}
    names |= {str(node["_key"]): _name_in(node.get("data")) or str(node["type"]) for node in whole}
    return {key: _short(name) for key, name in names.items()}


def title(approval: Approval, language: Language, action: Action | None = None) -> str:
    """Returns the title of a proposal, as “rename “Fetch” to “Get players””; by default of its
    effective action.
    """
    words = _Titles(approval.labels, language)
    singles = [single for _, single in single_actions(action or approval.effective_action)]
    parts = [single.title(words) for single in singles[:SHOWN]]
    if len(singles) == 1:
        return parts[0]
    shown = "; ".join(parts) + ("; …" if len(singles) > SHOWN else "")
    return words.says("batch", count=len(singles), parts=shown)


def _short(text: str) -> str:
    return cut_name(text, MAX_CHARS)


def _name_in(data: Any) -> str | None:
    name = cast(Mapping[str, Any], data).get("name") if isinstance(data, Mapping) else None
    return name if isinstance(name, str) and name.strip() else None


@final
class _Titles:
    """Writes titles in a language. `labels`: those of `labels_of`; other elements are named by
    their keys.
    """

    def __init__(self, labels: Mapping[str, str], language: Language) -> None:
        self._labels = labels
        self._language: Language = language

    def says(self, code: str, /, **facts: Any) -> str:
        return text_of(f"title_{code}", self._language, **facts)

    def label(self, name: str) -> str:
        return self._labels.get(name) or _short(name.partition("/")[2] if "/" in name else name)

    def short(self, text: str) -> str:
        return _short(text)


def review_words(approval: Approval, language: Language) -> dict[str, Any]:
    """Returns the texts and facts of a proposal for channels, under the names of the client
    protocol.

    Shapes: `title`; `parts`: [{where, text, asked, does}], one per action; `asked`: the levels and
    classes that require a person, as `graph: delete; session`; `does`: the effect of a new node, if
    known from its data; `warnings`: sentences; `needsPerson`; `byPolicy`.
    """
    words = _Titles(approval.labels, language)
    singles = list(single_actions(approval.action))
    titles = [(where, single.title(words)) for where, single in singles]
    does = {where: line for where, single in singles if (line := _effect(approval, single))}
    if any(one.where == FOLLOWING for one in approval.reasons):
        titles.append((FOLLOWING, text_of("title_references", language)))
    asked: dict[str, list[Demand]] = {where: [] for where, _ in titles}
    for one in approval.reasons:
        asked.setdefault(one.where, []).append(one)
    return {
        "title": title(approval, language),
        "parts": [
            {
                "where": where,
                "text": text,
                "asked": _asked_by(asked[where], language),
                **({"does": does[where]} if where in does else {}),
            }
            for where, text in titles
        ],
        "asked": _asked_by(approval.reasons, language),
        "warnings": [
            text_of(
                one.code, language, **{k: int(v) if k == "n" else v for k, v in one.facts.items()}
            )
            for one in approval.warnings
        ],
        "needsPerson": approval.needs_person,
        "byPolicy": approval.is_by_policy,
    }


def _effect(approval: Approval, single: SingleAction) -> str | None:
    """Returns the effect of a node that an action creates, on one line."""
    new = single.effects().creates
    if new is None:
        return None
    node = Node(
        key=new.key or "new",
        graph_key=approval.graph_key,
        type=new.type_key,
        data=new.data,
        process=new.process,
    )
    return line_of(facts_of(node))


def _asked_by(reasons: Iterable[Demand], language: Language) -> str:
    """Returns the levels that require a person, each with its classes of change."""
    by_level: dict[tuple[str, str], set[str]] = {}
    for one in reasons:
        by_level.setdefault((one.level, one.name), set()).update(one.classes)
    parts: list[str] = []
    for (level, name), classes in by_level.items():
        level_text = text_of(f"level_{level}", language, **({"name": name} if name else {}))
        shown = ", ".join(text_of(f"class_{one}", language) for one in sorted(classes))
        parts.append(
            level_text
            if level in _WHOLE
            else text_of("asked_for", language, level=level_text, classes=shown)
        )
    return "; ".join(parts)


async def warnings_of(
    context: ApprovalContext, approval: Approval, snapshot: Snapshot
) -> tuple[Reason, ...]:
    """Returns warnings for the person who decides, as of the time of the proposal."""
    warnings: list[Reason] = []
    labels = approval.labels
    singles = [single for _, single in single_actions(approval.action)]
    configured = {kind.type_key for single in singles if (kind := single.effects().configures)}
    stats = await context.source.get_stats(approval.graph_key) if configured else None
    for name in sorted(configured):
        if stats is not None and (count := stats.types.get(name, 0)):
            facts = {"type": labels.get(f"type/{name}", name), "n": str(count)}
            warnings.append(Reason(code="warning_type_used", facts=facts))
    if any("code" in single.classes() for single in singles):
        warnings.append(Reason(code="warning_code"))
    for broken in await asyncio.to_thread(broken_code, approval.action, snapshot):
        facts = {
            "node": _display_name(approval, broken.key),
            "n": str(broken.line),
            "key": broken.key,
        }
        warnings.append(Reason(code=BROKEN, facts=facts))
    named = keys_named(approval.action, "node")
    always: Any = (snapshot.graph.metadata or {}).get("alwaysSend")
    for key in [key for key in sorted(named) if isinstance(always, list) and key in always][:SHOWN]:
        warnings.append(Reason(code="warning_always_sent", facts={"node": labels.get(key, key)}))
    open_now = await context.waiting(graph_key=approval.graph_key, limit=MAX_OTHERS)
    shared = {min(keys) for one in open_now if (keys := named & keys_named(one.action, "node"))}
    for key in sorted(shared)[:SHOWN]:
        warnings.append(Reason(code="warning_touched_too", facts={"node": labels.get(key, key)}))
    return tuple(warnings)


def _display_name(approval: Approval, key: str) -> str:
    """Returns the display name of a node, new or existing, or of `type/NAME`."""
    names = {**approval.labels, **names_in(approval.preview)}
    return names.get(key) or _short(key.removeprefix("type/"))


def outcome_text(approval: Approval, language: Language = "en", *, to_person: bool = False) -> str:
    """Returns the outcome (status, and the reason if it failed) and the feedback.

    For models it contains the keys of changed elements, for people their names.
    """
    decision = approval.decision
    result = approval.result
    edited = decision.action if decision else None
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
    text = text_of(f"outcome_{_code(approval)}", language, **facts)
    if decision is None or not decision.feedback or approval.is_open:
        return text
    return f"{text} {text_of('outcome_feedback', language, feedback=decision.feedback)}"


def outcome_facts(approval: Approval, language: Language = "en") -> dict[str, Any]:
    """Returns the outcome as facts: status, the change in words, the reason of a failure, feedback,
    created nodes.
    """
    decision = approval.decision
    result = approval.result
    facts = {
        "status": _code(approval),
        "what": title(approval, language),
        "why": reason_text(result, language) if approval.status in ("stale", "failed") else "",
        "feedback": decision.feedback if decision else "",
        "created": list(result.keys.get("nodesCreated", ()))[:SHOWN_KEYS] if result else [],
    }
    return {name: value for name, value in facts.items() if value}


def _code(approval: Approval) -> str:
    """Returns the code of the text about the outcome."""
    if approval.status == "pending":
        return "waits" if approval.depends_on else "pending"
    if approval.status != "applied":
        return approval.status
    if approval.undone_by is not None:
        return "undone"
    if approval.undoes is not None:
        return "undo"
    if approval.is_by_policy:
        return "policy"
    return "edited" if approval.decision and approval.decision.action else "applied"


def reason_text(result: Outcome | None, language: Language) -> str:
    """Returns the reason of a failure."""
    if result is None or result.reason is None:
        return "?"
    return text_of(result.reason.code, language, **result.reason.facts)


def _keys(approval: Approval, language: Language, *, to_person: bool) -> str:
    names = {**approval.labels, **names_in(approval.effective_preview)} if to_person else {}
    parts: list[str] = []
    counts = (approval.result.counts if approval.result else None) or {}
    for kind, keys in (approval.result.keys if approval.result else {}).items():
        shown = ", ".join(names.get(key, key) for key in keys[:SHOWN_KEYS])
        count = counts.get(kind, len(keys))
        shown += f" (+{count - SHOWN_KEYS})" if count > SHOWN_KEYS else ""
        if to_person and kind.startswith("edges"):
            shown = str(count)
        parts.append(f"{text_of(f'keys_{kind}', language)}: {shown}")
    return "; ".join(parts) or "-"
