"""The simulated telephone service keeps to Twilio's published messages."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from graphrag.simulator.relay_phone import RelayPhone
from graphrag.simulator.relay_rules import invalid
from graphrag.simulator.twilio_line import StreamPlace
from tests.support.waiting import until

EVENTS = {"events": "speaker-events tokens-played", "dtmfDetection": "true"}


class Service:
    """What came over one connection, and the means to answer it."""

    def __init__(self) -> None:
        self.received: list[dict[str, Any]] = []
        self.url = ""
        self._connection: ServerConnection | None = None

    async def take(self, connection: ServerConnection) -> None:
        self._connection = connection
        with suppress(ConnectionClosed):
            async for text in connection:
                self.received.append(json.loads(text))

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [message for message in self.received if message["type"] == kind]

    async def send(self, text: str | dict[str, Any]) -> None:
        assert self._connection is not None
        await self._connection.send(text if isinstance(text, str) else json.dumps(text))

    async def say(self, words: str, **more: Any) -> None:
        await self.send({"type": "text", "token": words, "last": True, **more})


@asynccontextmanager
async def called(**attributes: str) -> AsyncIterator[tuple[Service, RelayPhone]]:
    service = Service()
    async with serve(service.take, "127.0.0.1", 0, compression=None) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        relay = {**EVENTS, **attributes}
        url = f"ws://127.0.0.1:{port}/voice/relay"
        place = StreamPlace(url=url, token="T", call_sid="CA1", relay=relay)
        async with RelayPhone(place) as phone:
            await until(lambda: bool(service.of("setup")))
            yield service, phone


async def test_it_names_its_call_speaks_and_tells_what_was_spoken() -> None:
    async with called() as (service, phone):
        (setup,) = service.of("setup")
        assert (setup["callSid"], setup["customParameters"]) == ("CA1", {"token": "T"})
        await service.say("Good day.")
        await until(lambda: phone.answers == 1 and phone.quiet_s > 0.1)
        await until(lambda: service.received[-1].get("value") == "off")
        told = [(each["name"], each["value"]) for each in service.of("info")]
    assert told == [
        ("agentSpeaking", "on"), ("tokensPlayed", "Good "), ("tokensPlayed", "day."),
        ("agentSpeaking", "off"),
    ]  # fmt: skip


async def test_a_caller_who_speaks_silences_the_agent_and_words_that_are_late_are_not_spoken() -> (
    None
):
    async with called() as (service, phone):
        await service.send({"type": "text", "token": "One two three four five. ", "last": False})
        await until(lambda: phone.playing_s > 0.3)
        await phone.speak("Stop.")
        await service.send({"type": "text", "token": "Late.", "last": True})
        await service.say("Yes?")
        await until(lambda: phone.answers == 2 and phone.quiet_s > 0.1)
        (interrupt,) = service.of("interrupt")
        spoken = "".join(
            each["value"] for each in service.of("info") if each["name"] == "tokensPlayed"
        )
    assert "One two three four five.".startswith(interrupt["utteranceUntilInterrupt"].strip())
    assert interrupt["durationUntilInterruptMs"] >= 300
    assert "Late" not in spoken
    assert spoken.endswith("Yes?")


async def test_words_over_a_protected_answer_get_lost() -> None:
    async with called(interruptible="none") as (service, phone):
        await service.say("This is said to its end.")
        await until(lambda: phone.playing_s > 0.1)
        await phone.speak("Stop.")
        await until(lambda: phone.quiet_s > 0.1)
        await phone.speak("Now.")
        await until(lambda: bool(service.of("prompt")))
        heard = [each["voicePrompt"] for each in service.of("prompt")]
    assert (heard, service.of("interrupt")) == (["Now."], [])


async def test_keys_are_told_where_the_twiml_asks_for_them() -> None:
    async with called(dtmfDetection="false") as (service, phone):
        phone.press("1")
        await phone.speak("Hi.")
        await until(lambda: bool(service.of("prompt")))
        assert service.of("dtmf") == []


@pytest.mark.parametrize(
    "message", [
    "no json", "[]", '{"type":"media"}', '{"type":"text"}', '{"type":"text","token":1}',
    '{"type":"text","token":"x","lst":true}', '{"type":"end","handoffData":{}}',
])  # fmt: skip
async def test_a_message_that_is_none_is_objected_to_and_the_session_goes_on(message: str) -> None:
    assert invalid(message) is not None
    async with called() as (service, phone):
        await service.send(message)
        await until(lambda: bool(service.of("error")))
        await service.say("Still here.")
        await until(lambda: phone.answers == 1)
    assert len(phone.strange) == 1


async def test_end_ends_the_session() -> None:
    async with called() as (service, phone):
        await service.send({"type": "end"})
        await asyncio.wait_for(phone.ended.wait(), 10)
    assert phone.strange == []
