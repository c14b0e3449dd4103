"""A graph as the rules look at it (its parts by key, the flow from step to step), and what
a rule finds.
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
"""Types that stand in a graph for people to read; nothing runs through them."""
ANY: Final = "any"


@dataclass(frozen=True, kw_only=True)
class CheckedGraph:
    """A whole graph. `types` are those its workspace sees, by name, the built-in
    ones among them.
    """

    graph: Graph
    nodes: Mapping[str, Node]
    edges: Sequence[Edge]
    types: Mapping[str, NodeTypeConfig]
    used_types: frozenset[str] | None = None
    """Types that any graph of the workspace uses; None: not looked up."""

    @cached_property
    def steps(self) -> list[Node]:
        """The nodes through which something runs."""
        return [node for node in self.nodes.values() if node.type not in NO_STEPS]

    @cached_property
    def points(self) -> dict[str, dict[str, HandlePoint]]:
        """The handles of each node, its own or those of its type, by id with direction: `out 0`."""
        found: dict[str, dict[str, HandlePoint]] = {}
        for node in self.nodes.values():
            config = self.types.get(node.type)
            handles = node.handles or (config.node.handles if config else {})
            points = [point for group in handles.values() for point in group.point]
            found[node.key] = {f"{point.type} {point.id}": point for point in points}
        return found

    def flow_points(self, key: str, direction: str) -> list[HandlePoint]:
        """Return a node's handles of one direction through which the flow runs: not those
        for its parts.
        """
        points = self.points[key].items()
        return [p for name, p in points if name.startswith(direction) and p.accept == ANY]

    @cached_property
    def leaving(self) -> dict[tuple[str, str], list[Edge]]:
        """The edges by node and handle that they leave."""
        return _grouped(((edge.source, edge.source_handle), edge) for edge in self.edges)

    @cached_property
    def arriving(self) -> dict[tuple[str, str], list[Edge]]:
        """The edges by node and handle that they arrive at."""
        return _grouped(((edge.target, edge.target_handle), edge) for edge in self.edges)

    def arriving_at(self, key: str) -> bool:
        """Tell whether any edge arrives at a node's flow."""
        return any((key, point.id) in self.arriving for point in self.flow_points(key, "in"))

    @cached_property
    def flow(self) -> nx.DiGraph[str]:
        """The steps, joined by the edges that the flow takes."""
        import networkx as nx  # slow to import, and needed by checks alone

        graph: nx.DiGraph[str] = nx.DiGraph()
        graph.add_nodes_from(node.key for node in self.steps)
        graph.add_edges_from(
            (e.source, e.target) for e in self.edges if self._is_flow(e) and self._ends(e)
        )
        return graph

    @cached_property
    def parts(self) -> nx.DiGraph[str]:
        """From each step to the steps that serve it, as a model serves an agent."""
        import networkx as nx

        graph: nx.DiGraph[str] = nx.DiGraph()
        served = [e for e in self.edges if not self._is_flow(e) and self._ends(e)]
        graph.add_edges_from((edge.target, edge.source) for edge in served)
        return graph

    def name(self, key: str) -> str:
        """Return what a person calls a node: its name, else its key."""
        node = self.nodes.get(key)
        return (name_of(node) if node else None) or key

    def names(self, keys: Sequence[str], most: int = 3) -> str:
        """Return the names of some nodes as one text."""
        shown = ", ".join(self.name(key) for key in keys[:most])
        return f"{shown} (+{len(keys) - most})" if len(keys) > most else shown

    def _is_flow(self, edge: Edge) -> bool:
        """Tell whether the flow takes an edge: what serves a step says so at both of its ends."""
        source = self.points.get(edge.source, {}).get(f"out {edge.source_handle}")
        target = self.points.get(edge.target, {}).get(f"in {edge.target_handle}")
        return any(point is None or point.accept == ANY for point in (source, target))

    def _ends(self, edge: Edge) -> bool:
        known = (self.nodes.get(edge.source), self.nodes.get(edge.target))
        return all(node is not None and node.type not in NO_STEPS for node in known)


def data_of(node: Node | None) -> Mapping[str, Any]:
    """Return a node's data if there are any with names."""
    return cast(Mapping[str, Any], node.data) if node and isinstance(node.data, Mapping) else {}


def _grouped(edges: Iterable[tuple[tuple[str, str], Edge]]) -> dict[tuple[str, str], list[Edge]]:
    found: dict[tuple[str, str], list[Edge]] = defaultdict(list)
    for end, edge in edges:
        found[end].append(edge)
    return dict(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One place where a rule is broken. `facts` fill its sentence.

    `repair` is the proposal that mends it, where that is mechanical: `tool` and `arguments`.
    """

    nodes: tuple[str, ...]
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])
    repair: Mapping[str, Any] | None = None
