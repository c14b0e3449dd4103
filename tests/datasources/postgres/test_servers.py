"""The PostgreSQL servers of tests: their replicas, and what a killed one keeps."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import psycopg
import pytest

from tests.support.postgres import ROLE, TEMPLATE, PostgresServer, pgvector_programs
from tests.support.waiting import until

Servers = Callable[..., PostgresServer]


def rows(url: str, statement: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url) as connection:
        return connection.execute(statement.encode()).fetchall()


def change(url: str, *statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def test_a_database_belongs_to_a_role_that_row_level_security_holds_for(postgres_url: str) -> None:
    change(postgres_url, "CREATE SCHEMA own", "CREATE TABLE own.t (k int)")
    assert rows(
        postgres_url,
        "SELECT current_user::text, rolsuper, rolbypassrls FROM pg_roles WHERE rolname = current_user",
    ) == [(ROLE, False, False)]


def test_each_database_is_a_fresh_copy_of_one_that_is_set_up(
    postgres_server: PostgresServer,
) -> None:
    schemas = "SELECT nspname FROM pg_namespace ORDER BY 1"
    for _ in range(2):
        name = postgres_server.create_database(template=TEMPLATE)
        url = postgres_server.url(name)
        assert rows(url, schemas) == postgres_server.execute(schemas, database=TEMPLATE)
        change(url, "CREATE SCHEMA left_behind")
        postgres_server.drop_database(name)
        with pytest.raises(psycopg.OperationalError, match="does not exist"):
            rows(url, schemas)


@pytest.mark.slow
def test_the_wheel_has_vectors_of_half_precision(pgvector_url: str) -> None:
    assert rows(pgvector_url, "SELECT '[1,2]'::halfvec(2) <=> '[1,2]'::halfvec(2)") == [(0.0,)]


@pytest.mark.slow
@pytest.mark.parametrize("fsync", [False, True])
def test_a_killed_server_starts_again_with_all_committed_rows(
    postgres_servers: Servers, fsync: bool
) -> None:
    server = postgres_servers(fsync=fsync)
    url = server.url(server.create_database())
    change(url, "CREATE TABLE t (k int)", "INSERT INTO t VALUES (1)")
    with psycopg.connect(url) as connection:
        connection.execute("INSERT INTO t VALUES (2)")  # not committed
        server.kill()
        with pytest.raises(psycopg.OperationalError):
            connection.commit()
    assert not server.runs
    server.start()
    assert rows(url, "SELECT k FROM t") == [(1,)]
    assert rows(url, "SELECT current_setting('fsync')") == [("on" if fsync else "off",)]
    assert "was not properly shut down" in server.log()
    server.stop()
    server.start()
    assert rows(url, "SELECT k FROM t") == [(1,)]


@pytest.mark.slow
def test_a_password_is_asked_for_with_scram(postgres_servers: Servers) -> None:
    server = postgres_servers(auth="scram-sha-256")
    url = server.url("postgres")
    assert rows(url, "SELECT 1") == [(1,)]
    with pytest.raises(psycopg.OperationalError, match="authentication failed"):
        rows(url.replace("secret", "wrong"), "SELECT 1")


@pytest.mark.slow
def test_a_synchronous_replica_has_every_commit_when_it_is_promoted(
    postgres_servers: Servers,
) -> None:
    primary = postgres_servers()
    name = primary.create_database()
    change(primary.url(name), "CREATE TABLE t (k int)")
    replica = primary.replica(synchronous=True)
    for key in range(100):
        change(primary.url(name), f"INSERT INTO t VALUES ({key})")
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        change(replica.url(name), "INSERT INTO t VALUES (1000)")
    both = f"{primary.url(name, '?target_session_attrs=read-write')}".replace(
        f":{primary.port}/", f":{primary.port},127.0.0.1:{replica.port}/"
    )
    assert rows(both, "SELECT current_setting('port')") == [(str(primary.port),)]
    primary.kill()
    replica.promote()
    change(both, "INSERT INTO t VALUES (1000)")
    assert rows(both, "SELECT count(*), current_setting('port') FROM t") == [
        (101, str(replica.port))
    ]
    second = replica.replica()
    assert second.execute("SELECT pg_is_in_recovery()") == [(True,)]


@pytest.mark.slow
async def test_commits_wait_until_a_synchronous_replica_has_them(postgres_servers: Servers) -> None:
    primary = postgres_servers(programs=pgvector_programs())
    url = primary.url(primary.create_database())
    change(url, "CREATE TABLE t (k int)")
    replica = primary.replica(synchronous=True)
    replica.kill()
    writing = asyncio.create_task(asyncio.to_thread(change, url, "INSERT INTO t VALUES (1)"))
    await until(
        lambda: primary.execute("SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
    )
    assert not writing.done()
    replica.start()
    await writing
    assert rows(url, "SELECT k FROM t") == [(1,)]


@pytest.mark.slow
def test_a_server_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    program = (
        "import sys, time\n"
        "from tests.support.postgres import installed_programs, new_server\n"
        "print(new_server(installed_programs())._process.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        server = int(process.stdout.readline())
        assert Path("/proc", str(server)).exists()
        os.kill(process.pid, signal.SIGKILL)
    if psutil.pid_exists(server):
        psutil.Process(server).wait(60)
