"""Tools of agents that act outside: carried out once whatever happens, flags kept, calls noted."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from datasources.base import Database
from datasources.mock import MemoryDatabase, open_nba
from graphrag.agent.events import Completed, ToolFinished, TurnStarted
from graphrag.agent.thread_store import NothingToResume
from graphrag.agents.agent_store import KEPT_VERSIONS, VERSION_KIND, Agents
from graphrag.agents.agent_worker import GRAPHS_MS, WorkspaceAgents
from graphrag.agents.errors import AgentChanged, AgentNotFound, AgentStateRefused, AgentTooLarge
from graphrag.agents.manager import AgentManager
from graphrag.app.agent_services import http_sentence
from graphrag.leases import now_ms
from graphrag.llm.base import ToolMessage
from graphrag.workspace_ticker import WorkspaceTicker
from tests.graphrag.agents.managing import ADMIN, ManagerCase, document
from tests.support.agent_chats import agent_document, chats_of, chats_on
from tests.support.agent_life import Api, DyingRecords, Killed, Server, server_on
from tests.support.agents import EDITOR, GRAPH, collected, of, only
from tests.support.raw_api import RawApi, answer, raw_api
from tests.support.scripted_provider import Says, ScriptedProvider, call
from tests.support.valid_history import check_valid
from tools.http.executor import HttpExecutor
from tools.http.fetch import HttpAnswer, HttpClient
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
    arrived = asyncio.Event()
    go_on = asyncio.Event()

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
    """Run a turn with an act, killed at a write; then take the conversation up. Returns the writes
    it took, and whether its model heard that the act may have been carried out.
    """
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
        messages = await two.messages(kept)
        part = await two.part(kept)
    unsure = [
        m
        for m in messages
        if isinstance(m, ToolMessage) and "may have been carried out" in m.content
    ]
    assert [tool.ok for tool in part.tools if tool.ok is None] == [None] * len(unsure)
    return records.writes, bool(unsure)


@pytest.mark.slow
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


class Ticks:
    """A manager that has nothing to do."""

    def __init__(self, error: Exception | None = None) -> None:
        self.count = 0
        self._error = error

    async def tick(self, now: int) -> None:
        self.count += 1
        if self._error is not None:
            raise self._error


def work_of(server: Server, database: Database, manager: Any = None) -> WorkspaceAgents:
    return WorkspaceAgents(
        manager=cast(AgentManager, manager or Ticks()),
        life=server.life,
        source=database.source("default"),
        clock=server.clock,
    )


async def test_one_workspace_that_fails_does_not_hold_up_another() -> None:
    async with MemoryDatabase() as database:
        server = server_on(database, Api())
        stored = await server.begin()
        await server.quiet()
        manager = Ticks(error=RuntimeError("down"))
        good = work_of(server, database, manager)

        async def opened(name: str) -> WorkspaceAgents:
            if name == "bad":
                raise RuntimeError("no such key")
            return good

        async def names() -> list[str]:
            return ["bad", "default"]

        worker = WorkspaceTicker(names, opened, noun="agent")
        server.clock.now += 1_800_000
        for _ in range(3):
            await worker.tick()
            await good.idle()
        await server.quiet()
        assert manager.count == 3
        assert (await server.part(stored)).end_reason == "idle"


async def test_an_api_that_hangs_holds_up_no_idle_end() -> None:
    async with MemoryDatabase() as database:
        api = Api(answers={"/calls": HttpAnswer(status=503)})
        server = server_on(database, api)
        first = await server.begin()
        second = await server.begin()
        await server.quiet()
        api.held = {"/calls": asyncio.Event()}
        work = work_of(server, database)
        server.clock.now += 2_000
        await work.tick()  # sends what is owed, and gets no answer
        server.clock.now += 1_800_000
        async with asyncio.timeout(60):
            while (await server.part(first)).is_open or (await server.part(second)).is_open:
                await work.tick()
                await asyncio.sleep(0)
        await work.close()


async def test_conversations_about_a_graph_end_when_it_is_gone() -> None:
    async with open_nba("default") as database:
        server = server_on(database, Api())
        assert server.shop.agent is not None
        about = server.threads.begin(GRAPH, EDITOR, title="hello")
        about = await server.life.beginnings.begin(server.shop.agent, 1, about)
        other = await server.begin()
        lost = server.threads.begin("gone before", EDITOR, title="hello")
        lost = await server.life.beginnings.begin(server.shop.agent, 1, lost)
        await server.quiet()
        work = work_of(server, database)
        await work.tick()
        await work.idle()
        assert not (await server.part(lost)).is_open
        assert (await server.part(about)).is_open
        await database.source("default").delete_graph(GRAPH)
        server.clock.now += GRAPHS_MS
        await work.tick()
        await work.idle()
        assert (await server.part(about)).end_reason == "draining"
        assert (await server.part(other)).is_open


@pytest.fixture
def agents(database: Database) -> Agents:
    return ManagerCase(database).agents()


async def test_a_new_version_is_current_and_the_same_document_is_none(agents: Agents) -> None:
    first = await agents.put(document(name="One"), 0, ADMIN, {"CITY": "Paris"})
    second = await agents.put(document(name="Two"), 1, ADMIN)
    again = await agents.put(document(name="Two"), 2, ADMIN)
    assert (first.version, second.version, again.version) == (1, 2, 2)
    assert (await agents.version("helpdesk", 1)).variables == {"CITY": "Paris"}
    assert (await agents.version("helpdesk", 2)).document["agent"]["name"] == "Two"
    assert [agent.name for agent in await agents.list()] == ["Two"]


async def test_who_read_an_older_version_changes_nothing(agents: Agents) -> None:
    await agents.put(document(name="One"), None, ADMIN)
    await agents.put(document(name="Two"), 1, ADMIN)
    for expected in (0, 1, 3):
        with pytest.raises(AgentChanged) as refused:
            await agents.put(document(name="Three"), expected, ADMIN)
        assert refused.value.facts["version"] == 2
    with pytest.raises(AgentChanged):
        await agents.put(document("other"), 1, ADMIN)


async def test_of_writers_at_once_one_wins(agents: Agents) -> None:
    await agents.put(document(), None, ADMIN)
    tries = (agents.put(document(name=f"N{i}"), 1, ADMIN) for i in range(6))
    done = await asyncio.gather(*tries, return_exceptions=True)
    assert sum(isinstance(each, AgentChanged) for each in done) == 5
    stored = await agents.get("helpdesk")
    assert (stored.version, len(stored.versions)) == (2, 2)
    assert (await agents.version("helpdesk", 2)).document["agent"]["name"] == stored.name


async def test_the_last_versions_are_kept_and_one_of_them_made_current(agents: Agents) -> None:
    for number in range(KEPT_VERSIONS + 3):
        await agents.put(document(name=f"N{number}"), number, ADMIN)
    stored = await agents.get("helpdesk")
    assert [each.version for each in stored.versions] == list(range(4, 24))
    for gone in (1, 3, 99):
        with pytest.raises(AgentNotFound):
            await agents.rollback("helpdesk", gone)
    back = await agents.rollback("helpdesk", 10)
    assert (back.version, back.latest, back.name) == (10, 23, "N9")
    assert (await agents.put(document(name="new"), 10, ADMIN)).version == 24
    await agents.delete("helpdesk")
    assert await agents.find("helpdesk") is None
    assert await agents.records.query(VERSION_KIND) == []
    assert (await agents.put(document(name="again"), 0, ADMIN)).version == 1


async def test_the_current_version_is_kept_however_old(agents: Agents) -> None:
    for number in range(KEPT_VERSIONS):
        await agents.put(document(name=f"N{number}"), number, ADMIN)
    await agents.rollback("helpdesk", 1)
    assert (await agents.put(document(name="next"), 1, ADMIN)).version == 21
    assert (await agents.get("helpdesk")).current.version == 21


async def test_what_runs_is_not_deleted_and_what_is_too_large_not_stored(agents: Agents) -> None:
    await agents.put(document(), None, ADMIN)
    await agents.change("helpdesk", lambda agent: agent.model_copy(update={"desired": "running"}))
    with pytest.raises(AgentStateRefused):
        await agents.delete("helpdesk")
    with pytest.raises(AgentTooLarge):
        await agents.put(document(instructions="x" * 600_000), None, ADMIN)
    assert (await agents.get("helpdesk")).version == 1


async def test_an_agent_of_another_workspace_does_not_exist(database: Database) -> None:
    case = ManagerCase(database)
    await case.agents().put(document(), None, ADMIN)
    elsewhere = case.agents("elsewhere")
    assert await elsewhere.list() == []
    for asked in (
        elsewhere.get("helpdesk"),
        elsewhere.version("helpdesk", 1),
        elsewhere.delete("helpdesk"),
    ):
        with pytest.raises(AgentNotFound):
            await asked
