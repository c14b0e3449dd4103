"""Turns the wish for a new node into one proposal: alone, behind, before or between other nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from graphrag.offline.desk import Call, CannotGoOn, Desk
from graphrag.offline.handles import Handles, fitting_pair, handles_of_node, handles_of_type
from graphrag.offline.intents import CreateNode
from graphrag.offline.names import Found, the_nodes
from graphrag.offline.readings import Reading, Row, cell
from graphrag.offline.shown import cite, code, ends_of, plain
from graphrag.offline.type_names import overview_and_types, the_sheet, the_type
from graphrag.offline.wording import Mention

Payload = dict[str, Any]


def create_node(desk: Desk, wanted: CreateNode) -> NoReturn:
    """Propose the new node. Raises: Needs; CannotGoOn with what is missing or unclear."""
    mentions: list[Mention] = [one for one in (wanted.after, wanted.before) if one is not None]
    (overview, types), found = desk.together(
        lambda: overview_and_types(desk), lambda: the_nodes(desk, mentions) if mentions else []
    )
    kind = the_type(desk, wanted.type, types)
    after = found[0] if wanted.after is not None else None
    before = found[-1] if wanted.before is not None else None
    payload: Payload = {"typeKey": cell(kind.get("type"))}
    if wanted.name:
        payload["data"] = {"name": wanted.name}
    if wanted.sheet is not None:
        payload["sheet"] = the_sheet(desk, wanted.sheet, overview)
    shown = desk.say("new_node", type=code(cell(kind.get("type"))))
    shown += f" “{plain(wanted.name, 80)}”" if wanted.name else ""
    if not found:
        reason = desk.say("reason", what=plain(desk.conversation.question.original, 300))
        desk.propose("create_node", {**payload, "reason": reason}, desk.say("propose", what=shown))
    return _connected(desk, payload, shown, after, before)


def _connected(
    desk: Desk, payload: Payload, shown: str, after: Found | None, before: Found | None
) -> NoReturn:
    ends = [one for one in (after, before) if one is not None]
    details = desk.read_all(
        Call(name="read_node_config", arguments={"type": payload["typeKey"]}),
        *(Call(name="read_node_detail", arguments={"key": one.key}) for one in ends),
        *(
            Call(name="list_node_edges", arguments={"key": one.key, "direction": "any", "limit": 100})
            for one in ends[:1]
            if len(ends) == 2
        ),
    )
    own = handles_of_type(details[0])
    nodes = {one.key: handles_of_node(detail) for one, detail in zip(ends, details[1:], strict=False)}
    reason = desk.say("reason", what=plain(desk.conversation.question.original, 300))
    cut: Row | None = None
    taken: tuple[str, str] | None = None
    if after is not None and before is not None:
        if after.key == before.key:
            raise CannotGoOn(desk.say("same_node", node=cite(after.key)))
        after, before, cut, taken = _between(details[3], after, before)
    edges: list[Payload] = []
    if after is not None:
        edges.append(_edge_in(desk, after, nodes[after.key], own, taken[0] if taken else None))
        shown += " " + desk.say("placed_after", node=cite(after.key))
    if before is not None:
        edges.append(_edge_out(desk, before, nodes[before.key], own, taken[1] if taken else None))
        shown += " " + desk.say("placed_before", node=cite(before.key))
    whole = {**payload, "edges": edges}
    if cut is None:
        desk.propose("create_node_with_edges", {**whole, "reason": reason}, desk.say("propose", what=shown))
    actions: list[Mapping[str, Any]] = [
        {"type": "create_node_with_edges", "payload": whole},
        {"type": "delete_edge", "payload": {"edgeKey": cell(cut.get("_key"))}},
    ]
    text = desk.say("propose", what=shown) + " " + desk.say("edge_goes", edge=code(cell(cut.get("_key"))))
    desk.propose("batch", {"actions": actions, "reason": reason}, text)


def _between(
    edges: Reading, first: Found, second: Found
) -> tuple[Found, Found, Row | None, tuple[str, str] | None]:
    """Return the two in the order of the flow, the edge between them and its handles."""
    keys = {first.key: 1, second.key: 1}
    for row in edges.rows("edges"):
        ends = ends_of(row, keys)
        if ends is None or ends[0] == ends[2]:
            continue
        pair = (first, second) if ends[0] == first.key else (second, first)
        return *pair, row, (ends[1], ends[3])
    return first, second, None, None


def _edge_in(desk: Desk, other: Found, handles: Handles, own: Handles, taken: str | None) -> Payload:
    pair = fitting_pair(handles.outputs, own.inputs, taken)
    if pair is None:
        raise CannotGoOn(desk.say("cannot_follow", node=cite(other.key)))
    return {
        "direction": "in",
        "handleId": pair[1].id,
        "targetNodeKey": other.key,
        "targetHandleId": pair[0].id,
    }


def _edge_out(desk: Desk, other: Found, handles: Handles, own: Handles, taken: str | None) -> Payload:
    inputs = [h for h in handles.inputs if taken is None or h.id == taken]
    pair = fitting_pair(own.outputs, inputs)
    if pair is None:
        raise CannotGoOn(desk.say("cannot_precede", node=cite(other.key)))
    return {
        "direction": "out",
        "handleId": pair[0].id,
        "targetNodeKey": other.key,
        "targetHandleId": pair[1].id,
    }
