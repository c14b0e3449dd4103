"""Replacements over many graphs: whole per graph, decided and undone together,
never another workspace's.
"""

import asyncio
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from datasources.base import Database
from datasources.errors import BadUseValue
from datasources.mock import MemoryDatabase
from datasources.sqlite import SqliteDatabase
from datasources.types import Mutation
from graphrag.approvals import Approval, ApprovalError, Approvals, Approve, Reject, errors
from graphrag.approvals.codemods import Codemod, Codemods, Replacement, changes_of
from graphrag.approvals.programs import MAX_SEEN, ProgramRule, ids_of
from graphrag.roles import Channel, ClientInfo, Person
from tests.contracts.samples import OTHER, WORKSPACE, a_graph, a_node
from tests.graphrag.approvals.helpers import (
    ADMIN,
    EDITOR,
    OTHER_EDITOR,
    REVIEWER,
    STRANGER,
    VIEWER,
    Bench,
    a_bench,
)

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
    database = MemoryDatabase()
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
    database = MemoryDatabase()
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
    async with SqliteDatabase(tmp_path / "graphs.db") as database:
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
from datasources.sqlite import SqliteDatabase
from graphrag.approvals import Approve
from tests.graphrag.approvals.helpers import REVIEWER
from tests.graphrag.approvals.test_codemods import _codemods

async def main():
    async with SqliteDatabase(Path(sys.argv[1])) as database:
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
    async with SqliteDatabase(path) as database:
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
    async with SqliteDatabase(path) as database:
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
    database = MemoryDatabase()
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


DAY_MS = 86_400_000


def through(
    channel: Channel, name: str = "", key: str | None = None, person: Person = EDITOR
) -> Person:
    return replace(person, client=ClientInfo(channel=channel, name=name, version="1.0", key_id=key))


async def note(bench: Bench, by: Person, text: str, key: str = "a") -> Approval:
    return await bench.propose("update_node", nodeKey=key, changes={"data.note": text}, by=by)


def test_a_program_is_known_by_its_key_else_by_its_name_else_by_its_channel() -> None:
    named = ClientInfo(channel="mcp", name="Claude Code", version="2", key_id="key_1")
    assert ids_of(named) == ("key:key_1", "mcp/claude code", "mcp")
    assert ids_of(replace(named, key_id="token-7")) == ("mcp/claude code", "mcp")
    assert ids_of(ClientInfo(channel="openai")) == ("openai",)
    assert ids_of(ClientInfo(channel="page", name="page")) == ids_of(None) == ()


async def test_a_proposal_says_through_which_program_it_came(bench: Bench) -> None:
    made = await note(bench, through("mcp", "claude-code", "key_1"), "x")
    assert made.client == {
        "channel": "mcp",
        "name": "claude-code",
        "version": "1.0",
        "keyId": "key_1",
    }
    assert made.program == "key:key_1"
    (seen,) = await bench.approvals().programs(ADMIN)
    assert (seen.id, seen.proposed, seen.first, seen.last) == (
        "key:key_1",
        1,
        bench.clock(),
        bench.clock(),
    )
    assert (await note(bench, EDITOR, "y")).program is None
    assert len(await bench.approvals().programs(ADMIN)) == 1


async def test_a_blocked_program_stores_nothing_and_others_go_on(bench: Bench) -> None:
    await bench.approvals().set_program_rule("mcp/bot", ProgramRule(blocked=True), ADMIN)
    with pytest.raises(errors.ProgramRefused) as refused:
        await note(bench, through("mcp", "Bot"), "x")
    assert refused.value.code == "program_blocked"
    assert await bench.approvals().list(by=ADMIN) == []
    await note(bench, through("mcp", "other"), "x")
    await bench.approvals().set_program_rule("mcp/bot", None, ADMIN)
    await note(bench, through("mcp", "bot"), "y")
    rules = [
        e.facts["rule"]
        for e in await bench.approvals().audit.entries()
        if e.facts["event"] == "program_rule"
    ]
    assert rules == [{}, {"classes": None, "daily": None, "deciders": "workspace", "blocked": True}]


async def test_the_most_special_rule_holds_alone(bench: Bench) -> None:
    approvals = bench.approvals()
    await approvals.set_program_rule("openai", ProgramRule(blocked=True), ADMIN)
    await approvals.set_program_rule("openai/webui", ProgramRule(classes=("layout",)), ADMIN)
    await approvals.set_program_rule("key:key_9", ProgramRule(), ADMIN)
    with pytest.raises(errors.ProgramRefused):
        await note(bench, through("openai"), "x")
    with pytest.raises(errors.ProgramRefused) as refused:
        await note(bench, through("openai", "webui"), "x")
    assert refused.value.code == "program_classes"
    await bench.propose("move_node", nodeKey="b", posX=7, posY=7, by=through("openai", "webui"))
    await note(bench, through("openai", "webui", "key_9"), "x")


@pytest.fixture(params=["memory", "sqlite"])
async def database(request: pytest.FixtureRequest, tmp_path: Any) -> Any:
    if request.param == "memory":
        yield None
        return
    async with SqliteDatabase(tmp_path / "graphs.db") as found:
        yield found


async def test_a_days_limit_is_exact_also_when_many_propose_at_once(
    database: Database | None,
) -> None:
    bench = await a_bench(database)
    await bench.approvals().set_program_rule("mcp", ProgramRule(daily=7), ADMIN)
    done = await asyncio.gather(
        *(note(bench, through("mcp", f"p{n % 3}"), f"x{n}") for n in range(24)),
        return_exceptions=True,
    )
    made = [one for one in done if isinstance(one, Approval)]
    assert len(made) == 7
    assert {one.code for one in done if isinstance(one, errors.ProgramRefused)} == {"program_daily"}
    assert len(await bench.approvals().list(by=ADMIN)) == 7
    found = {one.id: one for one in await bench.approvals().programs(ADMIN)}
    assert found["mcp"].today == 7
    assert sum(one.proposed for one in found.values()) == 7
    bench.clock.now += DAY_MS
    await note(bench, through("mcp", "p1"), "tomorrow")


async def test_who_decides_is_what_the_rule_says_and_never_less_than_the_workspace(
    bench: Bench,
) -> None:
    made = await note(bench, through("mcp"), "free")
    assert bench.approvals().objection(made, EDITOR) is None
    await bench.approvals().set_program_rule("mcp", ProgramRule(deciders="reviewer"), ADMIN)
    strict = await note(bench, through("mcp"), "strict")
    assert strict.needs_person
    with pytest.raises(errors.NotAllowed):
        await bench.approvals().decide(strict.id, Approve(), EDITOR)
    assert bench.approvals().objection(strict, REVIEWER) is None
    await bench.approvals().set_program_rule("mcp", ProgramRule(deciders="four-eyes"), ADMIN)
    both = await note(bench, through("mcp", person=REVIEWER), "both")
    with pytest.raises(errors.NotAllowed):
        await bench.approvals().decide(both.id, Approve(), REVIEWER)
    assert (await bench.approvals().decide(both.id, Approve(), ADMIN)).status == "applied"


async def test_all_of_a_program_is_taken_back_but_what_later_changes_rest_on(bench: Bench) -> None:
    before = await bench.stored_bytes()
    bot = through("mcp", "bot")
    approvals = bench.approvals()
    made = [await note(bench, bot, f"x{n}", key) for n, key in enumerate("abc")]
    kept = await note(bench, OTHER_EDITOR, "of a person", "d")
    for one in (*made, kept):
        assert (await approvals.decide(one.id, Approve(), ADMIN)).status == "applied"
    later = await note(bench, OTHER_EDITOR, "later", "b")
    await approvals.decide(later.id, Approve(), ADMIN)
    done = await approvals.undo_program("mcp/bot", ADMIN)
    assert sorted(one.undoes or "" for one in done.done) == sorted([made[0].id, made[2].id])
    assert [one.id for one, _ in done.refused] == [made[1].id]
    await approvals.undo("flow", later.id, by=ADMIN)
    assert len((await approvals.undo_program("mcp/bot", ADMIN)).done) == 1
    await approvals.undo("flow", kept.id, by=ADMIN)
    assert await bench.stored_bytes() == before
    assert (await approvals.undo_program("mcp/bot", ADMIN)).done == []


async def test_only_admins_of_the_workspace_see_and_rule_programs() -> None:
    approvals = (await a_bench()).approvals()
    for who in (EDITOR, REVIEWER, STRANGER):
        for work in (
            approvals.programs(who),
            approvals.set_program_rule("mcp", None, who),
            approvals.undo_program("mcp", who),
        ):
            with pytest.raises(ApprovalError) as refused:
                await work
            assert refused.value.code in ("programs_need_admin", "approval_unknown")
    for wrong in ("page", "nobody", "mcp\n", "key", "mcp/" + "x" * 300):
        with pytest.raises(errors.ProgramUnknown) as unknown:
            await approvals.set_program_rule(wrong, ProgramRule(), ADMIN)
        assert unknown.value.code == "program_unknown"


async def test_a_program_with_another_name_each_time_fills_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("graphrag.approvals.programs.MAX_SEEN", 5)
    assert MAX_SEEN > 5
    bench = await a_bench()
    for n in range(12):
        bench.clock.now += 1
        await note(bench, through("mcp", f"name {n}"), f"x{n}")
    assert [one.id for one in await bench.approvals().programs(ADMIN)] == [
        f"mcp/name {n}" for n in range(11, 6, -1)
    ]
