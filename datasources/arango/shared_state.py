"""What the sources of a database share: the connection, and what was learnt of server and graphs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from datasources.arango.connection import ArangoConnection
from datasources.arango.statements import Statement
from datasources.types import NodeTypeConfig

GraphName = tuple[str, str]
"""A workspace and a graph's key."""

UNAVAILABLE_S = 60.0
"""A statement whose index is missing or not trained is not tried again for so long."""

MAX_KNOWN = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchLimits:
    """When a graph is searched by View and vector index: beyond `exact` nodes.

    Units: `sums_fresh_s` is how old the mean length of its nodes' texts may be.
    """

    exact: int = 5_000
    sums_fresh_s: float = 60.0


@dataclass(frozen=True, slots=True)
class SeenTypes:
    """The types that a workspace sees, as they were when a graph was read."""

    types: Mapping[str, NodeTypeConfig]
    at: float


@dataclass(frozen=True, slots=True)
class TextSums:
    """Nodes of a graph by (type, without name, without code): how many, and how many words of their own."""

    rows: tuple[tuple[str, bool, bool, int, int, int], ...]
    at: float


@dataclass(slots=True)
class SharedState:
    """`indexed_dim` is the length that the vector indexes take, None without one.

    `by_code_point`: the server orders text as Python does, so that it can cut pages. `exact_only`: no
    statement for large graphs is used.
    """

    connection: ArangoConnection
    limits: SearchLimits = field(default_factory=SearchLimits)
    indexed_dim: int | None = None
    by_code_point: bool = True
    exact_only: bool = False
    seen_types: dict[str, SeenTypes] = field(default_factory=dict[str, SeenTypes])
    sizes: dict[GraphName, int] = field(default_factory=dict[GraphName, int])
    sums: dict[GraphName, TextSums] = field(default_factory=dict[GraphName, TextSums])
    unavailable: dict[Statement, float] = field(default_factory=dict[Statement, float])

    def is_large(self, name: GraphName) -> bool:
        """Say whether a graph had more nodes than are searched exactly, when it was last searched."""
        return self.sizes.get(name, 0) > self.limits.exact

    def learn(self, name: GraphName, nodes: int, sums: TextSums | None = None) -> None:
        """Keep how many nodes a graph has, and the lengths of their texts where these were read."""
        if len(self.sizes) > MAX_KNOWN:
            self.sizes.clear()
            self.sums.clear()
        self.sizes[name] = nodes
        if sums is not None:
            self.sums[name] = sums

    def mark_unavailable(self, statement: Statement) -> None:
        self.unavailable[statement] = time.monotonic() + UNAVAILABLE_S

    def is_usable(self, statement: Statement) -> bool:
        return not self.exact_only and time.monotonic() >= self.unavailable.get(statement, 0.0)
