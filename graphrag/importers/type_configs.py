"""Makes node types of foreign ones, and widens those that an earlier import made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from datasources.types import HandleGroup, HandlePoint, Handles, NodeTypeConfig, Side, Size, TypeTemplate
from graphrag.importers.draft import Draft, DraftNode, Port
from graphrag.importers.known import ORIGIN, origin_of

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


def union_of(first: Handles, second: Handles) -> Handles:
    """Return the points of both; of one with the same direction and id, the first's."""
    known = {(point.type, point.id) for group in first.values() for point in group.point}
    merged: Handles = dict(first)
    for side, group in second.items():
        new = tuple(point for point in group.point if (point.type, point.id) not in known)
        if not new:
            continue
        held = merged.get(side)
        merged[side] = held.replace(point=held.point + new) if held else group.replace(point=new)
    return {side: merged[side] for side in _SIDES if side in merged}


def make_configs(draft: Draft, workspace: str, known: Sequence[NodeTypeConfig]) -> tuple[NodeTypeConfig, ...]:
    """Return the types of the draft's nodes that are to be stored, in key order: new and widened ones.

    A type that a person made, or that stands in another workspace, is left as it is.
    """
    stored: Mapping[str, NodeTypeConfig] = {config.type: config for config in known}
    configs: list[NodeTypeConfig] = []
    of_type: dict[str, list[DraftNode]] = {}
    for node in draft.nodes:
        of_type.setdefault(node.type, []).append(node)
    for type_name, nodes in of_type.items():
        old = stored.get(type_name)
        if old is not None and (origin_of(old) is None or old.workspace != workspace):
            draft.tally.repair(
                "node type", "a type of this name was there before and is used as it is", type_name
            )
            continue
        new = _make_config(draft, workspace, type_name, nodes)
        wanted = new if old is None else _widened(old, new)
        if wanted is not old:
            configs.append(wanted)
    return tuple(sorted(configs, key=lambda config: config.key))


def _make_config(draft: Draft, workspace: str, type_name: str, nodes: Sequence[DraftNode]) -> NodeTypeConfig:
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
        ORIGIN: {"format": draft.format},
    }
    if facts.icon:
        fields["icon"] = facts.icon
    return NodeTypeConfig.model_validate(fields)


def _widened(old: NodeTypeConfig, new: NodeTypeConfig) -> NodeTypeConfig:
    """Return the stored type with the handles of both; what a person changed in it stays."""
    handles = union_of(old.node.handles, new.node.handles)
    if handles == old.node.handles:
        return old
    return old.replace(node={**old.node.to_document(), "handles": _plain(handles)})


def _plain(handles: Handles) -> dict[str, object]:
    return {side: group.to_document() for side, group in handles.items()}
