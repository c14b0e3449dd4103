"""Notices of a real server: told of commits, and told again after the server was away."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import psycopg
import pytest

from datasources.base import RecordWrite
from datasources.errors import RecordConflict
from datasources.notices import StoreNotice, notice_payloads
from datasources.postgres import PostgresDatabase, parse_address
from datasources.postgres.listen import PostgresNotices, check_notices
from datasources.postgres.statements import NOTIFY
from datasources.types import Graph, Mutation
from tests.support.postgres import PostgresServer
from tests.support.waiting import until

Servers = Callable[..., PostgresServer]


class Told:
    """Keeps what a listener is told."""

    def __init__(self) -> None:
        self.keys: list[str | None] = []
        self.connected: list[bool] = []

    def notice_told(self, notice: StoreNotice) -> None:
        self.keys.append(notice.key)

    def notices_connected(self, is_connected: bool) -> None:
        self.connected.append(is_connected)


@asynccontextmanager
async def listening(url: str) -> AsyncGenerator[Told]:
    """Yields what is told, once the server listens."""
    told = Told()
    task = asyncio.create_task(PostgresNotices(parse_address(url)).listen(told))
    try:
        await until(lambda: told.connected)
        yield told
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def tell(url: str, key: str) -> None:
    """Tells a change as writers do."""
    payloads = notice_payloads("default", [write(key)])
    with psycopg.connect(parse_address(url).conninfo, autocommit=True) as connection:
        connection.execute(NOTIFY, {"payloads": payloads})


def write(key: str, *, expected_version: str | None = None) -> RecordWrite:
    return RecordWrite(kind="call", key=key, data={}, expected_version=expected_version)


@pytest.fixture
def url(postgres_server: PostgresServer) -> str:
    return postgres_server.url(postgres_server.create_database())


async def test_what_is_stored_is_told_and_what_is_refused_is_not(postgres_url: str) -> None:
    async with (
        PostgresDatabase(parse_address(postgres_url)) as database,
        listening(postgres_url) as told,
    ):
        records = database.records("default")
        source = database.source("default")
        with pytest.raises(RecordConflict):
            await records.write([write("never"), write("missing", expected_version="7")])
        await records.write([write("one"), replace(write("quiet"), is_quiet=True)])
        await records.write([write("k" * 8_000)])
        graph = Graph(key="flow", name="Flow", workspace="default")
        await source.create_graph(graph, Mutation(graph_key="flow"), [write("two")])
        await source.delete_graph("flow")
        await until(lambda: len(told.keys) == 5)
    assert told.keys == ["one", None, "two", "flow", "flow"]
    assert told.connected == [True]


async def test_listening_begins_again_after_its_connection_was_ended(
    url: str, postgres_server: PostgresServer
) -> None:
    async with listening(url) as told:
        postgres_server.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query = 'LISTEN nodius'"
        )
        await until(lambda: told.connected == [True, False, True])
        tell(url, "one")
        await until(lambda: told.keys == ["one"])


async def test_other_messages_of_the_channel_are_ignored(
    url: str, postgres_server: PostgresServer
) -> None:
    async with listening(url) as told:
        with psycopg.connect(parse_address(url).conninfo) as connection:
            connection.execute("NOTIFY nodius")
            connection.execute("NOTIFY nodius, '[1]'")
        tell(url, "one")
        await until(lambda: told.keys)
    assert told.keys == ["one"]


async def test_a_check_says_whether_notices_arrive(
    url: str, postgres_server: PostgresServer
) -> None:
    assert (await check_notices(parse_address(url))).status == "ok"
    missing = postgres_server.url("missing")
    assert (await check_notices(parse_address(missing))).status == "warning"


@pytest.mark.slow
async def test_listening_goes_on_when_a_killed_server_is_back(postgres_servers: Servers) -> None:
    server = postgres_servers()
    url = server.url(server.create_database())
    async with listening(url) as told:
        for rounds in range(1, 4):
            await asyncio.to_thread(server.kill)
            await until(lambda: told.connected[-1] is False)
            server.start()
            await until(lambda: told.connected[-1] is True)
            tell(url, str(rounds))
            await until(lambda count=rounds: len(told.keys) == count)
    assert told.connected == [True, *[False, True] * 3]
    assert told.keys == ["1", "2", "3"]


@pytest.mark.slow
async def test_listening_goes_on_at_a_promoted_replica(postgres_servers: Servers) -> None:
    server = postgres_servers()
    name = server.create_database()
    replica = server.replica(synchronous=True)
    both = server.url(name).replace(
        f"127.0.0.1:{server.port}", f"127.0.0.1:{server.port},127.0.0.1:{replica.port}"
    )
    async with listening(both) as told:
        tell(both, "one")
        await until(lambda: told.keys == ["one"])
        await asyncio.to_thread(server.kill)
        replica.promote()
        await until(lambda: told.connected == [True, False, True])
        tell(both, "two")
        await until(lambda: told.keys == ["one", "two"])
