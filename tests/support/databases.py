"""One database of each kind for a test, and the sample graph in one that does not have it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from datasources import postgres
from datasources.arango import ArangoDatabase, parse_address
from datasources.base import Database
from datasources.mock import MemoryDatabase, open_nba
from datasources.sqlite import SqliteDatabase
from datasources.types import Mutation
from tests.support.chosen_database import database_in
from tests.support.service import GRAPH


@pytest.fixture(
    params=[
        "memory",
        "sqlite",
        pytest.param("postgres", marks=pytest.mark.slow),
        pytest.param("arango", marks=pytest.mark.slow),
    ]
)
def database_of_a_kind(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Database]:
    """What makes a database of each kind, not yet opened; of a file and a server, the same
    one each time.
    """
    if request.param == "memory":
        return MemoryDatabase
    if request.param == "sqlite":
        return lambda: SqliteDatabase(tmp_path / "graphs.db")
    if request.param == "postgres":
        there = postgres.parse_address(request.getfixturevalue("postgres_url"))
        return lambda: postgres.PostgresDatabase(there)
    address = parse_address(request.getfixturevalue("arango_address"))
    return lambda: ArangoDatabase(address)


@pytest.fixture
async def database(database_of_a_kind: Callable[[], Database]) -> AsyncIterator[Database]:
    async with database_of_a_kind() as opened:
        yield opened


@pytest.fixture
async def memory() -> AsyncIterator[Database]:
    async with MemoryDatabase() as opened:
        yield opened


async def put_sample(database: Database) -> None:
    """Store the sample graph in a database that does not have it."""
    write = database.source("default")
    if any(graph.key == GRAPH for graph in await write.list_graphs()):
        return
    async with open_nba("default") as sample:
        read = sample.source("default")
        for config in await read.get_node_configs():
            if config.workspace == "default":
                await write.put_node_config(config)
        nodes = await read.get_nodes(GRAPH)
        edges = await read.get_edges(GRAPH)
        mutation = Mutation(graph_key=GRAPH, put_nodes=nodes, put_edges=edges)
        await write.create_graph(await read.get_graph(GRAPH), mutation)


async def nba_file(folder: Path) -> Path:
    """Stores the sample graph in the database of a path in a folder; returns the path."""
    path = folder / "two.db"
    async with database_in(path) as database:
        await put_sample(database)
    return path
