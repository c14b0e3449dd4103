"""What the double answers: by rules, from what the tools of the session return."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from datasources.mock import open_nba
from graphrag.app.models import rules_provider
from graphrag.voice.realtime.minds import RulesMind, quoted, read_aloud
from tests.graphrag.voice.realtime.conversing import Client, conversing, silence, speech
from tests.support.each_row import each_row
from tests.support.scripted_mind import ScriptedMind
from tools.base import ToolBox, ToolContext
from tools.read_tools import READ_TOOLS

GRAPH = "testgraph001"
BOX = ToolBox(READ_TOOLS)
DECLARED: Sequence[Any] = [{"type": "function", **schema["function"]} for schema in BOX.schemas("viewer")]


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
            given = {"call_id": call["call_id"], "output": await run(call["name"], call["arguments"])}
            await client.send("conversation.item.create", item={"type": "function_call_output", **given})
        await client.send("response.create")


@each_row(
    "question, wanted",
    [("What comes after fetch-api?", "filter-active"), ("How many nodes are there?", "9 nodes")],
)
async def test_a_question_by_voice_is_answered_from_the_graph_through_the_declared_tools(
    question: str, wanted: str
) -> None:
    async with about_nba() as (client, (double, run)):
        double.hear([question])
        await client.speak(speech(600) + silence(600))
        text, names = await answered(client, run)
        assert names, "the graph's tools were called"
        assert set(names) <= BOX.names
        assert wanted in text.lower()
        assert not any(mark in text for mark in ("{{", "**", "`", "\n", "NODIUS_")), "words to be read aloud"


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
    assert read_aloud("## Two\n- {{node:calc_1}} “Odds” (`step`)\n- **b**") == "Two. calc_1 “Odds” (step). b"
    assert read_aloud("No model: set NODIUS_LLM_BASE_URL.\n\nIt is here.") == "It is here."
    assert read_aloud("It is a step. Its code:\n```js\nlet a = 1;\n```\nIt ends.") == "It is a step. It ends."
    assert len(read_aloud("A sentence of words. " * 100)) <= 600
    assert read_aloud("A sentence of words. " * 100).endswith(".")
    assert quoted("Dites exactement : Un instant.") == "Un instant."
