"""Turns a draft into documents with keys, sheets and handles; `align` then matches their keys to
those of a stored graph.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from datasources.types import (
    Edge,
    Graph,
    HandleGroup,
    HandlePoint,
    Handles,
    Node,
    NodeTypeConfig,
    Side,
    Size,
    TypeTemplate,
)
from graphrag.importers.readable_keys import (
    KeyMaker,
    clean,
    derive_graph_key,
    edge_key,
    node_key_base,
)
from graphrag.importers.workflow_draft import DraftNode, Port, WorkflowDraft
from graphrag.importers.workflow_format import ImportResult, ImportTarget

# The field with the origin of an imported document: `{format, id?, name?}`. Documents made by
# people do not have it.
ORIGIN = "origin"

_SIDES: tuple[Side, ...] = ("L", "D", "R", "T", "0")


def assemble(draft: WorkflowDraft, target: ImportTarget) -> ImportResult:
    """Returns the documents of a draft. Deterministic."""
    workspace = target.workspace
    graph_key = target.graph_key or derive_graph_key(
        name=draft.name, identity=draft.identity, file_name=target.file_name
    )
    _give_keys(draft)
    sheets = {sheet.ref: str(number) for number, sheet in enumerate(draft.sheets)}
    nodes = tuple(_node(node, graph_key, sheets) for node in draft.nodes)
    edges = _edges(draft, graph_key, sheets)
    return ImportResult(
        graph=_graph(draft, workspace, graph_key, sheets),
        nodes=nodes,
        edges=edges,
        configs=_configs(draft, workspace),
        report=draft.tally.report(draft.format),
    )


def _give_keys(draft: WorkflowDraft) -> None:
    """Gives each node its key. Nodes with the same id and name are numbered in their origin."""
    maker = KeyMaker()
    seen = Counter[Hashable]()
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
        "handles": _handles(node.ports_in.values(), node.ports_out.values()),
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
        names = ("source", "sourceHandle", "target", "targetHandle")
        fields: dict[str, Any] = {
            "_key": maker.make(edge_key(*ends)),
            "graphKey": graph_key,
            "sheet": sheets[edge.source.sheet],
            **dict(zip(names, ends, strict=True)),
            **({"label": edge.label} if edge.label else {}),
            ORIGIN: {"format": draft.format},
        }
        edges.append(Edge.model_validate(fields))
    return tuple(edges)


def _graph(draft: WorkflowDraft, workspace: str, graph_key: str, sheets: dict[str, str]) -> Graph:
    refs = {sheet: ref for ref, sheet in sheets.items()}
    names = KeyMaker()
    fields: dict[str, Any] = {
        "_key": graph_key,
        "workspace": workspace,
        "name": draft.name,
        "version": 1,
        "category": draft.format,
        "permission": 0,
        "sheetsList": {
            sheets[sheet.ref]: names.make(clean(sheet.label, limit=120) or "sheet")
            for sheet in draft.sheets
        },
        "createdTime": draft.created_ms,
        "lastUpdatedTime": draft.updated_ms,
        "metadata": {**draft.metadata, ORIGIN: {"format": draft.format, "sheets": refs}},
    }
    if draft.description is not None:
        fields["description"] = draft.description
    return Graph.model_validate(fields)


def _handles(inputs: Iterable[Port], outputs: Iterable[Port]) -> Handles:
    """Returns ports as handles, on each side in their order."""
    points: dict[Side, list[tuple[int, str, HandlePoint]]] = {}
    for direction, ports in (("in", inputs), ("out", outputs)):
        for port in ports:
            fields = {"id": port.id, "type": direction, "accept": port.accept}
            if port.display is not None:
                fields["display"] = port.display
            point = HandlePoint.model_validate(fields)
            points.setdefault(port.side, []).append((port.order, port.id, point))
    return {
        side: HandleGroup(
            position="separate",
            point=tuple(point for _, _, point in sorted(points[side], key=lambda p: (p[0], p[1]))),
        )
        for side in _SIDES
        if side in points
    }


def _configs(draft: WorkflowDraft, workspace: str) -> tuple[NodeTypeConfig, ...]:
    """Returns the types of the draft's nodes, ordered by key."""
    of_type: dict[str, list[DraftNode]] = {}
    for node in draft.nodes:
        of_type.setdefault(node.type, []).append(node)
    return tuple(_config(draft, workspace, name, of_type[name]) for name in sorted(of_type))


def _config(
    draft: WorkflowDraft, workspace: str, type_name: str, nodes: Sequence[DraftNode]
) -> NodeTypeConfig:
    facts = draft.types[type_name]
    inputs: dict[str, Port] = {}
    outputs: dict[str, Port] = {}
    for node in nodes:
        for port in node.ports_in.values():
            inputs.setdefault(port.id, port)
        for port in node.ports_out.values():
            first = outputs.setdefault(port.id, port)
            if first.display != port.display:  # a name of one node is no name of the type
                outputs[port.id] = replace(first, display=None)
    size = Size(width=nodes[0].width, height=nodes[0].height)
    fields: dict[str, object] = {
        "_key": type_name,
        "workspace": workspace,
        "version": 1,
        "displayName": facts.display_name,
        "description": facts.description,
        "category": facts.category,
        "alwaysRendered": False,
        "node": TypeTemplate(
            type=type_name, handles=_handles(inputs.values(), outputs.values()), size=size
        ),
        "origin": {"format": draft.format},
    }
    if facts.icon:
        fields["icon"] = facts.icon
    return NodeTypeConfig.model_validate(fields)
