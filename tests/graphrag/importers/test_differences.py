"""What changed in a graph, and in its file, since the file was imported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from datasources.mock import open_nba
from datasources.types import Mutation
from graphrag.approvals import Approvals, Person
from graphrag.importers.differences import differences
from graphrag.importers.exchange import import_bytes
from tests.support.data_files import needs_published, published

BY = Person("ann", "admin", "default")


def a_flow(text: str, *, label: str = "Orders") -> bytes:
    flow: list[dict[str, Any]] = [
        {"id": "t", "type": "tab", "label": label},
        {"id": "a", "z": "t", "type": "inject", "name": "Start", "x": 100, "y": 100, "wires": [["b"]]},
        {"id": "b", "z": "t", "type": "function", "name": "Check", "func": text, "x": 300, "y": 100,
         "wires": [[]]},
    ]  # fmt: skip
    return json.dumps(flow).encode()


async def test_each_side_is_compared_with_the_file_and_not_with_the_other() -> None:
    async with open_nba("default") as database:
        source = database.source("default")
        approvals = Approvals(source, database.records("default"))
        await import_bytes(approvals, a_flow("1;"), BY, file_name="f.json", graph_key="flow")
        found = await differences(approvals, "flow", a_flow("1;"))
        assert found is not None
        assert (found.here, found.there) == ({}, {})
        graph = await source.get_graph("flow")
        (check,) = await source.get_nodes_by_key("flow", ["check"])
        moved = Mutation(graph_key="flow", put_nodes=[check.replace(pos_x=500)])
        await source.apply(moved, expected_revision=graph.revision)
        found = await differences(approvals, "flow", a_flow("2;"))
    assert found is not None
    assert found.revision == graph.revision + 1
    assert [change["key"] for change in found.here["nodesMoved"]] == ["check"]
    assert [change["key"] for change in found.there["nodesChanged"]] == ["check"]
    assert list(found.here) == ["nodesMoved"]
    assert list(found.there) == ["nodesChanged"]


async def test_a_graph_without_a_file_cannot_be_compared() -> None:
    async with open_nba("default") as database:
        approvals = Approvals(database.source("default"), database.records("default"))
        assert await differences(approvals, "testgraph001") is None


@pytest.mark.slow
@needs_published
@pytest.mark.parametrize("pattern", ["n8n-*.json", "nodered-*.json"])
async def test_real_files_that_were_just_imported_differ_nowhere(pattern: str) -> None:
    files: list[Path] = published("workflows", pattern)
    async with open_nba("default") as database:
        approvals = Approvals(database.source("default"), database.records("default"))
        for file in files:
            raw = file.read_bytes()
            key = file.stem.lower()
            await import_bytes(approvals, raw, BY, file_name=file.name, graph_key=key)
            found = await differences(approvals, key, raw)
            assert found is not None, file.name
            assert (found.here, found.there) == ({}, {}), file.name
    assert len(files) >= 40
