"""The cache: expiry, bound, sharing, and callers that give up."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from datasources.errors import GraphNotFound
from datasources.mock import MemoryDatabase
from datasources.sqlite import SqliteDatabase
from datasources.types import Mutation
from graphrag.embedding import LocalEmbedder
from graphrag.embedding.embedder import EmbeddingUnreachable
from graphrag.embedding.refresh import embed_nodes
from graphrag.retrieval.rank import RankOptions
from graphrag.retrieval.result_cache import ResultCache
from graphrag.retrieval.retriever import Retriever
from tests.contracts.samples import WORKSPACE, a_graph, a_node, make_flow
from tests.graphrag.retrieval.test_retriever import NBA, Counting, keys, local, nba, options
from tests.support.clock import Clock
from tests.support.waiting import cancelled


class Source:
    """Counts its computations; a gate holds them back."""

    def __init__(self) -> None:
        self.calls = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def __call__(self) -> int:
        self.calls += 1
        value = self.calls
        await self.gate.wait()
        return value


async def test_second_call_is_a_hit_until_the_entry_expires() -> None:
    clock = Clock(0)
    source = Source()
    cache: ResultCache[int] = ResultCache(ttl_s=10, clock=clock)
    assert await cache.get("q", source) == (1, False)
    clock.now = 9.9
    assert await cache.get("q", source) == (1, True)
    clock.now = 10.1
    assert await cache.get("q", source) == (2, False)


async def test_least_recently_used_goes_first() -> None:
    source = Source()
    cache: ResultCache[int] = ResultCache(ttl_s=10, max_entries=2)
    for rest in ("a", "b", "a", "c"):
        await cache.get(rest, source)
    assert len(cache) == 2
    assert (await cache.get("a", source))[1] is True
    assert (await cache.get("b", source))[1] is False


async def test_identical_calls_at_once_share_one_computation() -> None:
    source = Source()
    source.gate.clear()
    cache: ResultCache[int] = ResultCache(ttl_s=10)
    waiting = [asyncio.ensure_future(cache.get("q", source)) for _ in range(20)]
    await asyncio.sleep(0)
    source.gate.set()
    assert [value for value, _ in await asyncio.gather(*waiting)] == [1] * 20
    assert source.calls == 1


async def test_cancelled_first_caller_leaves_the_others_their_result() -> None:
    source = Source()
    source.gate.clear()
    cache: ResultCache[int] = ResultCache(ttl_s=10)
    first = asyncio.ensure_future(cache.get("q", source))
    second = asyncio.ensure_future(cache.get("q", source))
    await asyncio.sleep(0)
    await cancelled(first)
    source.gate.set()
    assert await second == (1, True)


async def test_failure_reaches_all_who_wait_and_is_not_kept() -> None:
    gate = asyncio.Event()

    async def fail() -> int:
        await gate.wait()
        raise ValueError("broken")

    cache: ResultCache[int] = ResultCache(ttl_s=10)
    waiting = [asyncio.ensure_future(cache.get("q", fail)) for _ in range(3)]
    await asyncio.sleep(0)
    gate.set()
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(result) for result in results] == [ValueError] * 3
    assert await cache.get("q", Source()) == (1, False)


async def test_no_time_to_live_means_no_cache() -> None:
    source = Source()
    cache: ResultCache[int] = ResultCache(ttl_s=0)
    await cache.get("q", source)
    assert await cache.get("q", source) == (2, False)


async def test_a_value_that_is_not_to_be_kept_is_given_and_forgotten() -> None:
    source = Source()
    cache: ResultCache[int] = ResultCache(ttl_s=10)
    assert await cache.get("q", source, keep=lambda value: value > 1) == (1, False)
    assert len(cache) == 0
    assert await cache.get("q", source, keep=lambda value: value > 1) == (2, False)
    assert await cache.get("q", source, keep=lambda value: value > 1) == (2, True)


async def test_the_same_question_is_answered_from_the_cache_whatever_its_spacing_and_case() -> None:
    source = Counting(await nba())
    retriever = Retriever(source, local)
    first = await retriever.retrieve(NBA, "Fetch players")
    again = await retriever.retrieve(NBA, "  fetch\n PLAYERS ")
    assert (first.cached, again.cached) == (False, True)
    assert again.question == "  fetch\n PLAYERS "
    assert keys(again) == keys(first)
    assert source.count("search") == 1


async def test_a_changed_graph_is_asked_again() -> None:
    source = await nba()
    retriever = Retriever(source, local)
    await retriever.retrieve(NBA, "basketball shoes")
    node = a_node("shoes", NBA, type="filter", data={"name": "Basketball shoes"})
    await source.apply(Mutation(graph_key=NBA, put_nodes=[node]))
    found = await retriever.retrieve(NBA, "basketball shoes")
    assert not found.cached
    assert "shoes" in keys(found)
    await source.apply(Mutation(graph_key=NBA, delete_nodes=["shoes"]))
    assert "shoes" not in keys(await retriever.retrieve(NBA, "basketball shoes"))


async def test_other_options_are_another_question() -> None:
    retriever = Retriever(await nba(), local)
    await retriever.retrieve(NBA, "fetch")
    for other in (
        options(mode="text"),
        options(max_nodes=3),
        options(exclude_types=("html",)),
        options(rank=RankOptions(damping=0.1)),
    ):
        assert not (await retriever.retrieve(NBA, "fetch", other)).cached
        assert (await retriever.retrieve(NBA, "fetch", other)).cached


async def test_a_deleted_graph_is_not_answered_from_the_cache() -> None:
    source = await nba()
    retriever = Retriever(source, local)
    await retriever.retrieve(NBA, "fetch")
    await source.delete_graph(NBA)
    with pytest.raises(GraphNotFound):
        await retriever.retrieve(NBA, "fetch")


async def test_a_graph_created_again_is_not_answered_from_the_cache_of_the_old_one() -> None:
    database = MemoryDatabase()
    source = await make_flow(database)
    retriever = Retriever(source, None)
    assert "b" in keys(await retriever.retrieve("flow", "invoices"))
    revision = (await source.get_graph("flow")).revision
    await source.delete_graph("flow")
    await source.create_graph(a_graph(created_time=1))
    node = a_node("fresh", data={"name": "Invoices again"})
    await source.apply(Mutation(graph_key="flow", put_nodes=[node]))
    assert (await source.get_graph("flow")).revision == revision
    assert keys(await retriever.retrieve("flow", "invoices")) == ["fresh"]


async def test_an_answer_without_a_failed_service_is_not_kept_once_it_is_back() -> None:
    source = await nba()

    class Recovering(LocalEmbedder):
        down = True

        async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
            if self.down:
                raise EmbeddingUnreachable(provider="p", reason="restarting")
            return await super().embed(texts)

    embedder = Recovering()
    retriever = Retriever(source, embedder)
    assert (await retriever.retrieve(NBA, "fetch players")).notes
    embedder.down = False
    assert (await retriever.retrieve(NBA, "fetch players")).notes == ()


async def test_what_another_process_embeds_again_is_asked_for_again_and_only_then(
    tmp_path: Path,
) -> None:
    file = tmp_path / "shared.db"
    async with SqliteDatabase(file) as database, SqliteDatabase(file) as elsewhere:
        source = await make_flow(database)
        await embed_nodes(source, local)
        retriever = Retriever(source, local)
        assert not (await retriever.retrieve("flow", "invoices")).cached
        assert (await embed_nodes(elsewhere.source(WORKSPACE), local)).embedded == 0
        assert (await retriever.retrieve("flow", "invoices")).cached
        await embed_nodes(elsewhere.source(WORKSPACE), local, force=True)
        assert not (await retriever.retrieve("flow", "invoices")).cached
        assert (await retriever.retrieve("flow", "invoices")).cached
