"""Retrieval: both modes, what is cached and for how long, where each node comes from, and
what is missing.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from datasources.errors import GraphNotFound
from datasources.mock import MemoryDatabase, open_nba
from datasources.types import Mutation
from graphrag.embedding import LocalEmbedder
from graphrag.embedding.embedder import AskedText, EmbeddingUnreachable
from graphrag.embedding.refresh import embed_nodes
from graphrag.retrieval.graph_search import MAX_DEGREE
from graphrag.retrieval.rank import RankOptions
from graphrag.retrieval.retrieval_result import Retrieval, RetrievalOptions
from graphrag.retrieval.retriever import LEAD_WORDS, Retriever
from tests.contracts.samples import OTHER, WORKSPACE, a_graph, a_node, an_edge, make_flow

NBA = "testgraph001"
local = LocalEmbedder()


class Counting:
    """The source, counting its calls by name; a gate holds text searches back."""

    def __init__(self, source: Any) -> None:
        self._source = source
        self.calls: list[str] = []
        self.searched = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._source, name)
        if not callable(method):
            return method

        async def counted(*args: Any, **kwargs: Any) -> Any:
            self.calls.append(name)
            if name == "search_text":
                self.searched.set()
                await self.gate.wait()
            return await method(*args, **kwargs)

        return counted

    def count(self, name: str) -> int:
        return self.calls.count(name)


class Failing:
    """An embedding service that is down."""

    model = "down"

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        raise EmbeddingUnreachable(provider="down", reason="connection refused")

    async def aclose(self) -> None:
        """Nothing is held open."""


async def nba(*, embedded: bool = True) -> Any:
    source = open_nba().source("test")
    if embedded:
        await embed_nodes(source, local)
    return source


def keys(found: Retrieval) -> list[str]:
    return [scored.node.key for scored in found.nodes]


def options(**fields: Any) -> RetrievalOptions:
    return RetrievalOptions(**fields)


# Modes


@pytest.mark.parametrize("mode", ["hybrid", "vector", "text"])
async def test_each_mode_finds_the_node_that_is_asked_for(mode: Any) -> None:
    retriever = Retriever(await nba(), local, options=options(mode=mode))
    found = await retriever.retrieve(NBA, "fetch the NBA players from the API")
    assert keys(found)[0] == "fetch-api"
    assert found.mode == mode
    assert found.notes == ()
    assert found.graph.key == NBA
    assert set(found.ms) == {"embed", "search", "read"}


@pytest.mark.parametrize("mode", ["hybrid", "vector", "text"])
@pytest.mark.parametrize("max_nodes", [1, 3, 20])
async def test_every_edge_among_the_found_nodes_is_there_and_no_other(
    mode: Any, max_nodes: int
) -> None:
    source = await nba()
    found = await Retriever(source, local).retrieve(
        NBA, "filter active players", options(mode=mode, max_nodes=max_nodes)
    )
    inside = set(keys(found))
    assert 1 <= len(inside) == len(found.nodes) <= max_nodes
    everything = await source.get_edges(NBA)
    expected = {edge.key for edge in everything if edge.source in inside and edge.target in inside}
    assert {edge.key for edge in found.edges} == expected


@pytest.mark.parametrize("mode", ["hybrid", "vector", "text"])
async def test_configs_of_all_found_types_come_along_built_in_ones_too(mode: Any) -> None:
    found = await Retriever(await nba(), local).retrieve(
        NBA, "start fetch return", options(mode=mode)
    )
    assert set(found.configs) == {scored.node.type for scored in found.nodes}
    assert found.configs["starter"].category == "builtin"
    assert found.configs["api-call"].display_name == "API Call"


async def test_hybrid_brings_neighbours_that_no_word_names() -> None:
    source = await make_flow(MemoryDatabase())
    found = await Retriever(source, None).retrieve("flow", "journal")
    assert keys(found)[0] == "d"
    assert "a" in keys(found)
    assert "b" in keys(found)
    reasons = {scored.node.key: scored.reasons for scored in found.nodes}
    assert reasons["a"] == ("near:d",)
    alone = options(rank=RankOptions(damping=0.0))
    assert keys(await Retriever(source, None).retrieve("flow", "journal", alone)) == ["d"]


async def test_hybrid_goes_two_steps_and_not_over_hubs() -> None:
    source = await make_flow(MemoryDatabase())
    hub = [f"leaf {i:02}" for i in range(MAX_DEGREE)]
    made = Mutation(
        graph_key="flow",
        put_nodes=[a_node("zebra"), *map(a_node, ("film", "director", "everywhere", *hub))],
        put_edges=[
            an_edge("e1", "zebra", "film"),
            an_edge("e2", "director", "film"),
            an_edge("e3", "zebra", "everywhere"),
            *(an_edge(f"to {key}", "everywhere", key) for key in hub),
        ],
    )
    await source.apply(made)
    found = await Retriever(source, None).retrieve("flow", "zebra", options(max_nodes=200))
    reasons = {scored.node.key: scored.reasons for scored in found.nodes}
    assert reasons["film"] == ("near:zebra",)
    assert reasons["director"] == ("near:film",)
    assert "everywhere" in reasons
    assert not reasons.keys() & set(hub)


async def test_vector_mode_walks_from_its_seeds_as_deep_as_allowed() -> None:
    source = await nba()
    retriever = Retriever(source, local)
    found: dict[int, dict[str, tuple[str, ...]]] = {}
    for depth in (0, 1, 2):
        result = await retriever.retrieve(
            NBA,
            "error handler log",
            options(mode="vector", seeds=1, min_cosine=0.0, max_depth=depth),
        )
        found[depth] = {scored.node.key: scored.reasons for scored in result.nodes}
    assert list(found[0]) == ["error-handler"]
    assert set(found[1]) == {"error-handler", "fetch-api"}
    assert set(found[2]) == {"error-handler", "fetch-api", "root", "filter-active"}


async def test_vector_mode_without_a_near_vector_falls_back_to_words() -> None:
    found = await Retriever(await nba(), local).retrieve(
        NBA, "fetch players", options(mode="vector", min_cosine=0.999)
    )
    assert keys(found)[0] == "fetch-api"
    assert found.notes == ("no-vector-match",)
    assert found.nodes[0].reasons == ("text",)


# What is missing


@pytest.mark.parametrize("mode", ["hybrid", "vector"])
async def test_without_an_embedder_words_answer_and_it_is_said(mode: Any) -> None:
    found = await Retriever(await nba(), None).retrieve(NBA, "fetch players", options(mode=mode))
    assert keys(found)[0] == "fetch-api"
    assert found.notes == ("no-embedder",)


@pytest.mark.parametrize("mode", ["hybrid", "vector"])
async def test_a_failing_embedding_service_is_said_and_words_answer(mode: Any) -> None:
    found = await Retriever(await nba(), Failing()).retrieve(
        NBA, "fetch players", options(mode=mode)
    )
    assert keys(found)[0] == "fetch-api"
    assert found.notes[0].startswith("embedding-failed: ")
    assert "connection refused" in found.notes[0]


async def test_a_graph_that_was_never_embedded_is_said() -> None:
    found = await Retriever(await nba(embedded=False), local).retrieve(NBA, "fetch players")
    assert keys(found)[0] == "fetch-api"
    assert found.notes == ("no-vectors",)


@pytest.mark.parametrize("mode", ["hybrid", "vector", "text"])
@pytest.mark.parametrize("question", ["", "   ", "🏀", "zzzqqq"])
async def test_a_question_that_matches_nothing_gets_the_first_nodes(
    mode: Any, question: str
) -> None:
    source = await nba(embedded=False)
    found = await Retriever(source, None).retrieve(NBA, question, options(mode=mode, max_nodes=4))
    assert keys(found) == [node.key for node in await source.get_nodes(NBA, limit=4)]
    assert "graph-order" in found.notes
    assert {scored.reasons for scored in found.nodes} == {("graph",)}


class Unrelated:
    """An embedder to which no question has to do with any node."""

    model = "unrelated"

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.array(
            [[1, 0] if isinstance(text, AskedText) else [0, 1] for text in texts], np.float32
        )

    async def aclose(self) -> None:
        """Nothing is held open."""


async def test_a_question_far_from_all_nodes_gets_the_first_ones() -> None:
    source = await nba(embedded=False)
    await embed_nodes(source, Unrelated())
    found = await Retriever(source, Unrelated()).retrieve(NBA, "zzzqqq", options(max_nodes=2))
    assert keys(found) == [node.key for node in await source.get_nodes(NBA, limit=2)]
    assert "graph-order" in found.notes


async def test_a_long_text_is_found_by_what_it_says_first() -> None:
    texts = {
        "mail": "send an email with the invoice of the month to the customer",
        "sheet": "append a row to the spreadsheet",
    }
    source = MemoryDatabase().source(WORKSPACE)
    put = [a_node(key, type="x", data={"name": text}) for key, text in texts.items()]
    await source.create_graph(a_graph(), Mutation(graph_key="flow", put_nodes=put))
    await embed_nodes(source, local)
    weights = {"vector": 1.0}
    asked = " ".join([texts["mail"], *[texts["sheet"]] * 3])
    assert len(asked.split()) > 2 * LEAD_WORDS
    best = RetrievalOptions(max_nodes=1, rank=RankOptions(weights=weights))
    assert keys(await Retriever(source, local, options=best).retrieve("flow", asked)) == ["mail"]


@pytest.mark.parametrize("mode", ["hybrid", "vector", "text"])
async def test_an_empty_graph_answers_with_nothing(mode: Any) -> None:
    source = MemoryDatabase().source(WORKSPACE)
    await source.create_graph(a_graph())
    found = await Retriever(source, local).retrieve("flow", "anything", options(mode=mode))
    assert (found.nodes, found.edges, dict(found.configs)) == ((), (), {})


async def test_an_unknown_graph_is_said_every_time() -> None:
    retriever = Retriever(await nba(), local)
    for _ in range(2):
        with pytest.raises(GraphNotFound, match="elsewhere"):
            await retriever.retrieve("elsewhere", "question")


@given(st.text(max_size=80), st.sampled_from(["hybrid", "vector", "text"]))
async def test_any_question_is_answered(question: str, mode: Any) -> None:
    found = await Retriever(await nba(embedded=False), local).retrieve(
        NBA, question, options(mode=mode)
    )
    assert 1 <= len(found.nodes) <= 9
    assert all(scored.reasons for scored in found.nodes)


# Types left out, isolation, provenance


@pytest.mark.parametrize("mode", ["hybrid", "vector", "text"])
async def test_left_out_types_make_room_for_others_and_are_walked_over(mode: Any) -> None:
    source = await nba()
    left_out = options(mode=mode, exclude_types=("api-call",), max_nodes=3)
    found = await Retriever(source, local).retrieve(
        NBA, "fetch players API success error", left_out
    )
    assert "fetch-api" not in keys(found)
    assert len(found.nodes) == 3
    assert all("fetch-api" not in (edge.source, edge.target) for edge in found.edges)


@pytest.mark.parametrize("mode", ["hybrid", "vector", "text"])
async def test_another_graph_or_workspace_never_shows(mode: Any) -> None:
    database = MemoryDatabase()
    ours = await make_flow(database)
    await make_flow(database, OTHER, "theirs")
    await make_flow(database, WORKSPACE, "second")
    secret = a_node("secret", "theirs", data={"name": "Fetch invoices secretly"})
    await database.source(OTHER).apply(Mutation(graph_key="theirs", put_nodes=[secret]))
    second = a_node("second-only", "second", data={"name": "Fetch invoices"})
    await ours.apply(Mutation(graph_key="second", put_nodes=[second]))
    for workspace in (WORKSPACE, OTHER):
        await embed_nodes(database.source(workspace), local)
    retriever = Retriever(ours, local)
    found = await retriever.retrieve("flow", "fetch invoices secretly", options(mode=mode))
    assert set(keys(found)) <= {"a", "b", "c", "d", "apart"}
    assert {scored.node.graph_key for scored in found.nodes} == {"flow"}
    with pytest.raises(GraphNotFound):
        await retriever.retrieve("theirs", "fetch invoices")
