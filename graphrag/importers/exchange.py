"""Imports files into a store, as new graphs or as updates, and exports whole graphs."""

from __future__ import annotations

import asyncio
import base64
import sys
import zlib
from collections.abc import Awaitable, Collection, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from datasources.base import MutableGraphDataSource, Record, RecordWrite
from datasources.builtin_types import types_by_name
from datasources.errors import (
    BadDocument,
    GraphExists,
    GraphNotFound,
    InvalidMutation,
    RecordConflict,
    RevisionConflict,
)
from datasources.types import Document, Graph
from graphrag.approvals import Approvals, Person
from graphrag.approvals.imported_changes import THREAD, FileChange, open_conflicts
from graphrag.i18n import Language
from graphrag.importers import (
    GraphContent,
    ImportReport,
    ImportResult,
    Merged,
    UnreadableWorkflow,
    export_graph,
    merged,
)
from graphrag.importers.align import aligned, under_key
from graphrag.importers.dispatch import separated
from graphrag.importers.export import ExportResult, export_as, reimported
from graphrag.importers.readable_keys import key_fault, own_key
from graphrag.importers.reading_files import read_file
from graphrag.importers.report import Remark
from graphrag.importers.returning_files import returning_graph
from graphrag.importers.three_way_merge import OpenConflicts, completed
from graphrag.leases import now_ms
from graphrag.workers import free, run_limited
from tools.actions.field_changes import json_document
from tools.proposal_parts import ImportFile

# The kind of records that keep imported files: one for each graph, under its key.
KIND = "imports"

# The name of a file that is read again from the store; some formats name a graph by it.
KEPT_NAME = "the file imported before"

# Attempts to store an import while others change the graph.
ATTEMPTS = 20
MAX_FILE_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOutcome:
    """The result of importing one file: a graph created, updated or unchanged, or the reason of a
    refusal.

    `nodes` and `edges` count those of the graph afterwards. `taken` counts the documents that the
    file changed, `kept` those changed by people that stay as they are, `conflicts` those that
    `approval` proposes to change.
    """

    file: str
    graph_key: str = ""
    format: str = ""
    action: str = ""
    nodes: int = 0
    edges: int = 0
    taken: int = 0
    kept: int = 0
    conflicts: int = 0
    approval: str | None = None
    report: ImportReport | None = None
    merge_remarks: tuple[Remark, ...] = ()
    refused: str | None = None

    def remarks(self, language: Language = "en") -> list[str]:
        """Returns one sentence for everything dropped, repaired, kept or left to a decision."""
        report = self.report.lines(language) if self.report else []
        return [*report, *(remark.line(language) for remark in self.merge_remarks)]

    def as_dict(self, language: Language = "en") -> dict[str, Any]:
        names = ("nodes", "edges", "taken", "kept", "conflicts", "approval")
        return {
            "file": self.file,
            "graph": self.graph_key or None,
            "format": self.format or None,
            "action": self.action or "refused",
            **{name: getattr(self, name) for name in names},
            "remarks": self.remarks(language),
            "refused": self.refused,
        }


async def import_file(
    approvals: Approvals,
    file: Path,
    by: Person,
    *,
    graph_key: str | None = None,
    replaces: bool = False,
    language: str | None = None,
) -> list[ImportOutcome]:
    """Imports the workflows of one file, usually one. A refusal is part of the outcome.

    Raises: errors of a store that cannot be used; nothing for a bad file.
    """
    # A file name may be any bytes.
    shown = str(file).encode("utf-8", "backslashreplace").decode()
    name = "stdin.json" if shown == "-" else file.name.encode("utf-8", "replace").decode()
    try:
        raw = await asyncio.to_thread(_read, file)
        parts = [raw] if graph_key is not None else await asyncio.to_thread(separated, raw)
    except UnreadableWorkflow as exc:
        return [ImportOutcome(file=shown, refused=exc.reason)]
    importing = partial(import_bytes, graph_key=graph_key, replaces=replaces, language=language)
    return [
        await _outcome_of(importing(approvals, part, by, file_name=name), shown) for part in parts
    ]


async def _outcome_of(importing: Awaitable[ImportOutcome], shown: str) -> ImportOutcome:
    try:
        return replace(await importing, file=shown)
    except UnreadableWorkflow as exc:
        return ImportOutcome(file=shown, refused=exc.reason)
    except (BadDocument, InvalidMutation, RevisionConflict) as exc:
        # The error concerns this file alone; further files may be imported.
        return ImportOutcome(file=shown, refused=str(exc))


def _read(file: Path) -> bytes:
    """Returns the bytes of a file, of standard input for `-`. Raises: UnreadableWorkflow."""
    try:
        if file.is_dir():
            raise UnreadableWorkflow(file=str(file), reason="it is a folder; name the files in it")
        with nullcontext(sys.stdin.buffer) if str(file) == "-" else file.open("rb") as stream:
            raw = stream.read(MAX_FILE_BYTES + 1)
    except OSError as exc:
        raise UnreadableWorkflow(file=str(file), reason=exc.strerror or str(exc)) from exc
    if len(raw) > MAX_FILE_BYTES:
        raise UnreadableWorkflow(
            file=str(file), reason=f"it is larger than {MAX_FILE_BYTES >> 20} MiB"
        )
    return raw


async def import_bytes(
    approvals: Approvals,
    raw: bytes,
    by: Person,
    *,
    file_name: str,
    graph_key: str | None = None,
    is_shared: bool = False,
    replaces: bool = False,
    language: str | None = None,
) -> ImportOutcome:
    """Imports a workflow as a new graph, or merges it into the graph of its earlier import.

    With `replaces` that graph becomes equal to the file and changes by people are lost. `language`
    is that of a new graph's texts, if it cannot be detected. If the store `is_shared` by
    workspaces, a new graph's key gets an ending of its workspace: keys are unique in a store, and
    trying keys must not reveal those of other workspaces.
    Raises: UnreadableWorkflow, WorkersBusy, NotAllowed, RevisionConflict if others keep changing
    the graph.
    """
    read: list[Document] = []
    try:
        result = await read_file(
            raw, file_name=file_name, workspace=approvals.source.workspace, graph_key=graph_key
        )
        read += (*result.nodes, *result.edges)
        if language is not None:
            result = replace(result, graph=result.graph.replace(language=language))
        importing = _Import(approvals=approvals, by=by, file_name=file_name, replaces=replaces)
        return await importing.store(result, is_shared=is_shared, is_named=graph_key is not None)
    finally:
        free(read)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Import:
    """Stores the content of one file."""

    approvals: Approvals
    by: Person
    file_name: str
    replaces: bool

    async def store(
        self, result: ImportResult, *, is_shared: bool, is_named: bool
    ) -> ImportOutcome:
        """Stores the result. Unless it `is_named` its key is derived from names, which may have
        changed since the last import.
        """
        source = self.approvals.source
        for attempt in range(ATTEMPTS):
            ours = await read_content(source, result.graph.key)
            if ours is None and is_shared:
                workspace_key = own_key(result.graph.key, source.workspace)
                result = await asyncio.to_thread(under_key, result, workspace_key)
                ours = await read_content(source, workspace_key)
            if ours is None and not is_named and (key := await returning_graph(source, result)):
                result = await asyncio.to_thread(under_key, result, key)
                ours = await read_content(source, key)
            try:
                return await (self._create(result) if ours is None else self._merge(result, ours))
            except (RevisionConflict, RecordConflict, GraphExists):
                if attempt == ATTEMPTS - 1:
                    raise
        raise AssertionError("unreachable")

    async def _create(self, result: ImportResult) -> ImportOutcome:
        fault = key_fault(result.graph.key)
        if fault is not None:
            reason = f"{fault}; this one is {result.graph.key!r}: choose another key"
            raise UnreadableWorkflow(file=self.file_name, reason=reason)
        source = self.approvals.source
        now = now_ms()
        graph = result.graph
        graph = graph.replace(
            created_time=graph.created_time or now, last_updated_time=graph.last_updated_time or now
        )
        types = types_by_name(await source.get_node_configs())
        nothing = GraphContent(graph=graph, nodes={}, edges={}, types=types)
        file = GraphContent.of(replace(result, graph=graph))
        form = result.report.format
        new = await asyncio.to_thread(merged, nothing, replace(nothing, types={}), file, form=form)
        kept = self._record(result, graph, await self.approvals.records.get(KIND, graph.key))
        facts = {"event": "imported", "graphKey": graph.key, "file": self.file_name, "revision": 1}
        try:
            await self.approvals.audit.record(
                {**facts, "userId": self.by.user_id, "role": self.by.role},
                lambda entry: source.create_graph(graph, new.mutation, [kept, *entry]),
            )
        except GraphExists as exc:
            # If this workspace has created the graph meanwhile, the next attempt merges.
            if await read_content(source, graph.key) is not None:
                raise
            reason = (
                f"the graph key {graph.key!r} is taken in another workspace; choose another key"
            )
            raise UnreadableWorkflow(file=self.file_name, reason=reason) from exc
        remarks = (
            *new.remarks,
            *(Remark("type_kept", type=config.type) for config in new.types.values()),
        )
        counts = {"nodes": len(result.nodes), "edges": len(result.edges)}
        return self._outcome(result, action="created", merge_remarks=remarks, **counts)

    async def _merge(self, result: ImportResult, ours: GraphContent) -> ImportOutcome:
        record = await self.approvals.records.get(KIND, ours.graph.key)
        kept = kept_file(record, ours.graph)
        source = None if kept is None else base64.b64decode(kept["source"])
        if source == result.kept and not self.replaces:
            return self._outcome(
                result, action="unchanged", nodes=len(ours.nodes), edges=len(ours.edges)
            )
        older = await self.approvals.waiting(graph_key=ours.graph.key, thread_id=THREAD)
        before = None if source is None or self.replaces else await read_kept(source, ours.graph)
        conflicts = {} if self.replaces else open_conflicts(older)
        has_file = kept is not None and kept.get("format") == result.report.format
        file = source if has_file else None
        change, plan = await asyncio.to_thread(self._planned, ours, before, result, conflicts, file)
        write = self._record(result, ours.graph, record)
        stored = await self.approvals.store_file(
            replace(change, records=[write], older=older), self.by
        )
        waiting = stored.waiting.id if stored.waiting else None
        remarks = [*plan.remarks]
        m = plan.mutation
        if plan.kept:
            remarks.append(Remark("kept", n=plan.kept))
        if plan.conflicts:
            code = "proposed" if waiting else "unfit"
            remarks.append(Remark(code, n=plan.conflicts, approval=waiting or ""))
        return self._outcome(
            result,
            action="updated" if stored.applied else "unchanged",
            nodes=len(
                {*ours.nodes, *(node.key for node in m.put_nodes)}.difference(m.delete_nodes)
            ),
            edges=len(
                {*ours.edges, *(edge.key for edge in m.put_edges)}.difference(m.delete_edges)
            ),
            taken=plan.taken,
            kept=plan.kept,
            conflicts=plan.conflicts,
            approval=waiting,
            merge_remarks=tuple(remarks),
        )

    def _planned(
        self,
        ours: GraphContent,
        before: ImportResult | None,
        result: ImportResult,
        conflicts: OpenConflicts,
        kept: bytes | None,
    ) -> tuple[FileChange, Merged]:
        """Compares the file with the graph. `before` is the file as it was imported last, `kept`
        its stored JSON.
        """
        written = reimported(result.report.format, ours, kept, self.file_name)
        base = None if before is None else GraphContent.of(aligned(before, ours, written=written))
        graphs = [ours] if base is None else [base, ours]
        theirs = GraphContent.of(aligned(result, *graphs, written=written))
        if written is not None:
            theirs = completed(theirs, GraphContent.of(written), ours)
        if self.replaces:
            base = replace(ours, types={})
        plan = merged(ours, base, theirs, form=result.report.format, open_conflicts=conflicts)
        proposed = ImportFile(
            file=self.file_name,
            put_nodes=[json_document(node) for node in plan.nodes.values() if node is not None],
            put_edges=[json_document(edge) for edge in plan.edges.values() if edge is not None],
            delete_nodes=[key for key, node in plan.nodes.items() if node is None],
            delete_edges=[key for key, edge in plan.edges.items() if edge is None],
            put_types=[json_document(config) for config in plan.types.values()] or None,
            put_graph=dict(plan.fields) or None,
        )
        change = FileChange(
            file=self.file_name, before=ours, mutation=plan.mutation, proposed=proposed
        )
        return change, plan

    def _record(self, result: ImportResult, graph: Graph, old: Record | None) -> RecordWrite:
        source = base64.b64encode(result.kept).decode()
        file = {"file": self.file_name, "format": result.report.format, "source": source}
        return keeping_file(file, graph, old)

    def _outcome(self, result: ImportResult, **more: Any) -> ImportOutcome:
        return ImportOutcome(
            file=self.file_name,
            graph_key=result.graph.key,
            format=result.report.format,
            report=result.report,
            **more,
        )


async def read_kept(kept: bytes, graph: Graph) -> ImportResult:
    """Reads the stored file of an earlier import with the present reader.

    Raises: UnreadableWorkflow, WorkersBusy.
    """
    raw = await asyncio.to_thread(zlib.decompress, kept)
    return await read_file(raw, file_name=KEPT_NAME, workspace=graph.workspace, graph_key=graph.key)


def kept_file(record: Record | None, graph: Graph) -> dict[str, Any] | None:
    """Returns the stored import of a graph, None if the record belongs to an earlier graph of the
    same key.
    """
    is_its = record is not None and record.data.get("createdTime") == graph.created_time
    return {**record.data} if record is not None and is_its else None


def kept_source(record: Record | None, graph: Graph) -> bytes | None:
    """Returns the JSON of a graph's last import without its secrets, None where there is none."""
    kept = kept_file(record, graph)
    return zlib.decompress(base64.b64decode(kept["source"])) if kept is not None else None


def keeping_file(file: Mapping[str, Any], graph: Graph, old: Record | None) -> RecordWrite:
    """Returns the write that stores an imported file, replacing the record `old`."""
    data = {**file, "graphKey": graph.key, "createdTime": graph.created_time}
    return RecordWrite(
        kind=KIND, key=graph.key, data=data, expected_version=old.version if old else None
    )


async def read_content(source: MutableGraphDataSource, graph_key: str) -> GraphContent | None:
    """Returns a whole graph, None if it does not exist."""
    try:
        graph: Graph = await source.get_graph(graph_key)
    except GraphNotFound:
        return None
    return GraphContent(
        graph=graph,
        nodes={node.key: node for node in await source.get_nodes(graph_key)},
        edges={edge.key: edge for edge in await source.get_edges(graph_key)},
        types=types_by_name(await source.get_node_configs()),
    )


async def export_file(
    approvals: Approvals, graph_key: str, form: str, *, only: Collection[str] | None = None
) -> ExportResult:
    """Returns a graph, or the nodes `only`, as a file of a format, with a report of what it omits.

    Raises: GraphNotFound, NotExportable, WorkersBusy.
    """
    content = await read_content(approvals.source, graph_key)
    if content is None:
        raise GraphNotFound(graph_key=graph_key)
    kept = kept_file(await approvals.records.get(KIND, graph_key), content.graph)
    source = base64.b64decode(kept["source"]) if kept and kept.get("format") == form else None
    return await run_limited(export_as, form, content, source, only=only)


async def export_document(source: MutableGraphDataSource, graph_key: str) -> dict[str, Any]:
    """Returns a graph as one Nodius JSON document. Raises: GraphNotFound."""
    graph = await source.get_graph(graph_key)
    nodes = await source.get_nodes(graph_key)
    edges = await source.get_edges(graph_key)
    types = sorted({node.type for node in nodes})
    configs = await source.get_node_configs(types) if types else []
    return export_graph(graph, nodes, edges, configs)
