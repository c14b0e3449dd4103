"""Resolves an action against the graph: patches become code, names of types and
sheets their keys.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from datasources.text import effective_process
from tools.base import Problem
from tools.proposal_parts import Patch
from tools.proposals import (
    Action,
    Batch,
    BatchAction,
    ConfigureNodeTypeAction,
    CreateNodeAction,
    CreateNodeWithEdgesAction,
    SingleAction,
    UpdateNodeAction,
    single_actions,
)
from tools.read_tools.views import find_sheet
from tools.write_tools.checks import find_problems
from tools.write_tools.field_changes import json_document, meant_path
from tools.write_tools.graph_reads import Snapshot
from tools.write_tools.type_checks import at

_SHOWN = 120


def resolve_action(action: Action, snapshot: Snapshot) -> tuple[Action, list[Problem]]:
    """Return the action with nothing left to look up, batches merged into one, and what is
    wrong with it.
    """
    problems: list[Problem] = []
    singles = [
        _resolved(single, where, snapshot, problems) for where, single in single_actions(action)
    ]
    if isinstance(action, BatchAction):
        resolved: Action = BatchAction(payload=Batch.model_construct(actions=singles))
    else:
        resolved = singles[0]
    return resolved, [*problems, *find_problems(resolved, snapshot)]


def _resolved(
    single: SingleAction, where: str, snapshot: Snapshot, problems: list[Problem]
) -> SingleAction:
    match single:
        case CreateNodeAction() | CreateNodeWithEdgesAction():
            return _resolved_new(single, snapshot)
        case UpdateNodeAction(payload=payload):
            node = snapshot.nodes.get(payload.node_key)
            if node is None:
                return single  # the unknown key is reported, and nothing can be patched
            document = json_document(node)
            changes = {
                meant_path(document, name, value): value for name, value in payload.changes.items()
            }
            if len(changes) == len(payload.changes):
                single = single.model_copy(
                    update={"payload": payload.model_copy(update={"changes": changes})}
                )
                payload = single.payload
            if not payload.patches:
                return single
            code = effective_process(node, snapshot.type_of(node.type))
            new = apply_patches(code, payload.patches, where, problems)
            changes = {**payload.changes, "process": new}
            return single.model_copy(
                update={"payload": payload.model_copy(update={"changes": changes, "patches": None})}
            )
        case ConfigureNodeTypeAction(payload=payload) if payload.patches:
            config = snapshot.type_of(payload.type_key)
            code = (config.node.process or "") if config else ""
            new = apply_patches(code, payload.patches, where, problems)
            return single.model_copy(
                update={"payload": payload.model_copy(update={"process": new, "patches": None})}
            )
        case _:
            return single


def _resolved_new(
    single: CreateNodeAction | CreateNodeWithEdgesAction, snapshot: Snapshot
) -> CreateNodeAction | CreateNodeWithEdgesAction:
    payload = single.payload
    update: dict[str, str] = {}
    config = snapshot.type_of(payload.type_key)
    if config is not None:
        update["type_key"] = config.type
    if (
        payload.sheet is not None
        and (sheet := find_sheet(snapshot.graph, payload.sheet)) is not None
    ):
        update["sheet"] = sheet
    return (
        single.model_copy(update={"payload": payload.model_copy(update=update)})
        if update
        else single
    )


def apply_patches(code: str, patches: Sequence[Patch], where: str, problems: list[Problem]) -> str:
    """Return the code with every patch applied in order; a later one sees what an
    earlier one wrote.

    One whose search is missing or stands more than once is a problem; then the code stays
    as it was.
    """
    new = code
    for number, patch in enumerate(patches):
        found = _count(new, patch.search)
        if found != 1:
            place = at(where, f"patches.{number}.search")
            problems.append(Problem(where=place, what=_why(new, patch.search, found)))
            return code
        new = new.replace(patch.search, patch.replace, 1)
    return new


def _count(code: str, search: str) -> int:
    """Count places, overlapping ones too: either of two could be meant."""
    places = 0
    start = code.find(search)
    while start >= 0:
        places = places + 1
        start = code.find(search, start + 1)
    return places


def _why(code: str, search: str, found: int) -> str:
    shown = f"{search[:_SHOWN]!r}" + ("…" if len(search) > _SHOWN else "")
    if found:
        lines = [
            str(number)
            for number, line in enumerate(code.splitlines(), 1)
            if search.split("\n", 1)[0].strip() and search.split("\n", 1)[0].strip() in line
        ]
        where = f" (lines {', '.join(lines[:8])})" if lines else ""
        return (
            f"{shown} stands {found} times in the code{where}; "
            "take in more of the lines around the one meant"
        )
    if not code:
        return "there is no code yet; give the whole code as process instead"
    if search.split() and " ".join(search.split()) in " ".join(code.split()):
        return f"{shown} is there with other blanks or line ends; copy it exactly from the code"
    wanted = next((line.strip() for line in search.splitlines() if line.strip()), search.strip())
    lines = [line.strip() for line in code.splitlines()[:2_000] if line.strip()]
    near = difflib.get_close_matches(wanted[:400], [line[:400] for line in lines], n=1, cutoff=0.5)
    hint = f"; the nearest line is {near[0][:_SHOWN]!r}" if near else ""
    return f"{shown} is not in the code{hint}; read the code and copy a part of it exactly"
