"""Finds whether a graph differs from the document that it was synchronised with last."""

from __future__ import annotations

from datasources.errors import GraphNotFound
from graphrag.approvals import Approvals, Person
from graphrag.approvals.errors import ApprovalNotFound
from graphrag.connections.stored_connection import ConnectionLink
from graphrag.importers import UnreadableWorkflow
from graphrag.importers.differences import differences
from graphrag.workers import WorkersBusy


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
