"""The commands `context`, `prompt` and `tools`."""

from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import invoke, printed, write

QUESTION = "What happens when fetching the players fails?"


# context


def test_a_context_names_nodes_edges_and_types(demo_db: str) -> None:
    result = invoke("context", "testgraph001", QUESTION, exits=0)
    for part in ("FLOW", "ALL NODES", "Most relevant", "fetch-api --error--> error-handler"):
        assert part in result.stdout
    assert "tokens" in result.stderr


def test_the_context_of_a_script_has_scores_reasons_and_tokens(demo_db: str) -> None:
    found = printed(invoke("context", "testgraph001", QUESTION, "--json"))
    assert list(found) == [
        *(
            "graph",
            "question",
            "mode",
            "nodes",
            "edges",
            "types",
            "outline",
            "whole",
            "dropped_nodes",
        ),
        *("tokens", "tokenizer", "notes", "ms", "text"),
    ]
    assert (found["graph"], found["question"], found["mode"]) == (
        "testgraph001",
        QUESTION,
        "hybrid",
    )
    scores = [node["score"] for node in found["nodes"]]
    assert scores == sorted(scores, reverse=True)
    assert scores[0] == 1.0
    assert all(node["reasons"] for node in found["nodes"])
    assert all(
        set(node) == {"key", "type", "sheet", "score", "weak", "reasons", "shown"}
        for node in found["nodes"]
    )
    assert len(found["edges"]) == 6
    assert found["tokens"] > 100
    assert set(found["ms"]) == {"embed", "search", "read"}


def test_headings_follow_the_language(demo_db: str) -> None:
    french = invoke("context", "testgraph001", "Où vont les erreurs ?", "--lang", "fr").stdout
    assert "TOUS LES NODES" in french
    assert "FLUX" in french


@pytest.mark.parametrize("mode", ["hybrid", "vector", "text"])
def test_each_mode_answers(demo_db: str, mode: str) -> None:
    found = printed(invoke("context", "testgraph001", "log fetch error", "--mode", mode, "--json"))
    assert found["mode"] == mode
    assert found["nodes"][0]["key"] == "error-handler"


def test_a_budget_bounds_the_context(demo_db: str) -> None:
    whole = printed(invoke("context", "order-refund", "refund", "--json"))
    small = printed(invoke("context", "order-refund", "refund", "--json", "--budget", 500))
    assert small["tokens"] <= 500 < whole["tokens"]
    assert small["dropped_nodes"] > 0
    assert (
        sum(node["shown"] for node in small["nodes"])
        == len(small["nodes"]) - small["dropped_nodes"]
    )


@pytest.mark.parametrize(
    "question", ["How do I bake bread with an api?", "which note is for a xyzzy plugh"]
)
def test_scores_say_when_nothing_is_near_the_question(demo_db: str, question: str) -> None:
    near = printed(invoke("context", "testgraph001", QUESTION, "--json"))
    far = printed(invoke("context", "testgraph001", question, "--json"))
    assert far["nodes"]
    assert all(node["weak"] for node in far["nodes"])
    assert not any(node["weak"] for node in near["nodes"])
    assert "weak " in far["text"].partition("\n\nFLOW")[0]
    assert "100 " not in far["text"].partition("\n\nFLOW")[0]
    assert "100 " in near["text"]
    found = printed(
        invoke(
            "tools",
            "testgraph001",
            "search_nodes",
            "--args",
            f'{{"query": "{question}"}}',
            "--json",
        )
    )
    assert {row["score"] for row in found[0]["data"]} == {"weak"}


def test_words_that_nothing_holds_are_said(demo_db: str) -> None:
    result = invoke("context", "testgraph001", "xyzzy plugh", "--mode", "text", exits=0)
    assert "nothing matched" in result.stderr


def test_an_empty_graph_is_nothing_found(folder: Path) -> None:
    graph = {"_key": "hollow", "name": "Hollow", "workspace": "default"}
    empty = {
        "format": "nodius",
        "formatVersion": 1,
        "graph": graph,
        "nodes": [],
        "edges": [],
        "configs": [],
    }
    invoke("import", write(folder / "hollow.json", empty), exits=0)
    result = invoke("context", "hollow", "anything", "--json", exits=3)
    assert printed(result)["nodes"] == []


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (["--mode", "magic"], "'hybrid', 'vector', 'text'"),
        (["--budget", "1"], "greater than or equal to 100"),
        (["--lang", "de"], "'en' or 'fr'"),
        (["--workspace", ""], "at least 1 character"),
        (["--budget", "many"], "--budget"),
    ],
)
def test_a_wrong_flag_says_what_is_allowed(demo_db: str, flags: list[str], reason: str) -> None:
    assert reason in invoke("context", "testgraph001", "q", *flags, exits=2).stderr


@pytest.mark.parametrize("command", ["context", "prompt"])
def test_an_empty_question_is_wrong_use(demo_db: str, command: str) -> None:
    assert "the question is empty" in invoke(command, "testgraph001", " \n ", exits=2).stderr


# prompt


def test_a_prompt_is_shown_message_by_message(demo_db: str) -> None:
    result = invoke("prompt", "testgraph001", QUESTION, exits=0)
    assert result.stdout.count("── system") == 2
    assert "[GRAPH CONTEXT]" in result.stdout
    assert result.stdout.rstrip().endswith(QUESTION)
    assert "of tool schemas, counted by" in result.stderr


def test_the_prompt_of_a_script_counts_its_tokens(demo_db: str) -> None:
    found = printed(invoke("prompt", "testgraph001", QUESTION, "--json"))
    assert [message["role"] for message in found["messages"]] == ["system", "system", "user"]
    assert found["tokens"] == sum(message["tokens"] for message in found["messages"])
    assert found["tool_schema_tokens"] > 500
    assert found["tokenizer"]


def test_a_prompt_depends_on_who_asks(demo_db: str) -> None:
    viewer = invoke("prompt", "testgraph001", QUESTION, "--role", "viewer").stdout
    editor = invoke("prompt", "testgraph001", QUESTION, "--role", "editor").stdout
    assert viewer != editor
    result = invoke("prompt", "testgraph001", QUESTION, "--role", "king", exits=2)
    assert "'viewer', 'editor', 'reviewer', 'admin'" in result.stderr


# tools

READ_TOOLS = {
    *("read_graph_overview", "search_nodes", "explore_neighborhood", "read_node_detail"),
    *("read_node_config", "list_available_node_types", "list_node_edges", "read_subgraph"),
    *("check_graph", "read_history", "search_workspace"),
}


def test_tools_are_listed_with_their_schemas(demo_db: str) -> None:
    functions = printed(invoke("tools", "testgraph001", "--json"))
    assert {function["name"] for function in functions} >= READ_TOOLS
    assert all(function["parameters"]["type"] == "object" for function in functions)
    lines = invoke("tools", "testgraph001").stdout.splitlines()
    assert lines[0].split()[:2] == ["tool", "arguments"]
    assert len(lines) == len(functions) + 1
    marks = {row.split()[0]: "proposes" in row.split() for row in lines[1:]}
    assert marks == {function["name"]: function["writes"] for function in functions}
    assert {name for name, writes in marks.items() if not writes} == READ_TOOLS
    assert "propose_update_node" in marks
    viewed = printed(invoke("tools", "testgraph001", "--json", "--role", "viewer"))
    assert not any(function["writes"] for function in viewed)


def test_every_tool_that_reads_runs_on_every_sample(demo_db: str) -> None:
    for key in ("testgraph001", "order-refund", "greenhouse-climate"):
        results = printed(invoke("tools", key, "--run", "--json"))
        assert {result["tool"] for result in results} == READ_TOOLS
        assert [result["tool"] for result in results if result["error"]] == []
        assert all(result["text"] and result["tokens"] > 0 for result in results)


def test_a_tool_runs_with_arguments_as_a_model_writes_them(demo_db: str) -> None:
    arguments = '{"key": "fetch-api", "direction": "out"}'
    result = invoke("tools", "testgraph001", "list_node_edges", "--args", arguments, exits=0)
    assert "error-handler:0" in result.stdout
    assert "root:0" not in result.stdout


@pytest.mark.parametrize(
    "arguments", ['{"key": 3}', '{"nope": "x"}', '{"key": "fetch"}', '{"key": ', "[]"]
)
def test_wrong_arguments_get_the_answer_a_model_would_get(demo_db: str, arguments: str) -> None:
    result = invoke("tools", "testgraph001", "read_node_detail", "--args", arguments, exits=1)
    assert "ERROR" in result.stdout


CHANGE = '{"nodeKey": "error-handler", "changes": {"data.level": "warning"}, "reason": "asked for"}'


def test_a_change_is_tried_and_shown_as_for_a_decision_and_nothing_is_stored(demo_db: str) -> None:
    def stored() -> tuple[Any, Any, Any]:
        graphs = invoke("graphs", "list", "--json")
        audit = invoke("audit", "--json")
        return printed(invoke("review", "list", "--json")), printed(graphs), printed(audit)

    before = stored()
    result = invoke("tools", "testgraph001", "propose_update_node", "--args", CHANGE, exits=0)
    assert "PROPOSED: change data.level of node error-handler" in result.stdout
    assert "~ node error-handler" in result.stdout
    assert '+ data.level: "warning"' in result.stdout
    assert "Nothing was stored" in result.stderr
    (found,) = printed(
        invoke("tools", "testgraph001", "propose_update_node", "--args", CHANGE, "--json")
    )
    assert (found["error"], found["stored"]) == (False, False)
    assert found["data"]["type"] == "update_node"
    assert [change["key"] for change in found["preview"]["nodesChanged"]] == ["error-handler"]
    assert stored() == before


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("propose_update_node", '{"nodeKey": "nobody", "changes": {"data.x": 1}, "reason": "r"}'),
        ("propose_update_node", '{"nodeKey": "error-handler"}'),
        ("propose_delete_edge", '{"edgeKey": "none", "reason": "r"}'),
        ("propose_delete_node", ""),
    ],
)
def test_a_change_that_cannot_be_gets_the_answer_a_model_would_get(
    demo_db: str, tool: str, arguments: str
) -> None:
    result = invoke("tools", "testgraph001", tool, "--args", arguments, exits=1)
    assert "ERROR" in result.stdout
    assert "Nothing was stored" not in result.stderr


def test_a_change_needs_arguments_and_a_role_that_may_propose(demo_db: str) -> None:
    assert "--args" in invoke("tools", "testgraph001", "propose_delete_node", "--run").stderr
    refused = invoke(
        "tools",
        "testgraph001",
        "propose_update_node",
        "--args",
        CHANGE,
        "--role",
        "viewer",
        exits=2,
    )
    assert "there is no tool 'propose_update_node'" in refused.stderr


def test_an_unknown_tool_is_answered_with_those_there_are(demo_db: str) -> None:
    assert "search_nodes" in invoke("tools", "testgraph001", "drop_graph", exits=2).stderr
    invoke("tools", "testgraph001", "--args", "{}", exits=2)
