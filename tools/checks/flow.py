"""Rules about the flow: unreachable steps, dead ends, open branches and loops, endless cycles."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from datasources.types import HandlePoint
from tools.checks.checked_graph import ANY, CheckedGraph, Violation, data_of

_JOINS = ("merge", "join")
_LOOP = "loop"


def no_start(view: CheckedGraph) -> Iterator[Violation]:
    """Finds a graph that has flow edges but no step at which a run can start."""
    if view.flow.number_of_edges() and not _starts(view):
        keys = sorted(view.flow)
        yield Violation(nodes=tuple(keys), facts={"count": len(keys)})


def unreachable(view: CheckedGraph) -> Iterator[Violation]:
    """Finds steps that no start reaches, one violation for each connected component of them."""
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
        roots = [key for key in part if not lost.in_degree(key)] or part
        yield Violation(
            nodes=tuple(roots + [key for key in part if key not in roots]),
            facts={"names": view.names(roots)},
        )


def dead_end(view: CheckedGraph) -> Iterator[Violation]:
    """Finds reached steps with several outputs of which none is connected."""
    for node in view.steps:
        outputs = [point for point in view.flow_points(node.key, "out") if not _is_error(point)]
        if (
            len(outputs) > 1
            and view.arriving_at(node.key)
            and not any((node.key, output.id) in view.leaving for output in outputs)
        ):
            yield Violation(
                nodes=(node.key,), facts={"name": view.name(node.key), "count": len(outputs)}
            )


def open_error_output(view: CheckedGraph) -> Iterator[Violation]:
    """Finds unconnected error outputs of steps that are reached."""
    for node in view.steps:
        if view.flow_points(node.key, "in") and not view.arriving_at(node.key):
            continue  # not reached: the rule `unreachable` finds this
        for point in view.flow_points(node.key, "out"):
            if _is_error(point) and (node.key, point.id) not in view.leaving:
                yield Violation(nodes=(node.key,), facts={"name": view.name(node.key)})


def unjoined_branch(view: CheckedGraph) -> Iterator[Violation]:
    """Finds merging steps of which some, but not all, inputs are connected."""
    for node in view.steps:
        inputs = view.flow_points(node.key, "in")
        empty = [point.id for point in inputs if (node.key, point.id) not in view.arriving]
        kind = node.type.rpartition(".")[2].lower()
        if len(inputs) > 1 and 0 < len(empty) < len(inputs) and kind.startswith(_JOINS):
            shown = ", ".join(str(int(i) + 1) if i.isdigit() else i for i in empty)
            yield Violation(nodes=(node.key,), facts={"name": view.name(node.key), "inputs": shown})


def open_loop(view: CheckedGraph) -> Iterator[Violation]:
    """Finds loop nodes whose body has no path back to them."""
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
    """Finds cycles without an exit: no edge leaves them, and no step in them may stop the run
    (by an unconnected output of a choice, by code or by a filter).
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
    """Finds disabled steps that have a predecessor and a successor."""
    for node in view.steps:
        between = view.flow.in_degree(node.key) and view.flow.out_degree(node.key)
        if between and data_of(node).get("disabled") is True:
            yield Violation(nodes=(node.key,), facts={"name": view.name(node.key)})


def _is_error(point: HandlePoint) -> bool:
    # The output of a choice may be called ERROR: that is a compared value, not a failure.
    return point.display == "error" or point.id == "onError"


def _may_stop(view: CheckedGraph, key: str) -> bool:
    node = view.nodes[key]
    outputs = view.flow_points(key, "out")
    chooses = len(outputs) > 1 and any((key, output.id) not in view.leaving for output in outputs)
    return chooses or bool(node.process) or "filter" in node.type.lower()


def _starts(view: CheckedGraph) -> list[str]:
    """Returns the steps at which a run can start: they have no flow input and serve no other
    step.

    A start may have serving steps, and may have no flow: an MCP trigger has only tools.
    """
    return [
        node.key
        for node in view.steps
        if not view.flow_points(node.key, "in")
        and all(p.accept == ANY for p in view.points[node.key].values() if p.type == "out")
    ]
