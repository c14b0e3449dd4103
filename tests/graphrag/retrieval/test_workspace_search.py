"""All graphs at once on published workflows: every planted reference is found, and soon."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from datasources.sqlite import SqliteDatabase
from datasources.types import Mutation
from datasources.uses import UseKind, entries_for
from graphrag.embedding import LocalEmbedder
from graphrag.importers import import_workflow
from graphrag.retrieval.retriever import Retriever
from graphrag.retrieval.workspace_search import WorkspaceSearch

FILES = sorted((Path(__file__).parents[3] / "../shared/data/workflows").glob("*.json"))

PLANTED: list[tuple[UseKind, str, dict[str, Any]]] = [
    (
        "credential",
        "Vault: ops (prod)",
        {"credentials": {"slackApi": {"id": "9", "name": "Vault: ops (prod)"}}},
    ),
    (
        "url",
        "https://planted.example.org/v1",
        {"url": "=https://planted.example.org/v1/items/{{ $json.id }}"},
    ),
    ("host", "planted.example.org", {"options": {"body": 'see "https://planted.example.org/x"'}}),
    ("table", "planted_orders", {"query": "SELECT o.id FROM shop.planted_orders o JOIN x ON x.id = o.id"}),
    ("table", "planted_leads", {"table": {"__rl": True, "value": "planted_leads", "mode": "name"}}),
    ("workflow", "PlantedFlow01", {"workflowId": {"__rl": True, "value": "PlantedFlow01", "mode": "id"}}),
    ("queue", "planted/queue", {"queue": "planted/queue"}),
    ("file", "/data/planted file.csv", {"fileName": "/data/planted file.csv"}),
    ("model", "planted-4o", {"jsonBody": '={"model": "planted-4o", "stream": true}'}),
]


def _with_planted(raw: bytes, number: int) -> tuple[bytes, str | None]:
    """Return a workflow in which one node refers to something new, and that node's name."""
    document = json.loads(raw)
    nodes = document.get("nodes") if isinstance(document, dict) else None
    named = [n for n in nodes or [] if n.get("name") and not str(n.get("type", "")).endswith("stickyNote")]
    if not named:
        return raw, None
    _, _, parts = PLANTED[number % len(PLANTED)]
    node = {**named[0], "name": "Planted node", "id": "planted", "position": [0, 0], "parameters": {}}
    credentials = {"credentials": parts["credentials"]} if "credentials" in parts else {}
    rest = {name: value for name, value in parts.items() if name != "credentials"}
    document["nodes"] = [*document["nodes"], {**node, "credentials": {}, **credentials, "parameters": rest}]
    return json.dumps(document).encode(), "Planted node"


@pytest.mark.slow
@pytest.mark.skipif(not FILES, reason="no published workflows in ../shared/data/workflows")
async def test_every_planted_reference_is_found_in_the_published_workflows(tmp_path: Path) -> None:
    async with SqliteDatabase(tmp_path / "graphs.db") as database:
        source, theirs = database.source("acme"), database.source("globex")
        planted: dict[int, set[str]] = {}
        for number, file in enumerate(FILES):
            raw, name = _with_planted(file.read_bytes(), number)
            key = f"w{number:03}"
            read = import_workflow(raw, file_name=file.name, workspace="acme", graph_key=key)
            content = Mutation(
                graph_key=read.graph.key,
                put_nodes=read.nodes,
                put_edges=read.edges,
                put_configs=[config for config in read.configs if config.workspace == "acme"],
            )
            await source.create_graph(read.graph, content)
            if name:
                planted.setdefault(number % len(PLANTED), set()).add(read.graph.key)
        other = import_workflow(
            _with_planted(FILES[0].read_bytes(), 0)[0], file_name="x", workspace="globex", graph_key="theirs"
        )
        await theirs.create_graph(other.graph, Mutation(graph_key="theirs", put_nodes=other.nodes))
        assert sum(map(len, planted.values())) > 200
        took: list[float] = []
        for place, (kind, value, _) in enumerate(PLANTED):
            for _ in range(5):
                began = time.perf_counter()
                found = await source.find_users(entries_for(value, kind), limit=1_000)
                took.append(time.perf_counter() - began)
            hits = {one.graph_key for one in found}
            assert planted[place] <= hits, (kind, value)
            if kind not in ("host",):
                assert hits == planted[place], (kind, value)
        search = WorkspaceSearch(Retriever(source, LocalEmbedder()))
        for query in (
            "send mail to finance",
            "summarise a video",
            "error alert in slack",
            "planted node",
        ) * 5:
            began = time.perf_counter()
            graphs = await search(query, limit=10)
            took.append(time.perf_counter() - began)
            assert graphs
            assert all(graph.key != "theirs" for graph in graphs)
        ms = (
            np.percentile(np.array(took[:45]) * 1e3, [50, 95]),
            np.percentile(np.array(took[45:]) * 1e3, [50, 95]),
        )
        print(f"{len(FILES)} workflows: uses p50/p95 {ms[0].round(1)} ms, search {ms[1].round(1)} ms")
