"""The NBA sample graph: what tests, the demo and the documentation rely on."""

import pytest

from datasources.builtin_types import BUILTIN_TYPES, types_by_name
from datasources.errors import GraphNotFound
from datasources.mock import open_nba
from datasources.types import Node, NodeTypeConfig
from tests.support.each_row import each_row

GRAPH = "testgraph001"

NODES = {
    # key: (type, sheet, x, y, width, height)
    "root": ("starter", "0", 100, 300, 150, 150),
    "fetch-api": ("api-call", "0", 400, 280, 250, 180),
    "filter-active": ("filter", "0", 750, 280, 250, 150),
    "display-html": ("html", "0", 1100, 200, 640, 360),
    "return": ("return", "0", 1820, 300, 150, 150),
    "error-handler": ("log-node", "0", 500, 550, 200, 120),
    "entry-form": ("entryType", "0", 75, 60, 200, 150),
    "sort-stats": ("transform", "1", 200, 200, 250, 150),
    "disconnected-note": ("log-node", "1", 600, 400, 180, 100),
}
HANDLES = {
    # type: {(side, handle, direction, accept)}
    "starter": {("0", "1", "in", "entryType"), ("R", "0", "out", "any")},
    "api-call": {("L", "0", "in", "any"), ("R", "0", "out", "any"), ("R", "1", "out", "any")},
    "filter": {("L", "0", "in", "any"), ("R", "0", "out", "any")},
    "transform": {("L", "0", "in", "any"), ("R", "0", "out", "any")},
    "html": {("0", "0", "out", "event[]"), ("0", "1", "in", "entryType")},
    "return": {("L", "0", "in", "any")},
    "log-node": {("L", "0", "in", "any")},
    "entryType": {("0", "0", "out", "entryType")},
}
EDGES = {
    ("root", "0", "fetch-api", "0", None),
    ("fetch-api", "0", "filter-active", "0", "success"),
    ("fetch-api", "1", "error-handler", "0", "error"),
    ("filter-active", "0", "display-html", "1", None),
    ("display-html", "0", "return", "0", None),
    ("entry-form", "0", "root", "1", "entryType"),
}
TYPES = {"api-call": "API Call", "filter": "Filter", "transform": "Transform", "log-node": "Logger"}

source = open_nba().source("test")


def handles_of(document: Node | NodeTypeConfig) -> set[tuple[str, str, str, str]]:
    groups = document.handles if isinstance(document, Node) else document.node.handles
    return {(side, p.id, p.type, p.accept) for side, group in groups.items() for p in group.point}


async def test_the_graph_has_its_name_and_sheets() -> None:
    graph = await source.get_graph(GRAPH)
    assert graph.name == "NBA Stats Pipeline"
    assert graph.sheets_list == {"0": "main", "1": "data-processing"}
    assert [graph.key for graph in await source.list_graphs()] == [GRAPH]


async def test_every_node_has_its_type_place_and_size() -> None:
    nodes = await source.get_nodes(GRAPH)
    found = {n.key: (n.type, n.sheet, n.pos_x, n.pos_y, n.size.width, n.size.height) for n in nodes}
    assert found == NODES


async def test_every_node_and_type_has_its_handles() -> None:
    for node in await source.get_nodes(GRAPH):
        assert handles_of(node) == HANDLES[node.type], node.key
    for config in types_by_name(await source.get_node_configs()).values():
        assert handles_of(config) == HANDLES[config.type], config.type


async def test_the_edges_join_the_handles_they_should() -> None:
    edges = await source.get_edges(GRAPH)
    assert len(edges) == len(EDGES)
    assert {(e.source, e.source_handle, e.target, e.target_handle, e.label) for e in edges} == EDGES


async def test_four_types_are_stored_and_described_and_the_others_are_built_in() -> None:
    configs = await source.get_node_configs()
    assert {config.type: config.display_name for config in configs} == TYPES
    assert all(c.description and c.icon and c.category != "default" for c in configs)
    assert {type_ for type_, *_ in NODES.values()} == set(TYPES) | set(BUILTIN_TYPES)


async def test_another_workspace_sees_it_only_when_it_owns_it() -> None:
    with pytest.raises(GraphNotFound):
        await open_nba().source("default").get_graph(GRAPH)
    owned = open_nba("default").source("default")
    assert (await owned.get_graph(GRAPH)).workspace == "default"
    assert {config.workspace for config in await owned.get_node_configs()} == {"default"}


@each_row(
    "question, key",
    ("NBA players API", "fetch-api"),
    ("active", "filter-active"),
    ("trier sort points", "sort-stats"),
    ("error", "error-handler"),
    ("LeBron", "entry-form"),
)
async def test_its_words_find_its_nodes(question: str, key: str) -> None:
    assert (await source.search_text(GRAPH, question, limit=3))[0].key == key
