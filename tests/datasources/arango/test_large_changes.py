"""Changes larger than a transaction: whole or absent, and finished by others where their
process is gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from datasources.arango import ArangoDatabase, applying, large_changes, parse_address, source
from datasources.arango.layout import EDGES, GRAPHS, NODES, STEPS
from datasources.base import RecordWrite
from datasources.errors import GraphExists, GraphNotFound, RevisionConflict, SourceBusy, SourceError
from datasources.types import Mutation
from tests.contracts.samples import WORKSPACE, a_graph, a_node, a_vector, an_edge
from tests.support.arango import ArangoServer, prepare, running_double

BIG = "big"
MOST = 60_000
COUNT = 120


@pytest.fixture(scope="module")
def small_server() -> Iterator[ArangoServer]:
    """A double that takes a small part of the change in one transaction."""
    with running_double(options=("--max-transaction", str(MOST))) as server:
        yield server


@pytest.fixture
async def address(
    small_server: ArangoServer, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[str]:
    monkeypatch.setattr(applying, "MAX_TRANSACTION_BYTES", 20_000)
    monkeypatch.setattr(applying, "VECTORS_AT_ONCE", 20)
    monkeypatch.setattr(large_changes, "STEP_BYTES", 20_000)
    monkeypatch.setattr(large_changes, "SWEPT", 50)
    monkeypatch.setattr(source, "DELETED_AT_ONCE", 100)
    name = small_server.fresh()
    await prepare(small_server.address(name))
    yield small_server.address(name)
    small_server.drop(name)


def contents(words: str = "first", count: int = COUNT, **more: Any) -> Mutation:
    keys = [f"n{number:03}" for number in range(count)]
    return Mutation(
        graph_key=BIG,
        put_nodes=[a_node(key, BIG, data={"name": f"{words} {key}"}) for key in keys],
        put_edges=[an_edge(f"e{key}", keys[0], key, BIG) for key in keys[1:]],
        put_vectors=[a_vector(key, 1, 2) for key in keys],
        **more,
    )


def joined(key: str) -> list[RecordWrite]:
    return [
        RecordWrite(kind="approval", key=key, data={"status": "applied"}, expected_version=None)
    ]


async def names_of(database: ArangoDatabase) -> set[str]:
    nodes = await database.source(WORKSPACE).get_nodes(BIG)
    return {(node.data or {})["name"].partition(" ")[0] for node in nodes}


def counts(server: ArangoServer, address: str) -> dict[str, int]:
    place = f"/_db/{address.rpartition('/')[2]}/_api/collection"
    return {
        name: server.call("GET", f"{place}/{name}/count")["count"]
        for name in (GRAPHS, NODES, EDGES, STEPS)
    }


async def test_a_change_larger_than_a_transaction_is_made_whole(
    small_server: ArangoServer, address: str
) -> None:
    async with ArangoDatabase(parse_address(address)) as database:
        graphs = database.source(WORKSPACE)
        made = await graphs.create_graph(a_graph(BIG, WORKSPACE), contents(), joined("made"))
        assert (made.key, made.revision) == (BIG, 1)
        assert await names_of(database) == {"first"}
        assert len(await graphs.get_edges(BIG)) == COUNT - 1
        assert len(await graphs.get_vectors(BIG, ["n000", "n119"])) == 2
        assert await database.records(WORKSPACE).get("approval", "made") is not None
        change = contents(
            "second", COUNT - 20, delete_nodes=[f"n{n:03}" for n in range(COUNT - 20, COUNT)]
        )
        with pytest.raises(RevisionConflict):
            await graphs.apply(change, expected_revision=7)
        assert await graphs.apply(change, expected_revision=1, records=joined("changed")) == 2
        assert await names_of(database) == {"second"}
        assert len(await graphs.get_edges(BIG)) == COUNT - 21
        with pytest.raises(GraphExists):
            await graphs.create_graph(a_graph(BIG, WORKSPACE), contents())
        await graphs.delete_graph(BIG)
        with pytest.raises(GraphNotFound):
            await graphs.get_graph(BIG)
    left = counts(small_server, address)
    assert (left[GRAPHS], left[NODES], left[EDGES]) == (0, 0, 0)


async def killed_after(server: ArangoServer, address: str, requests: int, work: Any) -> None:
    """Does work of which the server sees that many requests, and none later."""
    async with ArangoDatabase(parse_address(address)) as database:
        server.inject("", "delay:0", requests)
        server.inject("", "status:403", 1_000_000)
        with pytest.raises(SourceError):
            await work(database.source(WORKSPACE))
    server.heal()
    server.end_transactions(address.rpartition("/")[2])  # as the server does after a minute


@pytest.mark.parametrize(
    "requests", [2, 30, *(pytest.param(n, marks=pytest.mark.slow) for n in (6, 45, 60))]
)
async def test_of_a_killed_import_all_is_there_or_nothing(
    small_server: ArangoServer, address: str, monkeypatch: pytest.MonkeyPatch, requests: int
) -> None:
    async def imports(graphs: Any) -> None:
        await graphs.create_graph(a_graph(BIG, WORKSPACE), contents(), joined("made"))

    monkeypatch.setattr(large_changes, "HELD_S", 1_000)
    await killed_after(small_server, address, requests, imports)
    async with ArangoDatabase(parse_address(address)) as database:  # its process may only be slow
        assert await database.source(WORKSPACE).list_graphs() == []
        assert BIG not in await database.workspaces()
        with pytest.raises(GraphNotFound):
            await database.source(WORKSPACE).get_nodes(BIG)
    monkeypatch.setattr(large_changes, "time", FarFuture)
    async with ArangoDatabase(parse_address(address)) as database:
        is_there = await database.records(WORKSPACE).get("approval", "made") is not None
        assert bool(await database.source(WORKSPACE).list_graphs()) == is_there
        if is_there:
            assert await names_of(database) == {"first"}
            assert len(await database.source(WORKSPACE).get_edges(BIG)) == COUNT - 1
    left = counts(small_server, address)
    assert left[NODES] == (COUNT if is_there else 0)
    assert left[EDGES] == (COUNT - 1 if is_there else 0)


class FarFuture:
    """A clock on which every process has been gone for long."""

    @staticmethod
    def time() -> float:
        return 4e9


async def test_a_killed_replacement_or_deletion_is_finished_by_who_asks_for_the_graph(
    small_server: ArangoServer, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        ArangoDatabase(parse_address(address)) as database,
        ArangoDatabase(parse_address(address)) as other,
    ):
        await database.source(WORKSPACE).create_graph(a_graph(BIG, WORKSPACE), contents())
        await killed_after(
            small_server, address, 60, lambda graphs: graphs.apply(contents("second"))
        )
        with pytest.raises(SourceBusy, match="is being replaced"):  # it is not gone
            await database.source(WORKSPACE).get_graph(BIG)
        with pytest.raises(GraphNotFound):
            await database.source("globex").get_graph(BIG)
        monkeypatch.setattr(large_changes, "time", FarFuture)
        both = await asyncio.gather(names_of(database), names_of(other), return_exceptions=True)
        assert {"second"} in both
        assert await names_of(other) == {"second"}
        monkeypatch.undo()
        monkeypatch.setattr(source, "DELETED_AT_ONCE", 100)
        monkeypatch.setattr(large_changes, "SWEPT", 50)
        await killed_after(small_server, address, 12, lambda graphs: graphs.delete_graph(BIG))
        monkeypatch.setattr(large_changes, "time", FarFuture)
        with pytest.raises(GraphNotFound):
            await database.source(WORKSPACE).get_graph(BIG)
    left = counts(small_server, address)
    assert (left[GRAPHS], left[NODES], left[EDGES]) == (0, 0, 0)
