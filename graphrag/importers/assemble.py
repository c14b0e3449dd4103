"""Turns a draft into documents: keys, sheets, handles, and what an earlier import decided."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from datasources.types import Edge, Graph, Handles, Node, NodeTypeConfig
from graphrag.importers.draft import Draft, DraftNode
from graphrag.importers.keys import KeyMaker, edge_key, node_key_base
from graphrag.importers.known import ORIGIN, ExistingGraph, is_imported, match_nodes
from graphrag.importers.report import ImportReport
from graphrag.importers.sheets import SheetPlan, plan_sheets
from graphrag.importers.type_configs import handles_of, make_configs, union_of
from graphrag.importers.values import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportResult:
    """A file as documents of one graph, ready for `to_mutation`, and what is to be said about it.

    `configs` are the node types to store; those that the workspace has already are not among them.
    """

    graph: Graph
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    configs: tuple[NodeTypeConfig, ...]
    report: ImportReport


def assemble(
    draft: Draft,
    *,
    workspace: str,
    graph_key: str,
    existing: ExistingGraph | None = None,
    known_types: Sequence[NodeTypeConfig] = (),
) -> ImportResult:
    """Return the draft as documents, with the keys that an earlier import of it gave."""
    before = match_nodes(draft.nodes, existing.nodes if existing else (), draft.format)
    _give_keys(draft, before, existing)
    sheets = plan_sheets(draft.sheets, existing, draft.format)
    nodes = _nodes(draft, graph_key, sheets, before, _handles_people_use(draft, existing))
    edges = _edges(draft, graph_key, sheets, existing)
    configs = make_configs(draft, workspace, known_types)
    report = draft.tally.report(
        draft.format,
        nodes=len(nodes),
        edges=len(edges),
        types=len({node.type for node in nodes}),
        sheets=len(draft.sheets),
    )
    graph = _graph(draft, workspace, graph_key, sheets, existing)
    return ImportResult(graph=graph, nodes=nodes, edges=edges, configs=configs, report=report)


def _give_keys(draft: Draft, before: dict[DraftNode, Node], existing: ExistingGraph | None) -> None:
    maker = KeyMaker(node.key for node in existing.nodes) if existing else KeyMaker()
    for node in draft.nodes:
        old = before.get(node)
        node.key = old.key if old else maker.make(node_key_base(node.name))
    for member, group in draft.members:
        member.data["group"] = group.key
        group.data.setdefault("members", []).append(member.key)


def _handles_people_use(draft: Draft, existing: ExistingGraph | None) -> dict[str, set[tuple[str, str]]]:
    """Return the handles, by node, at which edges that a person drew begin or end."""
    used: dict[str, set[tuple[str, str]]] = {}
    for edge in existing.edges if existing else ():
        if not is_imported(edge, draft.format):
            used.setdefault(edge.source, set()).add(("out", edge.source_handle))
            used.setdefault(edge.target, set()).add(("in", edge.target_handle))
    return used


def _nodes(
    draft: Draft,
    graph_key: str,
    sheets: SheetPlan,
    before: dict[DraftNode, Node],
    used: dict[str, set[tuple[str, str]]],
) -> tuple[Node, ...]:
    nodes: list[Node] = []
    for node in draft.nodes:
        handles = handles_of(node.ports_in.values(), node.ports_out.values())
        old = before.get(node)
        if old is not None and node.key in used:
            handles = union_of(handles, _only(old.handles, used[node.key]))
        fields: dict[str, Any] = _people_fields(old) | {
            "_key": node.key,
            "graphKey": graph_key,
            "type": node.type,
            "typeVersion": node.type_version,
            "sheet": sheets.ids[node.sheet],
            "posX": node.x,
            "posY": node.y,
            "size": {"width": node.width, "height": node.height},
            "handles": handles,
            "data": node.data,
            ORIGIN: node.origin,
        }
        if node.process is not None:
            fields["process"] = node.process
        nodes.append(Node.model_validate(fields))
    return tuple(nodes)


def _people_fields(old: Node | None) -> Json:
    """Return the fields of a stored node that no importer writes."""
    return {k: v for k, v in ((old.model_extra or {}) if old else {}).items() if k != ORIGIN}


def _only(handles: Handles, wanted: set[tuple[str, str]]) -> Handles:
    kept: Handles = {}
    for side, group in handles.items():
        points = tuple(point for point in group.point if (point.type, point.id) in wanted)
        if points:
            kept[side] = group.replace(point=points)
    return kept


def _edges(
    draft: Draft, graph_key: str, sheets: SheetPlan, existing: ExistingGraph | None
) -> tuple[Edge, ...]:
    stored = {
        (edge.source, edge.source_handle, edge.target, edge.target_handle): edge.key
        for edge in reversed(existing.edges if existing else ())
    }
    maker = KeyMaker(stored.values())
    edges: list[Edge] = []
    for edge in draft.edges:
        ends = (edge.source.key, edge.source_handle, edge.target.key, edge.target_handle)
        fields: dict[str, Any] = {
            "_key": stored.get(ends) or maker.make(edge_key(*ends)),
            "graphKey": graph_key,
            "sheet": sheets.ids[edge.source.sheet],
            "source": ends[0],
            "sourceHandle": ends[1],
            "target": ends[2],
            "targetHandle": ends[3],
            ORIGIN: {"format": draft.format},
        }
        if edge.label:
            fields["label"] = edge.label
        edges.append(Edge.model_validate(fields))
    return tuple(edges)


def _graph(
    draft: Draft, workspace: str, graph_key: str, sheets: SheetPlan, existing: ExistingGraph | None
) -> Graph:
    old = existing.graph if existing else None
    origin = {"format": draft.format, "sheets": sheets.refs}
    fields: dict[str, Any] = {
        **(old.to_document() if old else {"version": 1, "category": draft.format, "permission": 0}),
        "_key": graph_key,
        "workspace": workspace,
        "name": draft.name,
        "sheetsList": sheets.labels,
        "createdTime": old.created_time if old and not draft.created_ms else draft.created_ms,
        "lastUpdatedTime": old.last_updated_time if old and not draft.updated_ms else draft.updated_ms,
        "metadata": {**((old.metadata if old else None) or {}), **draft.metadata, ORIGIN: origin},
    }
    if draft.description is not None:
        fields["description"] = draft.description
    return Graph.model_validate(fields)
