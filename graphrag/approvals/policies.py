"""Reads and sets for which classes of change the workspace, a graph or a node type demands a person.

Each change is audited, in one transaction. Settings of the operator are read here, never set.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from datasources.base import RecordWrite
from datasources.builtin_types import types_by_name
from datasources.types import Mutation
from graphrag.approvals.approval_context import ApprovalContext
from graphrag.approvals.errors import ApprovalNotFound, NotAllowed, TypeNotFound
from graphrag.approvals.levels import POLICY_KIND, WORKSPACE_POLICY, classes_of_type, workspace_classes
from graphrag.approvals.validation import ActionClass, classes_named
from graphrag.roles import Person


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyView:
    """What each level demands; `graph` is None where none was asked for. `node_types` are those that demand
    something, by name."""

    application: Sequence[ActionClass]
    workspace: Sequence[ActionClass]
    graph: Sequence[ActionClass] | None
    node_types: Mapping[str, Sequence[ActionClass]]


async def policy_view(context: ApprovalContext, graph_key: str | None, by: Person) -> PolicyView:
    """Return what the levels demand. Raises: GraphNotFound, ApprovalNotFound (another workspace)."""
    _check_home(context, by)
    graph = await context.source.get_graph(graph_key) if graph_key is not None else None
    types = types_by_name(await context.source.get_node_configs())
    asked = {name: sorted(classes_of_type(config)) for name, config in sorted(types.items())}
    return PolicyView(
        application=sorted(context.application),
        workspace=sorted(await workspace_classes(context)),
        graph=None if graph is None else sorted(classes_named((graph.metadata or {}).get("validation"))),
        node_types={name: classes for name, classes in asked.items() if classes},
    )


async def set_policy(
    context: ApprovalContext,
    classes: Iterable[ActionClass],
    by: Person,
    *,
    graph_key: str | None = None,
    type_name: str | None = None,
) -> None:
    """Set what the workspace demands; with `graph_key` the graph, with `type_name` also, that node type.

    Raises: NotAllowed, ApprovalNotFound (another workspace), GraphNotFound, TypeNotFound, ApprovalBusy.
    """
    _check_home(context, by)
    if not by.at_least("admin" if graph_key is None else "reviewer"):
        code = "policy_needs_admin" if graph_key is None else "policy_needs_reviewer"
        raise NotAllowed(code=code, user_id=by.user_id, role=by.role)
    wanted = sorted(classes)
    facts = {"event": "policy_set", "userId": by.user_id, "role": by.role, "classes": wanted}

    async def work() -> None:
        if graph_key is None:
            await _set_workspace(context, wanted, facts)
        else:
            await _set_of_graph(context, graph_key, type_name, wanted, facts)

    await context.in_turn(graph_key or "", graph_key or WORKSPACE_POLICY, work)


def _check_home(context: ApprovalContext, by: Person) -> None:
    if not context.is_home(by):
        raise ApprovalNotFound(approval_id=WORKSPACE_POLICY)


async def _set_workspace(
    context: ApprovalContext, wanted: list[ActionClass], facts: Mapping[str, object]
) -> None:
    found = await context.store.records.get(POLICY_KIND, WORKSPACE_POLICY)
    own = RecordWrite(
        kind=POLICY_KIND,
        key=WORKSPACE_POLICY,
        data={**(found.data if found else {}), "classes": wanted},
        expected_version=found.version if found else None,
    )
    await context.write_audited(own, {**facts, "level": "workspace"})


async def _set_of_graph(
    context: ApprovalContext,
    graph_key: str,
    type_name: str | None,
    wanted: list[ActionClass],
    facts: Mapping[str, object],
) -> None:
    graph = await context.source.get_graph(graph_key)
    level = {"level": "graph", "graphKey": graph_key}
    if type_name is None:
        metadata = {**(graph.metadata or {}), "validation": wanted}
        mutation = Mutation(graph_key=graph_key, graph=graph.replace(metadata=metadata))
    else:
        own = [
            c for c in await context.source.get_node_configs([type_name]) if c.workspace == graph.workspace
        ]
        if not own:
            raise TypeNotFound(name=type_name)
        level = {**level, "level": "nodeType", "typeKey": type_name}
        mutation = Mutation(graph_key=graph_key, put_configs=[own[0].replace(validation=wanted)])

    await context.audit.record(
        {**facts, **level},
        lambda entry: context.source.apply(mutation, expected_revision=graph.revision, records=entry),
    )
