"""Programs from outside: what each may propose, how many a day, who decides, and taking all of one back."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from datasources.base import Database
from datasources.sqlite import SqliteDatabase
from graphrag.approvals import Approval, ApprovalError, Approve, NotAllowed, Person
from graphrag.approvals.errors import ProgramRefused, ProgramUnknown
from graphrag.approvals.programs import MAX_SEEN, ProgramRule, ids_of
from graphrag.roles import Channel, ClientInfo
from tests.graphrag.approvals.helpers import ADMIN, EDITOR, OTHER_EDITOR, REVIEWER, STRANGER, Bench, a_bench

DAY_MS = 86_400_000


def through(channel: Channel, name: str = "", key: str | None = None, person: Person = EDITOR) -> Person:
    return replace(person, client=ClientInfo(channel=channel, name=name, version="1.0", key_id=key))


async def note(bench: Bench, by: Person, text: str, key: str = "a") -> Approval:
    return await bench.propose("update_node", nodeKey=key, changes={"data.note": text}, by=by)


def test_a_program_is_known_by_its_key_else_by_its_name_else_by_its_channel() -> None:
    named = ClientInfo(channel="mcp", name="Claude Code", version="2", key_id="key_1")
    assert ids_of(named) == ("key:key_1", "mcp/claude code", "mcp")
    assert ids_of(replace(named, key_id="token-7")) == ("mcp/claude code", "mcp")
    assert ids_of(ClientInfo(channel="openai")) == ("openai",)
    assert ids_of(ClientInfo(channel="page", name="page")) == ids_of(None) == ()


async def test_a_proposal_says_through_which_program_it_came() -> None:
    bench = await a_bench()
    made = await note(bench, through("mcp", "claude-code", "key_1"), "x")
    assert made.client == {"channel": "mcp", "name": "claude-code", "version": "1.0", "keyId": "key_1"}
    assert made.program == "key:key_1"
    (seen,) = await bench.approvals().programs(ADMIN)
    assert (seen.id, seen.proposed, seen.first, seen.last) == ("key:key_1", 1, bench.clock(), bench.clock())
    assert (await note(bench, EDITOR, "y")).program is None
    assert len(await bench.approvals().programs(ADMIN)) == 1


async def test_a_blocked_program_stores_nothing_and_others_go_on() -> None:
    bench = await a_bench()
    await bench.approvals().set_program_rule("mcp/bot", ProgramRule(blocked=True), ADMIN)
    with pytest.raises(ProgramRefused) as refused:
        await note(bench, through("mcp", "Bot"), "x")
    assert refused.value.code == "program_blocked"
    assert await bench.approvals().list(by=ADMIN) == []
    await note(bench, through("mcp", "other"), "x")
    await bench.approvals().set_program_rule("mcp/bot", None, ADMIN)
    await note(bench, through("mcp", "bot"), "y")
    rules = [
        e.facts["rule"] for e in await bench.approvals().audit.entries() if e.facts["event"] == "program_rule"
    ]
    assert rules == [{}, {"classes": None, "daily": None, "deciders": "workspace", "blocked": True}]


async def test_the_most_special_rule_holds_alone() -> None:
    bench = await a_bench()
    approvals = bench.approvals()
    await approvals.set_program_rule("openai", ProgramRule(blocked=True), ADMIN)
    await approvals.set_program_rule("openai/webui", ProgramRule(classes=("layout",)), ADMIN)
    await approvals.set_program_rule("key:key_9", ProgramRule(), ADMIN)
    with pytest.raises(ProgramRefused):
        await note(bench, through("openai"), "x")
    with pytest.raises(ProgramRefused) as refused:
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


async def test_a_days_limit_is_exact_also_when_many_propose_at_once(database: Database | None) -> None:
    bench = await a_bench(database)
    await bench.approvals().set_program_rule("mcp", ProgramRule(daily=7), ADMIN)
    done = await asyncio.gather(
        *(note(bench, through("mcp", f"p{n % 3}"), f"x{n}") for n in range(24)), return_exceptions=True
    )
    made = [one for one in done if isinstance(one, Approval)]
    assert len(made) == 7
    assert {one.code for one in done if isinstance(one, ProgramRefused)} == {"program_daily"}
    assert len(await bench.approvals().list(by=ADMIN)) == 7
    found = {one.id: one for one in await bench.approvals().programs(ADMIN)}
    assert found["mcp"].today == 7
    assert sum(one.proposed for one in found.values()) == 7
    bench.clock.now += DAY_MS
    await note(bench, through("mcp", "p1"), "tomorrow")


async def test_who_decides_is_what_the_rule_says_and_never_less_than_the_workspace() -> None:
    bench = await a_bench()
    made = await note(bench, through("mcp"), "free")
    assert bench.approvals().objection(made, EDITOR) is None
    await bench.approvals().set_program_rule("mcp", ProgramRule(deciders="reviewer"), ADMIN)
    strict = await note(bench, through("mcp"), "strict")
    assert strict.needs_person
    with pytest.raises(NotAllowed):
        await bench.approvals().decide(strict.id, Approve(), EDITOR)
    assert bench.approvals().objection(strict, REVIEWER) is None
    await bench.approvals().set_program_rule("mcp", ProgramRule(deciders="four-eyes"), ADMIN)
    both = await note(bench, through("mcp", person=REVIEWER), "both")
    with pytest.raises(NotAllowed):
        await bench.approvals().decide(both.id, Approve(), REVIEWER)
    assert (await bench.approvals().decide(both.id, Approve(), ADMIN)).status == "applied"


async def test_all_of_a_program_is_taken_back_but_what_later_changes_rest_on() -> None:
    bench = await a_bench()
    before = await bench.stored_bytes()
    bot, approvals = through("mcp", "bot"), bench.approvals()
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
        with pytest.raises(ProgramUnknown) as unknown:
            await approvals.set_program_rule(wrong, ProgramRule(), ADMIN)
        assert unknown.value.code == "program_unknown"


async def test_a_program_that_calls_itself_otherwise_each_time_fills_nothing(
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
