"""A question waits a short while for its embedding, once; then words answer it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from graphrag.embedding import LocalEmbedder
from graphrag.embedding.embedder import EmbeddingError, EmbeddingRefused, EmbeddingUnreachable
from graphrag.embedding.workspace_embedder import QueryEmbedder
from tests.graphrag.live.helpers import Clock


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
    service, clock = Service(), Clock()
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
    service, clock = Service(), Clock()
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
    service, clock = Service(), Clock()
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
