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

EXACT_NODES = 5_000
"""Graphs of so many nodes are searched exactly."""

KNOWN_FOR_S = 60.0
"""So long a graph is taken for large, and a statement whose index is missing or not trained is not tried."""

MAX_KNOWN = 2_000
NO_LIMIT = 1_000_000_000


@dataclass(frozen=True, slots=True)
class SeenTypes:
    """The types that a workspace sees, as they were when a graph was read."""

    types: Mapping[str, NodeTypeConfig]
    at: float


@dataclass(slots=True)
class SharedState:
    """`exact` is the most nodes of a graph that is searched exactly.

    `indexed_dim` is the length that the vector indexes take, None without one. `by_code_point`: the server
    orders text as Python does, so that it can cut pages. `exact_only`: no statement for large graphs is used.
    """

    connection: ArangoConnection
    exact: int = EXACT_NODES
    indexed_dim: int | None = None
    by_code_point: bool = True
    exact_only: bool = False
    seen_types: dict[str, SeenTypes] = field(default_factory=dict[str, SeenTypes])
    known_until: dict[GraphName | Statement, float] = field(
        default_factory=dict[GraphName | Statement, float]
    )

    def is_noted(self, what: GraphName | Statement) -> bool:
        """Say whether a graph was large, or a statement without its index, a moment ago."""
        return time.monotonic() < self.known_until.get(what, 0.0)

    def note(self, what: GraphName | Statement) -> None:
        if len(self.known_until) > MAX_KNOWN:
            self.known_until.clear()
        self.known_until[what] = time.monotonic() + KNOWN_FOR_S
