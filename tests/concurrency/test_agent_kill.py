"""kill -9 at each write of a conversation with an agent: another process ends it and sends
what is owed.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from graphrag.agent.thread_store import Threads
from graphrag.agent.turn_lease import TurnLeases
from graphrag.agents.deliveries import LifeParts
from graphrag.agents.life import AgentLife
from graphrag.leases import now_ms
from tests.concurrency.agent_end_workers import ALLOWED, HOUR_MS, LINES, document_of, end_a_chat
from tests.concurrency.agent_workers import live_through, server_at
from tests.concurrency.call_workers import (
    ORDERED,
    call_server_at,
    hold_a_call,
    hold_a_text_call,
)
from tests.concurrency.killing import killing, last_write
from tests.support.agents import REVIEWER
from tests.support.chosen_database import address_in, database_in
from tests.support.loopback_api import LoopbackApi, loopback_api
from tests.support.service import service


async def _end_elsewhere(path: Path) -> list[str]:
    """Do what is due for an hour and another; return why and how conversations ended, and
    what is left.
    """
    async with database_in(path) as database:
        for hours in (1, 2):
            server = server_at(database, path, hours=hours)
            await server.tick()
        ends = await database.records("default").query("thread")
        found = [f"{each.data['agentOpen']} {each.data['agent']['outcome']}" for each in ends]
        return found + [
            each.status for each in await server.life.deliveries.list() if each.status != "done"
        ]


@pytest.mark.slow
async def test_a_conversation_killed_at_any_write_ends_once_and_its_api_knows(
    tmp_path: Path,
) -> None:
    async with database_in(tmp_path / "start.db"):
        pass
    kills, killed = 0, True
    async with killing(live_through, tmp_path) as killed_at:
        while killed:
            killed = await killed_at(kills + 1)
            path = tmp_path / f"{kills + 1}.db"
            left = await _end_elsewhere(path)
            assert left in ([], ["False ordered"], ["False info_only"]), (
                f"killed at write {kills + 1}"
            )
            api = path.with_suffix(".api")
            sent = api.read_text().splitlines() if api.exists() else []
            if left:
                events = {"on_start None", "on_end c-7"}
                if left == ["False info_only"]:  # the order was not stored yet
                    events.add("on_no_action c-7")
                assert set(sent) == events
                assert len(sent) <= len(events) + 1
            else:
                assert sent == []
            kills += killed
    assert kills > 10
    print(f"{kills} kills")


CHANNELS = ("rest", "websocket", "terminal")
STEP = 9
"""Each case kills at every ninth write, and each begins at another one: all writes are killed
at by some.
"""


async def _prepared(folder: Path, api: LoopbackApi) -> None:
    async with (
        service(db=address_in(folder / "start.db"), **ALLOWED) as running,
        running.as_("root", "admin") as root,
    ):
        stored = await root.put("/api/agents/desk", json={"document": document_of(api.url)})
        assert stored.status_code == 200, stored.text
        assert (await root.post("/api/agents/desk/start")).status_code == 200


async def _ends_elsewhere(path: Path) -> list[tuple[str, str | None]]:
    """Do what is due hours later; return key and reason of each conversation, which
    has an end now.
    """
    async with service(db=address_in(path), **ALLOWED) as running:
        services = await running.state.services("default")
        hours = [1]

        def clock() -> int:
            return now_ms() + hours[0] * HOUR_MS

        async with database_in(path) as database:
            records = database.records("default")
            threads = Threads(records, clock=clock)
            leases = TurnLeases(records, clock=clock)
            agents = services.agents
            locale = services.life.locale
            life = AgentLife(
                LifeParts(
                    records,
                    threads,
                    agents,
                    workspace="default",
                    locale=locale,
                    leases=leases,
                    clock=clock,
                )
            )
            for hours[0] in (2, 3):
                await life.deliveries.send_due()
                await life.endings.end_idle()
                assert await life.deliveries.wait_until_sent(timeout_s=60)
            async with asyncio.timeout(
                60
            ):  # the service, by its own clock, may be about to send one of them
                while any(each.status != "done" for each in await life.deliveries.list()):
                    await services.life.deliveries.wait_until_sent(timeout_s=1)
                    await asyncio.sleep(0.02)
            found = await records.query("thread")
            await life.deliveries.close()
    assert all(
        each.data["agentOpen"] is False and each.data["agent"]["outcome"] == "talked"
        for each in found
    )
    return [(each.key, each.data["agent"]["endReason"]) for each in found]


@pytest.mark.slow
@pytest.mark.parametrize("reason", sorted(LINES))
@pytest.mark.parametrize("channel", CHANNELS)
async def test_a_chat_killed_while_it_ends_has_one_end_and_its_api_knows_it_once(
    channel: str, reason: str, tmp_path: Path
) -> None:
    begin = 1 + CHANNELS.index(channel) * 3 + sorted(LINES).index(reason)
    async with loopback_api() as api:
        api.answers = {"POST /start": {}, "POST /end": {}}
        await _prepared(tmp_path, api)
        async with killing(end_a_chat, tmp_path, channel, reason) as killed_at:
            write = begin - STEP
            killed = True
            while killed:
                write += STEP
                api.arrived.clear()
                killed = await killed_at(write)
                ends = await _ends_elsewhere(tmp_path / f"{write}.db")
                assert len(ends) <= 1, f"killed at write {write}"
                sent = Counter(each.headers["idempotency-key"] for each in api.arrived)
                assert set(sent) == {
                    f"{key}:{event}" for key, _ in ends for event in ("on_start", "on_end")
                }
                assert sent.total() <= len(sent) + 1, (
                    "only what was sent and not noted is sent again"
                )
                assert len({each.body for each in api.of("POST /end")}) <= 1, (
                    "and with the same end"
                )
            assert [why for _, why in ends] == [reason], "nobody killed the last"
    assert write > 2 * STEP


KILLS = int(os.environ.get("CALL_KILLS", "12"))
"""Points of a call, spread over its writes; 100 take some minutes."""


async def _left_after(path: Path) -> tuple[str, ...]:
    """Do elsewhere what is due for hours; return how the call stands then, and check what
    belongs to it.
    """
    async with database_in(path) as database:
        for hours in (1, 2, 3):
            server, _ = call_server_at(database, path, hours=hours)
            await server.tick()
        calls, _ = await server.calls.listed(REVIEWER).list()
        owed = {each.id: each.status for each in await server.life.deliveries.list()}
        api = path.with_suffix(".api")
        noted = api.read_text().splitlines() if api.exists() else []
        sent = {line.split()[1] for line in noted if line.startswith(("/calls", "/messages"))}
        assert sent == set(owed)
        assert set(owed.values()) <= {"done"}
        assert sum(line.startswith("/orders") for line in noted) <= 1  # an act is not sent again
        if not calls:
            assert noted == []
            return ("no call",)
        (call,) = calls
        assert call.status == "ended"
        whole = await server.calls.document(call.call_id, REVIEWER)
        if owed:
            assert {f"{call.call_id}:on_start", f"{call.call_id}:on_end"} <= set(owed)
            assert whole["outcome"] == (
                "ordered" if whole["flags"].get("order_placed") else whole["outcome"]
            )
        if ORDERED in noted:
            assert whole["outcome"] == "ordered"
        elif any(line.startswith("/orders") for line in noted) and whole["outcome"] != "ordered":
            assert [each["ok"] for each in whole["tools"]] == [None]  # it may have been carried out
        return str(call.end_reason), str(call.outcome)


@pytest.mark.slow
@pytest.mark.parametrize("work", [hold_a_call, hold_a_text_call], ids=["realtime", "text"])
async def test_a_call_killed_at_any_write_ends_once_and_its_api_knows(
    work: Callable[..., Awaitable[None]], tmp_path: Path
) -> None:
    async with database_in(tmp_path / "start.db"):
        pass
    ends = Counter[tuple[str, ...]]()
    async with killing(work, tmp_path) as killed_at:
        last = await last_write(killed_at)
        for kill in range(KILLS):
            write = 1 + kill * (last - 1) // max(1, KILLS - 1)
            path = tmp_path / f"{write}.db"
            path.with_suffix(".api").unlink(missing_ok=True)
            assert await killed_at(write) or write > last - 3, write
            ends[await _left_after(path)] += 1
    print(f"{KILLS} kills over {last} writes: {dict(ends)}")
    assert {end[0] for end in ends} <= {"no call", "lost", "line_lost", "caller_hung_up"}
    assert any(end[0] == "lost" for end in ends)
