"""`search` and `uses` over all graphs: a line a graph, its nodes below, within the terminal's width."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import invoke, printed, write

LONG = "Send the monthly report of all open invoices to the accounting department by mail " * 5


def _flow(name: str, title: str) -> dict[str, Any]:
    node = {"name": title, "type": "n8n-nodes-base.httpRequest", "position": [0, 0]}
    return {
        "name": name,
        "connections": {},
        "nodes": [{**node, "parameters": {"url": "https://a.example/v1"}}],
    }


def test_the_nodes_of_a_graph_stand_below_it_in_lines_that_fit(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [
        write(folder / f"{name}.json", _flow(name, title))
        for name, title in (("one", LONG), ("two", "Fetch the invoices"))
    ]
    assert invoke("import", *files).exit_code == 0
    monkeypatch.setenv("COLUMNS", "60")
    for command in (("search", "invoices"), ("uses", "a.example")):
        shown = invoke(*command).stdout.splitlines()
        assert {line for line in shown if not line.startswith((" ", "│"))} == {"one", "two"}
        assert all(len(line) <= 60 for line in shown)
        rows = printed(invoke(*command, "--json"))
        assert {row["graph"] for row in rows} == {"one", "two"}
