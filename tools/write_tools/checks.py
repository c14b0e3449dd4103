"""Judges an action against the graph: what it names exists, fits together and does not contradict itself.

The order of a batch does not matter: every part is judged against the graph as the whole batch
leaves it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal

from datasources.errors import BadDocument, InstructionError
from datasources.types import Handles, Node, NodeTypeConfig
from tools.proposal_parts import CreateEdge, CreateNode, EdgeConnection
from tools.proposals import (
    MAX_BATCH,
    BatchAction,
    ConfigureNodeTypeAction,
    CreateEdgeAction,
    CreateNodeAction,
    CreateNodeWithEdgesAction,
    DeleteEdgeAction,
    DeleteNodeAction,
    MoveNodeAction,
    ReorganizeLayoutAction,
    SingleAction,
    UpdateNodeAction,
    single_actions,
)
from tools.write_tools.changes import changed_node, fault_of_change
from tools.write_tools.snapshot import Snapshot
from tools.write_tools.types import NewType, fault_of_type, nearest, new_types

_SHOWN = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing wrong with an action. `unknown_node` is a key that no node has."""

    where: str
    what: str
    allowed: str | None = None
    unknown_node: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """The graph as an action leaves it. `created` are new nodes by the keys the action calls them."""

    snapshot: Snapshot
    created: Mapping[str, CreateNode]
    changed: Mapping[str, Node]
    gone: frozenset[str]
    cut: frozenset[str]
    types: Mapping[str, NewType]
    faults: list[Fault] = field(default_factory=list[Fault])

    def knows(self, key: str) -> bool:
        return key in self.created or key in self.snapshot.nodes

    def sheet_of(self, key: str) -> str | None:
        """Return a node's sheet; None for a new node whose sheet is still to be chosen."""
        if key in self.created:
            return self.created[key].sheet
        return self.snapshot.nodes[key].sheet

    def handles_of(self, key: str) -> Handles:
        if key in self.created:
            return self._handles_of_type(self.created[key].type_key)
        node = self.changed.get(key) or self.snapshot.nodes[key]
        return node.handles or self._handles_of_type(node.type)

    def _handles_of_type(self, name: str) -> Handles:
        new = self.types.get(name)
        if new is not None:
            return new.handles
        config: NodeTypeConfig | None = self.snapshot.type_of(name)
        return config.node.handles if config else {}


def find_faults(action: SingleAction | BatchAction, snapshot: Snapshot) -> list[Fault]:
    """Return all that is wrong with an action on this graph; nothing when it may be carried out."""
    singles = list(single_actions(action))
    if len(singles) > MAX_BATCH:
        return [
            Fault(where="actions", what=f"{len(singles)} actions are more than {MAX_BATCH} in one proposal")
        ]
    draft = _draft_of(singles, snapshot)
    for where, single in singles:
        draft.faults.extend(_faults_of(single, where, draft))
    draft.faults.extend(_repeated_edges(singles, draft))
    draft.faults.extend(_orphaned_handles(draft))
    return draft.faults


def _draft_of(singles: Sequence[tuple[str, SingleAction]], snapshot: Snapshot) -> Draft:
    created: dict[str, CreateNode] = {}
    changed: dict[str, Node] = {}
    faults: list[Fault] = []
    gone = {s.payload.node_key for _, s in singles if isinstance(s, DeleteNodeAction)}
    cut = {s.payload.edge_key for _, s in singles if isinstance(s, DeleteEdgeAction)}
    for where, single in singles:
        if isinstance(single, CreateNodeAction | CreateNodeWithEdgesAction) and single.payload.key:
            key = single.payload.key
            if key in created or key in snapshot.nodes:
                whose = "another new node" if key in created else "a node of the graph"
                faults.append(Fault(where=_at(where, "key"), what=f"{key[:_SHOWN]!r} is taken by {whose}"))
            created.setdefault(key, single.payload)
        if isinstance(single, UpdateNodeAction):
            node = changed.get(single.payload.node_key) or snapshot.nodes.get(single.payload.node_key)
            if node is not None:
                new, found = _changed(node, single, where)
                changed[node.key] = new
                faults.extend(found)
    types, type_faults = new_types(singles, snapshot)
    faults.extend(Fault(where=_at(where, name), what=what) for where, name, what in type_faults)
    return Draft(
        snapshot=snapshot,
        created=created,
        changed=changed,
        gone=frozenset(gone),
        cut=frozenset(cut),
        types=types,
        faults=faults,
    )


def _changed(node: Node, single: UpdateNodeAction, where: str) -> tuple[Node, list[Fault]]:
    faults: list[Fault] = []
    for name, value in single.payload.changes.items():
        place = _at(where, f"changes.{name[:_SHOWN]}")
        what = fault_of_change(node, name)
        if what is None:
            try:
                new = changed_node(node, {name: value})
            except InstructionError as exc:
                what = exc.reason
            except BadDocument as exc:
                what = f"{exc.field}: {exc.reason}"
            else:
                what = _fault_of_values(node, new, name, value)
                node = new if what is None else node
        if what is not None:
            faults.append(Fault(where=place, what=what))
    return node, faults


def _fault_of_values(node: Node, new: Node, name: str, value: Any) -> str | None:
    if name.split(".")[0] in ("posX", "posY", "typeVersion") and (
        isinstance(value, bool) or not isinstance(value, int | float)
    ):
        return "must be a number"
    if new.size.width <= 0 or new.size.height <= 0:
        return "a size must be above 0"
    twice = next((t for d in ("in", "out") if (t := _twice(new.handles, d)) is not None), None)
    if twice is not None and new.handles != node.handles:
        return f"two handles of one direction have the id {twice!r}"
    return None


def _twice(handles: Handles, direction: str) -> str | None:
    ids = sorted(p.id for group in handles.values() for p in group.point if p.type == direction)
    return next((one for one, other in pairwise(ids) if one == other), None)


def _faults_of(single: SingleAction, where: str, draft: Draft) -> Iterator[Fault]:
    match single:
        case CreateNodeAction(payload=payload):
            yield from _of_new_node(payload, where, draft)
        case CreateNodeWithEdgesAction(payload=payload):
            yield from _of_new_node(payload, where, draft)
            for number, edge in enumerate(payload.edges):
                yield from _of_connection(payload, edge, _at(where, f"edges.{number}"), draft)
        case CreateEdgeAction(payload=payload):
            yield from _of_edge(payload, where, draft)
        case DeleteEdgeAction(payload=payload):
            if payload.edge_key not in draft.snapshot.edges:
                what = f"no edge {payload.edge_key[:_SHOWN]!r} in this graph; list_node_edges shows edge keys"
                yield Fault(where=_at(where, "edgeKey"), what=what)
        case DeleteNodeAction(payload=payload):
            yield from _of_stored(payload.node_key, where, draft)
        case UpdateNodeAction(payload=payload):
            yield from _of_stored(payload.node_key, where, draft)
            if payload.node_key in draft.gone:
                yield Fault(where=_at(where, "nodeKey"), what=_GONE.format(payload.node_key[:_SHOWN]))
            yield from _of_type_change(single, where, draft)
        case MoveNodeAction(payload=payload):
            yield from _of_known(payload.node_key, where, "nodeKey", draft)
        case ReorganizeLayoutAction(payload=payload):
            for number, key in enumerate(payload.node_keys):
                yield from _of_known(key, where, f"nodeKeys.{number}", draft)
            placed = [position.node_key for position in payload.positions or ()]
            if payload.positions is not None and sorted(placed) != sorted(set(payload.node_keys)):
                yield Fault(where=_at(where, "positions"), what="must have each of nodeKeys once")
        case ConfigureNodeTypeAction(payload=payload):
            for name, what in fault_of_type(payload, draft.snapshot):
                yield Fault(where=_at(where, name), what=what)


_GONE = "{!r} is deleted by the same proposal"


def _of_known(key: str, where: str, name: str, draft: Draft) -> Iterator[Fault]:
    if not draft.knows(key):
        what = f"no node {key[:_SHOWN]!r} in this graph"
        yield Fault(where=_at(where, name), what=what, unknown_node=key)
    elif key in draft.gone:
        yield Fault(where=_at(where, name), what=_GONE.format(key[:_SHOWN]))


def _of_stored(key: str, where: str, draft: Draft) -> Iterator[Fault]:
    if key in draft.created and key not in draft.snapshot.nodes:
        what = f"{key[:_SHOWN]!r} is created by this proposal; write it there instead"
        yield Fault(where=_at(where, "nodeKey"), what=what)
    elif key not in draft.snapshot.nodes:
        what = f"no node {key[:_SHOWN]!r} in this graph"
        yield Fault(where=_at(where, "nodeKey"), what=what, unknown_node=key)


def _of_new_node(payload: CreateNode, where: str, draft: Draft) -> Iterator[Fault]:
    graph = draft.snapshot.graph
    if payload.type_key not in draft.types and draft.snapshot.type_of(payload.type_key) is None:
        what = f"no node type {payload.type_key[:_SHOWN]!r}"
        near = nearest(payload.type_key, [*draft.snapshot.types, *draft.types])
        hint = f"; did you mean {', '.join(near)}?" if near else "; see list_available_node_types"
        yield Fault(where=_at(where, "typeKey"), what=what + hint)
    if payload.sheet is not None and payload.sheet not in graph.sheets_list:
        allowed = ", ".join(f"{key} ({name[:40]})" for key, name in list(graph.sheets_list.items())[:50])
        what = f"no sheet {payload.sheet[:_SHOWN]!r}"
        yield Fault(where=_at(where, "sheet"), what=what, allowed=allowed)
    if (payload.pos_x is None) != (payload.pos_y is None):
        yield Fault(where=_at(where, "posX"), what="give both posX and posY, or neither")


def _of_type_change(single: UpdateNodeAction, where: str, draft: Draft) -> Iterator[Fault]:
    name = single.payload.changes.get("type")
    if "type" not in single.payload.changes or (isinstance(name, str) and name in draft.types):
        return
    if not isinstance(name, str) or draft.snapshot.type_of(name) is None:
        yield Fault(where=_at(where, "changes.type"), what=f"no node type {str(name)[:_SHOWN]!r}")


def _of_connection(payload: CreateNode, edge: EdgeConnection, where: str, draft: Draft) -> Iterator[Fault]:
    other = edge.target_node_key
    if other == payload.key:
        yield Fault(where=_at(where, "targetNodeKey"), what="is the new node itself")
        return
    faults = list(_of_known(other, where, "targetNodeKey", draft))
    yield from faults
    known = payload.type_key in draft.types or draft.snapshot.type_of(payload.type_key) is not None
    if faults or not known:
        return
    key = payload.key or ""
    if not payload.key:  # nobody else can mean it: judged under a key that no other node has
        draft = _with_created(draft, key, payload)
    out = edge.direction == "out"
    yield from _of_ends(
        _End(
            key=key if out else other, handle=edge.handle_id if out else edge.target_handle_id, is_source=True
        ),
        _End(key=other if out else key, handle=edge.target_handle_id if out else edge.handle_id),
        (_at(where, "handleId"), _at(where, "targetHandleId"))
        if out
        else (_at(where, "targetHandleId"), _at(where, "handleId")),
        draft,
    )
    sheet, there = payload.sheet, draft.sheet_of(other)
    if sheet is not None and there is not None and sheet != there:
        what = f"{other[:_SHOWN]!r} is on sheet {there}, not {sheet}: an edge stays on one sheet"
        yield Fault(where=_at(where, "targetNodeKey"), what=what)


def _with_created(draft: Draft, key: str, payload: CreateNode) -> Draft:
    return Draft(
        snapshot=draft.snapshot,
        created={**draft.created, key: payload},
        changed=draft.changed,
        gone=draft.gone,
        cut=draft.cut,
        types=draft.types,
    )


def _of_edge(payload: CreateEdge, where: str, draft: Draft) -> Iterator[Fault]:
    faults = [
        *_of_known(payload.source_key, where, "sourceKey", draft),
        *_of_known(payload.target_key, where, "targetKey", draft),
    ]
    if payload.key and payload.key in draft.snapshot.edges:
        faults.append(Fault(where=_at(where, "key"), what=f"{payload.key[:_SHOWN]!r} is taken by an edge"))
    yield from faults
    if faults:
        return
    yield from _of_ends(
        _End(key=payload.source_key, handle=payload.source_handle, is_source=True),
        _End(key=payload.target_key, handle=payload.target_handle),
        (_at(where, "sourceHandle"), _at(where, "targetHandle")),
        draft,
    )
    sheets = {
        "the source": draft.sheet_of(payload.source_key),
        "the target": draft.sheet_of(payload.target_key),
        "the edge": payload.sheet,
    }
    known = {sheet for sheet in sheets.values() if sheet is not None}
    if len(known) > 1:
        shown = ", ".join(f"{name} is on {sheet}" for name, sheet in sheets.items() if sheet is not None)
        yield Fault(where=_at(where, "targetKey"), what=f"an edge stays on one sheet, but {shown}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _End:
    key: str
    handle: str
    is_source: bool = False

    @property
    def direction(self) -> Literal["in", "out"]:
        return "out" if self.is_source else "in"


def _of_ends(source: _End, target: _End, places: tuple[str, str], draft: Draft) -> Iterator[Fault]:
    accepts: list[str] = []
    for end, place in zip((source, target), places, strict=True):
        points = [p for group in draft.handles_of(end.key).values() for p in group.point]
        fitting = [p for p in points if p.id == end.handle and p.type == end.direction]
        if fitting:
            accepts.append(fitting[0].accept)
            continue
        allowed = ", ".join(
            f"{p.id} ({p.accept}{', ' + p.display if p.display else ''})"
            for p in points
            if p.type == end.direction
        )
        who = f"node {end.key[:_SHOWN]!r}" if end.key else "the new node"
        backwards = any(p.id == end.handle for p in points)
        what = (
            f"handle {end.handle[:40]!r} of {who} is an {'in' if end.is_source else 'out'} handle"
            if backwards
            else f"{who} has no {end.direction} handle {end.handle[:40]!r}"
        )
        yield Fault(where=place, what=what, allowed=allowed or f"{who} has no {end.direction} handle at all")
    if len(accepts) == 2 and "any" not in accepts and accepts[0] != accepts[1]:
        what = f"what leaves is {accepts[0]!r}, what the target takes is {accepts[1]!r}"
        yield Fault(where=places[1], what=what)


def _repeated_edges(singles: Sequence[tuple[str, SingleAction]], draft: Draft) -> Iterator[Fault]:
    """Refuse an edge between the same two handles as another that stays or is created too."""
    seen: dict[tuple[str, ...], str] = {}
    for key, edge in draft.snapshot.edges.items():
        if key not in draft.cut and not {edge.source, edge.target} & draft.gone:
            seen[edge.source, edge.source_handle, edge.target, edge.target_handle] = f"edge {key[:_SHOWN]!r}"
    for where, single in singles:
        for place, ends in _new_edges(single, where):
            if ends in seen:
                yield Fault(where=place, what=f"the same connection is there already: {seen[ends]}")
            seen[ends] = f"{place or 'this one'} of this proposal"


def _new_edges(single: SingleAction, where: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    if isinstance(single, CreateEdgeAction):
        edge = single.payload
        yield where, (edge.source_key, edge.source_handle, edge.target_key, edge.target_handle)
    elif isinstance(single, CreateNodeWithEdgesAction):
        own = single.payload.key or f"\x00{where}"
        for number, edge in enumerate(single.payload.edges):
            ends = (own, edge.handle_id), (edge.target_node_key, edge.target_handle_id)
            source, target = ends if edge.direction == "out" else ends[::-1]
            yield _at(where, f"edges.{number}"), (*source, *target)


def _orphaned_handles(draft: Draft) -> Iterator[Fault]:
    """Refuse to take away a handle that an edge still uses."""
    before = draft.snapshot
    changed = {key for key, node in draft.changed.items() if node.handles != before.nodes[key].handles}
    for key, edge in before.edges_of(changed).items():
        if key in draft.cut or {edge.source, edge.target} & draft.gone:
            continue
        for end, handle, way in (
            (edge.source, edge.source_handle, "out"),
            (edge.target, edge.target_handle, "in"),
        ):
            if end in changed and not _has(draft.handles_of(end), handle, way):
                what = f"edge {key[:_SHOWN]!r} uses {way} handle {handle[:40]!r} of {end[:_SHOWN]!r}"
                yield Fault(where="changes.handles", what=f"{what}: keep the handle or delete the edge too")


def _has(handles: Handles, handle: str, direction: str) -> bool:
    return any(p.id == handle and p.type == direction for group in handles.values() for p in group.point)


def _at(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name
