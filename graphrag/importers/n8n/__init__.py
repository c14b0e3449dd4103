"""n8n workflow exports.

Connections refer to nodes by name; positions are top-left corners; sticky notes are nodes.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from graphrag.importers.json_values import Json, as_dict, as_id, as_list, as_text, rest
from graphrag.importers.n8n.connections import read_connections
from graphrag.importers.n8n.n8n_documents import recognise
from graphrag.importers.n8n.nodes import read_nodes
from graphrag.importers.n8n.workflow_patch import WORKFLOW_WRITER
from graphrag.importers.readable_keys import clean, file_stem
from graphrag.importers.report import Tally, UnreadableWorkflow
from graphrag.importers.workflow_draft import DraftSheet, WorkflowDraft
from graphrag.importers.workflow_format import MAX_NODES, ImportTarget, WorkflowFormat, check_size

_READ = frozenset({"name", "nodes", "connections", "id", "description", "createdAt", "updatedAt"})


def _read(document: Json, target: ImportTarget, tally: Tally) -> WorkflowDraft:
    name = as_text(document.get("name"))
    listed = as_list(document.get("nodes")) or []
    foreign_id = as_id(document.get("id"))
    check_size("nodes", len(listed), MAX_NODES)
    draft = WorkflowDraft(
        format="n8n",
        name=clean(name or "") or file_stem(target.file_name) or "workflow",
        identity=foreign_id and f"{foreign_id}\x00{name or ''}",
        sheets=[DraftSheet(ref="", label="main")],
        created_ms=_milliseconds(document.get("createdAt")),
        updated_ms=_milliseconds(document.get("updatedAt")),
        tally=tally,
    )
    draft.description = as_text(document.get("description")) or as_text(
        (as_dict(document.get("meta")) or {}).get("description")
    )
    read_nodes(draft, listed)
    if not draft.nodes:
        raise UnreadableWorkflow(
            reason="it has no node that can be read; export the workflow from n8n again"
        )
    read_connections(draft, document.get("connections"))
    kept = {
        name: value for name, value in rest(document, _READ).items() if value not in (None, {}, [])
    }
    draft.metadata = {"n8n": kept}
    if foreign_id is not None:
        draft.metadata["n8n"]["id"] = foreign_id
    return draft


N8N = WorkflowFormat(
    name="n8n", title="an n8n workflow", recognise=recognise, read=_read, writer=WORKFLOW_WRITER
)


def _milliseconds(value: Any) -> int:
    """Returns an ISO 8601 time as milliseconds since 1970, 0 if there is none."""
    text = as_text(value)
    if text is None:
        return 0
    try:
        moment = datetime.fromisoformat(text)
        aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return max(0, int(aware.timestamp() * 1000))
    except (ValueError, OverflowError):
        return 0
