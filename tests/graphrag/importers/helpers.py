"""Small workflows in foreign formats, and the checks that hold for every import."""

from __future__ import annotations

from typing import Any

import orjson

from datasources.base import MutableGraphDataSource
from datasources.mock.database import MemoryDatabase
from graphrag.exchange import read_existing
from graphrag.importers import (
    ExistingGraph,
    ImportResult,
    export_graph,
    import_workflow,
    to_mutation,
)

WORKSPACE = "team"


def n8n_node(name: str, kind: str = "n8n-nodes-base.set", **fields: Any) -> dict[str, Any]:
    return {
        "id": f"id-of-{name}",
        "name": name,
        "type": kind,
        "typeVersion": 1,
        "position": [0, 0],
        "parameters": {},
        **fields,
    }


def n8n(nodes: list[Any], connections: Any = None, **fields: Any) -> dict[str, Any]:
    return {
        "name": "Small flow",
        "nodes": nodes,
        "connections": {} if connections is None else connections,
        **fields,
    }


def to(name: str, kind: str = "main", index: Any = 0) -> dict[str, Any]:
    return {"node": name, "type": kind, "index": index}


def read(document: Any, **options: Any) -> ImportResult:
    """Import a document given as Python values."""
    raw = document if isinstance(document, bytes) else orjson.dumps(document)
    return import_workflow(raw, **{"file_name": "small.json", "workspace": WORKSPACE, **options})


def again(document: Any, existing: ExistingGraph) -> ImportResult:
    return read(document, existing=existing)


async def store(result: ImportResult, source: MutableGraphDataSource | None = None) -> MutableGraphDataSource:
    """Put an import into a memory database, as the first import of a graph does."""
    source = source or MemoryDatabase().source(WORKSPACE)
    await source.create_graph(result.graph)
    await source.apply(to_mutation(result, None))
    return source


async def existing_of(source: MutableGraphDataSource, graph_key: str) -> ExistingGraph:
    found = await read_existing(source, graph_key)
    assert found is not None
    return found


def is_empty(mutation: Any) -> bool:
    return not any(
        (
            mutation.put_nodes,
            mutation.put_edges,
            mutation.put_configs,
            mutation.delete_nodes,
            mutation.delete_edges,
            mutation.delete_configs,
            mutation.graph,
        )
    )


def exported(existing: ExistingGraph) -> bytes:
    document = export_graph(existing.graph, existing.nodes, existing.edges, existing.configs)
    return orjson.dumps(document, option=orjson.OPT_SORT_KEYS)


def assert_sound(result: ImportResult) -> None:
    """Every edge begins at an output and ends at an input that its node has; keys are unique."""
    points = {
        (node.key, point.type, point.id)
        for node in result.nodes
        for group in node.handles.values()
        for point in group.point
    }
    for edge in result.edges:
        assert (edge.source, "out", edge.source_handle) in points
        assert (edge.target, "in", edge.target_handle) in points
    for keys in ([n.key for n in result.nodes], [e.key for e in result.edges]):
        assert len(keys) == len(set(keys))
    for node in result.nodes:
        listed = [(point.type, point.id) for g in node.handles.values() for point in g.point]
        assert len(listed) == len(set(listed))
        assert node.sheet in result.graph.sheets_list
    assert {node.type for node in result.nodes} == {config.type for config in result.configs}
