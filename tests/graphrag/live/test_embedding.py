"""After a save the changed nodes are embedded in the background, and only they."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from datasources.mock import MemoryDatabase
from datasources.types import VectorQuery
from graphrag.embedding.queue import EmbeddingQueue, QueueOptions
from graphrag.live.instruction_batch import apply_instructions
from tests.contracts.samples import FLOW, floats
from tests.graphrag.embedding.test_queue import Counting
from tests.graphrag.live.helpers import Bench, a_bench, instruct
from tests.support.waiting import drained


@asynccontextmanager
async def embedding(provider: Counting) -> AsyncIterator[tuple[Bench, EmbeddingQueue]]:
    """Yield a graph edited live, and the queue that embeds what is saved of it."""
    database, options = MemoryDatabase(), QueueOptions(retry_s=0, batch=10)
    async with (
        EmbeddingQueue(database.source, provider, options=options) as queue,
        a_bench(database, embed=queue.add) as bench,
    ):
        yield bench, queue


async def test_only_changed_nodes_are_embedded_and_a_move_is_no_change() -> None:
    provider = Counting()
    async with embedding(provider) as (bench, queue):
        await bench.rename("b", "Rewritten")
        await bench.live.save()
        await drained(queue)
        (texts,) = provider.requests
        assert len(texts) == 2  # content and name of one node
        assert "Rewritten" in texts[0]
        assert (
            await bench.stored.search_vectors(
                FLOW, VectorQuery(vector=floats(1, 1), model="counting", limit=5)
            )
        )[0].key == "b"
        await bench.live.edit("ann", None, apply_instructions, [instruct("b", 1, ["posX"], v=50)])
        await bench.live.save()
        await drained(queue)
        assert len(provider.requests) == 1


async def test_saving_and_editing_go_on_while_the_provider_takes_its_time() -> None:
    provider = Counting()
    provider.may_answer.clear()
    async with embedding(provider) as (bench, queue):
        for name in ("one", "two", "three"):
            await bench.rename("b", name)
            await bench.live.save()
        assert (await bench.stored_node("b")).data == {"name": "three"}
        provider.may_answer.set()
        await drained(queue)
        assert "three" in provider.requests[-1][0]
