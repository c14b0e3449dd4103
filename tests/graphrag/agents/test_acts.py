"""Tools of agents that act outside: carried out once whatever happens, flags kept, calls noted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from datasources.base import Database
from datasources.mock import MemoryDatabase, open_nba
from graphrag.agent.events import Completed, ToolFinished, TurnStarted
from graphrag.agent.thread_store import NothingToResume
from graphrag.app.agent_services import http_sentence
from graphrag.leases import now_ms
from graphrag.llm.base import ToolMessage
from tests.support.agent_chats import agent_document, chats_of, chats_on
from tests.support.agent_life import DyingRecords, Killed
from tests.support.agents import EDITOR, GRAPH, collected, of, only
from tests.support.raw_api import RawApi, answer, raw_api
from tests.support.scripted_provider import Says, ScriptedProvider, call
from tests.support.valid_history import check_valid
from tools.http.executor import HttpExecutor
from tools.http.fetch import HttpClient
from tools.http.secret_values import Secrets

LATER_MS = 10 * 60_000
ORDER = {
    "type": "http",
    "method": "POST",
    "url": "{{base_url}}/orders",
    "body": {"dish": "{{args.dish}}", "call": "{{call_id}}"},
    "store_in_ctx": {"order_id": "$.id"},
    "on_success_flags": ["order_placed"],
    "on_success": {"return": {"success": True, "id": "$.id"}},
}


def shop(api: RawApi, **changes: Any) -> dict[str, Any]:
    declared = {
        "type": "function",
        "name": "order",
        "description": "Orders.",
        "parameters": {"type": "object"},
    }
    return agent_document(
        base_url=api.url,
        session={"mode": "inline", "instructions": "You sell.", "tools": [declared]},
        tools={"order": ORDER, "bye": {"type": "builtin", "action": "hangup"}},
        lifecycle={"outcome_rules": [{"flag": "order_placed", "outcome": "ordered"}]},
        **changes,
    )


@asynccontextmanager
async def shop_api() -> AsyncGenerator[tuple[RawApi, HttpExecutor]]:
    async with raw_api() as api:
        client = HttpClient(api.rules())
        yield api, HttpExecutor(client, Secrets({}), now_ms, http_sentence)
        await client.aclose()


def order(dish: str = "soup") -> Says:
    return Says(calls=[call("order", {"dish": dish}, call_id=f"c-{dish}")])


async def test_an_act_and_a_read_of_a_graph_in_one_turn_and_the_outcome() -> None:
    both = Says(calls=[*order().calls, call("search_nodes", {"query": "player"})])
    bye = Says(text="Bye.", calls=[call("bye")])
    async with shop_api() as (api, executor):
        api.answers = [answer({"id": 7}, 201)]
        with ScriptedProvider(both, "Ordered.", bye) as model:
            async with chats_of(model, shop(api, graphs=[GRAPH]), executor=executor) as setting:
                events = await setting.say("soup", graph=GRAPH)
                thread_id = only(events, TurnStarted).thread_id
                part = await setting.part(thread_id)
                ending = only(await setting.say("thanks", thread_id, graph=GRAPH), Completed)
    assert [each.is_error for each in of(events, ToolFinished)] == [False, False]
    assert (part.ctx["order_id"], part.ctx["order_placed"]) == (7, True)
    assert [(t.name, t.ok, t.status) for t in part.tools] == [
        ("order", True, 201),
        ("search_nodes", True, None),
    ]
    assert api.got[0].json == {"dish": "soup", "call": thread_id}
    assert api.got[0].headers["idempotency-key"].startswith(f"{thread_id}:c-soup:")
    assert (ending.end_reason, ending.outcome) == ("agent_hung_up", "ordered")


async def test_what_a_stopped_turn_had_begun_to_do_is_finished_and_counts() -> None:
    arrived, go_on = asyncio.Event(), asyncio.Event()

    async def slowly(writer: asyncio.StreamWriter) -> None:
        arrived.set()
        await go_on.wait()
        writer.write(answer({"id": 8}, 201))
        await writer.drain()

    async with shop_api() as (api, executor):
        api.answers = [slowly]
        with ScriptedProvider(order()) as model:
            async with chats_of(model, shop(api), executor=executor) as setting:
                turn = asyncio.create_task(setting.say("soup"))
                await arrived.wait()
                thread = (await setting.threads.list(EDITOR))[0]
                assert thread.turn.started == ["c-soup"]
                turn.cancel()
                await asyncio.sleep(0.01)
                go_on.set()
                with pytest.raises(asyncio.CancelledError):
                    await turn
                part = await setting.part(thread.key)
    assert (part.ctx["order_placed"], part.ctx["order_id"]) == (True, 8)
    assert [tool.ok for tool in part.tools] == [True]
    assert len(api.got) == 1


async def killed_at(
    database: Database, api: RawApi, executor: HttpExecutor, write: int, *, after: bool
) -> tuple[int, bool]:
    """Run a turn with an act, killed at a write; then take the conversation up. Returns the writes it took,
    and whether its model heard that the act may have been carried out."""
    records = DyingRecords(database.records("default"), dies_at=write, after=after)
    documents = {"desk": shop(api)}
    with ScriptedProvider() as model:
        model.play_instead(order(), "Ordered.")
        one = chats_on(database, model, documents, executor, records=records)
        try:
            await collected(one.chats.run(None, "", "soup", EDITOR, agent_id="desk"))
        except (Killed, BaseExceptionGroup):
            pass
        except Exception:
            if not records.is_dead:
                raise
        model.play_instead()
    reading = chats_on(database, ScriptedProvider(), documents, executor)
    found = await reading.threads.list(EDITOR)
    kept = found[0].key if found else None
    if kept is None:
        return records.writes, False
    with ScriptedProvider() as model:
        model.play_instead("I see.")
        two = chats_on(database, model, documents, executor, clock=lambda: now_ms() + LATER_MS)
        try:
            events = await two.resume(kept)
            assert isinstance(events[-1], Completed), (write, after, events[-1])
        except NothingToResume:
            await two.say("so?", kept)
        model.play_instead()
        check_valid(model.requests[-1].messages)
        messages, part = await two.messages(kept), await two.part(kept)
    unsure = [m for m in messages if isinstance(m, ToolMessage) and "may have been carried out" in m.content]
    assert [tool.ok for tool in part.tools if tool.ok is None] == [None] * len(unsure)
    return records.writes, bool(unsure)


async def test_an_act_is_sent_once_wherever_its_process_is_killed() -> None:
    writes, unsure = 1, 0
    async with shop_api() as (api, executor):
        api.answers = [answer({"id": 9}, 201)]
        async with open_nba("default") as database:
            writes, _ = await killed_at(database, api, executor, 0, after=False)
        assert len(api.got) == 1
        for write in range(1, writes + 1):
            for after in (False, True):
                api.got.clear()
                async with MemoryDatabase() as database:
                    _, is_unsure = await killed_at(database, api, executor, write, after=after)
                assert len(api.got) <= 1, (write, after)
                unsure += is_unsure
    assert writes > 6
    assert unsure >= 2  # killed between the request and what is stored of its answer
