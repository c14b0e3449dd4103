"""What a person may want of the offline answerer: questions and commands, as they were understood."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from graphrag.offline.wording import Mention

Direction = Literal["out", "in", "any"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeGraph:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeNode:
    """`indefinite`: it was asked for as `a filter`, so its type may be meant."""

    node: Mention
    indefinite: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowCode:
    node: Mention


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowField:
    field: str
    node: Mention


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbours:
    """Units: `depth` in edges."""

    node: Mention
    direction: Direction
    depth: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class FindPath:
    start: Mention
    end: Mention


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """Nodes may be counted of a `type` or on a `sheet`."""

    what: Literal["nodes", "edges", "types", "sheets"]
    type: Mention | None = None
    sheet: Mention | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListNodes:
    type: Mention | None = None
    sheet: Mention | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListTypes:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeType:
    type: Mention


@dataclass(frozen=True, slots=True, kw_only=True)
class ListSheets:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Unconnected:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    query: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Help:
    """`topic` names what is done elsewhere (a decision on a proposal, an undo) or asked not to be done."""

    topic: Literal["all", "decide", "undo", "nothing"] = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateNode:
    """`type` None: it was not said. At most one of `after`/`before`, or both: between them."""

    type: Mention | None = None
    name: str | None = None
    after: Mention | None = None
    before: Mention | None = None
    sheet: Mention | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Connect:
    """`output` and `label`: the handle to leave by, and what to write on the edge, where said."""

    source: Mention
    target: Mention
    output: str | None = None
    label: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteNodes:
    node: Mention


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteEdge:
    """By its key, or by its two ends in either order."""

    key: Mention | None = None
    source: Mention | None = None
    target: Mention | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rename:
    node: Mention
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SetField:
    """`value` as it was written; `quoted`: it is text whatever it looks like."""

    node: Mention
    field: str
    value: str
    quoted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """To a point; or beside `other`, or by `distance` where there is none; or to a sheet."""

    node: Mention
    side: Literal["right", "left", "up", "down"] | None = None
    other: Mention | None = None
    distance: float | None = None
    point: tuple[float, float] | None = None
    sheet: Mention | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tidy:
    """Of all nodes, of a sheet, or of the nodes named."""

    sheet: Mention | None = None
    nodes: tuple[Mention, ...] = ()
    strategy: Literal["left_to_right", "top_down"] = "left_to_right"


@dataclass(frozen=True, slots=True, kw_only=True)
class Incomplete:
    """A command that leaves out what it needs; `kind` says which."""

    kind: Literal["connect", "delete", "rename", "set", "move", "create"]


Question = (
    DescribeGraph
    | DescribeNode
    | ShowCode
    | ShowField
    | Neighbours
    | FindPath
    | Count
    | ListNodes
    | ListTypes
    | DescribeType
    | ListSheets
    | Unconnected
    | Search
    | Help
)
Command = CreateNode | Connect | DeleteNodes | DeleteEdge | Rename | SetField | Move | Tidy | Incomplete
Intent = Question | Command
