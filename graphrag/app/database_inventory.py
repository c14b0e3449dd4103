"""Counts what a database holds, by workspace, graph and kind of record, and compares two counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field

from datasources.base import Database
from datasources.record_kinds import RECORD_INDEXES
from datasources.types import ROOT_WORKSPACE
from graphrag.app.paged_reads import read_records

LEFT_OUT: Mapping[str, str] = {
    "lease": "leases, which are valid for seconds",
    "database_copy": "the mark of an earlier copy",
}
"""Kinds of records that are not copied, and what they are."""

KINDS = tuple(sorted(RECORD_INDEXES.keys() - LEFT_OUT.keys()))


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphCounts:
    """The revision of a graph and the numbers of its parts. `vectors` counts by model."""

    revision: int
    nodes: int
    edges: int
    vectors: Mapping[str, int]

    def __str__(self) -> str:
        vectors = ", ".join(
            f"{count:,} of {model}" for model, count in sorted(self.vectors.items())
        )
        return (
            f"revision {self.revision}, {self.nodes:,} nodes, {self.edges:,} edges, "
            f"vectors: {vectors or 'none'}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceInventory:
    """What one workspace holds: the number of its node types, its graphs, records by kind."""

    types: int = 0
    graphs: Mapping[str, GraphCounts] = field(default_factory=dict[str, GraphCounts])
    records: Mapping[str, int] = field(default_factory=dict[str, int])

    @property
    def documents(self) -> int:
        """The number of nodes, edges and records."""
        parts = sum(graph.nodes + graph.edges for graph in self.graphs.values())
        return parts + sum(self.records.values())

    def counts(self) -> dict[str, int]:
        """Returns the numbers by name."""
        graphs = self.graphs.values()
        return {
            "graphs": len(graphs),
            "nodes": sum(graph.nodes for graph in graphs),
            "edges": sum(graph.edges for graph in graphs),
            "vectors": sum(sum(graph.vectors.values()) for graph in graphs),
            "nodeTypes": self.types,
            "records": sum(self.records.values()),
        }


Inventory = Mapping[str, WorkspaceInventory]
"""What each workspace holds."""


async def workspaces_of(database: Database, kinds: Iterable[str] = KINDS) -> list[str]:
    """Returns the workspaces with graphs or with records of these kinds, and the one of types that
    all see.
    """
    found = {ROOT_WORKSPACE, *await database.workspaces()}
    for kind in kinds:
        found.update(await database.workspaces(kind))
    return sorted(found)


async def take_inventory(database: Database) -> Inventory:
    """Returns what a database holds; reads all its records. Raises: SourceError."""
    return {name: await _workspace(database, name) for name in await workspaces_of(database)}


async def _workspace(database: Database, workspace: str) -> WorkspaceInventory:
    source = database.source(workspace)
    graphs = dict[str, GraphCounts]()
    for graph in await source.list_graphs():
        stats = await source.get_stats(graph.key)
        graphs[graph.key] = GraphCounts(
            revision=graph.revision, nodes=stats.nodes, edges=stats.edges, vectors=stats.vectors
        )
    records = {kind: await _count(database, workspace, kind) for kind in KINDS}
    return WorkspaceInventory(
        types=len(await source.get_own_configs()),
        graphs=graphs,
        records={kind: count for kind, count in records.items() if count},
    )


async def _count(database: Database, workspace: str, kind: str) -> int:
    count = 0
    async with aclosing(read_records(database.records(workspace), kind)) as pages:
        async for page in pages:
            count += len(page)
    return count


def differences(expected: Inventory, actual: Inventory) -> list[str]:
    """Returns a line for each number in which two databases differ."""
    lines = list[str]()
    nothing = WorkspaceInventory()
    for name in sorted(expected.keys() | actual.keys()):
        ours = expected.get(name, nothing)
        theirs = actual.get(name, nothing)
        pairs: dict[str, tuple[object, object]] = {"node types": (ours.types, theirs.types)}
        for key in sorted(ours.graphs.keys() | theirs.graphs.keys()):
            graphs = (ours.graphs.get(key, "absent"), theirs.graphs.get(key, "absent"))
            pairs[f"graph {key}"] = graphs
        for kind in sorted(ours.records.keys() | theirs.records.keys()):
            pairs[kind] = (ours.records.get(kind, 0), theirs.records.get(kind, 0))
        lines += [
            f"workspace {name}, {what}: {copied}; expected: {original}"
            for what, (original, copied) in pairs.items()
            if original != copied
        ]
    return lines
