"""Turns a draft into documents: keys, sheets, handles. What is stored plays no part: see `align`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from datasources.types import Edge, Graph, Node, NodeTypeConfig
from graphrag.importers.readable_keys import KeyMaker, clean, edge_key, node_key_base
from graphrag.importers.report import ImportReport
from graphrag.importers.type_configs import handles_of, make_configs
from graphrag.importers.workflow_draft import DraftNode, DraftSheet, WorkflowDraft

ORIGIN = "origin"
"""The field by which an importer knows its own: `{format, id?, name?}`. People's nodes have none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportResult:
    """A file as documents of one graph, and what is to be said about it. `configs` are the types it uses.

    `kept` is the file's JSON without its secrets, compressed.
    """

    graph: Graph
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    configs: tuple[NodeTypeConfig, ...]
    report: ImportReport
    kept: bytes = b""


def assemble(draft: WorkflowDraft, *, workspace: str, graph_key: str) -> ImportResult:
    """Return the draft as documents, the same ones each time."""
    _give_keys(draft)
    sheets = {sheet.ref: str(number) for number, sheet in enumerate(draft.sheets)}
    nodes = tuple(_node(node, graph_key, sheets) for node in draft.nodes)
    edges = _edges(draft, graph_key, sheets)
    report = draft.tally.report(
        draft.format,
        nodes=len(nodes),
        edges=len(edges),
        types=len({node.type for node in nodes}),
        sheets=len(draft.sheets),
    )
    return ImportResult(
        graph=_graph(draft, workspace, graph_key, sheets),
        nodes=nodes,
        edges=edges,
        configs=make_configs(draft, workspace),
        report=report,
    )


def _give_keys(draft: WorkflowDraft) -> None:
    """Give each node its key; nodes that the file does not tell apart are numbered in their origin."""
    maker, seen = KeyMaker(), Counter[Hashable]()
    for node in draft.nodes:
        marks = (node.origin.get("id"), node.origin.get("name"))
        seen[marks] += 1
        if seen[marks] > 1:
            node.origin["copy"] = seen[marks]
        node.key = maker.make(node_key_base(node.name))
    for member, group in draft.members:
        member.data["group"] = group.key
        group.data.setdefault("members", []).append(member.key)


def _node(node: DraftNode, graph_key: str, sheets: dict[str, str]) -> Node:
    fields: dict[str, Any] = {
        "_key": node.key,
        "graphKey": graph_key,
        "type": node.type,
        "typeVersion": node.type_version,
        "sheet": sheets[node.sheet],
        "posX": node.x,
        "posY": node.y,
        "size": {"width": node.width, "height": node.height},
        "handles": handles_of(node.ports_in.values(), node.ports_out.values()),
        "data": node.data,
        ORIGIN: node.origin,
    }
    if node.process is not None:
        fields["process"] = node.process
    return Node.model_validate(fields)


def _edges(draft: WorkflowDraft, graph_key: str, sheets: dict[str, str]) -> tuple[Edge, ...]:
    maker = KeyMaker()
    edges: list[Edge] = []
    for edge in draft.edges:
        ends = (edge.source.key, edge.source_handle, edge.target.key, edge.target_handle)
        fields: dict[str, Any] = {
            "_key": maker.make(edge_key(*ends)),
            "graphKey": graph_key,
            "sheet": sheets[edge.source.sheet],
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


def _graph(draft: WorkflowDraft, workspace: str, graph_key: str, sheets: dict[str, str]) -> Graph:
    refs = {sheet: ref for ref, sheet in sheets.items()}
    fields: dict[str, Any] = {
        "_key": graph_key,
        "workspace": workspace,
        "name": draft.name,
        "version": 1,
        "category": draft.format,
        "permission": 0,
        "sheetsList": _labels(draft.sheets, sheets),
        "createdTime": draft.created_ms,
        "lastUpdatedTime": draft.updated_ms,
        "metadata": {**draft.metadata, ORIGIN: {"format": draft.format, "sheets": refs}},
    }
    if draft.description is not None:
        fields["description"] = draft.description
    return Graph.model_validate(fields)


def _labels(sheets: Sequence[DraftSheet], ids: dict[str, str]) -> dict[str, str]:
    names = KeyMaker()
    return {ids[sheet.ref]: names.make(clean(sheet.label, limit=120) or "sheet") for sheet in sheets}
