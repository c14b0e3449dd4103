"""What an action is: the methods that each kind has, and what they work with."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, ClassVar, Literal, Protocol, Self

from datasources.types import Edge
from tools.actions.proposal_draft import Draft
from tools.actions.snapshot import Snapshot
from tools.base import Problem
from tools.proposal_parts import (
    ConfigureNodeType,
    CreateNode,
    ImportFile,
    Part,
    ReorganizeLayout,
)

ActionClass = Literal["layout", "content", "structure", "delete", "code", "types"]
"""The kinds of change for which a person can be asked, and roles be needed."""

MAX_NAMED = 5  # names in one title

Handle = tuple[str, str]
"""The key of a node, and the id of one of its handles."""


class ConversionPhase(IntEnum):
    """When an action is converted: the parts of a batch may come in any order."""

    TYPES = 0
    NODES = 1
    EDGES = 2
    CHANGES = 3
    PLACES = 4
    """After the new nodes have their places."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTool:
    """How a model is offered an action. `example` are right arguments for the sample graph.

    An `essential` tool is offered to small models, too.
    """

    description: str
    example: Mapping[str, Any]
    essential: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEdge:
    """An edge that an action creates; a node of the same action without a key has "" here.

    `field` is the field of the action that asks for it, "" where the whole action does.
    """

    source: Handle
    target: Handle
    field: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effects:
    """What an action does to a graph, for checks of a proposal as a whole.

    `updates` are new values by path, by the key of the node.
    """

    creates: CreateNode | None = None
    connects: tuple[NewEdge, ...] = ()
    updates: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    deletes: frozenset[str] = frozenset()
    cuts: frozenset[str] = frozenset()
    configures: ConfigureNodeType | None = None
    places: bool = False
    """Whether something of it still gets its place among the other nodes."""


class TitleWords(Protocol):
    """Writes titles in the language of a person, with the names that people give things."""

    def says(self, code: str, /, **facts: Any) -> str:
        """Returns the text `title_CODE` of the catalogue."""
        ...

    def label(self, name: str) -> str:
        """Returns the name of the node with this key, of `type/NAME` or of `edge/KEY`."""
        ...

    def short(self, text: str) -> str:
        """Returns a text cut to the length of a name in a title."""
        ...


class Conversion(Protocol):
    """Collects what carries out an action, and chooses keys, sheets and places left open.

    `chosen` is the payload of the action as a document; what is chosen is written into it.
    """

    def node(self, key: str) -> str:
        """Returns the key of a node that an action names, new or not."""
        ...

    def create_node(self, payload: CreateNode, chosen: dict[str, Any]) -> str: ...

    def connect(
        self,
        key: str | None,
        source: Handle,
        target: Handle,
        *,
        label: str | None,
        sheet: str | None,
        chosen: dict[str, Any] | None = None,
    ) -> Edge:
        """Creates an edge. Its sheet is written into `chosen` once it is known."""
        ...

    def update_node(self, key: str, changes: Mapping[str, Any]) -> None: ...

    def move_node(self, key: str, pos_x: float, pos_y: float) -> None: ...

    def delete_node(self, key: str) -> None: ...

    def delete_edge(self, key: str) -> None: ...

    def configure_type(self, payload: ConfigureNodeType) -> None: ...

    def arrange(self, payload: ReorganizeLayout, chosen: dict[str, Any]) -> None: ...

    def take_file(self, payload: ImportFile) -> None: ...


class SingleAction(Part):
    """An action that is no batch. Each kind has two fields: `type`, the name under which it is
    stored and sent, and `payload`, a part of `proposal_parts`.

    Its fields that hold keys are marked (`Names` in `proposal_parts`): from the marks come the
    nodes, edges and types that it names. It is undone by what it changed, see `approvals.undo`.
    """

    tool: ClassVar[WriteTool | None]
    """None: no model is offered it."""
    phase: ClassVar[ConversionPhase]
    names_nodes: ClassVar[bool] = True
    """Whether its title names nodes. Other titles only count them."""

    @abstractmethod
    def describe(self) -> str:
        """Returns it in a few English words with keys, for a model."""

    @abstractmethod
    def title(self, words: TitleWords) -> str:
        """Returns it in the words of a person."""

    @abstractmethod
    def resolved(self, where: str, snapshot: Snapshot, problems: list[Problem]) -> Self:
        """Returns it with nothing left to look up; adds to `problems` what cannot be resolved."""

    @abstractmethod
    def effects(self) -> Effects:
        """Returns what it does to a graph."""

    @abstractmethod
    def check(self, where: str, draft: Draft) -> Iterator[Problem]:
        """Yields what is wrong with it on the graph as the whole proposal leaves it."""

    @abstractmethod
    def convert(self, conversion: Conversion, chosen: dict[str, Any]) -> None:
        """Adds what carries it out."""

    @abstractmethod
    def classes(self) -> frozenset[ActionClass]:
        """Returns the classes of change that it has."""

    @abstractmethod
    def rests_on(self) -> Iterable[str]:
        """Returns the parts of a graph whose change makes it stale.

        Shapes: as in `approvals.action_review.touched`.
        """


def counted(count: int, noun: str) -> str:
    """Returns an English count, as `2 edges`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"
