"""What is used: limits refuse the next call, and no restart and no second server
begins at nothing.
"""

import asyncio
import calendar
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from datasources.errors import SourceUnavailable
from datasources.mock import MemoryDatabase
from datasources.sqlite import SqliteDatabase
from graphrag.llm.base import ModelOptions, UsageReport
from graphrag.llm.errors import ModelError, ModelStreamBroken, ModelUnauthorized
from graphrag.llm.metered import MeteredEmbedder, ModelRequest, metered_call
from graphrag.llm.registry import Price, Pricing
from graphrag.llm.usage_meter import (
    METER_LIMITS,
    NOBODY,
    CallUsage,
    Payer,
    UsageLimitReached,
    UsageLimits,
    UsageMeter,
    UsedAmount,
)
from tests.graphrag.llm.wire import ASK, delta, openai_provider, sse, streamed, usage_chunk
from tests.support.clock import Clock
from tests.support.scripted_http import Answer, ScriptedServer
from tests.support.waiting import until

HELLO = ModelRequest(messages=ASK, tools=(), options=ModelOptions())
DOLLAR = Pricing(model="m", fixed=Price(input=1.0, output=2.0, cached=0.5))


def call(
    prompt: int = 10, completion: int = 5, cost_usd: float | None = 0.5, **more: Any
) -> CallUsage:
    tokens = UsageReport(prompt=prompt, completion=completion, cached=prompt // 2)
    return CallUsage(kind="chat", provider="p", model="m", tokens=tokens, cost_usd=cost_usd, **more)


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
        (UsageLimits(workspace_tokens=9), "total_tokens", "workspace's .*max_workspace_tokens"),
        (UsageLimits(workspace_cost_usd=0.5), "total_cost", "workspace's .*max_workspace_cost"),
        (
            UsageLimits(person_tokens=9),
            "total_tokens",
            "your own .* of 9 tokens; .*max_person_tokens",
        ),
        (UsageLimits(person_cost_usd=0.5), "total_cost", "your own .*max_person_cost"),
    ],
)
async def test_a_limit_keeps_the_answer_that_reached_it_and_refuses_the_next(
    limits: UsageLimits, limit: str, said: str
) -> None:
    recorded: list[CallUsage] = []
    meter = UsageMeter(limits, on_call=recorded.append)
    payer = Payer(workspace="w", person="ann")
    await meter.check(payer=payer)
    meter.record(call(1_000_000, 500_000, payer=payer))
    assert len(recorded) == 1
    with pytest.raises(UsageLimitReached, match=said) as caught:
        await meter.check(payer=payer)
    assert caught.value.limit == limit
    french = caught.value.text("fr")
    assert "limite du mois" in french
    assert caught.value.setting in french


async def test_a_prompt_too_long_for_one_call_is_refused_each_time() -> None:
    meter = UsageMeter(UsageLimits(call_tokens=100))
    await meter.check(100)
    for _ in range(2):
        with pytest.raises(UsageLimitReached, match=r"101 of 100 tokens; .*max_call_tokens"):
            await meter.check(101)


async def metered(
    *answers: Answer, limits: UsageLimits | None = None
) -> tuple[list[CallUsage], Any]:
    """Ask once; return what was recorded, and the error it ended with."""
    recorded: list[CallUsage] = []
    meter = UsageMeter(limits, on_call=recorded.append)
    with ScriptedServer() as server:
        server.play(*answers)
        provider = openai_provider(server)
        error = None
        try:
            async with metered_call(provider, HELLO, meter, DOLLAR) as call:
                async for chunk in provider.stream(ASK):
                    call.feed(chunk)
        except ModelError as exc:
            error = exc
        await provider.aclose()
        assert len(server.requests) == len(answers)
    return recorded, error


async def test_what_a_provider_reports_is_counted_and_priced() -> None:
    answer = sse(
        delta(content="Hi"),
        delta("stop"),
        usage_chunk(100, 20, prompt_tokens_details={"cached_tokens": 60}),
    )
    (call,), error = await metered(streamed(answer))
    assert error is None
    assert (call.tokens.prompt, call.tokens.completion, call.tokens.cached) == (100, 20, 60)
    assert call.cost_usd == pytest.approx((40 * 1.0 + 60 * 0.5 + 20 * 2.0) / 1e6)
    assert not call.estimated


async def test_what_no_provider_reports_is_estimated_and_marked_so_also_of_an_answer_that_breaks() -> (
    None
):
    for broken, end in ((False, [delta("stop")]), (True, [])):
        (call,), error = await metered(streamed(sse(delta(content="Hello there"), *end)))
        assert isinstance(error, ModelStreamBroken) is broken
        assert call.estimated
        assert call.tokens.prompt > 0
        assert call.tokens.completion > 0


async def test_a_refused_request_is_not_counted_and_over_a_limit_nothing_is_sent() -> None:
    recorded, error = await metered(Answer(status=401, body={}))
    assert isinstance(error, ModelUnauthorized)
    assert not recorded
    recorded, error = await metered(limits=UsageLimits(call_tokens=2))
    assert isinstance(error, UsageLimitReached)
    assert not recorded


class Lengths:
    """Embeds a text as its length."""

    model = "lengths"

    async def embed(self, texts: Any) -> Any:
        return np.array([[len(text)] for text in texts], dtype=np.float32)

    async def aclose(self) -> None:
        pass


async def test_embeddings_are_counted_as_such() -> None:
    recorded: list[CallUsage] = []
    meter = UsageMeter(on_call=recorded.append)
    embedder = MeteredEmbedder(Lengths(), meter, Pricing(model="lengths"), provider="local")
    vectors = await embedder.embed(["one", "three"])
    assert vectors.tolist() == [[3.0], [5.0]]
    assert embedder.model == "lengths"
    (counted,) = recorded
    assert (counted.kind, counted.provider, counted.cost_usd) == ("embedding", "local", None)
    assert counted.tokens.prompt >= 2


ANN = Payer(workspace="acme", person="ann")
BOB = Payer(workspace="acme", person="bob")
ELSEWHERE = Payer(workspace="globex", person="ann")
ALL = UsageLimits(person_tokens=100, workspace_tokens=1000, total_cost_usd=5.0)
NOVEMBER = float(calendar.timegm((2026, 11, 30, 12, 0, 0)))


def one_call(payer: Payer, tokens: int, cost_usd: float = 0.0) -> CallUsage:
    report = UsageReport(prompt=tokens)
    return CallUsage(
        kind="chat", provider="p", model="m", tokens=report, cost_usd=cost_usd, payer=payer
    )


async def used(accounts: UsageMeter, payer: Payer) -> dict[str, int]:
    return {one.whose: one.used.tokens for one in await accounts.account_usages(payer)}


async def test_each_call_counts_for_the_person_the_workspace_and_the_service() -> None:
    accounts = UsageMeter(ALL)
    for payer in (ANN, BOB, ELSEWHERE, Payer(workspace="acme")):
        accounts.record(one_call(payer, tokens=10))
    assert await used(accounts, ANN) == {"person": 20, "workspace": 30, "service": 40}
    assert await used(accounts, BOB) == {"person": 10, "workspace": 30, "service": 40}
    assert await used(accounts, ELSEWHERE) == {"person": 20, "workspace": 10, "service": 40}


async def test_a_restart_and_a_second_server_go_on_counting(tmp_path: Path) -> None:
    clock = Clock(NOVEMBER)
    async with (
        SqliteDatabase(tmp_path / "one.db") as one,
        SqliteDatabase(tmp_path / "one.db") as other,
    ):
        async with UsageMeter(ALL, one.records("root"), clock=clock) as accounts:
            accounts.record(one_call(ANN, tokens=60, cost_usd=1.5))
        async with (
            UsageMeter(ALL, one.records("root"), clock=clock) as here,
            UsageMeter(ALL, other.records("root"), clock=clock) as there,
        ):
            assert (
                await used(here, ANN)
                == await used(there, ANN)
                == {"person": 60, "workspace": 60, "service": 60}
            )
            here.record(one_call(ANN, tokens=1))
            there.record(one_call(BOB, tokens=2))
            await asyncio.gather(here.flush(), there.flush())
            clock.now += 10  # what was read is looked up again
            assert await used(here, BOB) == {"person": 2, "workspace": 63, "service": 63}
            service = (await here.account_usages(ANN))[-1]
            assert (service.whose, service.used.cost_usd) == ("service", 1.5)


async def test_servers_that_store_at_the_same_moment_lose_nothing() -> None:
    database = MemoryDatabase()
    servers = [UsageMeter(ALL, database.records("root")) for _ in range(5)]
    for _ in range(10):
        for server in servers:
            server.record(one_call(ANN, tokens=1, cost_usd=0.5))
        await asyncio.gather(*(server.flush() for server in servers))
    fresh = UsageMeter(ALL, database.records("root"))
    for server in servers:
        await server.flush()
    assert await used(fresh, ANN) == {"person": 50, "workspace": 50, "service": 50}


async def test_a_new_month_begins_at_nothing() -> None:
    clock = Clock(NOVEMBER)
    accounts = UsageMeter(ALL, MemoryDatabase().records("root"), clock=clock)
    accounts.record(one_call(ANN, tokens=60))
    await accounts.flush()
    clock.now += 86_400
    assert await used(accounts, ANN) == {"person": 0, "workspace": 0, "service": 0}


async def test_many_calls_are_few_writes_and_a_store_that_is_away_loses_none() -> None:
    records: Any = MemoryDatabase().records("root")
    writes, is_away = 0, True

    class Counting:
        async def get(self, *args: Any) -> Any:
            return await records.get(*args)

        async def write(self, given: Any) -> None:
            nonlocal writes
            if is_away:
                raise SourceUnavailable(source="test", reason="unplugged")
            writes += 1
            await records.write(given)

    accounts = UsageMeter(ALL, Counting())  # type: ignore[arg-type]
    for _ in range(500):
        accounts.record(one_call(ANN, tokens=1))
    await accounts.flush()
    is_away = False
    await accounts.flush()
    await accounts.flush()
    assert writes == 1
    assert await used(UsageMeter(ALL, records), ANN) == {
        "person": 500,
        "workspace": 500,
        "service": 500,
    }


@pytest.mark.parametrize("name", ["", "a/b", "ü" * 200, "x" * 1000, "\x00", "\ud800", "a b:c"])
async def test_any_name_of_a_person_has_an_account_of_its_own(name: str, tmp_path: Path) -> None:
    async with SqliteDatabase(tmp_path / "one.db") as database:
        payer = Payer(workspace="acme", person=name)
        accounts = UsageMeter(ALL, database.records("root"))
        accounts.record(one_call(payer, tokens=7))
        await accounts.flush()
        assert (await used(UsageMeter(ALL, database.records("root")), payer))["person"] == 7


async def test_calls_at_once_on_two_servers_stay_within_a_month_s_limit() -> None:
    limits = UsageLimits(total_tokens=60_000)
    most = UsedAmount(tokens=2_000)
    records = MemoryDatabase().records("root")
    meters = [UsageMeter(limits, records) for _ in range(2)]
    tried = list[int]()
    all_tried = asyncio.Event()
    refused = list[UsageLimitReached]()

    async def ask(number: int) -> None:
        meter = meters[number % 2]
        try:
            async with meter.reserved(1_000, most, NOBODY):
                tried.append(number)
                await all_tried.wait()
                meter.record(call(1_000, 1_000))
        except UsageLimitReached as exc:
            refused.append(exc)

    calls = [asyncio.create_task(ask(number)) for number in range(40)]
    await until(lambda: len(tried) + len(refused) == 40)
    all_tried.set()
    await asyncio.gather(*calls)
    [account] = await UsageMeter(limits, records).account_usages(NOBODY)
    assert account.used.tokens == 2_000 * len(tried) == 60_000
    assert len(refused) == 10


async def test_a_reservation_ends_with_its_call_and_that_of_a_dead_server_in_time() -> None:
    limits = UsageLimits(total_tokens=10_000)
    records = MemoryDatabase().records("root")
    clock = Clock(1e9)
    one = UsageMeter(limits, records, clock=clock)
    other = UsageMeter(limits, records, clock=clock)
    async with one.reserved(100, UsedAmount(tokens=9_000), NOBODY):
        with pytest.raises(UsageLimitReached):
            async with other.reserved(1_000, UsedAmount(tokens=2_000), NOBODY):
                pass
    async with other.reserved(9_000, UsedAmount(tokens=9_500), NOBODY):
        pass
    dead = one.reserved(100, UsedAmount(tokens=9_000), NOBODY)
    await dead.__aenter__()  # its server is killed
    with pytest.raises(UsageLimitReached):
        await asyncio.wait_for(
            other.reserved(1_000, UsedAmount(tokens=2_000), NOBODY).__aenter__(), 60
        )
    clock.now += METER_LIMITS.reserved_s + METER_LIMITS.flush_s
    async with other.reserved(1_000, UsedAmount(tokens=2_000), NOBODY):
        pass
