"""Runs whose process ended between an answer of the model and its proposals go on as without."""

import asyncio
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from graphrag.approvals import Approvals, Reject
from graphrag.llm.base import AssistantMessage
from graphrag.sessions.phases import EndReason, Phase
from tests.support.agents import REVIEWER
from tests.support.automations import MINUTE, TWO, Night, finish, move, night_on, scripted_night
from tests.support.scripted_provider import Says, ScriptedProvider


async def _left_at_proposal(night: Night, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Begin the run that is due, and end its process while it stores a proposal; 0: the first."""
    propose = Approvals.propose
    numbers = count()
    reached = asyncio.Event()

    async def hangs(*args: Any, **more: Any) -> Any:
        if next(numbers) == number:
            reached.set()
            await asyncio.Event().wait()
        return await propose(*args, **more)

    with monkeypatch.context() as patched:
        patched.setattr(Approvals, "propose", hangs)
        await night.scheduler.tick()
        async with asyncio.timeout(60):
            await reached.wait()
        await night.scheduler.close()


@pytest.mark.parametrize("stored", [0, 1, 2])
async def test_what_the_model_called_is_proposed_by_the_server_that_takes_the_run_up(
    stored: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    moves = [move(x=number) for number in range(3)]
    async with scripted_night(Says(calls=moves)) as (first, _):
        made = await first.automation()
        first.clock.now = TWO
        await _left_at_proposal(first, monkeypatch, stored)
        assert len(await first.approvals.list(by=REVIEWER)) == stored

        async with ScriptedProvider(finish()) as model:
            second = night_on(first.database, model, clock=first.clock)
            await second.run_at(TWO + MINUTE)
            assert (await second.session(made)).phase is Phase.WAITING_VALIDATION
            assert model.requests == []
            proposed = await second.approvals.list(by=REVIEWER)
            (run,) = await second.runs(made)
            asked = [
                call.id
                for m in run.messages
                if isinstance(m, AssistantMessage)
                for call in m.tool_calls
            ]
            assert sorted(each.tool_call_id for each in proposed) == sorted(asked)
            for each in proposed:
                await second.approvals.decide(each.id, Reject("no"), REVIEWER)
            await second.run_at(TWO + 2 * MINUTE)
            session = await second.session(made)
            assert (session.end_reason, session.roundtrips) == (EndReason.COMPLETED, 2)
            assert (session.proposed, len(model.requests)) == (3, 1)
            told = "\n".join(str(m.content) for m in model.requests[0].messages)
            assert "interrupted" not in told
            assert "another message" not in told


async def test_a_call_that_was_cut_off_is_not_proposed_after_a_kill_either(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cut = replace(move(), id="cut", arguments=move().arguments[:-1])
    said = Says(calls=[move(x=2)], cut=[cut])
    async with scripted_night(said) as (first, _):
        made = await first.automation()
        first.clock.now = TWO
        await _left_at_proposal(first, monkeypatch, 0)
        second = night_on(first.database, ScriptedProvider(), clock=first.clock)
        await second.run_at(TWO + MINUTE)
        assert (await second.session(made)).phase is Phase.WAITING_VALIDATION
        (proposal,) = await second.approvals.list(by=REVIEWER)
        assert proposal.tool_call_id != "cut"
