"""Writes the changes of a graph into the Node-RED flow that it was imported from, or into an empty
one.

Unchanged parts stay as they were. The ends of a subflow have no entries of their own in a file:
they are part of the entry of their subflow.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from datasources.types import Node
from graphrag.importers.json_values import Json, as_dict, as_id, as_list, set_or_remove
from graphrag.importers.node_red.flow_nodes import (
    CODE,
    CONFIG_SHEET,
    END_EXTENT,
    FRAME,
    JUNCTION_EXTENT,
    MAX_OUTPUTS,
    STEP_HEIGHT,
    STEP_WIDTH,
)
from graphrag.importers.node_red.wires import LINK
from graphrag.importers.report import Tally
from graphrag.importers.type_facts import known_type
from graphrag.importers.workflow_draft import GROUP_TYPE, NOTE_TYPE
from graphrag.importers.workflow_format import Changed, ChangedNode, EdgeEnds, FileWriter
from tools.checks.checked_graph import data_of

_WRITTEN_FIELDS = frozenset(
    {"name", "parameters", "notes", "disabled", "group", "members", "text", "language", "links"}
)
_ENDS = {"subflow-in": "in", "subflow-out": "out", "subflow-status": "status"}
_LINKS = ("link in", "link out", "link call")


def _has_type(name: str) -> bool:
    return (
        name == GROUP_TYPE
        or name in _ENDS
        or known_type("graphrag.importers.node_red", name) is not None
    )


FLOW_WRITER = FileWriter(
    has_type=_has_type,
    empty=lambda _: {"flows": []},
    patch=lambda document, changed, tally: _FlowPatch(document, changed, tally).patch(),
    finish=lambda document, _: document["flows"] if document.keys() == {"flows"} else document,
    new_id=lambda node: _new_id(node.graph_key, node.key),
)


def _new_id(*parts: str) -> str:
    return hashlib.blake2b("\n".join(parts).encode(), digest_size=8).hexdigest()


class _FlowPatch:
    """Patches a file in place; changes that Node-RED cannot express are counted."""

    def __init__(self, document: Json, changed: Changed, tally: Tally) -> None:
        self._changed = changed
        self._tally = tally
        listed = as_list(document.get("flows"))
        self._flows: list[Any] = document.setdefault("flows", []) if listed is None else listed
        self._subflows = [
            raw for raw in self._flows if as_dict(raw) and raw.get("type") == "subflow"
        ]
        self._raws: dict[str, Json] = {}
        self._used_ids = {
            as_id(raw.get("id")) for raw in map(as_dict, self._flows) if raw is not None
        }
        self._sheets: dict[str, str] = {}

    def patch(self) -> dict[str, Json]:
        """Returns the entries of the nodes by key."""
        self._patch_sheets()
        for ends in sorted(self._changed.removed):
            self._cut(ends)
        self._take_out()
        for key, changed_node in sorted(
            self._changed.nodes.items(), key=lambda item: _end_place(item[1].node)
        ):
            if changed_node.draft is not None:
                self._raws[key] = changed_node.draft.raw
            elif changed_node.node.type in _ENDS:
                self._add_end(key, changed_node.node)
            else:
                self._raws[key] = self._new(changed_node.node)
                self._used_ids.add(self._raws[key]["id"])
                self._flows.append(self._raws[key])
        for key, raw in self._raws.items():
            self._patch_node(raw, self._changed.nodes[key])
        self._join_groups()
        for ends in self._changed.added:
            self._connect(ends)
        return self._raws

    # Sheets

    def _patch_sheets(self) -> None:
        before = self._changed.before
        now = self._changed.graph
        refs = _refs(before.metadata) | _refs(now.metadata)
        entries = {
            as_id(raw.get("id")): raw for raw in map(as_dict, self._flows) if raw is not None
        }
        new: list[Json] = []
        for sheet, label in now.sheets_list.items():
            ref = self._sheets[sheet] = refs.get(sheet) or _new_id(now.key, sheet)
            raw = entries.get(ref)
            if sheet not in before.sheets_list and raw is None:
                if ref != CONFIG_SHEET or self._has_steps(sheet):
                    new.append(self._new_sheet(sheet, ref, label))
            elif raw is not None and label != before.sheets_list.get(sheet, label):
                is_tab = raw.get("type") == "tab"
                raw["label" if is_tab else "name"] = (
                    label if is_tab else label.removeprefix("subflow ")
                )
        self._flows[:0] = new
        self._subflows += [raw for raw in new if raw["type"] == "subflow"]
        gone = {refs.get(sheet) for sheet in before.sheets_list.keys() - now.sheets_list.keys()}
        self._flows[:] = [
            raw
            for raw in self._flows
            if not (
                as_dict(raw)
                and raw.get("type") in ("tab", "subflow")
                and as_id(raw.get("id")) in gone
            )
        ]

    def _new_sheet(self, sheet: str, ref: str, label: str) -> Json:
        """Returns the entry of a tab or a subflow that the file lacks."""
        stored = as_dict((self._changed.graph.metadata or {}).get("nodeRed")) or {}
        details = as_dict((as_dict(stored.get("sheets")) or {}).get(ref)) or {}
        nodes = [changed_node.node for changed_node in self._changed.nodes.values()]
        is_subflow = details.get("type") == "subflow" or any(
            node.type == f"subflow:{ref}" or (node.sheet == sheet and node.type in _ENDS)
            for node in nodes
        )
        if is_subflow:
            name = label.removeprefix("subflow ")
            return {**details, "id": ref, "type": "subflow", "name": name, "in": [], "out": []}
        return {**details, "id": ref, "type": "tab", "label": label}

    def _has_steps(self, sheet: str) -> bool:
        return any(
            changed_node.node.sheet == sheet and _is_step(changed_node.node)
            for changed_node in self._changed.nodes.values()
        )

    # Nodes

    def _add_end(self, key: str, node: Node) -> None:
        ref = self._sheets.get(node.sheet)
        subflow = next((raw for raw in self._subflows if as_id(raw.get("id")) == ref), None)
        end_kind = _ENDS[node.type]
        if subflow is None:
            self._tally.drop("node", "the sheet of this end is no subflow", key)
        elif end_kind == "status" and as_dict(subflow.get("status")) is not None:
            self._tally.drop("node", "a subflow has one status", key)
        else:
            raw = self._raws[key] = {"wires": []}
            if end_kind == "status":
                subflow["status"] = raw
            else:
                subflow[end_kind] = [*(as_list(subflow.get(end_kind)) or ()), raw]

    def _take_out(self) -> None:
        gone = {id(draft.raw) for draft in self._changed.gone}
        self._flows[:] = [raw for raw in self._flows if id(raw) not in gone]
        for subflow in self._subflows:
            for end_kind in ("in", "out"):
                if (ends := as_list(subflow.get(end_kind))) is not None:
                    ends[:] = [end for end in ends if id(end) not in gone]
            if id(subflow.get("status")) in gone:
                del subflow["status"]

    def _new(self, node: Node) -> Json:
        origin = as_dict((node.model_extra or {}).get("origin")) or {}
        is_ours = origin.get("format") == "node-red"
        foreign_id = origin.get("id")
        kind = {NOTE_TYPE: "comment"}.get(node.type, node.type.removeprefix("node-red."))
        raw: Json = {
            "id": foreign_id
            if is_ours and foreign_id and foreign_id not in self._used_ids
            else _new_id(node.graph_key, node.key),
            "type": kind,
            **((as_dict(origin.get("fields")) or {}) if is_ours else {}),
            **(dict.fromkeys(as_list(origin.get("empty")) or (), "") if is_ours else {}),
        }
        if kind == GROUP_TYPE:
            raw["nodes"] = []
        elif self._is_config(node):
            set_or_remove(raw, "z", as_id(origin.get("z")) if is_ours else None)
        else:
            raw["wires"] = [[] for _, point in node.points("out") if point.id.isdigit()]
        return raw

    def _is_config(self, node: Node) -> bool:
        return self._sheets.get(node.sheet) == CONFIG_SHEET and not _is_step(node)

    def _patch_node(self, raw: Json, changed_node: ChangedNode) -> None:
        node = changed_node.node
        old = changed_node.before
        now = data_of(node)
        was = data_of(old)
        self._place(raw, changed_node)
        if node.type in _ENDS:
            return
        if now.get("name") != was.get("name") and node.type != NOTE_TYPE:
            raw["name"] = str(now.get("name") or "")
        if node.type == NOTE_TYPE:
            _patch_comment(raw, now, was)
        elif now.get("notes") != was.get("notes"):
            set_or_remove(raw, "info", now.get("notes"))
        if now.get("disabled") != was.get("disabled"):
            set_or_remove(raw, "d", True if now.get("disabled") else None)
        self._patch_settings(raw, changed_node)
        if old is None or node.process != old.process:
            self._patch_code(raw, changed_node)
        changed_node.count_unwritten(_WRITTEN_FIELDS, self._tally)

    def _place(self, raw: Json, changed_node: ChangedNode) -> None:
        node = changed_node.node
        old = changed_node.before
        if old is None and self._is_config(node):
            return
        if node.type not in _ENDS and (old is None or node.sheet != old.sheet):
            raw["z"] = self._sheets.get(node.sheet, "")
        is_moved = old is None or (node.pos_x, node.pos_y) != (old.pos_x, old.pos_y)
        if node.type == GROUP_TYPE:
            if is_moved:
                raw["x"], raw["y"] = node.pos_x, node.pos_y
            if old is None or node.size != old.size:
                raw["w"], raw["h"] = node.size.width, node.size.height
        elif is_moved and (
            changed_node.draft is None or "x" in raw or "y" in raw
        ):  # settings have no place
            width, height = (
                (changed_node.draft.width, changed_node.draft.height)
                if changed_node.draft
                else _extent(node)
            )
            raw["x"], raw["y"] = node.pos_x + width // 2, node.pos_y + height // 2

    def _patch_settings(self, raw: Json, changed_node: ChangedNode) -> None:
        now = as_dict(data_of(changed_node.node).get("parameters")) or {}
        was = as_dict(data_of(changed_node.before).get("parameters")) or {}
        for name in sorted(now.keys() | was.keys()):
            if now.get(name) == was.get(name) and (name in now) == (name in was):
                continue
            if name in FRAME:
                shown = f"{data_of(changed_node.node).get('name')}: {name}"
                self._tally.drop("field", "the format uses this name for something else", shown)
            elif name in now:
                raw[name] = now[name]
            else:
                raw.pop(name, None)

    def _patch_code(self, raw: Json, changed_node: ChangedNode) -> None:
        field, _ = CODE.get(str(raw.get("type")), ("", ""))
        if field:
            set_or_remove(raw, field, changed_node.node.process)
        elif changed_node.node.process is not None:
            shown = f"{data_of(changed_node.node).get('name')}: process"
            self._tally.drop("field", "nodes of its type hold no code in Node-RED", shown)

    def _join_groups(self) -> None:
        """Writes changed memberships: a member refers to its group, a group lists its members."""
        for draft in self._changed.gone:
            for raw in self._raws.values():
                if raw.get("type") == GROUP_TYPE:
                    _remove(as_list(raw.get("nodes")), draft.origin.get("id"))
        for key, raw in self._raws.items():
            changed_node = self._changed.nodes[key]
            group = data_of(changed_node.node).get("group")
            old = data_of(changed_node.before).get("group")
            if group == old:
                continue
            for name in (group, old):
                if (members := as_list(self._raws.get(str(name), {}).get("nodes"))) is not None:
                    _remove(members, self._id_of(key))
                    members += [self._id_of(key)] if name == group else []
            set_or_remove(raw, "g", self._id_of(str(group)) if str(group) in self._raws else None)

    # Edges

    def _id_of(self, key: str) -> str:
        raw = self._raws[key]
        if as_id(raw.get("id")) is None:
            raw["id"] = _new_id(self._changed.graph.key, key)
        return str(as_id(raw["id"]))

    def _cut(self, ends: EdgeEnds) -> None:
        drafts = {key: draft for draft, key in self._changed.keys.items()}
        source = drafts[ends[0]]
        target = drafts[ends[2]]
        if ends[1] == LINK:
            for end, other in ((source, target), (target, source)):
                _remove(as_list(end.raw.get("links")), other.origin.get("id"))
        elif target.type in ("subflow-out", "subflow-status"):
            wires = as_list(target.raw.get("wires"))
            if source.type == "subflow-in":
                _remove(wires, source.sheet)
            else:
                _remove(wires, source.origin.get("id"), port=ends[1])
        elif source.type == "subflow-in":
            _remove(as_list(source.raw.get("wires")), target.origin.get("id"))
        else:
            outputs: dict[int | None, Any] = dict(enumerate(as_list(source.raw.get("wires")) or ()))
            _remove(as_list(outputs.get(_output(ends[1]))), target.origin.get("id"))

    def _connect(self, ends: EdgeEnds) -> None:
        source, output, target, inlet = ends
        if source not in self._raws or target not in self._raws:
            self._tally.drop("edge", "one of its ends is not in the file", f"{source} → {target}")
            return
        source_node = self._changed.nodes[source].node
        target_node = self._changed.nodes[target].node
        if output == LINK or inlet == LINK:
            self._link(source, target)
        elif target_node.type in ("subflow-out", "subflow-status"):
            name = (
                self._sheets.get(source_node.sheet, "")
                if source_node.type == "subflow-in"
                else self._id_of(source)
            )
            self._raws[target].setdefault("wires", []).append(
                {"id": name, "port": _output(output) or 0}
            )
        elif source_node.type == "subflow-in":
            self._raws[source].setdefault("wires", []).append({"id": self._id_of(target)})
        elif (place := _output(output)) is None or inlet != "0":
            self._tally.drop(
                "edge", "the format has no such output or input", f"{source} → {target}"
            )
        else:
            wires = as_list(self._raws[source].get("wires")) or []
            wires += [[] for _ in range(place + 1 - len(wires))]
            wires[place] = [*(as_list(wires[place]) or ()), self._id_of(target)]
            self._raws[source]["wires"] = wires

    def _link(self, source: str, target: str) -> None:
        if not all(self._raws[key].get("type") in _LINKS for key in (source, target)):
            self._tally.drop("edge", "only link nodes can be linked", f"{source} → {target}")
            return
        for key, other in ((source, target), (target, source)):
            if self._raws[key].get("type") != "link in" or "links" in self._raws[key]:
                self._raws[key].setdefault("links", []).append(self._id_of(other))


def _refs(metadata: Mapping[str, Any] | None) -> dict[str, str]:
    origin = as_dict((metadata or {}).get("origin")) or {}
    return {sheet: str(ref) for sheet, ref in (as_dict(origin.get("sheets")) or {}).items()}


def _is_step(node: Node) -> bool:
    """Returns whether a node has inputs or outputs; shared settings have none."""
    return bool(node.points("in") or node.points("out")) or node.type in (NOTE_TYPE, GROUP_TYPE)


def _extent(node: Node) -> tuple[int, int]:
    """Returns the width and height that an import gives to a node."""
    extents = {"junction": JUNCTION_EXTENT, **dict.fromkeys(_ENDS, END_EXTENT)}
    extent = extents.get(node.type)
    return (STEP_WIDTH, STEP_HEIGHT) if extent is None else (extent, extent)


def _end_place(node: Node) -> int:
    """Returns the position of a subflow's end among those of its kind in the file; new ends come
    last.
    """
    origin = as_dict((node.model_extra or {}).get("origin")) or {}
    number = str(origin.get("id")).rsplit(" ", 1)[-1]
    is_known = node.type in _ENDS and number.isdecimal() and len(number) < 10
    return int(number) if is_known else MAX_OUTPUTS


def _output(handle: str) -> int | None:
    """Returns the number of an output handle, None for an id that a client chose otherwise."""
    return next((place for place in range(MAX_OUTPUTS) if str(place) == handle), None)


def _remove(listed: list[Any] | None, name: Any, *, port: str | None = None) -> None:
    """Removes an id from a list of ids, or of objects with an id; with `port` only that port's."""

    def is_match(item: Any) -> bool:
        fields = as_dict(item) or {"id": item}
        return as_id(fields.get("id")) == name and port in (None, str(fields.get("port", 0)))

    if listed is not None:
        listed[:] = [item for item in listed if not is_match(item)]


def _patch_comment(raw: Json, now: Mapping[str, Any], was: Mapping[str, Any]) -> None:
    """Writes the title and text of a comment: its first paragraph is the title."""
    if now.get("text") != was.get("text"):
        title, _, info = str(now.get("text") or "").partition("\n\n")
        if "\n" in title:
            title = str(now.get("name") or "comment")
            info = str(now["text"])
        raw["name"], raw["info"] = title, info
    elif now.get("name") != was.get("name"):
        raw["name"] = str(now.get("name") or "")
