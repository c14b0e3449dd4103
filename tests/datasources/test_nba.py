"""The NBA sample graph: what tests, the demo and the documentation rely on."""

import pytest

from datasources.builtin_types import BUILTIN_TYPES
from datasources.errors import GraphNotFound
from datasources.mock import open_nba
from tests.contracts.searches import search_text

GRAPH = "testgraph001"
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


async def test_the_graph_has_its_name_and_sheets() -> None:
    graph = await source.get_graph(GRAPH)
    assert graph.name == "NBA Stats Pipeline"
    assert graph.sheets_list == {"0": "main", "1": "data-processing"}
    assert [graph.key for graph in await source.list_graphs()] == [GRAPH]


async def test_the_edges_join_the_handles_they_should() -> None:
    edges = await source.get_edges(GRAPH)
    assert len(edges) == len(EDGES)
    assert {(e.source, e.source_handle, e.target, e.target_handle, e.label) for e in edges} == EDGES


async def test_four_types_are_stored_and_described_and_the_others_are_built_in() -> None:
    configs = await source.get_node_configs()
    assert {config.type: config.display_name for config in configs} == TYPES
    assert all(c.description and c.icon and c.category != "default" for c in configs)
    nodes = await source.get_nodes(GRAPH)
    assert (len(nodes), {node.type for node in nodes}) == (9, set(TYPES) | set(BUILTIN_TYPES))


async def test_another_workspace_sees_it_only_when_it_owns_it() -> None:
    with pytest.raises(GraphNotFound):
        await open_nba().source("default").get_graph(GRAPH)
    owned = open_nba("default").source("default")
    assert (await owned.get_graph(GRAPH)).workspace == "default"
    assert {config.workspace for config in await owned.get_node_configs()} == {"default"}


@pytest.mark.parametrize(
    ("question", "key"),
    [
        ("NBA players API", "fetch-api"),
        ("active", "filter-active"),
        ("trier sort points", "sort-stats"),
        ("error", "error-handler"),
        ("LeBron", "entry-form"),
    ],
)
async def test_its_words_find_its_nodes(question: str, key: str) -> None:
    assert (await search_text(source, GRAPH, question, limit=3))[0].key == key
