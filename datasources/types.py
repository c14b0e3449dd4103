"""Data types of a workflow graph as stored and sent: documents, subgraphs, mutations.

Wire and storage names are camelCase aliases; Python names are snake_case. A document keeps unknown
fields, so that data written by other clients survives a round trip.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any, Literal, Self, TypeVar

import orjson
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError
from pydantic.alias_generators import to_camel

from datasources.errors import BadDocument
from datasources.hits import NodeVector

ROOT_WORKSPACE = "root"  # node types of this workspace are visible to every workspace

MAIN_SHEET = "0"

Key = Annotated[
    str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")
]
"""A local key: 1–200 characters, no control characters. Adapters encode what a store refuses."""

Side = Literal["T", "D", "R", "L", "0"]
Number = int | float  # a JSON number; integers stay integers


def is_storable(text: str) -> bool:
    """Returns True if a store accepts a text: it has no lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _alias(name: str) -> str:
    return "_key" if name == "key" else to_camel(name)


class Document(BaseModel):
    """A stored document. Immutable; unknown fields are kept; absent fields stay absent."""

    model_config = ConfigDict(
        extra="allow",
        frozen=True,
        alias_generator=_alias,
        populate_by_name=True,
        allow_inf_nan=False,
    )

    def to_document(self) -> dict[str, Any]:
        """Returns the camelCase document with only the fields that were set."""
        return self.model_dump(by_alias=True, exclude_unset=True)

    def to_json(self) -> bytes:
        """Returns `to_document` as UTF-8 JSON."""
        return orjson.dumps(self.to_document())

    def replace(self, **changes: Any) -> Self:
        """Returns a validated copy with the named (snake_case) fields changed."""
        names = type(self).model_fields
        aliased = {(names[k].alias or k) if k in names else k: v for k, v in changes.items()}
        return type(self).model_validate(
            {**self.to_document(), **aliased}, by_alias=True, by_name=False
        )


class Size(Document):
    width: Number
    height: Number
    dynamic: bool | None = None


class HandlePoint(Document):
    """A connection point of one side. `accept` is a type name; `any` fits all."""

    id: str
    type: Literal["in", "out"]
    accept: str = "any"
    display: str | None = None
    offset: Number | None = None
    linked_html_id: str | None = None


class HandleGroup(Document):
    position: Literal["separate", "fix"] = "separate"
    point: tuple[HandlePoint, ...] = ()


Handles = dict[Side, HandleGroup]

Family = Literal["nodius", "n8n", "node-red"]
"""The tool whose node types a graph uses: the `category` of its document ("default" for Nodius)."""


class Graph(Document):
    """A workflow graph with its sheets. `revision` counts its changes."""

    key: Key
    name: str
    workspace: str
    sheets_list: dict[str, str] = Field(default_factory=lambda: {MAIN_SHEET: "main"})
    description: str | None = None
    category: str = "default"
    permission: int = 0
    version: Number = 1
    created_time: int = 0
    last_updated_time: int = 0
    metadata: dict[str, Any] | None = None
    language: str | None = None
    """Language of the graph's texts, if they have stemming rules of their own
    (`datasources.text.STEMMERS`).
    """
    revision: int = 0


Use = Literal["searched", "embedded", "shown", "proposable"]
"""A use of a field of a node.

`searched`: text search finds its words, and the embedded text contains them. `embedded`: the
vectors are renewed when it changes. `shown`: it is a column of the context that a model reads.
`proposable`: a model may propose to change it.
"""


@dataclass(frozen=True, slots=True, init=False)
class Used:
    """Declares the uses of a field: `Annotated[str, Used("searched", "shown")]`."""

    uses: frozenset[Use]

    def __init__(self, *uses: Use) -> None:
        object.__setattr__(self, "uses", frozenset(uses))


class Node(Document):
    """A node. Each field declares its uses, which stores, prompts and write tools read from here.

    See "To add a field of a node" in docs/architecture.md.
    """

    key: Key
    graph_key: Key
    type: Annotated[str, Used("searched", "embedded", "shown", "proposable")]
    sheet: Annotated[str, Used("shown")] = MAIN_SHEET
    pos_x: Annotated[Number, Used("proposable")] = 0
    pos_y: Annotated[Number, Used("proposable")] = 0
    size: Annotated[Size, Used("proposable")] = Size(width=200, height=100)
    handles: Annotated[Handles, Used("embedded", "shown", "proposable")] = Field(
        default_factory=dict[Side, HandleGroup]
    )
    type_version: Annotated[Number, Used("proposable")] = 1
    data: Annotated[Any, Used("searched", "embedded", "shown", "proposable")] = None
    process: Annotated[str | None, Used("searched", "embedded", "shown", "proposable")] = None

    def points(self, direction: Literal["in", "out"]) -> list[tuple[Side, HandlePoint]]:
        """Returns the node's handles of one direction as (side, point), in stored order."""
        return [
            (s, p) for s, group in self.handles.items() for p in group.point if p.type == direction
        ]


@cache
def node_fields(use: Use, model: type[Node] = Node) -> dict[str, str]:
    """Returns Python name → wire name of the fields declared for a use, in declared order."""
    return {
        name: declared.alias or name
        for name, declared in model.model_fields.items()
        if any(isinstance(part, Used) and use in part.uses for part in declared.metadata)
    }


def other_values(node: Node, use: Use, known: frozenset[str]) -> dict[str, Any]:
    """Returns the set values of the fields declared for a use, by wire name, without `known`."""
    others = _other_fields(use, known, type(node))
    return {wire: value for name, wire in others if (value := getattr(node, name)) is not None}


@cache
def _other_fields(
    use: Use, known: frozenset[str], model: type[Node]
) -> tuple[tuple[str, str], ...]:
    return tuple(
        (name, wire) for name, wire in node_fields(use, model).items() if name not in known
    )


class Edge(Document):
    key: Key
    graph_key: Key
    sheet: str = MAIN_SHEET
    source: Key
    source_handle: str = "0"
    target: Key
    target_handle: str = "0"
    label: str | None = None


class TypeTemplate(Document):
    """The initial values of a new node of a type."""

    type: str
    handles: Handles = Field(default_factory=dict[Side, HandleGroup])
    size: Size = Size(width=200, height=100)
    process: str | None = None


class NodeTypeConfig(Document):
    key: Key
    workspace: str
    display_name: str
    node: TypeTemplate
    description: str = ""
    category: str = "default"
    version: Number = 1
    icon: str | None = None
    always_rendered: bool = False
    content: Any = None
    border: Any = None

    @property
    def type(self) -> str:
        """The name in the `type` field of nodes of this type."""
        return self.node.type


D = TypeVar("D", bound=Document)


def parse_document(model: type[D], raw: Mapping[str, Any] | bytes | str, collection: str) -> D:
    """Returns a stored or received document, validated.

    Raises: BadDocument with the collection, the key and the first invalid field.
    """
    try:
        # By alias only: a field `key` or `pos_x` is an unknown field of another client.
        if isinstance(raw, bytes | str):
            return model.model_validate_json(raw, by_alias=True, by_name=False)
        return model.model_validate(raw, by_alias=True, by_name=False)
    except ValidationError as exc:
        first = exc.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "(document)"
        raise BadDocument(
            collection=collection, key=_key_of(raw), field=where, reason=first["msg"]
        ) from exc


def _key_of(raw: Mapping[str, Any] | bytes | str) -> str:
    document: Any = raw
    if isinstance(raw, bytes | str):
        try:
            document = orjson.loads(raw)
        except orjson.JSONDecodeError:
            return "?"
    return str(document.get("_key", "?")) if isinstance(document, Mapping) else "?"  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredNode:
    """A node of a retrieval result, with its score and its reasons (`text`, `vector`, …).

    A score is relative to the best of its result. `weak` is True if no node of the result is
    similar to the question.
    """

    node: Node
    score: float
    reasons: tuple[str, ...] = ()
    weak: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Subgraph:
    """Nodes in order of discovery and every edge with both ends among them, by key.

    `depths` gives each node's distance in edges from the nearest seed (seeds: 0). `configs` are the
    stored types of the nodes, if they were asked for.
    """

    nodes: tuple[Node, ...] = ()
    edges: tuple[Edge, ...] = ()
    depths: Mapping[str, int] = field(default_factory=dict[str, int])
    configs: tuple[NodeTypeConfig, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """A batch of changes to one graph, applied atomically.

    Order of effect: `graph`, configs, deletions, nodes, edges, vectors. Deleting a node deletes
    its edges and vectors. `put_*` inserts or replaces by key.
    """

    graph_key: str
    put_nodes: Sequence[Node] = ()
    put_edges: Sequence[Edge] = ()
    delete_nodes: Sequence[str] = ()
    delete_edges: Sequence[str] = ()
    put_configs: Sequence[NodeTypeConfig] = ()
    delete_configs: Sequence[str] = ()
    put_vectors: Sequence[NodeVector] = ()
    graph: Graph | None = None
    """Replaces the graph document (name, sheets, …); its revision is ignored."""
    revision: int | None = None
    """The revision of the graph afterwards, for copies that keep it; None: the next one. A revision
    must not be used for two states while others read the graph.
    """
    changed_at: int | None = None
    """Time of a person's change, stored in the graph document. Units: milliseconds since 1970."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphVersions:
    """The versions that a cached answer depends on: the graph document and its vectors.

    `vectors` is opaque and differs after every `put_embeddings` that stored something.
    """

    graph: Graph
    vectors: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphStats:
    """Counts of one graph. `types` and `vectors` count nodes by type and by embedding model."""

    nodes: int
    edges: int
    types: Mapping[str, int] = field(default_factory=dict[str, int])
    vectors: Mapping[str, int] = field(default_factory=dict[str, int])
