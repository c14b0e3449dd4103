"""The node types that a workspace sees: its own and those of the root workspace."""

from __future__ import annotations

import sqlite3

from datasources.cache import Cache
from datasources.sqlite import statements as sql
from datasources.stored_types import HeldTypes, parsed_configs
from datasources.types import ROOT_WORKSPACE, NodeTypeConfig


def read_configs(connection: sqlite3.Connection, workspace: str) -> list[NodeTypeConfig]:
    """Returns the stored types that a workspace sees."""
    values = {"workspace": workspace, "root": ROOT_WORKSPACE}
    return parsed_configs(connection.execute(sql.CONFIGS, values), workspace)


def held_configs(
    connection: sqlite3.Connection, workspace: str, cache: Cache
) -> list[NodeTypeConfig]:
    """Returns the result of `read_configs`, cached until a graph or a type changes.

    Every question reads the types, and parsing a hundred of them takes a millisecond.
    """
    (changes,) = connection.execute(sql.GRAPH_CHANGES).fetchone()
    types = cache.get(
        ("types", workspace), changes, lambda _: HeldTypes(read_configs(connection, workspace))
    )
    return types.configs
