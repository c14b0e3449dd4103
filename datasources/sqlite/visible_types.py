"""The node types that a workspace sees: its own and those of the root workspace."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import final

from datasources.builtin_types import visible_types
from datasources.sqlite import statements as sql
from datasources.sqlite.cache import Cache
from datasources.types import ROOT_WORKSPACE, NodeTypeConfig, parse_document

_TYPE_BYTES = 4_000  # estimated bytes of a parsed type in memory


@final
@dataclass(frozen=True, slots=True)
class _Types:
    configs: list[NodeTypeConfig]

    @property
    def nbytes(self) -> int:
        return _TYPE_BYTES * len(self.configs)


def read_configs(connection: sqlite3.Connection, workspace: str) -> list[NodeTypeConfig]:
    """Returns the stored types that a workspace sees."""
    own: list[NodeTypeConfig] = []
    root: list[NodeTypeConfig] = []
    rows = connection.execute(sql.CONFIGS, {"workspace": workspace, "root": ROOT_WORKSPACE})
    for owner, body in rows:
        config = parse_document(NodeTypeConfig, body, "node_configs")
        (own if owner == workspace else root).append(config)
    return visible_types(own, root)


def held_configs(
    connection: sqlite3.Connection, workspace: str, cache: Cache
) -> list[NodeTypeConfig]:
    """Returns the result of `read_configs`, cached until a graph or a type changes.

    Every question reads the types, and parsing a hundred of them takes a millisecond.
    """
    (changes,) = connection.execute(sql.GRAPH_CHANGES).fetchone()
    types = cache.get(
        ("types", workspace), changes, lambda _: _Types(read_configs(connection, workspace))
    )
    return types.configs
