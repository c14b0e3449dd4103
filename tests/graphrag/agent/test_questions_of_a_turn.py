"""Questions of a model to a person: asked where they can be shown, answered once, closed
by a message.
"""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from graphrag.agent.events import (
    AlreadyAnswered,
    Completed,
    Event,
    NoQuestion,
    PendingQuestion,
    ProposalPending,
    QuestionAsked,
    ToolFinished,
    TurnStarted,
)
from graphrag.agent.thread_store import NothingToResume, ThreadBusy, ThreadNotFound
from graphrag.approvals import Approve
from graphrag.llm.base import Message, SystemMessage, ToolMessage
from tests.graphrag.agent.test_proposals_of_a_turn import move, on_file
from tests.support.agents import (
    EDITOR,
    REVIEWER,
    Setting,
    collected,
    of,
    only,
    scripted,
    setting_on,
)
from tests.support.scripted_provider import Asked, Says, ScriptedProvider, call
from tests.support.valid_history import check_valid
from tools.session_tools import QUESTIONS, Response, WrongResponse

SHOWN = frozenset({QUESTIONS})
CHOICE = {
    "type": "MultipleChoice",
    "data": {"question": "Which check?", "options": ["Amount", "Date"]},
}
SURE = {"type": "Validation", "data": {"message": "All of them?"}}


def asks(question: dict[str, Any] = CHOICE, **more: Any) -> Says:
    return Says(text="One thing. ", calls=[call("ask_person", question)], **more)


async def asked(setting: Setting, thread_id: str | None = None, message: str = "do it") -> str:
    events = await setting.ask(message, thread_id, features=SHOWN)
    return only(events, QuestionAsked).thread_id


async def answer(setting: Setting, thread_id: str, response: Response, **more: Any) -> list[Event]:
    return await setting.resume(thread_id, response=response, features=SHOWN, **more)


def answers(messages: tuple[Message, ...] | list[Message]) -> list[str]:
    return [m.content for m in messages if isinstance(m, ToolMessage) and m.name == "ask_person"]


async def pending(setting: Setting, thread_id: str) -> Any:
    return (await setting.threads.get(thread_id, EDITOR)).thread.pending_interrupt


@pytest.mark.parametrize(
    ("question", "response", "word"),
    [(CHOICE, "Date", "Date"), (SURE, True, "yes"), (SURE, False, "no")],
)
async def test_a_question_waits_and_its_answer_goes_to_the_model(
    question: dict[str, Any], response: Response, word: str
) -> None:
    async with scripted(asks(question), "Then so.") as (setting, model):
        events = await setting.ask("do it", features=SHOWN)
        ending = only(events, QuestionAsked)
        assert events[-1] == ending
        stored = (await setting.threads.get(ending.thread_id, EDITOR)).thread
        assert stored.turn.status == "waiting"
        call_id = ending.asked.call_id
        assert stored.pending_interrupt["type"] == "question"
        assert stored.pending_interrupt["callId"] == call_id
        assert stored.pending_interrupt["module"]["type"] == question["type"]
        assert PendingQuestion.of(stored) == ending.asked
        more = await answer(setting, ending.thread_id, response)
        assert more[-1] == Completed(thread_id=ending.thread_id, text="One thing. Then so.")
        assert only(more, ToolFinished).call_id == call_id
        assert await pending(setting, ending.thread_id) is None
        check_valid(await setting.messages(ending.thread_id))
    (received,) = answers(model.requests[-1].messages)
    assert received == f"The person answered: {word}"


async def test_who_resumes_without_showing_questions_gets_none_of_a_turn_that_asked() -> None:
    async with scripted(asks(), "Fine.") as (setting, _):
        thread_id = await asked(setting)
        for more in ({}, {"decision": Approve()}, {"grant_rounds": True}):
            with pytest.raises(NothingToResume):
                await setting.resume(thread_id, **more)
        (again,) = of(await setting.resume(thread_id, features=SHOWN), QuestionAsked)
        assert again.text == "One thing. "
        assert isinstance((await answer(setting, thread_id, "Date"))[-1], Completed)


async def test_a_question_beside_another_call_is_refused_and_nothing_of_the_step_runs() -> None:
    both = Says(calls=[call("ask_person", CHOICE), move("root"), call("read_graph_overview")])
    async with scripted(both, asks(), "Good.") as (setting, model):
        thread_id = await asked(setting)
        assert await setting.approvals.list(by=EDITOR) == []
        await answer(setting, thread_id, "Amount")
    refused = [m for m in model.requests[1].messages if isinstance(m, ToolMessage)]
    assert len(refused) == 3
    for message in refused:
        assert message.is_error
        assert "ask_person alone, or the other calls without it" in message.content


async def test_another_shape_is_answered_with_what_is_wrong_and_can_be_put_right() -> None:
    wrong = asks({"type": "Slider", "data": {"min": 1}})
    async with scripted(wrong, asks(SURE), "Good.") as (setting, model):
        thread_id = await asked(setting)
        await answer(setting, thread_id, True)
    first = answers(model.requests[1].messages)[0]
    assert "'MultipleChoice' or 'Validation'" in first
    assert "example" in first


async def test_a_response_that_is_none_leaves_the_question_as_it_was() -> None:
    async with scripted(asks(), "Good.") as (setting, model):
        thread_id = await asked(setting)
        before = await pending(setting, thread_id)
        for response in ("Colour", "", True):
            with pytest.raises(WrongResponse, match="'Amount', 'Date'"):
                await answer(setting, thread_id, response)
        assert await pending(setting, thread_id) == before
        with pytest.raises(ThreadNotFound):
            await answer(setting, thread_id, "Date", by=REVIEWER)
        await answer(setting, thread_id, "Date")
    assert len(answers(model.requests[-1].messages)) == 1


async def test_of_two_answers_the_first_counts_and_the_second_is_refused_with_it() -> None:
    begun = asyncio.Event()
    held = asyncio.Event()

    def slowly(_: Asked) -> Says:
        begun.set()
        return Says(text="Good.", held=held)

    async with scripted("Hello.", asks(), slowly) as (setting, model):
        plain = only(await setting.ask("hello"), TurnStarted).thread_id
        with pytest.raises(NoQuestion):
            await answer(setting, plain, "Date")
        thread_id = await asked(setting)
        other = setting_on(setting.database, ScriptedProvider())
        first = asyncio.create_task(answer(setting, thread_id, "Date"))
        await begun.wait()
        with pytest.raises(AlreadyAnswered, match="Date"):
            await answer(other, thread_id, "Amount")
        held.set()
        assert isinstance((await first)[-1], Completed)
        with pytest.raises(AlreadyAnswered, match="Date"):
            await answer(other, thread_id, "Amount")
    assert answers(model.requests[-1].messages) == ["The person answered: Date"]


@pytest.mark.parametrize("rounds", [*range(20)])
async def test_two_answers_at_once_are_never_both_taken(rounds: int) -> None:
    async with scripted(asks(), "Good.") as (setting, model):
        thread_id = await asked(setting)
        other = setting_on(setting.database, ScriptedProvider())

        async def late(turns: int) -> list[Event]:
            for _ in range(turns):
                await asyncio.sleep(0)
            return await answer(other, thread_id, "Amount")

        found = await asyncio.gather(
            answer(setting, thread_id, "Date"), late(rounds), return_exceptions=True
        )
        assert isinstance(found[1], AlreadyAnswered | ThreadBusy)
    assert answers(model.requests[-1].messages) == ["The person answered: Date"]


async def test_text_typed_in_its_place_closes_a_question() -> None:
    async with scripted(asks(), "Something else then.") as (setting, model):
        thread_id = await asked(setting)
        assert isinstance((await setting.ask("forget it", thread_id))[-1], Completed)
        assert await pending(setting, thread_id) is None
        with pytest.raises(AlreadyAnswered):
            await answer(setting, thread_id, "Date")
        check_valid(await setting.messages(thread_id))
    assert answers(model.requests[-1].messages)[0].startswith("CLOSED")


async def test_a_yes_decides_no_proposal_and_an_open_one_does_not_hold_the_answer_up() -> None:
    async with scripted(
        Says(calls=[move("root")]), asks(SURE), "Still to be decided.", "Moved."
    ) as (
        setting,
        model,
    ):
        waits = only(await setting.ask("move it", features=SHOWN), ProposalPending)
        thread_id = await asked(setting, waits.thread_id, "and?")
        assert isinstance((await answer(setting, thread_id, True))[-1], Completed)
        (approval,) = await setting.approvals.list(by=EDITOR)
        assert approval.is_open
        await setting.approvals.decide(approval.id, Approve(), EDITOR)
        assert isinstance((await setting.ask("and now?", thread_id))[-1], Completed)
    notes = [m.content for m in model.requests[-1].messages if isinstance(m, SystemMessage)]
    assert any("APPLIED" in note for note in notes)


async def test_a_question_outlives_a_restart_and_is_answered_from_another_device(
    tmp_path: Path,
) -> None:
    async with ScriptedProvider(asks()) as model, on_file(tmp_path / "nodius.db", model) as setting:
        thread_id = await asked(setting)
    async with (
        ScriptedProvider("Good.") as model,
        on_file(tmp_path / "nodius.db", model) as setting,
    ):
        (again,) = of(await setting.resume(thread_id, features=SHOWN), QuestionAsked)
        assert again.asked.question.card["responses"] == ["Amount", "Date"]
        assert isinstance((await answer(setting, thread_id, "Date"))[-1], Completed)


async def test_an_answer_given_before_the_model_failed_is_kept_for_the_next_try() -> None:
    async with scripted(asks(), ConnectionError("gone"), "Good.") as (setting, model):
        thread_id = await asked(setting)
        await answer(setting, thread_id, "Date")
        assert (await setting.threads.get(thread_id, EDITOR)).thread.turn.status == "failed"
        assert isinstance((await setting.resume(thread_id))[-1], Completed)
    assert answers(model.requests[-1].messages) == ["The person answered: Date"]


async def test_a_question_after_more_rounds_than_allowed_is_asked_when_they_are_granted() -> None:
    reads = [Says(calls=[call("search_nodes", {"query": f"x{i}"})]) for i in range(5)]
    async with scripted(*reads, asks(), "Good.") as (setting, _):
        thread_id = only(await setting.ask(features=SHOWN), TurnStarted).thread_id
        events = await collected(
            setting.agent.resume(thread_id, EDITOR, grant_rounds=True, features=SHOWN)
        )
        assert only(events, QuestionAsked).asked.question.card["text"] == "Which check?"
        await answer(setting, thread_id, "Date")
