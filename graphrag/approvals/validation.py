"""Decides whether a person must approve an action before it is applied.

An action has classes (`layout`, `content`, `structure`, `delete`, `code`, `types`). A person is
required if any level requires one of them: application, workspace, graph, node type, session,
request. No level relaxes another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, cast, final, get_args

from graphrag.config import ActionClass
from tools.proposals import SingleAction

CLASSES: Final[frozenset[ActionClass]] = frozenset(get_args(ActionClass))
Level = Literal["application", "workspace", "graph", "nodeType", "session", "request", "floor"]
# Classes for which unattended runs always need a person.
FLOOR: Final[frozenset[ActionClass]] = frozenset({"delete", "code", "types"})


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Levels:
    """The requirements of each level; empty: none. `node_types`: requirements by the name of a
    type.
    """

    application: frozenset[ActionClass] = CLASSES
    workspace: frozenset[ActionClass] = frozenset()
    graph: frozenset[ActionClass] = frozenset()
    node_types: Mapping[str, frozenset[ActionClass]]
    session: bool = False
    request: bool = False
    unattended: bool = False
    """The session belongs to an automation, so the classes of FLOOR require a person."""
    four_eyes: bool = False
    """Nobody may decide their own requests, so all classes require a person."""

    def to_document(self) -> dict[str, list[str]]:
        """Returns the requirements of each level that has some, as stored with a decision."""
        named = {
            f"nodeType/{name}": asked for name, asked in sorted(self.node_types.items()) if asked
        }
        levels = {
            "application": self.application,
            "workspace": self.workspace,
            "graph": self.graph,
            **named,
        }
        return {name: sorted(asked) for name, asked in levels.items()}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """The requirement of one level: the classes of the action for which it requires a person, in
    order.

    `where`: the place of the part in a batch, as `actions.2`; "" for a single action. `name`: the
    node type that requires it.
    """

    level: Level
    classes: tuple[ActionClass, ...]
    where: str = ""
    name: str = ""


def required(
    single: SingleAction, where: str, types: Iterable[str], levels: Levels
) -> list[Demand]:
    """Returns the requirements for a part that touches node types of these names, in the order of
    levels.
    """
    demands: list[tuple[Level, str, frozenset[ActionClass]]] = [
        ("application", "", levels.application),
        ("workspace", "", levels.workspace),
        ("graph", "", levels.graph),
        *(("nodeType", name, levels.node_types.get(name, frozenset())) for name in types),
        ("session", "", CLASSES if levels.session else frozenset()),
        ("request", "", CLASSES if levels.request else frozenset()),
        ("floor", "", CLASSES if levels.four_eyes else FLOOR if levels.unattended else frozenset()),
    ]
    classes = single.classes()
    return [
        Demand(level=level, classes=tuple(sorted(classes & asked)), where=where, name=name)
        for level, name, asked in demands
        if classes & asked
    ]


def classes_named(value: Any) -> frozenset[ActionClass]:
    """Returns the classes in a stored list; empty if it is not a list of classes."""
    if not isinstance(value, list):
        return frozenset()
    names = cast(list[Any], value)
    return frozenset(name for name in CLASSES if name in names)
