"""`nodius check`: findings of a graph as a table or JSON."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import invoke

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
    file, db = tmp_path / "flow.json", f"sqlite:{tmp_path / 'graphs.db'}"
    file.write_text(json.dumps(FLOW))
    key = json.loads(invoke("import", "--json", "--db", db, str(file)).stdout)[0]["graph"]
    shown = invoke("check", key, "--db", db, "--lang", "fr")
    assert shown.exit_code == 0
    assert "missing_reference" in shown.stdout
    assert "fait référence à Gone" in shown.stdout
    found = json.loads(invoke("check", key, "--json", "--rule", "open_error_output", "--db", db).stdout)
    assert [(one["rule"], one["nodes"]) for one in found["findings"]] == [("open_error_output", ["get"])]
    assert invoke("check", key, "--rule", "nonsense", "--db", db).exit_code == 2
    assert invoke("check", "nothing", "--db", db).exit_code == 3
