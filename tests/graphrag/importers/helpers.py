"""Small workflows in foreign formats, and the checks that hold for every import."""

from dataclasses import dataclass, field
from typing import Any

import orjson

from datasources.base import Database
from datasources.mock.source import MemoryDatabase
from datasources.types import Mutation, Node
from graphrag.approvals import Approvals, Person, Policy
from graphrag.importers import GraphContent, ImportReport, ImportResult, import_workflow
from graphrag.importers.exchange import ImportOutcome, export_document, import_bytes, read_content

WORKSPACE = "team"
KEY = "small-flow-small"


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


def edges_of(result: ImportResult) -> list[tuple[str, str, str, str, str | None]]:
    return [(e.source, e.source_handle, e.target, e.target_handle, e.label) for e in result.edges]


def nodes_by_key(result: ImportResult) -> dict[str, Any]:
    return {node.key: node for node in result.nodes}


def remarks(result: ImportResult) -> str:
    return "\n".join(result.report.lines())


def dropped_count(report: ImportReport, kind: str) -> int:
    """Return how many things of a kind (`node`, `edge`, …) were left out."""
    return sum(item.count for item in report.notices if (item.what, item.kind) == ("dropped", kind))


@dataclass
class Workbench:
    """A workspace of a database, and an editor who imports into it."""

    database: Database = field(default_factory=MemoryDatabase)
    workspace: str = WORKSPACE
    options: dict[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        self.source = self.database.source(self.workspace)
        self.approvals = Approvals(
            self.source,
            self.database.records(self.workspace),
            policy=Policy.of("asker"),
            **self.options,
        )
        self.person = Person("eve", "editor", self.workspace)

    async def take(self, document: Any, **options: Any) -> ImportOutcome:
        """Import a document given as Python values or as bytes."""
        raw = document if isinstance(document, bytes) else orjson.dumps(document)
        return await import_bytes(
            self.approvals, raw, self.person, **{"file_name": "small.json", **options}
        )

    async def content(self, graph_key: str) -> GraphContent:
        found = await read_content(self.source, graph_key)
        assert found is not None
        return found

    async def exported(self, graph_key: str) -> bytes:
        return orjson.dumps(
            await export_document(self.source, graph_key), option=orjson.OPT_SORT_KEYS
        )


def two(**fields: Any) -> dict[str, Any]:
    return n8n([n8n_node("A"), n8n_node("B")], {"A": {"main": [[to("B")]]}}, **fields)


async def imported(document: Any = None) -> Workbench:
    bench = Workbench()
    await bench.take(document or two())
    return bench


async def put(bench: Workbench, *nodes: Node, edges: Any = (), **more: Any) -> None:
    await bench.source.apply(Mutation(graph_key=KEY, put_nodes=nodes, put_edges=edges, **more))


async def renamed(bench: Workbench, key: str, name: str, **changes: Any) -> None:
    node = (await bench.content(KEY)).nodes[key]
    await put(bench, node.replace(data={**node.data, "name": name}, **changes))


def new() -> Any:
    return n8n(
        [n8n_node("A", parameters={"x": 1}), n8n_node("B"), n8n_node("C")],
        {"A": {"main": [[to("B")]]}},
    )


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
