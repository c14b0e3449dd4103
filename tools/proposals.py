"""What a model may propose: ten kinds of action, as they are stored, shown, hashed and sent to clients.

An action says what is meant, not how it is done: an unset sheet, position or key is chosen later.
A batch may name the nodes it creates by keys of its own choice, such as `$1`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, cast

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel

from datasources.instructions import json_fault
from datasources.types import Number, Side

MAX_BATCH = 200
MAX_COORDINATE = 10_000_000


class MalformedProposal(ValueError):
    """A stored or edited action does not have the shape of one; `where` is the field."""

    def __init__(self, *, where: str, reason: str) -> None:
        self.where, self.reason = where, reason
        super().__init__(f"the action's {where or 'shape'} is wrong: {reason}")


def _json(value: Any) -> Any:
    fault = json_fault(value)
    if fault:
        raise ValueError(fault)
    return value


Json = Annotated[Any, AfterValidator(_json)]
Text = Annotated[str, AfterValidator(_json), Field(max_length=200_000)]
Name = Annotated[str, AfterValidator(_json), Field(min_length=1, max_length=400)]
KeyText = Annotated[str, AfterValidator(_json), Field(min_length=1, max_length=400)]
Coordinate = Annotated[Number, Field(ge=-MAX_COORDINATE, le=MAX_COORDINATE)]
Extent = Annotated[Number, Field(gt=0, le=100_000)]


class Part(BaseModel):
    """Base of all that stands in an action: strict, no unknown field."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        frozen=True,
        alias_generator=to_camel,
        populate_by_name=True,
        allow_inf_nan=False,
    )


class CreateNode(Part):
    type_key: Annotated[KeyText, Field(description="node type, as list_available_node_types shows it")]
    key: Annotated[
        KeyText | None,
        Field(description="a name such as $1 by which other actions of the same batch mean this node"),
    ] = None
    sheet: Annotated[Name | None, Field(description="sheet id; default: the sheet of its neighbours")] = None
    pos_x: Annotated[
        Coordinate | None, Field(description="leave out: a free place beside its neighbours is found")
    ] = None
    pos_y: Coordinate | None = None
    data: Annotated[Json, Field(description="the node's data; put its name in data.name")] = None
    process: Annotated[
        Text | None, Field(description="its own code; leave out to use the code of its type")
    ] = None


class EdgeConnection(Part):
    """An edge between the new node and another: `out` leaves the new node, `in` enters it."""

    direction: Annotated[
        Literal["in", "out"], Field(description="out: from the new node to the other; in: the reverse")
    ]
    handle_id: Annotated[Name, Field(description="handle id of the new node")]
    target_node_key: Annotated[KeyText, Field(description="the other node")]
    target_handle_id: Annotated[Name, Field(description="handle id of the other node")]
    label: Text | None = None
    key: Annotated[KeyText | None, Field(description="leave out")] = None


class CreateNodeWithEdges(CreateNode):
    edges: Annotated[list[EdgeConnection], Field(min_length=1, max_length=50)]


class CreateEdge(Part):
    source_key: Annotated[KeyText, Field(description="node where the edge starts")]
    source_handle: Annotated[Name, Field(description="id of one of its out handles")]
    target_key: Annotated[KeyText, Field(description="node where it ends")]
    target_handle: Annotated[Name, Field(description="id of one of its in handles")]
    label: Text | None = None
    sheet: Annotated[Name | None, Field(description="leave out: the sheet of its source")] = None
    key: Annotated[KeyText | None, Field(description="leave out")] = None


class DeleteNode(Part):
    node_key: KeyText


class DeleteEdge(Part):
    edge_key: Annotated[KeyText, Field(description="_key of the edge, as list_node_edges shows it")]


class UpdateNode(Part):
    node_key: KeyText
    changes: Annotated[
        dict[Name, Json],
        Field(
            min_length=1,
            max_length=100,
            description=(
                "new values by path: data.name, data.headers.Accept, data.items.0, process, size.width,"
                " handles; null stores null"
            ),
        ),
    ]


class MoveNode(Part):
    node_key: KeyText
    pos_x: Coordinate
    pos_y: Coordinate


class TypeSize(Part):
    width: Extent
    height: Extent
    dynamic: bool | None = None


class TypeHandlePoint(Part):
    id: Name
    type: Literal["in", "out"]
    accept: Annotated[Name, Field(description="type of what passes; any fits all")] = "any"
    display: Text | None = None
    offset: Number | None = None


class TypeHandleGroup(Part):
    position: Literal["separate", "fix"] = "separate"
    point: Annotated[list[TypeHandlePoint], Field(max_length=100)]


class TypeBorder(Part):
    radius: Number | None = None
    width: Number | None = None
    type: Name | None = None
    normal_color: Text | None = None
    hover_color: Text | None = None


class ConfigureNodeType(Part):
    mode: Literal["create", "update"]
    type_key: Annotated[Name, Field(description="the type's name, as nodes carry it")]
    display_name: Annotated[Name | None, Field(description="needed when a type is created")] = None
    description: Text | None = None
    category: Name | None = None
    icon: Name | None = None
    process: Annotated[Text | None, Field(description="the whole code; replaces what is there")] = None
    border: TypeBorder | None = None
    handles: Annotated[
        dict[Side, TypeHandleGroup] | None,
        Field(description="by side T, D, R, L or 0 (middle); replaces all handles of the type"),
    ] = None
    size: TypeSize | None = None
    content: Annotated[Json, Field(description="what a node of the type shows (HtmlObject)")] = None


class Position(Part):
    node_key: KeyText
    pos_x: Coordinate
    pos_y: Coordinate


Strategy = Literal["left_to_right", "top_down"]


class ReorganizeLayout(Part):
    node_keys: Annotated[
        list[KeyText],
        Field(min_length=1, max_length=2_000, description="nodes to arrange; all others stay"),
    ]
    strategy: Annotated[Strategy | None, Field(description="default: left_to_right")] = None
    positions: Annotated[
        list[Position] | None, Field(description="leave out: they are computed", max_length=2_000)
    ] = None


class CreateNodeAction(Part):
    type: Literal["create_node"] = "create_node"
    payload: CreateNode


class DeleteNodeAction(Part):
    type: Literal["delete_node"] = "delete_node"
    payload: DeleteNode


class UpdateNodeAction(Part):
    type: Literal["update_node"] = "update_node"
    payload: UpdateNode


class MoveNodeAction(Part):
    type: Literal["move_node"] = "move_node"
    payload: MoveNode


class CreateEdgeAction(Part):
    type: Literal["create_edge"] = "create_edge"
    payload: CreateEdge


class DeleteEdgeAction(Part):
    type: Literal["delete_edge"] = "delete_edge"
    payload: DeleteEdge


class CreateNodeWithEdgesAction(Part):
    type: Literal["create_node_with_edges"] = "create_node_with_edges"
    payload: CreateNodeWithEdges


class ConfigureNodeTypeAction(Part):
    type: Literal["configure_node_type"] = "configure_node_type"
    payload: ConfigureNodeType


class ReorganizeLayoutAction(Part):
    type: Literal["reorganize_layout"] = "reorganize_layout"
    payload: ReorganizeLayout


class Batch(Part):
    actions: Annotated[list[ProposedAction], Field(min_length=1, max_length=MAX_BATCH)]


class BatchAction(Part):
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
)
ProposedAction = Annotated[SingleAction | BatchAction, Field(discriminator="type")]
Batch.model_rebuild()
BatchAction.model_rebuild()
_READER: TypeAdapter[SingleAction | BatchAction] = TypeAdapter(ProposedAction)


def parse_action(raw: Any) -> SingleAction | BatchAction:
    """Read an action as stored, sent or edited by a person. Raises: MalformedProposal."""
    if isinstance(raw, SingleAction | BatchAction):
        return raw
    try:
        return _READER.validate_python(raw)
    except ValidationError as exc:
        first = exc.errors(include_url=False)[0]
        kinds = set(_KINDS)  # the union's tags stand between the real fields
        where = ".".join(str(part) for part in first["loc"] if part not in kinds)
        raise MalformedProposal(where=where[:200], reason=first["msg"]) from exc


def to_document(action: SingleAction | BatchAction) -> dict[str, Any]:
    """Return the action as stored and sent; what is unset is left out."""
    return action.model_dump(by_alias=True, exclude_none=True)


def single_actions(action: SingleAction | BatchAction, where: str = "") -> Iterator[tuple[str, SingleAction]]:
    """Yield what an action consists of, batches opened, each with its place, as `actions.2`."""
    if not isinstance(action, BatchAction):
        yield where, action
        return
    prefix = f"{where}." if where else ""
    for number, inner in enumerate(action.payload.actions):
        yield from single_actions(inner, f"{prefix}actions.{number}")


def canonical_json(value: Any) -> str:
    """Return a JSON value in its one form: keys sorted, no blanks, whole numbers without a fraction."""
    return json.dumps(_plain(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in cast(Mapping[Any, Any], value).items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in cast(list[Any], value)]
    if isinstance(value, float) and value.is_integer():
        return int(value)  # 1.0 comes back as 1 from every JavaScript client
    return value


def hash_of(value: Any) -> str:
    """Return the SHA-256 of a JSON value's canonical form, in hexadecimal."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def canonical_hash(action: SingleAction | BatchAction) -> str:
    """Return what identifies an action whatever the order of its fields."""
    return hash_of(to_document(action))


_KINDS: Mapping[str, tuple[str, str]] = {
    "create_node": ("create a node of type {type_key}", "créer un nœud de type {type_key}"),
    "delete_node": ("delete node {node_key}", "supprimer le nœud {node_key}"),
    "update_node": ("change {fields} of node {node_key}", "modifier {fields} du nœud {node_key}"),
    "move_node": (
        "move node {node_key} to {pos_x:g}, {pos_y:g}",
        "déplacer le nœud {node_key} en {pos_x:g}, {pos_y:g}",
    ),
    "create_edge": ("connect {source_key} to {target_key}", "relier {source_key} à {target_key}"),
    "delete_edge": ("delete edge {edge_key}", "supprimer l’arête {edge_key}"),
    "create_node_with_edges": (
        "create a node of type {type_key} with {count} edges",
        "créer un nœud de type {type_key} avec {count} arêtes",
    ),
    "configure_node_type": ("{mode} node type {type_key}", "{mode} le type de nœud {type_key}"),
    "reorganize_layout": ("arrange {count} nodes", "disposer {count} nœuds"),
    "batch": ("{count} changes: {parts}", "{count} changements : {parts}"),
}
_MODES = {"create": ("create", "créer"), "update": ("change", "modifier")}
_SHOWN_PARTS = 5


def describe(action: SingleAction | BatchAction, language: Literal["en", "fr"] = "en") -> str:
    """Return an action in a few words, from its fields alone."""
    french = language == "fr"
    facts: dict[str, Any] = dict(action.payload)
    if isinstance(action, BatchAction):
        parts = [describe(single, language) for _, single in single_actions(action)]
        shown = "; ".join(parts[:_SHOWN_PARTS]) + ("; …" if len(parts) > _SHOWN_PARTS else "")
        facts = {"count": len(parts), "parts": shown}
    elif isinstance(action, UpdateNodeAction):
        facts["fields"] = ", ".join(action.payload.changes)[:120]
    elif isinstance(action, CreateNodeWithEdgesAction):
        facts["count"] = len(action.payload.edges)
    elif isinstance(action, ReorganizeLayoutAction):
        facts["count"] = len(action.payload.node_keys)
    elif isinstance(action, ConfigureNodeTypeAction):
        facts["mode"] = _MODES[action.payload.mode][french]
    return _KINDS[action.type][french].format(**facts)
