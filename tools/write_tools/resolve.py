"""Resolves an action against the graph: patches become code, names of types and sheets their keys."""

from __future__ import annotations

from datasources.text import effective_process
from tools.proposal_parts import Patch
from tools.proposals import (
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
from tools.write_tools.checks import Fault, find_faults
from tools.write_tools.graph_reads import Snapshot
from tools.write_tools.patches import PatchFailed, apply_patches


def resolve_action(
    action: SingleAction | BatchAction, snapshot: Snapshot
) -> tuple[SingleAction | BatchAction, list[Fault]]:
    """Return the action with nothing left to look up, batches merged into one, and what is wrong with it."""
    faults: list[Fault] = []
    singles = [_resolved(single, where, snapshot, faults) for where, single in single_actions(action)]
    if isinstance(action, BatchAction):
        resolved: SingleAction | BatchAction = BatchAction(payload=Batch.model_construct(actions=singles))
    else:
        resolved = singles[0]
    return resolved, [*faults, *find_faults(resolved, snapshot)]


def _resolved(single: SingleAction, where: str, snapshot: Snapshot, faults: list[Fault]) -> SingleAction:
    match single:
        case CreateNodeAction() | CreateNodeWithEdgesAction():
            return _resolved_new(single, snapshot)
        case UpdateNodeAction(payload=payload) if payload.patches:
            node = snapshot.nodes.get(payload.node_key)
            if node is None:
                return single  # the unknown key is reported, and nothing can be patched
            code = effective_process(node, snapshot.type_of(node.type))
            new = _patched(code, payload.patches, where, faults)
            changes = {**payload.changes, "process": new}
            return single.model_copy(
                update={"payload": payload.model_copy(update={"changes": changes, "patches": None})}
            )
        case ConfigureNodeTypeAction(payload=payload) if payload.patches:
            config = snapshot.type_of(payload.type_key)
            code = (config.node.process or "") if config else ""
            new = _patched(code, payload.patches, where, faults)
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
    if payload.sheet is not None and (sheet := find_sheet(snapshot.graph, payload.sheet)) is not None:
        update["sheet"] = sheet
    return single.model_copy(update={"payload": payload.model_copy(update=update)}) if update else single


def _patched(code: str, patches: list[Patch], where: str, faults: list[Fault]) -> str:
    try:
        return apply_patches(code, patches)
    except PatchFailed as exc:
        prefix = f"{where}." if where else ""
        faults.append(Fault(where=f"{prefix}patches.{exc.number}.search", what=exc.reason))
        return code
