"""The meter: sums by thread and provider, limits that refuse the next call, and what broke is counted too."""

from __future__ import annotations

from contextlib import aclosing
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag.llm import usage_meter
from graphrag.llm.base import ModelOptions, UsageReport
from graphrag.llm.errors import ModelStreamBroken, ModelUnauthorized
from graphrag.llm.metered import MeteredEmbedder, MeteredProvider
from graphrag.llm.prices import Price, Pricing
from graphrag.llm.usage_accounts import Payer
from graphrag.llm.usage_meter import CallUsage, UsageLimitReached, UsageLimits, UsageMeter
from tests.graphrag.llm.wire import (
    ASK,
    chunks_of,
    delta,
    openai_provider,
    openai_text,
    sse,
    streamed,
    usage_chunk,
)
from tests.support.scripted_http import Answer, ScriptedServer

DOLLAR = Pricing(model="m", fixed=Price(input=1.0, output=2.0, cached=0.5))


def call(prompt: int = 10, completion: int = 5, cost_usd: float | None = 0.5, **more: Any) -> CallUsage:
    tokens = UsageReport(prompt=prompt, completion=completion, cached=prompt // 2)
    return CallUsage(kind="chat", provider="p", model="m", tokens=tokens, cost_usd=cost_usd, **more)


def test_calls_add_up_by_thread_and_provider() -> None:
    heard: list[CallUsage] = []
    meter = UsageMeter(on_call=heard.append)
    calls = [call(thread="a"), call(20, thread="b", estimated=True), call(thread="a", cost_usd=None)]
    for one in calls:
        meter.record(one)
    assert heard == calls
    total = meter.total()
    assert (total.calls, total.prompt, total.completion, total.cached) == (3, 40, 15, 20)
    assert (total.cost_usd, total.unpriced, total.estimated) == (1.0, 1, 1)
    assert meter.of_thread("a").tokens == 30
    assert meter.of_thread("nobody").calls == 0
    assert set(meter.by_provider()) == {"p"}


def test_a_price_nobody_knows_is_said_and_not_counted_as_nothing() -> None:
    meter = UsageMeter()
    meter.record(call(cost_usd=None))
    assert (meter.total().cost_usd, meter.total().unpriced) == (0.0, 1)


@pytest.mark.parametrize(
    ("limits", "limit", "said"),
    [
        (
            UsageLimits(total_tokens=1_500_000),
            "total_tokens",
            "service's .* 1500000 of 1500000 tokens;",
        ),
        (
            UsageLimits(total_cost_usd=0.5),
            "total_cost",
            "0.5000 of 0.5000 US dollars;.*max_total_cost",
        ),
        (
            UsageLimits(workspace_tokens=9),
            "total_tokens",
            "workspace's .*max_workspace_tokens",
        ),
        (UsageLimits(workspace_cost_usd=0.5), "total_cost", "workspace's .*max_workspace_cost"),
        (UsageLimits(person_tokens=9), "total_tokens", "your own .* of 9 tokens; .*max_person_tokens"),
        (UsageLimits(person_cost_usd=0.5), "total_cost", "your own .*max_person_cost"),
    ],
)
async def test_a_limit_keeps_the_answer_that_reached_it_and_refuses_the_next(
    limits: UsageLimits, limit: str, said: str
) -> None:
    told: list[UsageLimitReached] = []
    meter = UsageMeter(limits, on_limit=told.append)
    payer = Payer(workspace="w", person="ann")
    await meter.check(payer=payer)
    meter.record(call(1_000_000, 500_000, payer=payer))
    assert meter.total().calls == 1
    with pytest.raises(UsageLimitReached, match=said) as caught:
        await meter.check(payer=payer)
    assert caught.value.limit == limit
    assert [reached.limit for reached in told] == [limit]
    french = caught.value.text("fr")
    assert "limite du mois" in french
    assert caught.value.setting in french


async def test_a_prompt_too_long_for_one_call_is_refused_each_time() -> None:
    told: list[UsageLimitReached] = []
    meter = UsageMeter(UsageLimits(call_tokens=100), on_limit=told.append)
    await meter.check(100)
    for _ in range(2):
        with pytest.raises(UsageLimitReached, match=r"101 of 100 tokens; .*max_call_tokens"):
            await meter.check(101)
    assert len(told) == 2


def test_a_meter_forgets_old_threads_and_no_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage_meter, "MAX_THREADS", 2)
    meter = UsageMeter()
    for thread in ("a", "b", "a", "c"):
        meter.record(call(thread=thread))
    assert [meter.of_thread(t).calls for t in "abc"] == [2, 0, 1]
    assert meter.total().calls == 4


@given(st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99), st.sampled_from("xyz")), max_size=20))
def test_the_parts_add_up_to_the_whole(calls: list[tuple[int, int, str]]) -> None:
    meter = UsageMeter()
    for prompt, completion, thread in calls:
        meter.record(call(prompt, completion, thread=thread))
    assert sum(meter.of_thread(t).tokens for t in "xyz") == meter.total().tokens
    assert meter.total().tokens == sum(p + c for p, c, _ in calls)


async def metered(*answers: Answer, limits: UsageLimits | None = None) -> tuple[UsageMeter, Any]:
    meter = UsageMeter(limits)
    with ScriptedServer() as server:
        server.play(*answers)
        provider = MeteredProvider(openai_provider(server), meter, DOLLAR, thread="t")
        _, error = await chunks_of(provider)
        await provider.aclose()
    return meter, error


async def test_what_a_provider_tells_is_counted_and_priced() -> None:
    answer = sse(
        delta(content="Hi"), delta("stop"), usage_chunk(100, 20, prompt_tokens_details={"cached_tokens": 60})
    )
    meter, error = await metered(streamed(answer))
    assert error is None
    total = meter.of_thread("t")
    assert (total.prompt, total.completion, total.cached, total.estimated) == (100, 20, 60, 0)
    assert total.cost_usd == pytest.approx((40 * 1.0 + 60 * 0.5 + 20 * 2.0) / 1e6)


async def test_what_no_provider_tells_is_estimated_and_said_to_be() -> None:
    meter, error = await metered(streamed(sse(delta(content="Hello there"), delta("stop"))))
    assert error is None
    total = meter.total()
    assert (total.calls, total.estimated) == (1, 1)
    assert total.prompt > 0
    assert total.completion > 0


async def test_an_answer_that_breaks_is_counted_and_a_refused_request_is_not() -> None:
    meter, error = await metered(streamed(sse(delta(content="Hello there"))))
    assert isinstance(error, ModelStreamBroken)
    assert meter.total().calls == 1
    meter, error = await metered(Answer(status=401, body={}))
    assert isinstance(error, ModelUnauthorized)
    assert meter.total().calls == 0


async def test_an_answer_stopped_early_is_counted() -> None:
    meter = UsageMeter()
    with ScriptedServer() as server:
        server.play(streamed(openai_text("Hello there")))
        provider = MeteredProvider(openai_provider(server), meter, DOLLAR)
        async with aclosing(provider.stream(ASK, options=ModelOptions())) as chunks:
            await anext(chunks)
        await provider.aclose()
    assert (meter.total().calls, meter.total().estimated) == (1, 1)


async def test_over_a_limit_nothing_is_sent() -> None:
    meter = UsageMeter(UsageLimits(call_tokens=2))
    with ScriptedServer() as server:
        provider = MeteredProvider(openai_provider(server), meter, DOLLAR)
        _, error = await chunks_of(provider)
        await provider.aclose()
    assert isinstance(error, UsageLimitReached)
    assert server.requests == []


class Lengths:
    """Embeds a text as its length."""

    model, dim = "lengths", 1

    async def embed(self, texts: Any) -> Any:
        return np.array([[len(text)] for text in texts], dtype=np.float32)

    async def aclose(self) -> None:
        pass


async def test_embeddings_are_counted_apart_from_answers() -> None:
    meter = UsageMeter()
    embedder = MeteredEmbedder(Lengths(), meter, Pricing(model="lengths"), provider="local")
    vectors = await embedder.embed(["one", "three"])
    await embedder.aclose()
    assert vectors.tolist() == [[3.0], [5.0]]
    assert (embedder.model, embedder.dim) == ("lengths", 1)
    counted = meter.by_provider()["local (embedding)"]
    assert counted.prompt >= 2
    assert (counted.completion, counted.unpriced) == (0, 1)
