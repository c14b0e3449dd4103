"""A workflow as read from a file: nodes and edges without keys."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from datasources.types import Side
from graphrag.importers.json_values import Json
from graphrag.importers.report import Tally
from graphrag.importers.type_facts import TypeFacts

Number = int | float

NOTE_TYPE = "note"
GROUP_TYPE = "group"


@dataclass(frozen=True, slots=True)
class Port:
    """A handle point. `order` is its position among the handles of its side."""

    id: str
    side: Side
    accept: str = "any"
    display: str | None = None
    order: int = 0


MAIN_IN = Port("0", "L")
MAIN_OUT = Port("0", "R")


@dataclass(slots=True, kw_only=True, eq=False)
class DraftNode:
    """A node before it has a key. `ports_in` and `ports_out` are by id and grow while edges are
    read.

    `raw` is the entry of the node in the file.
    """

    name: str
    type: str
    origin: Json
    sheet: str = ""
    x: Number = 0
    y: Number = 0
    width: Number = 100
    height: Number = 100
    type_version: Number = 1
    data: dict[str, Any] = field(default_factory=dict[str, Any])
    process: str | None = None
    ports_in: dict[str, Port] = field(default_factory=dict[str, Port])
    ports_out: dict[str, Port] = field(default_factory=dict[str, Port])
    key: str = ""
    raw: Json = field(default_factory=dict[str, Any])

    def take_in(self, port: Port) -> Port:
        """Returns the input with the port's id; adds the port if the node has none."""
        return self.ports_in.setdefault(port.id, port)

    def take_out(self, port: Port) -> Port:
        """Returns the output with the port's id; adds the port if the node has none."""
        return self.ports_out.setdefault(port.id, port)


def is_note(node: DraftNode) -> bool:
    """Returns whether a node is a note or a group frame, and so no step of the flow."""
    return node.type in (NOTE_TYPE, GROUP_TYPE)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DraftEdge:
    source: DraftNode
    source_handle: str
    target: DraftNode
    target_handle: str
    label: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftSheet:
    """A canvas of the file; `ref` is its id in the file."""

    ref: str
    label: str
    details: Json = field(default_factory=dict[str, Any])


@dataclass(slots=True, kw_only=True)
class WorkflowDraft:
    """A workflow as read from a file. `members` are pairs of a node and the group around it."""

    format: str
    name: str
    identity: str | None = None
    description: str | None = None
    sheets: list[DraftSheet] = field(default_factory=list[DraftSheet])
    nodes: list[DraftNode] = field(default_factory=list[DraftNode])
    edges: list[DraftEdge] = field(default_factory=list[DraftEdge])
    members: list[tuple[DraftNode, DraftNode]] = field(
        default_factory=list[tuple[DraftNode, DraftNode]]
    )
    metadata: Json = field(default_factory=dict[str, Any])
    types: dict[str, TypeFacts] = field(default_factory=dict[str, TypeFacts])
    created_ms: int = 0
    updated_ms: int = 0
    tally: Tally = field(default_factory=Tally)
    _connected: set[tuple[DraftNode, str, DraftNode, str]] = field(
        default_factory=set[tuple[DraftNode, str, DraftNode, str]]
    )

    def connect(self, edge: DraftEdge) -> bool:
        """Adds an edge between existing ports. Returns False if an edge with the same ends was
        there.
        """
        ends = (edge.source, edge.source_handle, edge.target, edge.target_handle)
        is_new = ends not in self._connected
        self._connected.add(ends)
        if is_new:
            self.edges.append(edge)
        return is_new
