"""Node-RED flows: tabs, subflows, groups, links and shared settings, and what is
wrong with them.
"""

from typing import Any

import pytest

from mock_data import load_text
from tests.graphrag.importers.helpers import (
    assert_sound,
    dropped_count,
    edges_of,
    nodes_by_key,
    read,
    remarks,
)


def _node(node_id: str, kind: str = "change", **fields: Any) -> dict[str, Any]:
    base = {
        "id": node_id,
        "type": kind,
        "z": "t1",
        "name": node_id,
        "x": 100,
        "y": 50,
        "wires": [[]],
    }
    return {**base, **fields}


def _tab(tab_id: str, label: str) -> dict[str, Any]:
    return {"id": tab_id, "type": "tab", "label": label}


def test_tabs_become_sheets_in_order_and_nodes_stand_where_they_were() -> None:
    flow = [_tab("t1", "First"), _tab("t2", "Second"), _node("a"), _node("b", z="t2", x=-30.5, y=0)]
    result = read(flow)
    assert result.graph.name == "First"
    assert result.graph.sheets_list == {"0": "First", "1": "Second"}
    a, b = result.nodes
    assert (a.sheet, b.sheet) == ("0", "1")
    assert (a.pos_x + a.size.width / 2, a.pos_y + a.size.height / 2) == (100, 50)
    assert (b.pos_x + b.size.width / 2, b.pos_y + b.size.height / 2) == (-30.5, 0)


def test_wires_become_edges_port_by_port() -> None:
    rules = [{"t": "gt", "v": "3", "vt": "num"}, {"t": "else"}]
    flow = [
        _tab("t1", "x"),
        _node("s", "switch", rules=rules, wires=[["a"], ["a", "b"]]),
        _node("a"),
        _node("b"),
    ]
    result = read(flow)
    assert_sound(result)
    assert edges_of(result) == [
        ("s", "0", "a", "0", "gt 3"),
        ("s", "1", "a", "0", "otherwise"),
        ("s", "1", "b", "0", "otherwise"),
    ]


def test_function_code_becomes_process_and_its_set_up_stays() -> None:
    flow = [
        _tab("t1", "x"),
        _node("f", "function", func="return msg;", initialize="let a;", finalize=""),
    ]
    node = read(flow).nodes[0]
    assert node.process == "return msg;"
    assert node.data["language"] == "javascript"
    assert node.data["parameters"] == {"initialize": "let a;"}
    assert (node.model_extra or {})["origin"]["empty"] == ["finalize"]


def test_template_becomes_process() -> None:
    flow = [_tab("t1", "x"), _node("p", "template", template="Hi {{name}}", format="handlebars")]
    node = read(flow).nodes[0]
    assert (node.process, node.data["language"]) == ("Hi {{name}}", "handlebars")


def test_comment_becomes_a_note() -> None:
    note = read([_tab("t1", "x"), _node("c", "comment", name="Mind this", info="Because.")]).nodes[
        0
    ]
    assert (note.type, note.data["name"], note.data["text"]) == (
        "note",
        "Mind this",
        "Mind this\n\nBecause.",
    )


@pytest.mark.parametrize(
    ("kind", "fields", "name"),
    [
        ("http in", {"method": "get", "url": "/a"}, "GET /a"),
        ("http in", {}, "http in"),
        ("change", {"rules": [{"t": "set", "p": "payload"}]}, "set payload"),
        ("change", {"rules": [3]}, "change"),
        ("mqtt in", {"topic": "t/1"}, "mqtt in t/1"),
        ("debug", {}, "debug"),
    ],
)
def test_unnamed_node_is_called_by_what_tells_it_apart(kind: str, fields: Any, name: str) -> None:
    assert read([_node("1", kind, **{"name": "", **fields})]).nodes[0].data["name"] == name


def test_group_keeps_its_frame_and_its_members() -> None:
    group = {
        "id": "g",
        "type": "group",
        "z": "t1",
        "name": "Together",
        "nodes": ["a"],
        "x": 1,
        "y": 2,
        "w": 90,
        "h": 80,
    }
    result = read([_tab("t1", "x"), group, _node("a"), _node("b", g="g"), _node("c", g="gone")])
    nodes = nodes_by_key(result)
    frame = nodes["together"]
    assert (frame.pos_x, frame.pos_y, frame.size.width, frame.size.height) == (1, 2, 90, 80)
    assert sorted(frame.data["members"]) == ["a", "b"]
    assert nodes["a"].data["group"] == nodes["b"].data["group"] == "together"
    assert "left out 1 group membership: the group is not in the file (c)" in remarks(result)


def test_links_become_one_edge_across_sheets() -> None:
    flow = [
        _tab("t1", "x"),
        _tab("t2", "y"),
        _node("out", "link out", links=["in", "gone"], wires=[]),
        _node("in", "link in", z="t2", links=["out"], wires=[["a"]]),
        _node("a", z="t2"),
    ]
    result = read(flow)
    assert_sound(result)
    assert ("out", "link", "in", "link", "link") in edges_of(result)
    assert len(result.edges) == 2
    assert "left out 1 link: its other end is not in the file" in remarks(result)


def test_subflow_becomes_a_sheet_with_its_ends() -> None:
    subflow = {
        "id": "sub",
        "type": "subflow",
        "name": "Smooth",
        "info": "Averages.",
        "in": [{"x": 50, "y": 30, "wires": [{"id": "m"}]}],
        "out": [{"x": 90, "y": 30, "wires": [{"id": "m", "port": 1}, {"id": "sub", "port": 0}]}],
        "env": [{"name": "KEY", "type": "cred", "value": "hush"}],
    }
    flow = [
        _tab("t1", "x"),
        subflow,
        _node("m", z="sub", wires=[[], []]),
        _node("use", "subflow:sub", name=""),
    ]
    result = read(flow)
    assert_sound(result)
    assert result.graph.sheets_list == {"0": "x", "1": "subflow Smooth"}
    assert [edge[:4] for edge in edges_of(result)] == [
        ("subflow-in-1", "0", "m", "0"),
        ("m", "1", "subflow-out-1", "0"),
        ("subflow-in-1", "0", "subflow-out-1", "0"),
    ]
    use = nodes_by_key(result)["smooth"]
    assert (use.type, use.data["name"]) == ("subflow:sub", "Smooth")
    types = {config.type: config.display_name for config in result.configs}
    assert types["subflow:sub"] == "Subflow: Smooth"
    assert b"hush" not in result.graph.to_json()


def test_config_nodes_get_a_sheet_of_their_own_without_secrets() -> None:
    broker = {
        "id": "b",
        "type": "mqtt-broker",
        "name": "Broker",
        "broker": "localhost",
        "password": "hunter2",
        "credentials": {"user": "me", "password": "hunter3"},
    }
    result = read([_tab("t1", "x"), _node("a"), broker])
    node = nodes_by_key(result)["broker"]
    assert result.graph.sheets_list[node.sheet] == "config nodes"
    assert node.data["parameters"]["broker"] == "localhost"
    assert b"hunter" not in node.to_json()
    assert dropped_count(result.report, "credential") == 1
    assert dropped_count(result.report, "secret") == 1


def test_nodes_of_an_unknown_tab_get_a_sheet() -> None:
    result = read([_node("a", z="elsewhere"), _node("b", z=None)])
    assert result.graph.sheets_list == {"0": "flow", "1": "flow-2"}
    assert "its tab is not in the file" in remarks(result)


def test_dangling_and_malformed_wires_are_dropped_and_counted() -> None:
    flow = [
        _node("a", wires=[["gone"], "b", None]),
        _node("b", wires="a"),
        _node("c", wires=[["b", "b", None]]),
    ]
    result = read(flow)
    assert_sound(result)
    assert [edge[:4] for edge in edges_of(result)] == [("c", "0", "b", "0")]
    assert dropped_count(result.report, "edge") == 5


def test_duplicate_and_missing_ids_lose_no_node() -> None:
    nameless = {"type": "debug", "z": "t1", "x": 1, "y": 1, "wires": []}
    result = read(
        [_node("a", name="One"), _node("a", name="Two"), nameless, _node("w", wires=[["a"]])]
    )
    assert [node.key for node in result.nodes] == ["one", "two", "debug", "w"]
    assert result.edges[0].target == "one"
    assert "another has the same id; wires go to the first that is no note" in remarks(result)


def test_html_node_does_not_replace_the_built_in_type() -> None:
    assert read([_node("h", "html")]).nodes[0].type == "node-red.html"


def test_list_under_flows_is_read_and_its_credentials_left() -> None:
    result = read({"rev": "1", "flows": [_node("a")], "credentials": {"$": "cipher"}})
    assert len(result.nodes) == 1
    assert (result.graph.metadata or {})["nodeRed"]["file"] == {"rev": "1"}
    assert b"cipher" not in result.graph.to_json()


def test_entries_that_are_no_nodes_are_dropped_and_counted() -> None:
    result = read([_node("a"), None, 4, {"x": 1}])
    assert dropped_count(result.report, "node") == 3


def test_sample_flow_imports_without_a_remark() -> None:
    result = read(load_text("workflows/greenhouse_climate.json").encode())
    assert_sound(result)
    assert result.report.lines() == []
    assert (len(result.nodes), len(result.edges)) == (22, 17)
    assert list(result.graph.sheets_list.values()) == [
        "Greenhouse climate",
        "Alarms",
        "subflow Smooth readings",
        "config nodes",
    ]
