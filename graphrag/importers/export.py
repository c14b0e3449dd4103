"""Writes a graph as a file of another tool: the imported file with the changes made since.

Decision: an imported file is patched instead of being written anew from the nodes. Unchanged parts
stay as they were, including fields that no reader understands. Secrets were never stored, so the
file has placeholders for them. A graph that was not imported from such a file is written into an
empty one, if the tool has all its node types.
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

# A larger file is not parsed: it is parsed in one step, which would block the interpreter for too
# long.
MAX_SOURCE_BYTES = 8 * 1024 * 1024


class NotExportable(Exception):
    """The graph cannot be written in a format; `reason` says why and what to do."""

    def __init__(self, *, graph_key: str, format: str, reason: str) -> None:
        self.graph_key = graph_key
        self.format = format
        self.reason = reason
        super().__init__(f"{graph_key} as {format}: {reason}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportResult:
    """The JSON of a file, and a report of what it could not include."""

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
    """Returns a graph as a file. `kept` is the file that it was imported from, compressed; `only`
    are the keys of the nodes to write, all if None.

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
    workflow_format, writer = _written(form, content)
    tally = Tally()
    source = _source(kept, content.graph, workflow_format)
    document, _ = _patched(workflow_format, writer, content, source, tally)
    finished = writer.finish(without_secrets(document, tally), only is not None)
    return ExportResult(document=finished, report=tally.report(form))


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchedFile:
    """A file of a graph without its secrets, as it is and with the graph's changes.

    A secret that was typed into the graph since is in `after`. `report` counts the changes that
    the format cannot express.
    """

    before: Any
    after: Any
    report: ImportReport


def patched_file(form: str, content: GraphContent, document: Any) -> PatchedFile:
    """Returns a graph's changes of a file that another program holds at this moment.

    The file is the one that the graph was made from, or a later version of it that was merged into
    the graph. Raises: NotExportable, UnreadableWorkflow.
    """
    workflow_format, writer = _written(form, content)
    tally = Tally()
    file, _ = _patched(workflow_format, writer, content, _clean(document, workflow_format), tally)
    return PatchedFile(
        before=file_without_secrets(form, document),
        after=writer.finish(file, False),
        report=tally.report(form),
    )


def file_without_secrets(form: str, document: Any) -> Any:
    """Returns a file as `patched_file` compares it. Raises: UnreadableWorkflow."""
    workflow_format = next(each for each in FORMATS if each.name == form)
    assert workflow_format.writer is not None
    cleaned = without_secrets(_clean(document, workflow_format))
    return workflow_format.writer.finish(cleaned, False)


def _clean(document: Any, workflow_format: WorkflowFormat) -> Json:
    """Returns a file as an import reads it, without secrets. Raises: UnreadableWorkflow."""
    recognised = workflow_format.recognise(without_secrets(document), Tally())
    if recognised is None:
        raise UnreadableWorkflow(reason=f"it is not {workflow_format.title}")
    return recognised


def reimported(
    form: str, content: GraphContent, kept: bytes | None, file_name: str
) -> ImportResult | None:
    """Exports the graph and returns the result of importing that file, under the keys of the graph.

    It shows how much of the graph the format can express. None if the format cannot be written or
    the exported file cannot be imported.
    """
    graph = content.graph
    tally = Tally()
    try:
        workflow_format, writer = _written(form, content)
        source = _source(kept, graph, workflow_format)
        document, raws = _patched(workflow_format, writer, content, source, tally)
        target = ImportTarget(file_name=file_name, workspace=graph.workspace, graph_key=graph.key)
        draft = workflow_format.read(document, target, Tally())
        text = orjson.dumps(writer.finish(without_secrets(document, tally), False))
        result = import_workflow(
            text, file_name=file_name, workspace=graph.workspace, graph_key=graph.key
        )
    except (NotExportable, UnreadableWorkflow):
        return None
    keys = {id(raw): key for key, raw in raws.items()}
    drafts = draft.nodes if isinstance(draft, WorkflowDraft) else ()
    return with_keys(
        result, {n.key: keys[id(d.raw)] for n, d in zip(result.nodes, drafts, strict=True)}, content
    )


def _written(form: str, content: GraphContent) -> tuple[WorkflowFormat, FileWriter]:
    """Returns the format of this name and its writer. Raises: NotExportable."""
    workflow_format = next((f for f in FORMATS if f.name == form), None)
    if workflow_format is None or workflow_format.writer is None:
        raise NotExportable(
            graph_key=content.graph.key, format=form, reason="no such format is written"
        )
    return workflow_format, workflow_format.writer


def _patched(
    form: WorkflowFormat,
    writer: FileWriter,
    content: GraphContent,
    document: Json | None,
    tally: Tally,
) -> tuple[Json, Mapping[str, Json]]:
    """Returns the file with the changes of the graph, and the entries of its nodes by key.

    `document` is the file without secrets; None: a new one. Raises: NotExportable.
    """
    if document is None:
        _check_types(content, form.name, writer)
        document = writer.empty(content.graph)
        changed = _all_new(content)
    else:
        changed = _compared(form, writer, document, content, tally)
    return document, writer.patch(document, changed, tally)


def _source(kept: bytes | None, graph: Graph, form: WorkflowFormat) -> Json | None:
    """Returns the imported file, reduced as a new import would reduce it. Raises: NotExportable."""
    if kept is None:
        return None
    raw = zlib.decompressobj().decompress(kept, MAX_SOURCE_BYTES + 1)
    if len(raw) > MAX_SOURCE_BYTES:
        reason = f"its file is larger than {MAX_SOURCE_BYTES >> 20} MiB; export it as Nodius JSON"
        raise NotExportable(graph_key=graph.key, format=form.name, reason=reason)
    document = as_dict(orjson.loads(raw))
    return document and (form.recognise(document, Tally()) or document)


def _check_types(content: GraphContent, form: str, writer: FileWriter) -> None:
    """Raises NotExportable if the graph has nodes of types that the format does not have."""
    others = sorted(
        {n.type for n in content.nodes.values() if not is_known(n.type, content, form, writer)}
    )
    if others:
        shown = ", ".join(others[:3]) + (", …" if len(others) > 3 else "")
        reason = f"it has nodes of types that are not of {form} ({shown}); export it as Nodius JSON"
        raise NotExportable(graph_key=content.graph.key, format=form, reason=reason)


def is_known(name: str, content: GraphContent, form: str, writer: FileWriter) -> bool:
    """Returns whether a format has a type, by the type's name or by its origin."""
    config = content.types.get(name)
    origin = as_dict(((config.model_extra or {}) if config else {}).get("origin")) or {}
    is_from = origin.get("format") == form and name != GROUP_TYPE
    return name == NOTE_TYPE or is_from or writer.has_type(name)


def _all_new(content: GraphContent) -> Changed:
    """Returns the changes from an empty file: everything in the graph is new."""
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
    """Reads the file as an import does, and returns its differences from the graph."""
    graph = content.graph
    target = ImportTarget(file_name="", workspace=graph.workspace, graph_key=graph.key)
    draft = form.read(document, target, Tally())
    assert isinstance(draft, WorkflowDraft)
    imported = aligned(assemble(draft, target), content)
    pairs = list(zip(draft.nodes, imported.nodes, strict=True))
    keys = {node_draft: node.key for node_draft, node in pairs}
    before = {node.key: (node, node_draft) for node_draft, node in pairs}
    was = {ends_of(edge): edge for edge in imported.edges}
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
            tally.drop("node", "the format does not have its type", f"{key} ({node.type})")
    return Changed(
        draft=draft,
        keys=keys,
        before=imported.graph,
        graph=graph,
        nodes=nodes,
        gone=[node_draft for node_draft in draft.nodes if keys[node_draft] not in content.nodes],
        added=[ends for ends in now if ends not in was],
        removed=frozenset(was.keys() - now.keys()),
    )
