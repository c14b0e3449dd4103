"""Contract of what a source reads: documents, pages, links, neighbourhoods, counts."""

from typing import Any

from datasources.base import Database, Finding, MutableGraphDataSource
from datasources.held_reads import WIDTH
from datasources.links import Link, LinkWalk, TypedLink
from datasources.types import Mutation
from tests.contracts.base import Contract
from tests.contracts.samples import FLOW, WORKSPACE, a_graph, a_node, a_vector, an_edge, keys_of

Source = MutableGraphDataSource


class ReadContract(Contract):
    def test_a_source_knows_its_workspace(self, database: Database) -> None:
        assert database.source(WORKSPACE).workspace == WORKSPACE

    async def test_a_healthy_database_reports_no_error(
        self, database: Database, source: Source
    ) -> None:
        findings = await database.check()
        assert findings
        assert all(
            isinstance(finding, Finding) and finding.status != "error" for finding in findings
        ), findings

    def test_the_address_shows_a_scheme(self, database: Database) -> None:
        assert database.url.partition(":")[1] == ":"

    async def test_an_empty_database_has_no_graphs_and_no_types(self, database: Database) -> None:
        source = database.source(WORKSPACE)
        assert await source.list_graphs() == []
        assert await source.get_node_configs() == []

    async def test_graphs_are_listed_by_key(self, database: Database) -> None:
        source = database.source(WORKSPACE)
        for key in ("b", "a", "Z", "é"):
            await source.create_graph(a_graph(key))
        assert keys_of(await source.list_graphs()) == ["Z", "a", "b", "é"]

    async def test_nodes_and_edges_come_by_key(self, source: Source) -> None:
        assert keys_of(await source.get_nodes(FLOW)) == ["a", "apart", "b", "c", "d"]
        assert keys_of(await source.get_edges(FLOW)) == ["ab", "bc1", "bc2", "bd", "cc", "da"]

    async def test_a_sheet_narrows_nodes_and_edges(self, source: Source) -> None:
        assert keys_of(await source.get_nodes(FLOW, sheet="1")) == ["apart"]
        assert keys_of(await source.get_edges(FLOW, sheet="1")) == ["cc"]
        assert await source.get_nodes(FLOW, sheet="no such sheet") == []
        assert await source.get_edges(FLOW, sheet="no such sheet") == []

    async def test_pages_hold_every_node_and_every_edge_once(self, source: Source) -> None:
        every = ["a", "apart", "b", "c", "d"], ["ab", "bc1", "bc2", "bd", "cc", "da"]
        for limit in (1, 2, 5, 9):
            for read, expected in zip((source.get_nodes, source.get_edges), every, strict=True):
                seen: list[str] = []
                while page := await read(FLOW, after=seen[-1] if seen else None, limit=limit):
                    assert len(page) <= limit
                    seen += keys_of(page)
                assert seen == expected
        assert keys_of(await source.get_edges(FLOW, sheet="0", after="ab", limit=2)) == [
            "bc1",
            "bc2",
        ]
        assert await source.get_edges(FLOW, limit=0) == []

    async def test_pages_of_a_sheet_hold_its_nodes(self, source: Source) -> None:
        assert keys_of(await source.get_nodes(FLOW, sheet="0", after="a", limit=2)) == ["b", "c"]
        assert await source.get_nodes(FLOW, sheet="0", after="d", limit=2) == []
        assert await source.get_nodes(FLOW, limit=0) == []

    async def test_nodes_and_edges_by_key_come_as_asked_each_once(self, source: Source) -> None:
        found = await source.get_nodes_by_key(FLOW, ["d", "nobody", "a", "d", "apart"])
        assert keys_of(found) == ["d", "a", "apart"]
        edges = await source.get_edges_by_key(
            FLOW, ["da", "d", "bc1", "da", "", "b\ud800", "cc", "c\0c"]
        )
        assert [(edge.key, edge.source) for edge in edges] == [
            ("da", "d"),
            ("bc1", "b"),
            ("cc", "c"),
        ]
        assert (
            await source.get_nodes_by_key(FLOW, []) == await source.get_edges_by_key(FLOW, []) == []
        )

    async def test_many_keys_are_read_at_once(self, source: Source) -> None:
        keys = [f"n{i:05}" for i in range(1_200)]
        await source.apply(Mutation(graph_key=FLOW, put_nodes=[a_node(key) for key in keys]))
        wanted = keys[::-1]
        assert keys_of(await source.get_nodes_by_key(FLOW, wanted)) == wanted
        assert await source.get_edges_of(FLOW, keys) == []
        assert await source.get_vector_info(FLOW, keys) == {}

    async def test_edges_of_nodes_are_those_at_either_end_each_once(self, source: Source) -> None:
        assert keys_of(await source.get_edges_of(FLOW, ["c"])) == ["bc1", "bc2", "cc"]
        assert keys_of(await source.get_edges_of(FLOW, ["d", "a", "nobody"])) == ["ab", "bd", "da"]
        assert await source.get_edges_of(FLOW, ["apart"]) == []
        assert await source.get_edges_of(FLOW, []) == []

    async def test_links_are_the_ends_of_edges_in_edge_order(self, source: Source) -> None:
        every = [
            Link("a", "b"),
            Link("b", "c"),
            Link("b", "c"),
            Link("b", "d"),
            Link("c", "c"),
            Link("d", "a"),
        ]
        assert await source.get_links(FLOW, list("abcd")) == every
        assert await source.get_links(FLOW, list("abcd"), limit=2) == every[:2]
        assert await source.get_links(FLOW, list("abcd"), limit=0) == []

    async def test_links_of_nodes_are_one_per_edge(self, source: Source) -> None:
        assert await source.get_links(FLOW, ["c", "b"]) == [
            Link("a", "b"), Link("b", "c"), Link("b", "c"), Link("b", "d"), Link("c", "c"),
        ]  # fmt: skip
        assert await source.get_links(FLOW, ["c", "b"], limit=1) == [Link("a", "b")]
        assert await source.get_links(FLOW, ["c", "d"], max_degree=2) == [
            Link("b", "d"),
            Link("d", "a"),
        ]
        assert await source.get_links(FLOW, ["c", "a"], max_degree=3) == [
            Link("a", "b"), Link("b", "c"), Link("b", "c"), Link("c", "c"), Link("d", "a"),
        ]  # fmt: skip
        assert await source.get_links(FLOW, ["nobody"]) == []
        assert await source.get_links(FLOW, []) == []

    async def test_typed_links_lead_on_over_labels(self, source: Source) -> None:
        edges = [
            an_edge("x1", "a", "apart", label="directed_by"),
            an_edge("x2", "apart", "d", label="é"),
        ]
        await source.apply(Mutation(graph_key=FLOW, put_edges=edges))

        async def read(
            *keys: str, limit: int = 50, max_degree: int = 50, **asked: Any
        ) -> list[TypedLink]:
            return sorted(
                await source.get_typed_links(
                    FLOW, LinkWalk(keys=keys, limit=limit, max_degree=max_degree, **asked)
                )
            )

        ab = TypedLink("a", "b", "")
        da = TypedLink("d", "a", "")
        directed = TypedLink("a", "apart", "directed_by")
        on = TypedLink("apart", "d", "é")
        assert await read("a") == [directed, ab, da]
        assert await read("a", labels=["directed_by", "é"], steps=2) == [directed, on]
        assert await read("a", labels=["directed_by", "é"], steps=2, max_degree=1) == [directed]
        assert await read("apart", labels=["", "é"], steps=2) == [on, TypedLink("b", "d", ""), da]
        assert len(await read("apart", steps=3)) == 7  # but for the loop two steps on
        assert await read("a", limit=2) == []
        assert await read("apart", limit=2, steps=1) == [directed, on]
        assert await read("nobody", steps=3) == await read(steps=3) == []

    async def test_typed_links_lead_on_from_nodes_with_few_edges(self, source: Source) -> None:
        middles = [f"m{i:03}" for i in range(WIDTH + 5)]
        crowded = middles[50:55]
        nodes = [a_node(key) for key in ["s", "t", *middles]]
        edges = [
            *(an_edge(f"s-{key}", "s", key) for key in middles),
            *(an_edge(f"{key}-{i}", key, "t") for key in crowded for i in range(3)),
            *(an_edge(f"{key}-t", key, "t") for key in middles),
        ]
        await source.apply(Mutation(graph_key=FLOW, put_nodes=nodes, put_edges=edges))
        links = await source.get_typed_links(
            FLOW, LinkWalk(keys=["s"], steps=2, limit=1_000, max_degree=50)
        )
        assert {link.source for link in links if link.target == "t"} == {*middles} - {*crowded}

    async def test_stats_count_by_type_and_model(self, source: Source) -> None:
        await source.put_embeddings(
            FLOW, [a_vector("a", 1, 0), a_vector("b", 1, 0), a_vector("c", 1, model="model-b")]
        )
        stats = await source.get_stats(FLOW)
        assert (stats.nodes, stats.edges) == (5, 6)
        assert dict(stats.types) == {"starter": 1, "task": 3, "log": 1}
        assert dict(stats.vectors) == {"model-a": 2, "model-b": 1}


class NeighborhoodContract(Contract):
    async def test_nodes_come_level_by_level_each_level_by_key(self, source: Source) -> None:
        around = await source.get_neighborhood(FLOW, ["c"], max_depth=3, limit=20)
        assert keys_of(around.nodes) == ["c", "b", "a", "d"]
        assert dict(around.depths) == {"c": 0, "b": 1, "a": 2, "d": 2}

    async def test_a_direction_is_followed_and_edges_are_all_between_the_nodes(
        self, source: Source
    ) -> None:
        around = await source.get_neighborhood(FLOW, ["b"], max_depth=1, direction="out", limit=20)
        assert dict(around.depths) == {"b": 0, "c": 1, "d": 1}
        around = await source.get_neighborhood(FLOW, ["b"], max_depth=2, direction="in", limit=20)
        assert dict(around.depths) == {"b": 0, "a": 1, "d": 2}
        assert keys_of(around.edges) == ["ab", "bd", "da"]
        every = await source.get_neighborhood(FLOW, ["a"], max_depth=9, limit=20)
        assert keys_of(every.edges) == ["ab", "bc1", "bc2", "bd", "cc", "da"]

    async def test_depth_nought_gives_the_seeds_and_the_edges_among_them(
        self, source: Source
    ) -> None:
        around = await source.get_neighborhood(FLOW, ["c", "b"], max_depth=0, limit=20)
        assert keys_of(around.nodes) == ["c", "b"]
        assert keys_of(around.edges) == ["bc1", "bc2", "cc"]

    async def test_seeds_come_first_as_given_each_once_unknown_left_out(
        self, source: Source
    ) -> None:
        seeds = ["d", "nobody", "apart", "d", "a"]
        around = await source.get_neighborhood(FLOW, seeds, max_depth=1, limit=20)
        assert keys_of(around.nodes) == ["d", "apart", "a", "b"]
        assert dict(around.depths) == {"d": 0, "apart": 0, "a": 0, "b": 1}

    async def test_the_limit_cuts_the_last_level_by_key(self, source: Source) -> None:
        around = await source.get_neighborhood(FLOW, ["b"], max_depth=1, limit=3)
        assert keys_of(around.nodes) == ["b", "a", "c"]
        assert keys_of(around.edges) == ["ab", "bc1", "bc2", "cc"]

    async def test_the_limit_cuts_seeds_too(self, source: Source) -> None:
        around = await source.get_neighborhood(FLOW, ["d", "c", "a"], max_depth=2, limit=2)
        assert keys_of(around.nodes) == ["d", "c"]
        assert (
            keys_of((await source.get_neighborhood(FLOW, ["d"], max_depth=2, limit=0)).nodes) == []
        )

    async def test_without_known_seeds_it_is_empty(self, source: Source) -> None:
        for seeds in ([], ["nobody"]):
            around = await source.get_neighborhood(FLOW, seeds, max_depth=2, limit=5)
            assert (around.nodes, around.edges, dict(around.depths)) == ((), (), {})

    async def test_a_hub_is_cut_at_the_limit(self, source: Source) -> None:
        keys = [f"spoke{i:04}" for i in range(600)]
        await source.apply(
            Mutation(
                graph_key=FLOW,
                put_nodes=[a_node(key) for key in keys],
                put_edges=[an_edge(f"e-{key}", key, "apart") for key in keys],
            )
        )
        around = await source.get_neighborhood(
            FLOW, ["apart"], max_depth=2, direction="in", limit=20
        )
        assert keys_of(around.nodes) == ["apart", *keys[:19]]
        assert len(around.edges) == 19
