"""Applies a batch of instructions to a draft, completely or not at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from datasources.errors import InstructionError
from datasources.instructions import (
    IDENTITY_FIELDS,
    GraphInstruction,
    Instruction,
    Op,
    apply_instruction,
    inverse_of,
)
from datasources.types import Edge, Node
from graphrag.changes.draft import GraphDraft
from graphrag.live import edits
from graphrag.live.edits import EDIT_LIMITS
from graphrag.live.errors import EditRefused
from graphrag.live.history_entries import update_entry
from tools.actions.field_changes import child, json_document, path_of, value_at
from tools.proposal_parts import UpdateNode
from tools.proposals import Batch, BatchAction, SingleAction, UpdateNodeAction, single_actions
from tools.references import name_of
from tools.write_tools import Snapshot, with_references


def apply_instructions(draft: GraphDraft, instructions: Sequence[GraphInstruction]) -> edits.Edit:
    """Applies instructions in order. Raises: EditRefused.

    If a node is renamed, references to it by name are updated in the same edit.
    """
    if not 0 < len(instructions) <= EDIT_LIMITS.instructions:
        raise EditRefused(
            where="instructions", reason=f"give 1 to {EDIT_LIMITS.instructions} instructions"
        )
    done: list[GraphInstruction] = []
    history: list[dict[str, Any]] = []
    before_rename: dict[str, Node] = {}

    def execute(requested: GraphInstruction, where: str) -> None:
        instruction = _with_fresh_identifiers(requested)
        try:
            history.append(_apply(draft, instruction, where))
        except InstructionError as exc:
            raise EditRefused(where=where, reason=str(exc)) from exc
        done.append(instruction)

    for i, instruction in enumerate(instructions):
        key = instruction.node_id if instruction.i.p in _NAME_PATHS else None
        node = draft.node(key) if key else None
        if node is not None:
            before_rename.setdefault(node.key, node)
        execute(instruction, f"instructions.{i}")
    for update in _reference_updates(draft, before_rename):
        execute(update, "instructions")
    documents = [instruction.to_document() for instruction in done]
    return edits.Edit(
        message={"type": "applyInstructionToGraph", "instructions": documents},
        sheets=frozenset(instruction.sheet_id for instruction in done),
        history=tuple(history),
        others=tuple(in_messages(documents)),
    )


_NAME_PATHS = (("data",), ("data", "name"))


def _reference_updates(
    draft: GraphDraft, before_rename: Mapping[str, Node]
) -> list[GraphInstruction]:
    """Returns the instructions that update references to renamed nodes, given the nodes before."""
    renames: list[SingleAction] = []
    for key, before in before_rename.items():
        after = draft.node(key)
        name = name_of(after) if after is not None else None
        if name is not None and name_of(before) not in (None, name):
            rename = UpdateNode(node_key=key, changes={"data.name": name})
            renames.append(UpdateNodeAction(payload=rename))
    if not renames:
        return []
    nodes = {node.key: before_rename.get(node.key, node) for node in draft.iter_nodes()}
    action = BatchAction(payload=Batch.model_construct(actions=renames))
    with_updates = with_references(action, Snapshot(graph=draft.graph, nodes=nodes))
    updates = [update for _, update in single_actions(with_updates)][len(renames) :]
    instructions: list[GraphInstruction] = []
    for update in updates:
        for key, changes in update.effects().updates.items():
            for name, value in changes.items():
                instruction = Instruction(o=int(Op.SET), p=path_of(name), v=value)
                instructions.append(
                    GraphInstruction(i=instruction, sheet_id=nodes[key].sheet, node_id=key)
                )
    return instructions


def in_messages(
    instructions: Sequence[dict[str, Any]],
) -> list[tuple[dict[str, Any], frozenset[str]]]:
    """Returns messages with these instructions in order, each with the sheets that it concerns."""
    parts = [
        instructions[i : i + EDIT_LIMITS.sent_at_once]
        for i in range(0, len(instructions), EDIT_LIMITS.sent_at_once)
    ]
    return [
        (
            {"type": "applyInstructionToGraph", "instructions": part},
            frozenset(str(instruction["sheetId"]) for instruction in part),
        )
        for part in parts
    ]


def _apply(draft: GraphDraft, requested: GraphInstruction, where: str) -> dict[str, Any]:
    edits.check_sheet(draft, requested.sheet_id, f"{where}.sheetId")
    target: Node | Edge
    if requested.node_id is not None:
        node = draft.node(requested.node_id)
        label = f"node {requested.node_id[:80]!r}"
        target = edits.element_on_sheet(node, label, requested.sheet_id, f"{where}.nodeId")
    else:
        key = requested.edge_id or ""
        target = edits.element_on_sheet(
            draft.edge(key), f"edge {key[:80]!r}", requested.sheet_id, f"{where}.edgeId"
        )
    before = json_document(target)
    _check_identifier(before, requested, where)
    _check_growth(before, requested.i, where)
    after = apply_instruction(before, requested.i, protected=IDENTITY_FIELDS)
    undoing = inverse_of(before, requested.i)
    if isinstance(target, Node):
        draft.put_node(edits.check_document(Node, after, where))
    else:
        edge = edits.check_document(Edge, after, where)
        edits.check_ends(draft, edge, where)
        draft.put_edge(edge)
    return update_entry(target, after, requested.i, undoing)


def _check_identifier(document: dict[str, Any], requested: GraphInstruction, where: str) -> None:
    """Raises EditRefused unless the object that contains the path has the identifier named by the
    editor.
    """
    if requested.targeted_identifier is None:
        return
    innermost: dict[str, Any] = document
    value: Any = document
    for part in requested.i.p[:-1]:
        value = child(value, part)
        if isinstance(value, dict):
            innermost = cast(dict[str, Any], value)
    if innermost.get("identifier") != requested.targeted_identifier:
        raise EditRefused(
            where=f"{where}.targetedIdentifier",
            reason="another object is at this place now; read the graph again",
        )


def _check_growth(document: dict[str, Any], instruction: Instruction, where: str) -> None:
    """Refuses a replacement whose result would be too large, before it is computed."""
    if instruction.op is not Op.STR_REP_ALL or not instruction.s:
        return
    value = value_at(document, instruction.p)
    if not isinstance(value, str):
        return
    size = len(value) + value.count(instruction.s) * len(instruction.r or "")
    if size > edits.EDIT_LIMITS.element_bytes:
        raise EditRefused(where=where, reason=f"the text would have {size} characters")


def _with_fresh_identifiers(requested: GraphInstruction) -> GraphInstruction:
    """Gives inserted objects new identifiers, because a copy must not have those of its
    original.
    """
    name = requested.apply_uniq_identifier
    if not name or not isinstance(requested.i.v, dict):
        return requested
    field = name if isinstance(name, str) else "identifier"
    value = cast(dict[str, Any], requested.i.v)
    if field not in value:
        return requested
    fresh = requested.i.model_copy(update={"v": _renewed(value, field)})
    return requested.model_copy(update={"i": fresh})


def _renewed(value: Any, field: str, depth: int = 0) -> Any:
    if depth > 100:  # refused when it is applied
        return value
    if isinstance(value, list):
        return [_renewed(item, field, depth + 1) for item in cast(list[Any], value)]
    if not isinstance(value, dict):
        return value
    pairs = cast(Mapping[str, Any], value)
    return {
        key: edits.new_key() if key == field else _renewed(item, field, depth + 1)
        for key, item in pairs.items()
    }
