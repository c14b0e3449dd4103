"""An answer that holds nothing is paid and counted; the third in a row ends the turn or run. A call
that is described in part is asked for once more.
"""

from typing import Any

import pytest

from graphrag.agent.events import Completed, ProposalPending, TurnStarted
from graphrag.llm.base import SystemMessage
from graphrag.llm.errors import ModelFailed
from graphrag.sessions.phases import EndReason, Phase
from tests.support.agents import EDITOR, of, only, scripted, shown
from tests.support.automations import MINUTE, TWO, scripted_night
from tests.support.scripted_provider import Says, call
from tests.support.valid_history import check_valid

NOTHING = Says()
READ = Says(calls=[call("read_graph_overview")])
ASKED = 110
"""Tokens of one call of the scripted model."""


def notes(request: Any) -> list[str]:
    return [
        m.content
        for m in request.messages
        if isinstance(m, SystemMessage) and "was empty" in m.content
    ]


async def test_the_third_empty_answer_in_a_row_ends_the_turn_with_the_reason_and_all_are_counted() -> (
    None
):
    async with scripted(NOTHING, NOTHING, NOTHING, "Here.") as (setting, model):
        events = await setting.ask()
        thread_id = only(events, TurnStarted).thread_id
        assert isinstance(events[-1], Completed)
        assert shown(events).startswith("The model gave no usable answer three times in a row")
        assert len(model.requests) == 3
        assert [len(notes(request)) for request in model.requests] == [0, 1, 2]
        assert (await setting.threads.get(thread_id, EDITOR)).thread.total_tokens == 3 * ASKED
        check_valid(await setting.messages(thread_id))
        assert shown(await setting.ask("Again?", thread_id)) == "Here."


async def test_empty_answers_with_a_call_between_them_are_not_in_a_row() -> None:
    async with scripted(NOTHING, READ, NOTHING, READ, NOTHING, "Here.") as (setting, _):
        assert shown(await setting.ask()) == "Here."


async def test_three_empty_answers_end_a_run_with_the_reason() -> None:
    async with scripted_night(NOTHING, NOTHING, NOTHING) as (night, model):
        made = await night.ran()
        session = await night.session(made)
        assert session.end_reason is EndReason.COMPLETED
        assert session.report is not None
        assert (session.report.outcome, "it was empty" in session.report.text) == ("failed", True)
        assert (len(model.requests), session.usage.tokens) == (3, 3 * ASKED)


@pytest.mark.parametrize(
    "first",
    [NOTHING, READ, Says(text="I think."), Says(then=ModelFailed(provider="p", reason="r"))],
)
async def test_no_run_asks_again_once_its_budget_is_spent_whatever_came_of_the_call(
    first: Says,
) -> None:
    async with scripted_night(first) as (night, model):
        made = await night.ran(budget={"tokens": ASKED})
        for hour in range(1, 26):
            await night.run_at(TWO + hour * 60 * MINUTE)
        session = await night.session(made)
        assert (session.phase, session.end_reason) == (Phase.COMPLETED, EndReason.LIMIT_REACHED)
        assert (len(model.requests), session.usage.tokens) == (1, ASKED)


DESCRIBED = (
    'To rename it, call `propose_update_node`:\n```json\n{"nodeKey": "root", "colour": "red"}\n```'
)
"""No call: the tool has no such argument."""
RENAME = call(
    "propose_update_node", {"nodeKey": "root", "changes": {"data.name": "Begin"}, "patches": []}
)


async def test_a_description_that_is_no_whole_call_is_asked_for_once() -> None:
    async with scripted(DESCRIBED, Says(calls=[RENAME])) as (setting, model):
        events = await setting.ask("Rename root to Begin")
        assert len(of(events, ProposalPending)) == 1
        noted = [m.content for m in model.requests[1].messages if isinstance(m, SystemMessage)]
        assert any("described the call" in note for note in noted)


async def test_a_second_description_is_the_answer_and_a_question_about_a_tool_is_answered_at_once() -> (
    None
):
    async with scripted(DESCRIBED, DESCRIBED) as (setting, _):
        assert isinstance((await setting.ask("Rename root to Begin"))[-1], Completed)
    async with scripted(DESCRIBED) as (setting, model):
        assert isinstance(
            (await setting.ask("Which of your tools give a node a name?"))[-1], Completed
        )
        assert len(model.requests) == 1
