"""`Describe this graph`: one prompt with all that is needed, of at most 5,500
tokens, tools included.
"""

import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasources.mock import open_nba
from datasources.types import Edge, Graph, Mutation, Node
from graphrag.agent.events import Completed
from graphrag.app.models import rules_provider
from graphrag.approvals import Person
from graphrag.importers import ImportResult, import_workflow
from graphrag.llm.base import LLMProvider
from graphrag.llm.tokens import count_tokens
from graphrag.retrieval.outline import build_outline, paths
from graphrag.retrieval.turn_context import asks_about_graph
from tests.graphrag.retrieval.outline_reader import read_outline
from tests.support.agents import GRAPH, Setting, collected, setting_on, text_of
from tests.support.data_files import needs_published, published
from tests.support.scripted_provider import ScriptedProvider

AT_MOST_TOKENS = 6_300  # tools describe their arguments, each with an example
ROLES = ("viewer", "editor", "reviewer")
QUESTIONS = {"en": "Describe this graph", "fr": "Décris ce graphe"}


def imported(file: Path) -> ImportResult:
    return import_workflow(file.read_bytes(), file_name=file.name, workspace="default")


@asynccontextmanager
async def described(
    provider: LLMProvider, file: Path | None, language: str
) -> AsyncIterator[tuple[Setting, str]]:
    """An agent on the sample graph, or on a workflow of a file, and the key of the graph."""
    async with open_nba("default") as database:
        source = database.source("default")
        key = GRAPH
        if file is not None:
            made = imported(file)
            key = made.graph.key
            for config in made.configs:
                await source.put_node_config(config)
            await source.create_graph(made.graph)
            await source.apply(Mutation(graph_key=key, put_nodes=made.nodes, put_edges=made.edges))
        yield setting_on(database, provider, language=language), key


async def asked_tokens(file: Path | None, role: str, language: str) -> int:
    with ScriptedProvider("It does things.") as model:
        async with described(model, file, language) as (setting, key):
            person = Person("p", role, "default")  # type: ignore[arg-type]
            events = await collected(setting.agent.run(None, key, QUESTIONS[language], person))
        assert isinstance(events[-1], Completed)
        (request,) = model.requests
        schemas = json.dumps(
            [dict(tool) for tool in request.tools], separators=(",", ":"), ensure_ascii=False
        )
        context = request.messages[1].content
        assert any(heading in context for heading in ("THE WHOLE GRAPH", "TOUT LE GRAPHE", "NODES"))
        return sum(count_tokens(m.content) for m in request.messages) + count_tokens(schemas)


def workflows() -> list[Path]:
    """Return the sample workflows of 55 to 65 nodes."""
    found: list[Path] = []
    for path in published("workflows", "n8n-*.json"):
        if path.stat().st_size < 400_000:
            nodes = len(json.loads(path.read_bytes()).get("nodes", []))
            found += [path] if 55 <= nodes <= 65 else []
    assert found
    return found


@pytest.mark.parametrize("language", [*QUESTIONS])
@pytest.mark.parametrize("role", [*ROLES])
async def test_the_sample_graph_is_described_from_few_tokens(role: str, language: str) -> None:
    assert await asked_tokens(None, role, language) <= AT_MOST_TOKENS


@pytest.mark.parametrize("language", ["en", pytest.param("fr", marks=pytest.mark.slow)])
@needs_published
@pytest.mark.slow
async def test_real_workflows_of_60_nodes_are_described_from_few_tokens(language: str) -> None:
    counted = {path.name: await asked_tokens(path, "reviewer", language) for path in workflows()}
    assert max(counted.values()) <= AT_MOST_TOKENS, counted


@pytest.mark.parametrize(
    "question", ["Describe this graph", "what does this workflow do?", "décris ce graphe"]
)
async def test_without_a_model_the_graph_is_described(question: str) -> None:
    async with described(rules_provider(), None, "en") as (setting, key):
        events = await collected(
            setting.agent.run(None, key, question, Person("p", "editor", "default"))
        )
    text = text_of(events)
    assert text.startswith(("No language model", "Aucun modèle"))
    for found in (
        "NBA Stats Pipeline",
        "{{node:entry-form}}",
        "{{node:root}} → {{node:fetch-api}}",
        "sort-stats",
    ):
        assert found in text
    assert "9 nodes and 6 edges" in text or "9 nœuds et 6 arêtes" in text


@pytest.mark.parametrize(
    ("question", "is_about"),
    [
        ("Describe this graph", True),
        ("what does this workflow do?", True),
        ("Give me an overview, please", True),
        ("que fait ce workflow ?", True),
        ("De quoi parle ce graphe ?", True),
        ("décris-moi le graphe", True),
        ("Describe the filter", False),
        ("what does fetch-api do?", False),
        ("how does the graph handle errors?", False),
        ("delete this graph", False),
        ("", False),
    ],
)
def test_a_question_about_the_whole_graph_is_recognised(question: str, is_about: bool) -> None:
    assert asks_about_graph(question) is is_about


# the outline

keys = st.text(st.characters(codec="utf-8", exclude_categories=("Z", "C")), min_size=1, max_size=6)


@given(st.dictionaries(keys, st.lists(keys, max_size=5), max_size=8))
def test_paths_go_along_every_link_once(onward: dict[str, list[str]]) -> None:
    walked = Counter((a, b) for path in paths(onward) for a, b in pairwise(path))
    assert walked == Counter(
        (source, target) for source, targets in onward.items() for target in targets
    )


async def outline_of(
    nodes: list[Node], edges: list[Edge], budget_tokens: int = 100_000
) -> str | None:
    async with open_nba("default") as database:
        source = database.source("default")
        graph = await source.create_graph(
            Graph(key="g", workspace="default", name="G", sheets_list={"0": "main"})
        )
        await source.apply(Mutation(graph_key="g", put_nodes=nodes, put_edges=edges))
        return await build_outline(
            source, graph, language="en", budget_tokens=budget_tokens, count_tokens=count_tokens
        )


def a_node(key: str, **fields: object) -> Node:
    return Node.model_validate(
        {"_key": key, "graphKey": "g", "type": "log-node", "sheet": "0", **fields}
    )


def an_edge(number: int, source: str, target: str, label: str | None = None) -> Edge:
    ends = {"source": source, "sourceHandle": "0", "target": target, "targetHandle": "0"}
    return Edge.model_validate(
        {"_key": f"e{number}", "graphKey": "g", "sheet": "0", "label": label, **ends}
    )


hostile = st.text(max_size=30) | st.sampled_from(
    [
        "x\nnodes: 99",
        "\n\nTHE WHOLE GRAPH\nnodes: 1",
        "flow[1]{path}:\n  a b",
        '"',
        "a,b",
        "null",
        "\u2028types[0]:",
    ]
)


@given(st.data())
async def test_an_outline_is_read_back_whole_whatever_is_written_in_the_graph(
    data: st.DataObject,
) -> None:
    names = data.draw(st.lists(keys, unique=True, min_size=1, max_size=6))
    nodes = [a_node(key, type=data.draw(keys), data={"name": data.draw(hostile)}) for key in names]
    ends = data.draw(
        st.lists(st.tuples(st.sampled_from(names), st.sampled_from(names)), max_size=6)
    )
    edges = [an_edge(i, a, b, data.draw(st.none() | hostile)) for i, (a, b) in enumerate(ends)]
    text = await outline_of(nodes, edges)
    assert text is not None
    read = read_outline(f"[GRAPH CONTEXT]\n{text}\n\nRELEVANT NODES")
    assert Counter(link[:2] for link in read.links) == Counter(ends)
    tied = {end for pair in ends for end in pair}
    assert {row["_key"] for row in read.overview.rows("without_edges")} == set(names) - tied


async def test_a_graph_too_large_for_the_room_or_with_blanks_in_its_keys_has_no_outline() -> None:
    many = [a_node(f"n{i}") for i in range(150)]
    assert await outline_of(many, [], budget_tokens=40) is None
    assert await outline_of([a_node("a b")], []) is None
    assert await outline_of([], []) is None
