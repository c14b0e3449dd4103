"""Contract of search: BM25 of words, exact cosine of vectors, and nothing a query can break."""

import math
from collections import Counter
from typing import ClassVar, get_args

import numpy as np
import pytest

from datasources.base import Database, MutableGraphDataSource
from datasources.builtin_types import BUILTIN_TYPES
from datasources.hits import Hit, SearchField, VectorQuery
from datasources.text import node_text, stemmed, tokenize
from datasources.types import ROOT_WORKSPACE, Mutation, Node
from tests.contracts.base import Contract
from tests.contracts.samples import (
    FLOW,
    MODEL,
    a_graph,
    a_node,
    a_type,
    a_vector,
    assert_found,
    assert_same_hits,
    floats,
    keys_of,
)
from tests.contracts.searches import search_text, search_vectors

Source = MutableGraphDataSource


def bm25(nodes: list[Node], query: str) -> list[Hit]:
    """The formula written out once more, slowly."""
    texts = [node_text(node, BUILTIN_TYPES.get(node.type)) for node in nodes]
    documents = {text.key: Counter(tokenize(text.content)) for text in texts}
    average = sum(sum(words.values()) for words in documents.values()) / len(documents)
    hits = []
    for key, words in documents.items():
        score = 0.0
        for term in set(tokenize(query)):
            df = sum(term in other for other in documents.values())
            idf = math.log(1 + (len(documents) - df + 0.5) / (df + 0.5))
            norm = 1.2 * (0.25 + 0.75 * sum(words.values()) / average)
            score += idf * words[term] * 2.2 / (words[term] + norm)
        if score > 0:
            hits.append(Hit(key, score))
    return sorted(hits, key=lambda hit: (-hit.score, hit.key))


class TextSearchContract(Contract):
    exact_bm25: ClassVar[bool] = True
    """Else scores are of the store's own formula, and only the order of clear cases is promised."""

    def compare(self, found: list[Hit], everything: list[Hit], limit: int) -> None:
        (assert_same_hits if self.exact_bm25 else assert_found)(found, everything, limit=limit)

    async def test_scores_are_bm25_of_distinct_words(self, source: Source) -> None:
        nodes = await source.get_nodes(FLOW)
        for query in ("sort the invoices", "fetch", "invoices invoices journal", "NOBODY"):
            everything = bm25(nodes, query)
            assert everything
            for limit in (10, 1):
                self.compare(await search_text(source, FLOW, query, limit=limit), everything, limit)

    async def test_the_best_node_comes_first(self, source: Source) -> None:
        hits = await search_text(source, FLOW, "sort invoices", limit=5)
        assert keys_of(hits) == ["c", "b"]
        assert hits[0].score > hits[1].score > 0

    async def test_the_name_field_leaves_code_and_data_out(self, source: Source) -> None:
        await source.apply(
            Mutation(
                graph_key=FLOW, put_nodes=[a_node("b", data={"name": "Fetch", "rule": "zebra"})]
            )
        )
        assert keys_of(await search_text(source, FLOW, "zebra", limit=5)) == ["b"]
        assert await search_text(source, FLOW, "zebra", limit=5, field="name") == []
        assert keys_of(await search_text(source, FLOW, "fetch", limit=5, field="name")) == ["b"]

    async def test_accents_case_and_joined_words_do_not_matter(self, source: Source) -> None:
        for query in ("ecrire", "ÉCRIRE", "journal", "le_journal", "myJournalTab"):
            assert keys_of(await search_text(source, FLOW, query, limit=5)) == ["d"], query

    async def test_letters_that_have_no_accent_are_found_as_they_are_written_without_them(
        self, source: Source
    ) -> None:
        nodes = [
            a_node("a", data={"name": "Straße prüfen"}),
            a_node("b", data={"name": "Søren, Œuvre"}),
        ]
        await source.apply(Mutation(graph_key=FLOW, put_nodes=tuple(nodes)))
        for query, key in (
            ("strasse", "a"),
            ("STRASSE", "a"),
            ("Straße", "a"),
            ("soren", "b"),
            ("oeuvre", "b"),
        ):
            hits = await search_text(source, FLOW, query, limit=3)
            assert [hit.key for hit in hits] == [key], query

    async def test_a_code_is_found_whole_before_its_parts(self, source: Source) -> None:
        """Else `B2` is any B and any 2."""
        texts = {
            "code": "pump B2 runs v2.1, says HTTP-404",
            "parts": "pump B 2 2 runs v 2 1 2 1, says HTTP 404 404 B",
        }
        put = [a_node(key, type="x", data=text) for key, text in texts.items()]
        await source.apply(Mutation(graph_key=FLOW, put_nodes=put))
        nodes = await source.get_nodes(FLOW)
        for query in ("B2", "b_2", "V2.1", "http_404", "error HTTP404"):
            found = await search_text(source, FLOW, query, limit=10)
            self.compare(found, bm25(nodes, query), 10)
            assert keys_of(found)[:2] == ["code", "parts"], query

    async def test_words_of_a_graph_in_another_language_are_found_in_each_form(
        self, source: Source
    ) -> None:
        graph = a_graph("fluss", language="de")
        texts = {"bills": "Rechnungen versenden", "code": "Rechnung B2", "other": "Kunden anlegen"}
        put = [a_node(key, "fluss", type="x", data={"name": name}) for key, name in texts.items()]
        await source.create_graph(graph, Mutation(graph_key="fluss", put_nodes=put[:1]))
        # A client that knows no languages stores the graph again.
        await source.apply(Mutation(graph_key="fluss", graph=a_graph("fluss"), put_nodes=put[1:]))
        assert (await source.get_graph("fluss")).language == "de"
        for word in ("Rechnung", "Rechnungen"):
            asked = stemmed(word, "de")
            for field in get_args(SearchField):
                found = await search_text(source, "fluss", asked, limit=5, field=field)
                assert sorted(keys_of(found)) == ["bills", "code"], (word, field)
        assert keys_of(await search_text(source, "fluss", "b2", limit=5)) == ["code"]

    async def test_a_language_set_later_holds_for_the_nodes_that_are_there(
        self, source: Source
    ) -> None:
        texts = {"a": "Rechnungen", "b": "Konto"}
        put = [a_node(key, "spät", type="x", data={"name": name}) for key, name in texts.items()]
        await source.create_graph(a_graph("spät"), Mutation(graph_key="spät", put_nodes=put))
        fields = get_args(SearchField)
        for field in fields:  # whatever is held of the words as they were
            assert (
                await search_text(source, "spät", stemmed("Rechnung", "de"), limit=5, field=field)
                == []
            )
        graph = a_graph("spät", language="de")
        await source.apply(Mutation(graph_key="spät", graph=graph, put_nodes=put[1:]))
        for field in fields:
            for asked in ("Rechnung", "Rechnungen"):
                found = await search_text(
                    source, "spät", stemmed(asked, "de"), limit=5, field=field
                )
                assert keys_of(found) == ["a"], (asked, field)

    async def test_equal_scores_come_by_key(self, source: Source) -> None:
        twins = [a_node(key, type="x", data="quokka") for key in ("t3", "t1", "t2")]
        await source.apply(Mutation(graph_key=FLOW, put_nodes=twins))
        assert keys_of(await search_text(source, FLOW, "quokka", limit=2)) == ["t1", "t2"]

    async def test_a_query_is_words_and_never_syntax(self, source: Source) -> None:
        nodes = await source.get_nodes(FLOW)
        for query in (
            "", "   ", "!?;", '"', "''", "*", "invoices*", "NEAR(a b)", "AND", "a AND", "OR NOT",
            "name:b", "^b", "-invoices", "(((", "{name} : x", "b\x00c", "%", "_",
            "'; DROP TABLE nodes; --", "\U0001f525", "文字",
        ):  # fmt: skip
            found = await search_text(source, FLOW, query, limit=100)
            self.compare(found, bm25(nodes, query), 100)

    async def test_words_nobody_has_find_nothing(self, source: Source) -> None:
        assert await search_text(source, FLOW, "xylophone", limit=5) == []
        assert await search_text(source, FLOW, "invoices", limit=0) == []

    async def test_a_very_long_query_is_answered(self, source: Source) -> None:
        query = "invoices " + " ".join(f"word{i}x" for i in range(5000))
        assert keys_of(await search_text(source, FLOW, query, limit=5)) == ["b", "c"]

    async def test_changed_nodes_are_found_by_their_new_words_only(self, source: Source) -> None:
        assert keys_of(await search_text(source, FLOW, "sort", limit=5)) == ["c"]
        await source.apply(Mutation(graph_key=FLOW, put_nodes=[a_node("c", data="shuffle")]))
        assert await search_text(source, FLOW, "sort", limit=5) == []
        assert keys_of(await search_text(source, FLOW, "shuffle", limit=5)) == ["c"]

    async def test_deleted_nodes_are_not_found(self, source: Source) -> None:
        assert await search_text(source, FLOW, "sort", limit=5)
        await source.apply(Mutation(graph_key=FLOW, delete_nodes=["c"]))
        assert await search_text(source, FLOW, "sort", limit=5) == []

    async def test_a_node_is_found_by_its_types_words(self, source: Source) -> None:
        config = a_type("log", display_name="Chronicle", description="Keeps a diary")
        await source.put_node_config(config)
        assert keys_of(await search_text(source, FLOW, "chronicle", limit=5, field="name")) == ["d"]
        assert keys_of(await search_text(source, FLOW, "diary", limit=5)) == ["d"]

    async def test_a_changed_type_changes_its_nodes_words(self, source: Source) -> None:
        await source.put_node_config(a_type("log", display_name="Chronicle"))
        assert await search_text(source, FLOW, "chronicle", limit=5)
        await source.put_node_config(a_type("log", display_name="Ledger"))
        assert await search_text(source, FLOW, "chronicle", limit=5) == []
        assert keys_of(await search_text(source, FLOW, "ledger", limit=5)) == ["d"]
        await source.apply(Mutation(graph_key=FLOW, delete_configs=["log"]))
        assert await search_text(source, FLOW, "ledger", limit=5) == []

    async def test_a_renamed_type_leaves_its_old_nodes(self, source: Source) -> None:
        await source.put_node_config(a_type("log", key="t1", display_name="Chronicle"))
        await source.put_node_config(a_type("other", key="t1", display_name="Chronicle"))
        assert await search_text(source, FLOW, "chronicle", limit=5) == []

    async def test_words_of_root_types_count_until_the_workspace_has_its_own(
        self, database: Database, source: Source
    ) -> None:
        await database.source(ROOT_WORKSPACE).put_node_config(
            a_type("log", ROOT_WORKSPACE, key="r", display_name="Chronicle")
        )
        assert keys_of(await search_text(source, FLOW, "chronicle", limit=5)) == ["d"]
        await source.put_node_config(a_type("log", display_name="Ledger"))
        assert await search_text(source, FLOW, "chronicle", limit=5) == []
        assert keys_of(await search_text(source, FLOW, "ledger", limit=5)) == ["d"]
        await source.apply(Mutation(graph_key=FLOW, delete_configs=["log"]))
        assert keys_of(await search_text(source, FLOW, "chronicle", limit=5)) == ["d"]

    async def test_words_of_built_in_types_count_until_one_is_stored(self, source: Source) -> None:
        assert keys_of(await search_text(source, FLOW, "workflow", limit=5)) == ["a"]
        await source.put_node_config(a_type("starter", display_name="Ignition"))
        assert await search_text(source, FLOW, "workflow", limit=5) == []
        assert keys_of(await search_text(source, FLOW, "ignition", limit=5)) == ["a"]

    async def test_code_of_the_type_counts_where_a_node_has_none(self, source: Source) -> None:
        config = a_type("log").to_document()
        config["node"]["process"] = "console.warn(wombat)"
        await source.put_node_config(type(a_type("x")).model_validate(config))
        assert keys_of(await search_text(source, FLOW, "wombat", limit=5)) == ["d"]


class VectorSearchContract(Contract):
    @pytest.fixture
    async def embedded(self, source: Source) -> Source:
        vectors = [
            a_vector("a", 2, 0, 0, name=(0, 1, 0)),
            a_vector("b", 1, 1, 0, name=(0, 0, 5)),
            a_vector("c", 0, 3, 0),
            a_vector("d", -1, 0, 0),
        ]
        assert await source.put_embeddings(FLOW, vectors) == 4
        return source

    async def test_scores_are_cosines_best_first(self, embedded: Source) -> None:
        hits = await search_vectors(
            embedded, FLOW, VectorQuery(vector=floats(5, 0, 0), model=MODEL, limit=10, min_score=-1)
        )
        assert keys_of(hits) == ["a", "b", "c", "d"]
        assert [hit.score for hit in hits] == pytest.approx([1, 0.5**0.5, 0, -1], abs=1e-5)

    async def test_scores_below_the_least_are_left_out(self, embedded: Source) -> None:
        hits = await search_vectors(
            embedded,
            FLOW,
            VectorQuery(vector=floats(1, 0, 0), model=MODEL, limit=10, min_score=0.5),
        )
        assert keys_of(hits) == ["a", "b"]
        assert (
            await search_vectors(
                embedded, FLOW, VectorQuery(vector=floats(1, 0, 0), model=MODEL, limit=1)
            )
            == hits[:1]
        )
        assert (
            await search_vectors(
                embedded, FLOW, VectorQuery(vector=floats(1, 0, 0), model=MODEL, limit=0)
            )
            == []
        )

    async def test_the_name_field_searches_names_alone(self, embedded: Source) -> None:
        hits = await search_vectors(
            embedded,
            FLOW,
            VectorQuery(vector=floats(0, 0, 1), model=MODEL, limit=10, min_score=0.1, field="name"),
        )
        assert keys_of(hits) == ["b"]
        every = await search_vectors(
            embedded,
            FLOW,
            VectorQuery(vector=floats(0, 0, 1), model=MODEL, limit=10, min_score=-1, field="name"),
        )
        assert sorted(keys_of(every)) == ["a", "b"]

    async def test_vectors_of_another_model_or_length_are_ignored(self, embedded: Source) -> None:
        await embedded.put_embeddings(
            FLOW,
            [a_vector("b", 1, 0, 0, model="model-b"), a_vector("c", 1, 0), a_vector("apart", 1, 0)],
        )
        query = floats(1, 0, 0)
        hits = await search_vectors(
            embedded, FLOW, VectorQuery(vector=query, model=MODEL, limit=9, min_score=-1)
        )
        assert keys_of(hits) == ["a", "d"]
        assert keys_of(
            await search_vectors(
                embedded, FLOW, VectorQuery(vector=query, model="model-b", limit=9)
            )
        ) == ["b"]
        assert keys_of(
            await search_vectors(
                embedded, FLOW, VectorQuery(vector=floats(1, 0), model=MODEL, limit=9)
            )
        ) == ["apart", "c"]
        assert (
            await search_vectors(
                embedded, FLOW, VectorQuery(vector=query, model="never used", limit=9)
            )
            == []
        )

    async def test_a_query_that_fits_no_vector_finds_nothing(self, embedded: Source) -> None:
        for query in ([], [0.1] * 4, [float("nan"), 0, 0], [float("inf"), 0, 0]):
            vector = floats(*query)
            assert (
                await search_vectors(
                    embedded, FLOW, VectorQuery(vector=vector, model=MODEL, limit=9, min_score=-1)
                )
                == []
            )

    async def test_a_zero_vector_is_like_nothing(self, embedded: Source) -> None:
        await embedded.put_embeddings(FLOW, [a_vector("apart", 0, 0, 0)])
        hits = dict(
            await search_vectors(
                embedded,
                FLOW,
                VectorQuery(vector=floats(1, 0, 0), model=MODEL, limit=9, min_score=-1),
            )
        )
        assert hits["apart"] == 0
        assert (
            await search_vectors(
                embedded,
                FLOW,
                VectorQuery(vector=floats(0, 0, 0), model=MODEL, limit=9, min_score=0.1),
            )
            == []
        )

    @pytest.mark.parametrize("scale", [1e-30, 1e30])
    async def test_the_length_of_a_vector_does_not_matter(
        self, embedded: Source, scale: float
    ) -> None:
        await embedded.put_embeddings(FLOW, [a_vector("apart", scale, scale, 0)])
        query = floats(scale, scale, 0)
        hits = await search_vectors(
            embedded, FLOW, VectorQuery(vector=query, model=MODEL, limit=9, min_score=0.9)
        )
        assert sorted(keys_of(hits)) == ["apart", "b"]
        assert [hit.score for hit in hits] == pytest.approx([1, 1], abs=1e-5)

    async def test_many_vectors_are_searched_exactly(self, source: Source) -> None:
        random = np.random.default_rng(7)
        keys = [f"n{i:04}" for i in range(600)]
        rows = random.normal(size=(len(keys), 16)).astype(np.float32)
        await source.apply(Mutation(graph_key=FLOW, put_nodes=[a_node(key) for key in keys]))
        await source.put_embeddings(
            FLOW, [a_vector(k, *row) for k, row in zip(keys, rows, strict=True)]
        )
        query = random.normal(size=16).astype(np.float32)
        cosines = rows @ query / np.linalg.norm(rows, axis=1) / np.linalg.norm(query)
        best = np.argsort(-cosines)[:20]
        hits = await search_vectors(source, FLOW, VectorQuery(vector=query, model=MODEL, limit=20))
        assert keys_of(hits) == [keys[i] for i in best]
        assert [hit.score for hit in hits] == pytest.approx(cosines[best].tolist(), abs=1e-5)
