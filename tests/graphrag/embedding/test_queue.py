"""The queue that embeds in the background: fair, bounded, never in anybody's way."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from datasources.base import MutableGraphDataSource
from datasources.errors import BadDocument
from datasources.mock import MemoryDatabase
from datasources.types import Graph, Mutation, Node
from graphrag.approvals import Approve
from graphrag.embedding import LocalEmbedder
from graphrag.embedding.embedder import EmbeddingRefused
from graphrag.embedding.queue import EmbeddingQueue, QueueOptions
from graphrag.embedding.refresh import embed_nodes
from graphrag.retrieval.retriever import Retriever
from tests.contracts.samples import FLOW, WORKSPACE, a_node
from tests.graphrag.approvals.helpers import EDITOR, Bench, a_bench
from tests.graphrag.live.helpers import Failing
from tests.support.waiting import drained, until

local = LocalEmbedder()


class Counting:
    """An embedder that counts its requests; `fails` names the texts that it answers
    with HTTP 500.
    """

    model = "counting"

    def __init__(self, fails: Callable[[str], bool] = lambda _: False) -> None:
        self.fails = fails
        self.requests: list[list[str]] = []
        self.failed = 0
        self.asks, self.asked, self.may_answer = 0, asyncio.Event(), asyncio.Event()
        self.may_answer.set()

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        probed = list(texts) == ["word"]
        self.asks += 1
        self.asked.set()
        await self.may_answer.wait()
        if any(map(self.fails, texts)):
            self.failed += 1
            raise EmbeddingRefused(
                provider="counting", status=500, reason="crashed", retryable=True
            )
        if not probed:
            self.requests.append(list(texts))
        return np.array([[1.0, len(text)] for text in texts], dtype=np.float32)

    async def aclose(self) -> None:
        """Nothing is held open."""


async def make_graph(
    database: MemoryDatabase, key: str, nodes: int, workspace: str = WORKSPACE
) -> None:
    source = database.source(workspace)
    await source.create_graph(Graph(key=key, workspace=workspace, name=key))
    mutation = Mutation(
        graph_key=key, put_nodes=[a_node(f"{key}-{i}", graph=key) for i in range(nodes)]
    )
    await source.apply(mutation)


async def embedded(database: MemoryDatabase, key: str, workspace: str = WORKSPACE) -> int:
    source = database.source(workspace)
    keys = [node.key for node in await source.get_nodes(key)]
    return len(await source.get_vector_info(key, keys))


class VirtualTime:
    """A clock that moves only when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        await asyncio.sleep(0)


@asynccontextmanager
async def a_queue(
    database: MemoryDatabase,
    embedder: Any,
    *,
    sources: Callable[[str], MutableGraphDataSource] | None = None,
    **options: Any,
) -> AsyncIterator[EmbeddingQueue]:
    given = QueueOptions(**{"retry_s": 0.0, **options})
    async with (
        asyncio.timeout(30),
        EmbeddingQueue(sources or database.source, embedder, options=given) as q,
    ):
        yield q


async def test_a_whole_graph_is_embedded_page_by_page_and_progress_is_seen() -> None:
    database = MemoryDatabase()
    await make_graph(database, "g", 25)
    provider = Counting()
    provider.may_answer.clear()
    async with a_queue(database, provider, batch=10) as queue:
        queue.of(WORKSPACE).add("g", None)
        assert queue.pending(WORKSPACE, "g") == 1  # nobody has counted them yet
        await until(lambda: queue.pending() == 25)
        assert queue.pending("other") == queue.pending(WORKSPACE, "other") == 0
        provider.may_answer.set()
        await drained(queue)
        assert queue.pending() == queue.given_up == 0
    assert [len(texts) for texts in provider.requests] == [20, 20, 10]
    assert await embedded(database, "g") == 25


async def test_a_change_while_its_node_is_embedded_is_embedded_too() -> None:
    database = MemoryDatabase()
    await make_graph(database, "g", 1)
    source = database.source(WORKSPACE)
    provider = Counting()
    provider.may_answer.clear()
    async with a_queue(database, provider) as queue:
        queue.add(WORKSPACE, "g", ["g-0"])
        await provider.asked.wait()  # with the old text
        (node,) = await source.get_nodes("g")
        await source.apply(
            Mutation(graph_key="g", put_nodes=[node.model_copy(update={"data": {"name": "New"}})])
        )
        queue.add(WORKSPACE, "g", ["g-0"])
        provider.may_answer.set()
        await drained(queue)
    assert "New" in provider.requests[-1][0]


async def test_a_graph_with_a_node_that_always_fails_starves_no_other_and_the_node_is_given_up() -> (
    None
):
    database = MemoryDatabase()
    await make_graph(database, "bad", 20)
    provider = Counting(fails=lambda text: "bad-7" in text)
    async with a_queue(database, provider) as queue:
        queue.add(WORKSPACE, "bad", None)
        for i in range(10):
            await make_graph(database, f"good{i}", 3)
            queue.add(WORKSPACE, f"good{i}", None)
        await drained(queue)
        assert queue.given_up == 1
    assert await embedded(database, "bad") == 19
    assert [await embedded(database, f"good{i}") for i in range(10)] == [3] * 10
    assert provider.failed < 40  # halved, and tried a few times: not for ever


async def test_failing_graphs_and_a_huge_one_delay_another_by_a_batch_each() -> None:
    database = MemoryDatabase()
    await make_graph(database, "huge", 300)
    await make_graph(database, "bad", 1)
    await make_graph(database, "small", 1, "other")
    provider = Counting(fails=lambda text: "bad" in text)
    provider.may_answer.clear()
    async with a_queue(database, provider, batch=10) as queue:
        queue.add(WORKSPACE, "huge", None)
        queue.add(WORKSPACE, "bad", None)
        await until(lambda: queue.pending(WORKSPACE, "huge") == 300)
        queue.add("other", "small", None)
        provider.may_answer.set()
        await drained(queue)
    order = ["small" if "small" in texts[0] else "huge" for texts in provider.requests]
    assert order.index("small") <= 2
    assert queue.given_up == 1


async def test_workspaces_take_turns_whatever_the_number_of_their_graphs() -> None:
    database = MemoryDatabase()
    for i in range(40):
        await make_graph(database, f"many{i}", 1, "busy")
    await make_graph(database, "one", 1, "quiet")
    provider = Counting()
    async with a_queue(database, provider) as queue:
        for i in range(40):
            queue.add("busy", f"many{i}", None)
        queue.add("quiet", "one", None)
        await drained(queue)
    assert [("one" in texts[0]) for texts in provider.requests].index(True) <= 2


class Unreadable:
    """A source of which some nodes cannot be read, and whose listing may fail altogether."""

    def __init__(self, inner: MutableGraphDataSource, *bad: str, listing: bool = False) -> None:
        self._inner, self._bad, self._listing = inner, set(bad), listing
        self.reads = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def get_nodes_by_key(self, graph_key: str, keys: Sequence[str]) -> list[Node]:
        self.reads += 1
        if self._bad & set(keys):
            raise BadDocument(collection="nodes", key="?", field="data", reason="broken")
        return await self._inner.get_nodes_by_key(graph_key, keys)

    async def get_nodes(self, graph_key: str, **more: Any) -> list[Node]:
        self.reads += 1
        if self._listing and graph_key == "bad":
            raise BadDocument(collection="nodes", key="?", field="data", reason="broken")
        return await self._inner.get_nodes(graph_key, **more)


@pytest.mark.parametrize("listing", [False, True])
async def test_an_unreadable_node_is_left_out_and_the_others_are_embedded(listing: bool) -> None:
    database = MemoryDatabase()
    await make_graph(database, "bad", 20)
    await make_graph(database, "good", 5)
    source = Unreadable(database.source(WORKSPACE), "bad-3", "bad-4", listing=listing)
    async with a_queue(database, Counting(), sources=lambda _: source) as queue:  # type: ignore[arg-type, return-value]
        queue.add(WORKSPACE, "bad", None)
        queue.add(WORKSPACE, "good", ["good-0", "good-1", "good-2"])
        await drained(queue)
        assert queue.given_up == (1 if listing else 2)
    assert await embedded(database, "good") == 3
    assert await embedded(database, "bad") == (0 if listing else 18)
    assert source.reads < 40


async def test_while_a_service_is_away_it_is_asked_ever_less_often_and_nothing_is_given_up() -> (
    None
):
    database = MemoryDatabase()
    time = VirtualTime()
    await make_graph(database, "a", 3)
    await make_graph(database, "b", 3)
    provider = Counting(fails=lambda _: time.now < 3600)
    queue = EmbeddingQueue(database.source, provider, clock=time, sleep=time.sleep)
    async with asyncio.timeout(30), queue:
        queue.add(WORKSPACE, "a", None)
        queue.add(WORKSPACE, "b", None)
        while queue.pending():
            if time.now < 3600:
                queue.add(WORKSPACE, "b", ["b-0"])  # people go on editing
            await asyncio.sleep(0)
    assert provider.failed < 60
    assert queue.given_up == 0
    assert await embedded(database, "a") == await embedded(database, "b") == 3


async def test_a_store_that_is_away_is_tried_again() -> None:
    database = MemoryDatabase()
    await make_graph(database, "g", 3)
    away = Failing(database.source(WORKSPACE))
    away.fails["get_stats"] = 5
    async with a_queue(database, Counting(), sources=lambda _: away) as queue:  # type: ignore[arg-type, return-value]
        queue.add(WORKSPACE, "g", None)
        await drained(queue)
    assert await embedded(database, "g") == 3


async def test_memory_is_bounded_in_nodes_and_in_graphs() -> None:
    database = MemoryDatabase()
    await make_graph(database, "g", 30)
    provider = Counting()
    provider.may_answer.clear()
    async with a_queue(database, provider, max_keys=10, max_graphs=2) as queue:
        for i in range(1000):
            queue.add(WORKSPACE, "g", [f"g-{i}"])
        waiting = queue._waiting[WORKSPACE]["g"]  # pyright: ignore[reportPrivateUsage]
        assert len(waiting.keys) <= 10
        assert waiting.whole
        queue.add(WORKSPACE, "h", None)
        queue.add(WORKSPACE, "i", None)
        assert list(queue._waiting[WORKSPACE]) == ["g", "h"]  # pyright: ignore[reportPrivateUsage]
        assert queue.given_up == 1
        provider.may_answer.set()
        await drained(queue)
    assert await embedded(database, "g") == 30


async def test_a_hung_service_delays_neither_closing_nor_other_batches_for_ever() -> None:
    database = MemoryDatabase()
    await make_graph(database, "g", 3)
    provider = Counting()
    provider.may_answer.clear()
    async with a_queue(database, provider, batch_s=0.01, probe_s=0.01, close_s=0.01) as queue:
        queue.add(WORKSPACE, "g", None)
        await until(lambda: provider.asks > 2)
    assert queue.pending() > 0


async def test_closing_finishes_what_can_be_finished_soon() -> None:
    database = MemoryDatabase()
    await make_graph(database, "g", 250)
    async with a_queue(database, Counting()) as queue:
        queue.add(WORKSPACE, "g", None)
    assert queue.pending() == 0
    assert await embedded(database, "g") == 250


async def test_without_an_embedder_and_of_a_deleted_graph_nothing_waits() -> None:
    database = MemoryDatabase()
    async with a_queue(database, None) as queue:
        queue.add(WORKSPACE, "g", None)
        assert queue.pending() == 0
    async with a_queue(database, local) as queue:
        queue.add(WORKSPACE, "gone", None)
        queue.add(WORKSPACE, "gone", ["x"])
        await drained(queue)
        assert queue.pending() == queue.given_up == 0


async def test_a_graph_whose_vectors_are_of_another_model_is_left_to_a_person() -> None:
    database = MemoryDatabase()
    await make_graph(database, "g", 3)
    await embed_nodes(database.source(WORKSPACE), local)
    await make_graph(database, "new", 3)
    provider = Counting()
    async with a_queue(database, provider) as queue:
        queue.add(WORKSPACE, "g", ["g-0"])
        queue.add(WORKSPACE, "g", None)
        queue.add(WORKSPACE, "new", None)
        await drained(queue)
    assert [len(texts) for texts in provider.requests] == [6]


# Approvals


async def digests(bench: Bench) -> dict[str, Any]:
    nodes = await bench.source.get_nodes(FLOW)
    return await bench.source.get_vector_info(FLOW, [node.key for node in nodes])


async def test_an_approved_change_is_embedded_and_retrieved_although_the_question_was_cached() -> (
    None
):
    bench = await a_bench()
    await embed_nodes(bench.source, local, force=True)
    retriever = Retriever(bench.source, local)
    approval = await bench.propose(
        "update_node", nodeKey="b", changes={"data.name": "Giraffe enclosure"}
    )
    before = await digests(bench)
    await retriever.retrieve(FLOW, "tall animals of the zoo")
    async with EmbeddingQueue(lambda _: bench.source, local) as queue:
        approvals = bench.approvals(on_applied=queue.of(WORKSPACE).applied)
        await approvals.decide(approval.id, Approve(), EDITOR)
        await drained(queue)
        after = await digests(bench)
        assert {key for key in after if after[key] != before[key]} == {"b"}
        found = await retriever.retrieve(FLOW, "tall animals of the zoo")
        assert not found.cached
        assert found.nodes[0].node.key == "b"
        undone = await approvals.undo(FLOW, by=EDITOR)
        await drained(queue)
    assert undone.undoes == approval.id
    assert await digests(bench) == before


async def test_a_changed_type_embeds_its_nodes_again() -> None:
    bench = await a_bench()
    await embed_nodes(bench.source, local, force=True)
    before = await digests(bench)
    payload = {"mode": "update", "typeKey": "task", "description": "Keeps animals"}
    approval = await bench.propose("configure_node_type", **payload)
    async with EmbeddingQueue(lambda _: bench.source, local) as queue:
        approvals = bench.approvals(on_applied=queue.of(WORKSPACE).applied)
        await approvals.decide(approval.id, Approve(), EDITOR)
        await drained(queue)
    types = {node.key: node.type for node in await bench.source.get_nodes(FLOW)}
    after = await digests(bench)
    assert {key for key in after if after[key] != before.get(key)} == {
        k for k, t in types.items() if t == "task"
    }


@pytest.mark.parametrize("hangs", [False, True])
async def test_an_approval_never_waits_for_an_embedding(hangs: bool) -> None:
    bench = await a_bench()
    approval = await bench.propose("update_node", nodeKey="b", changes={"data.name": "Other"})
    service = Counting(fails=lambda _: True)
    if hangs:
        service.may_answer.clear()
    options = QueueOptions(close_s=0.01)
    async with (
        asyncio.timeout(10),
        EmbeddingQueue(lambda _: bench.source, service, options=options) as queue,
    ):
        approvals = bench.approvals(on_applied=queue.of(WORKSPACE).applied)
        decided = await approvals.decide(approval.id, Approve(), EDITOR)
        assert decided.status == "applied"
        assert service.asks == 0  # it was not even asked yet
    (node,) = await bench.source.get_nodes_by_key(FLOW, ["b"])
    assert node.data["name"] == "Other"
