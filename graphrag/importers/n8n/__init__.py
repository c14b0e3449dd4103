"""n8n workflow exports.

Connections name nodes by their names; positions are top-left corners; sticky notes are nodes.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import orjson

from graphrag.importers.json_values import Json, as_dict, as_id, as_list, as_text, rest
from graphrag.importers.n8n.connections import read_connections
from graphrag.importers.n8n.nodes import read_nodes
from graphrag.importers.n8n.workflow_patch import WORKFLOW_WRITER
from graphrag.importers.readable_keys import clean, file_stem
from graphrag.importers.report import UnreadableWorkflow
from graphrag.importers.secrets import scrub
from graphrag.importers.workflow_draft import DraftSheet, WorkflowDraft
from graphrag.importers.workflow_format import MAX_NODES, ImportTarget, WorkflowFormat, check_size

MAX_KEPT_BYTES = 20_000
"""Recorded test data larger than this would only weigh on the graph."""

_READ = frozenset({"name", "nodes", "connections", "id", "description", "createdAt", "updatedAt", "shared"})
_BULKY = ("pinData", "staticData")


def _recognise(document: Any) -> Json | None:
    """Recognise a workflow, also as the template service wraps it, and the one in a list."""
    fields = as_dict(document)
    if fields is not None:
        inner = as_dict(fields.get("workflow"))
        workflow = fields if "nodes" in fields or inner is None else inner
        is_other = "connections" not in workflow and ("edges" in workflow or "links" in workflow)
        return workflow if as_list(workflow.get("nodes")) is not None and not is_other else None
    items = [item for item in map(as_dict, as_list(document) or ()) if item is not None]
    workflows = [item for item in items if as_list(item.get("nodes")) is not None and "connections" in item]
    if workflows and len(items) > 1:
        reason = f"it holds {len(items)} n8n workflows; save each one as a file of its own"
        raise UnreadableWorkflow(reason=reason)
    return workflows[0] if workflows else None


def _read(document: Json, target: ImportTarget) -> WorkflowDraft:
    name, listed = as_text(document.get("name")), as_list(document.get("nodes")) or []
    foreign_id = as_id(document.get("id"))
    check_size("nodes", len(listed), MAX_NODES)
    draft = WorkflowDraft(
        format="n8n",
        name=clean(name or "") or file_stem(target.file_name) or "workflow",
        identity=foreign_id and f"{foreign_id}\x00{name or ''}",
        sheets=[DraftSheet(ref="", label="main")],
        created_ms=_milliseconds(document.get("createdAt")),
        updated_ms=_milliseconds(document.get("updatedAt")),
    )
    said = as_text(document.get("description")) or as_text(
        (as_dict(document.get("meta")) or {}).get("description")
    )
    draft.description = scrub(said, draft.tally, "description")
    read_nodes(draft, listed)
    if not draft.nodes:
        raise UnreadableWorkflow(reason="it has no node that can be read; export the workflow from n8n again")
    read_connections(draft, document.get("connections"))
    draft.metadata = {"n8n": _workflow_fields(draft, document)}
    if foreign_id is not None:
        draft.metadata["n8n"]["id"] = foreign_id
    return draft


N8N = WorkflowFormat(
    name="n8n", title="an n8n workflow", recognise=_recognise, read=_read, writer=WORKFLOW_WRITER
)


def _workflow_fields(draft: WorkflowDraft, document: Json) -> Json:
    kept = rest(document, _READ)
    for field in _BULKY:
        value = kept.get(field)
        size = len(orjson.dumps(value)) if value else 0
        if size > MAX_KEPT_BYTES:
            del kept[field]
            draft.tally.drop(field, "it is larger than a graph keeps", f"{size // 1000} kB")
    if document.get("shared"):
        draft.tally.drop("sharing list", "it names persons and projects of another server")
    return scrub({k: v for k, v in kept.items() if v not in (None, {}, [])}, draft.tally, "workflow settings")


def _milliseconds(value: Any) -> int:
    """Return a time of ISO 8601 as milliseconds since 1970; 0 when there is none."""
    text = as_text(value)
    if text is None:
        return 0
    try:
        moment = datetime.fromisoformat(text)
        aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return max(0, int(aware.timestamp() * 1000))
    except (ValueError, OverflowError):
        return 0
