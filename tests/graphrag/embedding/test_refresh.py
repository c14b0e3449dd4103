"""Bringing embeddings up to date: what is embedded, skipped, counted, and what a
failure leaves behind.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from datasources.base import Abilities, MutableGraphDataSource
from datasources.errors import DatabaseBusy, GraphNotFound, InvalidMutation
from datasources.mock import MemoryDatabase
from datasources.types import Graph, Mutation, Node
from graphrag.embedding import LocalEmbedder
from graphrag.embedding import refresh as module
from graphrag.embedding.embedder import (
    EmbeddingError,
    EmbeddingRefused,
    EmbeddingUnauthorized,
    EmbeddingUnreachable,
)
from graphrag.embedding.refresh import EmbedReport, embed_nodes
from graphrag.embedding.workspace_embedder import QueryEmbedder
from tests.support.clock import Clock

local = LocalEmbedder()


class Recorder:
    """Embeds with the packaged model and keeps what it was asked; refuses texts that hold `bad`."""

    def __init__(self, bad: str | None = None, model: str = "recorded") -> None:
        self.batches: list[list[str]] = []
        self.bad = bad
        self.model = model

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.batches.append(list(texts))
        if self.bad is not None and any(self.bad in text for text in texts):
            raise EmbeddingRefused(provider="r", status=400, reason="not allowed", retryable=False)
        return local.embed_now(texts)

    async def aclose(self) -> None:
        """Nothing is held open."""


async def a_graph(
    count: int = 10, key: str = "flow", database: MemoryDatabase | None = None
) -> Any:
    source = (database or MemoryDatabase()).source("acme")
    await source.create_graph(Graph(key=key, name=key, workspace="acme"))
    nodes = [a_node(i, key) for i in range(count)]
    await source.apply(Mutation(graph_key=key, put_nodes=nodes))
    return source


def a_node(number: int, graph: str = "flow", **fields: Any) -> Node:
    given = {
        "key": f"n{number:04}",
        "graph_key": graph,
        "type": "task",
        "data": {"name": f"step {number}"},
    }
    return Node(**{**given, **fields})


def counts(report: EmbedReport) -> tuple[int, int, int, int]:
    return report.embedded, report.skipped, report.empty, report.failed


async def stored(source: MutableGraphDataSource, key: str = "flow") -> dict[str, Any]:
    return await source.get_vectors(key, [node.key for node in await source.get_nodes(key)])


async def test_every_node_gets_a_vector_of_its_text_and_one_of_its_name() -> None:
    source = await a_graph(3)
    report = await embed_nodes(source, local)
    assert counts(report) == (3, 0, 0, 0)
    vectors = await stored(source)
    assert set(vectors) == {"n0000", "n0001", "n0002"}
    for vector in vectors.values():
        assert vector.model == local.model
        assert np.linalg.norm(vector.content) == pytest.approx(1, abs=1e-4)
        assert np.linalg.norm(vector.name) == pytest.approx(1, abs=1e-4)
    assert (await source.get_graph("flow")).revision == 1


@given(st.sets(st.integers(0, 7)), st.sets(st.integers(0, 7)))
async def test_exactly_the_changed_nodes_are_embedded_again(
    changed: set[int], moved: set[int]
) -> None:
    source = await a_graph(8)
    recorder = Recorder()
    await embed_nodes(source, recorder)
    recorder.batches.clear()
    nodes = {n.key: n for n in await source.get_nodes("flow")}
    for i in moved:
        nodes[f"n{i:04}"] = nodes[f"n{i:04}"].replace(pos_x=500, sheet="0")
    for i in changed:
        nodes[f"n{i:04}"] = nodes[f"n{i:04}"].replace(process=f"run({i})")
    await source.apply(Mutation(graph_key="flow", put_nodes=list(nodes.values())))
    assert counts(await embed_nodes(source, recorder)) == (len(changed), 8 - len(changed), 0, 0)
    assert sum(map(len, recorder.batches)) == 2 * len(changed)


async def test_vectors_of_another_model_are_renewed_by_force_alone_and_models_are_never_mixed() -> (
    None
):
    source = await a_graph(4)
    new = Recorder(model="new")
    await embed_nodes(source, Recorder(model="old"))
    await source.apply(Mutation(graph_key="flow", put_nodes=[a_node(9)]))
    left = await embed_nodes(source, new)
    assert (left.other_model, left.models, new.batches) == (5, {"old"}, [])
    planned = await embed_nodes(source, new, force=True, dry_run=True)
    assert (planned.embedded, new.batches) == (5, [])
    assert planned.tokens > 20
    assert counts(await embed_nodes(source, new, force=True)) == (5, 0, 0, 0)
    assert {vector.model for vector in (await stored(source)).values()} == {"new"}
    assert counts(await embed_nodes(source, new, force=True)) == (5, 0, 0, 0)


async def test_a_change_of_model_that_was_stopped_goes_on() -> None:
    source = await a_graph(4)
    new = Recorder(model="new")
    await embed_nodes(source, Recorder(model="old"))
    new.bad = "step 3"
    await embed_nodes(source, new, force=True)
    new.bad = None
    assert counts(await embed_nodes(source, new)) == (1, 3, 0, 0)


async def test_pages_and_batches_together_reach_every_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAGE", 7)
    source = await a_graph(30)
    seen: list[tuple[int, int]] = []
    report = await embed_nodes(
        source, local, batch=3, progress=lambda done, total: seen.append((done, total))
    )
    assert report.embedded == len(await stored(source)) == 30
    assert seen == [(7, 30), (14, 30), (21, 30), (28, 30), (30, 30)]


@given(st.sets(st.integers(0, 19), min_size=1, max_size=6), st.integers(1, 25))
async def test_bad_texts_fail_by_name_and_never_stop_the_rest(bad: set[int], batch: int) -> None:
    source = await a_graph(20)
    changed = [a_node(i, data={"name": f"step {i}", "note": "POISON"}) for i in sorted(bad)]
    await source.apply(Mutation(graph_key="flow", put_nodes=changed))
    report = await embed_nodes(source, Recorder(bad="POISON"), batch=batch)
    assert counts(report) == (20 - len(bad), 0, 0, len(bad))
    keys = {f"n{i:04}" for i in bad}
    assert {failure.partition(":")[0] for failure in report.failures} == keys
    assert set(await stored(source)) == {f"n{i:04}" for i in range(20)} - keys
    assert counts(await embed_nodes(source, Recorder(), batch=batch)) == (
        len(bad),
        20 - len(bad),
        0,
        0,
    )


async def test_a_provider_that_refuses_everything_is_given_up_on() -> None:
    source = await a_graph(300)
    recorder = Recorder(bad="")
    with pytest.raises(EmbeddingRefused):
        await embed_nodes(source, recorder, batch=100)
    assert len(recorder.batches) < 50


@pytest.mark.parametrize(
    "error",
    [
        EmbeddingUnauthorized(provider="r", variable="KEY"),
        EmbeddingRefused(provider="r", status=404, reason="no such model", retryable=False),
        EmbeddingRefused(
            provider="r", status=429, reason="quota", retryable=True, retry_after_s=0.001
        ),
    ],
)
async def test_a_failure_that_no_text_causes_stops_and_keeps_what_is_done(error: Exception) -> None:
    class Failing(Recorder):
        async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
            if len(self.batches) == 2:
                raise error
            return await super().embed(texts)

    source = await a_graph(10)
    with pytest.raises(type(error)):
        await embed_nodes(source, Failing(), batch=3)
    assert len(await stored(source)) == 6
    assert counts(await embed_nodes(source, Recorder(), batch=3)) == (4, 6, 0, 0)


async def test_a_passing_failure_is_tried_again_and_a_lasting_one_ends_the_run() -> None:
    class Flaky(Recorder):
        fails = module.PATIENT.attempts - 1

        async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
            if self.fails:
                self.fails -= 1
                raise EmbeddingRefused(
                    provider="r", status=503, reason="busy", retryable=True, retry_after_s=0.001
                )
            return await super().embed(texts)

    source = await a_graph(3)
    flaky = Flaky()
    assert counts(await embed_nodes(source, flaky)) == (3, 0, 0, 0)
    flaky.fails = module.PATIENT.attempts
    with pytest.raises(EmbeddingRefused, match="busy"):
        await embed_nodes(source, flaky, force=True)
    assert flaky.fails == 0


async def test_nodes_and_text_without_a_vector_are_counted_as_empty() -> None:
    class Deaf(Recorder):
        async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
            vectors = await super().embed(texts)
            vectors[[i for i, text in enumerate(texts) if "silent" in text]] = 0
            return vectors

    source = await a_graph(3)
    await source.apply(
        Mutation(
            graph_key="flow",
            put_nodes=[
                a_node(1, data={"name": "silent"}),
                Node(key=" ", graph_key="flow", type=" "),
            ],
        )
    )
    assert counts(await embed_nodes(source, Deaf())) == (2, 0, 2, 0)
    assert set(await stored(source)) == {"n0000", "n0002"}


async def test_a_node_that_vanishes_meanwhile_is_neither_stored_nor_a_failure() -> None:
    source = await a_graph(4)

    class Deleting(Recorder):
        async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
            await source.apply(Mutation(graph_key="flow", delete_nodes=["n0002"]))
            return await super().embed(texts)

    assert counts(await embed_nodes(source, Deleting())) == (3, 0, 0, 0)
    assert set(await stored(source)) == {"n0000", "n0001", "n0003"}


async def test_named_graphs_only_are_embedded_and_an_unknown_one_is_said() -> None:
    database = MemoryDatabase()
    await a_graph(2, "one", database)
    source = await a_graph(2, "two", database)
    report = await embed_nodes(source, local, graph_keys=["two"])
    assert (report.embedded, report.graphs) == (2, 1)
    assert await stored(source, "one") == {}
    with pytest.raises(GraphNotFound, match="three"):
        await embed_nodes(source, local, graph_keys=["three"])
    assert counts(await embed_nodes(source, local)) == (2, 2, 0, 0)


class Wrapped:
    """The source, but for what a test gives it of its own."""

    def __init__(self, source: Any) -> None:
        self._source = source

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)


async def test_a_store_that_is_busy_ends_the_run_instead_of_counting_every_node_as_failed() -> None:
    class Busy(Wrapped):
        asked = 0

        async def put_embeddings(self, graph_key: str, vectors: Any) -> int:
            self.asked += 1
            raise DatabaseBusy(path="file.db", seconds=5)

    busy = Busy(await a_graph(50))
    with pytest.raises(DatabaseBusy):
        await embed_nodes(busy, local)
    assert busy.asked == 1


async def test_a_vector_that_the_store_refuses_fails_its_node_alone() -> None:
    class Strict(Wrapped):
        async def put_embeddings(self, graph_key: str, vectors: Any) -> int:
            if any(vector.key == "n0001" for vector in vectors):
                raise InvalidMutation(graph_key=graph_key, reason="refused", keys=["n0001"])
            return await self._source.put_embeddings(graph_key, vectors)

    source = await a_graph(4)
    report = await embed_nodes(Strict(source), local)
    assert counts(report) == (3, 0, 0, 1)
    assert "refused" in report.failures[0]
    assert set(await stored(source)) == {"n0000", "n0002", "n0003"}


async def test_indexes_are_built_once_a_graph_where_the_source_can_and_never_in_a_dry_run() -> None:
    class Building(Wrapped):
        def __init__(self, source: Any) -> None:
            super().__init__(source)
            self.built: list[tuple[str, int]] = []

        @property
        def abilities(self) -> Abilities:
            return Abilities(index_builder=self)

        async def build_indexes(self, graph_key: str) -> None:
            self.built.append((graph_key, len(await stored(self._source, graph_key))))

    database = MemoryDatabase()
    await a_graph(2, "one", database)
    source = Building(await a_graph(3, "two", database))
    await embed_nodes(source, local, dry_run=True)
    assert source.built == []
    await embed_nodes(source, local, batch=1)
    assert source.built == [("one", 2), ("two", 3)]


class Service(LocalEmbedder):
    """An embedding service that works, fails or never answers."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []
        self.error: EmbeddingError | None = None
        self.hangs = False

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.asked += texts
        if self.hangs:
            await asyncio.Event().wait()
        if self.error:
            raise self.error
        return await super().embed(texts)


AWAY = EmbeddingRefused(provider="p", status=503, reason="overloaded", retryable=True)


async def test_a_question_makes_one_attempt_and_the_next_ones_none() -> None:
    service = Service()
    clock = Clock()
    service.error = AWAY
    embedder = QueryEmbedder(service, clock=clock, rest_s=30)
    for question in ("one", "two", "three"):
        with pytest.raises(EmbeddingError, match="overloaded"):
            await embedder.embed([question])
    assert service.asked == ["one"]


async def test_a_hung_service_is_waited_for_a_bounded_time() -> None:
    service = Service()
    service.hangs = True
    embedder = QueryEmbedder(service, wait_s=0.01)
    async with asyncio.timeout(10):
        with pytest.raises(EmbeddingUnreachable, match=r"no answer within 0\.01 s"):
            await embedder.embed(["one"])
    assert service.asked == ["one"]


async def test_after_its_rest_a_service_is_tried_beside_a_question_that_does_not_wait() -> None:
    service = Service()
    clock = Clock()
    service.error = AWAY
    embedder = QueryEmbedder(service, clock=clock, rest_s=30)
    with pytest.raises(EmbeddingError):
        await embedder.embed(["one"])
    clock.now += 31
    service.hangs = True
    for question in ("two", "three"):
        with pytest.raises(EmbeddingError):
            await embedder.embed([question])  # at once, although it is tried and hangs
    await asyncio.sleep(0)
    assert service.asked == ["one", "two"]
    await embedder.aclose()
    service.hangs, service.error = False, None
    clock.now += 31
    with pytest.raises(EmbeddingError):
        await embedder.embed(["four"])
    trial = embedder._trial  # pyright: ignore[reportPrivateUsage]
    assert trial is not None
    await trial
    assert (await embedder.embed(["five"])).any()


async def test_a_refused_text_is_no_reason_to_do_without_the_service() -> None:
    service = Service()
    service.error = EmbeddingRefused(provider="p", status=400, reason="bad text", retryable=False)
    embedder = QueryEmbedder(service)
    with pytest.raises(EmbeddingRefused):
        await embedder.embed(["one"])
    service.error = None
    assert (await embedder.embed(["two"])).any()


async def test_a_failing_trial_ends_quietly_and_its_reason_is_not_repeated_in_itself() -> None:
    service = Service()
    clock = Clock()
    service.error = AWAY
    embedder = QueryEmbedder(service, clock=clock, rest_s=30)
    reasons: set[str] = set()
    for number in range(5):
        with pytest.raises(EmbeddingError) as caught:
            await embedder.embed([str(number)])
        reasons.add(str(caught.value))
        await asyncio.sleep(0)
        clock.now += 31
    assert len(reasons) == 2  # as it failed, and as it is remembered
