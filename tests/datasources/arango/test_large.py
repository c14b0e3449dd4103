"""Large graphs and changes: indexes answer where they are ready, words are all found, a
change is one.
"""

from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasources.arango import ArangoDatabase, applying, parse_address, setup
from datasources.arango.graph_documents import own_words
from datasources.arango.layout import NODES, VECTOR_FIELDS, VIEW, vector_index
from datasources.arango.type_words import TypeWords, texts_of
from datasources.errors import SourceError
from datasources.hits import VectorQuery
from datasources.mock import MemoryDatabase
from datasources.text import node_text, tokenize
from datasources.types import Mutation, NodeTypeConfig, TypeTemplate
from tests.contracts.samples import (
    FLOW,
    MODEL,
    WORKSPACE,
    a_graph,
    a_node,
    a_type,
    a_vector,
    an_edge,
    assert_found,
    floats,
    keys_of,
    make_flow,
)
from tests.contracts.searches import search_text, search_vectors
from tests.datasources.arango.kit import opened, revision
from tests.support.arango import ArangoServer, prepare

DIM = 4


class Place:
    """A database of the double whose graphs are all large, with 30 embedded nodes."""

    def __init__(self, server: ArangoServer) -> None:
        self.server, self.name = server, server.fresh()
        self.address = server.address(self.name)

    def opened(self) -> ArangoDatabase:
        return ArangoDatabase(parse_address(self.address), exact_nodes=-1)

    def call(self, method: str, path: str, body: object = None) -> None:
        self.server.call(method, f"/_db/{self.name}{path}", body)

    def index(self, field: str, dimension: int = DIM) -> None:
        self.call("POST", f"/_api/index?collection={NODES}", vector_index(field, dimension))

    async def fill(self) -> np.ndarray:
        rows = np.random.default_rng(5).normal(size=(30, DIM)).astype(np.float32)
        async with self.opened() as database:
            source = await make_flow(database)
            keys = [f"n{i:02}" for i in range(30)]
            await source.apply(Mutation(graph_key=FLOW, put_nodes=[a_node(key) for key in keys]))
            vectors = [
                a_vector(k, *row, name=tuple(row[::-1])) for k, row in zip(keys, rows, strict=True)
            ]
            await source.put_embeddings(FLOW, vectors)
        return rows

    def texts(self) -> list[str]:
        return list(self.server.call("GET", "/_double/stats")["queries"])


@pytest.fixture
async def place(arango_double: ArangoServer) -> AsyncIterator[Place]:
    place = Place(arango_double)
    await prepare(place.address)
    yield place
    arango_double.drop(place.name)


async def nearest(place: Place, query: np.ndarray, field: str = "content") -> list[str]:
    async with place.opened() as database:
        source = database.source("acme")
        place.server.forget_counts()
        hits = await search_vectors(
            source, FLOW, VectorQuery(vector=query, model=MODEL, limit=5, min_score=-1, field=field)
        )  # type: ignore[arg-type]
    return keys_of(hits)


@pytest.mark.parametrize("field", ["content", "name"])
async def test_the_vector_index_finds_what_an_exact_search_finds(place: Place, field: str) -> None:
    rows = await place.fill()
    query = floats(1, -2, 0.5, 1)
    exact = await nearest(place, query, field)
    assert not any("APPROX_NEAR" in text for text in place.texts())
    place.index("embedding")
    place.index("nameEmbedding")
    assert await nearest(place, query, field) == exact
    assert any("APPROX_NEAR" in text for text in place.texts())
    vectors = rows if field == "content" else rows[:, ::-1]
    cosines = vectors @ query / np.linalg.norm(vectors, axis=1) / np.linalg.norm(query)
    assert exact == [f"n{i:02}" for i in np.argsort(-cosines)[:5]]


async def test_an_index_that_cannot_answer_is_done_without(place: Place) -> None:
    await place.fill()
    query = floats(1, -2, 0.5, 1)
    exact = await nearest(place, query)
    place.index("embedding")  # but none of names, so the statement is refused
    assert await nearest(place, query) == exact
    async with place.opened() as database:
        source = database.source("acme")
        await search_vectors(source, FLOW, VectorQuery(vector=query, model=MODEL, limit=5))
        place.server.forget_counts()
        await search_vectors(source, FLOW, VectorQuery(vector=query, model=MODEL, limit=5))
    assert not any("APPROX_NEAR" in text for text in place.texts())


async def test_an_index_that_finds_too_few_is_followed_by_an_exact_search(place: Place) -> None:
    await place.fill()
    query = floats(1, -2, 0.5, 1)
    exact = await nearest(place, query)
    place.index("embedding")
    place.index("nameEmbedding")
    place.server.limit(near=3)
    try:
        assert await nearest(place, query) == exact
    finally:
        place.server.limit(near=None)
    assert any("APPROX_NEAR" in text for text in place.texts())
    assert any("COSINE_SIMILARITY" in text for text in place.texts())


async def test_an_index_that_was_not_trained_is_noticed_and_made_again(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(setup, "WORTH_AN_INDEX", 30)
    for field in ("embedding", "nameEmbedding"):  # made when there was nothing to learn from
        body = vector_index(field, DIM)
        body["params"]["nLists"] = 1_000
        place.call("POST", f"/_api/index?collection={NODES}", body)
    await place.fill()
    query = floats(1, -2, 0.5, 1)
    assert len(await nearest(place, query)) == 5  # exact meanwhile
    async with place.opened() as database:
        findings = {finding.name: finding for finding in await database.check()}
        assert (findings["vectors"].status, "not trained" in findings["vectors"].detail) == (
            "warning",
            True,
        )
        assert "nodius db init" in findings["vectors"].fix
        done = await database.set_up()
        assert done == [f"made the vector index of {f}, {DIM} dimensions" for f in VECTOR_FIELDS]
        findings = {finding.name: finding for finding in await database.check()}
        assert findings["vectors"].status == "ok"
        assert await database.set_up() == []


async def test_vectors_that_an_index_would_refuse_are_stored_and_found(place: Place) -> None:
    await place.fill()
    place.index("embedding")
    place.index("nameEmbedding")
    async with place.opened() as database:
        source = database.source("acme")
        other = [
            a_vector("n00", 1, 0, model="model-b"),
            a_vector("n01", 1, 2, name=(0, 1), model="model-b"),
        ]
        assert await source.put_embeddings(FLOW, other) == 2
        await source.apply(
            Mutation(graph_key=FLOW, put_vectors=[a_vector("n02", 0, 1, model="model-b")])
        )
        hits = await search_vectors(
            source, FLOW, VectorQuery(vector=floats(1, 0), model="model-b", limit=5, min_score=-1)
        )
        assert keys_of(hits) == ["n00", "n01", "n02"]
        assert (await source.get_vectors(FLOW, ["n01"]))["n01"].content.tolist() == [1, 2]
        back = a_vector("n00", 1, 0, 0, 0)
        assert await source.put_embeddings(FLOW, [back]) == 1
        assert (await source.get_vectors(FLOW, ["n00"]))["n00"].content.tolist() == [1, 0, 0, 0]


async def test_without_the_view_words_are_found_all_the_same(place: Place) -> None:
    await place.fill()
    async with place.opened() as database:
        source = database.source("acme")
        by_view = await search_text(source, FLOW, "sort invoices", limit=5)
        place.call("DELETE", f"/_api/view/{VIEW}")
        without = await search_text(source, FLOW, "sort invoices", limit=5)
    assert keys_of(without) == keys_of(by_view) == ["c", "b"]


async def test_a_graph_is_large_beyond_so_many_nodes(place: Place) -> None:
    await place.fill()
    for exact_nodes, is_large in ((35, False), (34, True)):
        async with ArangoDatabase(
            parse_address(place.address), exact_nodes=exact_nodes
        ) as database:
            for _ in range(2):
                place.server.forget_counts()
                hits = await search_text(database.source("acme"), FLOW, "sort invoices", limit=5)
                assert keys_of(hits) == ["c", "b"]
                assert any("@@view" in text for text in place.texts()) == is_large
            asked = sum("@@nodes" in text for text in place.texts())
            assert asked == 1, "its size is asked for once a minute"


async def test_pages_are_whole_on_a_server_that_orders_text_otherwise(place: Place) -> None:
    async with place.opened() as database:
        source = await make_flow(database)
        database.state.by_code_point = False
        await source.apply(
            Mutation(graph_key=FLOW, put_nodes=[a_node(key) for key in ("B", "é", "x y")])
        )
        seen: list[str] = []
        after = None
        while found := await source.get_nodes(FLOW, after=after, limit=2):
            seen += keys_of(found)
            after = found[-1].key
    assert seen == ["B", "a", "apart", "b", "c", "d", "x y", "é"]


async def test_code_of_a_type_counts_for_the_nodes_without_code_of_their_own(place: Place) -> None:
    nodes = [
        a_node("own", type="task", process="refund(customer)"),
        a_node("bare", type="task", data={"name": "refund"}),
        a_node("plain", type="task"),
        a_node("other", type="task", process="notify()"),
        a_node("elsewhere", type="log", data={"name": "refund"}),
    ]
    nodes = [
        node.replace(process=None) if node.key in ("bare", "plain") else node for node in nodes
    ]
    task = a_type("task").replace(node=TypeTemplate(type="task", process="refund(order)"))
    async with place.opened() as database, MemoryDatabase() as memory:
        for source in (memory.source("acme"), database.source("acme")):
            await source.create_graph(a_graph(FLOW))
            await source.put_node_config(task)
            await source.apply(Mutation(graph_key=FLOW, put_nodes=nodes))
        for query in ("refund", "refund order notify", "customer"):
            exact = await search_text(memory.source("acme"), FLOW, query, limit=9)
            assert_found(
                await search_text(database.source("acme"), FLOW, query, limit=9), exact, limit=9
            )


KEYS = [f"many{number}" for number in range(7)]


@pytest.fixture
async def address(arango_address: str, monkeypatch: pytest.MonkeyPatch) -> str:
    async with opened(arango_address) as database:
        await make_flow(database)
    monkeypatch.setattr(applying, "PART", 3)
    return arango_address


def a_large_change() -> Mutation:
    return Mutation(
        graph_key=FLOW,
        put_nodes=[a_node(key) for key in KEYS],
        put_edges=[an_edge(f"to {key}", "a", key) for key in KEYS],
        put_vectors=[a_vector(key, 1, 0) for key in KEYS],
    )


def cursors(server: ArangoServer) -> int:
    return sum(count for path, count in server.count().items() if path.endswith("/_api/cursor"))


async def test_all_of_it_is_there_after_one_revision(
    address: str, arango_faults: ArangoServer
) -> None:
    async with opened(address) as database:
        source = database.source(WORKSPACE)
        before = await revision(database)
        arango_faults.forget_counts()
        assert await source.apply(a_large_change()) == before + 1
        assert (
            cursors(arango_faults) == 1 + 3 * 3 + 1
        )  # look; nodes, edges, vectors in three each; graph
        assert {node.key for node in await source.get_nodes_by_key(FLOW, KEYS)} == set(KEYS)
        edges = {edge.key for edge in await source.get_edges(FLOW)}
        assert edges >= {f"to {key}" for key in KEYS}


async def test_nothing_of_it_is_there_where_a_later_part_fails(
    address: str, arango_faults: ArangoServer
) -> None:
    async with opened(address) as database:
        source = database.source(WORKSPACE)
        before = await revision(database)
        arango_faults.inject("_api/cursor", "delay:0", 6)
        arango_faults.inject("_api/cursor", "error:1501")
        with pytest.raises(SourceError):
            await source.apply(a_large_change())
        assert await source.get_nodes_by_key(FLOW, KEYS) == []
        assert await revision(database) == before


words = st.lists(
    st.sampled_from(["Sort", "invoices", "Écrire", "文字列", "fetchUser", "x2", "", "log-node"]),
    max_size=3,
).map(" ".join)
texts = words | st.none()


@given(
    key=st.sampled_from(["log_node", "a", "é b", "fetchUser"]),
    name=texts | st.just("a"),
    process=texts,
    display=words,
    description=words,
    type_process=texts,
)
def test_own_and_inherited_words_are_those_of_the_whole_text(
    key: str,
    name: str | None,
    process: str | None,
    display: str,
    description: str,
    type_process: str | None,
) -> None:
    data: dict[str, Any] = {"rule": "sort 7"} if name is None else {"name": name, "rule": "sort 7"}
    node = a_node(key, data=data, process=process, type="task")
    template = TypeTemplate(type="task", process=type_process)
    config = NodeTypeConfig(
        key="t", workspace="w", display_name=display, description=description, node=template
    )
    text = node_text(node, config)
    own = own_words(node, None)
    kind = TypeWords.of(texts_of(config))
    unnamed = own["unnamed"] is not None and own["unnamed"] != kind.letters
    for field, length, whole in (
        ("content", "contentLength", tokenize(text.content)),
        ("name", "nameLength", tokenize(text.names)),
    ):
        terms = list(dict.fromkeys(whole))
        more = kind.inherited(terms)
        parts = [more["name"]] * (2 if unnamed else 1)
        if field == "content":
            parts += [more["description"], *([more["process"]] if process is None else [])]
        counted = {
            term: own[field].get(term, 0) + sum(part["counts"][place] for part in parts)
            for place, term in enumerate(terms)
        }
        assert counted == Counter(whole)
        assert own[length] + sum(part["length"] for part in parts) == len(whole)
