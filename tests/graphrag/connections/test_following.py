"""Connections that are kept in step in the background."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from graphrag.agent.turn_lease import TurnLeases
from graphrag.approvals import Approvals
from graphrag.connections import Connections, Following
from graphrag.connections.following import LEASE_PREFIX, Pace
from graphrag.connections.key_store import KeyStore
from graphrag.connections.stored_connection import CONNECTION_KIND
from graphrag.stored_records import change_record
from tests.graphrag.connections.conftest import ADMIN, SECRET, new, setting_of, workflow
from tests.graphrag.connections.test_node_red import flow, to
from tests.support.chosen_database import database_in
from tests.support.waiting import until
from tests.support.workflow_servers import n8n_double, node_red

QUICK = Pace(least_s=0, listening_s=600, retry_s=0.01, longest_s=0.05)
LIST = "GET /api/v1/workflows"


@asynccontextmanager
async def a_server(file: Path, pace: Pace = QUICK) -> AsyncGenerator[tuple[Connections, Following]]:
    """Yields the connections of one of our servers on a database file, and what follows them."""
    async with database_in(file) as database:
        records = database.records("default")
        approvals = Approvals(database.source("default"), records)
        keys = KeyStore(SECRET, {})
        connections = Connections(records, approvals, keys)
        syncs = setting_of(database, approvals, connections, keys).syncs
        leases = TurnLeases(records, prefix=LEASE_PREFIX, look_s=0.02)
        following = Following(connections, syncs, leases, pace)
        try:
            yield connections, following
        finally:
            await following.close()


async def revision(connections: Connections, above: int = 0) -> int:
    """Returns the revision of the only connected graph, as soon as it is above another one."""
    async with asyncio.timeout(60):
        while True:  # the store tells no event of another task
            connection = await connections.get("shop")
            for graph in await connections.graphs(connection, ADMIN):
                if graph.link.graph_revision > above:
                    return graph.link.graph_revision
            await asyncio.sleep(0.005)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "nodius.db"


def test_waits_grow_with_failures_up_to_a_bound_and_are_spread() -> None:
    pace = Pace(retry_s=5, longest_s=900, spread=0.2)
    for failures, expected in ((0, 60), (1, 5), (2, 10), (3, 20), (20, 900), (10_000, 900)):
        waits = {pace.wait_s(60, failures) for _ in range(50)}
        assert len(waits) > 1
        assert expected * 0.8 <= min(waits) <= max(waits) <= expected * 1.2


async def test_what_changed_there_is_taken_at_the_next_interval(file: Path) -> None:
    async with n8n_double() as n8n, a_server(file) as (connections, following):
        workflow_id = n8n.put(workflow("Order", "Check"))
        await connections.add(new(n8n.address), ADMIN)
        await with_interval(file, 1)
        await following.tick()
        first = await revision(connections)
        n8n.put(workflow("Order", "Check", "Store"), id=workflow_id)
        assert await revision(connections, above=first) > first


async def test_a_server_that_is_away_is_asked_again_until_it_is_back(file: Path) -> None:
    async with a_server(file) as (connections, following):
        async with n8n_double() as n8n:
            await connections.add(new(n8n.address), ADMIN)
        await following.tick()
        await until_async(lambda: is_away(connections))
        async with n8n_double(n8n.api.port) as again:
            again.put(workflow("Order", "Check"))
            assert await revision(connections) > 0
            await until_async(lambda: is_there(connections))


async def test_a_refused_key_is_tried_once_and_never_again(file: Path) -> None:
    async with n8n_double() as n8n, a_server(file) as (connections, following):
        await connections.add(new(n8n.address), ADMIN)
        n8n.api.answers[LIST] = (401, {"message": "Unauthorized"})
        n8n.api.arrived.clear()
        await following.tick()
        await until(lambda: not following.is_busy)
        for _ in range(3):
            await following.tick()
            assert not following.is_busy
        assert [request.what for request in n8n.api.arrived] == [LIST]


async def test_of_two_servers_one_follows_and_the_other_takes_over_when_it_ends(file: Path) -> None:
    async with n8n_double() as n8n, a_server(file) as (_, second):
        n8n.put(workflow("Order", "Check"))
        async with a_server(file) as (at_first, first):
            await at_first.add(new(n8n.address), ADMIN)
            await first.tick()
            await revision(at_first)
            n8n.api.arrived.clear()
            for _ in range(3):
                await second.tick()
                await until(lambda: not second.is_busy)
            assert first.is_busy
            assert n8n.api.arrived == []
        await second.tick()
        await until(lambda: n8n.api.of(LIST))
        assert second.is_busy


async def test_a_connection_that_is_removed_or_set_to_no_interval_is_not_followed(
    file: Path,
) -> None:
    async with n8n_double() as n8n, a_server(file) as (connections, following):
        await connections.add(new(n8n.address), ADMIN)
        await following.tick()
        assert following.is_busy
        await with_interval(file, 0)
        await following.tick()
        assert not following.is_busy
        await with_interval(file, 60)
        await following.tick()
        assert following.is_busy
        await connections.remove("shop", ADMIN)
        await following.tick()
        assert not following.is_busy


@pytest.mark.slow
async def test_a_deploy_of_node_red_is_told_by_its_notices_also_after_ours_was_started_again(
    file: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "red"
    folder.mkdir()
    async with node_red(folder) as server:
        await server.deploy(flow("return msg;"))
        async with a_server(file) as (connections, following):
            await connections.add(to(server, interval_s=86_400), ADMIN)
            await following.tick()
            known = await revision(connections)
            for text in ("return 1;", "return 2;", "return 3;"):
                await server.deploy(flow(text))
                known = await revision(connections, above=known)
        async with a_server(file) as (connections, following):  # ours was started again
            await following.tick()
            for text in ("return 4;", "return 5;"):
                await server.deploy(flow(text))
                known = await revision(connections, above=known)


@pytest.mark.slow
async def test_notices_come_again_after_the_server_of_the_workflows_was_started_again(
    file: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "red"
    folder.mkdir()
    async with a_server(file) as (connections, following):
        async with node_red(folder) as server:
            await server.deploy(flow("return msg;"))
            await connections.add(to(server, interval_s=86_400), ADMIN)
            await following.tick()
            known = await revision(connections)
        await until_async(lambda: is_away(connections))
        async with node_red(folder, port=server.port) as again:
            for text in ("return 1;", "return 2;", "return 3;"):
                await again.deploy(flow(text))
                known = await revision(connections, above=known)


@pytest.mark.slow
async def test_notices_of_a_server_with_users_come_by_a_sign_in(file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "red"
    folder.mkdir()
    async with (
        node_red(folder, password="right password") as server,
        a_server(file) as (connections, _),
    ):
        await connections.add(to(server, key="ed:right password"), ADMIN)
        notices = connections.notices("shop")
        await anext(notices)
        await notices.aclose()


async def is_away(connections: Connections) -> bool:
    return (await connections.get("shop")).unreachable_since_time is not None


async def is_there(connections: Connections) -> bool:
    return not await is_away(connections)


async def until_async(holds: Any) -> None:
    """Waits until what is read from the store holds."""
    async with asyncio.timeout(60):
        while not await holds():  # noqa: ASYNC110 - the store tells no event
            await asyncio.sleep(0.005)


async def with_interval(file: Path, seconds: int) -> None:
    """Stores another interval than a person may choose."""
    async with database_in(file) as database:
        records = database.records("default")

        def changed(record: Any) -> dict[str, Any]:
            return {**record.data, "intervalS": seconds}

        await change_record(records, CONNECTION_KIND, "shop", changed)


async def test_a_connection_that_is_removed_while_it_is_read_leaves_no_link(file: Path) -> None:
    async with n8n_double() as n8n, a_server(file) as (connections, _):
        n8n.put(workflow("Order", "Check"))
        connection = await connections.add(new(n8n.address), ADMIN)
        asked, go_on = asyncio.Event(), asyncio.Event()
        answer = n8n.api.answers[LIST]

        async def held(request: Any) -> Any:
            asked.set()
            await go_on.wait()
            return answer(request)

        n8n.api.answers[LIST] = held
        reading = asyncio.create_task(connections.sync("shop", ADMIN))
        await asked.wait()
        removing = asyncio.create_task(connections.remove("shop", ADMIN))
        await asyncio.sleep(0)
        go_on.set()
        await asyncio.gather(reading, removing, return_exceptions=True)
        assert await connections.list() == []
        assert await connections.links(connection) == []
