"""How a call finds its model and its session, and what is left of it where there is none."""

import asyncio
from typing import Any

import pytest

from graphrag.agent.thread_store import ThreadNotFound
from graphrag.realtime.model_side import RealtimeRefused, RealtimeUnreachable
from tests.support.agent_life import Api
from tests.support.held_calls import ended, held_call, opened_call, shop
from tests.support.timeless import by_clock
from tools.http.fetch import HttpAnswer, RequestFailed


@pytest.mark.parametrize(
    ("failure", "connections"),
    [
        (RealtimeUnreachable(place="test", model="m", why="down"), 2),
        (RealtimeRefused(place="test", model="m", why="key"), 1),
    ],
)
@by_clock
async def test_without_a_model_the_call_ends_with_what_is_owed(
    failure: Exception, connections: int
) -> None:
    async with held_call(shop(), fails=[failure, failure]) as call:
        reason, part = await ended(call)
        assert [each.path for each in call.api.sent] == ["/calls", "/calls"]
    assert (reason, part.outcome) == ("model_unreachable", "abandoned")
    assert (len(call.models), call.records.stored["end_reason"]) == (
        connections,
        "model_unreachable",
    )


@by_clock
async def test_a_connection_that_hangs_is_given_up_and_tried_once_more() -> None:
    async with held_call(shop()) as call:
        call.models[0].held = asyncio.Event()
        await call.rest(6)
        await call.until(lambda: len(call.models) == 2)
        await call.open()
        assert (await ended(call, hangs_up=True))[0] == "caller_hung_up"


FETCHED: dict[str, Any] = {
    "mode": "config_url",
    "url": "{{base_url}}/session",
    "response_mapping": {"instructions": "$.prompt", "voice": "$.voice"},
}
DOWN = RequestFailed("unreachable")


@by_clock
async def test_a_call_whose_session_is_not_to_be_had_leaves_no_conversation() -> None:
    async with held_call(
        shop() | {"session": FETCHED}, api=Api(answers={"/session": DOWN})
    ) as call:
        over = await call.over()
        with pytest.raises(ThreadNotFound):
            await call.thread()
        assert [each.path for each in call.api.sent] == ["/session", "/session"]
    assert (over.reason, call.records.stored["end_reason"]) == ("session_failed", "session_failed")


@by_clock
async def test_a_session_is_fetched_beside_the_connection_and_may_fall_back() -> None:
    session = FETCHED | {"fallback": {"instructions": "Take a message."}}
    async with opened_call(
        shop() | {"session": session}, api=Api(answers={"/session": DOWN})
    ) as call:
        assert "Take a message." in call.model.sent[0]["session"]["instructions"]
        await ended(call, hangs_up=True)
    answer = HttpAnswer(status=200, value={"prompt": "Sell.", "voice": "coral"})
    api = Api(answers={"/session": answer}, held={"/session": asyncio.Event()})
    async with held_call(shop() | {"session": FETCHED}, api=api) as call:
        call.phone.sound(300)
        await call.until(lambda: call.models[0].opened)  # it waits for nothing
        api.held["/session"].set()
        await call.open()
        assert call.model.sent[0]["session"]["audio"]["output"]["voice"] == "coral"
        assert call.model.kinds()[1] == "input_audio_buffer.append"  # what was said meanwhile
        await ended(call, hangs_up=True)


@by_clock
async def test_a_caller_who_hangs_up_before_the_session_is_there_leaves_nothing() -> None:
    api = Api(held={"/session": asyncio.Event()})
    async with held_call(shop() | {"session": FETCHED}, api=api) as call:
        await call.rest(0.1)
        assert (await call.hang_up()).reason == "caller_hung_up"
        with pytest.raises(ThreadNotFound):
            await call.thread()
