"""Reviews a proposed action: checks it, decides what it leaves open, tries it out and shows what changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from datasources.errors import BadDocument, InstructionError, InvalidMutation
from datasources.mutations import Existing, check_mutation
from datasources.types import Edge, Mutation, Node
from graphrag.approvals.actions.converter import ActionConversionResult, convert_action, with_choices
from graphrag.approvals.actions.mutation import inverse_mutation, to_mutation
from graphrag.approvals.actions.new_keys import Ids, new_id
from graphrag.approvals.actions.touched import touched
from graphrag.approvals.preview import Preview, preview_of
from graphrag.layout import TooMuchToArrange
from tools.base import Problem
from tools.proposals import BatchAction, SingleAction, parse_action
from tools.write_tools import Snapshot, broken_references, resolve_action, with_references


@dataclass(frozen=True, slots=True, kw_only=True)
class Reviewed:
    """What an action that may be carried out comes to.

    `action` is final: reviewed again on an unchanged graph it gives the same mutation.
    `touched` are the hashes of what it rests on; `inverse` takes it back.
    """

    action: SingleAction | BatchAction
    conversion: ActionConversionResult
    mutation: Mutation
    inverse: Mutation
    preview: Preview
    touched: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """Either what is wrong with an action, or what it comes to."""

    problems: tuple[Problem, ...] = ()
    reviewed: Reviewed | None = None


def review(
    action: SingleAction | BatchAction | Mapping[str, Any], snapshot: Snapshot, *, ids: Ids = new_id
) -> Review:
    """Check an action on a graph and try it out there; nothing is written.

    Raises: MalformedProposal for what is no action.
    """
    resolved, faults = resolve_action(parse_action(action), snapshot)
    if faults:
        return Review(problems=tuple(faults))
    try:
        conversion = _converted(with_references(resolved, snapshot), snapshot, ids)
        final = with_choices(resolved, conversion)
        mutation = to_mutation(conversion, snapshot)
        _try_out(mutation, snapshot)
    except (InstructionError, BadDocument, InvalidMutation, TooMuchToArrange) as exc:
        return Review(problems=(Problem(what=str(exc)),))
    lost = _across_sheets(conversion, snapshot)
    if lost is not None:
        return Review(problems=(lost,))
    preview = preview_of(snapshot, mutation, broken_references(resolved, snapshot))
    if preview.is_empty:
        return Review(problems=(Problem(what="this changes nothing: the graph is like that already"),))
    return Review(
        reviewed=Reviewed(
            action=final,
            conversion=conversion,
            mutation=mutation,
            inverse=inverse_mutation(snapshot, mutation),
            preview=preview,
            touched=touched(final, snapshot),
        )
    )


def _converted(action: SingleAction | BatchAction, snapshot: Snapshot, ids: Ids) -> ActionConversionResult:
    sheets = snapshot.graph.sheets_list
    return convert_action(
        action,
        snapshot.graph.key,
        "0" if "0" in sheets else next(iter(sheets), "0"),
        snapshot.types.values(),
        nodes=snapshot.nodes,
        edges=snapshot.edges,
        workspace=snapshot.graph.workspace,
        ids=ids,
    )


def _try_out(mutation: Mutation, snapshot: Snapshot) -> None:
    """Run the check that every store runs. Raises: InvalidMutation."""
    own = {c.key for c in snapshot.types.values() if c.workspace == snapshot.graph.workspace}
    existing = Existing(nodes=snapshot.nodes.keys(), edges=snapshot.edges.keys(), configs=own)
    check_mutation(mutation, graph=snapshot.graph, existing=existing)


def _across_sheets(conversion: ActionConversionResult, snapshot: Snapshot) -> Problem | None:
    """Find an edge between sheets that only showed once sheets were chosen."""
    nodes: dict[str, Node] = {**snapshot.nodes, **{node.key: node for node in conversion.nodes_to_create}}

    def is_lost(edge: Edge) -> bool:
        return {nodes[edge.source].sheet, nodes[edge.target].sheet} != {edge.sheet}

    lost = next((edge for edge in conversion.edges_to_create if is_lost(edge)), None)
    if lost is None:
        return None
    source, target = nodes[lost.source], nodes[lost.target]
    what = (
        f"an edge stays on one sheet, but {source.key} is on sheet {source.sheet}"
        f" and {target.key} on sheet {target.sheet}"
    )
    return Problem(what=what)
