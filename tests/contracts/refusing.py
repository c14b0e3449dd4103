"""Contract of refusals and embeddings: what must not be stored is refused whole, by one error."""

from collections.abc import Callable
from typing import Any

import pytest

from datasources.base import Database, MutableGraphDataSource, RecordWrite
from datasources.errors import (
    BadDocument,
    GraphNotFound,
    InvalidMutation,
    RecordConflict,
    RevisionConflict,
)
from datasources.hits import VectorQuery
from datasources.types import Mutation
from tests.contracts.base import Contract
from tests.contracts.samples import (
    FLOW,
    MODEL,
    OTHER,
    WORKSPACE,
    a_graph,
    a_node,
    a_type,
    a_vector,
    an_edge,
    floats,
    plain,
    snapshot,
)
from tests.contracts.searches import search_text, search_vectors

Source = MutableGraphDataSource


REFUSED: dict[str, tuple[Callable[[], dict[str, Any]], list[str]]] = {
    "node of another graph": (lambda: {"put_nodes": [a_node("n", "other")]}, ["n"]),
    "edge of another graph": (lambda: {"put_edges": [an_edge("e", "a", "b", "other")]}, ["e"]),
    "type of another workspace": (lambda: {"put_configs": [a_type("t", OTHER)]}, ["t"]),
    "node on an unknown sheet": (lambda: {"put_nodes": [a_node("n", sheet="9")]}, ["n"]),
    "edge on an unknown sheet": (lambda: {"put_edges": [an_edge("e", "a", "b", sheet="9")]}, ["e"]),
    "node on a sheet that goes": (
        lambda: {
            "graph": a_graph().replace(sheets_list={"0": "m"}),
            "put_nodes": [a_node("n", sheet="1")],
        },
        ["n"],
    ),
    "node put twice": (lambda: {"put_nodes": [a_node("n"), a_node("n", data=1)]}, ["n"]),
    "edge put twice": (
        lambda: {"put_edges": [an_edge("e", "a", "b"), an_edge("e", "b", "a")]},
        ["e"],
    ),
    "type put twice": (lambda: {"put_configs": [a_type("t"), a_type("u", key="t")]}, ["t"]),
    "vector put twice": (lambda: {"put_vectors": [a_vector("a", 1), a_vector("a", 2)]}, ["a"]),
    "node put and deleted": (lambda: {"put_nodes": [a_node("a")], "delete_nodes": ["a"]}, ["a"]),
    "edge put and deleted": (
        lambda: {"put_edges": [an_edge("ab", "a", "b")], "delete_edges": ["ab"]},
        ["ab"],
    ),
    "unknown node deleted": (lambda: {"delete_nodes": ["a", "ghost"]}, ["ghost"]),
    "unknown edge deleted": (lambda: {"delete_edges": ["ghost", "ab"]}, ["ghost"]),
    "unknown type deleted": (lambda: {"delete_configs": ["ghost"]}, ["ghost"]),
    "edge from nowhere": (lambda: {"put_edges": [an_edge("e", "ghost", "a")]}, ["e"]),
    "edge to nowhere": (lambda: {"put_edges": [an_edge("e", "a", "ghost")]}, ["e"]),
    "edge to a node that goes": (
        lambda: {"put_edges": [an_edge("e", "a", "c")], "delete_nodes": ["c"]},
        ["e"],
    ),
    "vector of an unknown node": (lambda: {"put_vectors": [a_vector("ghost", 1)]}, ["ghost"]),
    "vector of a node that goes": (
        lambda: {"put_vectors": [a_vector("a", 1)], "delete_nodes": ["a"]},
        ["a"],
    ),
    "undefined vector": (lambda: {"put_vectors": [a_vector("a", float("nan"))]}, ["a"]),
    "infinite name vector": (
        lambda: {"put_vectors": [a_vector("a", 1, name=(float("inf"),))]},
        ["a"],
    ),
    "vectors of two lengths": (lambda: {"put_vectors": [a_vector("a", 1, 2, name=(1,))]}, ["a"]),
    "empty vector": (lambda: {"put_vectors": [a_vector("a")]}, ["a"]),
    "another graph's document": (lambda: {"graph": a_graph("other")}, ["other"]),
    "graph moved away": (lambda: {"graph": a_graph(FLOW, OTHER)}, [FLOW]),
}


class RefusalContract(Contract):
    async def test_a_wrong_mutation_changes_nothing(self, source: Source) -> None:
        valid = {
            "put_nodes": [a_node("fine")],
            "put_edges": [an_edge("fine", "fine", "d")],
            "put_configs": [a_type("fine")],
        }
        before = await snapshot(source)
        for case, (fields, at_fault) in REFUSED.items():
            wrong = fields()
            both = {name: [*valid.get(name, []), *wrong.get(name, [])] for name in valid}
            with pytest.raises(InvalidMutation) as refused:
                await source.apply(Mutation(graph_key=FLOW, **{**wrong, **both}))
            assert (refused.value.graph_key, list(refused.value.keys)) == (FLOW, at_fault), case
            assert await snapshot(source) == before, case
        assert await search_text(source, FLOW, "fine", limit=5) == []

    async def test_what_json_cannot_hold_changes_nothing(self, source: Source) -> None:
        before = await snapshot(source)
        for data in (2**70, {"\ud800": 1}, {"deep": object()}):
            nodes = [a_node("fine"), a_node("n", data=data)]
            with pytest.raises(BadDocument) as refused:
                await source.apply(Mutation(graph_key=FLOW, put_nodes=nodes))
            assert refused.value.key == "n"
        assert await snapshot(source) == before

    async def test_a_record_conflict_undoes_the_mutation(
        self, database: Database, source: Source
    ) -> None:
        records = database.records(WORKSPACE)
        before = await snapshot(source)
        mutation = Mutation(
            graph_key=FLOW,
            graph=a_graph().replace(name="Changed"),
            put_nodes=[a_node("n", data="numbat")],
            put_edges=[an_edge("e", "n", "a")],
            delete_nodes=["c"],
            put_configs=[a_type("novel")],
            put_vectors=[a_vector("n", 1, 0)],
        )
        writes = [
            RecordWrite(kind="audit", key="first", data={"sequence": 1}, expected_version=None),
            RecordWrite(
                kind="approval", key="gone", data={"status": "applied"}, expected_version="7"
            ),
        ]
        with pytest.raises(RecordConflict) as refused:
            await source.apply(mutation, records=writes)
        assert (refused.value.kind, refused.value.key) == ("approval", "gone")
        assert await snapshot(source) == before
        assert await records.get("audit", "first") is None
        assert await search_text(source, FLOW, "numbat", limit=5) == []

    async def test_a_refused_mutation_writes_no_record(
        self, database: Database, source: Source
    ) -> None:
        write = RecordWrite(kind="audit", key="k", data={}, expected_version=None)
        with pytest.raises(InvalidMutation):
            await source.apply(Mutation(graph_key=FLOW, delete_nodes=["ghost"]), records=[write])
        with pytest.raises(RevisionConflict):
            await source.apply(Mutation(graph_key=FLOW), records=[write], expected_revision=9)
        assert await database.records(WORKSPACE).get("audit", "k") is None


class EmbeddingContract(Contract):
    async def test_embeddings_make_no_revision_and_skip_vanished_nodes(
        self, source: Source
    ) -> None:
        vectors = [a_vector("a", 1, 0), a_vector("ghost", 1, 0), a_vector("b", 0, 1)]
        assert await source.put_embeddings(FLOW, vectors) == 2
        assert await source.put_embeddings(FLOW, []) == 0
        assert (await source.get_graph(FLOW)).revision == 1
        assert sorted(await source.get_vectors(FLOW, ["a", "b", "ghost"])) == ["a", "b"]

    async def test_vectors_change_the_mark_of_their_graph_and_go_with_it(
        self, source: Source
    ) -> None:
        other = await source.create_graph(a_graph("beside"))
        before = await source.get_versions(FLOW)
        assert before.graph == await source.get_graph(FLOW)
        assert await source.put_embeddings(FLOW, [a_vector("ghost", 1, 0)]) == 0
        assert await source.get_versions(FLOW) == before
        seen = {before.vectors}
        for number in range(3):
            await source.put_embeddings(FLOW, [a_vector("a", 1, number)])
            now = await source.get_versions(FLOW)
            assert now.graph == before.graph
            seen.add(now.vectors)
        assert len(seen) == 4
        assert (await source.get_versions("beside")).graph == other
        with pytest.raises(GraphNotFound):
            await source.get_versions("nowhere")
        await source.delete_graph(FLOW)
        await source.create_graph(a_graph())
        assert (await source.get_versions(FLOW)).vectors == (
            await source.get_versions("beside")
        ).vectors

    async def test_vectors_come_back_exactly(self, source: Source) -> None:
        vectors = {
            "a": a_vector(
                "a", 0.1, -1e-40, 3e38, name=(1 / 3, -0.0, 7), hash="é'\"", model="m/1:x"
            ),
            "b": a_vector("b", 1, 2),
        }
        await source.put_embeddings(FLOW, list(vectors.values()))
        stored = await source.get_vectors(FLOW, ["b", "ghost", "a", "c"])
        assert {key: plain(vector) for key, vector in stored.items()} == {
            key: plain(vector) for key, vector in vectors.items()
        }
        info = await source.get_vector_info(FLOW, ["a", "b", "c", "ghost"])
        assert {key: tuple(value) for key, value in info.items()} == {
            "a": ("m/1:x", "é'\""),
            "b": (MODEL, "h"),
        }

    async def test_a_node_has_the_vectors_of_one_model(self, source: Source) -> None:
        await source.put_embeddings(FLOW, [a_vector("a", 1, 0, name=(1, 0))])
        await source.put_embeddings(FLOW, [a_vector("a", 1, 0, 0, model="model-b", hash="h2")])
        assert (await source.get_vector_info(FLOW, ["a"]))["a"] == ("model-b", "h2")
        assert (await source.get_vectors(FLOW, ["a"]))["a"].name is None
        for field in ("content", "name"):
            assert (
                await search_vectors(
                    source,
                    FLOW,
                    VectorQuery(vector=floats(1, 0), model=MODEL, limit=5, field=field),
                )
                == []
            )
        assert dict((await source.get_stats(FLOW)).vectors) == {"model-b": 1}

    async def test_bad_vectors_are_refused_and_none_stored(self, source: Source) -> None:
        for case in (case for case in REFUSED if "vector" in case and "node" not in case):
            with pytest.raises(InvalidMutation):
                await source.put_embeddings(
                    FLOW, [a_vector("b", 1), *REFUSED[case][0]()["put_vectors"]]
                )
            assert await source.get_vectors(FLOW, ["a", "b"]) == {}, case
