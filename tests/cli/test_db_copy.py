"""`db copy`: a whole database in another store, exactly, continued after an interruption."""

import asyncio
import shutil
import sqlite3
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from arango.database import StandardDatabase

from datasources.arango import ArangoDatabase, parse_address
from datasources.arango.layout import NODES as NODES_OF_ALL
from datasources.base import Record
from datasources.hits import NodeVector
from datasources.sqlite import SqliteDatabase
from datasources.types import ROOT_WORKSPACE, Edge, Graph, Mutation, Node
from graphrag.app.database_transfer import transfer_database
from graphrag.leases import Lease, new_owner
from tests.cli.conftest import invoke, printed, propose
from tests.contracts.samples import a_type
from tests.support.arango import ArangoServer

GRAPH = "testgraph001"
TEMPORARY = ("lease", "database_copy")


def contents(path: Path) -> dict[str, Any]:
    """Return everything that a database file stores, apart from versions and temporary records."""
    tables = {
        "types": "SELECT workspace, key, type, body FROM configs",
        "graphs": "SELECT workspace, key, revision, nodes, edges, body FROM graphs",
        "nodes": "SELECT g.key, n.key, n.sheet, n.type, n.body FROM nodes n JOIN graphs g ON g.id = n.graph",
        "edges": "SELECT g.key, e.key, e.sheet, e.body FROM edges e JOIN graphs g ON g.id = e.graph",
        "vectors": "SELECT n.key, v.model, v.hash, v.dim, hex(v.content), hex(v.name) FROM vectors v "
        "JOIN nodes n ON n.rid = v.rid",
        "records": f"SELECT workspace, kind, key, data FROM records WHERE kind NOT IN {TEMPORARY}",
    }
    with closing(sqlite3.connect(path)) as connection:
        return {
            name: sorted(map(_readable, connection.execute(statement)), key=repr)
            for name, statement in tables.items()
        }


def _readable(row: tuple[Any, ...]) -> list[Any]:
    is_json = [isinstance(value, bytes) or str(value)[:1] == "{" for value in row]
    return [
        sorted(orjson.loads(value).items(), key=lambda item: item[0]) if json else value
        for value, json in zip(row, is_json, strict=True)
    ]


@pytest.fixture(scope="module")
def used_file(demo_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample graphs with vectors, a change that was applied, one that waits, types of root."""
    file = tmp_path_factory.mktemp("used") / "used.db"
    shutil.copyfile(demo_file, file)
    done = propose(file, "update_node", nodeKey="fetch-api", changes={"data.name": "New"})
    propose(file, "update_node", nodeKey="root", changes={"data.name": "Other"})
    invoke("review", "approve", done, "--db", f"sqlite:{file}", exits=0)
    asyncio.run(_add_others(file))
    return file


@pytest.fixture
def used(used_file: Path, folder: Path) -> Path:
    """A copy of that file, for changing."""
    file = folder / "used.db"
    shutil.copyfile(used_file, file)
    return file


async def _add_others(file: Path) -> None:
    async with SqliteDatabase(file) as database:
        root = database.source(ROOT_WORKSPACE)
        for key in ("one", "two"):  # the second is hidden by the first
            await root.put_node_config(a_type("shared", key=key, workspace=ROOT_WORKSPACE))
        other = database.source("acme")
        await other.create_graph(Graph(key="empty", name="Empty", workspace="acme"))
        records = database.records("nobody's")
        for number in range(450):
            record = Record(kind="trace", key=f"{number}", data={"of": number})
            await records.put(record, expected_version=None)
        lease = Record(kind="lease", key="old", data={"owner": "x", "expiresTime": 1})
        await records.put(lease, expected_version=None)


@pytest.fixture
def copied_to(folder: Path) -> Callable[[str, str], Any]:
    def run(original: str, copy: str) -> Any:
        return printed(invoke("db", "copy", original, copy, "--json", exits=0))

    return run


def test_a_copy_holds_everything_and_changes_can_be_undone_in_it(
    used: Path, folder: Path, copied_to: Any
) -> None:
    copy = folder / "new" / "copy.db"
    done = copied_to(f"sqlite:{used}", f"sqlite:{copy}")
    assert contents(copy) == contents(used)
    assert done["differences"] == []
    assert done["leftOut"] == ["leases, which are valid for seconds"]
    assert done["workspaces"]["default"]["nodes"] == 49
    assert done["workspaces"]["nobody's"]["recordKinds"] == {"trace": 450}
    assert done["workspaces"]["root"]["nodeTypes"] == 2
    db = ("--db", f"sqlite:{copy}")
    invoke("undo", GRAPH, *db, exits=0)
    invoke("audit", "verify", *db, exits=0)
    waiting = printed(invoke("review", "list", "--json", *db))
    pending = [one["id"] for one in waiting if one["status"] == "pending"]
    invoke("review", "approve", pending[0], *db, exits=0)


def test_the_same_command_passes_an_ended_copy_by_and_sees_what_changed_since(
    used: Path, folder: Path
) -> None:
    copy = folder / "copy.db"
    addresses = (f"sqlite:{used}", f"sqlite:{copy}")
    assert "acme: 1 graphs" in invoke("db", "copy", *addresses, exits=0).output
    before = contents(copy)
    assert "hold the same" in invoke("db", "copy", *addresses, exits=0).output
    assert contents(copy) == before
    invoke("undo", GRAPH, "--db", addresses[0], exits=0)
    output = invoke("db", "copy", *addresses, exits=1).output
    assert f"workspace default, graph {GRAPH}: revision" in output
    assert "workspace default, audit" in output
    assert contents(copy) == before


@pytest.mark.slow
@pytest.mark.parametrize("server", ["arango_address", "postgres_url", "pgvector_url"])
def test_a_database_comes_back_from_a_server_as_it_was(
    request: pytest.FixtureRequest, used: Path, folder: Path, copied_to: Any, server: str
) -> None:
    address = request.getfixturevalue(server)
    copied_to(f"sqlite:{used}", address)
    invoke("audit", "verify", "--db", address, exits=0)
    copied_to(address, f"sqlite:{folder / 'back.db'}")
    invoke("undo", GRAPH, "--db", address, exits=0)
    assert contents(folder / "back.db") == contents(used)


@pytest.mark.slow
def test_vectors_that_name_no_model_are_left_out_and_said(
    used: Path, folder: Path, copied_to: Any, arango_address: str
) -> None:
    copied_to(f"sqlite:{used}", arango_address)

    def write(server: StandardDatabase) -> None:
        fields = {"embedding": [1.0, 2.0], "embeddingModel": None, "embeddingHash": None}
        server.collection(NODES_OF_ALL).update({"_key": f"{GRAPH}-fetch-api", **fields})

    async def as_an_editor() -> None:
        async with ArangoDatabase(parse_address(arango_address)) as database:
            await database.state.connection.run(write)

    asyncio.run(as_an_editor())
    done = copied_to(arango_address, f"sqlite:{folder / 'back.db'}")
    assert "1 vectors of workspace default that name no model" in done["leftOut"]
    assert done["workspaces"]["default"]["vectors"] == 48


def test_a_change_of_the_original_meanwhile_is_found_at_the_end(used: Path, folder: Path) -> None:
    new = "INSERT INTO records VALUES ('default', 'openai_chat', 'late', 999999, '{}')"

    def change(done: int, total: int) -> None:
        if done == total:
            with closing(sqlite3.connect(used)) as connection:
                connection.execute(new)
                connection.commit()

    copy = f"sqlite:{folder / 'copy.db'}"
    done = asyncio.run(transfer_database(f"sqlite:{used}", copy, change))
    assert len(done.differences) == 1
    assert "was changed meanwhile: workspace default, openai_chat: 1" in done.differences[0]
    # Nothing is lost: the next call takes it along.
    assert "hold the same" in invoke("db", "copy", f"sqlite:{used}", copy, exits=0).output
    assert contents(folder / "copy.db") == contents(used)


def test_a_server_database_that_is_not_set_up_is_refused(used: Path, arango: ArangoServer) -> None:
    output = invoke("db", "copy", f"sqlite:{used}", arango.address(arango.fresh()), exits=1).output
    assert "nodius db init" in output


def test_a_target_that_holds_other_data_is_left_alone(used: Path, db: Path, folder: Path) -> None:
    before = contents(db)
    addresses = (f"sqlite:{used}", f"sqlite:{db}")
    assert "holds other data" in invoke("db", "copy", *addresses, exits=2).output
    assert contents(db) == before
    copy = f"sqlite:{folder / 'copy.db'}"
    invoke("db", "copy", addresses[0], copy, exits=0)
    output = invoke("db", "copy", addresses[1], copy, exits=2).output
    assert f"holds a copy of sqlite:{used}" in output


def test_addresses_that_cannot_be_copied_are_said(used: Path, folder: Path) -> None:
    (folder / "link.db").symlink_to(used)
    here = f"sqlite:{used}"
    wrong: dict[tuple[str, str], tuple[int, str]] = {
        (here, here): (2, "the same database"),
        (here, f"sqlite:{folder / 'link.db'}"): (2, "the same database"),
        (here, "memory:"): (2, "memory:"),
        ("memory:", f"sqlite:{folder / 'x.db'}"): (2, "memory:"),
        (here, "nowhere://x"): (2, "unknown scheme"),
        (f"sqlite:{folder / 'absent.db'}", f"sqlite:{folder / 'x.db'}"): (1, "no such file"),
    }
    for addresses, (code, words) in wrong.items():
        result = invoke("db", "copy", *addresses)
        assert (addresses, result.exit_code) == (addresses, code), result.output
        assert words in result.output
    assert not (folder / "x.db").exists()
    assert not (folder / "absent.db").exists()
    assert "--db" in invoke("db", "copy", here, "sqlite:y.db", "--db", here, exits=2).output


@pytest.mark.parametrize("where", ["FROM", "TO"])
def test_a_database_that_a_server_uses_is_not_copied(used: Path, folder: Path, where: str) -> None:
    copy = folder / "copy.db"
    file = used if where == "FROM" else copy

    async def held() -> None:
        async with SqliteDatabase(file) as database:
            records = database.records("default")
            await Lease(records, GRAPH, new_owner(), refused=ValueError, facts={}).hold()

    asyncio.run(held())
    output = invoke("db", "copy", f"sqlite:{used}", f"sqlite:{copy}", exits=2).output
    assert f"a server uses sqlite:{file}" in output
    assert "stop it first" in output


@pytest.mark.slow
def test_an_audit_log_that_was_damaged_before_is_copied_and_said(used: Path, folder: Path) -> None:
    with closing(sqlite3.connect(used)) as connection:
        connection.execute(
            "UPDATE records SET data = replace(data, 'imported', 'invented') "
            "WHERE kind = 'audit' AND key = '000000000001'"
        )
        connection.commit()
    done = invoke("db", "copy", f"sqlite:{used}", f"sqlite:{folder / 'copy.db'}", exits=0)
    assert "is not intact, and was copied as it is" in done.output


NODES = 20_000


async def _fill(file: Path) -> None:
    """Store a graph of 20,000 nodes with vectors, at revision 1."""
    text = "word " * 60
    nodes = [
        Node(key=f"n{i:06}", graph_key="big", type="task", data={"text": f"{i} {text}"})
        for i in range(NODES)
    ]
    edges = [
        Edge(key=f"e{i:06}", graph_key="big", source=nodes[i].key, target=nodes[i + 1].key)
        for i in range(NODES - 1)
    ]
    vectors = [
        NodeVector(key=node.key, model="m", hash="h", content=np.full(64, 0.5, np.float32))
        for node in nodes
    ]
    async with SqliteDatabase(file) as database:
        content = Mutation(graph_key="big", put_nodes=nodes, put_edges=edges, put_vectors=vectors)
        await database.source("default").create_graph(
            Graph(key="big", name="Big", workspace="default"), content
        )


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("large") / "large.db"
    asyncio.run(_fill(file))
    return file


@pytest.mark.slow
def test_a_large_graph_is_copied_in_parts_with_bounded_memory(large: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    seen = list[tuple[int, int]]()
    tracemalloc.start()
    try:
        done = asyncio.run(
            transfer_database(f"sqlite:{large}", f"sqlite:{copy}", lambda *at: seen.append(at))
        )
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert done.differences == ()
    assert contents(copy) == contents(large)
    assert seen[-1] == (2 * NODES - 1, 2 * NODES - 1)
    assert len(seen) > 20
    # The graph takes 56 MB as objects.
    assert peak < 25e6, f"{peak / 1e6:.0f} MB"


def killed_copy(original: str, copy: str, after: int) -> None:
    """Run a copy that is killed (kill -9) after it stored this number of parts."""
    program = (
        "import asyncio, os, signal, sys\n"
        "from graphrag.app.database_transfer import transfer_database\n"
        "left = int(sys.argv[3])\n"
        "def report(done, total):\n"
        "    global left\n"
        "    left -= 1\n"
        "    if not left:\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "asyncio.run(transfer_database(sys.argv[1], sys.argv[2], report))\n"
    )
    arguments = [sys.executable, "-c", program, original, copy, str(after)]
    assert subprocess.run(arguments, check=False).returncode == -9


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "after"),
    [
        ("large", 1),
        ("large", 10),
        ("large", 30),
        ("used_file", 2),
        ("used_file", 6),
        ("used_file", 9),
    ],
)
def test_a_copy_that_was_killed_is_continued(
    request: pytest.FixtureRequest, tmp_path: Path, what: str, after: int
) -> None:
    original = request.getfixturevalue(what)
    copy = tmp_path / "copy.db"
    addresses = (f"sqlite:{original}", f"sqlite:{copy}")
    killed_copy(*addresses, after)
    assert contents(copy) != contents(original)
    invoke("db", "copy", *addresses, exits=0)
    assert contents(copy) == contents(original)


@pytest.mark.slow
@pytest.mark.parametrize("server", ["arango_address", "postgres_url"])
def test_a_copy_to_and_from_a_server_that_was_killed_is_continued(
    request: pytest.FixtureRequest, used: Path, tmp_path: Path, server: str
) -> None:
    address = request.getfixturevalue(server)
    back = tmp_path / "back.db"
    for original, copy in ((f"sqlite:{used}", address), (address, f"sqlite:{back}")):
        for after in (3, 8):
            killed_copy(original, copy, after)
        invoke("db", "copy", original, copy, exits=0)
    assert contents(back) == contents(used)
