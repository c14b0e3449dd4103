"""Each end and each wait of a run is announced once, by any way and whatever dies meanwhile."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from graphrag.agent.thread_store import Thread, session_of
from graphrag.approvals import Approve
from graphrag.automations.automation import Automation
from graphrag.automations.beginning import begin_run
from graphrag.automations.run_listeners import RunListeners
from graphrag.sessions.phases import EndReason, Phase
from tests.support.agents import EDITOR, GRAPH, REVIEWER
from tests.support.automations import DAY, TWO, Night, finish, move, night_on
from tests.support.chosen_database import sample_database
from tests.support.scripted_provider import Says, ScriptedProvider

Announced = list[tuple[str, Phase, EndReason | None]]


def listeners(announced: Announced, *, fails: int = 0) -> RunListeners:
    """Notes what a server announces whose first attempts to store it fail."""
    left = fails

    async def stored(_: Thread) -> bool:
        nonlocal left
        left -= 1
        return left < 0

    def noted(thread: Thread) -> None:
        announced.append((thread.key, session_of(thread).phase, session_of(thread).end_reason))

    return RunListeners(left=stored, announced=noted)


async def stop(night: Night, made: Automation, run: Thread) -> None:
    await night.control.stop(run.key, EDITOR)


async def replace_it(night: Night, made: Automation, run: Thread) -> None:
    waiting = await night.automations.sessions({"automationId": made.key, "open": True})
    automation = (await night.stored(made)).model_copy(update={"next_time": TWO + DAY})
    await begin_run(
        night.approvals, night.worker.runner.events, automation, TWO + 1, waiting, trigger="manual"
    )


async def remove_it(night: Night, made: Automation, run: Thread) -> None:
    await night.automations.remove(made.key)
    night.clock.now += 10 * DAY


async def delete_graph(night: Night, made: Automation, run: Thread) -> None:
    await night.database.source("default").delete_graph(GRAPH)
    await night.approvals.close_for_gone_graph(GRAPH)


async def decide(night: Night, made: Automation, run: Thread) -> None:
    for approval in await night.approvals.list(status="pending", by=REVIEWER):
        await night.approvals.decide(approval.id, Approve(), REVIEWER)


WAYS: list[Callable[[Night, Automation, Thread], Awaitable[None]]] = [
    stop,
    replace_it,
    remove_it,
    delete_graph,
    decide,
]


@pytest.mark.parametrize("way", WAYS)
async def test_a_run_that_waits_is_announced_once_to_have_ended_whatever_ended_it(way: Any) -> None:
    announced: Announced = []
    async with sample_database() as database:
        model = ScriptedProvider(Says(calls=[move()]), *[finish()] * 4)
        night = night_on(database, model, listeners=listeners(announced))
        made = await night.ran()
        run = (await night.runs(made))[0]
        assert announced == [(run.key, Phase.WAITING_VALIDATION, None)]
        await way(night, made, run)
        await night.scheduler.tick()
        for _ in range(3):
            await night.run_at(int(night.clock.now) + 60_001)
        ended = [one for one in announced if one[0] == run.key and one[1] is Phase.COMPLETED]
        assert len(ended) == 1, announced
        assert (
            ended[0][2] is session_of((await night.automations.session(run.key)).thread).end_reason
        )


async def test_what_could_not_be_stored_is_announced_by_the_next_tick_of_whichever_server() -> None:
    first: Announced = []
    second: Announced = []
    async with sample_database() as database:
        gone = listeners(first, fails=100)  # its database answers no more
        one = night_on(database, ScriptedProvider(finish()), listeners=gone)
        made = await one.ran()
        assert first == []
        other = night_on(database, ScriptedProvider(), clock=one.clock, listeners=listeners(second))
        await other.scheduler.run_due()
        await one.scheduler.run_due()
        [run] = await other.runs(made)
    assert (first, second) == ([], [(run.key, Phase.COMPLETED, EndReason.COMPLETED)])
