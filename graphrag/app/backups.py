"""Backups of a server database: a folder of JSON for one workspace, and the check of any copy.

A folder contains `backup.json` (its kind and counts), `graphs/N.json` (Nodius JSON) and
`records.jsonl` (conversations, approvals, audit, unsaved edits). Vectors are computed again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import orjson

from datasources.base import Database, RecordWrite
from datasources.errors import BadDocument, SourceUnavailable
from datasources.record_kinds import RECORD_INDEXES
from datasources.types import Edge, Graph, Mutation, Node, NodeTypeConfig, parse_document
from graphrag.approvals.audit import Audit
from graphrag.importers.exchange import export_document
from graphrag.leases import now_ms

FORMAT = "nodius-backup"
EVERY_RECORD = 2**31 - 1
# Number of records in one write.
TOGETHER = 200
# Kinds of records that are not backed up.
_PASSING = frozenset({"lease"})
Progress = Callable[[str], None]


async def back_up_folder(
    database: Database, workspace: str, folder: Path, report: Progress
) -> dict[str, int]:
    """Writes a workspace to a new folder; returns counts by name.

    Graphs are read one after another, so changes made meanwhile may be in some of them only.
    Raises: FileExistsError, SourceError.
    """
    part = folder.with_name(folder.name + ".part")
    if await asyncio.to_thread(folder.exists):
        raise FileExistsError(folder)
    source = database.source(workspace)
    records = database.records(workspace)
    counts = {"graphs": 0, "nodes": 0, "edges": 0, "records": 0}
    # Raises if an interrupted backup left the folder.
    await asyncio.to_thread(part.mkdir, mode=0o700, parents=True)
    await asyncio.to_thread((part / "graphs").mkdir)
    graphs = await source.list_graphs()
    for number, graph in enumerate(graphs):
        report(f"graph {number + 1} of {len(graphs)}: {graph.key}")
        document = await export_document(source, graph.key)
        counts["graphs"] += 1
        counts["nodes"] += len(document["nodes"])
        counts["edges"] += len(document["edges"])
        await asyncio.to_thread(
            (part / "graphs" / f"{number}.json").write_bytes, orjson.dumps(document)
        )
    lines: list[bytes] = []
    for kind in sorted(RECORD_INDEXES.keys() - _PASSING):
        for record in await records.query(kind, limit=EVERY_RECORD):
            lines.append(orjson.dumps({"kind": kind, "key": record.key, "data": record.data}))
    counts["records"] = len(lines)
    await asyncio.to_thread((part / "records.jsonl").write_bytes, b"\n".join(lines))
    facts = {
        "format": FORMAT,
        "formatVersion": 1,
        "workspace": workspace,
        "time": now_ms(),
        "holds": counts,
    }
    await asyncio.to_thread((part / "backup.json").write_bytes, orjson.dumps(facts))
    await asyncio.to_thread(part.rename, folder)
    return counts


async def restore_folder(
    database: Database, workspace: str, folder: Path, report: Progress
) -> dict[str, int]:
    """Restores a folder to a workspace without graphs and records; returns counts by name.

    Raises: FileExistsError (the workspace is not empty), BadDocument, SourceError.
    """
    source = database.source(workspace)
    records = database.records(workspace)
    facts = await asyncio.to_thread(_read, folder / "backup.json")
    if facts.get("format") != FORMAT or facts.get("formatVersion") != 1:
        raise BadDocument(
            collection="backup", key=str(folder), field="format", reason="it is no backup"
        )
    if await source.list_graphs() or await records.query("audit", limit=1):
        raise FileExistsError(workspace)
    counts = {"graphs": 0, "nodes": 0, "edges": 0, "records": 0}
    for path in sorted((folder / "graphs").glob("*.json"), key=lambda path: int(path.stem)):
        document = await asyncio.to_thread(_read, path)
        graph = parse_document(Graph, {**document["graph"], "workspace": workspace}, "graphs")
        report(f"graph {graph.key}")
        content = Mutation(
            graph_key=graph.key,
            put_nodes=[parse_document(Node, raw, "nodes") for raw in document["nodes"]],
            put_edges=[parse_document(Edge, raw, "edges") for raw in document["edges"]],
            put_configs=[
                parse_document(NodeTypeConfig, raw, "node_configs")
                for raw in document["configs"]
                if raw.get("workspace") == facts["workspace"] == workspace
            ],
        )
        await source.create_graph(graph, content)
        counts["graphs"] += 1
        counts["nodes"] += len(content.put_nodes)
        counts["edges"] += len(content.put_edges)
    async for writes in _records(folder / "records.jsonl"):
        await records.write(writes)
        counts["records"] += len(writes)
    if counts != facts["holds"]:
        reason = f"it contains {counts}, expected {facts['holds']}"
        raise BadDocument(collection="backup", key=str(folder), field="holds", reason=reason)
    await check_audit(database, [workspace])
    return counts


async def _records(path: Path) -> AsyncIterator[list[RecordWrite]]:
    lines = (await asyncio.to_thread(path.read_bytes)).splitlines()
    for i in range(0, len(lines), TOGETHER):
        read = map(orjson.loads, lines[i : i + TOGETHER])
        yield [
            RecordWrite(kind=r["kind"], key=r["key"], data=r["data"], expected_version=None)
            for r in read
        ]


async def check_audit(database: Database, workspaces: list[str]) -> None:
    """Raises BadDocument if the audit log of a workspace is not intact."""
    for workspace in workspaces:
        verdict = await Audit(database.records(workspace), now_ms).verify()
        if not verdict.is_sound:
            reason = "; ".join(verdict.faults[:3])
            raise BadDocument(collection="audit", key=workspace, field="chain", reason=reason)


def _read(path: Path) -> dict[str, Any]:
    try:
        return orjson.loads(path.read_bytes())
    except (OSError, orjson.JSONDecodeError) as exc:
        raise SourceUnavailable(source=str(path), reason=f"it cannot be read ({exc})") from exc
