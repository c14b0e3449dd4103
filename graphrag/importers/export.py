"""Writes a graph as a file of another tool: the file that it was read from, with what changed since.

Decision: a file is patched, not printed from nodes. What nobody touched is as it was written, also what no
reader understands; of secrets, which were never stored, placeholders. A graph that was never such a file is
written into an empty one, where all its types are types of the tool.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import orjson

from datasources.types import Graph
from graphrag.importers.align import GraphContent, aligned, ends_of
from graphrag.importers.assemble import assemble
from graphrag.importers.dispatch import FORMATS
from graphrag.importers.json_values import Json, as_dict, as_list, pieces
from graphrag.importers.n8n.node_types import is_n8n_type
from graphrag.importers.nodius.writer import export_graph
from graphrag.importers.report import NATIVE, ImportReport, Tally
from graphrag.importers.secrets import without_secrets
from graphrag.importers.type_facts import known_type
from graphrag.importers.workflow_draft import GROUP_TYPE, NOTE_TYPE, WorkflowDraft
from graphrag.importers.workflow_format import Changed, ChangedNode, ImportTarget, WorkflowFormat
from graphrag.workers import free

MAX_SOURCE_BYTES = 8 * 1024 * 1024
"""A larger file would keep the interpreter for too long, which is read in one piece."""


class NotExportable(Exception):
    """A graph cannot be said in a format; `reason` says why and what to do."""

    def __init__(self, *, graph_key: str, format: str, reason: str) -> None:
        self.graph_key, self.format, self.reason = graph_key, format, reason
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
    """Return a graph as a file; `kept` is the file that it was read from, `only` names nodes to be written.

    Raises: NotExportable.
    """
    writer = next((f for f in FORMATS if f.name == form), None)
    if writer is None:
        raise NotExportable(graph_key=content.graph.key, format=form, reason="no such format is written")
    if only is not None:
        content = _part(content, set(only))
    if form == NATIVE:
        written = export_graph(
            content.graph, content.nodes.values(), content.edges.values(), content.types.values()
        )
        return ExportResult(document=written, report=ImportReport(format=form))
    document = _source(kept, content.graph, form)
    tally = Tally()
    if document is None:
        _check_types(content, form)
        document = _empty(content.graph, form)
        changed = _of_nothing(content)
    else:
        changed = _compared(writer, document, content, tally)
    assert writer.patch is not None
    writer.patch(document, changed, tally)
    found = without_secrets(document, tally)
    for node in as_list(found.get("nodes")) or ():
        _complete_credentials(as_dict(node) or {})
    if only is not None and form == "n8n":
        found = {name: found[name] for name in ("nodes", "connections")}
    if form == "node-red" and found.keys() == {"flows"}:
        found = found["flows"]
    return ExportResult(document=found, report=tally.report(form))


def _source(kept: bytes | None, graph: Graph, form: str) -> Json | None:
    """Return the file that the graph was read from. Raises: NotExportable."""
    if kept is None:
        return None
    raw = zlib.decompressobj().decompress(kept, MAX_SOURCE_BYTES + 1)
    if len(raw) > MAX_SOURCE_BYTES:
        reason = f"its file is larger than {MAX_SOURCE_BYTES >> 20} MiB; export it as Nodius JSON"
        raise NotExportable(graph_key=graph.key, format=form, reason=reason)
    return as_dict(orjson.loads(raw))


def _part(content: GraphContent, keys: set[str]) -> GraphContent:
    """Return some nodes with the edges between them, alone."""
    edges = {key: e for key, e in content.edges.items() if e.source in keys and e.target in keys}
    return replace(content, nodes={k: n for k, n in content.nodes.items() if k in keys}, edges=edges)


def _empty(graph: Graph, form: str) -> Json:
    if form == "node-red":
        return {"flows": []}
    return {"name": graph.name, "nodes": [], "connections": {}, "settings": {"executionOrder": "v1"}}


def _check_types(content: GraphContent, form: str) -> None:
    """Raises: NotExportable, where the graph has nodes of types that the format does not know."""
    others = sorted({n.type for n in content.nodes.values() if not is_known(n.type, content, form)})
    if others:
        shown = ", ".join(others[:3]) + (", …" if len(others) > 3 else "")
        reason = f"it has nodes of types that are not of {form} ({shown}); export it as Nodius JSON"
        raise NotExportable(graph_key=content.graph.key, format=form, reason=reason)


def is_known(name: str, content: GraphContent, form: str) -> bool:
    """Say whether a format has a type: by where the type came from, or by its name."""
    if name == NOTE_TYPE:
        return True
    config = content.types.get(name)
    origin = as_dict(((config.model_extra or {}) if config else {}).get("origin")) or {}
    if form == "n8n":
        return is_n8n_type(name) or (origin.get("format") == form and name != GROUP_TYPE)
    is_red = known_type("graphrag.importers.node_red", name) is not None or name == GROUP_TYPE
    return is_red or origin.get("format") == form


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


def _compared(form: WorkflowFormat, document: Json, content: GraphContent, tally: Tally) -> Changed:
    """Read the file as an import does, and find what is otherwise in the graph."""
    assert form.draft is not None
    graph = content.graph
    target = ImportTarget(file_name="", workspace=graph.workspace, graph_key=graph.key)
    draft = form.draft(document, target)
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
        elif is_known(node.type, content, form.name) or node.type in ("subflow-in", "subflow-out"):
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


def _complete_credentials(node: Json) -> None:
    """Write credentials as n8n does; what is unknown of one is null."""
    held: Mapping[str, Any] = as_dict(node.get("credentials")) or {}
    named = {kind: {"id": None, "name": one} if isinstance(one, str) else one for kind, one in held.items()}
    if named:
        node["credentials"] = named
