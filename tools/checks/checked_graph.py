"""The input and output of a rule: a graph with lookups by key and handle and the flow between
its steps, and a violation.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, cast

from datasources.types import Edge, Graph, HandlePoint, Node, NodeTypeConfig
from tools.references import NOTE_TYPE, name_of

if TYPE_CHECKING:
    import networkx as nx

NO_STEPS: Final = frozenset({NOTE_TYPE, "group", "comment"})
"""Types of nodes that only annotate a graph and are never executed."""
ANY: Final = "any"


@dataclass(frozen=True, kw_only=True)
class CheckedGraph:
    """A complete graph. `types` are all node types of its workspace by name, including the
    built-in ones.
    """

    graph: Graph
    nodes: Mapping[str, Node]
    edges: Sequence[Edge]
    types: Mapping[str, NodeTypeConfig]
    used_types: frozenset[str] | None = None
    """Types used by any graph of the workspace; None if they were not collected."""

    @cached_property
    def steps(self) -> list[Node]:
        """The nodes that can be executed: all except notes, groups and comments."""
        return [node for node in self.nodes.values() if node.type not in NO_STEPS]

    @cached_property
    def points(self) -> dict[str, dict[str, HandlePoint]]:
        """The handles of each node (its own, or else those of its type), by direction and id
        as in `out 0`.
        """
        points_by_node: dict[str, dict[str, HandlePoint]] = {}
        for node in self.nodes.values():
            config = self.types.get(node.type)
            handles = node.handles or (config.node.handles if config else {})
            points = [point for group in handles.values() for point in group.point]
            points_by_node[node.key] = {f"{point.type} {point.id}": point for point in points}
        return points_by_node

    def flow_points(self, key: str, direction: str) -> list[HandlePoint]:
        """Returns a node's flow handles of one direction ("in" or "out").

        Handles for serving nodes, as the model of an agent, are not part of the flow.
        """
        points = self.points[key].items()
        return [p for name, p in points if name.startswith(direction) and p.accept == ANY]

    @cached_property
    def leaving(self) -> dict[tuple[str, str], list[Edge]]:
        """The edges by source node and handle."""
        return _grouped(((edge.source, edge.source_handle), edge) for edge in self.edges)

    @cached_property
    def arriving(self) -> dict[tuple[str, str], list[Edge]]:
        """The edges by target node and handle."""
        return _grouped(((edge.target, edge.target_handle), edge) for edge in self.edges)

    def arriving_at(self, key: str) -> bool:
        """Returns whether any edge ends at a flow input of a node."""
        return any((key, point.id) in self.arriving for point in self.flow_points(key, "in"))

    @cached_property
    def flow(self) -> nx.DiGraph[str]:
        """The steps and the flow edges between them."""
        import networkx as nx  # slow to import, and only checks need it

        graph: nx.DiGraph[str] = nx.DiGraph()
        graph.add_nodes_from(node.key for node in self.steps)
        graph.add_edges_from(
            (e.source, e.target) for e in self.edges if self._is_flow(e) and self._joins_steps(e)
        )
        return graph

    @cached_property
    def parts(self) -> nx.DiGraph[str]:
        """Edges from each step to the steps that serve it, as a model serves an agent."""
        import networkx as nx

        graph: nx.DiGraph[str] = nx.DiGraph()
        serving = [e for e in self.edges if not self._is_flow(e) and self._joins_steps(e)]
        graph.add_edges_from((edge.target, edge.source) for edge in serving)
        return graph

    def name(self, key: str) -> str:
        """Returns the name of a node, or its key if it has no name."""
        node = self.nodes.get(key)
        return (name_of(node) if node else None) or key

    def names(self, keys: Sequence[str], most: int = 3) -> str:
        """Returns the names of the first `most` nodes as one text, with the number of others."""
        shown = ", ".join(self.name(key) for key in keys[:most])
        return f"{shown} (+{len(keys) - most})" if len(keys) > most else shown

    def _is_flow(self, edge: Edge) -> bool:
        """Returns whether an edge is part of the flow: at least one of its handles is a flow
        handle or does not exist.
        """
        source = self.points.get(edge.source, {}).get(f"out {edge.source_handle}")
        target = self.points.get(edge.target, {}).get(f"in {edge.target_handle}")
        return any(point is None or point.accept == ANY for point in (source, target))

    def _joins_steps(self, edge: Edge) -> bool:
        ends = (self.nodes.get(edge.source), self.nodes.get(edge.target))
        return all(node is not None and node.type not in NO_STEPS for node in ends)


def data_of(node: Node | None) -> Mapping[str, Any]:
    """Returns a node's data if it is a JSON object, else an empty mapping."""
    return cast(Mapping[str, Any], node.data) if node and isinstance(node.data, Mapping) else {}


def _grouped(edges: Iterable[tuple[tuple[str, str], Edge]]) -> dict[tuple[str, str], list[Edge]]:
    groups: dict[tuple[str, str], list[Edge]] = defaultdict(list)
    for end, edge in edges:
        groups[end].append(edge)
    return dict(groups)


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One violation of a rule. `facts` fill the placeholders of the rule's sentence.

    `repair` is a tool call (`tool`, `arguments`) that proposes a repair; None if there is no
    mechanical one.
    """

    nodes: tuple[str, ...]
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])
    repair: Mapping[str, Any] | None = None
