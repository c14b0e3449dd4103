"""`import -` and `export --format`: a workflow comes in by a pipe and goes back as its tool's file."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import invoke, n8n, printed


def test_a_workflow_comes_by_a_pipe_and_goes_back_as_it_came(folder: Path) -> None:
    workflow = n8n("Begin", "Fetch", "Send")
    db = ("--db", "sqlite:g.db")
    taken = invoke("import", "-", "--no-embed", "--json", *db, typed=json.dumps(workflow))
    (outcome,) = printed(taken)
    assert (outcome["action"], outcome["nodes"]) == ("created", 3)
    graph = outcome["graph"]
    back = printed(invoke("export", graph, "--format", "n8n", "--json", *db))
    assert back == workflow
    refused = invoke("export", graph, "--format", "node-red", *db)
    assert refused.exit_code == 1
    assert "not of node-red" in refused.stderr
    assert invoke("export", graph, "--format", "xml", *db).exit_code == 2
