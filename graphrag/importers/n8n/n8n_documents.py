"""Recognises documents with n8n workflows: files, clipboards, answers of n8n's API, backups.

Decision: a document counts as n8n's only if it has nodes or connections in the form that n8n alone
writes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

from graphrag.importers.json_values import Json, as_dict, as_list, as_number, as_text
from graphrag.importers.n8n.node_types import is_n8n_type
from graphrag.importers.report import Tally, UnreadableWorkflow

# Larger recorded test data is not stored with the graph.
MAX_KEPT_BYTES = 20_000

_BULKY = ("pinData", "staticData")
# Fields with persons and projects of the server.
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
# Fields with a copy of the workflow.
_COPIES = ("activeVersion",)
# Fields with one or several workflows, in templates of n8n's library and answers of its API.
_WRAPPERS = ("workflow", "data")


def recognise(document: Any, tally: Tally) -> Json | None:
    """Returns the workflow of a document without the fields that only its server needs, or None.

    Raises: UnreadableWorkflow for several workflows.
    """
    workflows = workflows_in(document)
    if len(workflows) > 1:
        reason = (
            f"it holds {len(workflows)} n8n workflows; `nodius import` makes a graph of each, elsewhere "
            "save each one as a file of its own"
        )
        raise UnreadableWorkflow(reason=reason)
    if workflows:
        return _without_server_fields(workflows[0], tally)
    nodes = as_list(document)
    if not nodes or not all(map(is_node, nodes)):
        return None
    tally.repair("workflow", "the file lists nodes alone; they are not connected")
    return {"nodes": nodes, "connections": {}}


def workflows_in(document: Any) -> list[Json]:
    """Returns the workflows of a document, with the name of their list entry if they have none."""
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
        content = fields.get(wrapper)
        for item in as_list(content) or [content]:
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
    """Returns whether a value has the form of an n8n node."""
    fields = as_dict(value)
    if fields is None or "wires" in fields:
        return False
    if (
        is_n8n_type(as_text(fields.get("type")) or "")
        or as_number(fields.get("typeVersion")) is not None
    ):
        return True
    fields_of_nodes = (
        as_dict(fields.get("parameters")),
        as_list(fields.get("position")),
        as_text(fields.get("name")),
    )
    return None not in fields_of_nodes


def _is_connection(connections: Any) -> bool:
    return any(kind == "main" or kind.startswith("ai_") for kind in as_dict(connections) or {})


def _without_server_fields(workflow: Json, tally: Tally) -> Json:
    """Returns a workflow without persons, copies of itself, and large test data."""
    kept = {**workflow}
    for field in (*_OF_PEOPLE, *_COPIES, *_BULKY):
        value = kept.get(field)
        if field in _BULKY:
            size = len(orjson.dumps(value)) if value else 0
            if size <= MAX_KEPT_BYTES:
                continue
            tally.drop(field, "it is too large to be stored with the graph", f"{size // 1000} kB")
        elif value:
            what, why = "sharing list", "it names persons and projects of another server"
            if field in _COPIES:
                what, why = "published version", "it is a copy of the workflow"
            tally.drop(what, why)
        kept.pop(field, None)
    return kept
