"""Runs of automations: begun once an occurrence, worked on alone, resumed wherever they stop."""

import asyncio
import json
from collections.abc import Callable, Sequence

import pytest

from datasources.base import Record
from datasources.types import Edge, Mutation
from graphrag.agent.thread_store import Thread, session_of
from graphrag.approvals import Approval, Approve, Decision, Person, Reject
from graphrag.automations.automation import Automation
from graphrag.automations.last_seen import Members
from graphrag.automations.templates import templates
from graphrag.commands import SentBlock
from graphrag.llm.base import AssistantMessage, SystemMessage, ToolMessage, UsageReport, is_stable
from graphrag.llm.errors import ModelUnauthorized, ModelUnreachable
from graphrag.llm.registry import Pricing
from graphrag.rules import RulesProvider
from graphrag.sessions.agent_session import SessionUsage
from graphrag.sessions.phases import EndReason, Phase
from tests.support.agents import GRAPH, REVIEWER
from tests.support.automations import (
    DAY,
    HOUR,
    MINUTE,
    TWO,
    Night,
    finish,
    move,
    night_of,
    scripted_night,
)
from tests.support.clock import MONDAY
from tests.support.scripted_provider import Says, ScriptedProvider, Step, call
from tests.support.timeless import by_clock

READ = call("read_graph_overview", {})


async def test_a_due_occurrence_becomes_one_run_that_ends_with_its_report() -> None:
    used = UsageReport(prompt=100, completion=10, cached=20, cache_written=30, reasoning=4)
    async with scripted_night(
        Says(calls=[call("read_graph_overview")], usage=used), finish("findings", "One dead end.")
    ) as (night, _):
        made = await night.automation()
        assert await night.run_at(TWO - 1) == 0
        assert await night.run_at(TWO) == 1
        session = await night.session(made)
        assert (session.phase, session.end_reason) == (Phase.COMPLETED, EndReason.COMPLETED)
        assert session.report.text == "One dead end."
        (run,) = await night.runs(made)
        (said,) = [m for m in run.messages if m.id == session.report.message_id]
        assert isinstance(said, AssistantMessage)
        assert [each.name for each in said.tool_calls] == ["finish_automation"]
        sums = SessionUsage(prompt=200, completion=20, cached=20, cache_written=30, reasoning=4)
        assert session.usage == sums
        assert session.roundtrips == 2
        assert session.scheduled_time == TWO
        assert (await night.stored(made)).next_time == TWO + DAY
        assert await night.run_at(TWO + MINUTE) == 0


async def test_proposals_wait_for_people_and_the_run_goes_on_with_their_decision() -> None:
    async with scripted_night(Says(calls=[move()]), finish("findings", "Renamed.")) as (night, _):
        made = await night.ran()
        session = await night.session(made)
        assert session.phase is Phase.WAITING_VALIDATION
        assert not await night.worker.runner.slots.runs(made.graph_key)
        (approval,) = await night.approvals.list(status="pending", by=REVIEWER)
        assert session.waiting["approvalIds"] == [approval.id]
        await night.approvals.decide(approval.id, Approve(), REVIEWER)
        assert await night.run_at(night.clock.now + MINUTE) == 1
        assert (await night.session(made)).end_reason is EndReason.COMPLETED
        (node,) = await night.database.source("default").get_nodes_by_key(made.graph_key, ["root"])
        assert node.pos_x == 10


async def test_a_finish_beside_a_proposal_counts_once_it_is_applied_and_not_when_it_is_rejected() -> (
    None
):
    both = Says(calls=[move(), *finish("findings", "Proposed.").calls])
    for decision, more in ((Approve(), []), (Reject("no"), [finish("ok", "Rejected.")])):
        async with scripted_night(both, *more) as (night, _):
            made = await night.ran()
            (approval,) = await night.approvals.list(status="pending", by=REVIEWER)
            await night.approvals.decide(approval.id, decision, REVIEWER)
            await night.run_at(night.clock.now + MINUTE)
            session = await night.session(made)
            assert session.end_reason is EndReason.COMPLETED
            said, counted = session.report.text.split("\n\n")
            assert said == ("Rejected." if more else "Proposed.")
            assert f"applied {0 if more else 1}, waiting 0" in counted


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(lambda: "I think all is well.", id="words"),
        pytest.param(lambda: "", id="nothing"),
        pytest.param(lambda: Says(calls=[move("nowhere")]), id="refused"),
    ],
)
async def test_three_answers_of_wrong_form_end_a_run(step: Callable[[], Step]) -> None:
    async with scripted_night(*[step() for _ in range(3)]) as (night, _):
        made = await night.ran()
        session = await night.session(made)
        assert session.end_reason is EndReason.COMPLETED
        assert session.report is not None
        notes = [m for m in (await night.runs(made))[0].messages if isinstance(m, SystemMessage)]
        assert sum(note.kind == "FORMAT_ERROR" for note in notes) == 2


def _limit_note(runs: Sequence[Thread]) -> str:
    notes = [m for m in runs[0].messages if isinstance(m, SystemMessage)]
    return next(note.content for note in notes if note.kind == "LIMIT_REACHED")


async def test_endless_calls_end_at_the_limit_with_what_was_said() -> None:
    async with scripted_night(
        *[Says(text="Still looking.", calls=[call("read_graph_overview")]) for _ in range(20)]
    ) as (night, _):
        made = await night.ran()
        session = await night.session(made)
        assert session.end_reason is EndReason.LIMIT_REACHED
        assert session.roundtrips == 20
        assert session.report.outcome == "failed"
        assert _limit_note(await night.runs(made)).startswith(
            "The run may not ask the model again: its limit of calls is reached (20 calls"
        )
        last = [m for m in (await night.runs(made))[0].messages if isinstance(m, ToolMessage)][-1]
        assert last.is_error
        assert "not_run" in last.content


async def test_a_service_that_is_away_holds_no_slot_and_is_asked_again_later() -> None:
    away = ModelUnreachable(provider="scripted", reason="refused")
    async with scripted_night(away, away, finish()) as (night, _):
        made = await night.ran()
        session = await night.session(made)
        assert session.phase is Phase.WAITING_NETWORK_RETRY
        assert session.roundtrips == 1
        assert not await night.worker.runner.slots.runs(made.graph_key)
        assert session.waiting["retryAt"] == TWO + 30_000
        assert await night.run_at(TWO + 29_000) == 0
        assert await night.run_at(TWO + 30_000) == 1
        assert await night.run_at(TWO + 2 * MINUTE) == 1
        session = await night.session(made)
        assert session.end_reason is EndReason.COMPLETED
        assert session.roundtrips == 1


@pytest.mark.slow
async def test_a_day_without_network_ends_a_run_and_a_wrong_key_ends_it_at_once() -> None:
    away = ModelUnreachable(provider="scripted", reason="refused")
    async with night_of(ScriptedProvider(*[away] * 400)) as night:
        made = await night.automation(only_if_changed=False)
        now = TWO
        while (await night.run_at(now)) or now < TWO + 25 * HOUR:
            now += 10 * MINUTE
        assert (await night.runs(made))[-1].session is not None
        ended = [each.session for each in await night.runs(made) if each.session is not None][-1]
        assert ended.end_reason is EndReason.NETWORK_ERROR
    async with scripted_night(ModelUnauthorized(provider="scripted", reason="wrong key")) as (
        night,
        _,
    ):
        made = await night.ran()
        assert (await night.session(made)).end_reason is EndReason.ERROR


@by_clock
async def test_a_model_that_never_finishes_is_timed_out() -> None:
    provider = ScriptedProvider(Says(text="x", held=asyncio.Event(), reading=(1, 2)))
    async with night_of(provider) as night:
        made = await night.ran(budget={"activeS": 1})
        session = await night.session(made)
        assert session.end_reason is EndReason.TIMEOUT
        assert session.report is not None


@pytest.mark.parametrize("pricing", [None, Pricing(model="of no known price")])
async def test_tokens_end_a_run_and_three_failures_pause_an_automation(
    pricing: Pricing | None,
) -> None:
    async with scripted_night(
        *[Says(calls=[call("read_graph_overview")]) for _ in range(6)], pricing=pricing
    ) as (night, _):
        budget = {"tokens": 150, "cost_usd": 1.0}
        made = await night.automation(budget=budget, only_if_changed=False)
        for day in range(3):
            await night.run_at(TWO + day * DAY)
            session = await night.session(made)
            assert session.end_reason is EndReason.LIMIT_REACHED
            assert session.roundtrips == 2
        automation = await night.stored(made)
        assert (automation.enabled, automation.paused_reason) == (False, "failures")
        assert await night.run_at(TWO + 3 * DAY) == 0


@pytest.mark.parametrize(("missed", "runs"), [("last", 1), ("skip", 0), ("all", 10)])
async def test_what_was_missed_in_47_days(missed: str, runs: int) -> None:
    async with scripted_night(*[finish()] * runs) as (night, _):
        made = await night.automation(missed=missed, only_if_changed=False)
        await night.run_at(TWO + 46 * DAY + HOUR)
        await night.run_at(TWO + 46 * DAY + 2 * HOUR)
        found = await night.runs(made)
        assert len(found) == runs
        counted = (await night.stored(made)).skipped
        assert sum(each.count for each in counted) == 47 - runs


async def test_the_next_run_replaces_one_that_waits_for_people() -> None:
    async with scripted_night(Says(calls=[move()]), finish()) as (night, provider):
        made = await night.ran(only_if_changed=False)
        await night.run_at(TWO + DAY)
        new, old = await night.runs(made)
        assert old.session.end_reason is EndReason.CANCELLED
        assert new.session.end_reason is EndReason.COMPLETED
        (approval,) = await night.approvals.list(by=REVIEWER)
        assert approval.result is not None
        assert approval.result.reason is not None
        assert (approval.status, approval.result.reason.code) == ("stale", "stale_replaced")
        assert any("replaced" in str(message.content) for message in provider.requests[-1].messages)


async def test_a_run_has_the_lower_role_of_its_owner_and_an_owner_who_left_has_none() -> None:
    async with scripted_night(finish()) as (night, provider):
        members = Members(night.automations.records, clock=night.clock)
        await members.note(Person("ed", "viewer", "default"))
        made = await night.ran(only_if_changed=False)
        offered = {tool["function"]["name"] for tool in provider.requests[-1].tools}
        assert "finish_automation" in offered
        assert not any(name.startswith("propose_") for name in offered)
        await night.run_at(TWO + 91 * DAY)
        automation = await night.stored(made)
        assert (automation.enabled, automation.paused_reason) == (False, "owner_unseen")


async def test_ended_runs_are_kept_as_long_as_the_settings_say() -> None:
    async with scripted_night(*[finish()] * 5) as (night, _):
        night.worker.runner.keep = 2
        made = await night.automation(only_if_changed=False)
        for day in range(5):
            await night.run_at(TWO + day * DAY)
        assert [run.key for run in await night.runs(made)] == [
            f"auto/{made.key}/{TWO + day * DAY}" for day in (4, 3)
        ]


async def test_runs_are_kept_for_their_days_also_after_their_automation_is_deleted() -> None:
    async with scripted_night(finish(), finish()) as (night, _):
        made = await night.automation(only_if_changed=False)
        await night.run_at(TWO)
        await night.run_at(TWO + DAY)
        await night.automations.remove(made.key)
        assert await night.automations.prune_ended(before=TWO) == 0
        assert await night.automations.prune_ended(before=TWO + DAY) == 1
        assert [run.key for run in await night.runs(made)] == [f"auto/{made.key}/{TWO + DAY}"]


async def test_a_run_whose_process_ends_again_and_again_says_so_in_its_report() -> None:
    async with scripted_night(Says(text="I begin.", calls=[READ]), finish()) as (night, _):
        made = await night.ran()
        (run,) = await night.runs(made)
        stored = await night.automations.session(run.key)
        dying = session_of(run).model_copy(
            update={"phase": Phase.CALLING_AI, "attempts": 3, "report": None, "end_reason": None}
        )
        await night.automations.put_session(
            stored.thread.model_copy(update={"session": dying}), stored.version
        )
        await night.run_at(TWO + MINUTE)
        session = await night.session(made)
        assert session.report is not None
        assert session.report.text.startswith("The run was ended: the process that worked on it")
        assert "3 times" in session.report.text
        assert session.waiting is not None
        assert session.waiting["reason"] == "ERROR"


async def test_an_automation_of_a_graph_that_is_gone_is_paused() -> None:
    async with night_of(ScriptedProvider()) as night:
        made = await night.automation()
        await night.database.source("default").delete_graph(made.graph_key)
        assert await night.run_at(TWO) == 0
        assert (await night.stored(made)).paused_reason == "graph_gone"


async def test_a_late_run_reads_what_it_was_meant_to_and_stores_no_command_and_no_level() -> None:
    yesterday = {"from": "-1_DAY", "to": "-1_DAY"}
    block = {
        "id": "b1",
        "type": "POINTER",
        "target": {"kind": "node", "key": "root"},
        "period": yesterday,
    }
    async with scripted_night(
        ModelUnreachable(provider="scripted", reason="down"),
        Says(calls=[call("read_history", yesterday)]),
        finish(),
    ) as (night, provider):
        records = night.database.records("default")
        for who, at in (("ann", MONDAY - HOUR), ("bob", MONDAY + 12 * HOUR)):
            entry = {
                "type": "nodeUpdate",
                "nodeId": "root",
                "sheetId": "0",
                "userId": who,
                "timestamp": at,
            }
            data = {"graphKey": GRAPH, "timestamp": at, "history": [entry]}
            await records.put(Record(kind="history", key=who, data=data), expected_version=None)
        made = await night.ran("Look at ", [SentBlock.model_validate(block)])
        assert (await night.session(made)).phase is Phase.WAITING_NETWORK_RETRY
        assert await night.run_at(TWO + 23 * HOUR) == 1
        assert (await night.session(made)).end_reason is EndReason.COMPLETED
        (run,) = await night.runs(made)
        record = await records.get("session", run.key)
        assert record is not None
    found = [m for m in run.messages if isinstance(m, ToolMessage) or getattr(m, "data", "")]
    assert ["ann" in m.content for m in found[:2]] == [True, True]
    assert not any("bob" in m.content for m in found)
    question, _, occurrence = provider.requests[0].messages[-3:]
    assert "[points to" in question.content
    assert "This run is for 2025-11-24 02:00" in occurrence.content
    prefixes = [[m.content for m in r.messages if is_stable(m)] for r in provider.requests]
    assert len(prefixes) == 3
    assert prefixes[0] == prefixes[1] == prefixes[2]
    raw = json.dumps(record.data)
    assert prefixes[0][0][:200] not in record.data["conversationHistory"][0]["content"]
    assert not any(f'"{name}"' in raw for name in ("params", "resource", "operation", "relative"))
    kept = [
        s["block"]
        for m in record.data["conversationHistory"]
        for s in m.get("segments", ())
        if "block" in s
    ]
    assert kept == [block]


@pytest.mark.slow
async def test_endless_actions_that_fail_end_at_the_limit() -> None:
    steps = [Says(calls=[move(x=10 + number)]) for number in range(20)]
    provider = ScriptedProvider(*steps)
    async with night_of(provider) as night:
        made = await night.ran()
        source = night.database.source("default")
        for number in range(20):
            waiting = await night.approvals.list(status="pending", by=REVIEWER)
            if not waiting:
                break
            (root,) = await source.get_nodes_by_key(made.graph_key, ["root"])
            moved = root.replace(pos_x=1_000 + number)
            await source.apply(Mutation(graph_key=made.graph_key, put_nodes=[moved]))
            await night.approvals.decide(waiting[0].id, Approve(), REVIEWER)
            await night.run_at(night.clock.now + MINUTE)
        session = await night.session(made)
        assert session.end_reason is EndReason.LIMIT_REACHED
        assert session.roundtrips == 20
        assert {a.status for a in await night.approvals.list(by=REVIEWER)} == {"stale"}


TWICE = Edge(
    key="twice",
    graph_key=GRAPH,
    source="root",
    source_handle="0",
    target="fetch-api",
    target_handle="0",
)


async def nightly(night: Night) -> Automation:
    """Store a nightly check of the sample graph, to which an edge was drawn twice."""
    await night.database.source("default").apply(Mutation(graph_key=GRAPH, put_edges=[TWICE]))
    template = templates("en")["nightly-check"]
    return await night.automation(template.message, cron=template.cron, mode=template.mode)


async def decided(night: Night, decision: Decision) -> Approval:
    (approval,) = await night.approvals.list(status="pending", by=REVIEWER)
    approval = await night.approvals.decide(approval.id, decision, REVIEWER)
    assert await night.run_at(night.clock.now + MINUTE) == 1
    return approval


async def reported(night: Night, made: Automation) -> str:
    session = await night.session(made)
    assert session.end_reason is EndReason.COMPLETED
    return session.report.text


async def test_nightly_check_proposes_reports_what_was_approved_and_skips_an_unchanged_graph() -> (
    None
):
    async with night_of(RulesProvider()) as night:
        made = await nightly(night)
        assert await night.run_at(TWO) == 1
        session = await night.session(made)
        assert (session.phase, session.proposed) == (Phase.WAITING_VALIDATION, 1)
        approval = await decided(night, Approve())
        assert approval.status == "applied"
        report = await reported(night, made)
        assert "approved and is done" in report
        assert "No start reaches Sort by points" in report, "what has no repair is left for people"
        assert await night.run_at(TWO + DAY) == 1, "its own repair is looked at once more"
        assert (await night.session(made)).proposed == 0
        assert await night.run_at(TWO + 2 * DAY) == 0
        assert [skip.reason for skip in (await night.stored(made)).skipped] == ["unchanged"]


async def test_what_was_rejected_is_not_asked_again_and_the_report_says_so() -> None:
    async with night_of(RulesProvider()) as night:
        made = await nightly(night)
        await night.run_at(TWO)
        await decided(night, Reject("it is meant so"))
        assert "was rejected" in await reported(night, made)
        source = night.database.source("default")
        (node,) = await source.get_nodes_by_key(GRAPH, ["sort-stats"])
        await source.apply(Mutation(graph_key=GRAPH, put_nodes=[node.replace(pos_x=1)]))
        assert await night.run_at(TWO + DAY) == 1
        assert await night.approvals.list(status="pending", by=REVIEWER) == []
        assert "rejected before" in await reported(night, made)
