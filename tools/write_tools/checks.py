"""Checks a proposed change as a whole against the graph: its parts exist together, fit together
and do not contradict each other.

The order of a batch does not matter: every part is checked against the graph as the whole batch
leaves it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from datasources.errors import BadDocument, InstructionError
from datasources.types import Handles, Node
from tools.actions.base import Effects, SingleAction
from tools.actions.field_changes import changed_node, fault_of_change
from tools.actions.field_checks import DEFAULT_HANDLES, at, handles_from, repeated_handles
from tools.actions.proposal_draft import SHOWN, Draft
from tools.actions.snapshot import Snapshot
from tools.base import Problem
from tools.proposal_parts import CreateNode
from tools.proposals import MAX_BATCH, Action, single_actions

Parts = Sequence[tuple[str, SingleAction]]
"""The parts of a proposal, each with its place."""


def find_problems(action: Action, snapshot: Snapshot) -> list[Problem]:
    """Returns all that is wrong with an action on this graph; nothing if it can be carried out."""
    singles = list(single_actions(action))
    if len(singles) > MAX_BATCH:
        what = f"{len(singles)} actions are more than {MAX_BATCH} in one proposal"
        return [Problem(where="actions", what=what)]
    draft = draft_of(singles, snapshot)
    for where, single in singles:
        draft.problems.extend(single.check(where, draft))
    draft.problems.extend(repeated_edges(singles, draft))
    draft.problems.extend(orphaned_handles(draft))
    return draft.problems


def draft_of(singles: Parts, snapshot: Snapshot) -> Draft:
    """Returns the graph after the action, with the problems of what it changes."""
    created: dict[str, CreateNode] = {}
    changed: dict[str, Node] = {}
    types: dict[str, Handles] = {}
    problems: list[Problem] = []
    effects = [(where, single.effects()) for where, single in singles]
    for where, one in effects:
        _add_new_node(one, where, snapshot, created, problems)
        for key, changes in one.updates.items():
            node = changed.get(key) or snapshot.nodes.get(key)
            if node is not None:
                changed[key], found = _changed(node, changes, where)
                problems.extend(found)
    for where, one in effects:
        _add_type(one, where, snapshot, types, problems)
    return Draft(
        snapshot=snapshot,
        created=created,
        changed=changed,
        gone=frozenset(key for _, one in effects for key in one.deletes),
        cut=frozenset(key for _, one in effects for key in one.cuts),
        types=types,
        problems=problems,
    )


def _add_new_node(
    effects: Effects,
    where: str,
    snapshot: Snapshot,
    created: dict[str, CreateNode],
    problems: list[Problem],
) -> None:
    if effects.creates is None or not effects.creates.key:
        return
    key = effects.creates.key
    if key in created or key in snapshot.nodes:
        whose = "another new node" if key in created else "a node of the graph"
        what = f"{key[:SHOWN]!r} is taken by {whose}"
        problems.append(Problem(where=at(where, "key"), what=what))
    created.setdefault(key, effects.creates)


def _add_type(
    effects: Effects,
    where: str,
    snapshot: Snapshot,
    types: dict[str, Handles],
    problems: list[Problem],
) -> None:
    """Adds the handles of a type that is configured; one configured twice is a problem."""
    if effects.configures is None:
        return
    name = effects.configures.type_key
    if name in types:
        what = "this proposal configures the type twice"
        problems.append(Problem(where=at(where, "typeKey"), what=what))
    own = handles_from(effects.configures.handles)
    old = snapshot.type_of(name)
    types[name] = own if own is not None else old.node.handles if old else DEFAULT_HANDLES


def _changed(node: Node, changes: Mapping[str, Any], where: str) -> tuple[Node, list[Problem]]:
    problems: list[Problem] = []
    for name, value in changes.items():
        place = at(where, f"changes.{name[:SHOWN]}")
        what = fault_of_change(node, name)
        if what is None:
            try:
                new = changed_node(node, {name: value})
            except InstructionError as exc:
                what = exc.reason
            except BadDocument as exc:
                field = exc.field.removesuffix(".int").removesuffix(".float")  # kinds of one number
                what = exc.reason if field == name else f"{field}: {exc.reason}"
            else:
                what = _problem_of_values(node, new, name, value)
                node = new if what is None else node
        if what is not None:
            problems.append(Problem(where=place, what=what))
    return node, problems


def _problem_of_values(node: Node, new: Node, name: str, value: Any) -> str | None:
    if name.split(".")[0] in ("posX", "posY", "typeVersion") and (
        isinstance(value, bool) or not isinstance(value, int | float)
    ):
        return "must be a number"
    if new.size.width <= 0 or new.size.height <= 0:
        return "a size must be above 0"
    if new.handles != node.handles and (twice := next(repeated_handles(new.handles, ""), None)):
        return twice.what
    return None


def repeated_edges(singles: Parts, draft: Draft) -> Iterator[Problem]:
    """Yields the edges between the same two handles as another that stays or is created too."""
    seen: dict[tuple[str, ...], str] = {}
    for key, edge in draft.snapshot.edges.items():
        if key not in draft.cut and not {edge.source, edge.target} & draft.gone:
            seen[edge.source, edge.source_handle, edge.target, edge.target_handle] = (
                f"edge {key[:SHOWN]!r}"
            )
    for where, single in singles:
        for edge in single.effects().connects:
            place = at(where, edge.field) if edge.field else where
            own = f"\0{where}"  # a new node without a key, which no other part can name
            ends = (edge.source[0] or own, edge.source[1], edge.target[0] or own, edge.target[1])
            if ends in seen:
                yield Problem(
                    where=place, what=f"the same connection is there already: {seen[ends]}"
                )
            seen[ends] = f"{place or 'this one'} of this proposal"


def orphaned_handles(draft: Draft) -> Iterator[Problem]:
    """Yields the handles that are taken away though an edge uses them."""
    before = draft.snapshot
    changed = {
        key for key, node in draft.changed.items() if node.handles != before.nodes[key].handles
    }
    for key, edge in before.edges_of(changed).items():
        if key in draft.cut or {edge.source, edge.target} & draft.gone:
            continue
        for end, handle, way in (
            (edge.source, edge.source_handle, "out"),
            (edge.target, edge.target_handle, "in"),
        ):
            if end in changed and not _has(draft.handles_of(end), handle, way):
                what = f"edge {key[:SHOWN]!r} uses {way} handle {handle[:40]!r} of {end[:SHOWN]!r}"
                yield Problem(
                    where="changes.handles", what=f"{what}: keep the handle or delete the edge too"
                )


def _has(handles: Handles, handle: str, direction: str) -> bool:
    return any(
        p.id == handle and p.type == direction for group in handles.values() for p in group.point
    )
