"""Proposals of a turn: it waits, people decide, the model gets what really happened."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from datasources.errors import SourceTimeout
from datasources.mock import open_nba
from datasources.sqlite import SqliteDatabase
from datasources.types import Mutation
from graphrag.agent.events import (
    ActionApplied,
    Completed,
    Event,
    Failed,
    ProposalPending,
    ToolFinished,
    TurnStarted,
)
from graphrag.agent.requested_calls import CallLimits
from graphrag.approvals import ApprovalNotFound, Approve, ApproveEdited, ProposalRefused, Reject
from graphrag.llm.base import AssistantMessage, Message, SystemMessage, ToolMessage
from tests.support.agents import (
    EDITOR,
    GRAPH,
    REVIEWER,
    Setting,
    of,
    only,
    scripted,
    setting_on,
    shown,
    up_to,
)
from tests.support.databases import put_sample
from tests.support.scripted_provider import Says, ScriptedProvider, call
from tests.support.valid_history import check_valid

ROOT = Path(__file__).parents[3]


def move(key: str, x: int = 10, y: int = 20, **more: Any) -> Any:
    return call(
        "propose_move_node", {"nodeKey": key, "posX": x, "posY": y, "reason": "tidier", **more}
    )


def results(messages: tuple[Message, ...] | list[Message]) -> list[str]:
    return [message.content for message in messages if isinstance(message, ToolMessage)]


async def position(setting: Setting, key: str) -> tuple[float, float]:
    node = await setting.node(key)
    return node.pos_x, node.pos_y


# waiting


async def test_an_approved_proposal_is_applied_and_the_model_gets_so() -> None:
    moving = move("root", 11, 22)
    async with scripted(Says(text="Moving. ", calls=[moving]), "It stands at 11, 22.") as (
        setting,
        model,
    ):
        pending = only(await setting.ask("move it"), ProposalPending)
        assert pending.text == "Moving. "
        waits = (await setting.threads.get(pending.thread_id, EDITOR)).thread
        ids = [approval.id for approval in pending.approvals]
        assert waits.pending_interrupt == {"type": "interrupt", "approvalIds": ids}
        events = await setting.resume(pending.thread_id, decision=Approve())
        assert await position(setting, "root") == (11, 22)
        assert only(events, ActionApplied).approval.id == pending.approvals[0].id
        finished = only(events, ToolFinished)
        assert (finished.call_id, finished.is_error) == (moving.id, False)
        assert events[-1] == Completed(
            thread_id=pending.thread_id, text="Moving. It stands at 11, 22."
        )
        check_valid(await setting.messages(pending.thread_id))
    sent = model.requests[-1].messages
    assert results(sent)[-1].startswith("APPLIED")
    assert "really happened" in sent[-1].content


async def test_an_edited_proposal_is_applied_as_edited_and_the_model_gets_into_what() -> None:
    edited = {"type": "move_node", "payload": {"nodeKey": "root", "posX": 5, "posY": 6}}
    async with scripted(Says(calls=[move("root")]), "As you like.") as (setting, model):
        pending = only(await setting.ask("move it"), ProposalPending)
        await setting.resume(pending.thread_id, decision=ApproveEdited(edited))
        assert await position(setting, "root") == (5, 6)
    assert "5, 6" in results(model.requests[-1].messages)[-1]


async def test_reads_beside_a_proposal_are_run_and_all_answers_stand_in_the_order_asked() -> None:
    read = call("read_node_detail", {"key": "root"})
    moving = move("root")
    second = call("list_node_edges", {"key": "root"})
    async with scripted(Says(calls=[read, moving, second]), "Done.") as (setting, model):
        events = await setting.ask()
        assert [event.call_id for event in of(events, ToolFinished)] == [read.id, second.id]
        await setting.resume(only(events, ProposalPending).thread_id, decision=Approve())
    answers = [m.call_id for m in model.requests[-1].messages if isinstance(m, ToolMessage)]
    assert answers == [read.id, moving.id, second.id]


async def test_a_proposal_that_does_not_work_goes_back_to_the_model_and_nobody_is_asked() -> None:
    async with scripted(Says(calls=[move("rooot")]), "There is no such node.") as (setting, model):
        events = await setting.ask()
        assert only(events, ToolFinished).is_error
        assert isinstance(events[-1], Completed)
        assert not await setting.approvals.list(by=EDITOR)
    assert "root" in results(model.requests[-1].messages)[-1]


# several


async def test_several_proposals_are_decided_in_any_order_each_on_its_own() -> None:
    calls = [move("root", 1, 1), move("fetch-api", 2, 2), move("filter-active", 3, 3)]
    async with scripted(Says(calls=calls), "Two of three.") as (setting, model):
        pending = only(await setting.ask(), ProposalPending)
        ids = [approval.id for approval in pending.approvals]
        assert len(ids) == 3
        more = await setting.resume(pending.thread_id, decision=Approve(), approval_id=ids[2])
        assert [a.id for a in only(more, ProposalPending).approvals] == ids[:2]
        more = await setting.resume(pending.thread_id, decision=Reject("no"), approval_id=ids[0])
        assert [a.id for a in only(more, ProposalPending).approvals] == [ids[1]]
        more = await setting.resume(pending.thread_id, decision=Approve())
        assert isinstance(more[-1], Completed)
        assert await position(setting, "filter-active") == (3, 3)
        assert await position(setting, "fetch-api") == (2, 2)
    reported = results(model.requests[-1].messages)
    assert [text.split(":")[0].split()[0] for text in reported] == [
        "REJECTED",
        "APPLIED",
        "APPLIED",
    ]


async def test_a_later_proposal_of_a_turn_may_build_on_an_earlier_one() -> None:
    create = call(
        "propose_create_node",
        {"typeKey": "log-node", "key": "$log", "sheet": "0", "reason": "needed"},
    )
    edge = {"sourceKey": "fetch-api", "sourceHandle": "1", "targetKey": "$log", "targetHandle": "0"}
    connect = call("propose_create_edge", {**edge, "reason": "needed"})
    async with open_nba("default") as database:
        schema = (await database.source("default").get_nodes_by_key(GRAPH, ["fetch-api"]))[0]
        assert any(point.id == "1" for _, point in schema.points("out"))
        with ScriptedProvider(Says(calls=[create, connect]), "Both done.") as model:
            setting = setting_on(database, model)
            pending = only(await setting.ask(), ProposalPending)
            assert [a.tool_call_id for a in pending.approvals] == [create.id, connect.id], (
                model.requests
            )
            assert pending.approvals[1].depends_on == (pending.approvals[0].id,)
            await setting.resume(pending.thread_id, decision=Approve())
            events = await setting.resume(pending.thread_id, decision=Approve())
            assert isinstance(events[-1], Completed)
            new = only(events, ActionApplied).approval
            assert new.result.keys["edgesCreated"]


# decided elsewhere, late, or by the wrong hands


async def test_what_was_decided_elsewhere_is_seen_when_the_thread_is_looked_at() -> None:
    async with scripted(Says(calls=[move("root", 7, 7)]), "I see.") as (setting, _):
        pending = only(await setting.ask(), ProposalPending)
        assert only(await setting.resume(pending.thread_id), ProposalPending) == pending
        await setting.approvals.decide(pending.approvals[0].id, Approve(), REVIEWER)
        events = await setting.resume(pending.thread_id)
        assert only(events, ActionApplied).approval.decision.by == "rev"  # type: ignore[union-attr]
        assert isinstance(events[-1], Completed)


async def test_a_stale_proposal_is_reported_as_stale() -> None:
    async with scripted(Says(calls=[move("root", 7, 7)]), "Too late.") as (setting, model):
        pending = only(await setting.ask(), ProposalPending)
        node = await setting.node("root")
        moved = Mutation(
            graph_key=GRAPH, put_nodes=[node.replace(pos_x=900, data={"name": "other"})]
        )
        await setting.source.apply(moved)
        events = await setting.resume(pending.thread_id, decision=Approve())
        assert not of(events, ActionApplied)
        assert only(events, ToolFinished).is_error
        assert await position(setting, "root") == (900, node.pos_y)
    assert "OUT OF DATE" in results(model.requests[-1].messages)[-1]


async def test_a_message_while_a_proposal_waits_leaves_it_open_and_its_outcome_is_reported_later() -> (
    None
):
    async with scripted(Says(calls=[move("root", 7, 7)]), "About that.", "Seen.", "Later.") as (
        setting,
        model,
    ):
        pending = only(await setting.ask(), ProposalPending)
        thread_id = pending.thread_id
        assert shown(await setting.ask("first tell me why", thread_id)) == "About that."
        assert "stays open" in results(model.requests[1].messages)[-1]
        events = await setting.resume(thread_id, decision=Approve())
        assert await position(setting, "root") == (7, 7)
        assert shown(events) == "Seen."
        note = [m for m in model.requests[2].messages if isinstance(m, SystemMessage)][-2]
        assert "Decided since then" in note.content
        assert "APPLIED" in note.content
        assert shown(await setting.ask("and now?", thread_id)) == "Later."
        check_valid(await setting.messages(thread_id))


async def test_a_proposal_that_seemed_not_stored_is_found_next_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with scripted(
        Says(calls=[move("root")]),
        "It could not be stored.",
        "It was, and waits.",
        calls=CallLimits(timeout_s=0.5),
    ) as (setting, model):
        real = setting.approvals.propose

        async def hangs(*asked: Any) -> Any:
            await real(*asked)
            await asyncio.Event().wait()

        async def unseen(**asked: Any) -> Any:
            raise SourceTimeout(source="db", seconds=1)

        with monkeypatch.context() as slow:
            slow.setattr(setting.approvals, "propose", hangs)
            slow.setattr(setting.approvals, "list", unseen)
            events = await setting.ask("move it")
        assert isinstance(events[-1], Completed)
        (approval,) = await setting.approvals.list(by=EDITOR)
        await setting.approvals.decide(approval.id, Approve(), EDITOR)
        assert only(await setting.ask("and now?", events[-1].thread_id), ActionApplied)
    notes = [m.content for m in model.requests[-1].messages if isinstance(m, SystemMessage)]
    assert any(note.startswith("Decided since then") and "APPLIED" in note for note in notes)


async def test_a_forged_or_foreign_approval_leaves_the_turn_waiting() -> None:
    async with scripted(Says(calls=[move("root")]), Says(calls=[move("fetch-api")])) as (
        setting,
        _,
    ):
        mine = only(await setting.ask(), ProposalPending)
        other = only(await setting.ask(), ProposalPending)
        for approval_id in ("forged", other.approvals[0].id):
            with pytest.raises(ApprovalNotFound):
                await setting.resume(mine.thread_id, decision=Approve(), approval_id=approval_id)
        bad = {"type": "move_node", "payload": {"nodeKey": "gone", "posX": 5, "posY": 6}}
        with pytest.raises(ProposalRefused):
            await setting.resume(mine.thread_id, decision=ApproveEdited(bad))
        assert only(await setting.resume(mine.thread_id), ProposalPending) == mine


async def test_stopped_beside_a_proposal_the_thread_still_waits_for_it() -> None:
    slow = Says(calls=[move("root"), call("search_nodes", {"query": "x"})])
    async with scripted(slow, "Done.") as (setting, _):
        turn: AsyncGenerator[Event] = setting.agent.run(None, GRAPH, "go", EDITOR)
        thread_id = (await up_to(turn, TurnStarted)).thread_id
        await up_to(turn, ToolFinished)
        await turn.aclose()
        assert (await setting.threads.get(thread_id, EDITOR)).thread.turn.status == "stopped"
        pending = only(await setting.resume(thread_id), ProposalPending)
        events = await setting.resume(
            thread_id, decision=Approve(), approval_id=pending.approvals[0].id
        )
        assert isinstance(events[-1], Completed)


# restarts


@asynccontextmanager
async def on_file(path: Path, model: ScriptedProvider) -> AsyncGenerator[Setting]:
    async with SqliteDatabase(path) as database:
        await put_sample(database)
        yield setting_on(database, model)


@pytest.mark.slow
async def test_a_restarted_turn_with_two_proposals_decided_elsewhere_completes(
    tmp_path: Path,
) -> None:
    path = tmp_path / "nodius.db"
    calls = [move("root", 1, 1), move("fetch-api", 2, 2)]
    async with (
        ScriptedProvider(Says(text="Both. ", calls=calls)) as model,
        on_file(path, model) as setting,
    ):
        pending = only(await setting.ask(), ProposalPending)
    ids = [approval.id for approval in pending.approvals]
    command = [sys.executable, "-m", "tests.support.decide_elsewhere", str(path), *ids]
    done = await asyncio.to_thread(
        subprocess.run, command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    async with ScriptedProvider("One and one not.") as model, on_file(path, model) as setting:
        events = await setting.resume(pending.thread_id)
        assert events[-1] == Completed(thread_id=pending.thread_id, text="Both. One and one not.")
        assert await position(setting, "root") == (1, 1)
        check_valid(await setting.messages(pending.thread_id))
    reported = results(model.requests[0].messages)
    assert reported[0].startswith("APPLIED")
    assert "not today" in reported[1]


@pytest.mark.parametrize("steps", range(1, 9))
async def test_restarted_after_any_step_a_turn_goes_on_or_has_ended(
    tmp_path: Path, steps: int
) -> None:
    """The process is as dead after so many stored steps: nothing more of it is written."""

    class Died(BaseException):
        pass

    script = [
        Says(text="a", calls=[call("search_nodes", {"query": "error"})]),
        Says(text="b", calls=[move("root", 4, 4), call("read_node_detail", {"key": "root"})]),
        Says(text="c", calls=[call("list_node_edges", {"key": "root"})]),
        "d",
    ]
    async with open_nba("default") as database:
        model = ScriptedProvider(*script)
        setting = setting_on(database, model)
        put = setting.threads.put
        saved = 0

        async def dying(thread: Any, version: Any) -> Any:
            nonlocal saved
            if saved == steps:
                raise Died
            saved += 1
            return await put(thread, version)

        setting.threads.put = dying  # type: ignore[method-assign]
        thread_id = ""
        try:
            events = await setting.ask("go")
            thread_id = only(events, TurnStarted).thread_id
            if isinstance(events[-1], ProposalPending):
                await setting.resume(thread_id, decision=Approve())
        except Died:
            pass
        restarted = setting_on(database, ScriptedProvider())
        thread = (await restarted.threads.list(EDITOR))[0]
        revived = ScriptedProvider("Gone on.")
        restarted = setting_on(database, revived)
        if thread.turn.status == "idle":
            assert shown(await restarted.ask("more", thread.key)) == "Gone on."
            return
        events = await restarted.resume(thread.key)
        if isinstance(events[-1], ProposalPending):
            events = await restarted.resume(thread.key, decision=Approve())
        assert isinstance(events[-1], Completed), events
        assert not of(events, Failed)
        messages = await restarted.messages(thread.key)
        check_valid(messages)
        assert messages[-1] == AssistantMessage(content="Gone on.")
        applied = [a for a in await restarted.approvals.list(by=EDITOR) if a.status == "applied"]
        assert len(applied) <= 1
        revived.check()


LAYOUT: Any = frozenset({"layout"})


def rename(key: str) -> Any:
    arguments = {"nodeKey": key, "changes": {"data.name": "New"}, "reason": "clearer"}
    return call("propose_update_node", arguments)


async def test_a_freed_step_is_applied_and_the_model_goes_on_with_the_outcome() -> None:
    async with scripted(
        Says(calls=[move("root"), move("filter-active")]), Says(text="Moved."), free=LAYOUT
    ) as (setting, model):
        events = await setting.ask("move them")
        assert [event.approval.decision.by for event in of(events, ActionApplied)] == [
            "policy",
            "policy",
        ]
        assert [event.is_error for event in of(events, ToolFinished)] == [False, False]
        assert only(events, Completed).text == "Moved."
        answers = [m.content for m in model.requests[-1].messages if isinstance(m, ToolMessage)]
        assert len(answers) == 2
        assert all(answer.startswith("APPLIED BY POLICY") for answer in answers)
        node = await setting.node("root")
        assert node.pos_x == 10


async def test_a_step_waits_as_a_whole_when_one_of_its_proposals_needs_a_person() -> None:
    for second in (rename("filter-active"), move("filter-active", askFirst=True)):
        async with scripted(Says(calls=[move("root"), second]), free=LAYOUT) as (setting, _):
            events = await setting.ask("change them")
            pending = only(events, ProposalPending)
            assert [one.needs_person for one in pending.approvals] == [False, True]
            assert not of(events, ActionApplied)


async def test_what_a_crash_left_undecided_is_decided_when_the_turn_is_taken_up() -> None:
    with ScriptedProvider(Says(calls=[move("root")]), Says(text="Moved.")) as model:
        async with open_nba("default") as database:
            asked = setting_on(database, model)  # everything needs a person
            pending = only(await asked.ask("move it"), ProposalPending)
            (waiting,) = pending.approvals
            store = asked.approvals  # as if it had been made free, and the process killed
            await store.context.put(waiting.changed(needs_person=False, reasons=()))
            freed = setting_on(database, model, free=LAYOUT)
            events = await freed.resume(pending.thread_id)
            assert only(events, ActionApplied).approval.id == waiting.id
            assert only(events, Completed).text == "Moved."


async def test_the_same_change_again_is_answered_with_what_waits_or_with_the_rejection() -> None:
    async with scripted(
        Says(calls=[move("root")]), Says(calls=[move("root")]), Says(text="Then not.")
    ) as (
        setting,
        _,
    ):
        pending = only(await setting.ask("move it"), ProposalPending)
        (waiting,) = pending.approvals
        await setting.approvals.decide(waiting.id, Reject("it stands well"), REVIEWER)
        events = await setting.resume(pending.thread_id)
        assert only(events, Completed).text == "Then not."
        assert "it stands well" in of(events, ToolFinished)[-1].result_text
        assert len(await setting.approvals.list(by=EDITOR)) == 1
