"""A file comes back to the graph that it was written from, also after one of them was renamed."""

from typing import Any

import pytest

from datasources.types import Mutation, Node
from graphrag.app.whole_graphs import copy_graph, new_graph, rename_graph
from graphrag.importers.exchange import export_file
from tests.graphrag.importers.helpers import Workbench, n8n, n8n_node, two

FLOW: list[Any] = [
    {"id": "t1", "type": "tab", "label": "Heating"},
    {"id": "n1", "type": "inject", "z": "t1", "name": "Go", "x": 100, "y": 40, "wires": [["n2"]]},
    {"id": "n2", "type": "debug", "z": "t1", "name": "Out", "x": 300, "y": 40, "wires": []},
]


@pytest.fixture
def bench() -> Workbench:
    return Workbench()


async def graphs(bench: Workbench) -> list[str]:
    return sorted(graph.key for graph in await bench.source.list_graphs())


async def written(bench: Workbench, graph: str, form: str = "n8n") -> Any:
    return (await export_file(bench.approvals, graph, form)).document


@pytest.mark.parametrize("fields", [{"id": "wf1"}, {}])
async def test_a_graph_renamed_here_gets_its_file_back_each_time(fields: dict[str, Any]) -> None:
    bench = Workbench()
    key = (await bench.take(two(**fields))).graph_key
    for name in ("Orders", "Orders of today"):
        await rename_graph(bench.approvals, key, name, bench.person)
        for _ in range(2):
            document = await written(bench, key)
            assert document["name"] == name
            outcome = await bench.take(document, file_name=f"{name}.json")
            assert (outcome.graph_key, outcome.action, outcome.conflicts) == (key, "unchanged", 0)
    document = await written(bench, key)
    document["nodes"][0]["parameters"] = {"x": 1}
    assert (await bench.take(document, file_name="other.json")).taken == 1
    assert await graphs(bench) == [key]


async def test_a_workflow_renamed_in_n8n_comes_back_under_its_new_name(bench: Workbench) -> None:
    key = (await bench.take(two(id="wf1"))).graph_key
    outcome = await bench.take({**two(id="wf1"), "name": "Renamed there"})
    assert (outcome.graph_key, outcome.action) == (key, "updated")
    assert (await bench.source.get_graph(key)).name == "Renamed there"
    assert await graphs(bench) == [key]


async def test_a_graph_made_here_gets_its_file_back_also_with_the_id_that_n8n_gives_it(
    bench: Workbench,
) -> None:
    made = await new_graph(bench.approvals, "Orders", bench.person, family="n8n")
    await bench.take(two())  # its types
    node = Node(
        key="a", graph_key=made.key, type="n8n-nodes-base.set", data={"name": "A", "parameters": {}}
    )
    await bench.source.apply(Mutation(graph_key=made.key, put_nodes=[node]))
    before = await graphs(bench)
    for more in ({}, {"id": "given"}):
        outcome = await bench.take({**(await written(bench, made.key)), **more}, file_name="x.json")
        assert outcome.graph_key == made.key, more
    assert await graphs(bench) == before


async def test_a_node_red_flow_whose_first_tab_was_renamed_here_gets_its_file_back(
    bench: Workbench,
) -> None:
    key = (await bench.take(FLOW)).graph_key
    graph = await bench.source.get_graph(key)
    sheets = dict.fromkeys(graph.sheets_list, "Cooling")
    await bench.source.apply(Mutation(graph_key=key, graph=graph.replace(sheets_list=sheets)))
    outcome = await bench.take(await written(bench, key, "node-red"))
    assert (outcome.graph_key, outcome.action) == (key, "unchanged")
    assert await graphs(bench) == [key]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (two(id="1"), {**n8n([n8n_node("C"), n8n_node("D")], id="1"), "name": "Another server's"}),
        (two(id="1"), two(id="2")),
        (two(id="1"), {**two(id="2"), "name": "Small flow copy"}),
        (two(), {**two(), "name": "The same template"}),
        (two(id="1"), two()),
    ],
)
async def test_another_workflow_makes_a_graph_of_its_own(first: Any, second: Any) -> None:
    bench = Workbench()
    for document in (first, second):
        assert (await bench.take(document)).action == "created"
    assert len(await graphs(bench)) == 2


async def test_a_template_imported_from_two_files_makes_two_graphs(bench: Workbench) -> None:
    for name in ("first.json", "second.json"):
        assert (await bench.take(two(), file_name=name)).action == "created"


async def test_a_copy_and_its_original_get_each_their_own_file_back(bench: Workbench) -> None:
    key = (await bench.take(two(id="wf1"))).graph_key
    copy = (await copy_graph(bench.approvals, key, "Copy", bench.person)).key
    for graph in (copy, key, copy):
        outcome = await bench.take(await written(bench, graph))
        assert (outcome.graph_key, outcome.action) == (graph, "unchanged")
    assert await graphs(bench) == sorted([key, copy])


async def test_a_named_graph_is_the_one_that_is_named(bench: Workbench) -> None:
    key = (await bench.take(two(id="wf1"))).graph_key
    outcome = await bench.take(two(id="wf1"), graph_key="mine")
    assert (outcome.graph_key, outcome.action) == ("mine", "created")
    assert await graphs(bench) == sorted([key, "mine"])
