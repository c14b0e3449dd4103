"""Writes into an action what was chosen for it, so that it comes out the same whenever it is carried out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from datasources.types import Edge, Node
from graphrag.approvals.actions.converter import ActionConversionResult
from tools.proposals import (
    BatchAction,
    CreateEdgeAction,
    CreateNodeAction,
    CreateNodeWithEdgesAction,
    MoveNodeAction,
    ReorganizeLayoutAction,
    SingleAction,
    parse_action,
    single_actions,
    to_document,
)


def finalize(
    action: SingleAction | BatchAction, result: ActionConversionResult
) -> SingleAction | BatchAction:
    """Return the action with the keys, sheets and positions of its conversion; batches are merged."""
    singles = [single for _, single in single_actions(action)]
    nodes = _created_nodes(singles, result)
    keys = {own: node.key for own, node in nodes if own is not None}
    of_nodes = iter([node for _, node in nodes])
    moved = _positions(result)
    edges = _Edges(result, singles)
    final = [_final(single, of_nodes, edges, keys, moved) for single in singles]
    if isinstance(action, BatchAction):
        return parse_action({"type": "batch", "payload": {"actions": final}})
    return parse_action(final[0])


def _created_nodes(
    singles: list[SingleAction], result: ActionConversionResult
) -> list[tuple[str | None, Node]]:
    names = [
        single.payload.key
        for single in singles
        if isinstance(single, CreateNodeAction | CreateNodeWithEdgesAction)
    ]
    return list(zip(names, result.nodes_to_create, strict=True))


class _Edges:
    """The created edges in the order of conversion: those of new nodes first, then the others."""

    def __init__(self, result: ActionConversionResult, singles: list[SingleAction]) -> None:
        count = sum(len(s.payload.edges) for s in singles if isinstance(s, CreateNodeWithEdgesAction))
        self.of_nodes: Iterator[Edge] = iter(result.edges_to_create[:count])
        self.single: Iterator[Edge] = iter(result.edges_to_create[count:])


def _positions(result: ActionConversionResult) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for sent in result.instructions:
        if sent.get("animatePos"):
            found.setdefault(sent["nodeId"], {})[sent["i"]["p"][0]] = sent["i"]["v"]
    return found


def _final(
    single: SingleAction,
    nodes: Iterator[Node],
    edges: _Edges,
    keys: Mapping[str, str],
    moved: Mapping[str, dict[str, Any]],
) -> dict[str, Any]:
    document = to_document(single)
    payload = document["payload"]
    match single:
        case CreateNodeAction() | CreateNodeWithEdgesAction():
            node = next(nodes)
            payload |= {"key": node.key, "sheet": node.sheet, "posX": node.pos_x, "posY": node.pos_y}
            for edge in payload.get("edges", ()):
                edge["key"] = next(edges.of_nodes).key
                edge["targetNodeKey"] = keys.get(edge["targetNodeKey"], edge["targetNodeKey"])
        case CreateEdgeAction():
            created = next(edges.single)
            payload |= {
                "key": created.key,
                "sheet": created.sheet,
                "sourceKey": created.source,
                "targetKey": created.target,
            }
        case MoveNodeAction():
            payload["nodeKey"] = keys.get(payload["nodeKey"], payload["nodeKey"])
        case ReorganizeLayoutAction():
            named = [keys.get(key, key) for key in dict.fromkeys(payload["nodeKeys"])]
            payload["nodeKeys"] = named
            payload["positions"] = [{"nodeKey": key, **moved[key]} for key in named]
        case _:
            pass
    return document
