"""Nodius JSON: exports import to themselves, and what is wrong in a file is named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
import pytest

from datasources.mock.database import MemoryDatabase, open_nba
from graphrag.exchange import export_document, import_bytes
from graphrag.importers import UnreadableWorkflow, export_graph, to_mutation
from mock_data import load_json
from tests.graphrag.importers.helpers import WORKSPACE, existing_of, is_empty, read, store

Change = Callable[[dict[str, Any]], Any]


async def _nba() -> dict[str, Any]:
    return await export_document(open_nba(WORKSPACE).source(WORKSPACE), "testgraph001")


def _text(document: Any) -> bytes:
    return orjson.dumps(document, option=orjson.OPT_SORT_KEYS)


async def test_export_imports_to_itself() -> None:
    document = await _nba()
    source = await store(read(document))
    assert _text(await export_document(source, "testgraph001")) == _text(document)


async def test_export_keeps_fields_it_does_not_know() -> None:
    document = await _nba()
    document["graph"]["colour"] = "red"
    document["nodes"][0]["future"] = {"a": [1, None]}
    document["edges"][0]["bend"] = 0.5
    document["configs"][0]["node"]["extra"] = True
    source = await store(read(document))
    assert _text(await export_document(source, "testgraph001")) == _text(document)


async def test_bare_sample_without_a_frame_is_read() -> None:
    result = read(load_json("nba.json"))
    assert result.report.format == "nodius"
    assert result.report.lines() == []
    document = export_graph(result.graph, result.nodes, result.edges, result.configs)
    assert _text({**document, "graph": None}) == _text({**await _nba(), "graph": None})


async def test_second_import_changes_nothing() -> None:
    document = await _nba()
    first = read(document)
    stored = await existing_of(await store(first), first.graph.key)
    assert is_empty(to_mutation(read(document, existing=stored), stored))


async def test_import_under_another_key_moves_every_document() -> None:
    result = read(await _nba(), graph_key="copy")
    assert result.graph.key == "copy"
    assert {d.graph_key for d in (*result.nodes, *result.edges)} == {"copy"}
    assert {config.workspace for config in result.configs} == {WORKSPACE}


async def test_import_through_the_source_creates_then_updates() -> None:
    source = MemoryDatabase().source(WORKSPACE)
    document = await _nba()
    created = await import_bytes(source, _text(document), file_name="nba.json")
    document["nodes"][0]["posX"] = -5
    updated = await import_bytes(source, _text(document), file_name="nba.json")
    unchanged = await import_bytes(source, _text(document), file_name="nba.json")
    assert [o.action for o in (created, updated, unchanged)] == ["created", "updated", "unchanged"]


async def test_revision_and_vectors_stay_behind() -> None:
    document = await _nba()
    assert "revision" not in document["graph"]
    document["nodes"][0]["embedding"] = [0.1, 0.2]
    result = read(document)
    assert result.report.dropped_count("vector") == 1
    assert _text(export_graph(result.graph, result.nodes, result.edges, result.configs)) == _text(
        await _nba()
    )


async def test_edge_at_a_missing_handle_is_kept_and_said() -> None:
    document = await _nba()
    document["edges"][0]["sourceHandle"] = "nowhere"
    result = read(document)
    assert len(result.edges) == len(document["edges"])
    assert "uses a handle that its node does not have" in result.report.lines()[0]


@pytest.mark.parametrize(("version", "name"), [(0.5, "Filter"), (1, "Sieve"), (2, "Sieve")])
async def test_type_of_the_file_replaces_one_that_is_not_newer(version: float, name: str) -> None:
    document = await _nba()
    source = await store(read(document))
    config = next(c for c in document["configs"] if c["_key"] == "filter")
    config |= {"displayName": "Sieve", "version": version}
    outcome = await import_bytes(source, _text(document), file_name="nba.json")
    assert [c.display_name for c in await source.get_node_configs(["filter"])] == [name]
    assert "1 node type" in outcome.remarks[0]


async def test_type_that_every_workspace_sees_is_not_copied() -> None:
    document = await _nba()
    database = MemoryDatabase()
    for config in read(document).configs:
        await database.source("root").put_node_config(config.replace(workspace="root"))
    outcome = await import_bytes(database.source(WORKSPACE), _text(document), file_name="nba.json")
    assert outcome.remarks == ()
    assert {c.workspace for c in await database.source(WORKSPACE).get_node_configs()} == {"root"}


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda d: d.update(formatVersion=2), "formatVersion is 2"),
        (lambda d: d.update(formatVersion=True), "formatVersion is True"),
        (lambda d: d.pop("formatVersion"), "formatVersion is None"),
        (lambda d: d.update(extra=1), "'extra'"),
        (lambda d: d.pop("edges"), "'edges' must be a list"),
        (lambda d: d.update(configs={}), "'configs' must be a list"),
        (lambda d: d.pop("graph"), "graphs/\\?"),
        (lambda d: d["graph"].pop("name"), "graphs/testgraph001: field 'name'"),
        (lambda d: d["graph"].pop("_key"), "graphs/\\?: field '_key'"),
        (lambda d: d["nodes"].append(3), "nodes/\\?: field 'number 10'"),
        (lambda d: d["nodes"][0].update(posX="left"), "nodes/.*: field 'posX"),
        (lambda d: d["nodes"].append(d["nodes"][0]), "nodes are put twice"),
        (lambda d: d["nodes"][0].update(graphKey="other"), "field 'graphKey': is 'other'"),
        (lambda d: d["nodes"][0].update(sheet="9"), "a sheet that the graph does not have"),
        (lambda d: d["edges"][0].update(target="gone"), "edges without a node at an end"),
        (lambda d: d["configs"][0].pop("displayName"), "node_configs/.*: field 'displayName'"),
    ],
)
async def test_wrong_document_is_named(change: Change, named: str) -> None:
    document = await _nba()
    change(document)
    with pytest.raises(UnreadableWorkflow, match=named):
        read(document)
