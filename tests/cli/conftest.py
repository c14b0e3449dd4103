"""A folder of its own for each command line test, and a database that the demo filled."""

import asyncio
import json
import os
import shutil
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from cli.demo import SAMPLES
from datasources.sqlite import SqliteDatabase
from graphrag.approvals import Approvals, Person
from mock_data import load_json, load_text
from tests.support.agents import an_ask
from tests.support.commands import run_command as invoke

__all__ = ["invoke"]


def printed(result: Any) -> Any:
    """Return the JSON that a command printed; it must be all of its standard output."""
    return json.loads(result.stdout)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in os.environ:
        if (
            name.startswith("NODIUS_")
            or name.endswith("_API_KEY")
            or name in ("COLUMNS", "OPENAI_BASE_URL")
        ):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


Env = Callable[..., None]


@pytest.fixture
def env(monkeypatch: pytest.MonkeyPatch) -> Env:
    """Set variables of the environment until the test is over."""

    def given(**variables: str) -> None:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    return given


@pytest.fixture(scope="session")
def demo_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The graphs of the demo, embedded, without its tour, which talks and telephones."""
    file = tmp_path_factory.mktemp("demo") / "demo.db"
    for name, key in SAMPLES.items():
        source = write(file.with_name(Path(name).name), load_text(name))
        invoke("import", source, "--graph", key, "--db", f"sqlite:{file}", exits=0)
    return file


@pytest.fixture
def demo_db(demo_file: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a database with the sample graphs, embedded. For reading."""
    url = f"sqlite:{demo_file}"
    monkeypatch.setenv("NODIUS_DB", url)
    return url


@pytest.fixture
def demo_copy(demo_file: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A database file of one's own with the sample graphs, embedded. For tests that store."""
    file = folder / "demo.db"
    shutil.copyfile(demo_file, file)
    monkeypatch.setenv("NODIUS_DB", f"sqlite:{file}")
    return file


@pytest.fixture(scope="session")
def nba_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("nba") / "nba.db"
    source = write(file.with_name("nba.json"), load_json("nba.json"))
    invoke("import", source, "--no-embed", "--db", f"sqlite:{file}", exits=0)
    return file


@pytest.fixture
def db(nba_file: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A database file of one's own with the NBA graph, not embedded."""
    file = folder / "graphs.db"
    shutil.copyfile(nba_file, file)
    monkeypatch.setenv("NODIUS_DB", f"sqlite:{file}")
    return file


def propose(
    db: Path,
    kind: str,
    *,
    by: str = "ed",
    reason: str = "it is too slow",
    **payload: Any,
) -> str:
    """Store a proposal about the NBA graph; return its id."""

    async def work() -> str:
        async with SqliteDatabase(db) as database:
            approval = await Approvals(
                database.source("default"), database.records("default")
            ).propose(
                {"type": kind, "payload": payload},
                an_ask(asker=Person(by, "editor", "default"), reason=reason),
            )
            return approval.id

    return asyncio.run(work())


def name_of(key: str) -> str:
    """Return the name of a node of the NBA graph."""
    document = printed(invoke("export", "testgraph001", "--json"))
    return next(node["data"]["name"] for node in document["nodes"] if node["_key"] == key)


def n8n(
    *steps: str, name: str = "Flow", identity: str | None = None, **more: Any
) -> dict[str, Any]:
    """An n8n export: the steps in a row."""
    nodes = [
        {
            "id": f"id-{i}",
            "name": step,
            "type": "n8n-nodes-base.noOp",
            "typeVersion": 1,
            "position": [200 * i, 0],
        }
        for i, step in enumerate(steps)
    ]
    joins = {
        one: {"main": [[{"node": other, "type": "main", "index": 0}]]}
        for one, other in pairwise(steps)
    }
    made = {"name": name, "nodes": nodes, "connections": joins, **more}
    return made if identity is None else {**made, "id": identity}


def write(file: Path, document: Any) -> Path:
    file.write_text(
        document if isinstance(document, str) else json.dumps(document), encoding="utf-8"
    )
    return file
