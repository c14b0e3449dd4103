"""A turn whose process is killed is taken over: nothing waits for the dead, nothing is lost
or done twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from graphrag.agent.events import Completed, PendingQuestion, ProposalPending
from graphrag.agent.history import repaired, unanswered
from graphrag.agent.thread_store import ThreadBusy
from graphrag.approvals import Approve
from graphrag.leases import KIND
from graphrag.llm.base import ToolMessage, UserMessage
from tests.concurrency import turn_workers
from tests.concurrency.turn_workers import ASKED, MOVE, Asking, Reader
from tests.datasources.sqlite.helpers import line_of, start
from tests.support.agents import EDITOR, Setting, of, setting_on
from tests.support.chosen_database import database_in
from tests.support.databases import nba_file
from tests.support.scripted_provider import ScriptedProvider
from tests.support.valid_history import check_valid
from tools.session_tools import QUESTIONS

pytestmark = pytest.mark.slow

WRITES = 6
"""Of a turn that reads, proposes and waits: hold, question, read answered, move asked, approval,
wait. Giving the hold back is the seventh.
"""


@pytest.fixture
async def file(tmp_path: Path) -> Path:
    """A database file with the sample graph."""
    return await nba_file(tmp_path)


async def died(path: Path, where: str, writes: int = 0) -> str:
    process = start(turn_workers.run_turn_and_die, path, where, writes)
    output, _ = await asyncio.to_thread(process.communicate)
    assert process.returncode == -signal.SIGKILL, output
    return output


async def only_thread(setting: Setting) -> str | None:
    threads = await setting.threads.list(EDITOR)
    assert len(threads) <= 1
    return threads[0].key if threads else None


async def check_taken_over(setting: Setting, thread_id: str) -> None:
    """Both ways on work: with another message, and what waited is still decided
    once and reported.
    """
    stored = (await setting.threads.get(thread_id, EDITOR)).thread
    check_valid(repaired(stored.messages, missing="-"))
    open_calls = {a.tool_call_id: a for a in await setting.approvals.list(by=EDITOR) if a.is_open}
    assert len(open_calls) <= 1
    other = setting_on(setting.database, ScriptedProvider("Here I am."))
    assert isinstance((await other.ask("And now?", thread_id))[-1], Completed)
    messages = await setting.messages(thread_id)
    check_valid(messages)
    assert not unanswered(messages)
    still = {a.tool_call_id: a for a in await setting.approvals.list(by=EDITOR) if a.is_open}
    assert still.keys() == open_calls.keys()
    for approval in still.values():
        decided = await setting.approvals.decide(
            approval.id, Approve(), EDITOR, thread_id=thread_id
        )
        assert decided.status == "applied"
        node = await setting.node("root")
        assert node is not None
        assert (node.pos_x, node.pos_y) == (5, 6)
        with ScriptedProvider("Moved.") as model:
            received = await setting_on(setting.database, model).ask("Done?", thread_id)
            assert isinstance(received[-1], Completed)
            assert any("APPLIED: move " in m.content for m in model.requests[0].messages)
    assert await setting.database.records("default").get(KIND, f"turn/{thread_id}") is None


@pytest.mark.parametrize("writes", range(WRITES + 2))
async def test_killed_between_two_stored_steps_the_next_message_is_answered(
    file: Path, writes: int
) -> None:
    output = await died(file, "write", writes)
    assert output == (
        "unharmed 0\n" if writes == WRITES + 1 else ""
    )  # the numbers are those of the code
    async with database_in(file) as database:
        setting = setting_on(database, Reader())
        thread_id = await only_thread(setting)
        if thread_id is None:
            assert writes <= 1  # nothing of it was stored
            return
        await check_taken_over(setting, thread_id)


@pytest.mark.parametrize("where", ["stream", "tool"])
async def test_killed_in_the_models_answer_or_in_a_tool_the_turn_is_resumed(
    file: Path, where: str
) -> None:
    assert await died(file, where) == ""
    async with database_in(file) as database:
        setting = setting_on(database, Reader())
        thread_id = await only_thread(setting)
        assert thread_id is not None
        assert (await setting.threads.get(thread_id, EDITOR)).thread.turn.status == "running"
        events = await setting.resume(thread_id)
        assert isinstance(events[-1], ProposalPending)
        (approval,) = await setting.approvals.list(by=EDITOR)
        assert approval.tool_call_id.startswith(MOVE.id)
        questions = [m for m in await setting.messages(thread_id) if isinstance(m, UserMessage)]
        assert len(questions) == 1
        await check_taken_over(setting, thread_id)


@pytest.mark.parametrize("writes", range(2, WRITES))
async def test_killed_after_any_step_the_turn_is_resumed_with_one_proposal(
    file: Path, writes: int
) -> None:
    await died(file, "write", writes)
    async with database_in(file) as database:
        setting = setting_on(database, Reader())
        thread_id = await only_thread(setting)
        assert thread_id is not None
        events = await setting.resume(thread_id)
        assert isinstance(events[-1], ProposalPending)
        assert len([a for a in await setting.approvals.list(by=EDITOR) if a.is_open]) == 1
        await check_taken_over(setting, thread_id)


@contextlib.contextmanager
def holding(file: Path) -> Iterator[object]:
    process = start(turn_workers.hold_a_turn, file)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


async def begun(process: object) -> str:
    """Wait until a process has a turn under way; return the thread."""
    began = (await line_of(process)).split()  # type: ignore[arg-type]
    assert began[0] == "TurnStarted"
    assert (await line_of(process)).startswith("Token")  # type: ignore[arg-type]
    return began[1]


async def test_a_thread_is_busy_while_its_process_lives_and_free_once_it_is_killed(
    file: Path,
) -> None:
    with holding(file) as process:
        thread_id = await begun(process)
        async with database_in(file) as database:
            setting = setting_on(database, ScriptedProvider("Free."))
            with pytest.raises(ThreadBusy):
                await setting.ask("me too", thread_id)
            os.kill(process.pid, signal.SIGKILL)  # type: ignore[attr-defined]
            await asyncio.to_thread(process.wait)  # type: ignore[attr-defined]
            assert isinstance((await setting.ask("me too", thread_id))[-1], Completed)
            check_valid(await setting.messages(thread_id))


async def test_a_turn_is_stopped_from_another_process(file: Path) -> None:
    with holding(file) as process:
        thread_id = await begun(process)
        async with database_in(file) as database:
            setting = setting_on(database, ScriptedProvider())
            assert await setting.agent.stop(thread_id, EDITOR)
            assert await line_of(process) == f"Completed {thread_id} True"  # type: ignore[arg-type]
            await asyncio.to_thread(process.wait)  # type: ignore[attr-defined]
            stored = (await setting.threads.get(thread_id, EDITOR)).thread
            assert (stored.turn.status, stored.messages[-1].content) == ("stopped", "Once ")


async def test_a_frozen_process_that_wakes_after_its_hold_ended_stores_nothing(file: Path) -> None:
    with holding(file) as process:
        thread_id = await begun(process)
        os.kill(process.pid, signal.SIGSTOP)  # type: ignore[attr-defined]
        async with database_in(file) as database:
            records = database.records("default")
            found = await records.get(KIND, f"turn/{thread_id}")
            assert found is not None
            late = {**found.data, "expiresTime": 0}  # its time has passed
            await records.put(
                type(found)(kind=KIND, key=found.key, data=late), expected_version=found.version
            )
            setting = setting_on(database, ScriptedProvider("Mine."))
            assert of(await setting.ask("me", thread_id), Completed)
            before = await setting.threads.get(thread_id, EDITOR)
            os.kill(process.pid, signal.SIGCONT)  # type: ignore[attr-defined]
            assert (await line_of(process)).startswith("Failed")  # type: ignore[arg-type]
            await asyncio.to_thread(process.wait)  # type: ignore[attr-defined]
            assert (await setting.threads.get(thread_id, EDITOR)).version == before.version


@pytest.mark.parametrize("writes", range(5))
async def test_killed_anywhere_in_an_answer_the_question_waits_or_has_its_one_answer(
    file: Path, writes: int
) -> None:
    process = start(turn_workers.answer_and_die, file, writes)
    output, _ = await asyncio.to_thread(process.communicate)
    assert process.returncode == -signal.SIGKILL, output
    async with database_in(file) as database:
        setting = setting_on(database, Asking())
        thread_id = await only_thread(setting)
        assert thread_id is not None
        thread = (await setting.threads.get(thread_id, EDITOR)).thread
        if PendingQuestion.of(thread) is not None:
            events = await setting.resume(
                thread_id, response="Date", features=frozenset({QUESTIONS})
            )
            assert isinstance(events[-1], Completed)
        elif thread.turn.status == "running":
            assert isinstance((await setting.resume(thread_id))[-1], Completed)
        messages = await setting.messages(thread_id)
        check_valid(messages)
        answers = [
            m.content for m in messages if isinstance(m, ToolMessage) and m.name == ASKED.name
        ]
        assert answers == ["The person answered: Date"]
