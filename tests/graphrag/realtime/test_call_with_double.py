"""Whole calls over real connections to the double: answered from a graph,
interrupted, lost, refused.
"""

import asyncio
import base64
import random
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from datasources.mock import open_nba
from graphrag.app.models import rules_provider
from graphrag.realtime.openai_side import OpenAISide
from graphrag.simulator.fast_loop import run_fast
from graphrag.simulator.minds import CallsTool, Mind, RulesMind, quoted, read_aloud
from graphrag.simulator.realtime_double import RealtimeDouble
from tests.graphrag.realtime.conversing import KEY, TONES, Client, conversing, silence, speech
from tests.support.agent_life import document
from tests.support.faulty_double import Faults, FaultyDouble
from tests.support.held_calls import HeldCall, held_call
from tests.support.scripted_mind import ScriptedMind
from tools.base import ToolContext
from tools.read_tools import READ_TOOLS
from tools.tool_box import ToolBox

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
    bridge = call.bridge
    return (
        [] if bridge is None else [(each.role, each.text) for each in bridge.transcript.ordered()]
    )


async def test_a_question_is_answered_from_the_graph() -> None:
    async with called(RulesMind(rules_provider())) as (call, double):
        await call.until(lambda: bool(double.sessions))
        double.hear(["What comes after fetch-api?"])
        await say(call, speech(800) + silence(700))
        await call.until(
            lambda: any(
                "filter-active" in text for role, text in words(call) if role == "assistant"
            )
        )
        assert words(call)[0] == ("user", "What comes after fetch-api?")
        await call.hang_up()
        assert call.records.stored["sources"]
        assert {tool.name for tool in (await call.part()).tools} >= {"explore_neighborhood"}
        assert double.sessions[0].errors == {}


async def lose(double: RealtimeDouble, number: int) -> None:
    """End a session as a server does whose time is over."""
    double.sessions[number].expire()
    await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("faults", "key"),
    [
        ([], "another"),
        ([Faults(refused_status=403)], KEY),
        ([Faults(refused_code="model_not_found")], KEY),
    ],
)
async def test_a_refused_key_or_model_ends_the_call_at_once(faults: list[Faults], key: str) -> None:
    async with called(ScriptedMind([]), faults=faults, key=key) as (call, double):
        assert (await call.over()).reason == "model_refused"
        assert len(double.sessions) <= 1


async def test_an_interruption_stops_the_sound_and_the_model_knows_what_was_heard() -> None:
    async with called(ScriptedMind(["word " * 100, "Yes?"]), greeting=GREETING) as (call, double):
        await call.until(lambda: len(call.phone.of("media")) >= 30)
        for mark in call.phone.of("mark")[:5]:
            call.phone.says("mark", mark=mark["mark"])
        await say(call, speech(300) + silence(600))
        await call.until(
            lambda: bool(call.phone.of("clear")) and ("assistant", "Yes?") in words(call)
        )
        session = double.sessions[0]
        assert session.errors == {}
        (truncated,) = [e for e in session.received if e["type"] == "conversation.item.truncate"]
        assert truncated["audio_end_ms"] < 10_000
        assert len(words(call)[0][1]) < 250, "what was heard of it"
        await call.hang_up()


@pytest.mark.slow
def test_calls_end_whatever_goes_wrong_with_the_model_and_a_tool_call_is_answered_once() -> None:
    run_fast(_faulty_calls(20), 20)


async def _faulty_calls(count: int) -> None:
    chance = random.Random(16)
    reasons = Counter[str]()
    for _ in range(count):
        reasons[await _faulty_call(chance)] += 1
    assert set(reasons) <= {
        "caller_hung_up",
        "model_unreachable",
        "model_refused",
        "caller_silent",
    }, reasons
    assert len(reasons) > 1, reasons


async def _faulty_call(chance: random.Random) -> str:
    script = [
        "One moment please.",
        [CallsTool("search_nodes", '{"query": "odds"}'), CallsTool("none")],
    ]
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
            given = [
                item["call_id"] for item in session.items if item["type"] == "function_call_output"
            ]
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
            Faults(
                errors={
                    chance.choice(["response.create", "conversation.item.truncate"]): "server_error"
                }
            ),
            Faults(refused_status=chance.choice([401, 429, 503])),
        ]
    )


BOX = ToolBox(READ_TOOLS)
DECLARED: Sequence[Any] = [
    {"type": "function", **schema["function"]} for schema in BOX.schemas("viewer")
]


@asynccontextmanager
async def about_nba() -> AsyncGenerator[tuple[Client, Any]]:
    """Yield a client whose double answers by rules, and what runs a tool on the sample graph."""
    async with open_nba("default") as database:
        context = ToolContext(source=database.source("default"), graph_key=GRAPH)

        async def run(name: str, arguments: str) -> str:
            return (await BOX.run(name, arguments, context)).text

        async with conversing(mind=RulesMind(rules_provider())) as (client, double):
            await client.update(tools=DECLARED)
            yield client, (double, run)


async def answered(client: Client, run: Any) -> tuple[str, list[str]]:
    """Run what is called until words come; return them, and the tools."""
    names: list[str] = []
    while True:
        output = (await client.until("response.done"))["response"]["output"]
        calls = [item for item in output if item["type"] == "function_call"]
        if not calls:
            return output[0]["content"][0]["transcript"], names
        for call in calls:
            names.append(call["name"])
            given = {
                "call_id": call["call_id"],
                "output": await run(call["name"], call["arguments"]),
            }
            await client.send(
                "conversation.item.create", item={"type": "function_call_output", **given}
            )
        await client.send("response.create")


@pytest.mark.parametrize(
    ("question", "wanted"),
    [
        ("What comes after fetch-api?", "filter-active"),
        ("How many nodes are there?", "9 nodes"),
    ],
)
async def test_a_question_by_voice_is_answered_from_the_graph_by_tools(
    question: str, wanted: str
) -> None:
    async with about_nba() as (client, (double, run)):
        double.hear([question])
        await client.speak(speech(600) + silence(600))
        text, names = await answered(client, run)
        assert names, "the graph's tools were called"
        assert set(names) <= BOX.names
        assert wanted in text.lower()
        assert not any(mark in text for mark in ("{{", "**", "`", "\n", "NODIUS_")), (
            "words to be read aloud"
        )


async def test_a_greeting_a_note_and_a_silent_caller_get_the_words_that_are_meant() -> None:
    async with about_nba() as (client, (double, run)):
        await client.write("Greet the caller with “Hello Zoe”, then wait.")
        await client.send("response.create")
        assert await answered(client, run) == ("Hello Zoe", [])
    async with about_nba() as (client, (double, run)):
        await client.write("Greet the caller and ask what it is about.")
        await client.send("response.create")
        assert await answered(client, run) == ("Hello, how can I help you?", [])
    async with about_nba() as (client, (double, run)):
        await client.write("It was approved.", role="system")
        await client.send("response.create")
        assert await answered(client, run) == ("It was approved.", [])
        double.hear([""])
        await client.speak(speech(600) + silence(600))
        assert (await answered(client, run))[0] == "Are you still there?"


async def test_a_script_that_is_over_fails_the_response_and_not_the_session() -> None:
    async with conversing(mind=ScriptedMind(["Hello."])) as (client, _):
        await client.update()
        for status in ("completed", "failed", "failed"):
            await client.send("response.create")
            assert (await client.until("response.done"))["response"]["status"] == status


def test_an_answer_is_read_aloud_without_marks_and_not_for_minutes() -> None:
    assert (
        read_aloud("## Two\n- {{node:calc_1}} “Odds” (`step`)\n- **b**")
        == "Two. calc_1 “Odds” (step). b"
    )
    assert read_aloud("No model: set NODIUS_LLM_BASE_URL.\n\nIt is here.") == "It is here."
    assert (
        read_aloud("It is a step. Its code:\n```js\nlet a = 1;\n```\nIt ends.")
        == "It is a step. It ends."
    )
    assert len(read_aloud("A sentence of words. " * 100)) <= 600
    assert read_aloud("A sentence of words. " * 100).endswith(".")
    assert quoted("Dites exactement : Un instant.") == "Un instant."
