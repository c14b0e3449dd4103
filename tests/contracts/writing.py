"""Contract of what a source writes: whole mutations or nothing, documents back as they went in."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from datasources import errors
from datasources.base import Database, MutableGraphDataSource, RecordWrite
from datasources.hits import VectorQuery
from datasources.types import Edge, Graph, Mutation, Node, NodeTypeConfig
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
    keys_of,
    snapshot,
)
from tests.contracts.searches import search_text, search_vectors

Source = MutableGraphDataSource


def _content() -> Mutation:
    return Mutation(
        graph_key=FLOW,
        put_nodes=[a_node("a"), a_node("b")],
        put_edges=[an_edge("e", "a", "b")],
        put_configs=[a_type("t")],
    )


def _write(expected_version: str | None) -> RecordWrite:
    return RecordWrite(
        kind="imports", key=FLOW, data={"of": "flow"}, expected_version=expected_version
    )


HOSTILE_KEYS = [
    "é", "文字", "\U0001f525", "a'b", 'a"b', "a`b", "100%", "_", "*", "?", "[a-z]", "a/b", "a\\b", " ", "..",
    "'; DROP TABLE nodes; --", "{{node:a}}", "null", "0", "-1", "1e5", "a" * 200, "\u202eabc", "e\u0301",
]  # fmt: skip


class DocumentContract(Contract):
    async def test_unknown_fields_survive_a_round_trip(self, database: Database) -> None:
        source = database.source(WORKSPACE)
        extra: dict[str, Any] = {
            "futureField": {"deep": [1, 2.5, None, True, "é\n"]},
            "snake_case": 1,
        }
        graph = Graph.model_validate({**a_graph().to_document(), **extra})
        node = Node.model_validate(
            {**a_node("n").to_document(), **extra, "data": {"b": 1, "a": [{}]}}
        )
        node = node.replace(size={"width": 1, "height": 2, "unit": "em"})
        edge = Edge.model_validate({**an_edge("e", "n", "n").to_document(), **extra})
        config = NodeTypeConfig.model_validate({**a_type("t").to_document(), **extra})
        await source.create_graph(graph)
        await source.apply(
            Mutation(graph_key=FLOW, put_nodes=[node], put_edges=[edge], put_configs=[config])
        )
        stored = await source.get_graph(FLOW)
        assert stored.replace(revision=0).to_document() == {**graph.to_document(), "revision": 0}
        assert (await source.get_nodes(FLOW))[0].to_json() == node.to_json()
        assert (await source.get_nodes_by_key(FLOW, ["n"]))[0].to_json() == node.to_json()
        assert (await source.get_edges(FLOW))[0].to_json() == edge.to_json()
        assert (await source.get_node_configs())[0].to_json() == config.to_json()

    async def test_absent_fields_stay_absent_and_whole_numbers_whole(self, source: Source) -> None:
        node = Node.model_validate(
            {"_key": "n", "graphKey": FLOW, "type": "t", "posX": 3, "posY": 2.5}
        )
        await source.apply(Mutation(graph_key=FLOW, put_nodes=[node]))
        (stored,) = await source.get_nodes_by_key(FLOW, ["n"])
        assert stored.to_document() == {
            "_key": "n",
            "graphKey": FLOW,
            "type": "t",
            "posX": 3,
            "posY": 2.5,
        }
        assert isinstance(stored.pos_x, int)

    async def test_what_the_caller_changes_later_is_not_stored(self, source: Source) -> None:
        data = {"list": [1]}
        vector = a_vector("n", 1, 0)
        await source.apply(
            Mutation(graph_key=FLOW, put_nodes=[a_node("n", data=data)], put_vectors=[vector])
        )
        data["list"].append(2)
        vector.content[0] = 9
        (stored,) = await source.get_nodes_by_key(FLOW, ["n"])
        assert stored.data == {"list": [1]}
        assert (await source.get_vectors(FLOW, ["n"]))["n"].content.tolist() == [1, 0]

    async def test_any_key_works_everywhere(self, source: Source) -> None:
        for key in HOSTILE_KEYS:
            mutation = Mutation(
                graph_key=FLOW,
                put_nodes=[a_node(key, data="numbat", type=key)],
                put_edges=[an_edge(key, key, "a", source_handle=key, label=key)],
                put_configs=[a_type(key, key=key)],
                put_vectors=[a_vector(key, 1, 0)],
            )
            await source.apply(mutation)
            assert keys_of(await source.get_nodes_by_key(FLOW, [key])) == [key]
            assert keys_of(await source.get_edges_of(FLOW, [key])) == [key]
            assert (await source.get_links(FLOW, [key]))[0].source == key
            assert keys_of(await source.get_node_configs([key])) == [key]
            assert keys_of(await search_text(source, FLOW, "numbat", limit=2)) == [key]
            assert keys_of(
                await search_vectors(
                    source, FLOW, VectorQuery(vector=floats(1, 0), model=MODEL, limit=2)
                )
            ) == [key]
            around = await source.get_neighborhood(FLOW, [key], max_depth=1, limit=5)
            assert keys_of(around.nodes) == [key, "a"]
            await source.apply(Mutation(graph_key=FLOW, delete_nodes=[key], delete_configs=[key]))
            assert keys_of(await source.get_nodes(FLOW)) == ["a", "apart", "b", "c", "d"]

    async def test_keys_that_look_alike_are_different(self, source: Source) -> None:
        alike = ["x", "X", "é", "e\u0301", "E\u0301", "x ", "0", "00"]
        nodes = [a_node(key, data={"n": i}) for i, key in enumerate(alike)]
        await source.apply(Mutation(graph_key=FLOW, put_nodes=nodes))
        found = await source.get_nodes_by_key(FLOW, alike)
        assert [(node.key, node.data["n"]) for node in found] == [
            (key, i) for i, key in enumerate(alike)
        ]

    async def test_any_graph_key_works(self, database: Database) -> None:
        source = database.source(WORKSPACE)
        for key in HOSTILE_KEYS:
            await source.create_graph(a_graph(key))
            await source.apply(Mutation(graph_key=key, put_nodes=[a_node("n", key, data="numbat")]))
            assert keys_of(await source.list_graphs()) == [key]
            assert keys_of(await search_text(source, key, "numbat", limit=2)) == ["n"]
            await source.delete_graph(key)
            assert await source.list_graphs() == []


class GraphContract(Contract):
    async def test_a_copy_of_a_graph_keeps_its_revision(self, database: Database) -> None:
        source = database.source(WORKSPACE)
        whole = replace(_content(), revision=7)
        assert (await source.create_graph(a_graph(), whole)).revision == 7
        more = Mutation(graph_key=FLOW, put_nodes=[a_node("c")])
        assert await source.apply(more, expected_revision=7) == 8
        assert await source.apply(replace(more, revision=3)) == 3
        assert (await source.get_graph(FLOW)).revision == 3
        with pytest.raises(errors.RevisionConflict) as refused:
            await source.apply(more, expected_revision=8)
        assert refused.value.actual == 3

    async def test_a_new_graph_is_empty_at_revision_nought(self, database: Database) -> None:
        source = database.source(WORKSPACE)
        created = await source.create_graph(a_graph(revision=41))
        assert created.revision == 0
        assert (await source.get_graph(FLOW)).to_document() == created.to_document()
        assert await source.get_nodes(FLOW) == []
        assert await search_text(source, FLOW, "anything", limit=5) == []
        stats = await source.get_stats(FLOW)
        assert (stats.nodes, stats.edges, dict(stats.types), dict(stats.vectors)) == (0, 0, {}, {})

    async def test_a_new_graph_is_filled_in_the_transaction_that_makes_it(
        self, database: Database
    ) -> None:
        source = database.source(WORKSPACE)
        record = _write(None)
        created = await source.create_graph(a_graph(), _content(), [record])
        assert created.revision == 1
        assert (await source.get_graph(FLOW)).to_document() == created.to_document()
        assert keys_of(await source.get_nodes(FLOW)) == ["a", "b"]
        assert keys_of(await source.get_edges(FLOW)) == ["e"]
        assert keys_of(await source.get_node_configs(["t"])) == ["t"]
        stored = await database.records(WORKSPACE).get(record.kind, record.key)
        assert stored.data == record.data
        assert (
            await source.apply(Mutation(graph_key=FLOW, delete_edges=["e"]), expected_revision=1)
            == 2
        )

    async def test_a_new_graph_with_refused_content_or_record_leaves_nothing(
        self, database: Database
    ) -> None:
        source = database.source(WORKSPACE)
        dangling = replace(_content(), put_nodes=[a_node("a")])
        with pytest.raises(errors.InvalidMutation):
            await source.create_graph(a_graph(), dangling, [_write(None)])
        with pytest.raises(errors.RecordConflict):
            await source.create_graph(a_graph(), _content(), [_write("1")])
        assert await source.list_graphs() == []
        assert await source.get_node_configs(["t"]) == []
        assert await database.records(WORKSPACE).get("imports", FLOW) is None

    async def test_a_graph_says_when_it_was_changed_and_never_an_earlier_time(
        self, database: Database, source: Source
    ) -> None:
        times: list[int] = []
        for at in (2_000, None, 1_000, 3_000):
            await source.apply(Mutation(graph_key=FLOW, put_nodes=[a_node("a")], changed_at=at))
            times.append((await source.get_graph(FLOW)).last_updated_time)
        assert times == [2_000, 2_000, 2_000, 3_000]

    async def test_a_taken_key_is_refused_and_the_graph_kept(
        self, database: Database, source: Source
    ) -> None:
        before = await snapshot(source)
        stranger = database.source(OTHER)
        other = replace(_content(), put_configs=[])
        for content, records in ((None, []), (_content(), [_write(None)])):
            with pytest.raises(errors.GraphExists) as refused:
                await source.create_graph(a_graph(description="another"), content, records)
            assert refused.value.graph_key == FLOW
            with pytest.raises(errors.GraphExists):
                await stranger.create_graph(a_graph(FLOW, OTHER), content and other)
        assert await snapshot(source) == before
        assert await database.records(WORKSPACE).get("imports", FLOW) is None

    async def test_a_graph_that_names_another_workspace_is_refused(
        self, database: Database
    ) -> None:
        with pytest.raises(errors.BadDocument) as refused:
            await database.source(WORKSPACE).create_graph(a_graph(FLOW, OTHER))
        assert (refused.value.key, refused.value.field) == (FLOW, "workspace")
        assert await database.source(OTHER).list_graphs() == []

    async def test_a_deleted_graph_leaves_nothing_behind(self, source: Source) -> None:
        await source.put_embeddings(FLOW, [a_vector("a", 1, 0)])
        await source.delete_graph(FLOW)
        with pytest.raises(errors.GraphNotFound):
            await source.get_graph(FLOW)
        await source.create_graph(a_graph())
        assert await source.get_nodes(FLOW) == []
        assert await source.get_edges(FLOW) == []
        assert await source.get_vectors(FLOW, ["a"]) == {}
        await source.apply(Mutation(graph_key=FLOW, put_nodes=[a_node("a")]))
        assert await search_text(source, FLOW, "invoices", limit=5) == []
        assert (
            await search_vectors(
                source, FLOW, VectorQuery(vector=floats(1, 0), model=MODEL, limit=5)
            )
            == []
        )
        assert (await source.get_stats(FLOW)).edges == 0

    async def test_deleting_a_graph_spares_the_others(
        self, database: Database, source: Source
    ) -> None:
        await source.create_graph(a_graph("twin"))
        await source.apply(
            Mutation(graph_key="twin", put_nodes=[a_node("a", "twin", data="invoices")])
        )
        before = await snapshot(source)
        await source.delete_graph("twin")
        assert await snapshot(source) == before
        assert sorted(keys_of(await search_text(source, FLOW, "invoices", limit=5))) == ["b", "c"]


class MutationContract(Contract):
    async def test_each_mutation_is_one_revision(self, source: Source) -> None:
        assert (await source.get_graph(FLOW)).revision == 1
        assert (
            await source.apply(Mutation(graph_key=FLOW, put_nodes=[a_node("n"), a_node("m")])) == 2
        )
        assert await source.apply(Mutation(graph_key=FLOW), expected_revision=2) == 3
        assert (await source.get_graph(FLOW)).revision == 3
        assert (await source.list_graphs())[0].revision == 3

    async def test_another_revision_than_expected_changes_nothing(self, source: Source) -> None:
        before = await snapshot(source)
        for expected in (0, 2, -1):
            with pytest.raises(errors.RevisionConflict) as refused:
                await source.apply(
                    Mutation(graph_key=FLOW, delete_nodes=["a"]), expected_revision=expected
                )
            assert (refused.value.expected, refused.value.actual) == (expected, 1)
        assert await snapshot(source) == before

    async def test_a_put_replaces_the_whole_document(self, source: Source) -> None:
        await source.apply(
            Mutation(
                graph_key=FLOW,
                put_nodes=[a_node("b", sheet="1", type="log")],
                put_edges=[an_edge("ab", "apart", "c", sheet="1")],
            )
        )
        (node,) = await source.get_nodes_by_key(FLOW, ["b"])
        assert (node.sheet, node.type, node.data, node.process) == ("1", "log", None, None)
        assert keys_of(await source.get_nodes(FLOW, sheet="1")) == ["apart", "b"]
        assert keys_of(await source.get_edges_of(FLOW, ["a"])) == ["da"]
        assert keys_of(await source.get_edges_of(FLOW, ["apart"])) == ["ab"]
        assert dict((await source.get_stats(FLOW)).types) == {"starter": 1, "task": 2, "log": 2}

    async def test_deleting_a_node_takes_its_edges_and_vectors(self, source: Source) -> None:
        await source.put_embeddings(FLOW, [a_vector(key, 1, 0, name=(1, 0)) for key in "abc"])
        await source.apply(Mutation(graph_key=FLOW, delete_nodes=["b"], delete_edges=["bd", "cc"]))
        assert keys_of(await source.get_nodes(FLOW)) == ["a", "apart", "c", "d"]
        assert keys_of(await source.get_edges(FLOW)) == ["da"]
        assert sorted(await source.get_vectors(FLOW, list("abc"))) == ["a", "c"]
        await source.apply(Mutation(graph_key=FLOW, put_nodes=[a_node("b")]))
        assert await source.get_vectors(FLOW, ["b"]) == {}
        assert await source.get_edges_of(FLOW, ["b"]) == []
        hits = await search_vectors(
            source, FLOW, VectorQuery(vector=floats(1, 0), model=MODEL, limit=5, field="name")
        )
        assert keys_of(hits) == ["a", "c"]

    async def test_a_replaced_node_keeps_its_edges_and_vectors(self, source: Source) -> None:
        await source.put_embeddings(FLOW, [a_vector("b", 1, 0)])
        await source.apply(Mutation(graph_key=FLOW, put_nodes=[a_node("b", data="new")]))
        assert len(await source.get_edges_of(FLOW, ["b"])) == 4
        assert sorted(await source.get_vectors(FLOW, ["b"])) == ["b"]

    async def test_a_sheet_that_nodes_stand_on_is_not_taken_away(self, source: Source) -> None:
        graph = await source.get_graph(FLOW)
        on_it = await source.get_nodes(FLOW, sheet="1")
        less = graph.replace(
            sheets_list={k: name for k, name in graph.sheets_list.items() if k != "1"}
        )
        before = await snapshot(source)
        with pytest.raises(errors.InvalidMutation) as refused:
            await source.apply(
                Mutation(graph_key=FLOW, graph=less, delete_nodes=[n.key for n in on_it[1:]])
            )
        assert list(refused.value.keys) == [on_it[0].key]
        assert await snapshot(source) == before
        moved = on_it[0].replace(sheet="0")
        gone = [node.key for node in on_it[1:]]
        edges = [edge.replace(sheet="0") for edge in await source.get_edges(FLOW, sheet="1")]
        kept = [edge for edge in edges if not {edge.source, edge.target} & set(gone)]
        moving = Mutation(
            graph_key=FLOW, graph=less, put_nodes=[moved], delete_nodes=gone, put_edges=kept
        )
        await source.apply(moving)
        assert (await source.get_graph(FLOW)).sheets_list == less.sheets_list
        assert on_it[0].key in {node.key for node in await source.get_nodes(FLOW, sheet="0")}

    async def test_a_sheet_that_edges_are_drawn_on_is_not_taken_away(self, source: Source) -> None:
        graph = (await source.get_graph(FLOW)).replace(
            sheets_list={"0": "main", "1": "side", "2": "more"}
        )
        drawn = [an_edge(f"e{i}", "a", "b", sheet="2") for i in range(3)]
        hanging = an_edge("loose", "n", "a", sheet="2")
        put = Mutation(
            graph_key=FLOW, graph=graph, put_nodes=[a_node("n")], put_edges=[*drawn, hanging]
        )
        await source.apply(put)
        less = graph.replace(sheets_list={"0": "main", "1": "side"})
        before = await snapshot(source)
        without = Mutation(graph_key=FLOW, graph=less, delete_nodes=["n"], delete_edges=["e0"])
        with pytest.raises(errors.InvalidMutation) as refused:
            await source.apply(without)
        assert list(refused.value.keys) == ["e1", "e2"]
        assert await snapshot(source) == before
        moved = [edge.replace(sheet="1") for edge in drawn[1:]]
        await source.apply(replace(without, put_edges=moved))
        assert keys_of(await source.get_edges(FLOW, sheet="1"))[-2:] == ["e1", "e2"]
        assert await source.get_edges(FLOW, sheet="2") == []

    async def test_new_nodes_edges_vectors_types_and_sheet_come_in_one_mutation(
        self, source: Source
    ) -> None:
        graph = await source.get_graph(FLOW)
        await source.apply(
            Mutation(
                graph_key=FLOW,
                graph=graph.replace(sheets_list={**graph.sheets_list, "2": "new"}),
                put_nodes=[a_node("n", type="novel", sheet="2"), a_node("m")],
                put_edges=[an_edge("nm", "n", "m", sheet="2"), an_edge("ma", "m", "a")],
                put_configs=[a_type("novel")],
                put_vectors=[a_vector("n", 0, 1)],
                delete_nodes=["d"],
            )
        )
        assert keys_of(await source.get_nodes(FLOW, sheet="2")) == ["n"]
        assert keys_of(await source.get_edges_of(FLOW, ["m"])) == ["ma", "nm"]
        assert keys_of(await source.get_node_configs(["novel"])) == ["novel"]
        assert sorted(await source.get_vectors(FLOW, ["n"])) == ["n"]

    async def test_a_replaced_graph_document_keeps_the_count_of_revisions(
        self, source: Source
    ) -> None:
        graph = await source.get_graph(FLOW)
        sheets = {**graph.sheets_list, "7": "seven"}
        graph = graph.replace(name="Renamed", sheets_list=sheets, revision=99, added="field")
        assert await source.apply(Mutation(graph_key=FLOW, graph=graph)) == 2
        stored = await source.get_graph(FLOW)
        assert stored.to_document() == {**graph.to_document(), "revision": 2}
        await source.apply(Mutation(graph_key=FLOW, put_nodes=[a_node("n", sheet="7")]))
        assert (await source.get_graph(FLOW)).name == "Renamed"

    async def test_types_are_put_replaced_and_deleted(self, source: Source) -> None:
        await source.apply(Mutation(graph_key=FLOW, put_configs=[a_type("x"), a_type("y")]))
        await source.apply(
            Mutation(graph_key=FLOW, put_configs=[a_type("z", key="x")], delete_configs=["y"])
        )
        assert [(c.key, c.type) for c in await source.get_node_configs()] == [("x", "z")]

    async def test_of_concurrent_writers_at_one_revision_one_wins(self, source: Source) -> None:
        async def write(key: str) -> int | errors.RevisionConflict:
            try:
                return await source.apply(
                    Mutation(graph_key=FLOW, put_nodes=[a_node(key)]), expected_revision=1
                )
            except errors.RevisionConflict as exc:
                return exc

        outcomes = await asyncio.gather(*(write(f"w{i}") for i in range(8)))
        assert [outcome for outcome in outcomes if isinstance(outcome, int)] == [2]
        assert (await source.get_stats(FLOW)).nodes == 6

    async def test_concurrent_writers_who_expect_nothing_all_write(self, source: Source) -> None:
        mutations = [Mutation(graph_key=FLOW, put_nodes=[a_node(f"w{i}")]) for i in range(10)]
        revisions = await asyncio.gather(*(source.apply(mutation) for mutation in mutations))
        assert sorted(revisions) == list(range(2, 12))
        assert (await source.get_stats(FLOW)).nodes == 15
