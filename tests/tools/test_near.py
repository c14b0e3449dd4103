"""What a wrong key may have meant."""

from __future__ import annotations

from datasources.mock import open_nba
from tests.support.each_row import each_row
from tools.read_tools.views import describe_near, near_nodes

GRAPH = "testgraph001"


@each_row(
    "wrong",
    [
        "Fetch-API",
        "fetch_api",
        "fetch-ap",
        "fetch-api:0",
        "{{node:fetch-api}}",
        "{{node:fetchapi}}",
        "testgraph001-fetch-api",
        "nodius_nodes/testgraph001-fetch-api",
        "Fetch NBA players",
        " fetch-api ",
    ],
)
async def test_mistyped_key_leads_to_the_node_meant(wrong: str) -> None:
    source = open_nba().source("test")
    near = await near_nodes(source, await source.get_graph(GRAPH), wrong)
    assert near[0].key == "fetch-api"


async def test_near_node_is_shown_with_its_name_and_sheet() -> None:
    source = open_nba().source("test")
    graph = await source.get_graph(GRAPH)
    near = await near_nodes(source, graph, "sort_stats")
    assert describe_near(near, graph) == "sort-stats (Sort by points, sheet 1 data-processing)"
