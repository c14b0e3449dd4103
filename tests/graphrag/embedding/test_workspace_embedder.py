"""The vectors of a workspace are of one model, also after a restart with other settings."""

from collections import Counter
from typing import Any

import pytest

from datasources.hits import NodeVector
from datasources.mock import MemoryDatabase
from graphrag.embedding import LocalEmbedder
from graphrag.embedding.queue import EmbeddingQueue
from graphrag.embedding.refresh import embed_nodes
from graphrag.embedding.workspace_embedder import (
    EmbeddingModelDiffers,
    WorkspaceEmbedder,
    vector_models,
)
from graphrag.retrieval.retriever import Retriever
from tests.graphrag.embedding.test_refresh import Recorder, a_graph
from tests.support.waiting import drained

LOCAL = LocalEmbedder().model
SERVICE = "model-of-a-service"


def started(database: MemoryDatabase, chosen: Any = None) -> WorkspaceEmbedder:
    """Return the embedder as after a start with these settings."""
    return WorkspaceEmbedder(
        chosen or LocalEmbedder(), database.source("acme"), database.records("acme")
    )


def service() -> Recorder:
    return Recorder(model=SERVICE)


async def models(database: MemoryDatabase) -> Counter[str]:
    return await vector_models(database.source("acme"))


async def test_with_a_key_set_later_vectors_and_searches_stay_of_the_packaged_model() -> None:
    database = MemoryDatabase()
    source = await a_graph(3, "one", database)
    await embed_nodes(source, started(database))
    await a_graph(4, "two", database)
    asked = service()
    embedder = started(database, asked)
    assert (await embed_nodes(source, embedder)).embedded == 4
    assert await models(database) == {LOCAL: 7}
    for key in ("one", "two"):
        found = await Retriever(source, embedder).retrieve(key, "step 2")
        assert not found.words_only
        assert any("vector" in reason for scored in found.nodes for reason in scored.reasons)
    assert asked.batches == []


async def test_with_the_key_taken_away_words_are_searched_and_nothing_of_another_model_is_stored() -> (
    None
):
    database = MemoryDatabase()
    source = await a_graph(3, "one", database)
    await embed_nodes(source, started(database, service()))
    await a_graph(4, "two", database)
    embedder = started(database)
    report = await embed_nodes(source, embedder)
    assert (report.embedded, report.other_model, report.models) == (0, 7, {SERVICE})
    async with EmbeddingQueue(
        database.source, LocalEmbedder(), embedder_of=lambda _: embedder
    ) as queue:
        queue.add("acme", "two", None)
        await drained(queue)
    assert await models(database) == {SERVICE: 3}
    assert (await Retriever(source, embedder).retrieve("one", "step 2")).words_only
    with pytest.raises(EmbeddingModelDiffers, match=SERVICE):
        await embedder.embed(["text"])
    assert (await embed_nodes(source, started(database, service()))).embedded == 4


async def test_renewing_all_changes_the_model_and_renewing_one_graph_does_not() -> None:
    database = MemoryDatabase()
    source = await a_graph(3, "one", database)
    await a_graph(4, "two", database)
    await embed_nodes(source, started(database))
    embedder = started(database, service())
    assert (await embed_nodes(source, embedder, graph_keys=["one"], force=True)).embedded == 3
    assert await models(database) == {LOCAL: 7}
    assert (await embed_nodes(source, embedder, force=True, dry_run=True)).embedded == 7
    assert await models(database) == {LOCAL: 7}
    assert (await embed_nodes(source, embedder, force=True)).embedded == 7
    assert await models(database) == {SERVICE: 7}
    again = started(database)
    await again.resolve()
    assert (again.model, again.is_usable) == (SERVICE, False)


async def test_without_a_record_the_model_is_that_of_most_vectors() -> None:
    database = MemoryDatabase()
    source = await a_graph(3, "one", database)
    vectors = await LocalEmbedder().embed(["a", "b", "c"])
    for number, model in enumerate((SERVICE, LOCAL, SERVICE)):
        vector = NodeVector(
            key=f"n{number:04}",
            model=model,
            hash="h",
            content=vectors[number],
            name=vectors[number],
        )
        await source.put_embeddings("one", [vector])
    for _ in range(2):  # a second look finds the same
        embedder = started(database)
        await embedder.resolve()
        assert (embedder.model, embedder.is_usable) == (SERVICE, False)


async def test_a_record_without_vectors_keeps_no_other_model_away() -> None:
    database = MemoryDatabase()
    source = await a_graph(2, "one", database)
    await started(database, service()).claim()
    assert (await embed_nodes(source, started(database))).embedded == 2
    assert await models(database) == {LOCAL: 2}


async def test_of_two_that_begin_at_once_the_second_stores_nothing_of_its_model() -> None:
    database = MemoryDatabase()
    source = await a_graph(3, "one", database)
    first = started(database)
    second = started(database, service())
    await first.resolve()
    await second.resolve()
    await embed_nodes(source, first)
    await second.resolve()  # it looked a moment ago, and looks again before it stores
    with pytest.raises(EmbeddingModelDiffers):
        await second.claim()
    assert await models(database) == {LOCAL: 3}
