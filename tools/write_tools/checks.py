"""Checks an action against the graph: what it names exists, fits together and does
not contradict itself.

The order of a batch does not matter: every part is checked against the graph as the whole batch
leaves it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from datasources.errors import BadDocument, InstructionError
from datasources.types import Handles, Node
from tools import proposals
from tools.base import Problem
from tools.proposal_parts import CreateEdge, CreateNode, EdgeConnection
from tools.write_tools.field_changes import changed_node, fault_of_change
from tools.write_tools.graph_reads import Snapshot
from tools.write_tools.type_checks import (
    at,
    handles_from,
    handles_of_types,
    nearest,
    problems_of_type,
    repeated_handles,
)

_SHOWN = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """The graph as an action leaves it. `created` are new nodes by the keys the
    action calls them.
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


def draft_of(singles: Sequence[tuple[str, proposals.SingleAction]], snapshot: Snapshot) -> Draft:
    """Return the graph after the action, with the problems of what it changes."""
    created: dict[str, CreateNode] = {}
    changed: dict[str, Node] = {}
    problems: list[Problem] = []
    creates = (proposals.CreateNodeAction, proposals.CreateNodeWithEdgesAction)
    gone = {s.payload.node_key for _, s in singles if isinstance(s, proposals.DeleteNodeAction)}
    cut = {s.payload.edge_key for _, s in singles if isinstance(s, proposals.DeleteEdgeAction)}
    for where, single in singles:
        if isinstance(single, creates) and single.payload.key:
            key = single.payload.key
            if key in created or key in snapshot.nodes:
                whose = "another new node" if key in created else "a node of the graph"
                problems.append(
                    Problem(where=at(where, "key"), what=f"{key[:_SHOWN]!r} is taken by {whose}")
                )
            created.setdefault(key, single.payload)
        if isinstance(single, proposals.UpdateNodeAction):
            node = changed.get(single.payload.node_key) or snapshot.nodes.get(
                single.payload.node_key
            )
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


def _changed(
    node: Node, single: proposals.UpdateNodeAction, where: str
) -> tuple[Node, list[Problem]]:
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
                field = exc.field.removesuffix(".int").removesuffix(".float")  # kinds of one number
                what = exc.reason if field == name else f"{field}: {exc.reason}"
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


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """One end of a proposed edge; `where` is the field that names its handle."""

    key: str
    handle: str
    where: str


def problems_of_ends(source: End, target: End, draft: Draft) -> Iterator[Problem]:
    """Yield what keeps an edge from joining these two handles."""
    accepts: list[str] = []
    for end, way, other_way in ((source, "out", "in"), (target, "in", "out")):
        points = [p for group in draft.handles_of(end.key).values() for p in group.point]
        fitting = {p.id: p for p in reversed(points) if p.type == way}
        if end.handle in fitting:
            accepts.append(fitting[end.handle].accept)
            continue
        who = f"node {end.key[:_SHOWN]!r}" if end.key else "the new node"
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


def repeated_edges(
    singles: Sequence[tuple[str, proposals.SingleAction]], draft: Draft
) -> Iterator[Problem]:
    """Refuse an edge between the same two handles as another that stays or is created too."""
    seen: dict[tuple[str, ...], str] = {}
    for key, edge in draft.snapshot.edges.items():
        if key not in draft.cut and not {edge.source, edge.target} & draft.gone:
            seen[edge.source, edge.source_handle, edge.target, edge.target_handle] = (
                f"edge {key[:_SHOWN]!r}"
            )
    for where, single in singles:
        for place, ends in _new_edges(single, where):
            if ends in seen:
                yield Problem(
                    where=place, what=f"the same connection is there already: {seen[ends]}"
                )
            seen[ends] = f"{place or 'this one'} of this proposal"


def _new_edges(single: proposals.SingleAction, where: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    if isinstance(single, proposals.CreateEdgeAction):
        edge = single.payload
        yield where, (edge.source_key, edge.source_handle, edge.target_key, edge.target_handle)
    elif isinstance(single, proposals.CreateNodeWithEdgesAction):
        own = single.payload.key or f"\x00{where}"
        for number, edge in enumerate(single.payload.edges):
            ends = (own, edge.handle_id), (edge.target_node_key, edge.target_handle_id)
            source, target = ends if edge.direction == "out" else ends[::-1]
            yield at(where, f"edges.{number}"), (*source, *target)


def orphaned_handles(draft: Draft) -> Iterator[Problem]:
    """Refuse to take away a handle that an edge still uses."""
    before = draft.snapshot
    changed = {
        key for key, node in draft.changed.items() if node.handles != before.nodes[key].handles
    }
    for key, edge in before.edges_of(changed).items():
        if key in draft.cut or {edge.source, edge.target} & draft.gone:
            continue
        for end, handle, way in (
            (edge.source, edge.source_handle, "out"),
            (edge.target, edge.target_handle, "in"),
        ):
            if end in changed and not _has(draft.handles_of(end), handle, way):
                what = (
                    f"edge {key[:_SHOWN]!r} uses {way} handle {handle[:40]!r} of {end[:_SHOWN]!r}"
                )
                yield Problem(
                    where="changes.handles", what=f"{what}: keep the handle or delete the edge too"
                )


def _has(handles: Handles, handle: str, direction: str) -> bool:
    return any(
        p.id == handle and p.type == direction for group in handles.values() for p in group.point
    )


def find_problems(action: proposals.Action, snapshot: Snapshot) -> list[Problem]:
    """Return all that is wrong with an action on this graph; nothing when it may be carried out."""
    singles = list(proposals.single_actions(action))
    if len(singles) > proposals.MAX_BATCH:
        what = f"{len(singles)} actions are more than {proposals.MAX_BATCH} in one proposal"
        return [Problem(where="actions", what=what)]
    draft = draft_of(singles, snapshot)
    for where, single in singles:
        draft.problems.extend(_problems_of(single, where, draft))
    draft.problems.extend(repeated_edges(singles, draft))
    draft.problems.extend(orphaned_handles(draft))
    return draft.problems


def _problems_of(single: proposals.SingleAction, where: str, draft: Draft) -> Iterator[Problem]:
    match single:
        case proposals.CreateNodeAction(payload=payload):
            yield from _of_new_node(payload, where, draft)
        case proposals.CreateNodeWithEdgesAction(payload=payload):
            yield from _of_new_node(payload, where, draft)
            for number, edge in enumerate(payload.edges):
                yield from _of_connection(payload, edge, at(where, f"edges.{number}"), draft)
        case proposals.CreateEdgeAction(payload=payload):
            yield from _of_edge(payload, where, draft)
        case proposals.DeleteEdgeAction(payload=payload):
            if payload.edge_key not in draft.snapshot.edges:
                what = f"no edge {payload.edge_key[:_SHOWN]!r} in this graph; list_node_edges shows edge keys"
                yield Problem(where=at(where, "edgeKey"), what=what)
        case proposals.DeleteNodeAction(payload=payload):
            yield from _of_stored(payload.node_key, where, draft)
        case proposals.UpdateNodeAction(payload=payload):
            yield from _of_stored(payload.node_key, where, draft)
            if payload.node_key in draft.gone:
                yield Problem(
                    where=at(where, "nodeKey"), what=_GONE.format(payload.node_key[:_SHOWN])
                )
            yield from _of_type_change(single, where, draft)
        case proposals.MoveNodeAction(payload=payload):
            yield from _of_known(payload.node_key, where, "nodeKey", draft)
        case proposals.ReorganizeLayoutAction(payload=payload):
            for number, key in enumerate(payload.node_keys):
                yield from _of_known(key, where, f"nodeKeys.{number}", draft)
            # A frame takes along what it holds, or grows for it; a pinned node stays: these are
            # other nodes than nodeKeys.
            placed = [position.node_key for position in payload.positions or ()]
            for number, key in enumerate(placed):
                yield from _of_known(key, where, f"positions.{number}.nodeKey", draft)
            if len(placed) != len(set(placed)):
                yield Problem(where=at(where, "positions"), what="must have each node once")
        case proposals.ImportFileAction():
            pass  # what it comes to is checked as every store checks
        case proposals.ConfigureNodeTypeAction(payload=payload):
            yield from problems_of_type(payload, where, draft.snapshot)


_GONE = "{!r} is deleted by the same proposal"


def _of_known(key: str, where: str, name: str, draft: Draft) -> Iterator[Problem]:
    if not draft.knows(key):
        what = f"no node {key[:_SHOWN]!r} in this graph"
        yield Problem(where=at(where, name), what=what, unknown_node=key)
    elif key in draft.gone:
        yield Problem(where=at(where, name), what=_GONE.format(key[:_SHOWN]))


def _of_stored(key: str, where: str, draft: Draft) -> Iterator[Problem]:
    if key in draft.created and key not in draft.snapshot.nodes:
        what = f"{key[:_SHOWN]!r} is created by this proposal; write it there instead"
        yield Problem(where=at(where, "nodeKey"), what=what)
    elif key not in draft.snapshot.nodes:
        what = f"no node {key[:_SHOWN]!r} in this graph"
        yield Problem(where=at(where, "nodeKey"), what=what, unknown_node=key)


def _of_new_node(payload: CreateNode, where: str, draft: Draft) -> Iterator[Problem]:
    graph = draft.snapshot.graph
    if payload.type_key not in draft.types and draft.snapshot.type_of(payload.type_key) is None:
        what = f"no node type {payload.type_key[:_SHOWN]!r}"
        near = nearest(payload.type_key, [*draft.snapshot.types, *draft.types])
        hint = f"; did you mean {', '.join(near)}?" if near else "; see list_available_node_types"
        yield Problem(where=at(where, "typeKey"), what=what + hint)
    if payload.sheet is not None and payload.sheet not in graph.sheets_list:
        allowed = ", ".join(
            f"{key} ({name[:40]})" for key, name in list(graph.sheets_list.items())[:50]
        )
        what = f"no sheet {payload.sheet[:_SHOWN]!r}"
        yield Problem(where=at(where, "sheet"), what=what, allowed=allowed)
    yield from repeated_handles(payload.handles, at(where, "handles"))
    if (payload.pos_x is None) != (payload.pos_y is None):
        yield Problem(where=at(where, "posX"), what="give both posX and posY, or neither")


def _of_type_change(
    single: proposals.UpdateNodeAction, where: str, draft: Draft
) -> Iterator[Problem]:
    name = single.payload.changes.get("type")
    if "type" not in single.payload.changes or (isinstance(name, str) and name in draft.types):
        return
    if not isinstance(name, str) or draft.snapshot.type_of(name) is None:
        yield Problem(where=at(where, "changes.type"), what=f"no node type {str(name)[:_SHOWN]!r}")


def _of_connection(
    payload: CreateNode, edge: EdgeConnection, where: str, draft: Draft
) -> Iterator[Problem]:
    other = edge.target_node_key
    if other == payload.key:
        yield Problem(where=at(where, "targetNodeKey"), what="is the new node itself")
        return
    problems = list(_of_known(other, where, "targetNodeKey", draft))
    yield from problems
    known = payload.type_key in draft.types or draft.snapshot.type_of(payload.type_key) is not None
    if problems or not known:
        return
    key = payload.key or ""
    if not payload.key:  # no other part can name it: it stands under a key that no other node has
        draft = replace(draft, created={**draft.created, key: payload})
    source = End(key=key, handle=edge.handle_id, where=at(where, "handleId"))
    target = End(key=other, handle=edge.target_handle_id, where=at(where, "targetHandleId"))
    if edge.direction == "in":
        source, target = target, source
    yield from problems_of_ends(source, target, draft)
    sheet = payload.sheet
    there = draft.sheet_of(other)
    if sheet is not None and there is not None and sheet != there:
        what = f"{other[:_SHOWN]!r} is on sheet {there}, not {sheet}: an edge stays on one sheet"
        yield Problem(where=at(where, "targetNodeKey"), what=what)


def _of_edge(payload: CreateEdge, where: str, draft: Draft) -> Iterator[Problem]:
    problems = [
        *_of_known(payload.source_key, where, "sourceKey", draft),
        *_of_known(payload.target_key, where, "targetKey", draft),
    ]
    if payload.key and payload.key in draft.snapshot.edges:
        problems.append(
            Problem(where=at(where, "key"), what=f"{payload.key[:_SHOWN]!r} is taken by an edge")
        )
    yield from problems
    if problems:
        return
    yield from problems_of_ends(
        End(key=payload.source_key, handle=payload.source_handle, where=at(where, "sourceHandle")),
        End(key=payload.target_key, handle=payload.target_handle, where=at(where, "targetHandle")),
        draft,
    )
    sheets = {
        "the source": draft.sheet_of(payload.source_key),
        "the target": draft.sheet_of(payload.target_key),
        "the edge": payload.sheet,
    }
    known = {sheet for sheet in sheets.values() if sheet is not None}
    if len(known) > 1:
        shown = ", ".join(
            f"{name} is on {sheet}" for name, sheet in sheets.items() if sheet is not None
        )
        yield Problem(where=at(where, "targetKey"), what=f"an edge stays on one sheet, but {shown}")
