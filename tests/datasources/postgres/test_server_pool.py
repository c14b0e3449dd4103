"""Work on servers that are away, full, locked, or end transactions without saying so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress

import psycopg
import pytest

from datasources.errors import SourceBusy, SourceTimeout, SourceUnavailable
from datasources.postgres import PostgresDatabase, answer_watch, parse_address, server_pool
from datasources.postgres.server_pool import ServerPool, Session
from tests.support.postgres import TEMPLATE, PostgresServer
from tests.support.postgres_proxy import Fate, Statement, postgres_proxy
from tests.support.waiting import until

Servers = Callable[..., PostgresServer]
INSERT = "INSERT INTO public.done VALUES (1)"


@asynccontextmanager
async def a_pool(url: str, options: str = "?sslmode=disable") -> AsyncGenerator[ServerPool]:
    pool = ServerPool(parse_address(url + options))
    try:
        yield pool
    finally:
        await asyncio.to_thread(pool.close)


async def set_up(server: PostgresServer) -> str:
    """Returns the name of a new database with a table `done`."""
    name = server.create_database()
    async with PostgresDatabase(parse_address(server.url(name)), prepared=False) as database:
        await database.set_up()
    with psycopg.connect(server.url(name), autocommit=True) as connection:
        connection.execute("CREATE TABLE public.done (k int)")
    return name


def insert(session: Session) -> None:
    session.rows(INSERT, {})


def done(server: PostgresServer, name: str) -> int:
    [(count,)] = server.execute("SELECT count(*) FROM public.done", database=name)
    return count


def waits_for_replica(server: PostgresServer) -> bool:
    asked = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
    return bool(server.execute(asked))


@pytest.mark.slow
async def test_a_commit_that_no_replica_confirms_is_not_acknowledged(
    postgres_servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    primary = postgres_servers()
    name = await set_up(primary)
    replica = primary.replica(synchronous=True)
    monkeypatch.setattr(answer_watch, "MARGIN_S", 0.5)
    monkeypatch.setattr(server_pool, "LOCK_S", 1.0)
    replica.kill()
    async with a_pool(primary.url(name), "?timeout=1") as pool:
        writes = [pool.write("w", insert) for _ in range(10)]
        ends = await asyncio.gather(*writes, return_exceptions=True)
        assert {type(end) for end in ends} == {SourceUnavailable}
        assert {"did not confirm" in str(end) for end in ends} == {True}
        assert not done(primary, name)
        replica.start()
        await until(lambda: done(primary, name) == 10)
        await pool.write("w", insert)
    assert done(primary, name) == 11


@pytest.mark.slow
async def test_a_commit_whose_wait_for_a_replica_was_cancelled_is_not_acknowledged(
    postgres_servers: Servers,
) -> None:
    primary = postgres_servers()
    name = await set_up(primary)
    primary.replica(synchronous=True).kill()
    async with a_pool(primary.url(name)) as pool:
        writing = asyncio.create_task(pool.write("w", insert))
        await until(lambda: waits_for_replica(primary))
        primary.execute(
            "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
        )
        with pytest.raises(SourceUnavailable, match="did not confirm"):
            await writing
    assert done(primary, name) == 1


@pytest.mark.slow
async def test_a_server_that_is_stopped_is_given_up_and_used_again_when_it_goes_on(
    postgres_servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answer_watch, "MARGIN_S", 0.5)
    monkeypatch.setattr(server_pool, "PATIENCE_S", 1.0)
    server = postgres_servers()
    name = await set_up(server)
    async with a_pool(server.url(name), "?timeout=1&connect_timeout=2") as pool:
        await asyncio.gather(*(pool.write("w", insert) for _ in range(10)))
        with server.stopped():
            asked = [pool.write("w", insert) for _ in range(20)]
            asked += [pool.read("w", insert) for _ in range(20)]
            ends = await asyncio.gather(*asked, return_exceptions=True)
        assert {type(end) for end in ends} == {SourceUnavailable}
        await pool.write("w", insert)


@pytest.mark.slow
@pytest.mark.parametrize("earlier", [0, 1], ids=["the writer's first", "a later one"])
async def test_a_transaction_cut_off_while_it_commits_is_waited_for_and_not_repeated(
    postgres_servers: Servers, earlier: int
) -> None:
    primary = postgres_servers()
    name = await set_up(primary)
    replica = primary.replica(synchronous=True)
    async with postgres_proxy(primary.port) as proxy:
        url = primary.url(name).replace(f":{primary.port}/", f":{proxy.port}/")
        async with a_pool(url, "?sslmode=disable&pool=2") as pool:
            for _ in range(earlier):
                await pool.write("w", insert)
            fates: list[Fate] = ["abandoned"]

            def fate(statement: Statement) -> Fate:
                is_commit = statement.in_write and statement.text == "COMMIT"
                return fates.pop() if is_commit and fates else "passed"

            proxy.fate = fate
            replica.kill()
            writing = asyncio.create_task(pool.write("w", insert))
            await until(lambda: not fates and waits_for_replica(primary))
            locks = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
            await until(lambda: primary.execute(locks))  # it is looked up
            replica.start()
            await writing
    assert done(primary, name) == earlier + 1


@pytest.mark.slow
async def test_who_gets_no_connection_gives_up_though_others_have_one(
    postgres_servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_pool, "PATIENCE_S", 0.5)
    server = postgres_servers(
        options={"max_connections": "8", "superuser_reserved_connections": "3"}
    )
    name = await set_up(server)
    async with a_pool(server.url(name), "?pool=2") as pool:
        await pool.read("w", lambda s: s.rows("SELECT 1", {}))
        others: list[psycopg.Connection] = []
        with suppress(psycopg.OperationalError):
            while True:
                others.append(await asyncio.to_thread(psycopg.connect, server.url(name)))
        writing = asyncio.create_task(pool.write("w", insert))
        while not writing.done():
            await pool.read("w", lambda s: s.rows("SELECT 1", {}))
        with pytest.raises(SourceUnavailable, match="no place for another connection"):
            await writing
        for other in others:
            other.close()
        await pool.write("w", insert)
    assert done(server, name) == 1


@pytest.mark.slow
async def test_who_waited_too_long_for_a_connection_is_answered(
    postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_pool, "QUEUE_S", 0.2)
    name = postgres_server.create_database(template=TEMPLATE)
    async with a_pool(postgres_server.url(name), "?pool=2&timeout=1") as pool:

        def sleeps(session: Session) -> None:
            session.rows("SELECT pg_sleep(60)", {})

        asked = [pool.read("w", sleeps) for _ in range(20)]
        ends = await asyncio.gather(*asked, return_exceptions=True)
        assert {type(end) for end in ends} == {SourceTimeout, SourceBusy}
        assert await pool.read("w", lambda s: s.rows("SELECT 1", {})) == [(1,)]
    postgres_server.drop_database(name)


@pytest.mark.slow
async def test_what_a_killed_server_leaves_waiting_is_answered_and_it_recovers_by_itself(
    postgres_servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_pool, "PATIENCE_S", 1.0)
    server = postgres_servers()
    name = await set_up(server)
    async with a_pool(server.url(name)) as pool:
        server.kill()
        asked = [pool.write("w", insert) for _ in range(50)]
        asked += [pool.read("w", insert) for _ in range(50)]
        ends = await asyncio.gather(*asked, return_exceptions=True)
        assert {type(end) for end in ends} == {SourceUnavailable}
        server.start()
        await pool.write("w", insert)
    assert done(server, name) == 1


HOSTILE = {
    "database": ("DROP DATABASE {name} WITH (FORCE)", "there is no such database"),
    "schema": ("DROP SCHEMA nodius CASCADE", "set up"),
    "rights": ("REVOKE ALL ON ALL TABLES IN SCHEMA nodius FROM nodius", "the role may not do this"),
    "sign-in": ("ALTER ROLE nodius NOLOGIN", "it refuses the sign-in"),
    "connecting": (
        "REVOKE CONNECT ON DATABASE {name} FROM PUBLIC, nodius",
        "the role may not do this",
    ),
}


@pytest.mark.slow
async def test_what_an_administrator_takes_away_is_named(
    postgres_servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_pool, "PATIENCE_S", 0.3)
    server = postgres_servers()
    for what, (statement, sentence) in HOSTILE.items():
        name = await set_up(server)
        async with a_pool(server.url(name)) as pool:
            await pool.write("w", insert)
            place = name if what in ("schema", "rights") else "postgres"
            server.execute(statement.format(name=name), database=place)
            server.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                f" WHERE datname = '{name}' AND pid <> pg_backend_pid()"
            )
            with pytest.raises(SourceUnavailable, match=sentence):
                await pool.write("w", insert)
        server.execute("ALTER ROLE nodius LOGIN")


@pytest.mark.slow
async def test_a_graph_that_somebody_else_locks_is_told_to_be_busy(
    postgres_servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_pool, "LOCK_S", 0.3)
    server = postgres_servers()
    name = await set_up(server)
    async with a_pool(server.url(name)) as pool:
        await pool.write("w", insert)
        with psycopg.connect(server.url(name)) as other:
            other.execute("SELECT FROM public.done FOR UPDATE")

            def locks(session: Session) -> None:
                session.rows("SELECT FROM public.done FOR UPDATE", {})

            with pytest.raises(SourceBusy, match="nothing was changed"):
                await pool.write("w", locks)
        await pool.write("w", locks)
