"""The payload of each kind of action, as models write it and as clients receive it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, Self, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationInfo,
    WithJsonSchema,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic.json_schema import SkipJsonSchema

from datasources.instructions import json_fault
from datasources.types import Number, Side
from tools.schema_values import read_by_schema, schema_of

MAX_COORDINATE = 10_000_000
AS_STORED: Final = "as stored"
"""Validation context for stored actions: their values were converted by `read_by_schema` before
they were stored, so this step is skipped.
"""


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
Named = Literal["node", "edge", "type"]


@dataclass(frozen=True, slots=True)
class Names:
    """Marks a field that holds keys of nodes or edges, or names of node types. Read by
    `tools.action_keys`.

    `new`: the action creates this node or edge. `members`: for a field of JSON objects, the
    members that hold the keys.
    """

    kind: Named
    new: bool = False
    members: tuple[str, ...] = ()


NodeKey = Annotated[KeyText, Names("node"), Field(description="Key of a node of this graph.")]
NewNodeKey = Annotated[KeyText, Names("node", new=True)]
EdgeKey = Annotated[KeyText, Names("edge"), Field(description="The _key of list_node_edges.")]
NewEdgeKey = Annotated[KeyText, Names("edge", new=True)]
TypeKey = Annotated[KeyText, Names("type"), Field(description="A node type of the instructions.")]
CHOSEN: Any = cast(Any, SkipJsonSchema)()
"""Marks a field that is set when a proposal is prepared for review. Models do not see it."""


class Part(BaseModel):
    """Base of all parts of an action: strict, without unknown fields, values read by its schema."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        frozen=True,
        alias_generator=to_camel,
        populate_by_name=True,
        allow_inf_nan=False,
    )

    @model_validator(mode="before")
    @classmethod
    def _read(cls, values: Any, info: ValidationInfo) -> Any:
        if info.context == AS_STORED or not isinstance(values, dict):
            return values
        return read_by_schema(schema_of(cls), cast(dict[str, Any], values))


OBJECT = WithJsonSchema({"type": "object"})
OBJECTS = WithJsonSchema({"type": "array", "items": {"type": "object"}, "minItems": 1})
"""Short schemas of nested arguments. Their fields are described once for all tools, in the system
prompt. Lists must not be empty.
"""


class ProposedHandle(Part):
    id: Name
    type: Literal["in", "out"]
    accept: Name = "any"
    display: Text | None = None
    offset: Number | None = None


class ProposedHandles(Part):
    position: Literal["separate", "fix"] = "separate"
    point: Annotated[list[ProposedHandle], Field(max_length=100)]


ProposedSides = Annotated[dict[Side, ProposedHandles] | None, OBJECT]


class Position(Part):
    node_key: NodeKey
    pos_x: Coordinate
    pos_y: Coordinate
    width: Extent | None = None
    height: Extent | None = None


class CreateNode(Part):
    type_key: TypeKey
    key: Annotated[NewNodeKey | None, CHOSEN] = None
    sheet: Name | None = None
    pos_x: Coordinate | None = None
    pos_y: Coordinate | None = None
    handles: ProposedSides = None
    data: Annotated[Json, OBJECT] = None
    process: Text | None = None
    frames: Annotated[list[Position] | None, Field(max_length=50), CHOSEN] = None
    """Notes and groups that are enlarged to contain the new node."""


class EdgeConnection(Part):
    """An edge between the new node and another. Direction `out`: the new node is the source."""

    direction: Literal["in", "out"]
    handle_id: Name
    target_node_key: NodeKey
    target_handle_id: Name
    label: Text | None = None
    key: Annotated[NewEdgeKey | None, CHOSEN] = None


class CreateNodeWithEdges(CreateNode):
    edges: Annotated[list[EdgeConnection], Field(min_length=1, max_length=50), OBJECTS]


class CreateEdge(Part):
    source_key: NodeKey
    source_handle: Annotated[Name, Field(description="An out handle of the source.")]
    target_key: NodeKey
    target_handle: Annotated[Name, Field(description="An in handle of the target.")]
    label: Text | None = None
    sheet: Annotated[Name | None, CHOSEN] = None
    key: Annotated[NewEdgeKey | None, CHOSEN] = None


class DeleteNode(Part):
    node_key: NodeKey


class DeleteEdge(Part):
    edge_key: EdgeKey


class Patch(Part):
    search: Annotated[Text, Field(min_length=1)]
    replace: Text


Patches = Annotated[
    list[Patch] | None,
    Field(min_length=1, max_length=50, description="Replacements in the code; search occurs once."),
    OBJECTS,
]


class UpdateNode(Part):
    node_key: NodeKey
    changes: Annotated[
        dict[Name, Json],
        Field(
            max_length=100, description="New values by path: data.name, data.url, process (code)."
        ),
        Names("type", members=("type",)),
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
    node_key: NodeKey
    pos_x: Coordinate
    pos_y: Coordinate


class TypeSize(Part):
    width: Extent
    height: Extent
    dynamic: bool | None = None


class TypeBorder(Part):
    radius: Number | None = None
    width: Number | None = None
    type: Name | None = None
    normal_color: Text | None = None
    hover_color: Text | None = None


class ConfigureNodeType(Part):
    mode: Literal["create", "update"]
    type_key: TypeKey
    display_name: Name | None = None
    description: Text | None = None
    category: Name | None = None
    icon: Name | None = None
    process: Text | None = None
    patches: Patches = None
    border: Annotated[TypeBorder | None, OBJECT] = None
    handles: ProposedSides = None
    size: Annotated[TypeSize | None, OBJECT] = None
    content: Annotated[Json, OBJECT] = None

    @model_validator(mode="after")
    def _has_one_source_of_code(self) -> Self:
        if self.patches and self.process is not None:
            raise ValueError("give patches or the whole process, not both")
        return self


Strategy = Literal["left_to_right", "top_down"]


class ReorganizeLayout(Part):
    node_keys: Annotated[list[NodeKey], Field(min_length=1, max_length=2_000)]
    strategy: Strategy | None = None
    positions: Annotated[list[Position] | None, Field(max_length=10_000), CHOSEN] = None


FIXED_GRAPH_FIELDS = frozenset({"_key", "workspace", "revision", "createdTime", "lastUpdatedTime"})
"""Fields of a graph that an import does not change."""


def _changeable(fields: dict[str, Any]) -> dict[str, Any]:
    fixed = sorted(FIXED_GRAPH_FIELDS & fields.keys())
    if fixed:
        raise ValueError(f"a file does not change {fixed[0]}")
    return fields


class ImportFile(Part):
    """The differences between a file and a graph. Not offered to models.

    `put_graph` holds changed fields of the graph itself: null removes a field, and `sheetsList`
    contains only changed names. `counted` is the number of changed documents in a shortened form
    for lists, where the documents are stored separately.
    """

    file: Annotated[str, AfterValidator(_json)]
    put_nodes: Annotated[
        list[Json], Names("node", members=("_key",)), Names("type", members=("type",))
    ] = []
    put_edges: Annotated[
        list[Json], Names("edge", members=("_key",)), Names("node", members=("source", "target"))
    ] = []
    delete_nodes: list[NodeKey] = []
    delete_edges: list[EdgeKey] = []
    put_types: Annotated[list[Json] | None, Names("type", members=("_key",))] = None
    put_graph: Annotated[
        dict[Name, Json] | None, AfterValidator(lambda v: v and _changeable(v))
    ] = None
    counted: int | None = None

    @property
    def count(self) -> int:
        """The number of changed documents; 0 for a file that was imported without approval."""
        if self.counted is not None:
            return self.counted
        lists = (
            self.put_nodes,
            self.put_edges,
            self.delete_nodes,
            self.delete_edges,
            self.put_types or [],
        )
        return sum(map(len, lists)) + bool(self.put_graph)
