"""Where a workflow and its graph stand to each other. Pure, no I/O."""

from __future__ import annotations

from typing import Literal

from graphrag.connections.editor import RemoteWorkflow
from graphrag.connections.stored_connection import ConnectionLink

Standing = Literal[
    "in_step",
    "changed_there",
    "changed_here",
    "changed_both",
    "conflict",
    "refused",
    "gone",
    "archived",
    "unreachable",
    "graph_deleted",
]
"""How a workflow and its graph stand to each other.

`changed_here`, `changed_there`, `changed_both`: since the last synchronisation. `conflict`: both
changed the same, and a proposal waits. `refused`: the workflow could not be read. `gone`,
`archived`: it is so on the server, its graph stays. `unreachable`: in step when the server was
read last, and it does not answer since.
"""


def standing_of(
    link: ConnectionLink,
    *,
    revision: int | None,
    listed: RemoteWorkflow | None = None,
    is_unreachable: bool = False,
) -> Standing:
    """Returns where a workflow and its graph stand.

    `revision` is the graph's present one, None where the graph was deleted. `listed` is the
    workflow as its server lists it now; without it nothing counts as changed there. What was
    changed here is known without the server, so it is told also while the server is away.
    """
    if link.state != "in_step":
        return link.state
    if revision is None:
        return "graph_deleted"
    is_changed_here = revision != link.graph_revision
    if listed is not None and link.tokens != dict(listed.tokens):
        return "changed_both" if is_changed_here else "changed_there"
    if is_changed_here:
        return "changed_here"
    return "unreachable" if is_unreachable else "in_step"
