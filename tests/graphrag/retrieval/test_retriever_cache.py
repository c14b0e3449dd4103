"""Retrieval's cache: what is answered from it, what is asked again, what it forgets."""

from __future__ import annotations

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
from graphrag.retrieval.retriever import Retriever
from tests.contracts.samples import WORKSPACE, a_graph, a_node, make_flow
from tests.graphrag.retrieval.test_retriever import NBA, Counting, keys, local, nba, options


async def test_the_same_question_is_answered_from_the_cache_whatever_its_spacing_and_case() -> None:
    source = Counting(await nba())
    retriever = Retriever(source, local)
    first = await retriever.retrieve(NBA, "Fetch players")
    again = await retriever.retrieve(NBA, "  fetch\n PLAYERS ")
    assert (first.cached, again.cached) == (False, True)
    assert again.question == "  fetch\n PLAYERS "
    assert keys(again) == keys(first)
    assert source.count("search_text") == 2  # content and name, once


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
    node = a_node("fresh", data={"name": "Invoices anew"})
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


async def test_what_another_process_embeds_again_is_asked_for_again_and_only_then(tmp_path: Path) -> None:
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
