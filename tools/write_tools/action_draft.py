"""Applies an action to a draft of the graph, and collects what does not fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from datasources.errors import BadDocument, InstructionError
from datasources.types import Handles, Node
from tools.base import Problem
from tools.proposal_parts import CreateNode
from tools.proposals import (
    CreateNodeAction,
    CreateNodeWithEdgesAction,
    DeleteEdgeAction,
    DeleteNodeAction,
    SingleAction,
    UpdateNodeAction,
)
from tools.write_tools.field_changes import changed_node, fault_of_change
from tools.write_tools.graph_reads import Snapshot
from tools.write_tools.type_checks import at, handles_from, handles_of_types, repeated_handles

_SHOWN = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """The graph as an action leaves it. `created` are new nodes by the keys the action calls them."""

    snapshot: Snapshot
    created: Mapping[str, CreateNode]
    changed: Mapping[str, Node]
    gone: frozenset[str]
    cut: frozenset[str]
    types: Mapping[str, Handles]
    problems: list[Problem] = field(default_factory=list[Problem])

    def knows(self, key: str) -> bool:
        return key in self.created or key in self.snapshot.nodes

    def sheet_of(self, key: str) -> str | None:
        """Return a node's sheet; None for a new node whose sheet is still to be chosen."""
        if key in self.created:
            return self.created[key].sheet
        return self.snapshot.nodes[key].sheet

    def handles_of(self, key: str) -> Handles:
        if key in self.created:
            own = handles_from(self.created[key].handles)
            return self._handles_of_type(self.created[key].type_key) if own is None else own
        node = self.changed.get(key) or self.snapshot.nodes[key]
        return node.handles or self._handles_of_type(node.type)

    def _handles_of_type(self, name: str) -> Handles:
        if name in self.types:
            return self.types[name]
        config = self.snapshot.type_of(name)
        return config.node.handles if config else {}


def draft_of(singles: Sequence[tuple[str, SingleAction]], snapshot: Snapshot) -> Draft:
    """Return the graph after the action, with the problems of what it changes."""
    created: dict[str, CreateNode] = {}
    changed: dict[str, Node] = {}
    problems: list[Problem] = []
    gone = {s.payload.node_key for _, s in singles if isinstance(s, DeleteNodeAction)}
    cut = {s.payload.edge_key for _, s in singles if isinstance(s, DeleteEdgeAction)}
    for where, single in singles:
        if isinstance(single, CreateNodeAction | CreateNodeWithEdgesAction) and single.payload.key:
            key = single.payload.key
            if key in created or key in snapshot.nodes:
                whose = "another new node" if key in created else "a node of the graph"
                problems.append(Problem(where=at(where, "key"), what=f"{key[:_SHOWN]!r} is taken by {whose}"))
            created.setdefault(key, single.payload)
        if isinstance(single, UpdateNodeAction):
            node = changed.get(single.payload.node_key) or snapshot.nodes.get(single.payload.node_key)
            if node is not None:
                new, found = _changed(node, single, where)
                changed[node.key] = new
                problems.extend(found)
    return Draft(
        snapshot=snapshot,
        created=created,
        changed=changed,
        gone=frozenset(gone),
        cut=frozenset(cut),
        types=handles_of_types(singles, snapshot, problems),
        problems=problems,
    )


def _changed(node: Node, single: UpdateNodeAction, where: str) -> tuple[Node, list[Problem]]:
    problems: list[Problem] = []
    for name, value in single.payload.changes.items():
        place = at(where, f"changes.{name[:_SHOWN]}")
        what = fault_of_change(node, name)
        if what is None:
            try:
                new = changed_node(node, {name: value})
            except InstructionError as exc:
                what = exc.reason
            except BadDocument as exc:
                what = f"{exc.field}: {exc.reason}"
            else:
                what = _problem_of_values(node, new, name, value)
                node = new if what is None else node
        if what is not None:
            problems.append(Problem(where=place, what=what))
    return node, problems


def _problem_of_values(node: Node, new: Node, name: str, value: Any) -> str | None:
    if name.split(".")[0] in ("posX", "posY", "typeVersion") and (
        isinstance(value, bool) or not isinstance(value, int | float)
    ):
        return "must be a number"
    if new.size.width <= 0 or new.size.height <= 0:
        return "a size must be above 0"
    if new.handles != node.handles and (twice := next(repeated_handles(new.handles, ""), None)):
        return twice.what
    return None
