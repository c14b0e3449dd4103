"""Decides whether a person must be asked before an action is applied; pure.

An action has classes (`layout`, `content`, `structure`, `delete`, `code`, `types`); a person is
needed if any level demands any of them: application, workspace, graph, node type, session, request.
No level relaxes another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, cast, final, get_args

from graphrag.config import ActionClass
from tools.proposals import SingleAction

CLASSES: Final[frozenset[ActionClass]] = frozenset(get_args(ActionClass))
Level = Literal["application", "workspace", "graph", "nodeType", "session", "request", "floor"]
FLOOR: Final[frozenset[ActionClass]] = frozenset({"delete", "code", "types"})
"""Classes for which an unattended run always needs a person."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Levels:
    """What each level demands; empty: nothing. `node_types` are demands by the name of a type."""

    application: frozenset[ActionClass] = CLASSES
    workspace: frozenset[ActionClass] = frozenset()
    graph: frozenset[ActionClass] = frozenset()
    node_types: Mapping[str, frozenset[ActionClass]]
    session: bool = False
    request: bool = False
    unattended: bool = False
    """An automation's session: the floor holds."""
    four_eyes: bool = False
    """Nobody decides what they asked for: the floor is everything."""

    def to_document(self) -> dict[str, list[str]]:
        """Return what each level that stands somewhere demands, as it is stored with a decision."""
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
    """One level's demand: the classes of the action for which it wants a person, in their order.

    `where` is the place of the part within a batch, as `actions.2`, "" for an action alone. `name`
    is the node type that demands it.
    """

    level: Level
    classes: tuple[ActionClass, ...]
    where: str = ""
    name: str = ""


def required(
    single: SingleAction, where: str, types: Iterable[str], levels: Levels
) -> list[Demand]:
    """Return why a person must be asked about a part that touches node types of these names, in the
    order of levels; empty: nobody need be.
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
    """Return the classes that a stored list names; what is no list of them names none."""
    if not isinstance(value, list):
        return frozenset()
    names = cast(list[Any], value)
    return frozenset(name for name in CLASSES if name in names)
