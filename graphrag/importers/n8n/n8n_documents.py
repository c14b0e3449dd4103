"""Recognises the documents that hold n8n workflows: files, clipboards, answers of its API, backups.

Decision: a document is n8n's only where it shows it, by nodes or connections as n8n
alone writes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

from graphrag.importers.json_values import Json, as_dict, as_list, as_number, as_text
from graphrag.importers.n8n.node_types import is_n8n_type
from graphrag.importers.report import Tally, UnreadableWorkflow

MAX_KEPT_BYTES = 20_000
"""Recorded test data larger than this would only weigh on the graph."""

_BULKY = ("pinData", "staticData")
_OF_PEOPLE = (
    *(
        "shared",
        "homeProject",
        "sharedWithProjects",
        "ownedBy",
        "createdBy",
        "updatedBy",
        "lastUpdatedBy",
    ),
    *("authors", "usedCredentials", "scopes"),
)
_COPIES = ("activeVersion",)
_WRAPPERS = ("workflow", "data")
"""Where a template of n8n's library and the answers of its API hold a workflow, or several."""


def recognise(document: Any, tally: Tally) -> Json | None:
    """Return the workflow that a document holds, without what only its server needs;
    None for others.

    Raises: UnreadableWorkflow for several workflows.
    """
    found = workflows_in(document)
    if len(found) > 1:
        reason = (
            f"it holds {len(found)} n8n workflows; `nodius import` makes a graph of each, elsewhere "
            "save each one as a file of its own"
        )
        raise UnreadableWorkflow(reason=reason)
    if found:
        return _without_server_fields(found[0], tally)
    nodes = as_list(document)
    if not nodes or not all(map(is_node, nodes)):
        return None
    tally.repair("workflow", "the file lists nodes alone; they are not connected")
    return {"nodes": nodes, "connections": {}}


def workflows_in(document: Any) -> list[Json]:
    """Return the workflows of a document, each with the name that it is listed under."""
    listed = as_list(document)
    if listed is None:
        return list(_unwrapped(document))
    return [workflow for item in listed for workflow in _unwrapped(item)]


def _unwrapped(document: Any, depth: int = 0) -> Iterator[Json]:
    fields = as_dict(document)
    if fields is None or depth > len(_WRAPPERS):
        return
    if _is_workflow(fields):
        yield fields
        return
    for wrapper in _WRAPPERS:
        held = fields.get(wrapper)
        for item in as_list(held) or [held]:
            for workflow in _unwrapped(item, depth + 1):
                is_unnamed = not as_text(workflow.get("name")) and as_text(fields.get("name"))
                yield {**workflow, "name": fields["name"]} if is_unnamed else workflow


def _is_workflow(fields: Json) -> bool:
    listed = as_list(fields.get("nodes"))
    if listed is None:
        return False
    nodes = [item for item in listed if as_dict(item) is not None]
    n8ns = sum(map(is_node, nodes))
    connections = as_dict(fields.get("connections"))
    if connections is not None:
        return n8ns > 0 or not nodes or any(map(_is_connection, connections.values()))
    is_other = "connections" not in fields and ("edges" in fields or "links" in fields)
    return 2 * n8ns > len(nodes) and not is_other


def is_node(value: Any) -> bool:
    """Say whether a value can only be a node of n8n."""
    fields = as_dict(value)
    if fields is None or "wires" in fields:
        return False
    if (
        is_n8n_type(as_text(fields.get("type")) or "")
        or as_number(fields.get("typeVersion")) is not None
    ):
        return True
    read = (
        as_dict(fields.get("parameters")),
        as_list(fields.get("position")),
        as_text(fields.get("name")),
    )
    return None not in read


def _is_connection(held: Any) -> bool:
    return any(kind == "main" or kind.startswith("ai_") for kind in as_dict(held) or {})


def _without_server_fields(workflow: Json, tally: Tally) -> Json:
    """Return a workflow as it may be kept: without persons, copies of itself, and
    large test data.
    """
    kept = {**workflow}
    for field in (*_OF_PEOPLE, *_COPIES, *_BULKY):
        value = kept.get(field)
        if field in _BULKY:
            size = len(orjson.dumps(value)) if value else 0
            if size <= MAX_KEPT_BYTES:
                continue
            tally.drop(field, "it is larger than a graph keeps", f"{size // 1000} kB")
        elif value:
            what, why = "sharing list", "it names persons and projects of another server"
            if field in _COPIES:
                what, why = "published version", "it is a copy of the workflow"
            tally.drop(what, why)
        kept.pop(field, None)
    return kept
