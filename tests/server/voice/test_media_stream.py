"""The stream of a call: who may open one, with which token, and how it is closed."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from twilio.request_validator import RequestValidator
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from server.voice import media_stream
from tests.server.voice.fake_calls import TWILIO_TOKEN, Answering, FakeCalls, with_calls
from tests.support.served import Served

SIGNED = {
    "X-Twilio-Signature": RequestValidator(TWILIO_TOKEN).compute_signature(
        "wss://voice.example.com/voice/stream", {}
    )
}
CONNECTED = json.dumps({"event": "connected", "protocol": "Call", "version": "1.0.0"})


def start(token: str, call_sid: str = "CA1", **more: Any) -> str:
    """Return the message that says of which call a stream is."""
    begun = {
        "accountSid": "AC1", "streamSid": "MZ1", "callSid": call_sid, "tracks": ["inbound"],
        "customParameters": {"token": token},
        "mediaFormat": {"encoding": "audio/x-mulaw", "sampleRate": 8000, "channels": 1}, **more,
    }  # fmt: skip
    return json.dumps({"event": "start", "sequenceNumber": "1", "streamSid": "MZ1", "start": begun})


@asynccontextmanager
async def opened(
    running: Served, headers: dict[str, str] = SIGNED
) -> AsyncIterator[ClientConnection]:
    address = f"ws://127.0.0.1:{running.port}/voice/stream"
    async with connect(address, proxy=None, additional_headers=headers) as connection:
        yield connection


async def closed(connection: ClientConnection) -> int:
    """Wait until the server closes; return its code."""
    async with asyncio.timeout(20):
        try:
            while True:
                await connection.recv()
        except ConnectionClosed:
            return connection.close_code or 0


async def token_of(calls: FakeCalls, channel: str = "phone", call_sid: str | None = "CA1") -> str:
    return (await calls.begin("desk", channel=channel, call_sid=call_sid))[1]


async def test_frames_pass_as_they_came_and_without_compression(answering: Answering) -> None:
    frame = '{"event": "media",  "media":{"payload":"\\u002f/8=", "x": "é"} }'
    running, calls = answering
    async with opened(running) as phone:
        assert not phone.protocol.extensions
        await phone.send(CONNECTED)
        await phone.send(start(await token_of(calls)))
        for text in (frame, "x" * 70_000):
            await phone.send(text)
            assert await phone.recv() == text
        await phone.send(b"\x00")
        assert await phone.recv() == ""
        await phone.send("close")
        assert await closed(phone) == 1003
    assert calls.heard == [frame, "x" * 70_000, "", "close"]


FIRST = f"{1:032x}"


@pytest.mark.parametrize(
    "stolen", [
    f"default.{FIRST}.{'x' * 22}", f"elsewhere.{FIRST}.{'s' * 22}", f"{FIRST}.{'s' * 22}", "", "." * 300,
    f"default.{FIRST}.{'s' * 21}é",
])  # fmt: skip
async def test_a_stream_without_the_token_of_a_call_is_closed(
    answering: Answering, stolen: str
) -> None:
    running, calls = answering
    async with opened(running) as phone:
        await token_of(calls)
        await phone.send(start(stolen))
        assert await closed(phone) == 1008
    assert calls.served == []


async def test_a_token_opens_one_stream_of_its_own_call(answering: Answering) -> None:
    running, calls = answering
    token = await token_of(calls)
    async with opened(running) as phone, opened(running) as second:
        await phone.send(start(token))
        await phone.send("hello")
        assert await phone.recv() == "hello"
        await second.send(start(token))
        assert await closed(second) == 1008
    async with opened(running) as stolen:
        await stolen.send(start(await token_of(calls), call_sid="CA2"))
        assert await closed(stolen) == 1008
    assert calls.served == [FIRST]


def forged(running: Served) -> float:
    """Return how many requests without a good signature were counted."""
    counted = re.search(
        rb'nodius_voice_errors_total\{agent="",code="signature"\} (\S+)',
        running.state.monitoring.metrics.text(),
    )
    return float(counted[1]) if counted else 0.0


@pytest.mark.parametrize(
    "headers", [
    {}, {"X-Twilio-Signature": SIGNED["X-Twilio-Signature"].swapcase()},
    {"Origin": "https://evil.example"}, {"Origin": "null"}, {"Origin": "http://["},
])  # fmt: skip
async def test_a_forged_handshake_is_refused(answering: Answering, headers: dict[str, str]) -> None:
    running, _ = answering
    before = forged(running)
    with pytest.raises(InvalidStatus) as refused:
        async with opened(running, headers):
            pass
    assert refused.value.response.status_code == 403
    assert forged(running) == before + 1


@pytest.mark.parametrize("origin", ["https://voice.example.com", "http://127.0.0.1:{port}"])
async def test_a_page_of_ours_talks_but_brings_no_telephone(
    answering: Answering, origin: str
) -> None:
    running, calls = answering
    headers = {"Origin": origin.format(port=running.port)}
    async with opened(running, headers) as page:
        await page.send(start(await token_of(calls, "browser", None)))
        await page.send("hello")
        assert await page.recv() == "hello"
    async with opened(running, headers) as page:
        await page.send(start(await token_of(calls)))
        assert await closed(page) == 1008


async def test_a_stream_whose_call_breaks_is_closed_and_counted(answering: Answering) -> None:
    running, calls = answering
    async with opened(running) as phone:
        await phone.send(start(await token_of(calls)))
        await phone.send("break")
        assert await closed(phone) == 1000
        assert (
            b'nodius_voice_errors_total{agent="desk",code="broken"} 1.0'
            in running.state.monitoring.metrics.text()
        )


async def test_without_a_token_only_pages_of_this_computer_open_streams(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with with_calls(monkeypatch, signed=False) as (running, calls):
        async with opened(running, {}) as phone:
            await phone.send(start(await token_of(calls)))
            await phone.send("hello")
            assert await phone.recv() == "hello"
        with pytest.raises(InvalidStatus):
            async with opened(running, {"Origin": "https://evil.example"}):
                pass


async def test_a_stream_that_does_not_start_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(media_stream, "START_S", 0.1)
    async with with_calls(monkeypatch) as (running, _):
        async with opened(running) as phone:
            await phone.send(CONNECTED)
            assert await closed(phone) == 1008
        async with opened(running) as phone:
            await phone.send(CONNECTED.replace("Call", "Other"))
            assert await closed(phone) == 1003
        async with opened(running):
            pass  # gone again at once
        assert (
            b'nodius_voice_errors_total{agent="",code="stream"} 1.0'
            in running.state.monitoring.metrics.text()
        )
