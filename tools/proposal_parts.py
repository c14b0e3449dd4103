"""What an action of each kind says: its payload, as a model writes it and as clients know it."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self, cast

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, GetJsonSchemaHandler, model_validator
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue, SkipJsonSchema
from pydantic_core import CoreSchema

from datasources.instructions import json_fault
from datasources.types import Number, Side

MAX_COORDINATE = 10_000_000


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
CHOSEN: Any = cast(Any, SkipJsonSchema)()
"""A field that is chosen when a proposal is made ready for a person; no model is told of it."""


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

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Say to a model what it needs to know and no more: every call pays for the schema."""
        schema = handler(core_schema)
        for field in handler.resolve_ref_schema(schema).get("properties", {}).values():
            _slim(field)
        return schema


_UNSAID = ("default", "minLength", "maxLength", "minItems", "maxItems", "propertyNames", "exclusiveMinimum")


def _slim(field: dict[str, Any]) -> None:
    kinds = [kind for kind in field.get("anyOf", []) if kind != {"type": "null"}]
    if len(kinds) == 1:
        del field["anyOf"]
        field.update({**kinds[0], **field})
        _slim(field)
    elif kinds and all(kind.get("type") in ("integer", "number") for kind in kinds):
        del field["anyOf"]
        field["type"] = "number"
    for name in (*_UNSAID, "maximum", "minimum", "ge", "le", "gt"):
        field.pop(name, None)


class CreateNode(Part):
    type_key: Annotated[KeyText, Field(description="node type, as list_available_node_types shows it")]
    key: Annotated[KeyText | None, CHOSEN] = None
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
    key: Annotated[KeyText | None, CHOSEN] = None


class CreateNodeWithEdges(CreateNode):
    edges: Annotated[list[EdgeConnection], Field(min_length=1, max_length=50)]


class CreateEdge(Part):
    source_key: Annotated[KeyText, Field(description="node where the edge starts")]
    source_handle: Annotated[Name, Field(description="id of one of its out handles")]
    target_key: Annotated[KeyText, Field(description="node where it ends")]
    target_handle: Annotated[Name, Field(description="id of one of its in handles")]
    label: Text | None = None
    sheet: Annotated[Name | None, CHOSEN] = None
    key: Annotated[KeyText | None, CHOSEN] = None


class DeleteNode(Part):
    node_key: KeyText


class DeleteEdge(Part):
    edge_key: Annotated[KeyText, Field(description="_key of the edge, as list_node_edges shows it")]


class Patch(Part):
    search: Annotated[
        Text, Field(min_length=1, description="text that stands exactly once in the code, blanks included")
    ]
    replace: Annotated[Text, Field(description="what to put there instead; empty deletes it")]


Patches = Annotated[
    list[Patch] | None,
    Field(
        min_length=1,
        max_length=50,
        description="parts of the code to replace, one after the other; not together with a whole process",
    ),
]


class UpdateNode(Part):
    node_key: KeyText
    changes: Annotated[
        dict[Name, Json],
        Field(
            max_length=100,
            description=(
                "new values by path: data.name, data.headers.Accept, data.items.0, process, size.width,"
                " handles; null stores null"
            ),
        ),
    ] = {}
    patches: Patches = None

    @model_validator(mode="after")
    def _changes_something(self) -> Self:
        if not self.changes and not self.patches:
            raise ValueError("give changes or patches")
        if self.patches and "process" in self.changes:
            raise ValueError("give patches or the whole process, not both")
        return self


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
    patches: Patches = None
    border: TypeBorder | None = None
    handles: Annotated[
        dict[Side, TypeHandleGroup] | None,
        Field(description="by side T, D, R, L or 0 (middle); replaces all handles of the type"),
    ] = None
    size: TypeSize | None = None
    content: Annotated[Json, Field(description="what a node of the type shows (HtmlObject)")] = None

    @model_validator(mode="after")
    def _has_one_source_of_code(self) -> Self:
        if self.patches and self.process is not None:
            raise ValueError("give patches or the whole process, not both")
        return self


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
    positions: Annotated[list[Position] | None, Field(max_length=2_000), CHOSEN] = None
