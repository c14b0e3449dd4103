"""Nodius JSON, which is imported without loss. An invalid file is refused with the reason; nothing
is guessed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from typing import Any, TypeVar

from datasources.errors import BadDocument, InvalidMutation
from datasources.mutations import Existing, check_mutation
from datasources.types import Document, Edge, Graph, Mutation, Node, NodeTypeConfig, parse_document
from graphrag.importers.json_values import Json, as_dict, as_list, rest
from graphrag.importers.report import NATIVE, Tally, UnreadableWorkflow
from graphrag.importers.workflow_format import (
    MAX_EDGES,
    MAX_NODES,
    ImportResult,
    ImportTarget,
    WorkflowFormat,
    check_size,
)

FORMAT = "nodius"
FORMAT_VERSION = 1

# Fields computed by a database from a node; each database computes its own.
DERIVED_FIELDS = frozenset({"embedding", "embeddingModel", "embeddingHash"})
_FIELDS = frozenset({"format", "formatVersion", "graph", "nodes", "edges", "configs"})
D = TypeVar("D", bound=Document)


def _recognise(document: Any, _tally: Tally) -> Json | None:
    """Recognises an export, and one without `format` and `formatVersion`, which counts as version
    1.
    """
    fields = as_dict(document)
    if fields is None or fields.get("format") == FORMAT:
        return fields
    if not {"graph", "nodes", "edges"} <= fields.keys() or "connections" in fields:
        return None
    if "format" in fields or "configs" not in fields:
        reason = 'it looks like Nodius JSON, but its "format" is not "nodius" or its "configs" are missing'
        raise UnreadableWorkflow(reason=reason)
    return {"format": FORMAT, "formatVersion": 1, **fields}


def _read(document: Json, target: ImportTarget, tally: Tally) -> ImportResult:
    """Returns the exported graph in the target's workspace, under the target's key if there
    is one.
    """
    workspace = target.workspace
    graph_key = target.graph_key
    for name, most in (("nodes", MAX_NODES), ("edges", MAX_EDGES)):
        check_size(name, len(as_list(document.get(name)) or ()), most)
    try:
        _check_frame(document)
        fields = {**rest(_object(document.get("graph"), "graphs"), frozenset({"revision"}))}
        graph = parse_document(Graph, {**fields, "workspace": workspace}, "graphs")
        graph = graph if graph_key in (None, graph.key) else graph.replace(key=graph_key)
        file_key = document["graph"]["_key"]
        nodes = _documents(
            Node, _without_vectors(document["nodes"], tally), "nodes", graph.key, file_key
        )
        edges = _documents(Edge, document["edges"], "edges", graph.key, file_key)
        configs = _read_configs(document["configs"], workspace)
        whole = Mutation(graph_key=graph.key, put_nodes=nodes, put_edges=edges, put_configs=configs)
        check_mutation(whole, graph=graph, existing=Existing())
    except BadDocument as exc:
        raise UnreadableWorkflow(reason=str(exc)) from exc
    except InvalidMutation as exc:
        shown = ", ".join(exc.keys[:5])
        raise UnreadableWorkflow(reason=f"{exc.reason}: {shown}") from exc
    _report_missing_handles(nodes, edges, tally)
    return ImportResult(
        graph=graph, nodes=nodes, edges=edges, configs=configs, report=tally.report(NATIVE)
    )


NODIUS = WorkflowFormat(
    name=FORMAT, title="Nodius JSON", recognise=_recognise, read=_read, keeps_secrets=True
)


def _check_frame(document: Json) -> None:
    version: Any = document.get("formatVersion")
    if version is True or version != FORMAT_VERSION:
        raise UnreadableWorkflow(
            reason=f"formatVersion is {version!r}, this program reads {FORMAT_VERSION}: upgrade the program "
            "or export again"
        )
    unknown = sorted(document.keys() - _FIELDS)
    if unknown:
        raise UnreadableWorkflow(reason=f"unknown field {unknown[0]!r} beside graph and nodes")
    for field in ("nodes", "edges", "configs"):
        if as_list(document.get(field)) is None:
            raise UnreadableWorkflow(reason=f"the field {field!r} must be a list")


def _object(raw: Any, collection: str, place: int | None = None) -> Json:
    fields = as_dict(raw)
    if fields is None:
        where = "(document)" if place is None else f"number {place}"
        raise BadDocument(collection=collection, key="?", field=where, reason="must be an object")
    return fields


def _documents(
    model: type[D], listed: list[Any], collection: str, graph_key: str, file_key: str
) -> tuple[D, ...]:
    documents: list[D] = []
    for place, raw in enumerate(listed, start=1):
        fields = _object(raw, collection, place)
        owner = fields.get("graphKey", file_key)
        if owner != file_key:
            raise BadDocument(
                collection=collection,
                key=str(fields.get("_key", "?")),
                field="graphKey",
                reason=f"is {owner!r}, but the graph of this file is {file_key!r}",
            )
        documents.append(parse_document(model, {**fields, "graphKey": graph_key}, collection))
    return tuple(documents)


def _without_vectors(listed: list[Any], tally: Tally) -> list[Any]:
    kept: list[Any] = []
    for place, raw in enumerate(listed, start=1):
        fields = as_dict(raw)
        if fields is not None and not DERIVED_FIELDS.isdisjoint(fields):
            tally.drop("vector", "vectors are computed again", str(fields.get("_key", place)))
            kept.append(rest(fields, DERIVED_FIELDS))
        else:
            kept.append(raw)
    return kept


def _read_configs(listed: list[Any], workspace: str) -> tuple[NodeTypeConfig, ...]:
    documents = [_object(raw, "node_configs", place) for place, raw in enumerate(listed, start=1)]
    read = (
        parse_document(NodeTypeConfig, {**d, "workspace": workspace}, "node_configs")
        for d in documents
    )
    return tuple(read)


def _report_missing_handles(nodes: Sequence[Node], edges: Sequence[Edge], tally: Tally) -> None:
    points = {
        (node.key, point.type, point.id)
        for node in nodes
        for group in node.handles.values()
        for point in group.point
    }
    for edge in edges:
        ends = ((edge.source, "out", edge.source_handle), (edge.target, "in", edge.target_handle))
        if not points.issuperset(ends):
            tally.repair(
                "edge", "it uses a handle that its node does not have; kept unchanged", edge.key
            )


def export_graph(
    graph: Graph, nodes: Iterable[Node], edges: Iterable[Edge], configs: Iterable[NodeTypeConfig]
) -> dict[str, Any]:
    """Returns `{format, formatVersion, graph, nodes, edges, configs}`, each list ordered by key.

    Omits the revision and the vectors, which belong to a database, and node types that no node
    uses.
    """
    listed = sorted(nodes, key=lambda node: node.key)
    return {
        "format": FORMAT,
        "formatVersion": FORMAT_VERSION,
        "graph": graph_document(graph),
        "nodes": [node_document(node) for node in listed],
        "edges": [edge.to_document() for edge in sorted(edges, key=lambda edge: edge.key)],
        "configs": config_documents(configs, {node.type for node in listed}),
    }


def graph_document(graph: Graph) -> dict[str, Any]:
    return rest(graph.to_document(), frozenset({"revision"}))


def node_document(node: Node) -> dict[str, Any]:
    return rest(node.to_document(), DERIVED_FIELDS)


def config_documents(configs: Iterable[NodeTypeConfig], used: Set[str]) -> list[dict[str, Any]]:
    """Returns the documents of the used node types, ordered by key."""
    ordered = sorted(configs, key=lambda config: config.key)
    return [config.to_document() for config in ordered if config.type in used]
