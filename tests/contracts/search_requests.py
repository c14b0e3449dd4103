"""Contract of a whole search request: words and a vector, in all text and in names, in one call;
the types of a neighbourhood; and the declared abilities.
"""

import pytest

from datasources.base import Database, MutableGraphDataSource
from datasources.errors import GraphNotFound
from datasources.hits import FIELDS, VectorQuery
from datasources.links import TypedLink
from datasources.search import FURTHER_SHARE, NAMED_BY_NAME, NAMED_BY_TEXT, SearchRequest
from datasources.types import ROOT_WORKSPACE, Mutation
from tests.contracts.base import Contract
from tests.contracts.samples import FLOW, MODEL, a_node, a_type, a_vector, an_edge, floats, keys_of
from tests.contracts.searches import search_text, search_vectors

Source = MutableGraphDataSource
VECTOR = (MODEL, floats(1, 0))


class SearchRequestContract(Contract):
    async def test_one_request_finds_what_its_searches_find_alone(self, source: Source) -> None:
        vectors = [a_vector("a", 1, 1, name=(1, 0)), a_vector("b", 1, 0), a_vector("c", -1, 0)]
        await source.put_embeddings(FLOW, vectors)
        asked = SearchRequest(query="fetch invoices", vector=VECTOR, limit=3, min_score=-0.5)
        hits = await source.search(FLOW, asked)
        for field in FIELDS:
            words = await search_text(source, FLOW, "fetch invoices", limit=3, field=field)
            query = VectorQuery(vector=VECTOR[1], model=MODEL, limit=3, min_score=-0.5, field=field)
            near = await search_vectors(source, FLOW, query)
            for found, alone in ((hits.by_words(field), words), (hits.by_vector(field), near)):
                assert [hit.key for hit in found] == [hit.key for hit in alone] != []
                # A graph that is held in memory meanwhile is scored with other roundings.
                assert [hit.score for hit in found] == pytest.approx([hit.score for hit in alone])

    async def test_only_the_fields_asked_for_are_searched(self, source: Source) -> None:
        await source.put_embeddings(FLOW, [a_vector("b", 1, 0, name=(1, 0))])
        for field in FIELDS:
            asked = SearchRequest(query="fetch", vector=VECTOR, limit=3, fields=(field,))
            hits = await source.search(FLOW, asked)
            for other in FIELDS:
                searches = [hits.by_words(other), hits.by_vector(other)]
                assert [bool(found) for found in searches] == [other == field] * 2

    async def test_names_and_aliases_of_the_best_hits_of_words_come_along(
        self, source: Source
    ) -> None:
        called: dict[str, dict[str, object]] = {
            "x1": {"name": " Quokka ", "aliases": ["Kwokka", 3]},
            "x2": {"note": "quokka"},
            "x3": {"name": " ", "title": "Quokka two", "aliases": "Kwokka"},
            "x4": {"name": 7, "label": "Quokka three"},
        }
        nodes = [a_node(key, data=data) for key, data in called.items()]
        await source.apply(Mutation(graph_key=FLOW, put_nodes=nodes))
        asked = SearchRequest(query="quokka", limit=5, with_names=True)
        names = (await source.search(FLOW, asked)).names
        assert {key: list(of) for key, of in names.items()} == {
            "x1": ["Quokka", "Kwokka"],
            "x2": ["x2"],
            "x3": ["Quokka two", "Kwokka"],
            "x4": ["Quokka three"],
        }
        assert not (await source.search(FLOW, SearchRequest(query="quokka", limit=5))).names

    async def test_of_many_hits_the_best_have_names(self, source: Source) -> None:
        put = [a_node(f"q{i:03}", data={"name": "quokka"}) for i in range(50)]
        put += [a_node(f"r{i:03}", data={"note": "quokka"}) for i in range(50)]
        await source.apply(Mutation(graph_key=FLOW, put_nodes=put))
        hits = await source.search(FLOW, SearchRequest(query="quokka", limit=90, with_names=True))
        best = {*keys_of(hits.name[:NAMED_BY_NAME]), *keys_of(hits.text[:NAMED_BY_TEXT])}
        assert hits.names.keys() == best

    async def test_the_first_nodes_stand_in_where_nothing_is_found(self, source: Source) -> None:
        for query, vector in (("xylophone", None), ("", None), ("", VECTOR)):
            asked = SearchRequest(query=query, vector=vector, limit=5, first=3)
            hits = await source.search(FLOW, asked)
            assert hits.is_empty
            assert list(hits.first) == ["a", "apart", "b"]
        found = await source.search(FLOW, SearchRequest(query="fetch", limit=5, first=3))
        assert not found.first
        assert not (await source.search(FLOW, SearchRequest(query="xylophone", limit=5))).first

    async def test_links_are_sent_along_whole_or_not_at_all(self, source: Source) -> None:
        """A store that reads them on request only says so by None."""
        spokes = [f"s{i}" for i in range(6)]
        put = [a_node(key) for key in ("hub", *spokes)]
        edges = [an_edge(f"hub-{key}", "hub", key) for key in spokes]
        edges += [an_edge("d-hub", "d", "hub"), an_edge("d-apart", "d", "apart", label="é")]
        await source.apply(Mutation(graph_key=FLOW, put_nodes=put, put_edges=edges))
        asked = SearchRequest(query="journal", limit=2 * FURTHER_SHARE, links=50, max_degree=4)
        hits = await source.search(FLOW, asked)
        assert keys_of(hits.text) == ["d"]
        if hits.links is None:
            return
        assert list(hits.links.links) == [
            TypedLink("b", "d", ""),
            TypedLink("d", "apart", "é"),
            TypedLink("d", "hub", ""),
            TypedLink("d", "a", ""),
        ]
        assert not hits.links.is_cut
        assert {key for link in hits.links.further for key in link}.isdisjoint(spokes)
        few = SearchRequest(query="journal", limit=2 * FURTHER_SHARE, links=2, max_degree=4)
        cut = (await source.search(FLOW, few)).links
        assert cut is not None
        assert cut.is_cut
        assert (await source.search(FLOW, SearchRequest(query="journal", limit=2))).links is None

    async def test_a_search_of_a_graph_that_is_not_there_is_refused(self, source: Source) -> None:
        for asked in (
            SearchRequest(limit=0),
            SearchRequest(query="a", limit=3),
            SearchRequest(vector=VECTOR, limit=3),
        ):
            with pytest.raises(GraphNotFound):
                await source.search("nothing", asked)

    async def test_a_neighbourhood_has_the_stored_types_of_its_nodes(
        self, database: Database, source: Source
    ) -> None:
        await source.put_node_config(a_type("log", display_name="Chronicle"))
        await source.put_node_config(a_type("unused"))
        await database.source(ROOT_WORKSPACE).put_node_config(
            a_type("task", ROOT_WORKSPACE, key="r")
        )
        around = await source.get_neighborhood(
            FLOW, ["d", "b"], max_depth=0, limit=5, with_types=True
        )
        assert sorted(config.type for config in around.configs) == ["log", "task"]
        plain = await source.get_neighborhood(FLOW, ["d", "b"], max_depth=0, limit=5)
        assert plain.configs == ()
        assert (plain.nodes, plain.edges) == (around.nodes, around.edges)

    async def test_declared_abilities_are_there(self, source: Source) -> None:
        builder = source.abilities.index_builder
        if builder is not None:
            await builder.build_indexes(FLOW)
            with pytest.raises(GraphNotFound):
                await builder.build_indexes("nothing")
        foreign = source.abilities.foreign_vectors
        if foreign is not None:
            await source.put_embeddings(FLOW, [a_vector("a", 1, 0)])
            assert await foreign.count_unmarked_vectors() == {}
            assert await foreign.get_unmarked_vectors(FLOW, ["a", "b"]) == {}
            assert await foreign.adopt_vectors(FLOW, [a_vector("gone", 1, 0)]) == 0
            with pytest.raises(GraphNotFound):
                await foreign.get_unmarked_vectors("nothing", ["a"])
