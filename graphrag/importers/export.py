"""Writes a graph as a file of another tool: the file that it was read from, with
what changed since.

Decision: a file is patched, not printed from nodes. What nobody touched is as it was written, also
what no reader understands; of secrets, which were never stored, placeholders. A graph that was
never such a file is written into an empty one, where all its types are types of the tool.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import orjson

from datasources.types import Graph
from graphrag.importers.align import GraphContent, aligned, ends_of, with_keys
from graphrag.importers.assemble import assemble
from graphrag.importers.dispatch import FORMATS, import_workflow
from graphrag.importers.json_values import Json, as_dict, as_list, pieces
from graphrag.importers.nodius import export_graph
from graphrag.importers.report import NATIVE, ImportReport, Tally, UnreadableWorkflow
from graphrag.importers.secrets import without_secrets
from graphrag.importers.workflow_draft import GROUP_TYPE, NOTE_TYPE, WorkflowDraft
from graphrag.importers.workflow_format import (
    Changed,
    ChangedNode,
    FileWriter,
    ImportResult,
    ImportTarget,
    WorkflowFormat,
)
from graphrag.workers import free

MAX_SOURCE_BYTES = 8 * 1024 * 1024
"""A larger file would keep the interpreter for too long, which is read in one piece."""


class NotExportable(Exception):
    """A graph cannot be said in a format; `reason` says why and what to do."""

    def __init__(self, *, graph_key: str, format: str, reason: str) -> None:
        self.graph_key = graph_key
        self.format = format
        self.reason = reason
        super().__init__(f"{graph_key} as {format}: {reason}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportResult:
    """A file's JSON, and what of the graph is not in it."""

    document: Any
    report: ImportReport

    def text(self) -> bytes:
        return b"".join(pieces(self.document, indent=True)) + b"\n"

    def __del__(self) -> None:
        for part in (self.document, *(as_dict(self.document) or {}).values()):
            free([*(as_dict(part) or {}).values(), *(as_list(part) or ())])


def export_as(
    form: str, content: GraphContent, kept: bytes | None, *, only: Collection[str] | None = None
) -> ExportResult:
    """Return a graph as a file; `kept` is the file that it was read from, `only` names nodes
    to be written.

    Raises: NotExportable.
    """
    if only is not None:  # with the edges between these nodes
        nodes = {key: content.nodes[key] for key in content.nodes if key in set(only)}
        edges = {
            key: e for key, e in content.edges.items() if e.source in nodes and e.target in nodes
        }
        content = replace(content, nodes=nodes, edges=edges)
    if form == NATIVE:
        written = export_graph(
            content.graph, content.nodes.values(), content.edges.values(), content.types.values()
        )
        return ExportResult(document=written, report=ImportReport(format=form))
    known, writer = _written(form, content)
    tally = Tally()
    document, _ = _patched(known, writer, content, kept, tally)
    found = writer.finish(without_secrets(document, tally), only is not None)
    return ExportResult(document=found, report=tally.report(form))


def reimported(
    form: str, content: GraphContent, kept: bytes | None, file_name: str
) -> ImportResult | None:
    """Returns what an import of the file that an export writes now would read, under the keys
    of the graph.

    That is the graph as far as the format can say it. None where the format cannot be written or
    says nothing of the graph.
    """
    graph = content.graph
    tally = Tally()
    try:
        known, writer = _written(form, content)
        document, raws = _patched(known, writer, content, kept, tally)
        target = ImportTarget(file_name=file_name, workspace=graph.workspace, graph_key=graph.key)
        draft = known.read(document, target, Tally())
        text = orjson.dumps(writer.finish(without_secrets(document, tally), False))
        read = import_workflow(
            text, file_name=file_name, workspace=graph.workspace, graph_key=graph.key
        )
    except (NotExportable, UnreadableWorkflow):
        return None
    keys = {id(raw): key for key, raw in raws.items()}
    drafts = draft.nodes if isinstance(draft, WorkflowDraft) else ()
    return with_keys(
        read, {n.key: keys[id(one.raw)] for n, one in zip(read.nodes, drafts, strict=True)}, content
    )


def _written(form: str, content: GraphContent) -> tuple[WorkflowFormat, FileWriter]:
    """Returns the format and its writer. Raises: NotExportable."""
    known = next((f for f in FORMATS if f.name == form), None)
    if known is None or known.writer is None:
        raise NotExportable(
            graph_key=content.graph.key, format=form, reason="no such format is written"
        )
    return known, known.writer


def _patched(
    form: WorkflowFormat,
    writer: FileWriter,
    content: GraphContent,
    kept: bytes | None,
    tally: Tally,
) -> tuple[Json, Mapping[str, Json]]:
    """Returns the file with what changed in the graph, and its entries by the keys of their nodes.

    Raises: NotExportable.
    """
    document = _source(kept, content.graph, form)
    if document is None:
        _check_types(content, form.name, writer)
        document = writer.empty(content.graph)
        changed = _of_nothing(content)
    else:
        changed = _compared(form, writer, document, content, tally)
    return document, writer.patch(document, changed, tally)


def _source(kept: bytes | None, graph: Graph, form: WorkflowFormat) -> Json | None:
    """Return the file that the graph was read from, as it would be kept
    today. Raises: NotExportable.
    """
    if kept is None:
        return None
    raw = zlib.decompressobj().decompress(kept, MAX_SOURCE_BYTES + 1)
    if len(raw) > MAX_SOURCE_BYTES:
        reason = f"its file is larger than {MAX_SOURCE_BYTES >> 20} MiB; export it as Nodius JSON"
        raise NotExportable(graph_key=graph.key, format=form.name, reason=reason)
    document = as_dict(orjson.loads(raw))
    return document and (form.recognise(document, Tally()) or document)


def _check_types(content: GraphContent, form: str, writer: FileWriter) -> None:
    """Raises: NotExportable, where the graph has nodes of types that the format does not know."""
    others = sorted(
        {n.type for n in content.nodes.values() if not is_known(n.type, content, form, writer)}
    )
    if others:
        shown = ", ".join(others[:3]) + (", …" if len(others) > 3 else "")
        reason = f"it has nodes of types that are not of {form} ({shown}); export it as Nodius JSON"
        raise NotExportable(graph_key=content.graph.key, format=form, reason=reason)


def is_known(name: str, content: GraphContent, form: str, writer: FileWriter) -> bool:
    """Say whether a format has a type: by its name, or by where the type came from."""
    config = content.types.get(name)
    origin = as_dict(((config.model_extra or {}) if config else {}).get("origin")) or {}
    is_from = origin.get("format") == form and name != GROUP_TYPE
    return name == NOTE_TYPE or is_from or writer.has_type(name)


def _of_nothing(content: GraphContent) -> Changed:
    graph = content.graph
    return Changed(
        draft=WorkflowDraft(format="", name=""),
        keys={},
        before=graph.replace(sheets_list={}),
        graph=graph,
        nodes={key: ChangedNode(node=node) for key, node in content.nodes.items()},
        gone=(),
        added=[ends_of(edge) for edge in content.edges.values()],
        removed=frozenset(),
    )


def _compared(
    form: WorkflowFormat, writer: FileWriter, document: Json, content: GraphContent, tally: Tally
) -> Changed:
    """Read the file as an import does, and find what is otherwise in the graph."""
    graph = content.graph
    target = ImportTarget(file_name="", workspace=graph.workspace, graph_key=graph.key)
    draft = form.read(document, target, Tally())
    assert isinstance(draft, WorkflowDraft)
    read = aligned(assemble(draft, target), content)
    keys = {one: node.key for one, node in zip(draft.nodes, read.nodes, strict=True)}
    before = {node.key: (node, one) for one, node in zip(draft.nodes, read.nodes, strict=True)}
    was = {ends_of(edge): edge for edge in read.edges}
    now = {ends_of(edge): edge for edge in content.edges.values()}
    for ends in was.keys() & now.keys():
        if was[ends].label != now[ends].label:
            tally.drop("label", "the format has no labels of edges", str(now[ends].label or ""))
    nodes: dict[str, ChangedNode] = {}
    for key, node in content.nodes.items():
        if key in before:
            nodes[key] = ChangedNode(node=node, before=before[key][0], draft=before[key][1])
        elif is_known(node.type, content, form.name, writer):
            nodes[key] = ChangedNode(node=node)
        else:
            tally.drop("node", "its type is not one of the format", f"{key} ({node.type})")
    return Changed(
        draft=draft,
        keys=keys,
        before=read.graph,
        graph=graph,
        nodes=nodes,
        gone=[one for one in draft.nodes if keys[one] not in content.nodes],
        added=[ends for ends in now if ends not in was],
        removed=frozenset(was.keys() - now.keys()),
    )
