"""Whole calls over real connections to the double: answered from a graph, interrupted, lost, refused."""

from __future__ import annotations

import asyncio
import base64
import random
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from graphrag.app.models import rules_provider
from graphrag.voice.realtime.double import RealtimeDouble
from graphrag.voice.realtime.minds import CallsTool, Mind, RulesMind
from graphrag.voice.realtime.openai_side import OpenAISide
from graphrag.voice.simulation.fast_loop import run_fast
from tests.graphrag.voice.realtime.conversing import KEY, TONES, silence, speech
from tests.support.agent_life import document
from tests.support.each_row import each_row
from tests.support.faulty_double import Faults, FaultyDouble
from tests.support.held_calls import HeldCall, held_call
from tests.support.scripted_mind import ScriptedMind

GRAPH = "testgraph001"
GREETING = {"unknown_customer": "Greet them."}


@asynccontextmanager
async def called(
    mind: Mind, *, faults: Sequence[Faults] = (), key: str = KEY, **fields: Any
) -> AsyncGenerator[tuple[HeldCall, RealtimeDouble]]:
    async with FaultyDouble(mind, voice=TONES.say, faults=faults, key=KEY) as double:
        agent = document(graphs=[GRAPH], **fields)

        def side(model: str) -> OpenAISide:
            return OpenAISide(double.url, key, model)

        async with held_call(agent, graph=GRAPH, sides=side) as call:
            yield call, double


async def say(call: HeldCall, sound: bytes) -> None:
    for at in range(0, len(sound), 160):
        payload = base64.b64encode(sound[at : at + 160]).decode()
        call.phone.says("media", media={"track": "inbound", "payload": payload})
        await asyncio.sleep(0)


def words(call: HeldCall) -> list[tuple[str, str]]:
    bridge = call.runner.bridge
    return [] if bridge is None else [(each.role, each.text) for each in bridge.transcript.ordered()]


async def test_a_question_is_answered_from_the_graph() -> None:
    async with called(RulesMind(rules_provider())) as (call, double):
        await call.until(lambda: bool(double.sessions))
        double.hear(["What comes after fetch-api?"])
        await say(call, speech(800) + silence(700))
        await call.until(
            lambda: any("filter-active" in text for role, text in words(call) if role == "assistant")
        )
        assert words(call)[0] == ("user", "What comes after fetch-api?")
        call.phone.hang_up()
        await call.over()
        assert call.records.stored["sources"]
        assert {tool.name for tool in (await call.part()).tools} >= {"explore_neighborhood"}
        assert double.sessions[0].errors == {}


async def test_a_lost_model_is_reached_again_with_what_was_said_and_the_second_loss_ends_the_call() -> None:
    mind = ScriptedMind(["Good day.", "As I said.", "More."])
    async with called(mind, greeting=GREETING) as (call, double):
        await call.until(lambda: ("assistant", "Good day.") in words(call))
        await lose(double, 0)
        await call.until(lambda: len(double.sessions) == 2 and ("assistant", "As I said.") in words(call))
        first = [item["content"][0].get("text") for item in double.sessions[1].items[:1]]
        assert first == ["Good day."]
        await lose(double, 1)
        assert (await call.over()).reason == "model_unreachable"


async def lose(double: RealtimeDouble, number: int) -> None:
    """End a session as a server does whose time is over."""
    double.sessions[number].expire()
    await asyncio.sleep(0)


@each_row(
    "faults, key",
    [([], "another"), ([Faults(refused_status=403)], KEY), ([Faults(refused_code="model_not_found")], KEY)],
)
async def test_a_refused_key_or_model_ends_the_call_at_once(faults: list[Faults], key: str) -> None:
    async with called(ScriptedMind([]), faults=faults, key=key) as (call, double):
        assert (await call.over()).reason == "model_unreachable"
        assert len(double.sessions) <= 1


async def test_an_interruption_stops_the_sound_and_the_model_knows_what_was_heard() -> None:
    async with called(ScriptedMind(["word " * 100, "Yes?"]), greeting=GREETING) as (call, double):
        await call.until(lambda: len(call.phone.of("media")) >= 30)
        for mark in call.phone.of("mark")[:5]:
            call.phone.says("mark", mark=mark["mark"])
        await say(call, speech(300) + silence(600))
        await call.until(lambda: bool(call.phone.of("clear")) and ("assistant", "Yes?") in words(call))
        session = double.sessions[0]
        assert session.errors == {}
        (truncated,) = [e for e in session.received if e["type"] == "conversation.item.truncate"]
        assert truncated["audio_end_ms"] < 10_000
        assert len(words(call)[0][1]) < 250, "what was heard of it"
        call.phone.hang_up()
        await call.over()


@pytest.mark.slow
def test_calls_end_whatever_goes_wrong_with_the_model_and_a_tool_call_is_answered_once() -> None:
    run_fast(_faulty_calls(20), 20)


async def _faulty_calls(count: int) -> None:
    chance = random.Random(16)
    reasons = Counter[str]()
    for _ in range(count):
        reasons[await _faulty_call(chance)] += 1
    assert set(reasons) <= {"caller_hung_up", "model_unreachable", "caller_silent"}, reasons
    assert len(reasons) > 1, reasons


async def _faulty_call(chance: random.Random) -> str:
    script = ["One moment please.", [CallsTool("search_nodes", '{"query": "odds"}'), CallsTool("none")]]
    mind = ScriptedMind([*script, "word " * 40], again=True)
    faults = [_any_fault(chance) for _ in range(2)]
    async with called(mind, faults=faults, greeting=GREETING) as (call, double):
        for _ in range(4):
            if call.task.done():
                break
            await say(call, speech(chance.randrange(1_000)) + silence(600))
            await asyncio.sleep(chance.random() * 4)
            call.phone.play()
        call.phone.hang_up()
        over = await call.over()
        for session in double.sessions:
            asked = {item["call_id"] for item in session.items if item["type"] == "function_call"}
            given = [item["call_id"] for item in session.items if item["type"] == "function_call_output"]
            assert len(given) == len(set(given)), "an output is given once"
            assert set(given) <= asked
        return over.reason


def _any_fault(chance: random.Random) -> Faults:
    number = chance.randrange(1, 60)
    return chance.choice(
        [
            Faults(),
            Faults(closed_at=number),
            Faults(malformed_at=number),
            Faults(failed_responses=chance.randrange(1, 4)),
            Faults(late_audio_s=chance.random() * 10),
            Faults(errors={chance.choice(["response.create", "conversation.item.truncate"]): "server_error"}),
            Faults(refused_status=chance.choice([401, 429, 503])),
        ]
    )
