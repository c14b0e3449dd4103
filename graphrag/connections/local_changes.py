"""Finds how a graph differs from the document that it was synchronised with last."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from datasources.errors import GraphNotFound
from graphrag.approvals import Approvals, Person
from graphrag.approvals.errors import ApprovalNotFound
from graphrag.connections.stored_connection import ConnectionLink
from graphrag.importers import UnreadableWorkflow
from graphrag.importers.assemble import ORIGIN
from graphrag.importers.differences import differences
from graphrag.workers import WorkersBusy

# Fields of n8n that differ in every version, so that a person learns nothing from them.
_MARKS = frozenset({"versionId", "versionCounter", "activeVersionId", "updatedAt", "triggerCount"})


async def is_waiting(link: ConnectionLink, approvals: Approvals, by: Person) -> bool:
    """Returns whether the proposal that a conflict became waits for a decision."""
    if link.approval is None:
        return False
    try:
        return (await approvals.get(link.approval, by)).is_open
    except ApprovalNotFound:
        return False


async def settled(link: ConnectionLink, approvals: Approvals) -> ConnectionLink:
    """Returns the link of a conflict that was decided.

    Where the server's version was approved, the graph equals the document and is in step; where
    it was rejected, the graph is changed here.
    """
    decided = link.model_copy(update={"state": "in_step", "approval": None})
    return await compared(decided, approvals)


async def compared(link: ConnectionLink, approvals: Approvals) -> ConnectionLink:
    """Returns the link after its graph was compared with the document.

    A graph that equals it is in step at its present revision; of one that differs, the revision is
    kept in `compared_revision`, so that it is not compared again. Where no comparison is possible,
    the link stays as it is.
    """
    try:
        found = await differences(approvals, link.graph_key)
    except (GraphNotFound, UnreadableWorkflow, WorkersBusy):
        return link
    if found is None:
        return link
    name = "compared_revision" if found.here else "graph_revision"
    return link.model_copy(update={name: found.revision})


def without_marks(preview: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a preview without what tells a person nothing: the server's own marks of a version,
    and the name that a changed node had in its file.
    """
    shown: dict[str, Any] = {}
    for part, items in preview.items():
        kept = [_without_marks(item) for item in items] if part.endswith("Changed") else items
        if kept := [item for item in kept if item.get("fields") != []]:
            shown[part] = kept
    return shown


def _without_marks(change: Mapping[str, Any]) -> dict[str, Any]:
    fields = [
        field
        for field in change["fields"]
        if field["path"][-1] not in _MARKS and field["path"][0] != ORIGIN
    ]
    return {**change, "fields": fields}
