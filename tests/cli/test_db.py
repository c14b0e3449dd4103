"""The commands `db init` and `db check`, and any other command on ArangoDB."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import invoke, printed
from tests.support.arango import ArangoServer


@pytest.fixture
def address(arango: ArangoServer) -> Iterator[str]:
    name = arango.fresh()
    yield arango.address(name)
    arango.drop(name)


@pytest.mark.slow
def test_a_database_is_set_up_once_and_then_healthy(address: str) -> None:
    assert "nodius db init" in invoke("db", "check", "--db", address, exits=1).output
    rehearsed = invoke("db", "init", "--dry-run", "--db", address, exits=0)
    assert "would make the collection nodius_nodes" in rehearsed.output
    invoke("db", "check", "--db", address, exits=1)
    assert (
        "made the collection nodius_nodes" in invoke("db", "init", "--db", address, exits=0).output
    )
    assert printed(invoke("db", "init", "--json", "--db", address)) == {"done": []}
    findings = printed(invoke("db", "check", "--json", "--db", address))
    # What is wrong with the server itself no set-up puts right.
    assert {finding["status"] for finding in findings if finding["name"] != "server"} == {"ok"}
    assert {"server", "database", "set-up", "vectors", "words", "statements"} == {
        f["name"] for f in findings
    }


@pytest.mark.slow
def test_other_commands_work_on_it(address: str, folder: Path) -> None:
    invoke("graphs", "--db", address, exits=1)
    invoke("db", "init", "--db", address)
    invoke("graphs", "--db", address, exits=3)
    invoke("demo", "--no-serve", "--db", address, exits=0)
    graphs = printed(invoke("graphs", "--json", "--db", address))
    assert {graph["key"]: graph["embedded"] for graph in graphs}["testgraph001"] == 9
    assert "fetch-api" in invoke("context", "testgraph001", "fetch players", "--db", address).stdout
    exported = printed(invoke("export", "testgraph001", "--json", "--db", address))
    assert len(exported["nodes"]) == 9
    invoke("audit", "verify", "--db", address, exits=0)
    assert "ok" in invoke("doctor", "--db", address).output


def test_the_user_script_grants_collections_and_holds_no_password(address: str) -> None:
    script = invoke("db", "init", "--print-user-script", "--user", "o'neil", "--db", address).stdout
    assert 'const user = "o\'neil";' in script
    assert '"nodius_nodes"' in script
    assert 'users.grantCollection(user, database, "*", "none");' in script
    assert "secret" not in script


def test_a_server_that_is_not_there_is_said_in_one_line(arango: ArangoServer) -> None:
    address = arango.address("nodius", place="127.0.0.1:1")
    for command in (("db", "init"), ("db", "check"), ("graphs",), ("doctor",)):
        result = invoke(*command, "--db", address, exits=1)
        assert "no server answers there" in result.output
        assert arango.password not in result.output
        assert "Traceback" not in result.output


def test_a_wrong_address_is_wrong_use(folder: Path) -> None:
    for command in (("db", "init"), ("db", "check"), ("db", "init", "--print-user-script")):
        assert (
            "hidden" not in invoke(*command, "--db", "arango+http://u:hidden@host", exits=2).output
        )


def test_a_file_is_made_and_looked_at_too(folder: Path) -> None:
    url = f"sqlite:{folder / 'a.db'}"
    invoke("db", "check", "--db", url, exits=1)
    assert not (folder / "a.db").exists()
    assert f"would make {url}" in invoke("db", "init", "--dry-run", "--db", url).output
    assert not (folder / "a.db").exists()
    assert f"made {url}" in invoke("db", "init", "--db", url).output
    invoke("db", "check", "--db", url, exits=0)
    assert "nothing to do" in invoke("db", "init", "--db", url).output
    invoke("db", "init", "--print-user-script", "--db", url, exits=2)


def test_an_upgrade_makes_no_file_and_leaves_one_of_this_version_as_it_is(folder: Path) -> None:
    url = f"sqlite:{folder / 'a.db'}"
    assert "there is no database" in invoke("db", "upgrade", "--db", url, exits=3).output
    assert not (folder / "a.db").exists()
    invoke("db", "init", "--db", url)
    for more in ((), ("--dry-run",)):
        assert "nothing to do" in invoke("db", "upgrade", *more, "--db", url).output


@pytest.mark.slow
def test_an_upgrade_on_a_server_does_what_a_set_up_does(address: str) -> None:
    rehearsed = invoke("db", "upgrade", "--dry-run", "--db", address).output
    assert "would make the collection nodius_nodes" in rehearsed
    assert "made the collection nodius_nodes" in invoke("db", "upgrade", "--db", address).output
    assert "nothing to do" in invoke("db", "init", "--db", address).output


def test_compacting_removes_what_undoes_changes_and_says_how_much(folder: Path) -> None:
    assert printed(invoke("db", "compact", "--json", "--db", "sqlite:new.db")) == {}
    invoke("demo", "--no-serve", exits=0)
    assert printed(invoke("db", "compact", "--json"))["default"] == {"moved": 0, "removed": 0}
    assert (
        "default: 0 changes compressed, 0 parts removed"
        in invoke("db", "compact", "--days", "1").output
    )
    invoke("db", "compact", "--days", "0", exits=2)
