"""Importing a workflow again updates its graph and leaves what people added."""

from __future__ import annotations

from typing import Any

import orjson

from datasources.mock.database import MemoryDatabase
from datasources.types import Edge, HandleGroup, HandlePoint, Mutation, Node, NodeTypeConfig, TypeTemplate
from graphrag.exchange import import_bytes
from graphrag.importers import to_mutation
from tests.graphrag.importers.helpers import (
    WORKSPACE,
    again,
    existing_of,
    is_empty,
    n8n,
    n8n_node,
    read,
    store,
    to,
)


def _two(**fields: Any) -> dict[str, Any]:
    return n8n([n8n_node("A"), n8n_node("B")], {"A": {"main": [[to("B")]]}}, **fields)


async def test_same_file_targets_the_same_graph_and_changes_nothing() -> None:
    first = read(_two())
    source = await store(first)
    stored = await existing_of(source, first.graph.key)
    second = again(_two(), stored)
    assert second.graph.key == first.graph.key
    assert is_empty(to_mutation(second, stored))


async def test_renamed_node_keeps_its_key_by_its_id() -> None:
    first = read(_two())
    source = await store(first)
    stored = await existing_of(source, first.graph.key)
    renamed = n8n([n8n_node("Alpha", id="id-of-A"), n8n_node("B")], {"Alpha": {"main": [[to("B")]]}})
    mutation = to_mutation(again(renamed, stored), stored)
    assert [(node.key, node.data["name"]) for node in mutation.put_nodes] == [("a", "Alpha")]
    assert not mutation.delete_nodes
    assert not mutation.put_edges
    assert not mutation.delete_edges


async def test_node_whose_id_changed_keeps_its_key_by_its_name() -> None:
    first = read(_two())
    source = await store(first)
    stored = await existing_of(source, first.graph.key)
    result = again(n8n([n8n_node("A", id="new"), n8n_node("B")]), stored)
    assert [node.key for node in result.nodes] == ["a", "b"]


async def test_swapped_names_follow_the_ids() -> None:
    first = read(_two())
    source = await store(first)
    stored = await existing_of(source, first.graph.key)
    swapped = n8n([n8n_node("B", id="id-of-A"), n8n_node("A", id="id-of-B")])
    assert [node.key for node in again(swapped, stored).nodes] == ["a", "b"]


async def test_duplicates_of_one_name_keep_their_keys() -> None:
    document = n8n([n8n_node("A", id=None, position=[i, 0]) for i in range(12)])
    first = read(document)
    source = await store(first)
    stored = await existing_of(source, first.graph.key)
    second = again(document, stored)
    assert [node.key for node in second.nodes] == [node.key for node in first.nodes]
    assert is_empty(to_mutation(second, stored))


async def test_vanished_nodes_and_edges_are_deleted_and_new_ones_added() -> None:
    first = read(_two())
    source = await store(first)
    stored = await existing_of(source, first.graph.key)
    changed = n8n([n8n_node("A"), n8n_node("C")], {"A": {"main": [[to("C")]]}})
    mutation = to_mutation(again(changed, stored), stored)
    assert list(mutation.delete_nodes) == ["b"]
    assert list(mutation.delete_edges) == ["a.0--b.0"]
    await source.apply(mutation, expected_revision=stored.graph.revision)
    assert [node.key for node in await source.get_nodes(first.graph.key)] == ["a", "c"]
    assert [edge.key for edge in await source.get_edges(first.graph.key)] == ["a.0--c.0"]


async def test_what_people_added_stays() -> None:
    first = read(_two())
    source = await store(first)
    key = first.graph.key
    a = (await source.get_nodes_by_key(key, ["a"]))[0]
    extra = HandlePoint(id="mine", type="out")
    own = HandleGroup(point=(HandlePoint(id="0", type="in"),))
    await source.apply(
        Mutation(
            graph_key=key,
            graph=first.graph.replace(sheets_list={"0": "main", "1": "mine"}),
            put_nodes=[
                a.replace(handles={**a.handles, "T": HandleGroup(point=(extra,))}, owner="Ann"),
                Node(key="c", graph_key=key, type="return", sheet="1", handles={"L": own}),
            ],
            put_edges=[Edge(key="e", graph_key=key, source="a", source_handle="mine", target="c")],
        )
    )
    stored = await existing_of(source, key)
    changed = n8n([n8n_node("A", parameters={"x": 1}), n8n_node("C")])
    mutation = to_mutation(again(changed, stored), stored)
    await source.apply(mutation)
    nodes = {node.key: node for node in await source.get_nodes(key)}
    assert set(nodes) == {"a", "c", "c-2"}
    assert nodes["c"].type == "return"
    assert nodes["a"].data["parameters"] == {"x": 1}
    assert ("T", extra) in nodes["a"].points("out")
    assert (nodes["a"].model_extra or {})["owner"] == "Ann"
    assert [edge.key for edge in await source.get_edges(key)] == ["e"]
    assert (await source.get_graph(key)).sheets_list == {"0": "main", "1": "mine"}


async def test_edge_that_a_person_drew_first_is_not_doubled() -> None:
    bare = n8n([n8n_node("A"), n8n_node("B")])
    first = read(bare)
    source = await store(first)
    key = first.graph.key
    await source.apply(
        Mutation(graph_key=key, put_edges=[Edge(key="mine", graph_key=key, source="a", target="b")])
    )
    stored = await existing_of(source, key)
    await source.apply(to_mutation(again(_two(), stored), stored))
    assert [edge.key for edge in await source.get_edges(key)] == ["mine"]


async def test_types_of_two_workflows_are_united_and_never_shrink() -> None:
    source = MemoryDatabase().source(WORKSPACE)
    first = n8n([n8n_node("A"), n8n_node("B")], {"A": {"main": [[], [to("B")]]}})
    second = n8n([n8n_node("A"), n8n_node("B")], {"A": {"main": [[to("B", index=3)]]}})
    for name, document in (("first", first), ("second", second)):
        await import_bytes(source, orjson.dumps(document), file_name=name)
    (config,) = await source.get_node_configs()
    points = {(p.type, p.id) for group in config.node.handles.values() for p in group.point}
    assert points == {("in", "0"), ("in", "3"), ("out", "0"), ("out", "1")}


async def test_type_that_is_there_already_is_not_stored_again() -> None:
    source = await store(read(n8n([n8n_node("A")]), graph_key="one"))
    known = await source.get_node_configs()
    assert read(n8n([n8n_node("A")]), graph_key="two", known_types=known).configs == ()


async def test_type_that_a_person_made_is_left_alone() -> None:
    source = MemoryDatabase().source(WORKSPACE)
    (config,) = read(n8n([n8n_node("A")])).configs
    fields = {k: v for k, v in config.to_document().items() if k != "origin"}
    own = type(config).model_validate({**fields, "displayName": "Ours"})
    await source.put_node_config(own)
    result = read(n8n([n8n_node("A")]), known_types=await source.get_node_configs())
    assert result.configs == ()
    assert "a type of this name was there before" in result.report.lines()[0]


async def test_import_through_a_source_leaves_a_type_that_a_person_made() -> None:
    source = MemoryDatabase().source(WORKSPACE)
    own = NodeTypeConfig(
        key="filter", workspace=WORKSPACE, display_name="Ours", node=TypeTemplate(type="filter")
    )
    await source.put_node_config(own)
    flow = [{"id": "1", "type": "filter", "z": "t", "name": "F", "x": 1, "y": 1, "wires": [[]]}]
    outcomes = [await import_bytes(source, orjson.dumps(flow), file_name="f.json") for _ in range(2)]
    assert [outcome.action for outcome in outcomes] == ["created", "unchanged"]
    assert await source.get_node_configs() == [own]


async def test_sheets_keep_their_ids_when_tabs_move() -> None:
    def flow(*tabs: str) -> list[Any]:
        made = [{"id": tab, "type": "tab", "label": tab.upper()} for tab in tabs]
        nodes = [
            {"id": f"n-{tab}", "type": "debug", "z": tab, "name": tab, "x": 1, "y": 1, "wires": []}
            for tab in tabs
        ]
        return [*made, *nodes]

    first = read(flow("p", "q"))
    source = await store(first)
    stored = await existing_of(source, first.graph.key)
    moved = again(flow("r", "q"), stored)
    assert {node.key: node.sheet for node in moved.nodes} == {"r": "0", "q": "1"}
    mutation = to_mutation(moved, stored)
    assert list(mutation.delete_nodes) == ["p"]
    await source.apply(mutation)
    assert (await source.get_graph(first.graph.key)).sheets_list == {"0": "R", "1": "Q"}


def test_workflows_of_one_name_do_not_share_a_graph() -> None:
    same = {"name": "My workflow"}
    keys = {
        read(_two(**same), file_name="one.json").graph.key,
        read(_two(**same), file_name="two.json").graph.key,
        read(_two(**same, id="w1")).graph.key,
        read(_two(**same, id="w2")).graph.key,
    }
    assert len(keys) == 4


def test_workflow_with_an_id_is_known_by_any_file_name() -> None:
    first = read(_two(id="w1"), file_name="one.json")
    second = read(_two(id="w1"), file_name="folder/two (3).json")
    assert first.graph == second.graph


def test_caller_may_choose_the_graph_key() -> None:
    result = read(_two(), graph_key="mine")
    assert result.graph.key == "mine"
    assert {node.graph_key for node in result.nodes} == {"mine"}
