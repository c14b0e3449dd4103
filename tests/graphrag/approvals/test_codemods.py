"""Replacements over many graphs: whole per graph, decided and undone together,
never another workspace's.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest

from datasources.base import Database
from datasources.errors import BadUseValue
from datasources.types import Mutation
from graphrag.approvals import Approvals, Approve, Reject, errors
from graphrag.approvals.codemods import Codemod, Codemods, Replacement, changes_of
from graphrag.roles import Person
from tests.contracts.samples import OTHER, WORKSPACE, a_graph, a_node
from tests.graphrag.approvals.helpers import (
    EDITOR,
    REVIEWER,
    STRANGER,
    VIEWER,
)
from tests.support.chosen_database import database_in, fresh_database

OLD, NEW = "https://api.example.com/v1", "https://api.example.com/v2"
SWAP = Replacement(old=OLD, new=NEW)


def _data(number: int) -> dict[str, Any]:
    return {
        "name": f"Call {number}",
        "parameters": {
            "url": f"={OLD}/users/{number}",
            "dotted.key": {"url": OLD},
            "list": [{"url": "https://api.example.com/v11"}, {"url": f"{OLD}?x=1"}],
        },
    }


async def _store(
    database: Database, count: int, workspace: str = WORKSPACE, prefix: str = "g"
) -> list[str]:
    keys = [f"{prefix}{number:03}" for number in range(count)]
    for number, key in enumerate(keys):
        nodes = [
            a_node("calls", key, data=_data(number), process=f"fetch('{OLD}/a')\n// v1 stays"),
            a_node("other", key, data={"name": "Sorts", "text": "v1 of api.example.com"}),
        ]
        graph = a_graph(key, workspace)
        await database.source(workspace).create_graph(
            graph, Mutation(graph_key=key, put_nodes=nodes)
        )
    return keys


def _codemods(database: Database) -> Codemods:
    return Codemods(Approvals(database.source(WORKSPACE), database.records(WORKSPACE)))


async def _bytes(database: Database, keys: list[str], workspace: str = WORKSPACE) -> list[bytes]:
    source = database.source(workspace)
    return [orjson.dumps([n.to_document() for n in await source.get_nodes(key)]) for key in keys]


def _states(codemod: Codemod) -> list[str]:
    return [
        part.approval.status if part.approval else type(part.refused).__name__
        for part in codemod.parts
    ]


async def test_each_graph_is_decided_by_itself_and_all_are_undone_together() -> None:
    database = await fresh_database()
    keys = await _store(database, 4)
    theirs = await _store(database, 2, OTHER, "their")
    before = await _bytes(database, keys)
    other = await _bytes(database, theirs, OTHER)
    codemods = _codemods(database)
    made = await codemods.propose(SWAP, EDITOR)
    assert [part.graph_key for part in made.parts] == keys
    assert {part.approval.codemod_id for part in made.parts if part.approval} == {made.id}
    assert await _bytes(database, keys) == before
    again = await codemods.propose(SWAP, EDITOR, made.id)  # nothing is proposed a second time
    assert [p.approval and p.approval.id for p in again.parts] == [
        p.approval and p.approval.id for p in made.parts
    ]

    source = database.source(WORKSPACE)
    (node,) = await source.get_nodes_by_key(keys[1], ["calls"])
    edited = node.replace(data={**_data(1), "parameters": {"url": f"{OLD}/edited in between"}})
    await source.apply(Mutation(graph_key=keys[1], put_nodes=[edited]))
    await codemods.decide(made.id, Reject("not here"), REVIEWER, [keys[3]])
    done = await codemods.decide(made.id, Approve(), REVIEWER)
    assert _states(done) == ["applied", "stale", "applied", "rejected"]
    (changed,) = await source.get_nodes_by_key(keys[0], ["calls"])
    parameters = changed.data["parameters"]
    assert parameters["url"] == f"={NEW}/users/0"
    assert parameters["dotted.key"] == {"url": NEW}
    assert parameters["list"] == [{"url": "https://api.example.com/v11"}, {"url": f"{NEW}?x=1"}]
    assert changed.process == f"fetch('{NEW}/a')\n// v1 stays"

    await codemods.undo(made.id, REVIEWER)
    now = await _bytes(database, keys)
    assert [now[0], *now[2:]] == [before[0], *before[2:]]
    assert b"edited in between" in now[1]
    assert await _bytes(database, theirs, OTHER) == other
    with pytest.raises(errors.ApprovalNotFound):
        await codemods.get(made.id, STRANGER)
    with pytest.raises(errors.ApprovalNotFound):
        await codemods.propose(SWAP, STRANGER)
    with pytest.raises(errors.NotAllowed):
        await codemods.propose(SWAP, VIEWER)


async def test_values_are_literal_and_bad_ones_are_refused() -> None:
    database = await fresh_database()
    hostile = r"a.*(b)+\1$[x]"
    tables = {"one": hostile, "two": "a.bb", "three": "orders_archive"}
    nodes = [a_node(key, "g", data={"name": key, "table": table}) for key, table in tables.items()]
    source = database.source(WORKSPACE)
    await source.create_graph(a_graph("g"), Mutation(graph_key="g", put_nodes=nodes))
    codemods = _codemods(database)
    made = await codemods.propose(Replacement(old=hostile, new=r"\g<0>$1"), EDITOR)
    await codemods.decide(made.id, Approve(), REVIEWER)
    after = {node.key: node.data["table"] for node in await source.get_nodes("g")}
    assert after == {**tables, "one": r"\g<0>$1"}
    for value in ("", " ", "x" * 1_000_000):
        with pytest.raises(BadUseValue):
            Replacement(old=value, new="y")
        with pytest.raises(errors.CodemodRefused):
            Replacement(old="y", new=value)
    for old in ("orders", "nobody"):
        with pytest.raises(errors.CodemodRefused):
            await codemods.propose(Replacement(old=old, new="bills"), EDITOR)


@pytest.mark.slow
async def test_two_hundred_graphs_are_changed_and_undone_byte_for_byte(tmp_path: Path) -> None:
    async with database_in(tmp_path / "graphs.db") as database:
        keys = await _store(database, 200)
        before = await _bytes(database, keys)
        codemods = _codemods(database)
        made = await codemods.propose(SWAP, EDITOR)
        assert set(_states(await codemods.decide(made.id, Approve(), REVIEWER))) == {"applied"}
        changed = await _bytes(database, keys)
        assert all(
            was != now and OLD.encode() + b"/" not in now
            for was, now in zip(before, changed, strict=True)
        )
        await codemods.undo(made.id, REVIEWER)
        assert await _bytes(database, keys) == before


_DECIDES = """
import asyncio, sys
from pathlib import Path
from tests.support.chosen_database import database_in, fresh_database
from graphrag.approvals import Approve
from tests.graphrag.approvals.helpers import REVIEWER
from tests.graphrag.approvals.test_codemods import _codemods

async def main():
    async with database_in(sys.argv[1]) as database:
        codemods = _codemods(database)
        decide = codemods._approvals.decide
        async def told(*args, **more):
            done = await decide(*args, **more)
            print(done.graph_key, flush=True)
            return done
        codemods._approvals.decide = told
        await codemods.decide(sys.argv[2], Approve(), REVIEWER)

asyncio.run(main())
"""


@pytest.mark.slow
async def test_a_killed_decision_is_whole_per_graph_and_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "graphs.db"
    async with database_in(path) as database:
        keys = await _store(database, 20)
        before = await _bytes(database, keys)
        made = await _codemods(database).propose(SWAP, EDITOR)
    child = subprocess.Popen(  # noqa: ASYNC220 - it is killed
        [sys.executable, "-c", _DECIDES, str(path), made.id], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    with child:
        said = [child.stdout.readline() for _ in range(7)]
        os.kill(child.pid, signal.SIGKILL)
    assert all(said)
    async with database_in(path) as database:
        codemods = _codemods(database)
        half = await codemods.get(made.id, REVIEWER)
        applied = [
            part.approval is not None and part.approval.status == "applied" for part in half.parts
        ]
        assert 7 <= sum(applied) < 20
        now = await _bytes(database, keys)
        whole = _changed_whole(before)
        assert now == [
            new if done else old for done, old, new in zip(applied, before, whole, strict=True)
        ]
        assert set(_states(await codemods.decide(made.id, Approve(), REVIEWER))) == {"applied"}
        assert await _bytes(database, keys) == whole
        await codemods.undo(made.id, REVIEWER)
        assert await _bytes(database, keys) == before


def _changed_whole(before: list[bytes]) -> list[bytes]:
    swapped = (text.replace(OLD.encode(), NEW.encode()) for text in before)
    return [text.replace(b"/v21", b"/v11") for text in swapped]


async def test_nobody_adds_another_replacement_to_a_codemod_that_people_decide_as_a_whole() -> None:
    database = await fresh_database()
    keys = await _store(database, 2)
    codemods = _codemods(database)
    made = await codemods.propose(Replacement(old=OLD, new=NEW, graphs=(keys[0],)), EDITOR)
    colleague = Person("mallory", "editor", WORKSPACE)
    for wanted, by in (
        (Replacement(old=OLD, new="https://evil.example"), EDITOR),
        (SWAP, colleague),
    ):
        with pytest.raises(errors.CodemodRefused):
            await codemods.propose(wanted, by, made.id)
    assert len((await codemods.propose(SWAP, EDITOR, made.id)).parts) == 2


def test_a_host_is_not_replaced_where_it_ends_the_name_of_another() -> None:
    text = "get('https://example.com/a'); get('https://api.example.com/b')"
    node = a_node("calls", "g", data={"name": "Calls"}, process=text)
    for old, new in (
        ("example.com", "example.org"),
        ("https://example.com", "https://example.org"),
    ):
        changed = changes_of(node, Replacement(old=old, new=new))
        assert changed == {"process": text.replace("//example.com", "//example.org")}
