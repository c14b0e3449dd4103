"""A rehearsal on a server: what it finds there, what it says of it, and that nothing is left."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from datasources.base import RehearsalStep
from graphrag.app.databases import rehearse_database
from tests.cli.conftest import printed
from tests.support.arango import ArangoServer
from tests.support.commands import run_command as invoke

STEPS = [
    "server",
    "rights and set-up",
    "connections",
    "write and read",
    "statements",
    "search",
    "vector index",
    "transactions",
    "large change",
    "deadline",
    "leases",
    "plans",
    "clean-up",
]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def databases(server: ArangoServer) -> list[str]:
    return server.call("GET", "/_api/database")["result"]


def outcome(report: dict[str, Any]) -> dict[str, str]:
    return {step["name"]: step["status"] for step in report["steps"]}


@pytest.mark.slow
def test_a_rehearsal_passes_leaves_no_database_and_ends_in_a_file_without_secrets(
    arango: ArangoServer, folder: Path
) -> None:
    before = databases(arango)
    result = invoke("db", "rehearse", arango.address("never-made"), "--json", exits=0)
    report = printed(result)
    assert outcome(report) == dict.fromkeys(STEPS, "ok")
    assert databases(arango) == before
    text = (folder / "nodius-rehearsal.json").read_text()
    assert json.loads(text) == report
    assert report["passed"] is True
    assert len(report["plans"]) > 40
    assert not [line for line in report["plans"] if "refused" in line]
    for hidden in (arango.password, arango.place, "never-made", "root"):
        assert hidden not in text
    for name in STEPS:  # progress is said while it runs
        assert f"ok       {name}: " in result.stderr


def test_a_user_who_may_make_no_database_is_told_so_and_nothing_else_is_tried(
    arango_double: ArangoServer, folder: Path
) -> None:
    before = databases(arango_double)
    arango_double.inject("/_db/_system/_api/database", "error:11")
    report = printed(
        invoke("db", "rehearse", "--db", arango_double.address("x"), "--json", exits=1)
    )
    assert outcome(report) == {"server": "ok", "rights and set-up": "failed", "clean-up": "ok"}
    assert "a user who may make databases" in report["steps"][1]["detail"]
    assert report["passed"] is False
    assert databases(arango_double) == before


def test_where_nothing_can_be_written_that_is_named_and_the_database_is_removed(
    arango_double: ArangoServer, folder: Path
) -> None:
    before = databases(arango_double)
    arango_double.inject("/_api/transaction/begin", "error:32", times=1_000)
    report = printed(invoke("db", "rehearse", arango_double.address("x"), "--json", exits=1))
    assert [name for name, status in outcome(report).items() if status == "failed"] == [
        "write and read"
    ]
    assert "exceeds a limit" in report["steps"][3]["detail"]
    assert outcome(report)["clean-up"] == "ok"
    assert databases(arango_double) == before


@pytest.mark.slow
def test_a_part_that_fails_is_named_and_the_others_are_still_tried(
    arango_double: ArangoServer,
) -> None:
    arango_double.inject("/_api/explain", "error:1501", times=1)
    report = printed(invoke("db", "rehearse", arango_double.address("x"), "--json", exits=1))
    assert outcome(report) == dict.fromkeys(STEPS, "ok") | {"statements": "failed"}


async def test_a_rehearsal_that_is_stopped_removes_its_database(arango: ArangoServer) -> None:
    before = databases(arango)
    steps = list[str]()

    def said(step: RehearsalStep) -> None:
        steps.append(step.name)
        if step.name == "rights and set-up":
            task.cancel()

    task = asyncio.create_task(rehearse_database(arango.address("x"), said))
    with pytest.raises(asyncio.CancelledError):
        await task
    assert steps == ["server", "rights and set-up", "clean-up"]
    assert databases(arango) == before


def test_a_server_that_is_not_there_is_one_failed_step_without_its_address(
    arango: ArangoServer, folder: Path
) -> None:
    address = arango.address("x", place="127.0.0.1:1")
    report = printed(invoke("db", "rehearse", address, "--json", exits=1))
    assert outcome(report) == {"server": "failed"}
    assert "no server answers there" in report["steps"][0]["detail"]
    assert "127.0.0.1" not in (folder / "nodius-rehearsal.json").read_text()


def test_a_database_without_a_server_and_an_address_given_twice_are_wrong_use(folder: Path) -> None:
    assert "ArangoDB server" in invoke("db", "rehearse", "sqlite:a.db", exits=2).output
    address = "arango+http://u:hidden@host/x"
    assert "hidden" not in invoke("db", "rehearse", address, "--db", address, exits=2).output
    assert not list(folder.iterdir())


@pytest.mark.slow
def test_on_an_older_server_the_vector_index_is_left_out(
    arango_double: ArangoServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    older: Callable[[object], tuple[int, ...]] = lambda _: (3, 11, 14)  # noqa: E731
    monkeypatch.setattr("datasources.arango.setup.version_of", older)
    report = printed(invoke("db", "rehearse", arango_double.address("x"), "--json", exits=0))
    assert outcome(report)["vector index"] == "left out"
    assert report["passed"] is True
