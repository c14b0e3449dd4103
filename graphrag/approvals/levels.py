"""Reads what each level demands of an action: settings, workspace, graph, node types."""

from __future__ import annotations

from datasources.types import Mutation
from graphrag.approvals.approval import Action
from graphrag.approvals.approval_context import ApprovalContext
from graphrag.approvals.pending_changes import types_named
from graphrag.approvals.validation import ActionClass, Demand, Levels, classes_named, required
from tools.proposals import SingleAction, single_actions
from tools.write_tools import Snapshot, with_references
from tools.write_tools.graph_reads import edges_named, nodes_named

POLICY_KIND = "policy"
WORKSPACE_POLICY = "workspace"
FOLLOWING = "references"
"""The place of the changes by which other nodes follow a rename."""
PROTECTED_METADATA = ("validation", "checks", "alwaysSend")
"""Fields of a graph's metadata that no model's proposal may change."""


async def workspace_classes(context: ApprovalContext) -> frozenset[ActionClass]:
    """Return the classes for which the workspace demands a person. Raises: SourceError."""
    record = await context.store.records.get(POLICY_KIND, WORKSPACE_POLICY)
    return classes_named(record.data.get("classes")) if record else frozenset()


async def levels_of(
    context: ApprovalContext,
    action: Action,
    snapshot: Snapshot,
    *,
    session: bool = False,
    request: bool = False,
    unattended: bool = False,
) -> Levels:
    """Return what every level demands now of an action on this graph. Raises: SourceError."""
    names = {name for _, single in single_actions(action) for name in types_touched(single, snapshot)}
    return Levels(
        application=context.application,
        workspace=await workspace_classes(context),
        graph=classes_named((snapshot.graph.metadata or {}).get("validation")),
        node_types={name: _classes_of_type(name, snapshot) for name in sorted(names)},
        session=session,
        request=request,
        unattended=unattended,
        four_eyes=context.policy.four_eyes,
    )


def _classes_of_type(name: str, snapshot: Snapshot) -> frozenset[ActionClass]:
    config = snapshot.type_of(name)
    return classes_named((config.model_extra or {}).get("validation")) if config else frozenset()


def types_touched(single: SingleAction, snapshot: Snapshot) -> list[str]:
    """Return the names of the node types that a part of an action touches, also through edges."""
    edges = [snapshot.edges[key] for key in edges_named(single) if key in snapshot.edges]
    keys = nodes_named(single) | {end for edge in edges for end in (edge.source, edge.target)}
    found = {snapshot.nodes[key].type for key in keys if key in snapshot.nodes}
    return sorted(found | types_named([single]))


def demands_of(action: Action, levels: Levels, snapshot: Snapshot) -> tuple[Demand, ...]:
    """Return why a person must be asked, also for the changes by which other nodes follow a rename."""

    def types_of(single: SingleAction) -> list[str]:
        return types_touched(single, snapshot)

    found = required(action, levels, types_of)
    own, whole = len(list(single_actions(action))), with_references(action, snapshot)
    for _, single in list(single_actions(whole))[own:] if whole is not action else ():
        for one in required(single, levels, types_of):
            following = Demand(level=one.level, classes=one.classes, where=FOLLOWING, name=one.name)
            found += [] if following in found else [following]
    return tuple(found)


def protected_fields(before: Snapshot, mutation: Mutation) -> list[str]:
    """Return what a mutation changes of the demands for a person, in the names of fields."""
    found: list[str] = []
    if mutation.graph is not None:
        old, new = before.graph.metadata or {}, mutation.graph.metadata or {}
        found += [f"metadata.{name}" for name in PROTECTED_METADATA if old.get(name) != new.get(name)]
    for config in mutation.put_configs:
        old_type = before.type_of(config.type) or before.types.get(config.key)
        old_asked = (old_type.model_extra or {}).get("validation") if old_type else None
        if (config.model_extra or {}).get("validation") != old_asked:
            found.append(f"type/{config.type}.validation")
    return found
