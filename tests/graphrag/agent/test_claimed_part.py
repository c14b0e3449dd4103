"""Claims about a graph that is too large to read whole are checked by looking up what they name."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from datasources.base import Database, GraphDataSource
from datasources.mock import MemoryDatabase
from datasources.sqlite import SqliteDatabase
from datasources.types import Mutation
from graphrag.agent import answer_check, claimed_part
from graphrag.agent.claimed_part import read_claimed
from graphrag.agent.claims import NotInGraph, not_in_graph
from graphrag.agent.events import Completed
from graphrag.evaluation.answer_cases import read_graph
from tests.contracts.samples import a_graph, a_node, an_edge
from tests.graphrag.agent.test_claims import PUBLISHED, true_answers
from tests.support.agents import scripted
from tests.support.databases import put_sample
from tests.support.service import GRAPH

BIG = "big"
FLOW = ("Fetch players", "Sort by points", "Mail report", "Archive", "Note it", "Cache (old)")
STEPS = 3_000


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """3,000 steps in a row, all archived, and a flow of a few nodes that leads to
    the first step.
    """
    nodes = [a_node(f"step{n}", BIG, data={"name": f"Step number {n}"}) for n in range(STEPS)]
    nodes += [a_node(name.split()[0].lower(), BIG, data={"name": name}) for name in FLOW]
    edges = [an_edge(f"e{n}", f"step{n}", f"step{n + 1}", BIG) for n in range(STEPS - 1)]
    edges += [an_edge(f"a{n}", f"step{n}", "archive", BIG) for n in range(STEPS)]
    pairs = (("fetch", "sort"), ("sort", "mail"), ("fetch", "step0"), ("sort", "cache"))
    edges += [an_edge(f"f{n}", *pair, BIG) for n, pair in enumerate(pairs)]
    made_of = Mutation(graph_key=BIG, put_nodes=nodes, put_edges=edges)
    path = tmp_path_factory.mktemp("big") / "nodius.db"

    async def made() -> None:
        async with SqliteDatabase(path) as database:
            await database.source("default").create_graph(
                a_graph(BIG, workspace="default"), made_of
            )

    asyncio.run(made())
    return path


@pytest.fixture
async def source(file: Path) -> AsyncIterator[GraphDataSource]:
    async with SqliteDatabase(file) as database:
        yield database.source("default")


async def claims(source: GraphDataSource, answer: str) -> NotInGraph:
    part = await read_claimed(source, BIG, answer)
    held = "\n".join(node.to_json().decode() for node in part.alike)
    return not_in_graph(part.answer, part.named, held=held)


@pytest.mark.parametrize(
    ("answer", "nodes", "edges"),
    [
        ("Fetch players --> Sort by points --> Mail report", [], []),
        ("Fetch players --> Mail report", [], [("Fetch players", "Mail report")]),
        ("1. Fetch players (task) → Sort by points, then it ends", [], []),
        ("Sort by points → Cache (old)", [], []),
        ("Step number 17 --> Step number 18", [], []),
        ("Step number 17 --> Step number 19", [], [("Step number 17", "Step number 19")]),
        ("{{node:step17}} --> {{node:step18}} --> step5", [], [("step18", "step5")]),
        ("Step number 2999 --> Archive", [], []),
        ("Note it --> Archive", [], [("Note it", "Archive")]),
        ("In the end, Fetch players leads to Mail report.", [], []),
        ("Mail report leads to Fetch players.", [], [("Mail report", "Fetch players")]),
        ("Note it is connected to Mail report.", [], [("Note it", "Mail report")]),
        (
            "Fetch players leads to Step number 2500.",
            [],
            [],
        ),  # there is more behind it than is read
        ("Step number 7 is not connected to Note it.", [], []),
        ("The node `Cache players` and the node `Mail report`.", ["Cache players"], []),
        ("Fetch players --> Slack --> Sort by points; the node `Step number 2500`.", ["Slack"], []),
    ],
)
async def test_claims_about_a_large_graph_are_looked_up(
    source: GraphDataSource, answer: str, nodes: list[str], edges: list[tuple[str, str]]
) -> None:
    found = await claims(source, answer)
    assert (list(found.nodes), list(found.edges)) == (nodes, edges)


async def test_all_edges_of_a_large_graph_are_true_whatever_is_left_unread(
    source: GraphDataSource,
) -> None:
    ends = [(f"Step number {n}", f"Step number {n + 1}") for n in range(0, STEPS - 1, 97)]
    for form in ("{} --> {}", "**{}** → `{}`", "{} leads to {}."):
        for first in range(0, len(ends), 16):
            answer = "\n".join(form.format(*each) for each in ends[first : first + 16])
            assert not await claims(source, answer)


async def test_an_answer_of_hostile_size_costs_a_bounded_number_of_reads(
    source: GraphDataSource,
) -> None:
    reads = list[str]()

    class Counted:
        def __getattr__(self, name: str) -> Any:
            reads.append(name)
            return getattr(source, name)

    answer = "\n".join(
        f"Step number {n} --> Step number {n + 2}, it leads to Archive." for n in range(2_000)
    )
    part = await read_claimed(Counted(), BIG, answer)  # type: ignore[arg-type]
    assert len(not_in_graph(part.answer, part.named, held="").edges) <= 10
    assert len(reads) <= 2 * 40 + claimed_part.MAX_HUBS + claimed_part.MAX_WALKS + 2


async def test_an_answer_about_a_large_graph_is_marked_in_its_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(answer_check, "WHOLE_NODES", 0)  # the sample graph counts as large
    invented = "**Sort by points** is connected to `Player table`, after the node `Warehouse`."
    async with scripted(invented, "Fetch NBA players --> Keep active players") as (setting, _):
        marked = (await setting.ask("Is Sort by points connected to Player table?"))[-1]
        assert isinstance(marked, Completed)
        assert marked.not_in_graph is not None
        assert marked.not_in_graph["nodes"] == ["Warehouse"]
        assert marked.not_in_graph["edges"] == [["Sort by points", "Player table"]]
        right = (await setting.ask("What follows Fetch NBA players?"))[-1]
        assert isinstance(right, Completed)
        assert right.not_in_graph is None


@pytest.mark.slow
@pytest.mark.skipif(not PUBLISHED.is_dir(), reason="the published workflows are not here")
async def test_no_name_and_no_edge_of_the_published_workflows_is_marked_by_looking_up() -> None:
    for file in sorted(each.name for each in PUBLISHED.iterdir() if each.suffix == ".json")[::3]:
        graph = read_graph(file, PUBLISHED, workspace="default", graph_key=BIG)
        async with MemoryDatabase() as database:
            source = database.source("default")
            nodes = list(graph.nodes.values())
            filled = Mutation(graph_key=BIG, put_nodes=nodes, put_edges=list(graph.edges.values()))
            await source.create_graph(graph.graph, filled)
            for answer in true_answers(graph):
                assert not await claims(source, answer), (file, answer)


async def test_claims_are_looked_up_alike_in_each_store(database: Database) -> None:
    await put_sample(database)
    answer = (
        "Fetch NBA players --error--> Log fetch error\n"
        "Sort by points is connected to Player table.\n"
        "Keep active players leads to Log fetch error.\n"
        "Fetch NBA players --> Warehouse"
    )
    part = await read_claimed(database.source("default"), GRAPH, answer)
    held = "\n".join(node.to_json().decode() for node in part.alike)
    found = not_in_graph(part.answer, part.named, held=held)
    assert found.nodes == ("Warehouse",)
    assert found.edges == (
        ("Sort by points", "Player table"),
        ("Keep active players", "Log fetch error"),
    )
