"""What another server stored ends the wait of a service whose next look is hours away."""

import asyncio
from contextlib import AsyncExitStack
from typing import Any, cast

import pytest

from datasources.base import Database, Record
from datasources.types import Mutation
from graphrag.agent.thread_store import session_of
from graphrag.agent.turn_lease import TurnLeases, TurnUnwanted
from graphrag.app.api_keys import ApiKeys
from graphrag.approvals import Approvals, Reject
from graphrag.automations.scheduler import Scheduler, Wakeups, wake_at_notices
from graphrag.connections.key_store import KeyStore
from graphrag.connections.server_connections import LEASE_PREFIX, Connections
from graphrag.connections.stored_connection import CONNECTION_KIND
from graphrag.live import LiveGraphs
from graphrag.live.errors import LiveGraphClosed
from graphrag.sessions.phases import EndReason, Phase
from graphrag.voice.call_records import KIND as CALL
from graphrag.workspace_ticker import WorkspaceTicker
from tests.contracts.samples import FLOW, WORKSPACE, make_flow
from tests.graphrag.live.helpers import NEVER
from tests.graphrag.voice.test_call_tools import clerk, proposed
from tests.support.agent_life import Api, server_on
from tests.support.agents import EDITOR, GRAPH, REVIEWER
from tests.support.automations import TWO, finish, night_on
from tests.support.clock import MONDAY, Clock
from tests.support.databases import put_sample
from tests.support.held_calls import held_call
from tests.support.phone_calls import phone_server_on
from tests.support.scripted_provider import Says, ScriptedProvider
from tests.support.told_database import told_servers
from tests.support.waiting import cancelled, until
from tools.http.fetch import HttpAnswer

pytestmark = pytest.mark.usefixtures("no_looks")
WITHIN_S = 20.0


async def test_a_turn_is_stopped_by_another_server(memory: Database) -> None:
    async with told_servers(memory) as (a, b), asyncio.timeout(WITHIN_S):
        here, there = (TurnLeases(each.records("default")) for each in (a, b))
        began = asyncio.Event()

        async def turn() -> None:
            async with here.held("t") as lease:
                with lease.step():
                    began.set()
                    await asyncio.Event().wait()

        running = asyncio.create_task(turn())
        await began.wait()
        assert await there.ask_to_stop("t")
        with pytest.raises(TurnUnwanted):
            await running


async def test_a_renewal_wakes_nobody_and_a_new_owner_does(memory: Database) -> None:
    clock = Clock()
    async with told_servers(memory) as (a, b), asyncio.timeout(WITHIN_S):
        owner = TurnLeases(a.records("default"), clock=clock, look_s=0.01)
        other = TurnLeases(b.records("default"), clock=clock)
        with other.watched("t") as inbox:
            async with owner.held("t"):
                assert await inbox.wait(60) is not None
                before = await other.last_held("t")
                clock.now += 6_000
                while await other.last_held("t") == before:  # noqa: ASYNC110 - it is renewed
                    await asyncio.sleep(0.01)
                inbox.wake()
                assert await inbox.wait(60) is None, "nothing was told"
            assert await inbox.wait(60) is not None


async def test_a_revoked_key_is_refused_at_another_server(memory: Database) -> None:
    async with told_servers(memory) as (a, b), asyncio.timeout(WITHIN_S):
        here = ApiKeys(a.records("root"), monotonic=lambda: 0.0)
        there = ApiKeys(b.records("root"), monotonic=lambda: 0.0)
        following = asyncio.create_task(here.follow())
        key, text = await there.create(user="ann", role="editor", workspaces=["default"])
        assert await here.find(text, "mcp")
        assert await here.find(text, "mcp"), "the time of the first use is stored, this is cached"
        await there.revoke(key.id)
        while await here.find(text, "mcp"):  # noqa: ASYNC110 - the notice has no other sign
            await asyncio.sleep(0)
        await cancelled(following)


async def test_a_key_read_before_its_revocation_is_not_cached_after_it(memory: Database) -> None:
    """The notice may arrive while the key is being read."""
    async with told_servers(memory) as (a, b), asyncio.timeout(WITHIN_S):
        there = ApiKeys(b.records("root"))
        key, text = await there.create(user="ann", role="editor", workspaces=["default"])
        records = _Slow(a.records("root"))
        here = ApiKeys(cast(Any, records), monotonic=lambda: 0.0)
        following = asyncio.create_task(here.follow())
        finding = asyncio.create_task(here.find(text, "mcp"))
        await records.has_read.wait()
        await there.revoke(key.id)
        await asyncio.sleep(0.05)  # the notice is followed
        records.goes_on.set()
        await finding
        assert await here.find(text, "mcp") is None
        await cancelled(following)


class _Slow:
    """Records whose first read is answered when `goes_on` is set."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.has_read = asyncio.Event()
        self.goes_on = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def get(self, kind: str, key: str) -> Record | None:
        record = await self._inner.get(kind, key)
        self.has_read.set()
        await self.goes_on.wait()
        return record


async def test_a_live_graph_shows_what_another_server_stored(memory: Database) -> None:
    await make_flow(memory)
    async with (
        told_servers(memory) as (a, b),
        LiveGraphs(a.source, a.records, options=NEVER, notices=a.notices) as graphs,
        LiveGraphs(b.source, b.records, options=NEVER, notices=b.notices) as others,
        asyncio.timeout(WITHIN_S),
    ):
        live = await graphs.open(WORKSPACE, FLOW)
        member = live.join("ann", "0")
        source = b.source(WORKSPACE)
        [node] = await source.get_nodes(FLOW, limit=1)
        moved = node.replace(pos_x=77.0)
        await source.apply(Mutation(graph_key=FLOW, put_nodes=[moved]))
        assert b"77" in (await member.next()).text
        assert others.opened == []


async def test_an_owner_learns_that_another_server_took_its_graph_over(memory: Database) -> None:
    await make_flow(memory)
    clock = Clock(MONDAY)
    async with (
        told_servers(memory) as (a, b),
        LiveGraphs(
            a.source, a.records, options=NEVER, notices=a.notices, clock=lambda: MONDAY
        ) as graphs,
        LiveGraphs(b.source, b.records, options=NEVER, notices=b.notices, clock=clock) as others,
        asyncio.timeout(WITHIN_S),
    ):
        live = await graphs.open(WORKSPACE, FLOW)
        member = live.join("ann", "0")
        clock.now += 60_000
        await others.open(WORKSPACE, FLOW)
        with pytest.raises(LiveGraphClosed):
            await member.next()
        assert live.is_closed


async def test_an_announced_end_is_confirmed_at_another_server(memory: Database) -> None:
    await put_sample(memory)
    async with (
        told_servers(memory) as (a, b),
        ScriptedProvider(finish()) as model,
        asyncio.timeout(WITHIN_S),
    ):
        night = night_on(a, model, look_s=36_000)
        night.worker.runner.sleep = None
        other = night_on(b, ScriptedProvider(), clock=night.clock, look_s=36_000)
        made = await night.automation()
        night.clock.now = TWO
        await night.scheduler.tick()
        (run,) = await night.runs(made)
        ends = Phase.WAITING_COMPLETION_CONFIRMATION
        while (await night.session(made)).phase is not ends:  # noqa: ASYNC110 - a stored state
            await asyncio.sleep(0.01)
        await other.control.confirm(run.key, EDITOR, end=True)
        await until(lambda: night.scheduler.is_idle)
        assert (await night.session(made)).end_reason is EndReason.COMPLETED


async def test_a_run_is_ended_at_another_server(memory: Database) -> None:
    await put_sample(memory)
    held = asyncio.Event()
    async with (
        told_servers(memory) as (a, b),
        ScriptedProvider(Says(text="Two.", held=held)) as model,
        asyncio.timeout(WITHIN_S),
    ):
        night = night_on(a, model, look_s=36_000)
        other = night_on(b, ScriptedProvider(), clock=night.clock, look_s=36_000)
        made = await night.automation()
        night.clock.now = TWO
        await night.scheduler.tick()
        await until(lambda: model.requests)
        (run,) = await night.runs(made)
        ended = await other.control.stop(run.key, EDITOR)
        assert session_of(ended).end_reason is EndReason.CANCELLED
        await until(lambda: night.scheduler.is_idle)


async def test_a_scheduler_begins_what_another_server_asks_for(memory: Database) -> None:
    await put_sample(memory)
    async with (
        told_servers(memory) as (a, b),
        AsyncExitStack() as stack,
        asyncio.timeout(WITHIN_S),
    ):
        model = await stack.enter_async_context(ScriptedProvider(finish()))
        night = night_on(a, model)
        other = night_on(b, ScriptedProvider(), clock=night.clock)
        wakeups = Wakeups()
        ticks = 0

        async def names() -> list[str]:
            nonlocal ticks
            ticks += 1
            return ["default"]

        async def opened(_: str) -> Any:
            return night.worker

        scheduler = Scheduler(names, opened, wakeups=wakeups)
        waking = asyncio.create_task(wake_at_notices(a.notices, wakeups))
        async with scheduler.ticking():
            await until(lambda: ticks == 1)
            made = await other.automation(cron=None)
            await other.automations.claim(await other.stored(made), MONDAY, trigger="manual")
            await until(lambda: model.requests)
        await cancelled(waking)


async def test_a_scheduler_continues_after_a_decision_at_another_server(memory: Database) -> None:
    async with told_servers(memory) as (a, b), asyncio.timeout(WITHIN_S):
        wakeups = Wakeups()
        waking = asyncio.create_task(wake_at_notices(a.notices, wakeups))
        await asyncio.sleep(0)
        approval = Record(kind="approval", key="one", data={})
        await b.records("acme").put(approval, expected_version=None)
        await wakeups.wait(36_000)
        assert wakeups.take_decided("acme")
        assert not wakeups.take_decided("default")
        await cancelled(waking)


class Ticks:
    """The work of a workspace; counts its ticks."""

    def __init__(self) -> None:
        self.count = 0

    async def tick(self) -> None:
        self.count += 1

    async def close(self) -> None:
        """Ends nothing."""


async def test_a_notice_lets_its_workspace_tick(memory: Database) -> None:
    async with told_servers(memory) as (a, b), asyncio.timeout(WITHIN_S):
        works = {"acme": Ticks(), "default": Ticks()}

        async def names() -> list[str]:
            return [*works]

        async def opened(name: str) -> Ticks:
            return works[name]

        ticker = WorkspaceTicker(
            names, opened, noun="connection", notices=a.notices, kinds=(CONNECTION_KIND,)
        )
        async with ticker.working():
            await until(lambda: works["default"].count == 1)
            made = Record(kind=CONNECTION_KIND, key="shop", data={})
            await b.records("acme").put(made, expected_version=None)
            await until(lambda: works["acme"].count == 2)
        assert works["default"].count == 1


async def test_a_connection_is_taken_when_another_server_gives_it_back(memory: Database) -> None:
    async with told_servers(memory) as (a, b), asyncio.timeout(WITHIN_S):
        records = a.records("default")
        approvals = Approvals(a.source("default"), records)
        connections = Connections(records, approvals, KeyStore(None, {}))
        leases = TurnLeases(b.records("default"), prefix=LEASE_PREFIX)
        stack = AsyncExitStack()
        async with leases.held("shop"):
            holding = asyncio.create_task(connections._hold(stack, "shop", 36_000))  # pyright: ignore[reportPrivateUsage]
            await asyncio.sleep(0.02)
            assert not holding.done()
        await holding
        await stack.aclose()


async def test_the_response_that_another_server_got_is_awaited(memory: Database) -> None:
    async with told_servers(memory) as (a, b), asyncio.timeout(WITHIN_S):
        api = Api(answers={"/calls": HttpAnswer(status=200, value={"id": "c-7"})})
        api.held = {"/calls": asyncio.Event()}
        sender, waiter = server_on(a, api), server_on(b, api)
        stored = await sender.begin()
        values = waiter.life.deliveries.first_values(stored.thread.key, wait_ms=3_600_000)
        waiting = asyncio.create_task(values)
        await until(lambda: api.of("/calls"))
        await asyncio.sleep(0.02)
        assert not waiting.done()
        api.held["/calls"].set()
        assert await waiting == {"call_id": "c-7"}


async def test_a_conversation_is_ended_when_another_server_stops_its_turn(
    memory: Database,
) -> None:
    async with told_servers(memory) as (a, b), asyncio.timeout(WITHIN_S):
        server, other = server_on(a, Api()), server_on(b, Api())
        stored = await server.begin()
        leases = TurnLeases(a.records("default"), clock=server.clock)
        async with leases.held(stored.thread.key):
            ending = other.life.endings.end(stored.thread.key, "ended_by_person", stop=True)
            task = asyncio.create_task(ending)
            while not (await _unwanted(leases, stored.thread.key)):  # noqa: ASYNC110 - it is stored
                await asyncio.sleep(0)
        assert await task is not None
        for each in (server, other):
            await each.quiet()


async def _unwanted(leases: TurnLeases, thread_id: str) -> bool:
    held = await leases.holder(thread_id)
    return held is not None and bool(held.data.get("unwanted"))


async def test_the_end_of_a_call_is_seen_at_another_server(memory: Database) -> None:
    async with told_servers(memory) as (a, b), asyncio.timeout(WITHIN_S):
        api = Api()
        server, other = phone_server_on(a, api), phone_server_on(b, api)
        call, serving = await server.connect()
        after = asyncio.create_task(other.calls.after(call.call_id))
        followed: list[str] = []

        async def follow() -> None:
            async for message in other.calls.follow(call.call_id, REVIEWER):
                followed.append(str(message["type"]))

        following = asyncio.create_task(follow())
        await until(lambda: followed)
        server.speakers[0].end_soon("caller_hung_up")
        await serving
        await after
        await following
        assert followed[-1] == "call:ended"
        assert (await b.records("default").get(CALL, call.call_id)) is not None
        for each in (server, other):
            await each.quiet()


async def test_a_caller_hears_of_a_decision_at_another_server(memory: Database) -> None:
    await put_sample(memory)
    async with (
        told_servers(memory) as (a, b),
        held_call(clerk(), graph=GRAPH, database=a) as call,
        asyncio.timeout(WITHIN_S),
    ):
        approval = await proposed(call)
        others = Approvals(b.source("default"), b.records("default"))
        await others.decide(approval.id, Reject(feedback="Not now."), REVIEWER)
        await call.until(lambda: bool(call.model.notes()))
        await call.hang_up()
