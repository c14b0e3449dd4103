"""Reads the connections of Node-RED nodes: wires, links, and the ends of subflows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from graphrag.importers.json_values import Json, as_dict, as_id, as_index, as_list, as_number
from graphrag.importers.node_red.flow_nodes import END_EXTENT, MAX_OUTPUTS, red_facts
from graphrag.importers.workflow_draft import MAIN_IN, DraftEdge, DraftNode, Port, WorkflowDraft

LINK = "link"


def connect_all(
    draft: WorkflowDraft,
    by_id: dict[str, DraftNode],
    wired: Sequence[tuple[DraftNode, Json]],
    subflows: Sequence[Json],
) -> None:
    """Adds an edge for every wire and link between two nodes; others are counted."""
    wires = _Wires(draft, by_id)
    for node, raw in wired:
        wires.read(node, raw)
    for node, raw in wired:
        _read_links(wires, node, raw)
    for place, subflow in enumerate(subflows, start=1):
        _read_ends(wires, subflow, as_id(subflow.get("id")) or f"subflow {place}")


class _Wires:
    """Adds edges between nodes given by id."""

    def __init__(self, draft: WorkflowDraft, by_id: dict[str, DraftNode]) -> None:
        self.draft = draft
        self.by_id = by_id

    def read(self, node: DraftNode, raw: Json) -> None:
        """Reads the wires of all outputs of a node."""
        outputs = raw.get("wires")
        listed = as_list(outputs)
        if listed is None:
            if outputs:
                self.draft.tally.drop("edge", "the wires are not a list", node.name)
            return
        for place, targets in enumerate(listed):
            if targets is None:
                continue
            ids = as_list(targets)
            if ids is None:
                self.draft.tally.drop("edge", "the wires of an output are not a list", node.name)
            elif place >= MAX_OUTPUTS:
                if ids:
                    self.draft.tally.drop(
                        "edge",
                        "there are more outputs than can be imported",
                        node.name,
                        count=len(ids),
                    )
            else:
                for target in ids:
                    self.draw(node, Port(str(place), "R", order=place), target)

    def draw(self, source: DraftNode, out: Port, target_id: Any) -> None:
        target = self.by_id.get(as_id(target_id) or "")
        if target is None:
            self.draft.tally.drop(
                "edge", "its target is not in the file", f"{source.name} → {target_id}"
            )
            return
        self.join(source, out, target, MAIN_IN)

    def join(self, source: DraftNode, out: Port, target: DraftNode, inlet: Port) -> None:
        """Adds one edge. A duplicate is counted unless it is a link, which both ends list."""
        out = source.take_out(out)
        inlet = target.take_in(inlet)
        label = LINK if out.id == LINK else out.display
        edge = DraftEdge(
            source=source, source_handle=out.id, target=target, target_handle=inlet.id, label=label
        )
        if not self.draft.connect(edge) and out.id != LINK:
            self.draft.tally.drop("edge", "it is a duplicate", f"{source.name} → {target.name}")


def _read_links(wires: _Wires, node: DraftNode, raw: Json) -> None:
    """Adds the invisible wires of link nodes. Both ends list a link; it becomes one edge."""
    kind = raw.get("type")
    if kind not in ("link in", "link out", "link call"):
        if raw.get("links"):
            node.data["links"] = raw["links"]
        return
    for listed in as_list(raw.get("links")) or ():
        other = wires.by_id.get(as_id(listed) or "")
        if other is None:
            wires.draft.tally.drop(
                "link", "its other end is not in the file", f"{node.name} → {listed}"
            )
            continue
        source, target = (other, node) if kind == "link in" else (node, other)
        wires.join(
            source, Port(LINK, "R", order=1000, display=LINK), target, Port(LINK, "L", order=1000)
        )


def _read_ends(wires: _Wires, subflow: Json, sheet: str) -> None:
    """Adds nodes for a subflow's inputs, outputs and status, so that all its wires become edges."""
    inlet: DraftNode | None = None
    for place, item in enumerate(as_list(subflow.get("in")) or ()):
        end = _end(wires.draft, sheet, "in", place, item)
        inlet = inlet or end
        for wire in as_list((as_dict(item) or {}).get("wires")) or ():
            fields = as_dict(wire)
            wires.draw(end, Port("0", "R"), fields.get("id") if fields is not None else wire)
    for place, item in enumerate(as_list(subflow.get("out")) or ()):
        _end_wires(wires, _end(wires.draft, sheet, "out", place, item), item, inlet)
    if as_dict(subflow.get("status")) is not None:
        status = subflow["status"]
        _end_wires(wires, _end(wires.draft, sheet, "status", 0, status), status, inlet)


def _end_wires(wires: _Wires, end: DraftNode, item: Any, inlet: DraftNode | None) -> None:
    for wire in as_list((as_dict(item) or {}).get("wires")) or ():
        fields = as_dict(wire) or {}
        source = wires.by_id.get(as_id(fields.get("id")) or "")
        port = as_index(fields.get("port", 0))
        if port is None:
            port = 0
            wires.draft.tally.repair(
                "edge", "its output could not be read; the first is used", end.name
            )
        if source is None and fields.get("id") == end.sheet:
            source = inlet  # a subflow may connect its input directly to its output
        if source is None:
            wires.draft.tally.drop(
                "edge", "its source is not in the file", f"{fields.get('id')} → {end.name}"
            )
            continue
        wires.join(source, Port(str(port), "R", order=port), end, MAIN_IN)


def _end(
    draft: WorkflowDraft, sheet: str, kind: Literal["in", "out", "status"], place: int, item: Any
) -> DraftNode:
    fields = as_dict(item) or {}
    name = f"subflow {kind}" if kind == "status" else f"subflow {kind} {place + 1}"
    x = as_number(fields.get("x")) or 0
    y = as_number(fields.get("y")) or 0
    node = DraftNode(
        name=name,
        type=f"subflow-{kind}",
        origin={"format": "node-red", "id": f"{sheet} {kind} {place}"},
        sheet=sheet,
        width=END_EXTENT,
        height=END_EXTENT,
        x=x - END_EXTENT // 2,
        y=y - END_EXTENT // 2,
        data={"name": name},
        raw=fields,
    )
    if kind == "in":
        node.take_out(Port("0", "R"))
    else:
        node.take_in(MAIN_IN)
    draft.nodes.append(node)
    draft.types.setdefault(node.type, red_facts(node.type))
    return node
