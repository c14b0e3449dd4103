"""n8n workflows: what becomes of nodes and connections, and of what is wrong with them."""

import ast
from pathlib import Path
from typing import Any

import pytest

from graphrag import importers
from graphrag.i18n import catalogue
from graphrag.importers import UnreadableWorkflow
from graphrag.importers.report import counted
from mock_data import load_text
from tests.graphrag.importers.helpers import (
    assert_sound,
    dropped_count,
    edges_of,
    n8n,
    n8n_node,
    nodes_by_key,
    read,
    remarks,
    to,
)

LANGCHAIN = "@n8n/n8n-nodes-langchain."


def test_node_keeps_name_place_version_parameters_and_options() -> None:
    raw = n8n_node(
        "Get Users",
        "n8n-nodes-base.httpRequest",
        position=[-20.5, 40],
        typeVersion=4.2,
        parameters={"url": "https://example.org"},
        notes="Ask twice",
        disabled=True,
        retryOnFail=True,
        webhookId="hook",
    )
    result = read(n8n([raw]))
    node = result.nodes[0]
    assert (node.key, node.type, node.type_version) == (
        "get-users",
        "n8n-nodes-base.httpRequest",
        4.2,
    )
    assert (node.pos_x, node.pos_y) == (-20.5, 40)
    assert node.data == {
        "name": "Get Users",
        "parameters": {"url": "https://example.org"},
        "notes": "Ask twice",
        "disabled": True,
        "options": {"retryOnFail": True},
    }
    assert (node.model_extra or {})["origin"]["fields"] == {"webhookId": "hook"}
    assert result.report.lines() == []


@pytest.mark.parametrize(
    ("field", "language"),
    [
        ("jsCode", "javascript"),
        ("functionCode", "javascript"),
        ("pythonCode", "python"),
    ],
)
def test_code_field_becomes_process(field: str, language: str) -> None:
    raw = n8n_node("Sum", "n8n-nodes-base.code", parameters={field: "return 1", "mode": "each"})
    node = read(n8n([raw])).nodes[0]
    assert node.process == "return 1"
    assert node.data == {"name": "Sum", "parameters": {"mode": "each"}, "language": language}


def test_python_node_runs_its_python_and_keeps_its_javascript() -> None:
    parameters = {"language": "python", "jsCode": "return 1", "pythonCode": "return 2"}
    node = read(n8n([n8n_node("Sum", "n8n-nodes-base.code", parameters=parameters)])).nodes[0]
    assert node.process == "return 2"
    assert node.data["parameters"]["jsCode"] == "return 1"


def test_sticky_note_becomes_a_note_in_its_place() -> None:
    raw = n8n_node(
        "Sticky Note",
        "n8n-nodes-base.stickyNote",
        position=[5, 6],
        parameters={"content": "\n## Read **me**\nThen go.", "width": 300, "color": 4},
    )
    note = read(n8n([raw])).nodes[0]
    assert (note.key, note.type, note.pos_x, note.pos_y) == ("read-me", "note", 5, 6)
    assert (note.size.width, note.size.height) == (300, 160)
    assert note.data["text"] == "\n## Read **me**\nThen go."
    assert note.data["name"] == "Read me"
    assert not note.handles


def test_outputs_of_branching_nodes_are_named() -> None:
    switch = n8n_node(
        "Route",
        "n8n-nodes-base.switch",
        typeVersion=3,
        parameters={
            "rules": {"values": [{"outputKey": "paid"}, {"outputKey": "open"}]},
            "options": {"fallbackOutput": "extra"},
        },
    )
    nodes = [
        n8n_node("Ok?", "n8n-nodes-base.if"),
        switch,
        n8n_node("Loop", "n8n-nodes-base.splitInBatches", typeVersion=3),
        n8n_node("Call", "n8n-nodes-base.httpRequest", onError="continueErrorOutput"),
        n8n_node("End"),
    ]
    outputs = {
        "Ok?": [[to("End")], [to("Route")]],
        "Route": [None, [to("End")], [to("Loop")]],
        "Loop": [[to("End")], [to("Call")]],
        "Call": [[], [to("End")]],
    }
    result = read(n8n(nodes, {name: {"main": slots} for name, slots in outputs.items()}))
    assert_sound(result)
    assert [label for *_, label in edges_of(result)] == [
        "true",
        "false",
        "open",
        "fallback",
        "done",
        "loop",
        "error",
    ]
    assert len(nodes_by_key(result)["route"].points("out")) == 3
    assert result.report.lines() == []


def test_model_and_tool_connect_to_their_agent_by_points_of_their_own() -> None:
    nodes = [
        n8n_node("Model", LANGCHAIN + "lmChatOpenAi"),
        n8n_node("Search", LANGCHAIN + "toolHttpRequest"),
        n8n_node("Agent", LANGCHAIN + "agent"),
    ]
    connections = {
        "Model": {
            "ai_languageModel": [
                [to("Agent", "ai_languageModel"), to("Agent", "ai_languageModel", 1)]
            ]
        },
        "Search": {"ai_tool": [[to("Agent", "ai_tool")]]},
    }
    result = read(n8n(nodes, connections))
    assert_sound(result)
    assert [edge[:4] for edge in edges_of(result)] == [
        ("model", "ai_languageModel", "agent", "ai_languageModel"),
        ("model", "ai_languageModel", "agent", "ai_languageModel-1"),
        ("search", "ai_tool", "agent", "ai_tool"),
    ]
    accepts = {point.id: point.accept for _, point in nodes_by_key(result)["agent"].points("in")}
    assert accepts["0"] == "any"
    assert accepts["ai_languageModel-1"] == "ai_languageModel"
    assert nodes_by_key(result)["model"].points("in") == []


def test_cycles_self_loops_and_coincident_nodes_are_kept() -> None:
    connections = {"A": {"main": [[to("B"), to("A")]]}, "B": {"main": [[to("A", index=1)]]}}
    result = read(n8n([n8n_node("A"), n8n_node("B")], connections))
    assert_sound(result)
    assert [edge[:4] for edge in edges_of(result)] == [
        ("a", "0", "b", "0"),
        ("a", "0", "a", "0"),
        ("b", "0", "a", "1"),
    ]
    assert result.report.lines() == []


def test_dangling_connections_are_dropped_and_said() -> None:
    connections = {"A": {"main": [[to("Gone"), to("A")]]}, "Lost": {"main": [[to("A")], None]}}
    result = read(n8n([n8n_node("A")], connections))
    assert len(result.edges) == 1
    assert dropped_count(result.report, "edge") == 2
    assert "its target is not in the file (A → Gone)" in remarks(result)
    assert "its source is not in the file (Lost → A)" in remarks(result)


def test_connections_by_id_are_resolved_and_said() -> None:
    result = read(n8n([n8n_node("A"), n8n_node("B")], {"id-of-A": {"main": [[to("id-of-B")]]}}))
    assert [edge[:4] for edge in edges_of(result)] == [("a", "0", "b", "0")]
    assert "repaired 2 connection ends: it referred to a node by its id (A, B)" in remarks(result)


@pytest.mark.parametrize(
    "connections",
    [
        [[to("B")]],
        {"A": [[to("B")]]},
        {"A": {"main": {"x": to("B")}}},
        {"A": {"main": ["B"]}},
        {"A": {"main": [["B"]]}},
        {"A": {"main": [[{"type": "main", "index": 0}]]}},
        "A to B",
    ],
)
def test_malformed_connection_is_dropped_and_counted(connections: Any) -> None:
    result = read(n8n([n8n_node("A"), n8n_node("B")], connections))
    assert result.edges == ()
    assert dropped_count(result.report, "edge") == 1


def test_list_of_targets_in_place_of_outputs_is_the_first_output() -> None:
    nodes = [n8n_node("A"), n8n_node("B"), n8n_node("C")]
    result = read(n8n(nodes, {"A": {"main": [to("B"), to("C")]}}))
    assert [edge[:3] for edge in edges_of(result)] == [("a", "0", "b"), ("a", "0", "c")]
    assert "read as the first output" in remarks(result)


@pytest.mark.parametrize("index", [-1, "0", 1.5, None, True, 10**12])
def test_unreadable_input_index_is_the_first_input(index: Any) -> None:
    result = read(n8n([n8n_node("A"), n8n_node("B")], {"A": {"main": [[to("B", index=index)]]}}))
    assert result.edges[0].target_handle == "0"
    assert "its input could not be read" in remarks(result)


def test_same_connection_twice_becomes_one_edge() -> None:
    result = read(n8n([n8n_node("A"), n8n_node("B")], {"A": {"main": [[to("B"), to("B")]]}}))
    assert len(result.edges) == 1
    assert "left out 1 edge: it is a duplicate (A → B)" in remarks(result)


def test_connections_of_an_unknown_kind_get_a_point_of_their_own() -> None:
    result = read(n8n([n8n_node("A"), n8n_node("B")], {"A": {"onError": [[to("B")]]}}))
    assert_sound(result)
    assert edges_of(result) == [("a", "onError", "b", "0", "error")]


def test_duplicate_names_are_kept_apart_and_said() -> None:
    nodes = [n8n_node("A", id="1"), n8n_node("A", id="2"), n8n_node("B")]
    result = read(n8n(nodes, {"B": {"main": [[to("A")]]}}))
    assert [node.key for node in result.nodes] == ["a", "a-2", "b"]
    assert result.edges[0].target == "a"
    assert "another has the same name" in remarks(result)


def test_node_without_name_or_type_or_place_is_repaired_and_said() -> None:
    nodes = [{"id": "1", "type": "n8n-nodes-base.set"}, {"name": "B", "position": ["x", None]}]
    result = read(n8n(nodes))
    assert [(node.key, node.type) for node in result.nodes] == [
        ("set", "n8n-nodes-base.set"),
        ("b", "n8n.unknown"),
    ]
    assert {item.kind for item in result.report.notices} == {"node", "position"}


def test_entries_that_are_no_nodes_are_dropped_and_counted() -> None:
    result = read(n8n([n8n_node("A"), None, "B", 3, {}, {"position": [0, 0]}]))
    assert len(result.nodes) == 1
    assert dropped_count(result.report, "node") == 5


@pytest.mark.parametrize("nodes", [[], [None]])
def test_workflow_without_a_readable_node_is_refused(nodes: list[Any]) -> None:
    with pytest.raises(UnreadableWorkflow, match="no node that can be read"):
        read(n8n(nodes))


def test_names_without_latin_letters_get_stable_different_keys() -> None:
    first = read(n8n([n8n_node("注文を取得"), n8n_node("🚀"), n8n_node("Café à côté")]))
    keys = [node.key for node in first.nodes]
    assert keys[0].startswith("node-")
    assert keys[1].startswith("node-")
    assert keys[2] == "cafe-a-cote"
    assert len(set(keys)) == 3
    assert [node.key for node in read(n8n([n8n_node("🚀")])).nodes] == [keys[1]]


def test_a_key_is_made_of_letters_as_they_are_written_without_accents() -> None:
    result = read((Path(__file__).parents[2] / "data/cases/21-sharp-s/wf.json").read_bytes())
    assert [node.key for node in result.nodes] == ["strasse-prufen", "other"]


def test_workflow_fields_are_kept_and_bulky_test_data_is_dropped() -> None:
    document = n8n(
        [n8n_node("A")],
        settings={"executionOrder": "v1"},
        tags=["x"],
        pinData={"A": ["y" * 30_000]},
        shared=[{"email": "someone@example.org"}],
        createdAt="2025-01-01T00:00:00.000Z",
        updatedAt="not a date",
        meta={"description": "What it does"},
    )
    result = read(document)
    kept = (result.graph.metadata or {})["n8n"]
    assert kept == {
        "settings": {"executionOrder": "v1"},
        "tags": ["x"],
        "meta": {"description": "What it does"},
    }
    assert result.graph.created_time == 1_735_689_600_000
    assert result.graph.last_updated_time == 0
    assert result.graph.description == "What it does"
    assert dropped_count(result.report, "pinData") == 1
    assert dropped_count(result.report, "sharing list") == 1
    assert b"someone@example.org" not in result.graph.to_json()


def test_type_of_a_built_in_name_does_not_replace_the_built_in() -> None:
    result = read(n8n([n8n_node("A", "html"), n8n_node("B", "note")]))
    assert [node.type for node in result.nodes] == ["n8n.html", "n8n.note"]


def test_type_has_every_handle_that_its_nodes_use() -> None:
    nodes = [n8n_node("A"), n8n_node("B")]
    result = read(n8n(nodes, {"A": {"main": [[], [to("B", index=2)]]}}))
    (config,) = result.configs
    assert config.type == "n8n-nodes-base.set"
    assert config.display_name == "Edit Fields (Set)"
    assert {(p.type, p.id) for g in config.node.handles.values() for p in g.point} == {
        ("in", "0"),
        ("in", "2"),
        ("out", "0"),
        ("out", "1"),
    }


def test_sample_workflow_imports_without_a_remark() -> None:
    result = read(load_text("workflows/order_refund.json").encode())
    assert_sound(result)
    assert result.report.lines() == []
    assert (len(result.nodes), len(result.edges)) == (18, 16)


@pytest.mark.parametrize("first", [True, False])
def test_connections_go_to_a_step_rather_than_to_a_note_of_its_name(first: bool) -> None:
    note = n8n_node(
        "A", "n8n-nodes-base.stickyNote", id="note", parameters={"content": "# About A"}
    )
    steps = [n8n_node("A", id="step"), n8n_node("B")]
    result = read(n8n([note, *steps] if first else [*steps, note], {"B": {"main": [[to("A")]]}}))
    (edge,) = result.edges
    assert {node.key: node.type for node in result.nodes}[edge.target] == "n8n-nodes-base.set"


def test_every_kind_and_reason_of_a_reader_is_known_in_french() -> None:
    said = 0
    for file in Path(importers.__file__ or "").parent.rglob("*.py"):
        for call in ast.walk(ast.parse(file.read_text())):
            if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
                continue
            if call.func.attr not in ("drop", "repair"):
                continue
            kind, reason = (
                arg.value if isinstance(arg, ast.Constant) else None for arg in call.args[:2]
            )
            if isinstance(kind, str):
                assert counted(kind, 2, "fr") != f"2 {kind}", kind
            if isinstance(reason, str):
                assert reason in catalogue("fr"), reason
                said += 1
    assert said > 30
