"""Importing again: node types that workflows share, sheets, names of graphs and their fields."""

from typing import Any

import pytest

from datasources.types import Mutation, NodeTypeConfig, TypeTemplate
from graphrag.approvals import Approve
from graphrag.importers.n8n.node_types import n8n_facts
from graphrag.importers.node_red.flow_nodes import red_facts
from graphrag.importers.type_facts import humanise
from tests.graphrag.importers.helpers import (
    KEY,
    WORKSPACE,
    Workbench,
    imported,
    n8n,
    n8n_node,
    put,
    read,
    to,
    two,
)


async def test_types_of_two_workflows_are_united_and_never_shrink() -> None:
    bench = Workbench()
    first = n8n([n8n_node("A"), n8n_node("B")], {"A": {"main": [[], [to("B")]]}})
    second = n8n([n8n_node("A"), n8n_node("B")], {"A": {"main": [[to("B", index=3)]]}})
    for name, document in (("first", first), ("second", second), ("first", two())):
        await bench.take(document, file_name=name)
    (config,) = await bench.source.get_node_configs()
    points = {(p.type, p.id) for group in config.node.handles.values() for p in group.point}
    assert points == {("in", "0"), ("in", "3"), ("out", "0"), ("out", "1")}


async def test_what_people_changed_in_a_type_stays() -> None:
    bench = await imported()
    (config,) = await bench.source.get_node_configs()
    await bench.source.put_node_config(
        config.replace(display_name="Ours", description="What we say")
    )
    await bench.take(n8n([n8n_node("A"), n8n_node("B")], {"A": {"main": [[], [to("B")]]}}))
    (after,) = await bench.source.get_node_configs()
    assert (after.display_name, after.description) == ("Ours", "What we say")
    assert len(after.node.handles["R"].point) == 2


async def test_type_that_a_person_made_is_left_alone() -> None:
    bench = Workbench()
    own = NodeTypeConfig(
        key="filter", workspace=WORKSPACE, display_name="Ours", node=TypeTemplate(type="filter")
    )
    await bench.source.put_node_config(own)
    flow = [{"id": "1", "type": "filter", "z": "t", "name": "F", "x": 1, "y": 1, "wires": [[]]}]
    outcomes = [await bench.take(flow, file_name="f.json") for _ in range(2)]
    assert [outcome.action for outcome in outcomes] == ["created", "unchanged"]
    assert "a node type of the name filter was there before" in outcomes[0].remarks()[-1]
    assert await bench.source.get_node_configs() == [own]


async def test_sheets_keep_their_ids_when_tabs_move() -> None:
    def flow(*tabs: str) -> list[Any]:
        made = [{"id": tab, "type": "tab", "label": tab.upper()} for tab in tabs]
        nodes = [
            {"id": f"n-{tab}", "type": "debug", "z": tab, "name": tab, "x": 1, "y": 1, "wires": []}
            for tab in tabs
        ]
        return [*made, *nodes]

    bench = Workbench()
    key = (await bench.take(flow("p", "q"), graph_key="flow")).graph_key
    await bench.take(flow("r", "q"), graph_key="flow")
    content = await bench.content(key)
    assert {node.key: node.sheet for node in content.nodes.values()} == {"q": "1", "r": "2"}
    assert content.graph.sheets_list == {"1": "Q", "2": "R"}


def test_workflows_of_one_name_do_not_share_a_graph() -> None:
    same = {"name": "My workflow"}
    keys = {
        read(two(**same), file_name="one.json").graph.key,
        read(two(**same), file_name="two.json").graph.key,
        read(two(**same, id="w1")).graph.key,
        read(two(**same, id="w2")).graph.key,
    }
    assert len(keys) == 4


def test_workflow_with_an_id_is_known_by_any_file_name() -> None:
    first = read(two(id="w1"), file_name="one.json")
    second = read(two(id="w1"), file_name="folder/two (3).json")
    assert first.graph == second.graph


def _flow(tab: str, subflow: str) -> list[Any]:
    return [
        {"id": "t", "type": "tab", "label": tab},
        {"id": "s", "type": "subflow", "name": subflow},
        {"id": "n", "type": "subflow:s", "z": "t", "name": "use", "x": 1, "y": 1, "wires": []},
    ]


async def test_fields_of_the_graph_that_both_changed_are_proposed_approved_and_undone() -> None:
    bench = await imported()
    graph = (await bench.content(KEY)).graph
    await put(bench, graph=graph.replace(name="Ours", description="What we say"))
    outcome = await bench.take(two(name="Theirs"), graph_key=KEY)
    assert (await bench.content(KEY)).graph.name == "Ours"
    assert outcome.conflicts == 1
    assert outcome.approval
    waiting = await bench.approvals.get(outcome.approval, bench.person)
    (change,) = waiting.preview["graphChanged"]
    assert [(f["path"], f["before"], f["after"]) for f in change["fields"]] == [
        (["name"], "Ours", "Theirs")
    ]
    decided = await bench.approvals.decide(waiting.id, Approve(), bench.person)
    assert decided.status == "applied"
    graph = (await bench.content(KEY)).graph
    assert (graph.name, graph.description) == ("Theirs", "What we say")
    await bench.approvals.undo(KEY, waiting.id, by=bench.person)
    assert (await bench.content(KEY)).graph.name == "Ours"


async def test_a_field_of_the_graph_that_the_file_lost_goes_when_people_say_so() -> None:
    bench = await imported(two(description="first"))
    await put(bench, graph=(await bench.content(KEY)).graph.replace(description="Ours"))
    outcome = await bench.take(two())
    assert outcome.approval
    assert (await bench.content(KEY)).graph.description == "Ours"
    await bench.approvals.decide(outcome.approval, Approve(), bench.person)
    assert (await bench.content(KEY)).graph.description is None


async def test_names_of_sheets_and_types_that_both_changed_are_proposed() -> None:
    bench = Workbench()
    await bench.take(_flow("Tab", "Sub"), graph_key="f")
    graph = (await bench.content("f")).graph
    sheets = {**graph.sheets_list, "0": "Our tab", "9": "mine"}
    await bench.source.apply(Mutation(graph_key="f", graph=graph.replace(sheets_list=sheets)))
    (config,) = await bench.source.get_node_configs()
    await bench.source.put_node_config(config.replace(display_name="Our subflow"))
    outcome = await bench.take(_flow("Their tab", "Their sub"), graph_key="f")
    content = await bench.content("f")
    assert content.graph.sheets_list["0"] == "Our tab"
    assert content.types["subflow:s"].display_name == "Our subflow"
    assert outcome.approval
    await bench.source.apply(
        Mutation(
            graph_key="f",
            graph=content.graph.replace(sheets_list={**content.graph.sheets_list, "8": "x"}),
        )
    )
    decided = await bench.approvals.decide(outcome.approval, Approve(), bench.person)
    assert decided.status == "applied"
    content = await bench.content("f")
    assert content.graph.sheets_list == {
        "0": "Their tab",
        "1": "subflow Their sub",
        "8": "x",
        "9": "mine",
    }
    assert content.types["subflow:s"].display_name == "Subflow: Their sub"


@pytest.mark.parametrize(
    ("technical", "shown"),
    [
        ("httpRequest", "HTTP Request"),
        ("googleSheets", "Google Sheets"),
        ("mySql", "MySQL"),
        ("awsS3", "AWS S3"),
        ("http in", "HTTP In"),
        ("mqtt-broker", "MQTT Broker"),
        ("ds18b20", "Ds18b20"),
        ("x", "X"),
        ("…", "…"),
        ("", "Node"),
    ],
)
def test_technical_name_becomes_words(technical: str, shown: str) -> None:
    assert humanise(technical) == shown


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("lmChatOpenAi", "OpenAI Chat Model"),
        ("toolWikipedia", "Wikipedia Tool"),
        ("outputParserStructured", "Structured Output Parser"),
        ("textSplitterRecursiveCharacterTextSplitter", "Recursive Character Text Splitter"),
        ("tool", "Tool"),
    ],
)
def test_part_of_an_ai_node_is_named_as_n8n_shows_it(name: str, shown: str) -> None:
    assert n8n_facts(f"@n8n/n8n-nodes-langchain.{name}").display_name == shown


def test_unknown_types_are_sorted_by_what_they_are() -> None:
    assert n8n_facts("fooTrigger").category == "trigger"
    assert n8n_facts("toolFoo").category == "ai"
    assert n8n_facts("foo").category == "action"
    assert red_facts("foo", config=True).category == "config"
