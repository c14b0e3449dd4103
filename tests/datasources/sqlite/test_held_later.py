"""A middling graph is read from the file until it was asked for often enough, and never waits to be held."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from pathlib import Path

import pytest

from datasources.sqlite import Limits
from datasources.sqlite.snapshot import GraphDocuments
from datasources.sqlite.source import SqliteSource
from datasources.types import Mutation
from tests.contracts.samples import FLOW, a_graph, a_node, an_edge
from tests.datasources.sqlite.helpers import opened

MIDDLING = Limits(held=-1, exact=-1, asked=3)


async def made(source: SqliteSource) -> None:
    await source.create_graph(a_graph())
    nodes = [a_node(f"n{i}") for i in range(20)]
    edges = [an_edge(f"e{i}", f"n{i}", f"n{(i * 7) % 20}") for i in range(20)]
    await source.apply(Mutation(graph_key=FLOW, put_nodes=nodes, put_edges=edges))


def held(source: SqliteSource) -> object | None:
    row = source._row(FLOW)
    return source.engine.snapshots.get(("documents", row.id), row.revision)


async def loaded(source: SqliteSource) -> None:
    await asyncio.gather(*source.engine._loading.values(), return_exceptions=True)


async def test_a_graph_that_is_asked_for_often_is_held_from_then_on(tmp_path: Path) -> None:
    async with opened(tmp_path / "graphs.db", MIDDLING) as source:
        await made(source)
        answers: list[object] = []
        for times in range(1, 6):
            answers.append(await source.get_neighborhood(FLOW, ["n1"], max_depth=2, limit=9))
            await loaded(source)
            assert (held(source) is not None) == (times >= 3)
        assert all(answer == answers[0] for answer in answers)


async def test_each_write_begins_the_count_anew(tmp_path: Path) -> None:
    async with opened(tmp_path / "graphs.db", MIDDLING) as source:
        await made(source)
        for i in range(8):
            await source.apply(Mutation(graph_key=FLOW, put_nodes=[a_node("n1", process=f"step{i}")]))
            for _ in range(2):
                assert [n.process for n in await source.get_nodes_by_key(FLOW, ["n1"])] == [f"step{i}"]
            assert not source.engine._loading
            assert held(source) is None


async def test_a_graph_that_cannot_be_held_is_still_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(tmp_path / "graphs.db", MIDDLING) as source:
        await made(source)

        def fails(connection: sqlite3.Connection, row: object) -> GraphDocuments:
            raise MemoryError

        monkeypatch.setattr(GraphDocuments, "load", fails)
        with caplog.at_level(logging.WARNING):
            for _ in range(5):
                assert len(await source.get_nodes_by_key(FLOW, ["n1", "n2"])) == 2
                await loaded(source)
        assert [record.message for record in caplog.records] == ["graph_not_held"]


async def test_a_database_closes_while_a_graph_is_being_loaded(tmp_path: Path) -> None:
    async with opened(tmp_path / "graphs.db", MIDDLING) as source:
        await made(source)
        for _ in range(3):
            await source.get_nodes_by_key(FLOW, ["n1"])
        assert source.engine._loading
    async with opened(tmp_path / "graphs.db", MIDDLING) as source:
        assert len(await source.get_nodes_by_key(FLOW, ["n1"])) == 1


async def test_graphs_that_are_asked_for_once_are_not_counted_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("datasources.sqlite.engine.MAX_ASKED", 3)
    async with opened(tmp_path / "graphs.db", MIDDLING) as source:
        for i in range(9):
            await source.create_graph(a_graph(f"g{i}"))
            await source.get_nodes_by_key(f"g{i}", ["n1"])
            assert len(source.engine._asked) <= 3
