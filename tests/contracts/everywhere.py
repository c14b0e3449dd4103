"""Contract of all graphs at once: who refers to a value, and search over a workspace,
never over another.
"""

from typing import ClassVar

import pytest

from datasources.base import Database, MutableGraphDataSource
from datasources.errors import BadUseValue
from datasources.search import SearchRequest
from datasources.text import node_text, tokenize
from datasources.types import Mutation, Node
from datasources.uses import MAX_VALUE, UseKind, entries_for
from tests.contracts.base import Contract
from tests.contracts.samples import FLOW, MODEL, OTHER, WORKSPACE, a_graph, a_node, a_vector, floats
from tests.contracts.searching import bm25

Source = MutableGraphDataSource
CALLS = {"url": "https://user:pw@API.example.com/v1/users?limit=5", "table": "public.orders"}


async def users(
    source: Source, value: str, kind: UseKind | None = None, **more: object
) -> list[str]:
    found = await source.find_users(entries_for(value, kind), limit=100, **more)  # pyright: ignore[reportArgumentType]
    return [f"{one.graph_key}/{one.node.key}" for one in found]


async def _second(database: Database, workspace: str = WORKSPACE, key: str = "second") -> Source:
    source = database.source(workspace)
    node = a_node("n", key, data={"name": "Fetch more invoices", "parameters": CALLS})
    await source.create_graph(a_graph(key, workspace), Mutation(graph_key=key, put_nodes=[node]))
    return source


class EverywhereContract(Contract):
    scored_together: ClassVar[bool] = True
    """Else graphs are searched one by one, and of scores nothing is promised."""

    async def test_a_reference_is_found_from_its_save_to_its_delete(
        self, source: Source, database: Database
    ) -> None:
        await _second(database)
        await _second(database, OTHER, "theirs")
        refers = a_node("b", data={"parameters": CALLS, "credentials": {"slackApi": "Ops.*"}})
        await source.apply(Mutation(graph_key=FLOW, put_nodes=[refers]))
        both = [f"{FLOW}/b", "second/n"]
        for value in (
            "api.example.com",
            "HTTPS://api.example.com/v1/",
            "api.example.com/v1/users",
            "orders",
        ):
            assert await users(source, value) == both, value
        assert await users(source, "Orders", "table", graphs=["second"]) == ["second/n"]
        assert await users(source, "orders", "url") == []
        assert await users(source, "Ops.*", "credential") == [f"{FLOW}/b"]
        for literal in (
            "Ops",
            "Opsss",
            ".*",
            "%",
            "_",
            "api.example.com/v",
            "example.com",
            "public",
        ):
            assert await users(source, literal) == [], literal
        await source.apply(
            Mutation(graph_key=FLOW, put_nodes=[a_node("b", data={"table": "bills"})])
        )
        assert await users(source, "orders") == ["second/n"]
        assert await users(source, "bills") == [f"{FLOW}/b"]
        await source.apply(Mutation(graph_key=FLOW, delete_nodes=["b"]))
        await source.delete_graph("second")
        for value in ("bills", "orders", "api.example.com"):
            assert await users(source, value) == []

    @pytest.mark.parametrize("value", ["", "  ", "x" * (MAX_VALUE + 1), "x" * 1_000_000])
    def test_a_value_that_cannot_be_entered_is_refused(self, value: str) -> None:
        with pytest.raises(BadUseValue):
            entries_for(value)

    async def test_what_cannot_be_stored_finds_nothing_and_breaks_nothing(
        self, source: Source
    ) -> None:
        long = {
            "table": "t" * 1_000_000,
            "query": f"SELECT * FROM a{'b' * 300_000}",
            "url": "https://",
        }
        await source.apply(Mutation(graph_key=FLOW, put_nodes=[a_node("b", data=long)]))
        for value in ("\ud800", "a\x00b", '"] OR 1', "'; DROP TABLE uses; --", "t" * MAX_VALUE):
            assert await users(source, value) == []
        found = await source.search_everywhere(SearchRequest(query='"* OR ) \x00 NEAR(', limit=5))
        assert all(name[0] == FLOW for name in found.names)

    async def test_all_graphs_are_searched_as_one_and_no_other_workspaces(
        self, source: Source, database: Database
    ) -> None:
        await _second(database)
        theirs = await _second(database, OTHER, "theirs")
        for key, one in ((FLOW, source), ("second", source), ("theirs", theirs)):
            node = "b" if key == FLOW else "n"
            await one.put_embeddings(
                key, [a_vector(node, 1, 0.5 if key == FLOW else 0, name=(0, 1))]
            )
        nodes = [*await source.get_nodes(FLOW), *await source.get_nodes("second")]
        found = await source.search_everywhere(
            SearchRequest(query="sort the invoices", vector=(MODEL, floats(1, 0)), limit=10)
        )
        named = {node.key: (node.graph_key, node.key) for node in nodes}
        expected = [(named[hit.key], hit.score) for hit in bm25(nodes, "sort the invoices")]
        if self.scored_together:
            assert [name for name, _ in found.text] == [name for name, _ in expected]
            assert [score for _, score in found.text] == pytest.approx(
                [s for _, s in expected], rel=1e-5
            )
        assert dict(found.text).keys() == dict(expected).keys()
        assert [name for name, _ in found.vector] == [("second", "n"), (FLOW, "b")]
        assert found.vector[0][1] == pytest.approx(1.0, abs=1e-6)
        words = {node.key: set(tokenize(node_text(node).names)) for node in nodes}
        assert {name[1] for name, _ in found.name} == {
            k for k, has in words.items() if has & set(tokenize("sort invoices"))
        }
        assert set(found.nodes) == set(found.names)
        one = found.nodes["second", "n"]
        assert (one.graph_name, one.node) == ("Graph second", _node(nodes, "n"))
        only = await source.search_everywhere(
            SearchRequest(query="invoices", limit=10), ["second", "theirs"]
        )
        assert only.names == [("second", "n")]
        none = await source.search_everywhere(
            SearchRequest(vector=(MODEL, floats(1, 0, 0)), limit=10)
        )
        assert none.names == []


def _node(nodes: list[Node], key: str) -> Node:
    return next(node for node in nodes if node.key == key)
