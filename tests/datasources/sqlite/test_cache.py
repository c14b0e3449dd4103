"""What is held in memory of a graph is the graph as it is, and bounded."""

import random
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from datasources.cache import Cache
from datasources.hits import SearchField
from datasources.lexical import LexicalIndex
from datasources.sqlite import change_log, held_words
from datasources.sqlite.held_words import HeldWords
from datasources.sqlite.source import SqliteSource
from datasources.types import Mutation
from tests.contracts.samples import FLOW, a_graph, a_node
from tests.contracts.searches import search_text
from tests.datasources.sqlite.helpers import opened


@dataclass
class Part:
    nbytes: int = 1


def test_what_many_ask_for_at_once_is_loaded_once() -> None:
    held = Cache(100)
    loads = list[int]()

    def load(_: object) -> Part:
        loads.append(1)
        time.sleep(0.02)
        return Part()

    threads = [threading.Thread(target=held.get, args=(("text", 1), 5, load)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(loads) == 1


def test_what_could_not_be_loaded_is_tried_again() -> None:
    held = Cache(100)

    def fail(_: object) -> Part:
        raise MemoryError

    for _ in range(2):
        with pytest.raises(MemoryError):
            held.get(("text", 1), 5, fail)
    assert held.get(("text", 1), 5, lambda _: Part(7)) == Part(7)
    assert held.get(("text", 1), 6, lambda older: Part(older.nbytes + 1 if older else 0)) == Part(8)


def test_what_was_used_least_recently_goes_and_a_deleted_graph_goes_whole() -> None:
    held = Cache(10)
    for graph in (1, 2, 1, 3):
        held.get(("text", graph), 1, lambda _: Part(4))
    assert [name[1] for name in held._entries] == [1, 3]
    held.forget(1)
    assert ([name[1] for name in held._entries], held._bytes) == ([3], 4)


WORDS = ["fetch", "sort", "filter", "players", "season", "points", "données", "発送"]
FIELDS: tuple[SearchField, ...] = ("content", "name")


def an_edit(chance: random.Random, keys: set[str]) -> Mutation:
    """Add, change, and take away nodes, also one and the same; `keys` follows."""
    gone = set(chance.sample(sorted(keys), min(len(keys) // 3, chance.randrange(3))))
    put = {f"n{chance.randrange(60)}" for _ in range(chance.randrange(1, 4))} - gone
    keys -= gone
    keys |= put
    nodes = [
        a_node(key, data={"name": " ".join(chance.choices(WORDS, k=4))}) for key in sorted(put)
    ]
    return Mutation(graph_key=FLOW, delete_nodes=sorted(gone), put_nodes=nodes)


async def searches(source: SqliteSource) -> list[object]:
    return [
        await search_text(source, FLOW, word, limit=9, field=field)
        for word in WORDS
        for field in FIELDS
    ]


@pytest.mark.slow
async def test_words_are_true_after_whatever_another_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(4)
    keys = set[str]()
    builds: list[int] = []
    build = LexicalIndex.build
    monkeypatch.setattr(
        LexicalIndex, "build", staticmethod(lambda *a: (builds.append(0), build(*a))[1])
    )
    file = tmp_path / "graphs.db"
    async with opened(file) as writer, opened(file) as reader:
        await writer.create_graph(a_graph())
        for _ in range(25):
            for _ in range(chance.randrange(1, 3)):
                await writer.apply(an_edit(chance, keys))
            found = await searches(reader)
            async with opened(file) as fresh:
                assert found == await searches(fresh)
        assert len(builds) < 25 * 2 + 15  # two fields of each fresh one; the reader's own are few


async def words_now(source: SqliteSource, older: HeldWords | None) -> HeldWords:
    return await source._read_rows(FLOW, lambda c, row: HeldWords.load(c, row, "content", older))


async def test_what_changed_too_much_or_is_forgotten_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_log, "MAX_BEHIND", 5)
    async with opened(tmp_path / "graphs.db") as source:
        await source.create_graph(a_graph())
        await source.apply(
            Mutation(graph_key=FLOW, put_nodes=[a_node(f"n{i}") for i in range(100)])
        )
        held = await words_now(source, None)
        for count in (1, 8):
            nodes = [a_node(f"n{i}", process=f"season {count}") for i in range(count)]
            await source.apply(Mutation(graph_key=FLOW, put_nodes=nodes))
            fresh = await words_now(source, None)
            held = await words_now(source, held)
            assert (held.number, held.keys) == (fresh.number, fresh.keys)
            assert held.index.search(["season"], 10) == fresh.index.search(["season"], 10)
            assert len(held.index.search(["season"], 10)) == count


async def test_words_that_no_node_has_any_more_are_not_kept_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_words, "MAX_UNUSED", 0.2)
    async with opened(tmp_path / "graphs.db") as source:
        await source.create_graph(a_graph())
        await source.apply(Mutation(graph_key=FLOW, put_nodes=[a_node(f"n{i}") for i in range(30)]))
        held = await words_now(source, None)
        most = 0
        for i in range(60):
            node = a_node("n1", process=f"passing{i:03}x")
            await source.apply(Mutation(graph_key=FLOW, put_nodes=[node]))
            held = await words_now(source, held)
            most = max(most, held.index.unused)
        assert 0 < most < 40
