"""The overlay answers as a store that holds the edited graph, in text and vector search alike."""

import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasources.base import Database, MutableGraphDataSource
from datasources.builtin_types import types_by_name
from datasources.errors import GraphNotFound
from datasources.hits import Hit, VectorQuery
from datasources.memory_overlay import LiveView, MemoryOverlay
from datasources.mock import MemoryDatabase
from datasources.search import SearchHits, SearchRequest
from datasources.text import node_text
from datasources.types import Edge, Graph, Mutation, Node
from tests.contracts.base import Factory
from tests.contracts.everywhere import EverywhereContract
from tests.contracts.plans import (
    GRAPHS,
    NODES,
    TYPES,
    WORDS,
    Plan,
    Stored,
    made_to_fit,
    plans,
    starts,
    vector_queries,
)
from tests.contracts.reading import NeighborhoodContract, ReadContract
from tests.contracts.samples import (
    FLOW,
    MODEL,
    WORKSPACE,
    a_graph,
    a_node,
    a_type,
    a_vector,
    assert_same_hits,
    floats,
    keys_of,
    make_flow,
    plain,
)
from tests.contracts.searches import search_text, search_vectors
from tests.contracts.searching import TextSearchContract, VectorSearchContract


@dataclass
class Edited:
    """Implements MemoryGraphProvider: graphs whose edits were never saved."""

    source: MutableGraphDataSource
    edits: int = 0
    keys: set[str] = field(default_factory=set[str])

    def live_keys(self) -> list[str]:
        return sorted(self.keys)

    async def get_live_graph(self, graph_key: str) -> Graph | None:
        if graph_key not in self.keys:
            return None
        graph = await self.source.get_graph(graph_key)
        return graph.replace(revision=graph.revision + 2**32)

    async def get_live_nodes(self, graph_key: str) -> list[Node] | None:
        return (await self.source.get_nodes(graph_key))[::-1] if graph_key in self.keys else None

    async def get_live_edges(self, graph_key: str) -> list[Edge] | None:
        return (await self.source.get_edges(graph_key))[::-1] if graph_key in self.keys else None


class _Unsaved:
    """A source to the contracts: what is applied to it stays unsaved, everything else is stored."""

    def __init__(self, stored: Database, edited: Database) -> None:
        self.stored = stored
        self.edited = edited
        self.live: dict[str, set[str]] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stored, name)

    def source(self, workspace: str) -> Any:
        return _UnsavedSource(
            self.stored.source(workspace),
            self.edited.source(workspace),
            self.live.setdefault(workspace, set()),
        )


class _UnsavedSource(MemoryOverlay):
    def __init__(
        self, stored: MutableGraphDataSource, edited: MutableGraphDataSource, keys: set[str]
    ) -> None:
        super().__init__(stored, Edited(edited, keys=keys))
        self._writable = stored
        self._edited = edited
        self._keys = keys

    async def create_graph(self, graph: Graph, mutation: Any = None, records: Any = ()) -> Graph:
        await self._edited.create_graph(graph, mutation)
        return await self._writable.create_graph(graph, mutation, records)

    async def delete_graph(self, graph_key: str) -> None:
        await self._edited.delete_graph(graph_key)
        await self._writable.delete_graph(graph_key)
        self._keys.discard(graph_key)

    async def put_node_config(self, config: Any) -> None:
        await self._edited.put_node_config(config)
        await self._writable.put_node_config(config)

    async def put_embeddings(self, graph_key: str, vectors: Any) -> int:
        """A node has to be stored to have a vector: what is live is saved first."""
        known = {node.key for node in await self._writable.get_nodes(graph_key)}
        nodes = await self._edited.get_nodes(graph_key)
        edges = await self._edited.get_edges(graph_key)
        await self._writable.apply(
            Mutation(
                graph_key=graph_key,
                put_nodes=nodes,
                put_edges=edges,
                delete_nodes=sorted(known - {node.key for node in nodes}),
            )
        )
        return await self._writable.put_embeddings(graph_key, vectors)

    async def apply(self, mutation: Mutation, **more: Any) -> int:
        revision = await self._edited.apply(mutation, **more)
        if mutation.put_configs or mutation.delete_configs:
            types = Mutation(
                graph_key=mutation.graph_key,
                put_configs=mutation.put_configs,
                delete_configs=mutation.delete_configs,
            )
            await self._writable.apply(types)
        self._keys.add(mutation.graph_key)
        return revision


class _Overlay:
    @pytest.fixture
    def factory(self) -> Factory:
        database: Any = _Unsaved(MemoryDatabase(), MemoryDatabase())
        return lambda: database

    @pytest.fixture
    async def database(self, factory: Factory) -> Database:
        return factory()


class TestReading(_Overlay, ReadContract):
    pass


class TestNeighborhoods(_Overlay, NeighborhoodContract):
    pass


class TestTextSearch(_Overlay, TextSearchContract):
    pass


class TestVectorSearch(_Overlay, VectorSearchContract):
    pass


class TestEverywhere(_Overlay, EverywhereContract):
    scored_together = False


async def _flow() -> tuple[MutableGraphDataSource, MutableGraphDataSource, MemoryOverlay, set[str]]:
    stored = MemoryDatabase()
    edited = MemoryDatabase()
    source = await make_flow(stored)
    other = await make_flow(edited)
    live: set[str] = set()
    return source, other, MemoryOverlay(source, Edited(other, keys=live)), live


async def test_without_a_live_graph_everything_is_the_stores() -> None:
    source, other, overlay, _ = await _flow()
    await other.apply(Mutation(graph_key=FLOW, delete_nodes=["a", "b", "c"]))
    assert await overlay.get_graph(FLOW) == await source.get_graph(FLOW)
    assert keys_of(await overlay.get_nodes(FLOW)) == ["a", "apart", "b", "c", "d"]
    assert keys_of(await search_text(overlay, FLOW, "sort", limit=5)) == ["c"]
    with pytest.raises(GraphNotFound):
        await overlay.get_graph("nobody")


async def test_an_unchanged_node_is_found_by_its_vector_a_rewritten_or_deleted_one_is_not() -> None:
    source, other, overlay, live = await _flow()
    vectors = [a_vector(key, 1.0, i / 10) for i, key in enumerate(("a", "b", "c", "d"))]
    await source.put_embeddings(FLOW, vectors)
    moved = (await source.get_nodes_by_key(FLOW, ["a"]))[0].replace(pos_x=999)
    rewritten = a_node("b", data="something else")
    await other.apply(Mutation(graph_key=FLOW, put_nodes=[moved, rewritten], delete_nodes=["c"]))
    live.add(FLOW)
    for limit, expected in ((1, ["a"]), (2, ["a", "d"]), (9, ["a", "d"])):
        hits = await search_vectors(
            overlay, FLOW, VectorQuery(vector=floats(1, 0), model=MODEL, limit=limit)
        )
        assert keys_of(hits) == expected
    assert keys_of(await search_text(overlay, FLOW, "something", limit=5)) == ["b"]
    assert set(await overlay.get_vector_info(FLOW, ["a", "b", "c"])) == {"a", "b"}
    assert set(await overlay.get_vectors(FLOW, ["a", "c"])) == {"a"}
    assert dict((await overlay.get_stats(FLOW)).vectors) == {MODEL: 3}


async def test_a_type_that_changes_changes_the_words_of_live_nodes() -> None:
    source, other, overlay, live = await _flow()
    await other.apply(Mutation(graph_key=FLOW, put_nodes=[a_node("n", type="log")]))
    live.add(FLOW)
    assert await search_text(overlay, FLOW, "chronicle", limit=5) == []
    await source.put_node_config(a_type("log", display_name="Chronicle"))
    assert sorted(keys_of(await search_text(overlay, FLOW, "chronicle", limit=5))) == ["d", "n"]


async def test_a_live_graph_is_listed_as_it_is_now() -> None:
    source, other, overlay, live = await _flow()
    await other.apply(Mutation(graph_key=FLOW, graph=a_graph().replace(name="Renamed")))
    live.add(FLOW)
    assert [graph.name for graph in await overlay.list_graphs()] == ["Renamed"]
    assert (await overlay.get_graph(FLOW)).revision != (await source.get_graph(FLOW)).revision


async def test_the_text_of_live_graphs_is_indexed_outside_the_event_loop_and_only_others_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store, _, overlay, live = await _flow()
    live.add(FLOW)
    threads = set[int]()
    asked = list[dict[str, Any]]()
    search = LiveView.search_words
    users = type(store).find_users

    def noted(self: LiveView, *asked: Any) -> SearchHits:
        threads.add(threading.get_ident())
        return search(self, *asked)

    async def find_users(self: Any, entries: Any, **more: Any) -> Any:
        asked.append(more)
        return await users(self, entries, **more)

    monkeypatch.setattr(LiveView, "search_words", noted)
    monkeypatch.setattr(type(store), "find_users", find_users)
    await overlay.search_everywhere(SearchRequest(query="error", limit=5))
    await search_text(overlay, FLOW, "error", limit=5)
    assert threads
    assert threading.get_ident() not in threads
    await overlay.find_users(["url:nowhere"], limit=7)
    assert asked[0]["limit"] == 7
    assert FLOW not in asked[0]["graphs"]


@dataclass
class Pair:
    """A stored graph with unsaved edits, and a store that holds the edited graph."""

    overlay: MemoryOverlay
    expected: MutableGraphDataSource


async def _made(start: Plan, plan: list[Plan]) -> Pair:
    stored = MemoryDatabase()
    edited = MemoryDatabase()
    for database in (stored, edited):
        source = database.source(WORKSPACE)
        await source.create_graph(a_graph(GRAPHS[0]))
        await source.apply(await _fitted(source, start))
    source = stored.source(WORKSPACE)
    other = edited.source(WORKSPACE)
    before = {node.key: node for node in await source.get_nodes(GRAPHS[0])}
    for step in plan:
        mutation = await _fitted(other, step)
        edit = Mutation(
            graph_key=mutation.graph_key,
            put_nodes=mutation.put_nodes,
            put_edges=mutation.put_edges,
            delete_nodes=mutation.delete_nodes,
            delete_edges=mutation.delete_edges,
            graph=mutation.graph,
        )
        await other.apply(edit)
    # A node whose words changed has no vector until it is embedded again.
    types = types_by_name(await other.get_node_configs())
    after = {node.key: node for node in await other.get_nodes(GRAPHS[0])}
    kept = [
        key
        for key in before.keys() & after.keys()
        if node_text(before[key], types.get(before[key].type))
        == node_text(after[key], types.get(after[key].type))
    ]
    vectors = await source.get_vectors(GRAPHS[0], kept)
    expected = MemoryDatabase()
    oracle = expected.source(WORKSPACE)
    sheets = {"0": "main", "1": "side", "7": "seven"}  # a sheet may go and leave its nodes
    await oracle.create_graph((await other.get_graph(GRAPHS[0])).replace(sheets_list=sheets))
    for config in await other.get_node_configs():
        await oracle.put_node_config(config)
    await oracle.apply(
        Mutation(
            graph_key=GRAPHS[0],
            put_nodes=list(after.values()),
            put_edges=await other.get_edges(GRAPHS[0]),
            put_vectors=list(vectors.values()),
        )
    )
    return Pair(MemoryOverlay(source, Edited(other, keys={GRAPHS[0]})), oracle)


async def _fitted(source: MutableGraphDataSource, plan: Plan) -> Mutation:
    key = GRAPHS[0]
    stored = Stored(
        graph=await source.get_graph(key),
        nodes={node.key: node.sheet for node in await source.get_nodes(key)},
        edges=await source.get_edges(key),
        configs={config.key for config in await source.get_node_configs()},
    )
    return made_to_fit(plan.mutation(key, WORKSPACE), stored)


Question = Callable[[Any], Awaitable[Any]]


def _documents(found: Any) -> Any:
    return [document.to_document() for document in found]


@given(
    start=starts,
    plan=st.lists(plans, min_size=1, max_size=3),
    vector=vector_queries,
    words=st.sampled_from([*WORDS, *NODES, " ".join(WORDS)]),
    seeds=st.lists(st.sampled_from([*NODES, "nobody"]), max_size=4),
    direction=st.sampled_from(["in", "out", "any"]),
    limit=st.sampled_from([1, 2, 3, 50]),
)
async def test_the_overlay_answers_as_a_store_that_holds_the_edited_graph(
    start: Plan,
    plan: list[Plan],
    vector: Any,
    words: str,
    seeds: list[str],
    direction: Any,
    limit: int,
) -> None:
    pair = await _made(start, plan)
    key = GRAPHS[0]

    async def reads(source: Any) -> list[Any]:
        around = await source.get_neighborhood(
            key, seeds, max_depth=2, direction=direction, limit=limit
        )
        stats = await source.get_stats(key)
        return [
            _documents(await source.get_nodes(key, after="b", limit=limit)),
            _documents(await source.get_nodes(key, sheet="0")),
            _documents(await source.get_edges(key, sheet="1")),
            _documents(await source.get_nodes_by_key(key, seeds)),
            _documents(await source.get_edges_of(key, seeds)),
            await source.get_links(key, NODES, limit=limit),
            await source.get_links(key, seeds),
            _documents(await source.get_node_configs(TYPES)),
            (_documents(around.nodes), _documents(around.edges), dict(around.depths)),
            (stats.nodes, stats.edges, dict(stats.types)),
        ]

    assert await reads(pair.overlay) == await reads(pair.expected)
    values, model = vector
    for field_name in ("content", "name"):
        await _same_hits(
            pair,
            limit,
            lambda s, most, f=field_name: search_text(s, key, words, limit=most, field=f),
        )
        await _same_hits(
            pair,
            limit,
            lambda s, most, f=field_name: search_vectors(
                s,
                key,
                VectorQuery(
                    vector=floats(*values), model=model, limit=most, min_score=-1.0, field=f
                ),
            ),
        )
    known = await pair.expected.get_vectors(key, NODES)
    found = await pair.overlay.get_vectors(key, NODES)
    assert all(plain(found[name]) == plain(vector) for name, vector in known.items())


async def _same_hits(
    pair: Pair, limit: int, search: Callable[[Any, int], Awaitable[list[Hit]]]
) -> None:
    everything = await search(pair.expected, 1000)
    assert_same_hits(await search(pair.overlay, limit), everything, limit=limit)
