"""The requirements of each level for an action: settings, workspace, graph, node types.

Each change of a requirement is audited in the same transaction. The settings of the operator are
never changed here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any, final

from datasources.base import RecordWrite
from datasources.builtin_types import types_by_name
from datasources.types import Mutation, NodeTypeConfig
from graphrag.answer_body import AnswerBody
from graphrag.approvals.approval import Action
from graphrag.approvals.approval_context import ApprovalContext
from graphrag.approvals.errors import NotAllowed, TypeNotFound
from graphrag.approvals.validation import ActionClass, Demand, Levels, classes_named, required
from graphrag.roles import Person
from tools.action_keys import keys_named
from tools.proposals import SingleAction, single_actions
from tools.write_tools import Snapshot, with_references

POLICY_KIND = "policy"
WORKSPACE_POLICY = "workspace"
FOLLOWING = "references"  # The `where` of changes of other nodes that refer to a renamed node.
VALIDATION = "validation"
# Fields of a graph's metadata that proposals of models must not change.
PROTECTED_METADATA = (VALIDATION, "checks", "alwaysSend")


async def _workspace_classes(context: ApprovalContext) -> frozenset[ActionClass]:
    """Returns the classes for which the workspace requires a person. Raises: SourceError."""
    record = await context.records.get(POLICY_KIND, WORKSPACE_POLICY)
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
    """Returns the current requirements of each level for an action on this graph. Raises:
    SourceError.
    """
    names = {
        name for _, single in single_actions(action) for name in types_touched(single, snapshot)
    }
    return Levels(
        application=context.application,
        workspace=await _workspace_classes(context),
        graph=classes_named((snapshot.graph.metadata or {}).get(VALIDATION)),
        node_types={name: classes_of_type(snapshot.type_of(name)) for name in sorted(names)},
        session=session,
        request=request,
        unattended=unattended,
        four_eyes=context.deciders.four_eyes,
    )


def classes_of_type(config: NodeTypeConfig | None) -> frozenset[ActionClass]:
    """Returns the classes for which a node type requires a person."""
    return classes_named(_validation(config)) if config else frozenset()


def _validation(config: NodeTypeConfig) -> Any:
    return (config.model_extra or {}).get(VALIDATION)


def types_touched(single: SingleAction, snapshot: Snapshot) -> list[str]:
    """Returns the names of the node types that a part of an action touches, also through edges."""
    edges = [snapshot.edges[key] for key in keys_named(single, "edge") if key in snapshot.edges]
    keys = keys_named(single, "node") | {
        end for edge in edges for end in (edge.source, edge.target)
    }
    types = {snapshot.nodes[key].type for key in keys if key in snapshot.nodes}
    return sorted(types | keys_named(single, "type"))


def demands_of(action: Action, levels: Levels, snapshot: Snapshot) -> tuple[Demand, ...]:
    """Returns the requirements for an action and for the changes of nodes that refer to a renamed
    node.
    """
    singles = list(single_actions(action))
    # Ends with the changes of nodes that refer to a renamed node.
    extended = list(single_actions(with_references(action, snapshot)))
    following = [(FOLLOWING, single) for _, single in extended[len(singles) :]]
    demands = [
        demand
        for where, single in (*singles, *following)
        for demand in required(single, where, types_touched(single, snapshot), levels)
    ]
    return tuple(dict.fromkeys(demands))


def protected_fields(
    before: Snapshot, mutation: Mutation, metadata: Iterable[str] = PROTECTED_METADATA
) -> list[str]:
    """Returns the changes of a mutation to these fields of a graph, and to the requirements of node
    types.
    """
    changes: list[str] = []
    if mutation.graph is not None:
        old = before.graph.metadata or {}
        new = mutation.graph.metadata or {}
        changes += [f"metadata.{name}" for name in metadata if old.get(name) != new.get(name)]
    for config in mutation.put_configs:
        old_type = before.type_of(config.type)
        if _validation(config) != (_validation(old_type) if old_type else None):
            changes.append(f"type/{config.type}.validation")
    return changes


def check_may_change(before: Snapshot, mutation: Mutation, by: Person) -> None:
    """Raises: NotAllowed if a person below reviewer would change the requirements for decisions."""
    if not by.at_least("reviewer") and protected_fields(before, mutation, (VALIDATION,)):
        raise NotAllowed(code="policy_needs_reviewer", user_id=by.user_id, role=by.role)


def keeping_demands(before: Snapshot, mutation: Mutation) -> Mutation:
    """Returns the mutation without its changes of the requirements for decisions."""
    graph = mutation.graph
    if graph is not None:
        old = before.graph.metadata or {}
        new = graph.metadata or {}
        if old.get(VALIDATION) != new.get(VALIDATION):
            graph = graph.replace(metadata={**new, VALIDATION: old.get(VALIDATION, [])})
    configs = [
        config.replace(validation=_validation(old))
        if (old := before.type_of(config.type)) and _validation(config) != _validation(old)
        else config
        for config in mutation.put_configs
    ]
    return replace(mutation, graph=graph, put_configs=configs)


@final
class PolicyView(AnswerBody):
    """The classes of change that require a person, by level. One level is enough."""

    application: list[ActionClass]
    workspace: list[ActionClass]
    graph: list[ActionClass] | None = None
    node_types: dict[str, list[ActionClass]]


async def policy_view(
    context: ApprovalContext, by: Person, graph_key: str | None = None
) -> PolicyView:
    """Returns the classes of change that require a person, by level.

    Raises: GraphNotFound, ApprovalNotFound (another workspace).
    """
    context.check(by, about=WORKSPACE_POLICY)
    graph = await context.source.get_graph(graph_key) if graph_key is not None else None
    types = types_by_name(await context.source.get_node_configs())
    by_type = {name: sorted(classes_of_type(config)) for name, config in sorted(types.items())}
    return PolicyView(
        application=sorted(context.application),
        workspace=sorted(await _workspace_classes(context)),
        graph=None
        if graph is None
        else sorted(classes_named((graph.metadata or {}).get(VALIDATION))),
        node_types={name: classes for name, classes in by_type.items() if classes},
    )


async def set_policy(
    context: ApprovalContext,
    classes: Iterable[ActionClass],
    by: Person,
    *,
    graph_key: str | None = None,
    type_name: str | None = None,
) -> PolicyView:
    """Sets the requirements of the workspace, of the graph `graph_key`, or of its node type
    `type_name`. Returns all levels.

    Raises: NotAllowed, ApprovalNotFound (another workspace), GraphNotFound, TypeNotFound,
    ApprovalBusy.
    """
    if graph_key is None:
        context.check(by, "admin", "policy_needs_admin", about=WORKSPACE_POLICY)
    else:
        context.check(by, "reviewer", "policy_needs_reviewer", about=WORKSPACE_POLICY)
    wanted = sorted(classes)
    facts = {"event": "policy_set", "classes": wanted}

    async def of_workspace() -> None:
        record = await context.records.get(POLICY_KIND, WORKSPACE_POLICY)
        data = {**(record.data if record else {}), "classes": wanted}
        version = record.version if record else None
        policy_write = RecordWrite(
            kind=POLICY_KIND, key=WORKSPACE_POLICY, data=data, expected_version=version
        )
        level = {"level": "workspace"}
        await context.audited(
            by, facts | level, lambda entry: context.records.write([policy_write, *entry])
        )

    async def of_graph(key: str) -> None:
        graph = await context.source.get_graph(key)
        level = {"level": "graph", "graphKey": key}
        if type_name is None:
            metadata = {**(graph.metadata or {}), VALIDATION: wanted}
            mutation = Mutation(graph_key=key, graph=graph.replace(metadata=metadata))
        else:
            types = await context.source.get_node_configs([type_name])
            own_types = [config for config in types if config.workspace == graph.workspace]
            if not own_types:
                raise TypeNotFound(name=type_name[:80])
            level |= {"level": "nodeType", "typeKey": type_name}
            mutation = Mutation(
                graph_key=key, put_configs=[own_types[0].replace(validation=wanted)]
            )
        apply = partial(context.source.apply, mutation, expected_revision=graph.revision)
        await context.audited(by, facts | level, lambda entry: apply(records=entry))

    work = of_workspace if graph_key is None else partial(of_graph, graph_key)
    await context.in_turn(graph_key or "", graph_key or WORKSPACE_POLICY, work)
    return await policy_view(context, by, graph_key)
