"""`backup` and `restore` on PostgreSQL: of one moment, and whole or not at all."""

import os
from pathlib import Path

import psycopg
import pytest

from tests.cli.conftest import invoke
from tests.cli.test_db_copy import contents, used, used_file
from tests.support.postgres import PostgresServer

__all__ = ["used", "used_file"]


@pytest.fixture(params=["postgres_url"])
def filled(request: pytest.FixtureRequest, used: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a database that holds the content of the file `used`."""
    url = request.getfixturevalue(request.param)
    if request.param == "pgvector_url":  # a newer server, which needs its own programs
        programs = request.getfixturevalue("pgvector_server").programs
        monkeypatch.setenv("PATH", f"{programs.folder}:{os.environ['PATH']}")
    invoke("db", "copy", f"sqlite:{used}", url, exits=0)
    return url


def content_of(url: str, folder: Path) -> dict[str, object]:
    """Return what a database holds, by a copy to a file."""
    file = folder / "content.db"
    file.unlink(missing_ok=True)
    invoke("db", "copy", url, f"sqlite:{file}", exits=0)
    return contents(file)


@pytest.mark.slow
@pytest.mark.parametrize("filled", ["postgres_url", "pgvector_url"], indirect=True)
def test_a_restored_database_equals_the_one_that_was_dumped(filled: str, folder: Path) -> None:
    dump = folder / "safe" / "nodius.dump"
    before = content_of(filled, folder)
    done = invoke("backup", dump, "--db", filled, exits=0)
    assert "4 graphs, 49 nodes, 39 edges" in done.output
    assert dump.stat().st_mode & 0o077 == 0
    assert "not empty" in invoke("backup", dump, "--db", filled, exits=2).output
    invoke("undo", "testgraph001", "--db", filled, exits=0)
    assert content_of(filled, folder) != before
    assert "--force" in invoke("restore", dump, "--db", filled, exits=2).output
    restored = invoke("restore", dump, "--force", "--db", filled, exits=0)
    assert "secret" not in restored.output + done.output
    assert content_of(filled, folder) == before
    assert [file.name for file in dump.parent.iterdir()] == ["nodius.dump"]
    invoke("db", "check", "--db", filled, exits=0)


@pytest.mark.slow
def test_a_dump_is_restored_into_an_empty_database_of_another_version(
    filled: str, folder: Path, pgvector_server: PostgresServer
) -> None:
    dump = folder / "nodius.dump"
    invoke("backup", dump, "--db", filled, exits=0)
    name = pgvector_server.create_database()
    url = pgvector_server.url(name)
    try:
        invoke("restore", dump, "--db", url, exits=0)
        assert content_of(url, folder) == content_of(filled, folder)
        invoke("audit", "verify", "--db", url, exits=0)
    finally:
        pgvector_server.drop_database(name)


@pytest.mark.slow
def test_the_rights_of_the_services_role_are_restored(
    filled: str, folder: Path, postgres_server: PostgresServer
) -> None:
    name = filled.rpartition("/")[2]
    role = f"service_{name}"
    asked = f"SELECT has_table_privilege('{role}', 'nodius.graphs', 'UPDATE')"
    script = invoke("db", "init", "--print-user-script", "--user", role, "--db", filled).stdout
    grants = [line for line in script.splitlines() if line.startswith("GRANT")]
    postgres_server.execute(f"CREATE ROLE {role}", *grants, database=name)
    try:
        assert postgres_server.execute(asked, database=name) == [(True,)]
        invoke("backup", folder / "nodius.dump", "--db", filled, exits=0)
        invoke("restore", folder / "nodius.dump", "--force", "--db", filled, exits=0)
        assert postgres_server.execute(asked, database=name) == [(True,)]
    finally:
        postgres_server.execute(f"DROP OWNED BY {role}", f"DROP ROLE {role}", database=name)


@pytest.mark.slow
def test_a_restore_that_cannot_be_finished_changes_nothing(filled: str, folder: Path) -> None:
    dump = folder / "nodius.dump"
    before = content_of(filled, folder)
    invoke("backup", dump, "--db", filled, exits=0)
    half = folder / "half.dump"
    half.write_bytes(dump.read_bytes()[: dump.stat().st_size * 2 // 3])
    other = folder / "other.dump"
    other.write_text("no dump", encoding="utf-8")
    for copy in (half, other, folder / "absent.dump"):
        assert "Traceback" not in invoke("restore", copy, "--force", "--db", filled, exits=1).output
    with psycopg.connect(filled, application_name="nodius"):
        output = invoke("restore", dump, "--force", "--db", filled, exits=1).output
        assert "stop the servers first" in output
    assert content_of(filled, folder) == before


@pytest.mark.slow
def test_the_password_is_in_no_argument_of_a_program(
    filled: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = folder / "tools"
    tools.mkdir()
    said = folder / "arguments"
    wrapper = tools / "pg_dump"
    wrapper.write_text(f'#!/bin/sh\necho "$@" > {said}\nexit 3\n', encoding="utf-8")
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    output = invoke("backup", folder / "x.dump", "--db", filled, exits=1).output
    assert "pg_dump" in output
    assert "secret" not in said.read_text(encoding="utf-8") + output
    monkeypatch.setenv("PATH", str(folder))
    assert "not installed" in invoke("backup", folder / "x.dump", "--db", filled, exits=1).output
    assert not list(folder.glob("x.dump*"))
