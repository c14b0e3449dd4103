"""Registers the actions that a proposal can consist of; reads, writes and hashes them.

An unset sheet, position or key of an action is chosen later. In a batch, new nodes may be named
by keys of the model's choice, such as `$1`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from itertools import repeat
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Union, cast

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError

from tools import proposal_parts
from tools.actions.base import SingleAction, counted
from tools.actions.edge_actions import CreateEdgeAction, DeleteEdgeAction
from tools.actions.file_action import ImportFileAction
from tools.actions.layout_action import ReorganizeLayoutAction
from tools.actions.new_node_actions import CreateNodeAction, CreateNodeWithEdgesAction
from tools.actions.node_actions import DeleteNodeAction, MoveNodeAction, UpdateNodeAction
from tools.actions.type_action import ConfigureNodeTypeAction
from tools.arguments import ARGUMENT_LIMITS, is_deeper

MAX_BATCH = 200
WRAPPED = 2  # nesting levels of an action in addition to its arguments


class MalformedProposal(ValueError):
    """Raised when a stored or edited action is invalid. `where` is the path of the field."""

    def __init__(self, *, where: str, reason: str) -> None:
        self.where = where
        self.reason = reason
        super().__init__(f"the action's {where or 'shape'} is wrong: {reason}")


ACTIONS: Final[tuple[type[SingleAction], ...]] = (
    CreateNodeAction,
    DeleteNodeAction,
    UpdateNodeAction,
    MoveNodeAction,
    CreateEdgeAction,
    DeleteEdgeAction,
    CreateNodeWithEdgesAction,
    ConfigureNodeTypeAction,
    ReorganizeLayoutAction,
    ImportFileAction,
)
"""Every kind of action. One that is not here is not known anywhere."""


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


Action = SingleAction | BatchAction
if TYPE_CHECKING:
    ProposedAction = SingleAction | BatchAction
else:
    # made of the list above; pydantic reads the kind that `type` names
    ProposedAction = Annotated[Union[(*ACTIONS, BatchAction)], Field(discriminator="type")]
Batch.model_rebuild()
BatchAction.model_rebuild()
_READER: TypeAdapter[Action] = TypeAdapter(ProposedAction)
TYPES: Final = frozenset(str(kind.model_fields["type"].default) for kind in (*ACTIONS, BatchAction))
"""The names of the kinds, as they are stored."""


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
        # pydantic puts the tags of the union between the field names
        where = ".".join(str(part) for part in first["loc"] if part not in TYPES)
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


_SHOWN_PARTS = 5


def describe(action: Action) -> str:
    """Returns a short English description of an action for a model, with keys instead of names."""
    if isinstance(action, SingleAction):
        return action.describe()
    parts = [single.describe() for _, single in single_actions(action)]
    shown = "; ".join(parts[:_SHOWN_PARTS]) + ("; …" if len(parts) > _SHOWN_PARTS else "")
    return f"{counted(len(parts), 'change')}: {shown}"
