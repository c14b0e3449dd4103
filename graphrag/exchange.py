"""Moves workflows between files and a source: import with update, export of a whole graph."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from datasources.base import MutableGraphDataSource
from datasources.errors import GraphExists, GraphNotFound
from datasources.types import Graph
from graphrag.importers import (
    ExistingGraph,
    ImportResult,
    UnreadableWorkflow,
    export_graph,
    import_workflow,
    to_mutation,
)

MAX_FILE_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOutcome:
    """What became of one file: a graph created, updated or left as it was — or a refusal and its reason."""

    file: str
    graph_key: str = ""
    format: str = ""
    action: str = ""
    nodes: int = 0
    edges: int = 0
    remarks: tuple[str, ...] = ()
    refused: str | None = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


async def import_file(
    source: MutableGraphDataSource, file: Path, *, graph_key: str | None = None
) -> ImportOutcome:
    """Import one file; the reason of a refusal is in the outcome, nothing is raised for a bad file."""
    try:
        if file.stat().st_size > MAX_FILE_BYTES:
            return ImportOutcome(file=str(file), refused=f"larger than {MAX_FILE_BYTES >> 20} MiB")
        raw = file.read_bytes()
    except OSError as exc:
        return ImportOutcome(file=str(file), refused=exc.strerror or str(exc))
    try:
        return await import_bytes(source, raw, file_name=file.name, shown=str(file), graph_key=graph_key)
    except UnreadableWorkflow as exc:
        return ImportOutcome(file=str(file), refused=exc.reason)


async def import_bytes(
    source: MutableGraphDataSource,
    raw: bytes,
    *,
    file_name: str,
    shown: str | None = None,
    graph_key: str | None = None,
) -> ImportOutcome:
    """Import a workflow's bytes as a new graph, or as an update of the graph it made before.

    Raises: UnreadableWorkflow.
    """
    result = import_workflow(
        raw,
        file_name=file_name,
        workspace=source.workspace,
        graph_key=graph_key,
        known_types=await source.get_node_configs(),
    )
    existing = await read_existing(source, result.graph.key)
    if existing is not None:
        result = import_workflow(
            raw, file_name=file_name, workspace=source.workspace, graph_key=graph_key, existing=existing
        )
        action = await _update(source, result, existing)
    else:
        action = await _create(source, result, file_name)
    return ImportOutcome(
        file=shown or file_name,
        graph_key=result.graph.key,
        format=result.report.format,
        action=action,
        nodes=len(result.nodes),
        edges=len(result.edges),
        remarks=tuple(result.report.lines()),
    )


async def _create(source: MutableGraphDataSource, result: ImportResult, file_name: str) -> str:
    try:
        await source.create_graph(result.graph)
    except GraphExists as exc:
        reason = f"the graph key {result.graph.key!r} belongs to another workspace; give one with --graph"
        raise UnreadableWorkflow(file=file_name, reason=reason) from exc
    await source.apply(to_mutation(result, None))
    return "created"


async def _update(source: MutableGraphDataSource, result: ImportResult, existing: ExistingGraph) -> str:
    mutation = to_mutation(result, existing)
    changes = (
        mutation.put_nodes,
        mutation.put_edges,
        mutation.delete_nodes,
        mutation.delete_edges,
        mutation.put_configs,
        mutation.graph,
    )
    if not any(changes):
        return "unchanged"
    await source.apply(mutation, expected_revision=existing.graph.revision)
    return "updated"


async def read_existing(source: MutableGraphDataSource, graph_key: str) -> ExistingGraph | None:
    """Return everything stored of a graph, or None when there is no such graph."""
    try:
        graph: Graph = await source.get_graph(graph_key)
    except GraphNotFound:
        return None
    return ExistingGraph(
        graph=graph,
        nodes=tuple(await source.get_nodes(graph_key)),
        edges=tuple(await source.get_edges(graph_key)),
        configs=tuple(await source.get_node_configs()),
    )


async def export_document(source: MutableGraphDataSource, graph_key: str) -> dict[str, Any]:
    """Return a graph as one Nodius JSON document. Raises: GraphNotFound."""
    graph = await source.get_graph(graph_key)
    nodes = await source.get_nodes(graph_key)
    edges = await source.get_edges(graph_key)
    types = sorted({node.type for node in nodes})
    configs = await source.get_node_configs(types) if types else []
    return export_graph(graph, nodes, edges, configs)
