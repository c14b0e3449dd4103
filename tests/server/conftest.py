"""What several tests of the service need."""

from __future__ import annotations

from pathlib import Path

import pytest

from datasources.mock import open_nba
from datasources.sqlite import SqliteDatabase
from datasources.types import Mutation
from tests.support.ws_server import GRAPH


@pytest.fixture
async def file(tmp_path: Path) -> Path:
    """A database file with the sample graph."""
    path = tmp_path / "two.db"
    async with open_nba("default") as sample, SqliteDatabase(path) as database:
        read, write = sample.source("default"), database.source("default")
        for config in await read.get_node_configs():
            if config.workspace == "default":
                await write.put_node_config(config)
        await write.create_graph(await read.get_graph(GRAPH))
        nodes, edges = await read.get_nodes(GRAPH), await read.get_edges(GRAPH)
        await write.apply(Mutation(graph_key=GRAPH, put_nodes=nodes, put_edges=edges))
    return path
