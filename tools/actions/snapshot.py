"""The part of a graph that an action is checked and carried out on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from datasources.builtin_types import BUILTIN_TYPES
from datasources.hits import NodeVector
from datasources.types import Edge, Graph, Node, NodeTypeConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A graph at one revision, as far as an action needs it.

    `types` are by name, built-in ones too. `vectors` are read only where an undo is stored.
    """

    graph: Graph
    nodes: Mapping[str, Node] = field(default_factory=dict[str, Node])
    edges: Mapping[str, Edge] = field(default_factory=dict[str, Edge])
    types: Mapping[str, NodeTypeConfig] = field(default_factory=lambda: dict(BUILTIN_TYPES))
    vectors: Mapping[str, NodeVector] = field(default_factory=dict[str, NodeVector])

    def type_of(self, name: str) -> NodeTypeConfig | None:
        """Returns a type by its name, else by the key of its document."""
        found = self.types.get(name)
        return found or next((config for config in self.types.values() if config.key == name), None)

    def edges_of(self, keys: set[str]) -> dict[str, Edge]:
        """Returns the edges that start or end at one of the nodes, by key."""
        return {key: e for key, e in self.edges.items() if e.source in keys or e.target in keys}
