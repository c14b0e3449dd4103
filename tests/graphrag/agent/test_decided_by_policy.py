"""What no level demands a person for does not make a turn wait: the model goes on with the outcome."""

from typing import Any

from datasources.mock import open_nba
from graphrag.agent.events import ActionApplied, Completed, ProposalPending, ToolFinished
from graphrag.approvals import Reject
from graphrag.llm.base import ToolMessage
from tests.support.agents import EDITOR, REVIEWER, of, only, scripted, setting_on
from tests.support.scripted_provider import Says, ScriptedProvider, call

LAYOUT: Any = frozenset({"layout"})


def move(key: str, x: int = 10, **more: Any) -> Any:
    return call("propose_move_node", {"nodeKey": key, "posX": x, "posY": 20, "reason": "tidier", **more})


def rename(key: str) -> Any:
    arguments = {"nodeKey": key, "changes": {"data.name": "New"}, "reason": "clearer"}
    return call("propose_update_node", arguments)


async def test_a_freed_step_is_applied_and_the_model_goes_on_with_the_outcome() -> None:
    async with scripted(
        Says(calls=[move("root"), move("filter-active")]), Says(text="Moved."), free=LAYOUT
    ) as (setting, model):
        events = await setting.ask("move them")
        assert [event.approval.decision.by for event in of(events, ActionApplied)] == ["policy", "policy"]
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
            await store.put(waiting.changed(needs_person=False, reasons=()))
            freed = setting_on(database, model, free=LAYOUT)
            events = await freed.resume(pending.thread_id)
            assert only(events, ActionApplied).approval.id == waiting.id
            assert only(events, Completed).text == "Moved."


async def test_the_same_change_again_is_answered_with_what_waits_or_with_the_rejection() -> None:
    async with scripted(Says(calls=[move("root")]), Says(calls=[move("root")]), Says(text="Then not.")) as (
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
