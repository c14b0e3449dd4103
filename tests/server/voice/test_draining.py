"""A server that is to stop lets people on the telephone finish, and takes no call any more."""

import asyncio
import json
import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from graphrag.agent.thread_agent import EndReason
from graphrag.simulator.phone_simulator import PhoneSimulator
from graphrag.simulator.realtime_double import RealtimeDouble
from graphrag.simulator.twilio_line import CALLER, TwilioLine
from graphrag.voice import call_slots
from server import run
from server.app import create_app
from server.run import run_server
from server.server_state import ServerState
from tests.server.test_two_servers import a_process, opened
from tests.support.chosen_database import address_in
from tests.support.faulty_phone import WatchedPhone
from tests.support.scripted_mind import ScriptedMind
from tests.support.service import settings_of
from tests.support.waiting import until

pytestmark = pytest.mark.usefixtures("ends_by_signal")


class EndingCall:
    """A call that ends a moment after it is asked to."""

    def __init__(self) -> None:
        self.asked: list[EndReason] = []
        self.over = asyncio.Event()

    def end_soon(self, reason: EndReason) -> None:
        self.asked.append(reason)
        self.over.set()

    async def hold(self, state: ServerState, name: str) -> None:
        state.activity.call_slots.reserve(name, 60, caller=name)
        with state.activity.call_slots.serving(name, self, caller=name):
            await self.over.wait()
            await asyncio.sleep(0.05)


@asynccontextmanager
async def stopping(drain_s: float) -> AsyncIterator[tuple[ServerState, asyncio.Task[None], str]]:
    """Run a server as `nodius serve` does; yields its state, its run and its address."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        app = create_app(settings_of(voice_drain_s=drain_s))
        ready = asyncio.Event()
        running = asyncio.create_task(run_server(app, listening, ready.set, grace_s=1))
        await ready.wait()
        try:
            yield app.state.server, running, f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            await asyncio.wait([running], timeout=20)
            assert running.done()


@pytest.mark.slow
async def test_calls_go_on_and_the_rest_is_answered_until_they_are_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(call_slots, "LAST_WORDS_S", 0.3)
    monkeypatch.setattr(run, "AFTER_S", 0.3)
    async with stopping(drain_s=0.8) as (state, running, address):
        calls = [EndingCall(), EndingCall()]
        held = [asyncio.create_task(call.hold(state, f"call-{n}")) for n, call in enumerate(calls)]
        await asyncio.sleep(0)
        os.kill(os.getpid(), signal.SIGTERM)
        async with httpx2.AsyncClient(base_url=address, trust_env=False, timeout=5) as client:
            while not held[0].done():
                assert (await client.get("/healthz")).status_code == 200
                assert state.activity.call_slots.is_draining
                await asyncio.sleep(0.05)
            await asyncio.wait(held)
            assert not running.done()
            assert (await client.get("/healthz")).status_code == 200, (
                "it is still asked how to go on"
            )
        assert [call.asked for call in calls] == [["draining"], ["draining"]]
        await asyncio.wait_for(running, 5)


async def test_a_second_signal_waits_for_no_call() -> None:
    async with stopping(drain_s=60) as (state, running, _):
        call = EndingCall()
        held = asyncio.create_task(call.hold(state, "call"))
        await asyncio.sleep(0)
        os.kill(os.getpid(), signal.SIGTERM)
        await until(lambda: state.activity.call_slots.is_draining)
        assert not running.done()
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(running, 60)
        held.cancel()


KEY = "the token of an account"
WORDS = "The purple elephant is closed on Mondays."
QUESTION = "When does the elephant open?"
DOCUMENT = {
    "version": "2.0",
    "agent": {"id": "helpdesk", "name": "Help desk"},
    "session": {"mode": "inline", "instructions": "Help."},
    "channels": ["voice"],
    "greeting": {"unknown_customer": "Good morning."},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class VoiceProcess:
    """A server process: what runs, where it is, the model's double, and where its log is."""

    process: Any
    address: str
    double: RealtimeDouble
    log: Path

    def line(self, caller: str = CALLER, agent: str = "helpdesk") -> TwilioLine:
        return TwilioLine(url=f"{self.address}/voice/default/{agent}", key=KEY, caller=caller)

    def rest(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(base_url=self.address, trust_env=False, timeout=30)

    async def call(self, call_id: str, status: str = "ended") -> dict[str, Any]:
        """Return a call once it has a status."""
        async with self.rest() as client, asyncio.timeout(20):
            while True:
                found = (await client.get(f"/api/calls/{call_id}")).json()
                if found.get("status") == status:
                    return found
                await asyncio.sleep(0.05)


async def sound(text: str, language: str) -> bytes:
    """Return silence so long that the end of an answer can be waited for."""
    return b"\x2a" * 160 * 20


@asynccontextmanager
async def voice_process(file: Path, **settings: str) -> AsyncIterator[VoiceProcess]:
    log = file.with_suffix(".log")
    mind = ScriptedMind(["Good morning.", WORDS], again=True)
    async with RealtimeDouble(mind, voice=sound) as double:
        environment = {
            "NODIUS_PUBLIC_URL": "http://127.0.0.1:{port}",
            "NODIUS_TWILIO_AUTH_TOKEN": KEY,
            "NODIUS_REALTIME": "openai",
            "NODIUS_REALTIME_URL": double.url,
            "NODIUS_REALTIME_API_KEY": "double",
            "NODIUS_LOG_LEVEL": "info",
            **settings,
        }
        async with a_process(address_in(file), environment=environment, log=log) as (process, port):
            await (await opened(port)).close()
            running = VoiceProcess(
                process=process, address=f"http://127.0.0.1:{port}", double=double, log=log
            )
            async with running.rest() as client:
                made = await client.put("/api/agents/helpdesk", json={"document": DOCUMENT})
                assert made.status_code == 200, made.text
                started = await client.post("/api/agents/helpdesk/start")
                assert started.json()["state"] == "running", started.text
            yield running


async def until_quiet(phone: PhoneSimulator, answers: int) -> None:
    """Wait until the agent has been heard so often, and is silent so long that it begins again."""
    await until(lambda: not (phone.answers < answers or phone.quiet_s < 0.4))


@pytest.mark.slow
async def test_a_call_from_its_webhook_to_its_record(file: Path) -> None:
    async with voice_process(file) as running:
        line = running.line()
        answer = await line.dial()
        again = await line.dial()
        assert answer.call_id == again.call_id, "one CallSid is one call"
        assert answer.stream
        assert answer.after
        running.double.hear([QUESTION])
        async with PhoneSimulator(answer.stream) as phone:
            await until_quiet(phone, 1)
            await phone.say(b"\x2a" * 160 * 25)
            await until_quiet(phone, 2)
            async with WatchedPhone(answer.stream) as second:
                await asyncio.wait_for(second.ended.wait(), 5)
                assert second.close_code == 1008, "its token was used"
            await phone.hang_up()
        assert (await line.after(answer.after)).verbs == ("Hangup",)
        assert not phone.strange
        found = await running.call(answer.call_id or "")
        said = [(entry["role"], entry["content"]) for entry in found["transcript"]]
        assert ("user", QUESTION) in said
        assert ("assistant", WORDS) in said
        assert (found["endReason"], found["callerPhone"]) == ("caller_hung_up", CALLER)
        async with running.rest() as client:
            counted = (await client.get("/metrics")).text
        print(
            [
                each
                for each in counted.splitlines()
                if "voice_" in each and each[0] != "#" and "bucket" not in each
            ]
        )
        assert 'nodius_voice_calls{agent="helpdesk",state="active"} 0.0' in counted
        assert 'nodius_voice_call_seconds_count{agent="helpdesk"} 1.0' in counted
        assert 'nodius_voice_turn_seconds_count{agent="helpdesk"} 1.0' in counted
        assert 'nodius_voice_errors_total{agent="",code="token"} 1.0' in counted
    events = [
        json.loads(entry)["event"]
        for entry in running.log.read_text().splitlines()
        if entry[:1] == "{"
    ]
    assert {"call_started", "call_ended"} <= set(events)
    whole = running.log.read_text()
    for hidden in (CALLER, CALLER[3:], "elephant", "Good morning", KEY, answer.stream.token):
        assert hidden not in whole


@pytest.mark.slow
async def test_at_sigterm_two_calls_get_a_goodbye_and_nobody_else_comes_in(file: Path) -> None:
    async with voice_process(file, NODIUS_VOICE_DRAIN_S="8") as running, AsyncExitStack() as stack:
        lines = [running.line("+33612345670"), running.line("anonymous")]
        answers = [await line.dial() for line in lines]
        phones = [
            await stack.enter_async_context(PhoneSimulator(answer.stream))
            for answer in answers
            if answer.stream is not None
        ]
        for phone in phones:
            await until_quiet(phone, 1)
        running.process.send_signal(signal.SIGTERM)
        await asyncio.sleep(0.3)
        assert (await running.line().dial()).rejected == "busy"
        for phone, line, answer in zip(phones, lines, answers, strict=True):
            await asyncio.wait_for(phone.ended.wait(), 20)
            assert phone.answers == 2, "the agent said goodbye"
            assert answer.after is not None
            assert (await line.after(answer.after)).verbs == ("Hangup",), "it has said goodbye"
        assert await asyncio.wait_for(running.process.wait(), 20) == 0
    async with voice_process(file) as again:
        for answer in answers:
            found = await again.call(answer.call_id or "")
            assert found["endReason"] == "draining"
