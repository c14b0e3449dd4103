"""Moves workflows between files and a source: import with update, export of a whole graph."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from datasources.base import MutableGraphDataSource
from datasources.errors import BadDocument, GraphExists, GraphNotFound, InvalidMutation, RevisionConflict
from datasources.types import Graph
from graphrag.importers import (
    ExistingGraph,
    ImportReport,
    ImportResult,
    UnreadableWorkflow,
    export_graph,
    import_workflow,
    to_mutation,
)
from graphrag.importers.keys import key_fault, own_key

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
    report: ImportReport | None = None
    refused: str | None = None

    @property
    def remarks(self) -> tuple[str, ...]:
        """What was dropped or repaired, one sentence each."""
        return tuple(self.report.lines()) if self.report else ()

    def as_dict(self) -> dict[str, Any]:
        return {
            "file": self.file,
            "graph": self.graph_key or None,
            "format": self.format or None,
            "action": self.action or "refused",
            "nodes": self.nodes,
            "edges": self.edges,
            "remarks": list(self.remarks),
            "refused": self.refused,
        }


async def import_file(
    source: MutableGraphDataSource, file: Path, *, graph_key: str | None = None
) -> ImportOutcome:
    """Import one file; the reason of a refusal is in the outcome, nothing is raised for a bad file.

    Raises: what a store raises that cannot be used at all.
    """
    shown = str(file).encode("utf-8", "backslashreplace").decode()  # a name may be any bytes
    try:
        raw = await asyncio.to_thread(_read, file)
        return await import_bytes(source, raw, file_name=file.name, shown=shown, graph_key=graph_key)
    except UnreadableWorkflow as exc:
        return ImportOutcome(file=shown, refused=exc.reason)
    except (BadDocument, InvalidMutation, RevisionConflict) as exc:  # this file's fault: the next may be good
        return ImportOutcome(file=shown, refused=str(exc))


def _read(file: Path) -> bytes:
    """Return the bytes of a file. Raises: UnreadableWorkflow."""
    try:
        if file.is_dir():
            raise UnreadableWorkflow(file=str(file), reason="it is a folder; name the files in it")
        with file.open("rb") as stream:
            raw = stream.read(MAX_FILE_BYTES + 1)
    except OSError as exc:
        raise UnreadableWorkflow(file=str(file), reason=exc.strerror or str(exc)) from exc
    if len(raw) > MAX_FILE_BYTES:
        raise UnreadableWorkflow(file=str(file), reason=f"it is larger than {MAX_FILE_BYTES >> 20} MiB")
    return raw


async def import_bytes(
    source: MutableGraphDataSource,
    raw: bytes,
    *,
    file_name: str,
    shown: str | None = None,
    graph_key: str | None = None,
    is_shared: bool = False,
) -> ImportOutcome:
    """Import a workflow's bytes as a new graph, or as an update of the graph it made before.

    Where the store `is_shared` with strangers, a new graph's key gets an ending of its workspace:
    keys are unique in a store, and nobody is to learn by trying which keys others have.
    Raises: UnreadableWorkflow.
    """
    types = await source.get_node_configs()

    def read(key: str | None) -> ImportResult:
        return import_workflow(
            raw, file_name=file_name, workspace=source.workspace, graph_key=key, known_types=types
        )

    result = read(graph_key)
    existing = await read_existing(source, result.graph.key)
    if existing is None and is_shared:
        graph_key = own_key(result.graph.key, source.workspace)
        result = read(graph_key)
        existing = await read_existing(source, graph_key)
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
        report=result.report,
    )


async def _create(source: MutableGraphDataSource, result: ImportResult, file_name: str) -> str:
    fault = key_fault(result.graph.key)
    if fault is not None:
        reason = f"{fault}; this one is {result.graph.key!r}: choose another key"
        raise UnreadableWorkflow(file=file_name, reason=reason)
    try:
        await source.create_graph(result.graph, to_mutation(result, None))
    except GraphExists as exc:
        reason = f"the graph key {result.graph.key!r} is taken in another workspace; choose another key"
        raise UnreadableWorkflow(file=file_name, reason=reason) from exc
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
