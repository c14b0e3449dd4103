"""Makes node types of foreign ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from datasources.types import HandleGroup, HandlePoint, Handles, NodeTypeConfig, Side, Size, TypeTemplate
from graphrag.importers.workflow_draft import DraftNode, Port, WorkflowDraft

_SIDES: tuple[Side, ...] = ("L", "D", "R", "T", "0")


def handles_of(inputs: Iterable[Port], outputs: Iterable[Port]) -> Handles:
    """Return ports as handles, each side in the order of its outputs or inputs."""
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


def make_configs(draft: WorkflowDraft, workspace: str) -> tuple[NodeTypeConfig, ...]:
    """Return the types of the draft's nodes, in key order."""
    of_type: dict[str, list[DraftNode]] = {}
    for node in draft.nodes:
        of_type.setdefault(node.type, []).append(node)
    return tuple(_make_config(draft, workspace, name, of_type[name]) for name in sorted(of_type))


def _make_config(
    draft: WorkflowDraft, workspace: str, type_name: str, nodes: Sequence[DraftNode]
) -> NodeTypeConfig:
    facts = draft.types[type_name]
    inputs: dict[str, Port] = {}
    outputs: dict[str, Port] = {}
    for node in nodes:
        for port in node.ports_in.values():
            inputs.setdefault(port.id, port)
        for port in node.ports_out.values():
            known = outputs.setdefault(port.id, port)
            if known.display != port.display:  # what it is called in one node does not name it in all
                outputs[port.id] = replace(known, display=None)
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
            type=type_name, handles=handles_of(inputs.values(), outputs.values()), size=size
        ),
        "origin": {"format": draft.format},
    }
    if facts.icon:
        fields["icon"] = facts.icon
    return NodeTypeConfig.model_validate(fields)
