"""A document is read as what it surely is, or refused by what it is; never as another tool's."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from graphrag.importers import UnreadableWorkflow
from graphrag.importers.align import GraphContent
from graphrag.importers.export import export_as
from tests.graphrag.importers.helpers import edges_of, n8n, n8n_node, read, remarks, to, two

CASES = Path(__file__).parents[2] / "data" / "cases"


def step(node_id: str, *, tab: str = "t1", to_: str = "", **fields: Any) -> dict[str, Any]:
    wires = [[to_]] if to_ else [[]]
    return {
        "id": node_id,
        "type": "debug",
        "z": tab,
        "name": node_id,
        "x": 1,
        "y": 1,
        "wires": wires,
        **fields,
    }


TAB = {"id": "t1", "type": "tab", "label": "Weather", "disabled": False, "info": ""}
NODES = [step("a", to_="b"), step("b")]
FLOW = {"id": "t1", "label": "Weather", "nodes": NODES}
BROKER = {"id": "c", "type": "mqtt-broker", "name": "Broker", "broker": "localhost"}
TEMPLATE = {
    "id": 7,
    "name": "Greets",
    "nodes": [{"id": 1, "name": "n8n-nodes-base.set", "displayName": "Set"}],
}
BARE = {"nodes": two()["nodes"], "connections": two()["connections"]}


@pytest.mark.parametrize(
    "document",
    [
        two(),
        [two()],
        {"data": two()},
        {"data": [two()], "nextCursor": None},
        {"workflow": two()},
        {"workflow": {**TEMPLATE, "workflow": BARE}},
        {"id": 7, "name": "Greets", "workflow": BARE},
        {"versionId": "v", "workflowId": "w", **BARE, "authors": "Ada"},
        {**BARE, "pinData": {}, "meta": {"instanceId": "i"}},
        [{"workflow": two()}],
    ],
)
def test_a_workflow_of_n8n_is_read_as_its_api_clipboard_library_and_backups_give_it(
    document: Any,
) -> None:
    result = read(document)
    assert result.report.format == "n8n"
    assert [edge[:4] for edge in edges_of(result)] == [("a", "0", "b", "0")]


def test_a_workflow_has_the_name_that_it_is_listed_under() -> None:
    assert read({"workflow": {**TEMPLATE, "workflow": BARE}}).graph.name == "Greets"


def test_n8n_nodes_alone_are_read_as_such_and_that_is_said() -> None:
    result = read((CASES / "12-n8n-array-of-nodes" / "nodes.json").read_bytes())
    assert (result.report.format, [node.key for node in result.nodes]) == (
        "n8n",
        ["test-node", "set"],
    )
    assert "the file lists nodes alone" in remarks(result)
    document = export_as("n8n", GraphContent.of(result), result.kept).document
    assert document["connections"] == {}


@pytest.mark.parametrize(
    ("document", "nodes", "sheets"),
    [
        ([TAB, *NODES], 2, ["Weather"]),
        ({"flows": [TAB, *NODES], "rev": "1"}, 2, ["Weather"]),
        (FLOW, 2, ["Weather"]),
        ({**FLOW, "configs": [BROKER]}, 3, ["Weather", "config nodes"]),
        (
            [FLOW, {"id": "t2", "label": "Second", "nodes": [step("d", tab="t2")]}],
            3,
            ["Weather", "Second"],
        ),
        ({"id": "global", "configs": [BROKER], "subflows": []}, 1, ["config nodes"]),
        ([BROKER], 1, ["config nodes"]),
        (NODES, 2, ["flow"]),
    ],
)
def test_a_flow_of_node_red_is_read_as_its_file_clipboard_and_api_give_it(
    document: Any, nodes: int, sheets: list[str]
) -> None:
    result = read(document)
    assert result.report.format == "node-red"
    assert (len(result.nodes), list(result.graph.sheets_list.values())) == (nodes, sheets)


def test_subflows_of_the_global_flow_keep_their_nodes() -> None:
    inside = [step("s1", tab="sub")]
    subflow = {
        "id": "sub",
        "type": "subflow",
        "name": "Smooth",
        "in": [],
        "out": [],
        "nodes": inside,
    }
    result = read({"id": "global", "configs": [], "subflows": [subflow]})
    assert [node.key for node in result.nodes] == ["s1"]
    assert list(result.graph.sheets_list.values()) == ["subflow Smooth"]


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ([{"id": "1", "type": "user"}, {"id": "2", "type": "user"}], "its JSON list is not"),
        ([{"id": 1, "type": "User", "email": "a@b.example", "role": "admin"}], "a list of users"),
        ([{"id": "1", "alias": "Lights", "trigger": [], "action": []}], "Home Assistant"),
        (
            [{"id": "1", "alias": "Lights", "triggers": [], "conditions": [], "actions": []}],
            "Home Assistant",
        ),
        ([{"id": "1", "name": "Ours", "type": "slackApi", "data": "U2Fsd"}], "credentials of n8n"),
        (
            {"data": [{"id": "1", "mode": "trigger", "workflowId": "w"}], "nextCursor": None},
            "executions of n8n",
        ),
        ({"id": "1", "workflowData": two(), "data": {}}, "an execution of n8n"),
        (
            [{"id": "node-red/inject", "types": ["inject"], "enabled": True, "module": "node-red"}],
            "installed nodes",
        ),
        ([{"id": "1", "type": "rect", "x": 1, "y": 2}], "its JSON list is not"),
        ([{"id": "1", "type": "point", "x": 1, "y": 2, "z": 3}], "its JSON list is not"),
        ({"nodes": [{"id": "1", "label": "A"}], "connections": []}, "its JSON object"),
        ({"nodes": [{"id": 1, "name": "A"}], "connections": {}}, "its JSON object"),
        ({"nodes": [{"id": "1", "type": "agent", "data": {}}]}, "its JSON object"),
        ({"nodes": [], "links": [], "last_node_id": 0}, "ComfyUI"),
        ({"3": {"class_type": "KSampler", "inputs": {}}}, "ComfyUI"),
        ({"data": {"nodes": [], "edges": []}, "name": "x"}, "Langflow"),
        (
            {"nodes": [{"id": "1", "type": "x", "position": {"x": 1, "y": 2}}], "edges": []},
            "nodes and edges",
        ),
        ({"StartAt": "A", "States": {}}, "Step Functions"),
        ({"flows": [{"id": "1", "name": "Welcome"}]}, "its JSON object"),
    ],
)
def test_a_document_of_another_tool_is_refused_by_what_it_is(document: Any, said: str) -> None:
    with pytest.raises(UnreadableWorkflow, match=said):
        read(document)


@pytest.mark.parametrize(
    "name", [b'"Caf\\ud83d"', b'"Caf\\udc00 and \\\\ud83d"', b'"Caf\xed\xa0\xbd"', b'"Caf\xc3"']
)
def test_half_a_character_is_read_as_the_replacement_character_and_said(name: bytes) -> None:
    result = read(orjson.dumps(n8n([n8n_node("NAME")])).replace(b'"NAME"', name))
    assert result.nodes[0].data["name"].startswith("Caf\ufffd")
    assert "1 character" in remarks(result)


def test_whole_characters_beside_a_half_one_stay() -> None:
    raw = orjson.dumps(n8n([n8n_node("A", notes="NOTES")])).replace(
        b"NOTES", rb"\ud83d\ude00 \\ud83d \ud83d"
    )
    assert read(raw).nodes[0].data["notes"] == "\U0001f600 \\ud83d \ufffd"


def test_a_list_of_several_workflows_is_refused_with_what_to_do() -> None:
    with pytest.raises(UnreadableWorkflow, match="holds 2 n8n workflows; `nodius import`"):
        read([two(), n8n([n8n_node("C")], {"C": {"main": [[to("C")]]}})])
