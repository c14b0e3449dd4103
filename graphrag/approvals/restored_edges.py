"""Checks that edges fit the handles of their nodes once a change is taken back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Set

from datasources.types import Edge, Mutation, Node
from graphrag.approvals.actions.mutation import after
from tools.write_tools import Snapshot


def edges_without_handles(before: Snapshot, mutation: Mutation, irregular: Set[str]) -> Iterator[str]:
    """Name restored edges that no longer fit, and standing ones that would no longer.

    `irregular` are restored edges that never fitted (see `irregular_edges`).
    """
    left = after(before, mutation)
    changed = {node.key for node in mutation.put_nodes}
    restored = {edge.key for edge in mutation.put_edges}
    for key, edge in left.edges.items():
        is_restored = key in restored
        if (key in irregular) if is_restored else not {edge.source, edge.target} & changed:
            continue
        for end, handle, way in _ends(edge):
            if end not in left.nodes:  # it need not have been read
                continue
            old = before.nodes.get(end)
            # An edge that stands without a handle already is no fault of the undo.
            is_due = is_restored or (old is not None and _has_handle(old, handle, way))
            if is_due and not _has_handle(left.nodes[end], handle, way):
                yield f"edge/{key}: node {end} has no {way} handle {handle}"
    ends = {_ends(left.edges[key]) for key in restored - irregular}
    for key, edge in left.edges.items():
        if key not in restored and _ends(edge) in ends:
            yield f"edge/{key}: connects the same handles"


def irregular_edges(before: Snapshot, inverse: Mutation) -> list[str]:
    """Return the edges to restore that never fitted the rules: without a handle, or one of several."""
    restored = {edge.key: edge for edge in inverse.put_edges}
    counted = Counter(map(_ends, {**before.edges, **restored}.values()))

    def is_irregular(edge: Edge) -> bool:
        fits = all(
            end in before.nodes and _has_handle(before.nodes[end], handle, way)
            for end, handle, way in _ends(edge)
        )
        return not fits or counted[_ends(edge)] > 1

    return sorted(key for key, edge in restored.items() if is_irregular(edge))


def _ends(edge: Edge) -> tuple[tuple[str, str, str], tuple[str, str, str]]:
    """Return an edge's two ends as (node, handle, direction)."""
    return (edge.source, edge.source_handle, "out"), (edge.target, edge.target_handle, "in")


def _has_handle(node: Node, handle: str, way: str) -> bool:
    """Say whether a node has a handle; one without handles of its own has those of its type."""
    if not node.handles:
        return True
    return any(p.id == handle and p.type == way for group in node.handles.values() for p in group.point)
