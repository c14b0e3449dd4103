"""The commands `graphs` and `export`."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Env, invoke, printed, write


def test_graphs_are_listed_for_people_and_for_scripts(demo_db: str) -> None:
    shown = invoke("graphs")
    assert shown.stdout.splitlines()[0].split() == [
        *("key", "name", "language", "sheets", "nodes", "edges", "embedded", "revision")
    ]
    rows = printed(invoke("graphs", "--json"))
    assert [row["key"] for row in rows] == ["greenhouse-climate", "order-refund", "testgraph001"]
    assert rows[2] == {
        "key": "testgraph001",
        "name": "NBA Stats Pipeline",
        "language": "en",
        "sheets": 2,
        "nodes": 9,
        "edges": 6,
        "embedded": 9,
        "revision": 1,
    }


def test_a_graph_is_introduced_and_the_trace_of_an_answer_is_shown(demo_db: str) -> None:
    shown = invoke("graphs", "show", "order-refund", "--lang", "fr")
    made = printed(invoke("graphs", "show", "order-refund", "--lang", "fr", "--json"))
    assert (made["key"], len(made["questions"])) == ("order-refund", 3)
    assert [line.strip() for line in shown.stdout.splitlines()] == [
        made["summary"],
        *made["questions"],
    ]
    invoke("graphs", "show", "nothing", exits=3)
    thread = printed(invoke("ask", "order-refund", made["questions"][0], "--json"))["threadId"]
    [turn] = printed(invoke("trace", thread, "--json"))["turns"]
    found = next(span["attributes"] for span in turn["spans"] if span["operation"] == "retrieval")
    lines = invoke("trace", thread).stdout.splitlines()
    assert lines[0].startswith("turn 1")
    assert any(found["nodes"][0]["key"] in line for line in lines)
    assert any(line.split()[:1] == ["retrieval"] for line in lines)
    invoke("trace", "never-was", exits=3)
    [day] = printed(invoke("usage", "--by", "day", "--days", "7", "--json"))["groups"]
    assert day["questions"] >= 1
    assert day["name"] in invoke("usage", "--by", "day").stdout
    invoke("usage", "--by", "day", "--days", "91", exits=2)


def test_a_missing_database_is_said_and_not_made(folder: Path) -> None:
    for command in (
        ["graphs"],
        ["context", "g", "q"],
        ["export", "g"],
        ["embed-nodes"],
        ["tools", "g"],
    ):
        result = invoke(*command, "--db", "sqlite:typo.db", exits=3)
        assert "there is no database sqlite:typo.db yet" in result.stderr
        assert "nodius demo" in result.stderr
    assert list(folder.iterdir()) == []


def test_an_empty_workspace_says_what_to_do(demo_db: str) -> None:
    assert "nodius import FILE" in invoke("graphs", "--workspace", "empty", exits=3).stderr
    assert printed(invoke("graphs", "--workspace", "empty", "--json")) == []


@pytest.mark.parametrize(
    ("url", "code", "reason"),
    [
        ("nonsense", 2, "it has no scheme"),
        ("foo:bar", 2, "unknown scheme 'foo'"),
        ("sqlite:", 2, "the path is missing"),
        ("sqlite:text.db", 1, "not a readable database"),
        ("sqlite:folder", 1, "directory"),
    ],
)
def test_a_database_that_cannot_be_opened_says_why(
    folder: Path, url: str, code: int, reason: str
) -> None:
    (folder / "text.db").write_text("this is no database at all\n" * 100)
    (folder / "folder").mkdir()
    result = invoke("graphs", "--db", url, exits=code)
    assert reason in result.stderr
    assert "Traceback" not in result.output


def test_a_french_person_reads_the_reason_in_french(folder: Path) -> None:
    (folder / "text.db").write_text("this is no database at all\n" * 100)
    assert (
        "La base de données est illisible"
        in invoke("graphs", "--db", "sqlite:text.db", "--lang", "fr").stderr
    )


def test_a_wrong_key_is_answered_with_keys_like_it(demo_db: str) -> None:
    for asking in ("context", "ask"):
        assert "did you mean testgraph001?" in invoke(asking, "testgraf001", "q", exits=3).stderr
    for words in ("check", "export", "tools", "policy", "graphs show", "graphs delete"):
        assert "did you mean testgraph001?" in invoke(*words.split(), "testgraf001", exits=3).stderr
    assert "did you mean order-refund?" in invoke("export", "Order refnd").stderr


def test_a_graph_of_another_workspace_is_not_found(demo_db: str) -> None:
    for command in (
        ["context", "testgraph001", "q"],
        ["export", "testgraph001"],
        ["tools", "testgraph001"],
    ):
        result = invoke(*command, "--workspace", "other", exits=3)
        assert "no graph 'testgraph001' in workspace 'other'" in result.stderr
        assert "did you mean" not in result.stderr


def test_an_export_imports_to_the_same_export(demo_db: str, folder: Path) -> None:
    for key in ("testgraph001", "order-refund", "greenhouse-climate"):
        first = folder / f"{key}.json"
        second = folder / f"{key}-again.json"
        invoke("export", key, "--output", first, exits=0)
        invoke("import", first, "--db", "sqlite:copy.db", exits=0)
        invoke("export", key, "-o", second, "--db", "sqlite:copy.db", exits=0)
        assert json.loads(second.read_bytes())["nodes"] == json.loads(first.read_bytes())["nodes"]
        assert json.loads(second.read_bytes())["edges"] == json.loads(first.read_bytes())["edges"]


def test_export_prints_one_line_for_scripts(demo_db: str) -> None:
    whole = invoke("export", "testgraph001").stdout
    line = invoke("export", "testgraph001", "--json").stdout
    assert line.count("\n") == 1
    assert whole.count("\n") > 100
    assert json.loads(whole) == json.loads(line)


def test_an_export_that_cannot_be_written_is_said(demo_db: str, folder: Path) -> None:
    for target in (folder, folder / "no" / "such.json"):
        assert (
            "cannot write" in invoke("export", "testgraph001", "--output", target, exits=1).stderr
        )


def test_whole_graphs_are_made_copied_renamed_deleted_and_restored(tmp_path: Path) -> None:
    db = f"sqlite:{tmp_path / 'whole.db'}"
    made = printed(invoke("graphs", "new", "Orders", "--type", "n8n", "--json", "--db", db))["key"]
    copy = printed(invoke("graphs", "duplicate", made, "Copy", "--json", "--db", db))["key"]
    invoke("graphs", "rename", copy, "Orders 2", "--db", db, exits=0)
    assert invoke("graphs", "delete", copy, "--db", db).stdout == f"deleted {copy} (Orders 2)\n"
    assert [row["key"] for row in printed(invoke("graphs", "--json", "--db", db))] == [made]
    invoke("graphs", "delete", copy, "--db", db, exits=3)
    assert printed(invoke("graphs", "deleted", "--json", "--db", db))[0]["key"] == copy
    invoke("graphs", "restore", copy, "--db", db, exits=0)
    invoke("graphs", "deleted", "--db", db, exits=3)
    assert {row["name"] for row in printed(invoke("graphs", "--json", "--db", db))} == {
        "Orders",
        "Orders 2",
    }
    invoke("graphs", "new", "Aufträge", "--language", "de", "--db", db, exits=0)
    for wrong in (
        ("new", " "),
        ("new", "x", "--type", "make"),
        ("new", "x", "--language", "tlh"),
        ("rename", made, "x" * 201),
    ):
        invoke("graphs", *wrong, "--db", db, exits=2)


FLOW = {
    "name": "Orders",
    "nodes": [
        {
            "id": "1",
            "name": "Start",
            "type": "n8n-nodes-base.manualTrigger",
            "position": [0, 0],
            "parameters": {},
        },
        {
            "id": "2",
            "name": "Get",
            "type": "n8n-nodes-base.httpRequest",
            "position": [200, 0],
            "parameters": {"url": "={{ $('Gone').item.json.url }}"},
            "onError": "continueErrorOutput",
        },
    ],
    "connections": {"Start": {"main": [[{"node": "Get", "type": "main", "index": 0}]]}},
}


def test_a_graph_is_checked_from_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "flow.json"
    db = f"sqlite:{tmp_path / 'graphs.db'}"
    file.write_text(json.dumps(FLOW))
    key = json.loads(invoke("import", "--json", "--db", db, str(file)).stdout)[0]["graph"]
    shown = invoke("check", key, "--db", db, "--lang", "fr", exits=0)
    assert "missing_reference" in shown.stdout
    assert "fait référence à Gone" in shown.stdout
    found = json.loads(
        invoke("check", key, "--json", "--rule", "open_error_output", "--db", db).stdout
    )
    assert [(one["rule"], one["nodes"]) for one in found["findings"]] == [
        ("open_error_output", ["get"])
    ]
    invoke("check", key, "--rule", "nonsense", "--db", db, exits=2)
    invoke("check", "nothing", "--db", db, exits=3)


LONG = "Send the monthly report of all open invoices to the accounting department by mail " * 5


def _flow(name: str, title: str) -> dict[str, Any]:
    node = {"name": title, "type": "n8n-nodes-base.httpRequest", "position": [0, 0]}
    return {
        "name": name,
        "connections": {},
        "nodes": [{**node, "parameters": {"url": "https://a.example/v1"}}],
    }


def test_the_nodes_of_a_graph_stand_below_it_in_lines_that_fit(folder: Path, env: Env) -> None:
    files = [
        write(folder / f"{name}.json", _flow(name, title))
        for name, title in (("one", LONG), ("two", "Fetch the invoices"))
    ]
    invoke("import", *files, exits=0)
    env(COLUMNS="60")
    for command in (("search", "invoices"), ("uses", "a.example")):
        shown = invoke(*command).stdout.splitlines()
        assert {line for line in shown if not line.startswith((" ", "│"))} == {"one", "two"}
        assert all(len(line) <= 60 for line in shown)
        rows = printed(invoke(*command, "--json"))
        assert {row["graph"] for row in rows} == {"one", "two"}
