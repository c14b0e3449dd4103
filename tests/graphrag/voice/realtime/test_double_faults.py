"""Each fault that the double can be asked for happens, once, and what is sound around it stays so."""

from __future__ import annotations

import asyncio

import pytest

from graphrag.voice.model_side import RealtimeUnreachable
from graphrag.voice.realtime.double_state import Faults
from tests.graphrag.voice.realtime.conversing import Client, conversing, silence, speech
from tests.support.each_row import each_row


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


async def test_an_event_gets_an_error_or_nothing() -> None:
    refused = {"response.create": "rate_limit_exceeded"}
    faults = Faults(errors=refused, ignored=frozenset({"input_audio_buffer.clear"}))
    async with conversing(faults=faults) as (client, double):
        await client.update()
        await client.send("input_audio_buffer.clear")
        sent = await client.send("response.create")
        error = (await client.until("error"))["error"]
        assert (error["code"], error["event_id"]) == ("rate_limit_exceeded", sent)
        assert client.kinds[-1:] == ["error"]
        assert "input_audio_buffer.cleared" not in client.kinds
        assert double.sessions[0].errors == {"rate_limit_exceeded": 1}


async def test_an_error_does_not_say_what_caused_it() -> None:
    async with conversing(faults=Faults(nameless_errors=True)) as (client, _):
        await client.update()
        await client.send("response.cancel")
        assert (await client.until("error"))["error"]["event_id"] is None


async def test_sound_comes_late() -> None:
    async with conversing("Hello.", faults=Faults(late_audio_s=30)) as (client, _):
        await client.update()
        await client.send("response.create")
        await client.until("response.content_part.added")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await client.until("response.output_audio.delta")


@each_row("faults", [Faults(late_words=True), Faults(failed_words=True)])
async def test_the_callers_words_come_late_or_are_not_understood(faults: Faults) -> None:
    async with conversing("Hello.", faults=faults) as (client, double):
        await client.update()
        double.hear(["Good morning"])
        await client.speak(speech(500) + silence(600))
        ending = "failed" if faults.failed_words else "completed"
        if faults.late_words:
            await client.until("response.done")
        await client.until(f"conversation.item.input_audio_transcription.{ending}")


async def test_what_is_said_twice_during_an_answer_is_written_twice_when_it_comes_late() -> None:
    faults, off = Faults(late_words=True), {"barge_in": {"mode": "off"}}
    async with conversing("word " * 50, faults=faults, rate=1) as (client, double):
        await client.update(options=off)
        await client.send("response.create")
        await client.until("response.output_audio.delta")
        double.hear(["First", "Second"])
        await client.speak((speech(500) + silence(600)) * 2)
        await client.until("input_audio_buffer.committed")
        await client.until("input_audio_buffer.committed")
        await client.send("response.cancel")
        await client.until("response.done")
        kind = "conversation.item.input_audio_transcription.completed"
        assert [(await client.until(kind))["transcript"] for _ in range(2)] == ["First", "Second"]


async def test_a_session_has_an_end_that_it_names() -> None:
    async with conversing(lifetime_s=0.1) as (client, _):
        created = await client.until("session.created")
        assert created["session"]["expires_at"] > 0
        assert (await client.until("error"))["error"]["code"] == "session_expired"
        assert [event async for event in client.events] == []
        with pytest.raises(RealtimeUnreachable):
            await client.send("response.create")
