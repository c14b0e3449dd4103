"""A database file with the sample graph."""

from __future__ import annotations

from pathlib import Path

from datasources.mock import open_nba
from datasources.sqlite import SqliteDatabase
from datasources.types import Mutation
from tests.support.service import GRAPH


async def nba_file(folder: Path) -> Path:
    """Write the file into a folder; return its path."""
    path = folder / "two.db"
    async with open_nba("default") as sample, SqliteDatabase(path) as database:
        read, write = sample.source("default"), database.source("default")
        for config in await read.get_node_configs():
            if config.workspace == "default":
                await write.put_node_config(config)
        await write.create_graph(await read.get_graph(GRAPH))
        nodes, edges = await read.get_nodes(GRAPH), await read.get_edges(GRAPH)
        await write.apply(Mutation(graph_key=GRAPH, put_nodes=nodes, put_edges=edges))
    return path
