"""Reads the connections of an n8n workflow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from graphrag.importers.json_values import Json, as_dict, as_index, as_list, as_text
from graphrag.importers.n8n.node_types import input_port, kind_label, output_port
from graphrag.importers.workflow_draft import DraftEdge, DraftNode, Port, WorkflowDraft, is_note


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One target of an output as written in the file; `holder` is the list that contains it."""

    source: str
    kind: str
    output: int
    target: Json
    holder: list[Any]

    @property
    def output_port(self) -> Port:
        return output_port(self.kind, self.output)

    @property
    def input_port(self) -> Port:
        into = as_text(self.target.get("type")) or (
            self.kind if self.kind.startswith("ai_") else "main"
        )
        return input_port(into, as_index(self.target.get("index", 0)) or 0)


class ConnectionEnds:
    """Finds the node that a connection refers to, by name or else by id."""

    def __init__(self, draft: WorkflowDraft) -> None:
        self._draft = draft
        self._names: dict[str, DraftNode] = {}
        self._ids: dict[str, list[DraftNode]] = {}
        for node in sorted(draft.nodes, key=is_note):  # a step has precedence over a note
            self._names.setdefault(node.origin.get("name", node.name), node)
            if "id" in node.origin:
                self._ids.setdefault(node.origin["id"], []).append(node)

    def find(self, name: str) -> DraftNode | None:
        node = self._names.get(name)
        if node is not None:
            return node
        same = self._ids.get(name, [])
        if len(same) != 1:
            return None
        self._draft.tally.repair("connection end", "it referred to a node by its id", same[0].name)
        return same[0]


def read_connections(draft: WorkflowDraft, raw: Any) -> None:
    """Adds an edge for every connection between two nodes; others are counted."""
    by_source = as_dict(raw)
    if by_source is None:
        if raw:
            draft.tally.drop(
                "edge", "the connections are not an object", count=max(1, count_targets(raw))
            )
        return
    ends = ConnectionEnds(draft)
    for slot in slots(draft, by_source):
        _connect(draft, ends, slot)


def slots(draft: WorkflowDraft, by_source: Json) -> Iterator[Slot]:
    """Yields every well-formed target; malformed ones are counted."""
    for source, outputs_by_kind in by_source.items():
        kinds = as_dict(outputs_by_kind)
        if kinds is None:
            _malformed(draft, outputs_by_kind, source)
            continue
        for kind, outputs in kinds.items():
            listed = as_list(outputs)
            if listed is None:
                _malformed(draft, outputs, source)
            else:
                yield from _outputs(draft, source, kind, listed)


def _outputs(draft: WorkflowDraft, source: str, kind: str, outputs: list[Any]) -> Iterator[Slot]:
    flat = bool(outputs) and all(isinstance(item, dict) for item in outputs)
    if flat:  # a list of targets in place of the list of outputs
        draft.tally.repair(
            "connection", "a list of targets without outputs was read as the first output", source
        )
        outputs = [outputs]
    for index, targets in enumerate(outputs):
        if targets is None:
            continue
        single = as_dict(targets)
        listed: list[Any] | None = as_list(targets) if single is None else [single]
        if listed is None:
            _malformed(draft, targets, source)
            continue
        for item in listed:
            target = as_dict(item)
            if target is None or as_text(target.get("node")) is None:
                _malformed(draft, item, source)
            else:
                holder = outputs if single is not None else listed
                yield Slot(source=source, kind=kind, output=index, target=target, holder=holder)


def _malformed(draft: WorkflowDraft, value: Any, source: str) -> None:
    if value is not None and value not in ([], {}):
        draft.tally.drop(
            "edge", "it is not written as n8n writes it", source, count=max(1, count_targets(value))
        )


def count_targets(value: Any) -> int:
    """Returns the number of objects with a field `node` in a value."""
    count = 0
    stack: list[Any] = [value]
    while stack:
        item = stack.pop()
        fields = as_dict(item)
        if fields is not None:
            if "node" in fields:
                count += 1
            else:
                stack.extend(fields.values())
        else:
            stack.extend(as_list(item) or ())
    return count


def _connect(draft: WorkflowDraft, ends: ConnectionEnds, slot: Slot) -> None:
    target_name = str(slot.target["node"])
    shown = f"{slot.source} → {target_name}"
    source = ends.find(slot.source)
    target = ends.find(target_name)
    if source is None or target is None:
        why = "its source is not in the file" if source is None else "its target is not in the file"
        draft.tally.drop("edge", why, shown)
        return
    if as_index(slot.target.get("index", 0)) is None:
        draft.tally.repair("edge", "its input could not be read; the first is used", shown)
    out = source.take_out(slot.output_port)
    inlet = target.take_in(slot.input_port)
    label = out.display or kind_label(slot.kind)
    edge = DraftEdge(
        source=source, source_handle=out.id, target=target, target_handle=inlet.id, label=label
    )
    if not draft.connect(edge):
        draft.tally.drop("edge", "it is a duplicate", shown)
