"""The graph as a proposal leaves it, and the checks of nodes and edges on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from datasources.types import Handles, Node
from tools.actions.field_checks import at, handles_from
from tools.actions.snapshot import Snapshot
from tools.base import Problem
from tools.proposal_parts import CreateNode

SHOWN = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """The graph as a proposal leaves it. `created` are new nodes by the keys the proposal
    gives them.
    """

    snapshot: Snapshot
    created: Mapping[str, CreateNode]
    changed: Mapping[str, Node]
    gone: frozenset[str]
    cut: frozenset[str]
    types: Mapping[str, Handles]
    problems: list[Problem] = field(default_factory=list[Problem])

    def knows(self, key: str) -> bool:
        return key in self.created or key in self.snapshot.nodes

    def knows_type(self, name: str) -> bool:
        return name in self.types or self.snapshot.type_of(name) is not None

    def sheet_of(self, key: str) -> str | None:
        """Returns a node's sheet; None for a new node whose sheet is still to be chosen."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """One end of a proposed edge; `where` is the field that names its handle."""

    key: str
    handle: str
    where: str


def problems_of_ends(source: End, target: End, draft: Draft) -> Iterator[Problem]:
    """Yields what keeps an edge from joining these two handles."""
    accepts: list[str] = []
    for end, way, other_way in ((source, "out", "in"), (target, "in", "out")):
        points = [p for group in draft.handles_of(end.key).values() for p in group.point]
        fitting = {p.id: p for p in reversed(points) if p.type == way}
        if end.handle in fitting:
            accepts.append(fitting[end.handle].accept)
            continue
        who = f"node {end.key[:SHOWN]!r}" if end.key else "the new node"
        what = f"{who} has no {way} handle {end.handle[:40]!r}"
        if any(p.id == end.handle for p in points):
            what = f"handle {end.handle[:40]!r} of {who} is an {other_way} handle"
        shown = [
            f"{p.id} ({p.accept}{', ' + p.display if p.display else ''})"
            for p in points
            if p.type == way
        ]
        yield Problem(
            where=end.where,
            what=what,
            allowed=", ".join(shown) or f"{who} has no {way} handle at all",
        )
    if len(accepts) == 2 and "any" not in accepts and accepts[0] != accepts[1]:
        what = f"what leaves is {accepts[0]!r}, what the target takes is {accepts[1]!r}"
        yield Problem(where=target.where, what=what)


def problems_of_node(key: str, where: str, name: str, draft: Draft) -> Iterator[Problem]:
    """Yields why no part of the proposal can use a node; `name` is the field that names it."""
    if not draft.knows(key):
        what = f"no node {key[:SHOWN]!r} in this graph"
        yield Problem(where=at(where, name), what=what, unknown_node=key)
    else:
        yield from problems_of_deletion(key, where, name, draft)


def problems_of_stored_node(key: str, where: str, draft: Draft) -> Iterator[Problem]:
    """Yields why a node cannot be changed or deleted: it is unknown, or new in the proposal."""
    if key in draft.created and key not in draft.snapshot.nodes:
        what = f"{key[:SHOWN]!r} is created by this proposal; write it there instead"
        yield Problem(where=at(where, "nodeKey"), what=what)
    elif key not in draft.snapshot.nodes:
        what = f"no node {key[:SHOWN]!r} in this graph"
        yield Problem(where=at(where, "nodeKey"), what=what, unknown_node=key)


def problems_of_deletion(key: str, where: str, name: str, draft: Draft) -> Iterator[Problem]:
    """Yields a problem where the same proposal deletes the node."""
    if key in draft.gone:
        what = f"{key[:SHOWN]!r} is deleted by the same proposal"
        yield Problem(where=at(where, name), what=what)
