"""The commands `db …`, and any other command, on PostgreSQL."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from mock_data import load_json
from tests.cli.conftest import invoke, printed, write
from tests.support.postgres import PASSWORD, ROLE, PostgresServer

COMMANDS = (("db", "init"), ("db", "check"), ("db", "upgrade"), ("graphs",), ("doctor",))


@pytest.fixture
def empty_url(postgres_server: PostgresServer) -> Iterator[str]:
    """The address of a database that is not set up."""
    name = postgres_server.create_database()
    yield postgres_server.url(name)
    postgres_server.drop_database(name)


@pytest.mark.slow
@pytest.mark.parametrize("command", ["init", "upgrade"])
def test_a_database_is_set_up_once_and_then_healthy(empty_url: str, command: str) -> None:
    assert "nodius db init" in invoke("db", "check", "--db", empty_url, exits=1).output
    assert printed(invoke("db", command, "--dry-run", "--json", "--db", empty_url))["to_do"]
    invoke("db", "check", "--db", empty_url, exits=1)
    assert printed(invoke("db", command, "--json", "--db", empty_url))["done"]
    assert printed(invoke("db", command, "--json", "--db", empty_url)) == {"done": []}
    findings = printed(invoke("db", "check", "--json", "--db", empty_url))
    assert {finding["status"] for finding in findings} == {"ok"}


@pytest.mark.slow
def test_other_commands_work_on_it(postgres_url: str, folder: Path) -> None:
    invoke("graphs", "--db", postgres_url, exits=3)
    invoke("demo", "--no-serve", "--db", postgres_url, exits=0)
    graphs = printed(invoke("graphs", "--json", "--db", postgres_url))
    assert {graph["key"]: graph["embedded"] for graph in graphs}["testgraph001"] == 9
    found = invoke("context", "testgraph001", "fetch players", "--db", postgres_url).stdout
    assert "fetch-api" in found
    exported = printed(invoke("export", "testgraph001", "--json", "--db", postgres_url))
    assert len(exported["nodes"]) == 9
    invoke("audit", "verify", "--db", postgres_url, exits=0)
    assert "ok" in invoke("doctor", "--db", postgres_url).output


@pytest.mark.slow
def test_a_server_that_is_not_there_is_said_in_one_line(folder: Path) -> None:
    url = f"postgres://nodius:{PASSWORD}@127.0.0.1:1/nodius?connect_timeout=2"
    for command in COMMANDS:
        result = invoke(*command, "--db", url, exits=1)
        assert "nothing answers there" in result.output
        assert PASSWORD not in result.output
        assert "Traceback" not in result.output


def test_a_wrong_address_is_wrong_use(folder: Path) -> None:
    for command in (*COMMANDS, ("db", "init", "--print-user-script")):
        exits = 1 if command == ("doctor",) else 2  # it reports what is wrong
        result = invoke(*command, "--db", "postgres://u:hidden@host", exits=exits)
        assert "hidden" not in result.output
        assert "postgres://USER:PASSWORD@HOST" in result.output


def test_a_missing_driver_is_named_with_the_command_that_installs_it(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "sys.modules['psycopg'] = None\n"  # an import of it fails
        "from nodius_graphrag import run\n"
        "run()\n"
    )
    url = "postgres://nodius:hidden@127.0.0.1:1/nodius"
    command = [sys.executable, "-c", code, "graphs", "--db", url]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "COLUMNS": "300"},
    )
    assert done.returncode == 2, done.stderr
    assert "pip install 'nodius-graphrag[postgres]'" in done.stderr
    assert "hidden" not in done.stderr
    assert "Traceback" not in done.stderr


def script_for(url: str, role: str) -> str:
    return invoke("db", "init", "--print-user-script", "--user", role, "--db", url, exits=0).stdout


def run_script(server: PostgresServer, url: str, role: str) -> None:
    """Runs the script that the command prints, in psql as the administrator; the password is set
    without a terminal.
    """
    script = script_for(url, role)
    file = server.folder / "script.sql"
    file.write_text(script.replace("\\password", "-- "), encoding="utf-8")
    database = url.rpartition("/")[2]
    for _ in range(2):  # it can be repeated
        server.run(
            "psql",
            "--no-psqlrc",
            f"--dbname=host={server.folder} port={server.port} user=postgres dbname={database}",
            f"--file={file}",
        )
    quoted = role.replace('"', '""')
    server.execute(f"ALTER ROLE \"{quoted}\" PASSWORD '{PASSWORD}'")


@pytest.fixture
def service_url(postgres_server: PostgresServer, postgres_url: str) -> Iterator[str]:
    """The address of a database with the role that the script creates."""
    role = 'the "service"\'s'
    run_script(postgres_server, postgres_url, role)
    yield postgres_server.url(postgres_url.rpartition("/")[2], role=role)
    quoted = role.replace('"', '""')
    name = postgres_url.rpartition("/")[2]
    postgres_server.execute(f'DROP OWNED BY "{quoted}"', database=name)
    postgres_server.execute(f'DROP OWNED BY "{quoted}"', f'DROP ROLE "{quoted}"')


@pytest.mark.slow
def test_the_script_has_no_password_and_asks_for_one(postgres_url: str) -> None:
    script = script_for(postgres_url, "service")
    assert PASSWORD not in script
    assert script.rstrip().endswith('\\password "service"')


@pytest.mark.slow
def test_the_role_of_the_script_serves_and_owns_nothing(service_url: str) -> None:
    invoke("demo", "--no-serve", "--db", service_url, exits=0)
    findings = printed(invoke("db", "check", "--json", "--db", service_url))
    assert {finding["status"] for finding in findings} == {"ok"}
    assert printed(invoke("db", "init", "--json", "--db", service_url)) == {"done": []}
    with psycopg.connect(service_url, autocommit=True) as connection:
        for forbidden in (
            "DROP TABLE nodius.nodes",
            "DROP SCHEMA nodius CASCADE",
            "TRUNCATE nodius.nodes",
            "ALTER TABLE nodius.nodes DISABLE ROW LEVEL SECURITY",
            "ALTER TABLE nodius.nodes ADD COLUMN more text",
            "DROP POLICY own ON nodius.nodes",
            "CREATE TABLE nodius.more (k int)",
            "CREATE TABLE public.more (k int)",
            f"SET ROLE {ROLE}",
            "SET SESSION AUTHORIZATION postgres",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(forbidden)


@pytest.mark.slow
def test_the_role_of_the_script_reads_one_workspace(service_url: str, folder: Path) -> None:
    file = write(folder / "nba.json", load_json("nba.json"))
    for workspace in ("acme", "globex"):
        where = ("--graph", f"flow-{workspace}", "--workspace", workspace, "--db", service_url)
        invoke("import", file, *where, exits=0)
    with psycopg.connect(service_url) as connection:
        tables = connection.execute(
            "SELECT table_name FROM information_schema.columns"
            " WHERE table_schema = 'nodius' AND column_name = 'workspace'"
        ).fetchall()
        assert len(tables) > 5
        connection.execute("SELECT set_config('nodius.workspace', 'acme', true)")
        for (table,) in tables:
            seen = connection.execute(f"SELECT DISTINCT workspace FROM nodius.{table}").fetchall()
            assert {workspace for (workspace,) in seen} <= {"acme", "root"}, table
        connection.rollback()
        assert connection.execute("SELECT count(*) FROM nodius.nodes").fetchone() == (0,)


@pytest.mark.slow
def test_tables_of_later_versions_are_granted_too(postgres_url: str, service_url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as owner:
        owner.execute("CREATE TABLE nodius.later (k bigint GENERATED ALWAYS AS IDENTITY, v int)")
        owner.execute("CREATE SEQUENCE nodius.later_numbers")
    with psycopg.connect(service_url, autocommit=True) as service:
        service.execute("INSERT INTO nodius.later (v) VALUES (1)")
        assert service.execute("SELECT nextval('nodius.later_numbers')").fetchone() == (1,)


@pytest.mark.slow
def test_a_wrong_password_is_not_told_as_a_database_that_cannot_be_reached(
    folder: Path, postgres_servers: Callable[..., PostgresServer]
) -> None:
    server = postgres_servers(auth="scram-sha-256")
    right = server.url(server.create_database())
    wrong = right.replace(f":{PASSWORD}@", ":wrong@")
    assert wrong != right
    output = invoke("graphs", "--db", wrong, exits=1).output
    assert "the database refuses this" in output
    assert "refuses the sign-in" in output
    assert "try again" not in output
