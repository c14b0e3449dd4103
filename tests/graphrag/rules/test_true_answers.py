"""Answers without a model are true: what fails, what is not understood, and first questions
of a stranger.
"""

from itertools import pairwise
from typing import Any

import orjson
import pytest

from datasources.mock import MemoryDatabase
from graphrag.agent.reply import sources_of
from graphrag.approvals import Approvals, Person
from graphrag.importers.exchange import import_bytes
from graphrag.rules.patterns import grammar
from tests.graphrag.importers.helpers import n8n, n8n_node, to
from tests.graphrag.rules.talk import nba, talk, workflow
from tests.support.data_files import needs_published, published
from tools.base import ToolContext

SHOP = n8n(
    [
        n8n_node("Start", "n8n-nodes-base.manualTrigger"),
        n8n_node("Charge", "n8n-nodes-base.httpRequest", onError="continueErrorOutput"),
        n8n_node("Ship", "n8n-nodes-base.httpRequest"),
        n8n_node("Refund", "n8n-nodes-base.httpRequest", onError="continueErrorOutput"),
        n8n_node("Warn", "n8n-nodes-base.slack", onError="continueRegularOutput"),
        n8n_node("Log", "n8n-nodes-base.set"),
        n8n_node("Sort", "n8n-nodes-base.switch"),
    ],
    {
        "Start": {"main": [[to("Charge")]]},
        "Charge": {"main": [[to("Ship")], [to("Refund")]]},
        "Ship": {"main": [[to("Log")]]},
        "Refund": {"main": [[to("Warn")]]},
        "Warn": {"main": [[to("Log")]]},
    },
)


async def _context(raw: bytes, name: str = "shop") -> ToolContext:
    source = MemoryDatabase().source("test")
    approvals = Approvals(source, MemoryDatabase().records("test"))
    person = Person("eve", "editor", "test")
    await import_bytes(approvals, raw, person, file_name=f"{name}.json", graph_key=name)
    return ToolContext(source=source, graph_key=name, role="editor")


@pytest.mark.parametrize(
    ("node", "said", "runs", "stops"),
    [
        (
            "Charge",
            "its error output leads to {{node:refund}}",
            {"refund", "warn", "log"},
            {"ship"},
        ),
        ("Ship", "the run ends there: it has no error output", set[str](), {"log"}),
        ("Refund", "but leads to no node", set[str](), {"warn", "log"}),
        ("Warn", "the run goes on without its result", {"log"}, set[str]()),
        ("Log", "Nothing comes after {{node:log}}", set[str](), set[str]()),
    ],
)
async def test_a_failure_is_followed_from_the_error_output_alone(
    node: str, said: str, runs: set[str], stops: set[str]
) -> None:
    turn = await talk(await _context(orjson.dumps(SHOP)), f"What happens if {node} fails?")
    sources = sources_of(turn.text)
    assert said in turn.text
    assert (set(sources.get("runs", ())), set(sources.get("stops", ()))) == (runs, stops)
    assert set(sources.get("behind", ())) == runs | stops


@pytest.mark.parametrize(("length", "said"), [(12, False), (13, True), (150, True)])
async def test_an_answer_says_how_far_a_long_way_was_followed(length: int, said: bool) -> None:
    names = [f"Step {at}" for at in range(length)]
    links = {name: {"main": [[to(following)]]} for name, following in pairwise(names)}
    context = await _context(orjson.dumps(n8n([n8n_node(name) for name in names], links)), "long")
    for question in ("What happens if Step 0 fails?", "What are all the nodes after Step 0?"):
        turn = await talk(context, question)
        assert ("12 steps: nodes further away" in turn.text) is said, turn.text


async def test_catch_nodes_of_node_red_are_named() -> None:
    base: dict[str, Any] = {"z": "t", "x": 1, "y": 1}
    flow = [
        {"id": "t", "type": "tab", "label": "Tab"},
        {"id": "1", "type": "http request", "name": "Ask", "wires": [["2"]], **base},
        {"id": "2", "type": "debug", "name": "Show", "wires": [], **base},
        {"id": "3", "type": "catch", "name": "Any error", "wires": [["2"]], **base},
    ]
    turn = await talk(await _context(orjson.dumps(flow), "flow"), "What happens if Ask fails?")
    assert "catch nodes of its tab get the error: {{node:any-error}}" in turn.text


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ("Duplicate fetch-api", "help_duplicate"),
        ("copy the filter", "help_duplicate"),
        ("Disable filter-active", "help_disable"),
        ("turn off fetch-api", "help_disable"),
        ("Run the workflow", "help_run"),
        ("export this as json", "help_files"),
        ("Optimize this workflow", "help_verb"),
        ("translate the labels to German", "help_verb"),
    ],
)
async def test_what_is_not_understood_is_said_with_what_does_it(asked: str, text: str) -> None:
    turn = await talk(nba(), asked)
    assert grammar("en").texts[text] in turn.text
    assert turn.proposals == []


async def test_a_name_that_is_no_key_is_not_tried_as_one() -> None:
    for question in (
        "What happens if the fetch API fails?",
        "what comes after Sort by points?",
        "what is root?",
    ):
        turn = await talk(nba(), question)
        assert not [result.text for result in turn.results if result.is_error], question


QUESTIONS = """
What does this workflow do?
Describe this graph
Explain this workflow step by step
Give me a summary
How many nodes are there?
How many edges are there?
Which node types are used?
List all nodes
Where does it start?
Where does it end?
What triggers it?
Which nodes are not connected?
What is the longest path?
When does it run?
Which APIs does it call?
Which credentials does it use?
Which models does it use?
What prompts are in it?
Which nodes are disabled?
What tools does the agent have?
Show the sheets
What is {node}?
What does {node} do?
Explain {node}
Show the code of {node}
What comes after {node}?
What comes before {node}?
What happens if {node} fails?
What depends on {node}?
What would break if I delete {node}?
Is it safe to remove {node}?
How does data get to {node}?
How critical is {node}?
Duplicate {node}
Disable {node}
Rename {node} to Something Else
Delete {node}
Move {node} to 100, 200
Run {node}
Optimize this workflow
Undo the last change
"""
MISSED = (
    "I have no rule for this",
    "could not be read",
    "I found no node called",
    "few enough steps",
)
MISSED_AT_MOST = 4


async def _missed(context: ToolContext) -> tuple[list[str], list[str]]:
    """Return the questions that a graph has no answer for, and the answers that are not true."""
    nodes = await context.source.get_nodes(context.graph_key)
    edges = await context.source.get_edges(context.graph_key)
    starts = {edge.source for edge in edges}
    node = next((one for one in nodes if one.key in starts and one.type != "note"), nodes[0])
    missed: list[str] = []
    untrue: list[str] = []
    for line in QUESTIONS.strip().splitlines():
        question = line.format(node=f'"{node.data.get("name", node.key)}"')
        turn = await talk(context, question)
        if any(text in turn.text for text in MISSED):
            missed.append(question)
        known = {one.key for one in nodes}
        if turn.cited - known or (
            turn.proposals and not line.startswith(("Rename", "Delete", "Move"))
        ):
            untrue.append(question)
        if line.startswith("What happens"):
            reached = _behind(node.key, edges)
            marked = set(sources_of(turn.text).get("behind", ()))
            untrue += [] if marked <= reached and "runs" not in _stopped(turn.text) else [question]
    return missed, untrue


def _stopped(text: str) -> dict[str, list[str]]:
    """Return the sources of an answer that says that a run ends: nothing may run then."""
    return sources_of(text) if "the run ends there" in text else {}


def _behind(key: str, edges: Any) -> set[str]:
    reached = set[str]()
    queue = [key]
    while queue:
        new = {edge.target for edge in edges if edge.source == queue[0]} - reached
        reached |= new
        queue = [*queue[1:], *new]
    return reached


async def test_41_first_questions_about_the_samples_have_true_answers() -> None:
    assert len(QUESTIONS.strip().splitlines()) == 41
    for context in (nba(), await workflow("order_refund")):
        missed, untrue = await _missed(context)
        assert untrue == []
        assert len(missed) <= MISSED_AT_MOST, missed


@needs_published
@pytest.mark.slow
async def test_41_first_questions_about_published_workflows_have_true_answers() -> None:
    for path in published("workflows", "n*.json")[::40]:
        missed, untrue = await _missed(await _context(path.read_bytes(), path.stem))
        assert untrue == [], path
        assert len(missed) <= MISSED_AT_MOST, (path, missed)
