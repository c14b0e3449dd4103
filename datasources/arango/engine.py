"""What the sources of a database share: the connection, and what was learnt of server and graphs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from datasources.arango.connection import ArangoConnection
from datasources.arango.statements import Statement
from datasources.types import NodeTypeConfig

Name = tuple[str, str]
"""A workspace and a graph's key."""

SHUNNED_S = 60.0
"""A statement whose index is missing or not trained is not tried again for so long."""

MAX_KNOWN = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """Nodes of a graph by (type, unnamed, bare), and how many words of their own they have."""

    rows: tuple[tuple[str, bool, bool, int, int, int], ...]
    at: float


@dataclass(slots=True)
class Engine:
    """`indexed_dim` is the length that the vector indexes take, None without one.

    `by_code_point`: the server orders text as Python does, so that it can cut pages. `exact_only`: no
    statement for large graphs is used.
    """

    connection: ArangoConnection
    limits: Limits = field(default_factory=Limits)
    indexed_dim: int | None = None
    by_code_point: bool = True
    exact_only: bool = False
    seen: dict[str, SeenTypes] = field(default_factory=dict[str, SeenTypes])
    sizes: dict[Name, int] = field(default_factory=dict[Name, int])
    sums: dict[Name, Sums] = field(default_factory=dict[Name, Sums])
    shunned: dict[str, float] = field(default_factory=dict[str, float])

    def is_large(self, name: Name) -> bool:
        """Say whether a graph had more nodes than are searched exactly, when it was last searched."""
        return self.sizes.get(name, 0) > self.limits.exact

    def learn_size(self, name: Name, nodes: int) -> None:
        if len(self.sizes) > MAX_KNOWN:
            self.sizes.clear()
        self.sizes[name] = nodes

    def learn_sums(self, name: Name, sums: Sums) -> None:
        if len(self.sums) > MAX_KNOWN:
            self.sums.clear()
        self.sums[name] = sums

    def mark_unavailable(self, statement: Statement) -> None:
        self.shunned[statement.name] = time.monotonic() + SHUNNED_S

    def is_usable(self, statement: Statement) -> bool:
        return not self.exact_only and time.monotonic() >= self.shunned.get(statement.name, 0.0)
