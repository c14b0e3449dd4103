"""The actions that a proposal can consist of, as they are stored, shown, hashed and sent to
clients.

An unset sheet, position or key of an action is chosen later. In a batch, new nodes may be named
by keys of the model's choice, such as `$1`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from itertools import repeat
from typing import Annotated, Any, Literal, cast

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError

from tools import proposal_parts
from tools.arguments import ARGUMENT_LIMITS, is_deeper

MAX_BATCH = 200
WRAPPED = 2  # nesting levels of an action in addition to its arguments


class MalformedProposal(ValueError):
    """Raised when a stored or edited action is invalid. `where` is the path of the field."""

    def __init__(self, *, where: str, reason: str) -> None:
        self.where = where
        self.reason = reason
        super().__init__(f"the action's {where or 'shape'} is wrong: {reason}")


class CreateNodeAction(proposal_parts.Part):
    type: Literal["create_node"] = "create_node"
    payload: proposal_parts.CreateNode


class DeleteNodeAction(proposal_parts.Part):
    type: Literal["delete_node"] = "delete_node"
    payload: proposal_parts.DeleteNode


class UpdateNodeAction(proposal_parts.Part):
    type: Literal["update_node"] = "update_node"
    payload: proposal_parts.UpdateNode


class MoveNodeAction(proposal_parts.Part):
    type: Literal["move_node"] = "move_node"
    payload: proposal_parts.MoveNode


class CreateEdgeAction(proposal_parts.Part):
    type: Literal["create_edge"] = "create_edge"
    payload: proposal_parts.CreateEdge


class DeleteEdgeAction(proposal_parts.Part):
    type: Literal["delete_edge"] = "delete_edge"
    payload: proposal_parts.DeleteEdge


class CreateNodeWithEdgesAction(proposal_parts.Part):
    type: Literal["create_node_with_edges"] = "create_node_with_edges"
    payload: proposal_parts.CreateNodeWithEdges


class ConfigureNodeTypeAction(proposal_parts.Part):
    type: Literal["configure_node_type"] = "configure_node_type"
    payload: proposal_parts.ConfigureNodeType


class ReorganizeLayoutAction(proposal_parts.Part):
    type: Literal["reorganize_layout"] = "reorganize_layout"
    payload: proposal_parts.ReorganizeLayout


class ImportFileAction(proposal_parts.Part):
    type: Literal["import_file"] = "import_file"
    payload: proposal_parts.ImportFile


def _without_files(actions: list[Any]) -> list[Any]:
    if any(isinstance(action, ImportFileAction) for action in actions):
        raise ValueError("a file is taken over by itself")
    return actions


class Batch(proposal_parts.Part):
    actions: Annotated[
        list[ProposedAction],
        AfterValidator(_without_files),
        Field(min_length=1, max_length=MAX_BATCH),
        proposal_parts.OBJECTS,
    ]


class BatchAction(proposal_parts.Part):
    type: Literal["batch"] = "batch"
    payload: Batch


SingleAction = (
    CreateNodeAction
    | DeleteNodeAction
    | UpdateNodeAction
    | MoveNodeAction
    | CreateEdgeAction
    | DeleteEdgeAction
    | CreateNodeWithEdgesAction
    | ConfigureNodeTypeAction
    | ReorganizeLayoutAction
    | ImportFileAction
)
CREATES = CreateNodeAction | CreateNodeWithEdgesAction
Action = SingleAction | BatchAction
ProposedAction = Annotated[Action, Field(discriminator="type")]
Batch.model_rebuild()
BatchAction.model_rebuild()
_READER: TypeAdapter[Action] = TypeAdapter(ProposedAction)


def parse_action(raw: Any) -> Action:
    """Returns the action in a stored, received or edited document. Raises: MalformedProposal."""
    if isinstance(raw, Action):
        return raw
    if is_deeper(raw, ARGUMENT_LIMITS.depth + WRAPPED):
        raise MalformedProposal(
            where="", reason=f"it is nested more than {ARGUMENT_LIMITS.depth + WRAPPED} deep"
        )
    try:
        return _READER.validate_python(raw)
    except ValidationError as exc:
        first = exc.errors(include_url=False)[0]
        kinds = set(_KINDS)  # pydantic puts the tags of the union between the field names
        where = ".".join(str(part) for part in first["loc"] if part not in kinds)
        raise MalformedProposal(where=where[:200], reason=first["msg"]) from exc


def to_document(action: Action) -> dict[str, Any]:
    """Returns the action as a JSON document without unset fields.

    The documents of an import are shared with the action, not copied.
    """
    if not isinstance(action, ImportFileAction):
        return action.model_dump(by_alias=True, exclude_none=True)
    # Copying thousands of documents would block the event loop.
    shared_fields = {"payload": {"put_nodes", "put_edges"}}
    document = action.model_dump(by_alias=True, exclude_none=True, exclude=shared_fields)
    shared = {"putNodes": action.payload.put_nodes, "putEdges": action.payload.put_edges}
    return {**document, "payload": {**document["payload"], **shared}}


def single_actions(action: Action, where: str = "") -> Iterator[tuple[str, SingleAction]]:
    """Yields the single actions of an action or batch, each with its path, as `actions.2`."""
    if not isinstance(action, BatchAction):
        yield where, action
        return
    prefix = f"{where}." if where else ""
    for number, inner in enumerate(action.payload.actions):
        yield from single_actions(inner, f"{prefix}actions.{number}")


def canonical_json(value: Any) -> str:
    """Returns the canonical JSON text of a value: sorted keys, no white space, whole numbers
    without a fraction.
    """
    return "".join(_canonical(_plain(value), 4))


def _canonical(value: Any, depth: int) -> Iterator[str]:
    """Yields the text in pieces, down to `depth` levels: encoding a large value in one step would
    block other threads for too long.
    """
    if depth and isinstance(value, dict) and value:
        for mark, (key, item) in zip(
            _marks("{"), sorted(cast(dict[str, Any], value).items()), strict=False
        ):
            yield f"{mark}{_one_form(key)}:"
            yield from _canonical(item, depth - 1)
        yield "}"
    elif depth and isinstance(value, list) and value:
        for mark, item in zip(_marks("["), cast(list[Any], value), strict=False):
            yield mark
            yield from _canonical(item, depth - 1)
        yield "]"
    else:
        yield _one_form(value)


def _marks(first: str) -> Iterator[str]:
    yield first
    yield from repeat(",")


_one_form = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in cast(Mapping[Any, Any], value).items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in cast(list[Any], value)]
    if isinstance(value, float) and value.is_integer():
        return int(value)  # JavaScript clients send 1.0 back as 1
    return value


def hash_of(value: Any) -> str:
    """Returns the SHA-256 of a JSON value's canonical form, in hexadecimal."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def canonical_hash(action: Action) -> str:
    """Returns the hash of an action, independent of the order of its fields."""
    return hash_of(to_document(action))


_KINDS: Mapping[str, str] = {
    "create_node": "create a node of type {type_key}",
    "delete_node": "delete node {node_key}",
    "update_node": "change {fields} of node {node_key}",
    "move_node": "move node {node_key} to {pos_x:g}, {pos_y:g}",
    "create_edge": "connect {source_key} to {target_key}",
    "delete_edge": "delete edge {edge_key}",
    "create_node_with_edges": "create a node of type {type_key} with {edges}",
    "configure_node_type": "{mode} node type {type_key}",
    "reorganize_layout": "arrange {nodes}",
    "import_file": "take over {changes} from {file}",
    "imported": "import {file}",
    "batch": "{changes}: {parts}",
}
_SHOWN_PARTS = 5


def describe(action: Action) -> str:
    """Returns a short English description of an action for a model, with keys instead of names."""
    facts: dict[str, Any] = dict(action.payload)
    kind: str = action.type
    if isinstance(action, BatchAction):
        parts = [describe(single) for _, single in single_actions(action)]
        shown = "; ".join(parts[:_SHOWN_PARTS]) + ("; …" if len(parts) > _SHOWN_PARTS else "")
        facts = {"changes": _counted(len(parts), "change"), "parts": shown}
    elif isinstance(action, UpdateNodeAction):
        names = [*action.payload.changes, *(["process"] if action.payload.patches else [])]
        facts["fields"] = ", ".join(names)[:120]
    elif isinstance(action, CreateNodeWithEdgesAction):
        facts["edges"] = _counted(len(action.payload.edges), "edge")
    elif isinstance(action, ReorganizeLayoutAction):
        facts["nodes"] = _counted(len(action.payload.node_keys), "node")
    elif isinstance(action, ConfigureNodeTypeAction):
        facts["mode"] = {"create": "create", "update": "change"}[action.payload.mode]
    elif isinstance(action, ImportFileAction):
        count = action.payload.count
        facts |= {"file": action.payload.file[:120], "changes": _counted(count, "change")}
        kind = action.type if count else "imported"
    return _KINDS[kind].format(**facts)


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
