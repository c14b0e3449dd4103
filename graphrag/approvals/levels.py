"""Reads what each level demands of an action: settings, workspace, graph, node types."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from datasources.types import Mutation, NodeTypeConfig
from graphrag.approvals.approval import Action
from graphrag.approvals.approval_context import ApprovalContext
from graphrag.approvals.errors import NotAllowed
from graphrag.approvals.pending_changes import types_named
from graphrag.approvals.validation import ActionClass, Demand, Levels, classes_named, required
from graphrag.roles import Person
from tools.proposals import SingleAction, single_actions
from tools.write_tools import Snapshot, with_references
from tools.write_tools.graph_reads import edges_named, nodes_named

POLICY_KIND = "policy"
WORKSPACE_POLICY = "workspace"
FOLLOWING = "references"
"""The place of the changes by which other nodes follow a rename."""
VALIDATION = "validation"
PROTECTED_METADATA = (VALIDATION, "checks", "alwaysSend")
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
        node_types={name: classes_of_type(snapshot.type_of(name)) for name in sorted(names)},
        session=session,
        request=request,
        unattended=unattended,
        four_eyes=context.policy.four_eyes,
    )


def classes_of_type(config: NodeTypeConfig | None) -> frozenset[ActionClass]:
    """Return the classes for which a node type demands a person."""
    return classes_named(_validation(config)) if config else frozenset()


def _validation(config: NodeTypeConfig) -> Any:
    return (config.model_extra or {}).get(VALIDATION)


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


def protected_fields(
    before: Snapshot, mutation: Mutation, metadata: Iterable[str] = PROTECTED_METADATA
) -> list[str]:
    """Return what a mutation changes of these fields of a graph, and of the demands of node types."""
    found: list[str] = []
    if mutation.graph is not None:
        old, new = before.graph.metadata or {}, mutation.graph.metadata or {}
        found += [f"metadata.{name}" for name in metadata if old.get(name) != new.get(name)]
    for config in mutation.put_configs:
        old_type = before.type_of(config.type)
        if _validation(config) != (_validation(old_type) if old_type else None):
            found.append(f"type/{config.type}.validation")
    return found


def check_may_change(before: Snapshot, mutation: Mutation, by: Person) -> None:
    """Raise NotAllowed where a person who is no reviewer would change what people must be asked for."""
    if not by.at_least("reviewer") and protected_fields(before, mutation, (VALIDATION,)):
        raise NotAllowed(code="policy_needs_reviewer", user_id=by.user_id, role=by.role)


def keeping_demands(before: Snapshot, mutation: Mutation) -> Mutation:
    """Return the mutation without its changes of what people must be asked for."""
    graph = mutation.graph
    if graph is not None:
        old, new = before.graph.metadata or {}, graph.metadata or {}
        if old.get(VALIDATION) != new.get(VALIDATION):
            graph = graph.replace(metadata={**new, VALIDATION: old.get(VALIDATION, [])})
    configs = [
        config.replace(validation=_validation(old))
        if (old := before.type_of(config.type)) and _validation(config) != _validation(old)
        else config
        for config in mutation.put_configs
    ]
    return replace(mutation, graph=graph, put_configs=configs)
