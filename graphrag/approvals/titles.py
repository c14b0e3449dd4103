"""Makes the titles of actions, in a person's words: names of nodes and types, no keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from datasources.text import node_label
from graphrag.approvals.approval import Action, Approval
from graphrag.approvals.pending_changes import types_named
from graphrag.i18n import Language
from graphrag.i18n import text as text_of
from tools.compact import cut_name
from tools.proposal_parts import UpdateNode
from tools.proposals import SingleAction, single_actions
from tools.write_tools import Snapshot
from tools.write_tools.graph_reads import edges_named, nodes_named

MAX_CHARS = 60
_UNNAMED = ("reorganize_layout", "import_file")
"""Actions whose title counts nodes instead of naming them."""

SHOWN = 5


def labels_of(action: Action, snapshot: Snapshot, others: Iterable[Approval] = ()) -> dict[str, str]:
    """Return what people call the nodes, `type/NAME`s and `edge/KEY`s that an action names.

    `others` may create some of them.
    """
    found: dict[str, str] = {}
    for other in others:
        found |= names_in(other.preview)
    found |= {key: node_label(n, snapshot.type_of(n.type)) for key, n in snapshot.nodes.items()}
    for key, edge in snapshot.edges.items():
        ends = (found.get(end, end) for end in (edge.source, edge.target))
        found[f"edge/{key}"] = " → ".join(_short(end) for end in ends)
    found |= {f"type/{name}": config.display_name for name, config in snapshot.types.items()}
    singles = [single for _, single in single_actions(action) if single.type not in _UNNAMED]
    wanted = {f"type/{name}" for name in types_named(singles)}
    wanted |= {name for single in singles for name in nodes_named(single)}
    wanted |= {f"edge/{name}" for single in singles for name in edges_named(single)}
    return {name: _short(label) for name, label in found.items() if name in wanted}


def names_in(preview: Mapping[str, Any]) -> dict[str, str]:
    """Return the names of the nodes that a change creates, changes and deletes, by key."""
    whole: Iterable[Mapping[str, Any]] = [*preview.get("nodesRemoved", ()), *preview.get("nodesAdded", ())]
    found = {str(change["key"]): str(change["name"]) for change in preview.get("nodesChanged", ())}
    found |= {str(node["_key"]): _name_in(node.get("data")) or str(node["type"]) for node in whole}
    return {key: _short(name) for key, name in found.items()}


def title(approval: Approval, language: Language, action: Action | None = None) -> str:
    """Return what a proposal does, as “rename “Fetch” to “Get players””; without `action` what it came to."""
    return _Titles(approval.labels, language).of(action or approval.effective_action)


def part_titles(approval: Approval, language: Language) -> list[tuple[str, str]]:
    """Return each action of a proposal as (its place, as `actions.2`; what it does)."""
    titles = _Titles(approval.labels, language)
    return [(where, titles.of(single)) for where, single in single_actions(approval.action)]


def _short(text: str) -> str:
    return cut_name(text, MAX_CHARS)


def _name_in(data: Any) -> str | None:
    name = cast(Mapping[str, Any], data).get("name") if isinstance(data, Mapping) else None
    return name if isinstance(name, str) and name.strip() else None


class _Titles:
    """`labels` as `labels_of` makes them; what has none is called by its key."""

    def __init__(self, labels: Mapping[str, str], language: Language) -> None:
        self._labels = labels
        self._language: Language = language

    def of(self, action: Action) -> str:
        parts = [self._single(single) for _, single in single_actions(action)]
        if len(parts) == 1:
            return parts[0]
        shown = "; ".join(parts[:SHOWN]) + ("; …" if len(parts) > SHOWN else "")
        return self._says("batch", count=len(parts), parts=shown)

    def _says(self, code: str, /, **facts: Any) -> str:
        return text_of(f"title_{code}", self._language, **facts)

    def _label(self, name: str) -> str:
        return self._labels.get(name) or _short(name.partition("/")[2] if "/" in name else name)

    def _single(self, single: SingleAction) -> str:
        payload: Any = single.payload
        match single.type:
            case "create_node" | "create_node_with_edges":
                return self._new(payload)
            case "update_node":
                return self._update(payload)
            case "delete_node":
                return self._says("delete", name=self._label(payload.node_key))
            case "move_node":
                where = {"x": payload.pos_x, "y": payload.pos_y}
                return self._says("move", name=self._label(payload.node_key), **where)
            case "create_edge":
                ends = {"source": self._label(payload.source_key), "target": self._label(payload.target_key)}
                return self._says("connect", **ends)
            case "delete_edge":
                return self._says("disconnect", name=self._label(f"edge/{payload.edge_key}"))
            case "configure_node_type":
                return self._says(f"type_{payload.mode}", name=self._label(f"type/{payload.type_key}"))
            case "reorganize_layout":
                return self._says("arrange", count=len(payload.node_keys))
            case "import_file":
                kind = "conflicts" if payload.count else "import"
                return self._says(kind, n=payload.count, file=_short(payload.file))

    def _new(self, new: Any) -> str:
        kind, name = self._label(f"type/{new.type_key}"), _name_in(new.data)
        text = self._says("create", name=_short(name), type=kind) if name else self._says("new", type=kind)
        ends = dict.fromkeys(self._label(edge.target_node_key) for edge in getattr(new, "edges", ()))
        return self._says("connected", what=text, names=", ".join(list(ends)[:SHOWN])) if ends else text

    def _update(self, payload: UpdateNode) -> str:
        old, new = self._label(payload.node_key), payload.changes.get("data.name")
        renames = isinstance(new, str)
        others = [path for path in payload.changes if not (renames and path == "data.name")]
        others += ["process"] if payload.patches else []
        code = text_of("title_code", self._language)
        fields = [code if path == "process" else path.removeprefix("data.") for path in others]
        shown = _short(", ".join(fields[:SHOWN]) + (", …" if len(fields) > SHOWN else ""))
        if not renames:
            return self._says("change", name=old, fields=shown)
        text = self._says("rename", name=old, new=_short(str(new)))
        return self._says("also", what=text, fields=shown) if fields else text
