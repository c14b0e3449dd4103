"""Node-RED flow files: tabs and subflows become sheets, wires become edges.

Wires refer to nodes by id; positions are centres; settings are fields of the node itself.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from graphrag.importers.json_values import Json, as_dict, as_id, as_list, as_number, as_text, rest
from graphrag.importers.node_red.flow_documents import recognise
from graphrag.importers.node_red.flow_nodes import (
    CONFIG_SHEET,
    fill_config,
    fill_group,
    fill_note,
    fill_step,
    start_node,
)
from graphrag.importers.node_red.flow_patch import FLOW_WRITER
from graphrag.importers.node_red.wires import connect_all
from graphrag.importers.readable_keys import clean, file_stem
from graphrag.importers.report import Tally, UnreadableWorkflow
from graphrag.importers.workflow_draft import DraftNode, DraftSheet, WorkflowDraft, is_note
from graphrag.importers.workflow_format import MAX_NODES, ImportTarget, WorkflowFormat, check_size

_GENERIC = re.compile(r"(flow|sheet|tab)\s*\d*$", re.IGNORECASE)
_CONFIG_COLUMNS = 5


@dataclass(slots=True, kw_only=True)
class _FlowParts:
    """The entries of a flow file by kind."""

    tabs: list[Json] = field(default_factory=list[Json])
    subflows: list[Json] = field(default_factory=list[Json])
    groups: list[Json] = field(default_factory=list[Json])
    configs: list[Json] = field(default_factory=list[Json])
    steps: list[Json] = field(default_factory=list[Json])


def _read(document: Json, target: ImportTarget, tally: Tally) -> WorkflowDraft:
    listed = as_list(document.get("flows")) or []
    check_size("nodes", len(listed), MAX_NODES)
    draft = WorkflowDraft(
        format="node-red", name=file_stem(target.file_name) or "flow", tally=tally
    )
    parts = _sort(draft, listed)
    if not any((parts.tabs, parts.subflows, parts.groups, parts.configs, parts.steps)):
        reason = "it has no node that can be read; export the flow from Node-RED again"
        raise UnreadableWorkflow(reason=reason)
    first = as_text(parts.tabs[0].get("label")) if parts.tabs else None
    if first and not _GENERIC.match(first.strip()):
        draft.name = clean(first) or draft.name
    draft.description = as_text(parts.tabs[0].get("info")) if len(parts.tabs) == 1 else None
    draft.identity = _identity(parts)
    _add_sheets(draft, parts)
    _add_nodes(draft, parts)
    kept = rest(document, frozenset({"flows"}))
    draft.metadata = {
        "nodeRed": {
            **({"file": kept} if kept else {}),
            "sheets": {sheet.ref: sheet.details for sheet in draft.sheets if sheet.details},
        }
    }
    return draft


NODE_RED = WorkflowFormat(
    name="node-red", title="a Node-RED flow", recognise=recognise, read=_read, writer=FLOW_WRITER
)


def _sort(draft: WorkflowDraft, listed: list[Any]) -> _FlowParts:
    parts = _FlowParts()
    for place, item in enumerate(listed, start=1):
        raw = as_dict(item)
        if raw is None or not (as_text(raw.get("type")) or as_id(raw.get("id"))):
            draft.tally.drop("node", "it has no type and no id", f"number {place}")
            continue
        named = {"tab": parts.tabs, "subflow": parts.subflows, "group": parts.groups}
        if (entries := named.get(str(raw.get("type")))) is not None:
            entries.append(raw)
        elif (
            as_number(raw.get("x")) is None
            and as_number(raw.get("y")) is None
            and not raw.get("wires")
        ):
            parts.configs.append(raw)
        else:
            parts.steps.append(raw)
    return parts


def _identity(parts: _FlowParts) -> str | None:
    for tab in parts.tabs:
        if (tab_id := as_id(tab.get("id"))) is not None:
            return tab_id
    for raw in (*parts.steps, *parts.subflows, *parts.configs):
        foreign_id = as_id(raw.get("z")) or as_id(raw.get("id"))
        if foreign_id is not None:
            return foreign_id
    return None


def _add_sheets(draft: WorkflowDraft, parts: _FlowParts) -> None:
    used: set[str] = set()

    def add(ref: str, label: str, details: Json) -> None:
        used.add(ref)
        draft.sheets.append(DraftSheet(ref=ref, label=label, details=details))

    for place, tab in enumerate(parts.tabs, start=1):
        ref = as_id(tab.get("id")) or f"tab {place}"
        if ref in used:
            draft.tally.repair("tab", "another has the same id; both share one sheet", ref)
            continue
        add(ref, as_text(tab.get("label")) or f"flow {place}", _details(tab, "label"))
    subflow_ids = {
        as_id(subflow.get("id")) or f"subflow {n}" for n, subflow in enumerate(parts.subflows, 1)
    }
    for raw in (*parts.steps, *parts.groups):
        ref = as_id(raw.get("z")) or ""
        if ref in used or ref in subflow_ids:
            continue
        add(ref, "flow", {})
        draft.tally.repair(
            "sheet", "its tab is not in the file; created for its nodes", ref or "no tab"
        )
    for place, subflow in enumerate(parts.subflows, start=1):
        ref = as_id(subflow.get("id")) or f"subflow {place}"
        if ref in used:
            draft.tally.repair("subflow", "another has the same id; both share one sheet", ref)
            continue
        details = {"type": "subflow", **_details(subflow, "in", "out", "status")}
        add(ref, f"subflow {as_text(subflow.get('name')) or place}", details)
    if parts.configs:
        add(CONFIG_SHEET, CONFIG_SHEET, {})


def _details(raw: Json, *known: str) -> Json:
    kept = rest(raw, frozenset({"id", "type", *known}))
    return {name: value for name, value in kept.items() if value not in (None, "", [], {})}


def _add_nodes(draft: WorkflowDraft, parts: _FlowParts) -> None:
    """Adds all nodes, groups and wires. If several nodes have the same id, wires go to the first
    one.
    """
    by_id: dict[str, DraftNode] = {}
    wired: list[tuple[DraftNode, Json]] = []

    def add(node: DraftNode, raw: Json) -> None:
        draft.nodes.append(node)
        wired.append((node, raw))
        foreign_id = node.origin.get("id")
        if foreign_id is not None and (other := by_id.setdefault(foreign_id, node)) is not node:
            if is_note(other) and not is_note(node):
                by_id[foreign_id] = node
            what = "another has the same id; wires go to the first that is no note"
            draft.tally.repair("node", what, node.name)

    subflows = {ref: raw for raw in parts.subflows if (ref := as_id(raw.get("id"))) is not None}
    for raw in parts.groups:
        node = start_node(draft, raw, as_id(raw.get("z")) or "")
        fill_group(draft, node, raw)
        add(node, raw)
    for raw in parts.steps:
        node = start_node(draft, raw, as_id(raw.get("z")) or "")
        if raw.get("type") == "comment":
            fill_note(draft, node, raw)
        else:
            fill_step(draft, node, raw, subflows)
        add(node, raw)
    for place, raw in enumerate(parts.configs):
        node = start_node(draft, raw, CONFIG_SHEET)
        node.x = place % _CONFIG_COLUMNS * 200
        node.y = place // _CONFIG_COLUMNS * 80
        fill_config(draft, node, raw)
        add(node, raw)
    _join_groups(draft, by_id, wired)
    connect_all(draft, by_id, wired, parts.subflows)


def _join_groups(
    draft: WorkflowDraft, by_id: dict[str, DraftNode], wired: list[tuple[DraftNode, Json]]
) -> None:
    joined: dict[DraftNode, DraftNode] = {}
    for node, raw in wired:
        group = by_id.get(as_id(raw.get("g")) or "")
        if group is not None and group is not node and group.type == "group":
            joined[node] = group
        elif raw.get("g"):
            draft.tally.drop("group membership", "the group is not in the file", node.name)
    for group, raw in wired:
        if group.type != "group":
            continue
        for listed in as_list(raw.get("nodes")) or ():
            member = by_id.get(as_id(listed) or "")
            if member is None:
                draft.tally.drop("group membership", "the member is not in the file", group.name)
            elif member is not group:
                joined.setdefault(member, group)
    draft.members.extend(joined.items())
