"""Calls that the model of chats answers, over a real connection: the telephone service's side keeps
to Twilio's published rules.
"""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed

from graphrag.llm.base import LLMProvider, UserMessage
from graphrag.simulator.relay_phone import RelayPhone
from graphrag.simulator.twilio_line import (
    CallAnswer,
    LineRefused,
    StreamPlace,
    TwilioLine,
    opened_stream,
)
from graphrag.voice.call_service import CallService
from graphrag.voice.errors import NoBrowserTalk
from server.app import create_app, running
from tests.graphrag.agents.managing import ADMIN
from tests.support.scripted_provider import Says, ScriptedProvider, call
from tests.support.served import answering
from tests.support.service import settings_of
from tests.support.waiting import until

KEY = "the token of an account"
DOCUMENT: dict[str, Any] = {
    "version": "2.0",
    "agent": {"id": "shop", "name": "Shop"},
    "session": {"mode": "inline", "instructions": "You sell."},
    "channels": ["voice"],
    "voice": {"engine": "text", "destinations": {"sales": {"number": "+33123456789"}}},
    "tools": {
        "bye": {"type": "builtin", "action": "hangup"},
        "connect": {"type": "builtin", "action": "transfer"},
    },
    "lifecycle": {"outcome_rules": [{"flag": None, "outcome": "info"}]},
}


MEDIA_START = json.dumps(
    {
        "event": "start",
        "start": {
            "streamSid": "MZ1",
            "callSid": "CALLSID",
            "customParameters": {"token": "TOKEN"},
            "mediaFormat": {"encoding": "audio/x-mulaw", "sampleRate": 8000, "channels": 1},
        },
    }
)


def setup(place: StreamPlace) -> str:
    return json.dumps(
        {
            "type": "setup",
            "sessionId": "VX1",
            "callSid": place.call_sid,
            "customParameters": {"token": place.token},
        }
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A caller of the agent on a running server."""

    calls: CallService
    twilio: TwilioLine

    async def dial(self) -> tuple[CallAnswer, StreamPlace]:
        answer = await self.twilio.dial()
        assert answer.stream is not None, answer
        return answer, answer.stream

    async def after(self, answer: CallAnswer) -> CallAnswer:
        assert answer.after is not None
        return await self.twilio.after(answer.after)

    async def record(self, answer: CallAnswer) -> dict[str, Any]:
        """Return the record once the call has ended."""
        call_id = answer.call_id or ""
        async with asyncio.timeout(20):
            async for message in self.calls.follow(call_id, ADMIN):
                if message["type"] == "call:ended":
                    break
        return await self.calls.document(call_id, ADMIN)


def with_voice(**voice: Any) -> dict[str, Any]:
    return {**DOCUMENT, "voice": {**DOCUMENT["voice"], **voice}}


@asynccontextmanager
async def calling(
    model: LLMProvider | None, document: dict[str, Any] = DOCUMENT
) -> AsyncIterator[Line]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        settings = settings_of(public_url=address, twilio_auth_token=KEY, realtime="off")
        app = create_app(settings, provider=model)
        async with running(app) as state, answering(app, listening):
            workspace = await state.backend.workspaces.get("default")
            agents = workspace.services.agents
            await agents.apply(document, ADMIN)
            await agents.start("shop")
            url = f"{address}/voice/default/shop"
            yield Line(calls=workspace.calls, twilio=TwilioLine(url=url, key=KEY))


async def test_a_caller_is_answered_by_the_model_of_chats() -> None:
    async with ScriptedProvider("We open at nine.") as model, calling(model) as line:
        answer, place = await line.dial()
        async with RelayPhone(place) as phone:
            await phone.speak("When do you open?")
            await until(lambda: phone.answers == 1 and phone.quiet_s > 0.5)
        after = await line.after(answer)
        record = await line.record(answer)
        asked = [m.content for m in model.requests[0].messages if isinstance(m, UserMessage)]
    assert (after.verbs, phone.strange, asked) == (("Hangup",), [], ["When do you open?"])
    assert [(each["role"], each["content"]) for each in record["transcript"]] == [
        ("user", "When do you open?"), ("assistant", "We open at nine."),
    ]  # fmt: skip
    assert (record["engine"], record["endReason"], record["outcome"]) == (
        "text", "caller_hung_up", "info",
    )  # fmt: skip


async def test_an_interrupted_caller_hears_the_next_answer_and_the_record_has_what_was_heard() -> (
    None
):
    long = "This is the first sentence of a long answer, and it goes on and on. " * 3
    async with ScriptedProvider(long, "Fine.") as model, calling(model) as line:
        answer, place = await line.dial()
        async with RelayPhone(place) as phone:
            await phone.speak("Tell me.")
            await until(lambda: phone.playing_s > 0.6)
            await phone.speak("Stop.")
            await until(lambda: phone.answers == 2 and phone.quiet_s > 0.5)
        record = await line.record(answer)
    cut = record["transcript"][1]
    assert (phone.interrupts, cut["interrupted"]) == (1, True)
    assert cut["heardMs"] >= 600
    assert long.startswith(cut["content"])
    assert 3 < len(cut["content"]) < 60
    assert record["transcript"][3]["content"] == "Fine."


@pytest.mark.parametrize(
    ("tool", "reason", "verbs"),
    [
        (call("bye"), "agent_hung_up", ("Hangup",)),
        (call("connect", {"destination": "sales"}), "transferred", ("Dial",)),
    ],
)
async def test_the_agent_ends_the_call_after_its_last_words(
    tool: Any, reason: str, verbs: tuple[str, ...]
) -> None:
    says = Says(text="Goodbye then.", calls=[tool])
    async with ScriptedProvider(says) as model, calling(model) as line:
        answer, place = await line.dial()
        async with RelayPhone(place) as phone:
            await phone.speak("That is all.")
            await asyncio.wait_for(phone.ended.wait(), 20)
        after = await line.after(answer)
        if after.dial is not None:
            await line.twilio.dialled(after.dial.after, "completed", 20)
        record = await line.record(answer)
    assert (after.verbs, record["endReason"], phone.strange) == (verbs, reason, [])
    assert record["transcript"][-1]["content"] == "Goodbye then."
    assert "interrupted" not in record["transcript"][-1]


async def test_a_caller_whom_nobody_answers_comes_back_to_the_same_conversation() -> None:
    sales = {"number": "+33123456789", "on_unanswered": "agent"}
    voice = with_voice(destinations={"sales": sales}, speech={"welcome": "Welcome."})
    connect = Says(text="I connect you.", calls=[call("connect", {"destination": "sales"})])
    async with (
        ScriptedProvider(connect, "Nobody is there. Anything else?", "Gladly.") as model,
        calling(model, voice) as line,
    ):
        answer, place = await line.dial()
        async with RelayPhone(place) as phone:
            await phone.speak("Sales, please.")
            await asyncio.wait_for(phone.ended.wait(), 20)
        dialling = await line.after(answer)
        assert dialling.dial is not None
        back = await line.twilio.dialled(dialling.dial.after, "no-answer", 0)
        assert back.stream is not None
        async with RelayPhone(back.stream) as phone:
            await until(lambda: phone.answers == 1 and phone.quiet_s > 0.5)
            await phone.speak("Note that I called.")
            await until(lambda: phone.answers == 2 and phone.quiet_s > 0.5)
        await line.after(answer)
        record = await line.record(answer)
        asked = [m.content for m in model.requests[-1].messages if isinstance(m, UserMessage)]
    assert "welcomeGreeting" not in (back.stream.relay or {})
    assert asked == ["Sales, please.", "Note that I called."]
    said = [each["content"] for each in record["transcript"]]
    assert said == [
        "Welcome.", "Sales, please.", "I connect you.", "Nobody is there. Anything else?",
        "Note that I called.", "Gladly.",
    ]  # fmt: skip
    assert len({each["itemId"] for each in record["transcript"]}) == len(said)


async def test_a_welcome_is_spoken_before_any_model_is_asked() -> None:
    speech = {"welcome": "Welcome to the shop.", "hints": ["pizza", "salad"]}
    async with ScriptedProvider() as model, calling(model, with_voice(speech=speech)) as line:
        answer, place = await line.dial()
        async with RelayPhone(place) as phone:
            await until(lambda: phone.answers == 1 and phone.quiet_s > 0.5)
        record = await line.record(answer)
        relay = place.relay or {}
    assert (relay["welcomeGreeting"], relay["hints"]) == (speech["welcome"], "pizza,salad")
    assert record["transcript"][0]["content"] == "Welcome to the shop."


async def test_a_caller_who_says_nothing_is_asked_and_taken_leave_of() -> None:
    voice = with_voice(silence_s=5, silence_prompts=0)
    async with ScriptedProvider("Goodbye.") as model, calling(model, voice) as line:
        answer, place = await line.dial()
        async with RelayPhone(place) as phone:
            await asyncio.wait_for(phone.ended.wait(), 30)
        record = await line.record(answer)
    assert record["endReason"] == "caller_silent"


async def test_a_line_that_breaks_is_no_caller_who_hangs_up() -> None:
    async with ScriptedProvider() as model, calling(model) as line:
        answer, place = await line.dial()
        connection = await opened_stream(place)
        await connection.send(setup(place))
        await asyncio.sleep(0.2)
        connection.transport.abort()
        record = await line.record(answer)
    assert record["endReason"] == "line_lost"


@pytest.mark.parametrize(
    "message", ["no json", '{"type":"media"}', '{"type":"prompt","voicePrompt":1}', b"\x00"]
)
async def test_a_message_of_another_protocol_ends_the_call(message: str | bytes) -> None:
    async with ScriptedProvider() as model, calling(model) as line:
        answer, place = await line.dial()
        connection = await opened_stream(place)
        await connection.send(setup(place))
        await connection.send(message)
        with pytest.raises(ConnectionClosed):
            await asyncio.wait_for(connection.recv(), 20)
        record = await line.record(answer)
    assert (connection.close_code, record["endReason"]) == (1003, "error")


async def test_a_token_opens_one_connection_and_only_in_the_protocol_of_its_call() -> None:
    async with ScriptedProvider() as model, calling(model) as line:
        _, place = await line.dial()
        media = replace(place, url=place.url.replace("relay", "stream"))
        other = await opened_stream(media)
        start = MEDIA_START.replace("TOKEN", place.token).replace("CALLSID", place.call_sid)
        await other.send(start)
        with pytest.raises(ConnectionClosed):
            await asyncio.wait_for(other.recv(), 20)
        assert other.close_code == 1008
        async with RelayPhone(place):
            second = await opened_stream(place)
            await second.send(setup(place))
            with pytest.raises(ConnectionClosed):
                await asyncio.wait_for(second.recv(), 20)
            assert second.close_code == 1008
        with pytest.raises(LineRefused):
            await opened_stream(replace(place, signing_key="another"))


async def test_a_browser_is_told_that_it_cannot_talk_with_such_an_agent() -> None:
    async with ScriptedProvider() as model, calling(model) as line:
        with pytest.raises(NoBrowserTalk):
            await line.calls.begin("shop", channel="browser")
