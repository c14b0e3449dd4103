"""Contract of isolation: what one workspace stores does not exist for another."""

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from datasources.base import Database, MutableGraphDataSource, Record
from datasources.errors import BadDocument, GraphNotFound
from datasources.hits import VectorQuery
from datasources.links import LinkWalk
from datasources.search import SearchRequest
from datasources.types import ROOT_WORKSPACE, Mutation
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
    floats,
    keys_of,
    make_flow,
    snapshot,
)
from tests.contracts.searches import search_text, search_vectors

Source = MutableGraphDataSource
CALLS: dict[str, Callable[[Source, str], Awaitable[Any]]] = {
    "get_graph": lambda source, key: source.get_graph(key),
    "get_versions": lambda source, key: source.get_versions(key),
    "get_stats": lambda source, key: source.get_stats(key),
    "get_nodes": lambda source, key: source.get_nodes(key),
    "get_edges": lambda source, key: source.get_edges(key),
    "get_nodes_by_key": lambda source, key: source.get_nodes_by_key(key, ["a"]),
    "get_edges_by_key": lambda source, key: source.get_edges_by_key(key, ["a"]),
    "get_edges_of": lambda source, key: source.get_edges_of(key, ["a"]),
    "get_links": lambda source, key: source.get_links(key, ["a"]),
    "get_typed_links": lambda source, key: source.get_typed_links(
        key, LinkWalk(keys=["a"], limit=5, max_degree=5)
    ),
    "search": lambda source, key: source.search(
        key, SearchRequest(query="invoices", vector=(MODEL, floats(1)), limit=5, first=5)
    ),
    "get_neighborhood": lambda source, key: source.get_neighborhood(
        key, ["a"], max_depth=1, limit=5
    ),
    "get_vector_info": lambda source, key: source.get_vector_info(key, ["a"]),
    "get_vectors": lambda source, key: source.get_vectors(key, ["a"]),
    "delete_graph": lambda source, key: source.delete_graph(key),
    "apply": lambda source, key: source.apply(Mutation(graph_key=key, delete_nodes=["a"])),
    "put_embeddings": lambda source, key: source.put_embeddings(key, [a_vector("a", 1)]),
}
EMPTY_CALLS: dict[str, Callable[[Source, str], Awaitable[Any]]] = {
    "get_nodes_by_key": lambda source, key: source.get_nodes_by_key(key, []),
    "get_edges_by_key": lambda source, key: source.get_edges_by_key(key, []),
    "get_edges_of": lambda source, key: source.get_edges_of(key, []),
    "get_links": lambda source, key: source.get_links(key, []),
    "get_typed_links": lambda source, key: source.get_typed_links(
        key, LinkWalk(keys=[], limit=0, max_degree=0)
    ),
    "search": lambda source, key: source.search(
        key, SearchRequest(query="", vector=("", floats()), limit=0)
    ),
    "get_neighborhood": lambda source, key: source.get_neighborhood(key, [], max_depth=0, limit=0),
    "get_vector_info": lambda source, key: source.get_vector_info(key, []),
    "get_vectors": lambda source, key: source.get_vectors(key, []),
    "put_embeddings": lambda source, key: source.put_embeddings(key, []),
}


class WorkspaceContract(Contract):
    def test_every_method_on_a_graph_is_tried_here(self) -> None:
        methods = inspect.getmembers(MutableGraphDataSource, inspect.iscoroutinefunction)
        on_a_graph = {
            name
            for name, method in methods
            if {"graph_key", "mutation"} & (named := inspect.signature(method).parameters.keys())
            and "graph" not in named  # a new one
        }
        assert on_a_graph == CALLS.keys()

    async def test_the_workspaces_that_have_graphs_are_listed(self, database: Database) -> None:
        assert await database.workspaces() == []
        for workspace, key in ((WORKSPACE, "one"), (OTHER, "two"), (OTHER, "three")):
            await database.source(workspace).create_graph(a_graph(key, workspace))
        assert await database.workspaces() == sorted({WORKSPACE, OTHER})

    async def test_the_workspaces_that_hold_records_of_a_kind_are_listed(
        self, database: Database
    ) -> None:
        kinds = ("automation", "session", "member", "policy", "thread", "usage", "no such kind")
        names = ("ann", "bob", "zoë", OTHER)
        for i, kind in enumerate(kinds[:-1]):
            for workspace in names[i % 3 :]:
                record = Record(kind=kind, key=f"{workspace} {len(kind)}", data={})
                await database.records(workspace).put(record, expected_version=None)
        for i, kind in enumerate(kinds[:-1]):
            assert await database.workspaces(kind) == sorted(names[i % 3 :])
        for stranger in ("no such kind", "", "' OR 1=1 --", "a\0b", "\ud800"):
            assert await database.workspaces(stranger) == []
        assert await database.workspaces() == []
        (last,) = await database.records(OTHER).query("automation")
        await database.records(OTHER).delete(
            "automation", last.key, expected_version=last.version or ""
        )
        assert await database.workspaces("automation") == ["ann", "bob", "zoë"]

    async def test_another_workspaces_graph_does_not_exist(
        self, database: Database, source: Source
    ) -> None:
        before = await snapshot(source)
        for workspace in (OTHER, ROOT_WORKSPACE):
            stranger = database.source(workspace)
            for call in CALLS.values():
                with pytest.raises(GraphNotFound) as refused:
                    await call(stranger, FLOW)
                assert refused.value.graph_key == FLOW
            assert await stranger.list_graphs() == []
        assert await snapshot(source) == before

    async def test_an_unknown_graph_is_not_found_even_if_nothing_is_asked_of_it(
        self, source: Source
    ) -> None:
        for call in (*CALLS.values(), *EMPTY_CALLS.values()):
            with pytest.raises(GraphNotFound):
                await call(source, "no such graph")

    async def test_graphs_of_root_are_not_shared(self, database: Database) -> None:
        await make_flow(database, ROOT_WORKSPACE)
        with pytest.raises(GraphNotFound):
            await database.source(WORKSPACE).get_nodes(FLOW)

    async def test_listing_shows_our_graphs_only(self, database: Database) -> None:
        for workspace, key in ((WORKSPACE, "one"), (OTHER, "two"), (WORKSPACE, "three")):
            await database.source(workspace).create_graph(a_graph(key, workspace))
        assert keys_of(await database.source(WORKSPACE).list_graphs()) == ["one", "three"]
        assert keys_of(await database.source(OTHER).list_graphs()) == ["two"]

    async def test_graphs_with_the_same_node_keys_stay_apart(
        self, database: Database, source: Source
    ) -> None:
        twin = await make_flow(database, OTHER, "twin")
        before = await snapshot(source)
        await twin.put_embeddings("twin", [a_vector("a", 1, 0)])
        await twin.apply(
            Mutation(
                graph_key="twin", delete_nodes=["b"], put_nodes=[a_node("c", "twin", data="wombat")]
            )
        )
        assert await snapshot(source) == before
        assert await search_text(source, FLOW, "wombat", limit=5) == []
        assert keys_of(await search_text(twin, "twin", "wombat", limit=5)) == ["c"]
        assert (
            await search_vectors(
                source, FLOW, VectorQuery(vector=floats(1, 0), model=MODEL, limit=5)
            )
            == []
        )
        assert keys_of(await search_text(source, FLOW, "sort", limit=5)) == ["c"]

    async def test_types_of_root_are_seen_and_ours_win(self, database: Database) -> None:
        root, ours, theirs = (database.source(name) for name in (ROOT_WORKSPACE, WORKSPACE, OTHER))
        await root.put_node_config(a_type("shared", ROOT_WORKSPACE, display_name="Of root"))
        await root.put_node_config(a_type("common", ROOT_WORKSPACE))
        await ours.put_node_config(a_type("shared", key="mine", display_name="Ours"))
        await theirs.put_node_config(a_type("secret", OTHER))
        seen = await ours.get_node_configs()
        assert [(c.key, c.type, c.workspace) for c in seen] == [
            ("common", "common", ROOT_WORKSPACE),
            ("mine", "shared", WORKSPACE),
        ]
        assert keys_of(await ours.get_node_configs(["shared"])) == ["mine"]
        assert await ours.get_node_configs(["secret"]) == []
        assert await ours.get_node_configs([]) == []
        assert [c.display_name for c in await theirs.get_node_configs(["shared"])] == ["Of root"]
        assert keys_of(await root.get_node_configs()) == ["common", "shared"]

    async def test_types_of_one_key_in_two_workspaces_are_two(self, database: Database) -> None:
        root = database.source(ROOT_WORKSPACE)
        ours = database.source(WORKSPACE)
        await root.put_node_config(a_type("alpha", ROOT_WORKSPACE, key="k"))
        await ours.put_node_config(a_type("beta", key="k"))
        assert [(c.key, c.type) for c in await ours.get_node_configs()] == [
            ("k", "alpha"),
            ("k", "beta"),
        ]
        assert [(c.key, c.type) for c in await root.get_node_configs()] == [("k", "alpha")]

    async def test_of_two_types_of_one_name_the_first_key_is_meant(self, source: Source) -> None:
        await source.put_node_config(a_type("log", key="z", display_name="Zebra"))
        await source.put_node_config(a_type("log", key="m", display_name="Meerkat"))
        assert keys_of(await source.get_node_configs()) == ["m"]
        assert keys_of(await search_text(source, FLOW, "meerkat zebra", limit=5)) == ["d"]
        assert await search_text(source, FLOW, "zebra", limit=5) == []

    async def test_the_own_types_of_a_workspace_are_those_stored_in_it(
        self, database: Database
    ) -> None:
        own = [a_type("t", key="b"), a_type("t", key="a"), a_type("u", key="c")]
        source = database.source(WORKSPACE)
        root = database.source(ROOT_WORKSPACE)
        for config in own:
            await source.put_node_config(config)
        shared = a_type("shared", key="a", workspace=ROOT_WORKSPACE)
        await root.put_node_config(shared)
        assert keys_of(await source.get_own_configs()) == ["a", "b", "c"]
        assert [config.type for config in await root.get_own_configs()] == ["shared"]
        assert await database.source("nobody").get_own_configs() == []

    async def test_a_type_that_names_another_workspace_is_refused(self, database: Database) -> None:
        for workspace in (OTHER, ROOT_WORKSPACE):
            with pytest.raises(BadDocument) as refused:
                await database.source(WORKSPACE).put_node_config(a_type("t", workspace))
            assert refused.value.field == "workspace"
        assert await database.source(OTHER).get_node_configs() == []

    async def test_records_of_workspaces_are_apart(self, database: Database) -> None:
        ours = database.records(WORKSPACE)
        theirs = database.records(OTHER)
        record = Record(kind="thread", key="t", data={"userId": "ann"})
        stored = await ours.put(record, expected_version=None)
        assert await theirs.get("thread", "t") is None
        assert await theirs.query("thread", {"userId": "ann"}) == []
        await theirs.put(
            Record(kind="thread", key="t", data={"userId": "bob"}), expected_version=None
        )
        assert await ours.get("thread", "t") == stored
