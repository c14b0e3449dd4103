"""What bounds runs: days and their cost, announced ends, places; and what operators
are notified of.
"""

import asyncio
import json
from contextlib import aclosing
from typing import Any

import pytest

from graphrag.agent.thread_store import Thread, session_of
from graphrag.approvals import Approve
from graphrag.automations import runner
from graphrag.automations.automation import Automation, Spent
from graphrag.automations.errors import AutomationsSpent
from graphrag.automations.run_listeners import RunListeners
from graphrag.leases import Lease
from graphrag.llm.base import SystemMessage
from graphrag.llm.registry import Price, Pricing
from graphrag.sessions.phases import EndReason, Phase
from tests.graphrag.llm.wire import (
    anthropic_provider,
    events,
    message_end,
    message_start,
    streamed,
    tool_block,
)
from tests.support.agents import EDITOR, REVIEWER
from tests.support.automation_setting import Setting
from tests.support.automations import (
    DAY,
    HOUR,
    MINUTE,
    TWO,
    Night,
    finish,
    move,
    night_of,
    night_on,
    scripted_night,
)
from tests.support.scripted_http import Answer, Request, ScriptedServer
from tests.support.scripted_provider import Says, ScriptedProvider, call
from tests.support.waiting import until

DEAR = Pricing(model="m", fixed=Price(input=10_000.0, output=10_000.0))
ASKED = 110
"""Tokens of one call of the scripted model."""
READ = Says(calls=[call("read_graph_overview")])


async def end_is_announced(night: Night, made: Automation) -> None:
    while (await night.session(made)).phase is not Phase.WAITING_COMPLETION_CONFIRMATION:  # noqa: ASYNC110
        await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("end", "leaving_s"), [(True, 0.0), (False, 0.0), (True, 0.2), (False, 0.2)]
)
async def test_what_a_person_says_about_an_announced_end_is_noticed_at_once(
    monkeypatch: pytest.MonkeyPatch, end: bool, leaving_s: float
) -> None:
    """Also by a run that looks before who decided has given the session back."""

    async def leave(lease: Lease) -> None:
        await asyncio.sleep(leaving_s)
        await given_back(lease)

    given_back = Lease.give_back
    monkeypatch.setattr(Lease, "give_back", leave)
    monkeypatch.setattr(runner, "CONFIRMATION_POLL_S", 0.02)
    async with scripted_night(finish(), *([] if end else [finish("ok", "Looked again.")])) as (
        night,
        provider,
    ):
        made = await night.automation()
        night.worker.runner.sleep = asyncio.sleep  # the clock stands still: nothing ends by itself
        night.clock.now = TWO
        await night.scheduler.tick()
        control = night.control
        (run,) = await night.runs(made)

        async with asyncio.timeout(60):
            await end_is_announced(night, made)
            await control.confirm(run.key, EDITOR, end=end)
            if not end:
                await until(lambda: len(provider.requests) == 2)
                await end_is_announced(night, made)
                await control.confirm(run.key, EDITOR, end=True)
            await until(lambda: night.scheduler.is_idle)
        session = await night.session(made)
        assert session.end_reason is EndReason.COMPLETED
        assert session.last_person_time == (0 if end else TWO)


async def test_a_decision_waits_for_the_process_that_is_just_leaving_the_run() -> None:
    provider = ScriptedProvider(finish())
    async with night_of(provider) as night:
        made = await night.automation()
        night.worker.runner.sleep = asyncio.sleep
        night.clock.now = TWO
        await night.scheduler.tick()
        (run,) = await night.runs(made)
        async with asyncio.timeout(60):
            await end_is_announced(night, made)
            events = night.control.events
            while await events.leases.runs(run.key):  # noqa: ASYNC110 - a look at what is stored
                await asyncio.sleep(0.01)
            async with events.leases.held(run.key):
                confirming = asyncio.create_task(night.control.confirm(run.key, EDITOR, end=True))
                await asyncio.sleep(0.05)
                assert not confirming.done()
            assert session_of(await confirming).end_reason is EndReason.COMPLETED
            await until(lambda: night.scheduler.is_idle)


async def test_what_a_run_used_is_counted_on_the_day_on_which_it_was_used() -> None:
    async with scripted_night(
        Says(calls=[move()]), READ, Says(calls=[move(x=11)]), finish(), pricing=DEAR
    ) as (night, _):
        made = await night.ran(cron=None, dates=(TWO,), budget={"dayCostUsd": 100.0})
        seen = [(await night.stored(made))]
        for day in (1, 2):
            (approval,) = await night.approvals.list(status="pending", by=REVIEWER)
            await night.approvals.decide(approval.id, Approve(), REVIEWER)
            await night.run_at(TWO + day * DAY - HOUR)
            seen.append(await night.stored(made))
        (run,) = await night.runs(made)
        assert run.session.end_reason is EndReason.COMPLETED
        assert [each.spent.sums()["tokens"] for each in seen] == [ASKED, 2 * ASKED, ASKED]
        assert [each.spent.sums()["costUsd"] for each in seen] == pytest.approx([1.1, 2.2, 1.1])
        # What it may still cost counts its days before, and what others cost today.
        now = TWO + DAY - HOUR
        assert seen[1].cost_left(run.key, now) == pytest.approx(101.1)
        assert seen[1].cost_left("another", now) == pytest.approx(97.8)


async def test_a_day_whose_cost_is_spent_begins_no_run_for_ticks_or_people(
    setting: Setting,
) -> None:
    setting.pricing = Pricing(model="m", fixed=Price(input=1.0, output=1.0))
    key = (await setting.add(budget={"dayCostUsd": 2})).id
    store = setting.service.store

    def spend(automation: Automation) -> Automation:
        spent = Spent(day=automation.day_of(setting.now), runs=1, cost_usd={"auto/x/1": 2.0})
        return automation.model_copy(update={"spent": spent})

    await store.update(key, spend)
    with pytest.raises(AutomationsSpent, match="the 2 US dollars of 2025-11-20"):
        await setting.service.run(key, EDITOR)
    assert await setting.service.runs(key, EDITOR) == []
    setting.now += DAY
    assert await setting.service.run(key, EDITOR)


async def test_what_is_due_is_counted_as_late_while_no_place_is_free() -> None:
    async with night_of(ScriptedProvider(), at_once=0) as night:
        for number in range(3):
            await night.automation(name=str(number))
        await night.run_at(TWO - 1)
        assert night.scheduler.late == 0
        await night.run_at(TWO)
        assert night.scheduler.late == 3


async def test_budgets_hold_on_two_servers_that_die() -> None:
    waits = Says(text="x", held=asyncio.Event(), reading=(1, 2))
    provider = ScriptedProvider(*[READ, waits] * 4)
    async with night_of(provider, pricing=DEAR) as night:
        servers = [night, night_on(night.database, provider, clock=night.clock, pricing=DEAR)]
        made = await night.automation(budget={"tokens": 4 * ASKED})
        night.clock.now = TWO
        for number in range(4):
            server = servers[number % 2]
            assert await server.scheduler.tick() == 1
            await until(
                lambda number=number, server=server: (
                    server.scheduler.is_idle or len(provider.requests) == 2 * (number + 1)
                )
            )
            await server.scheduler.close()
        await night.run_at(night.clock.now + MINUTE)
        session = await night.session(made)
        assert (session.end_reason, session.usage.tokens) == (EndReason.LIMIT_REACHED, 4 * ASKED)
        notes = [m for m in (await night.runs(made))[0].messages if isinstance(m, SystemMessage)]
        (said,) = [note.content for note in notes if note.kind == "LIMIT_REACHED"]
        assert "its limit of tokens is reached" in said


async def test_an_operator_is_notified_once_that_proposals_expire_and_that_failures_paused() -> (
    None
):
    provider = ScriptedProvider(Says(calls=[move()]), *[READ] * 6)
    expiring = list[tuple[str, int]]()
    paused = list[tuple[str, str]]()
    listeners = RunListeners(
        expiring=lambda thread, waiting: expiring.append((thread.key, waiting)),
        paused=lambda automation, reason: paused.append((automation.key, reason)),
    )
    async with night_of(provider, listeners=listeners) as night:
        other = night_on(night.database, provider, clock=night.clock, listeners=listeners)
        waits = await night.ran(name="waits", proposal_ttl_s=7 * 86_400, cron=None, dates=(TWO,))
        for hours in (1, 5 * 24, 6 * 24 + 1, 6 * 24 + 2):
            night.clock.now = TWO + hours * HOUR
            await asyncio.gather(night.scheduler.tick(), other.scheduler.tick())
            assert len(expiring) == (hours > 6 * 24)
        assert expiring == [(f"auto/{waits.key}/{TWO}", 1)]
        assert not paused
        fails = await night.automation(name="fails", budget={"tokens": 150}, only_if_changed=False)
        for _ in range(3):
            stored = await night.stored(fails)
            await night.run_at((stored.next_time or 0) + 1)
        assert paused == [(fails.key, "failures")]


async def test_how_a_run_ended_is_known_where_its_process_died_just_then() -> None:
    provider = ScriptedProvider(*[READ] * 6)
    async with night_of(provider) as night:
        made = await night.automation(budget={"tokens": 150}, only_if_changed=False)
        for day in range(3):
            account = night.worker.runner.account
            if day == 1:

                async def dies(_: Thread) -> None:
                    raise asyncio.CancelledError

                night.worker.runner.account = dies  # type: ignore[method-assign]
            await night.run_at(TWO + day * DAY)
            night.worker.runner.account = account  # type: ignore[method-assign]
            stored = await night.stored(made)
            assert stored.spent.sums()["tokens"] == 2 * ASKED, (
                "what it used is counted before it ends"
            )
        assert (stored.enabled, stored.paused_reason) == (False, "failures")


LOOKED_BACK = 20
"""Blocks before a breakpoint at which an earlier one may have ended."""
READS: list[tuple[str, dict[str, Any]]] = [
    ("read_graph_overview", {}),
    ("list_node_edges", {"nodeKey": "root"}),
    ("read_node_detail", {"nodeKey": "fetch-api"}),
    ("search_nodes", {"query": "player"}),
    ("list_available_node_types", {}),
]


class CachingServer:
    """Keeps what stands before each breakpoint, and says of each request how much of
    it was kept.
    """

    def __init__(self, steps: list[tuple[str, dict[str, Any]]]) -> None:
        self.steps, self.kept = steps, set[str]()
        self.shares: list[float] = []

    def __call__(self, request: Request) -> Answer:
        body = request.json
        blocks = [*body["tools"], *body["system"]]
        blocks += [
            {"role": turn["role"], **block}
            for turn in body["messages"]
            for block in turn["content"]
        ]
        ends = [place for place, block in enumerate(blocks) if "cache_control" in block]
        plain = [
            json.dumps({k: v for k, v in block.items() if k != "cache_control"}) for block in blocks
        ]
        before = ["".join(plain[: place + 1]) for place in range(len(plain))]
        looked_at = {place for end in ends for place in range(max(0, end - LOOKED_BACK), end + 1)}
        read = max(
            (len(before[place]) for place in looked_at if before[place] in self.kept), default=0
        )
        written = len(before[ends[-1]]) - read
        self.kept |= {before[place] for place in ends}
        whole = len(before[-1])
        self.shares.append(read / whole)
        name, arguments = self.steps[len(self.shares) - 1]
        call = tool_block(0, f"t{len(self.shares)}", name, json.dumps(arguments))
        usage = {
            "input_tokens": (whole - read - written) // 4,
            "cache_read_input_tokens": read // 4,
            "cache_creation_input_tokens": written // 4,
        }
        return streamed(events(message_start(**usage), *call, *message_end("tool_use")))


async def test_from_its_second_call_on_a_run_reads_nine_tenths_of_its_prompt_from_the_cache() -> (
    None
):
    finish = ("finish_automation", {"outcome": "ok", "report": "Nothing was found."})
    caching = CachingServer([*READS, finish] * 2)
    with ScriptedServer() as server:
        server.play(*[caching] * 2 * (len(READS) + 1))
        async with aclosing(anthropic_provider(server)) as provider, night_of(provider) as night:
            made = await night.automation(only_if_changed=False)
            for day in range(2):
                await night.run_at(TWO + day * DAY)
            runs = [run.session for run in await night.runs(made)]
    steps = len(READS) + 1
    first = caching.shares[:steps]
    second = caching.shares[steps:]
    prompt = cached = 0
    for run in runs:
        assert run.end_reason is EndReason.COMPLETED
        prompt = prompt + run.usage.prompt
        cached = cached + run.usage.cached
    later = [*first[1:], *second[1:]]
    shown = ", ".join(f"{share:.1%}" for share in caching.shares)
    print(f"cached of the prompt: {shown}; of both runs {cached / prompt:.1%}")
    assert min(later) >= 0.9
    assert first[0] == 0
    assert second[0] >= 0.9, "nothing in the prompt of a run is of its own, such as the time"


async def test_what_nobody_knows_the_price_of_is_unknown_and_not_free() -> None:
    async with scripted_night(READ, finish(), pricing=Pricing(model="m")) as (night, _):
        made = await night.ran()
        (run,) = await night.runs(made)
        stored = await night.stored(made)
    assert session_of(run).usage.unpriced_tokens == 2 * ASKED
    assert run.summary()["totalCost"] is None
    assert stored.spent.sums()["costUsd"] is None
