"""Rules about the flow: what is never reached, leads nowhere, never ends."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from datasources.types import HandlePoint
from tools.checks.checked_graph import ANY, CheckedGraph, Violation, data_of

_JOINS = ("merge", "join")
_LOOP = "loop"


def no_start(view: CheckedGraph) -> Iterator[Violation]:
    """Finds a graph with steps and edges, but no step that begins."""
    if view.flow.number_of_edges() and not _starts(view):
        keys = sorted(view.flow)
        yield Violation(nodes=tuple(keys), facts={"count": len(keys)})


def unreachable(view: CheckedGraph) -> Iterator[Violation]:
    """Finds steps that no start reaches, one finding for those that hang together."""
    import networkx as nx

    starts = _starts(view)
    if not starts:
        return
    both = nx.compose(view.flow, view.parts)
    reached = set(
        chain.from_iterable(nx.bfs_tree(both, start) for start in starts if start in both)
    )
    lost = both.subgraph(set(view.flow) - reached)
    for part in sorted(map(sorted, nx.weakly_connected_components(lost))):
        first = [key for key in part if not lost.in_degree(key)] or part
        yield Violation(
            nodes=tuple(first + [key for key in part if key not in first]),
            facts={"names": view.names(first)},
        )


def dead_end(view: CheckedGraph) -> Iterator[Violation]:
    """Finds steps that choose between several ways, none of which leads on."""
    for node in view.steps:
        ways = [point for point in view.flow_points(node.key, "out") if not _is_error(point)]
        if (
            len(ways) > 1
            and view.arriving_at(node.key)
            and not any((node.key, way.id) in view.leaving for way in ways)
        ):
            yield Violation(
                nodes=(node.key,), facts={"name": view.name(node.key), "count": len(ways)}
            )


def open_error_output(view: CheckedGraph) -> Iterator[Violation]:
    """Finds error outputs that lead nowhere, of steps that are reached."""
    for node in view.steps:
        if view.flow_points(node.key, "in") and not view.arriving_at(node.key):
            continue  # never reached, which is found as such
        for point in view.flow_points(node.key, "out"):
            if _is_error(point) and (node.key, point.id) not in view.leaving:
                yield Violation(nodes=(node.key,), facts={"name": view.name(node.key)})


def unjoined_branch(view: CheckedGraph) -> Iterator[Violation]:
    """Finds steps that join branches, at one of whose inputs nothing arrives."""
    for node in view.steps:
        inputs = view.flow_points(node.key, "in")
        empty = [point.id for point in inputs if (node.key, point.id) not in view.arriving]
        kind = node.type.rpartition(".")[2].lower()
        if len(inputs) > 1 and 0 < len(empty) < len(inputs) and kind.startswith(_JOINS):
            shown = ", ".join(str(int(i) + 1) if i.isdigit() else i for i in empty)
            yield Violation(nodes=(node.key,), facts={"name": view.name(node.key), "inputs": shown})


def open_loop(view: CheckedGraph) -> Iterator[Violation]:
    """Finds loops over batches whose body never leads back to them."""
    import networkx as nx

    for node in view.steps:
        for point in view.flow_points(node.key, "out"):
            body = view.leaving.get((node.key, point.id), [])
            if (point.display or "").lower() != _LOOP or not body:
                continue
            back = any(
                edge.target == node.key
                or (edge.target in view.flow and nx.has_path(view.flow, edge.target, node.key))
                for edge in body
            )
            if not back:
                yield Violation(nodes=(node.key,), facts={"name": view.name(node.key)})


def endless_cycle(view: CheckedGraph) -> Iterator[Violation]:
    """Finds cycles that nothing leaves: no edge, no open way of a choice, no code that
    may stop it.
    """
    import networkx as nx

    for part in nx.strongly_connected_components(view.flow):
        keys = sorted(part)
        if len(keys) == 1 and not view.flow.has_edge(keys[0], keys[0]):
            continue
        if any(target not in part for key in keys for target in view.flow.successors(key)):
            continue
        if not any(_may_stop(view, key) for key in keys):
            yield Violation(nodes=tuple(keys), facts={"names": view.names(keys)})


def disabled_in_flow(view: CheckedGraph) -> Iterator[Violation]:
    """Finds disabled steps with steps before and after them."""
    for node in view.steps:
        between = view.flow.in_degree(node.key) and view.flow.out_degree(node.key)
        if between and data_of(node).get("disabled") is True:
            yield Violation(nodes=(node.key,), facts={"name": view.name(node.key)})


def _is_error(point: HandlePoint) -> bool:
    # A way of a choice may be called ERROR: it is a value that was compared, not a failure.
    return point.display == "error" or point.id == "onError"


def _may_stop(view: CheckedGraph, key: str) -> bool:
    node = view.nodes[key]
    ways = view.flow_points(key, "out")
    chooses = len(ways) > 1 and any((key, way.id) not in view.leaving for way in ways)
    return chooses or bool(node.process) or "filter" in node.type.lower()


def _starts(view: CheckedGraph) -> list[str]:
    """Return the steps that begin by themselves: nothing can lead to them, and they serve no other.

    A start may be served: a server of tools begins by itself and has no flow at all.
    """
    return [
        node.key
        for node in view.steps
        if not view.flow_points(node.key, "in")
        and all(p.accept == ANY for p in view.points[node.key].values() if p.type == "out")
    ]
