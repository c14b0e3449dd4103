"""Checks the edges of an action: handles, directions, accepted types, repetition, handles taken away."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from datasources.types import Handles
from tools.base import Problem
from tools.proposals import CreateEdgeAction, CreateNodeWithEdgesAction, SingleAction
from tools.write_tools.action_draft import Draft
from tools.write_tools.type_checks import at

_SHOWN = 80


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
            f"{p.id} ({p.accept}{', ' + p.display if p.display else ''})" for p in points if p.type == way
        ]
        yield Problem(
            where=end.where, what=what, allowed=", ".join(shown) or f"{who} has no {way} handle at all"
        )
    if len(accepts) == 2 and "any" not in accepts and accepts[0] != accepts[1]:
        what = f"what leaves is {accepts[0]!r}, what the target takes is {accepts[1]!r}"
        yield Problem(where=target.where, what=what)


def repeated_edges(singles: Sequence[tuple[str, SingleAction]], draft: Draft) -> Iterator[Problem]:
    """Refuse an edge between the same two handles as another that stays or is created too."""
    seen: dict[tuple[str, ...], str] = {}
    for key, edge in draft.snapshot.edges.items():
        if key not in draft.cut and not {edge.source, edge.target} & draft.gone:
            seen[edge.source, edge.source_handle, edge.target, edge.target_handle] = f"edge {key[:_SHOWN]!r}"
    for where, single in singles:
        for place, ends in _new_edges(single, where):
            if ends in seen:
                yield Problem(where=place, what=f"the same connection is there already: {seen[ends]}")
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
            yield at(where, f"edges.{number}"), (*source, *target)


def orphaned_handles(draft: Draft) -> Iterator[Problem]:
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
                yield Problem(where="changes.handles", what=f"{what}: keep the handle or delete the edge too")


def _has(handles: Handles, handle: str, direction: str) -> bool:
    return any(p.id == handle and p.type == direction for group in handles.values() for p in group.point)
