"""Each fault that the double can be asked for happens, once, and what is sound around it stays so."""

from __future__ import annotations

import asyncio

import pytest

from graphrag.voice.model_side import RealtimeUnreachable
from tests.graphrag.voice.realtime.conversing import Client, conversing
from tests.support.faulty_double import Faults


async def ask(client: Client) -> str:
    """Return how the response ends that is asked for."""
    await client.send("response.create")
    return (await client.until("response.done"))["response"]["status"]


async def test_the_connection_is_lost_at_an_event() -> None:
    async with conversing("Hello.", faults=Faults(closed_at=6)) as (client, _):
        await client.update()
        await client.send("response.create")
        rest = [event["type"] async for event in client.events]
        assert rest == ["response.created", "response.output_item.added", "conversation.item.added"]


async def test_an_event_is_no_json() -> None:
    async with conversing("Hello.", faults=Faults(malformed_at=3)) as (client, _):
        await client.update()
        assert await ask(client) == "completed"
        assert client.kinds[:3] == ["session.created", "session.updated", "response.output_item.added"]


async def test_the_first_responses_fail() -> None:
    async with conversing("A.", "B.", "C.", faults=Faults(failed_responses=2)) as (client, _):
        await client.update()
        assert [await ask(client) for _ in range(3)] == ["failed", "failed", "completed"]
        assert client.of("response.done")[0]["response"]["status_details"]["error"]["type"] == "server_error"


async def test_an_event_gets_an_error() -> None:
    async with conversing(faults=Faults(errors={"response.create": "rate_limit_exceeded"})) as (
        client,
        double,
    ):
        await client.update()
        sent = await client.send("response.create")
        error = (await client.until("error"))["error"]
        assert (error["code"], error["event_id"]) == ("rate_limit_exceeded", sent)
        assert double.sessions[0].errors == {"rate_limit_exceeded": 1}


async def test_sound_comes_late() -> None:
    async with conversing("Hello.", faults=Faults(late_audio_s=30)) as (client, _):
        await client.update()
        await client.send("response.create")
        await client.until("response.content_part.added")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await client.until("response.output_audio.delta")


async def test_a_session_has_an_end_that_it_names() -> None:
    async with conversing() as (client, double):
        created = await client.until("session.created")
        assert created["session"]["expires_at"] > 0
        double.sessions[0].expire()
        assert (await client.until("error"))["error"]["code"] == "session_expired"
        assert [event async for event in client.events] == []
        with pytest.raises(RealtimeUnreachable):
            await client.send("response.create")
