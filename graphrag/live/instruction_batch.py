"""Carries out a batch of instructions on a draft: every one is checked, all take effect or none."""

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
from graphrag.live.errors import EditRefused
from graphrag.live.history_entries import update_entry
from tools.proposal_parts import UpdateNode
from tools.proposals import Batch, BatchAction, SingleAction, UpdateNodeAction, single_actions
from tools.references import name_of
from tools.write_tools import Snapshot, with_references
from tools.write_tools.field_changes import child, json_document, path_of, value_at

MAX_INSTRUCTIONS = 4_000
SENT_AT_ONCE = 20
"""Instructions in one message to an editor, as the protocol allows; one request may hold more."""


def apply_instructions(draft: GraphDraft, instructions: Sequence[GraphInstruction]) -> edits.Edit:
    """Apply instructions in order, each to what the ones before left. Raises: EditRefused.

    A node that is renamed takes along what refers to it by its name, in the same edit.
    """
    if not 0 < len(instructions) <= MAX_INSTRUCTIONS:
        raise EditRefused(where="instructions", reason=f"give 1 to {MAX_INSTRUCTIONS} instructions")
    done: list[GraphInstruction] = []
    history: list[dict[str, Any]] = []
    named: dict[str, Node] = {}

    def carry_out(asked: GraphInstruction, where: str) -> None:
        instruction = _with_fresh_identifiers(asked)
        try:
            history.append(_apply(draft, instruction, where))
        except InstructionError as exc:
            raise EditRefused(where=where, reason=str(exc)) from exc
        done.append(instruction)

    for i, asked in enumerate(instructions):
        node = draft.node(asked.node_id) if asked.node_id and asked.i.p in _NAME else None
        if node is not None:
            named.setdefault(node.key, node)
        carry_out(asked, f"instructions.{i}")
    for following in _following(draft, named):
        carry_out(following, "instructions")
    documents = [instruction.to_document() for instruction in done]
    return edits.Edit(
        message={"type": "applyInstructionToGraph", "instructions": documents},
        sheets=frozenset(instruction.sheet_id for instruction in done),
        history=tuple(history),
        others=tuple(in_messages(documents)),
    )


_NAME = (("data",), ("data", "name"))


def _following(draft: GraphDraft, named: Mapping[str, Node]) -> list[GraphInstruction]:
    """Return the instructions by which references follow the nodes that were `named` so before."""
    renames: list[SingleAction] = []
    for key, before in named.items():
        after = draft.node(key)
        name = name_of(after) if after is not None else None
        if name is not None and name_of(before) not in (None, name):
            update = UpdateNode(node_key=key, changes={"data.name": name})
            renames.append(UpdateNodeAction(payload=update))
    if not renames:
        return []
    nodes = {node.key: named.get(node.key, node) for node in draft.iter_nodes()}
    action = BatchAction(payload=Batch.model_construct(actions=renames))
    whole = with_references(action, Snapshot(graph=draft.graph, nodes=nodes))
    more = [single for _, single in single_actions(whole)][len(renames) :]
    found: list[GraphInstruction] = []
    for single in more:
        assert isinstance(single, UpdateNodeAction)
        node = nodes[single.payload.node_key]
        for name, value in single.payload.changes.items():
            instruction = Instruction(o=int(Op.SET), p=path_of(name), v=value)
            found.append(GraphInstruction(i=instruction, sheet_id=node.sheet, node_id=node.key))
    return found


def in_messages(
    instructions: Sequence[dict[str, Any]],
) -> list[tuple[dict[str, Any], frozenset[str]]]:
    """Return the messages that carry instructions in this order, each with the sheets
    it is about.
    """
    parts = [instructions[i : i + SENT_AT_ONCE] for i in range(0, len(instructions), SENT_AT_ONCE)]
    return [
        (
            {"type": "applyInstructionToGraph", "instructions": part},
            frozenset(str(asked["sheetId"]) for asked in part),
        )
        for part in parts
    ]


def _apply(draft: GraphDraft, asked: GraphInstruction, where: str) -> dict[str, Any]:
    edits.check_sheet(draft, asked.sheet_id, f"{where}.sheetId")
    target: Node | Edge
    if asked.node_id is not None:
        node = draft.node(asked.node_id)
        named = f"node {asked.node_id[:80]!r}"
        target = edits.known(node, named, asked.sheet_id, f"{where}.nodeId")
    else:
        key = asked.edge_id or ""
        target = edits.known(
            draft.edge(key), f"edge {key[:80]!r}", asked.sheet_id, f"{where}.edgeId"
        )
    before = json_document(target)
    _check_identifier(before, asked, where)
    _check_growth(before, asked.i, where)
    after = apply_instruction(before, asked.i, protected=IDENTITY_FIELDS)
    undoing = inverse_of(before, asked.i)
    if isinstance(target, Node):
        draft.put_node(edits.check_document(Node, after, where))
    else:
        edge = edits.check_document(Edge, after, where)
        edits.check_ends(draft, edge, where)
        draft.put_edge(edge)
    return update_entry(target, after, asked.i, undoing)


def _check_identifier(document: dict[str, Any], asked: GraphInstruction, where: str) -> None:
    """The object around the instruction's place must be the one the editor means."""
    if asked.targeted_identifier is None:
        return
    found: dict[str, Any] = document
    value: Any = document
    for part in asked.i.p[:-1]:
        value = child(value, part)
        if isinstance(value, dict):
            found = cast(dict[str, Any], value)
    if found.get("identifier") != asked.targeted_identifier:
        raise EditRefused(
            where=f"{where}.targetedIdentifier",
            reason="another object stands there now; read the graph again",
        )


def _check_growth(document: dict[str, Any], instruction: Instruction, where: str) -> None:
    """Refuse what would fill the memory before anybody could measure it."""
    if instruction.op is not Op.STR_REP_ALL or not instruction.s:
        return
    value = value_at(document, instruction.p)
    if not isinstance(value, str):
        return
    size = len(value) + value.count(instruction.s) * len(instruction.r or "")
    if size > edits.MAX_ELEMENT_BYTES:
        raise EditRefused(where=where, reason=f"the text would have {size} characters")


def _with_fresh_identifiers(asked: GraphInstruction) -> GraphInstruction:
    """Give what is inserted identifiers of its own: a copy must not bear those of its original."""
    name = asked.apply_uniq_identifier
    if not name or not isinstance(asked.i.v, dict):
        return asked
    field = name if isinstance(name, str) else "identifier"
    value = cast(dict[str, Any], asked.i.v)
    if field not in value:
        return asked
    fresh = asked.i.model_copy(update={"v": _renewed(value, field)})
    return asked.model_copy(update={"i": fresh})


def _renewed(value: Any, field: str, depth: int = 0) -> Any:
    if depth > 100:  # refused where it is applied
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
