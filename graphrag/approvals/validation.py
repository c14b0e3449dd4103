"""Decides whether a person must be asked before an action is applied; pure.

An action has classes (`layout`, `content`, `structure`, `delete`, `code`, `types`); a person is needed if
any level demands any of them: application, workspace, graph, node type, session, request. No level relaxes
another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, cast, get_args

from tools.proposals import (
    BatchAction,
    ConfigureNodeTypeAction,
    CreateEdgeAction,
    CreateNodeAction,
    CreateNodeWithEdgesAction,
    DeleteEdgeAction,
    DeleteNodeAction,
    ImportFileAction,
    MoveNodeAction,
    ReorganizeLayoutAction,
    SingleAction,
    UpdateNodeAction,
    single_actions,
)

ActionClass = Literal["layout", "content", "structure", "delete", "code", "types"]
CLASSES: Final[frozenset[ActionClass]] = frozenset(get_args(ActionClass))
Level = Literal["application", "workspace", "graph", "nodeType", "session", "request", "floor"]
FLOOR: Final[frozenset[ActionClass]] = frozenset({"delete", "code", "types"})
"""Classes for which an unattended run always needs a person."""

_BY_FIELD: Final[Mapping[str, ActionClass]] = {
    "process": "code",
    "posX": "layout",
    "posY": "layout",
    "size": "layout",
    "data": "content",
    "handles": "structure",
    "type": "structure",
    "typeVersion": "structure",
    "sheet": "structure",
}


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """One level's demand: the classes of the action for which it wants a person."""

    level: Level
    classes: frozenset[ActionClass]
    where: str = ""
    """The place of the part within a batch, as `actions.2`; "" for an action alone."""


def classes_of(action: SingleAction) -> frozenset[ActionClass]:
    """Return the classes of an action that is no batch."""
    match action:
        case MoveNodeAction() | ReorganizeLayoutAction():
            return _set("layout")
        case DeleteNodeAction() | DeleteEdgeAction():
            return _set("delete")
        case ConfigureNodeTypeAction():
            return _set("types")
        case CreateEdgeAction():
            return _set("structure")
        case CreateNodeAction() | CreateNodeWithEdgesAction():
            return _set("structure", "code") if action.payload.process else _set("structure")
        case UpdateNodeAction():
            changed = map(_class_of_field, action.payload.changes)
            return _set(*changed, "code") if action.payload.patches else _set(*changed)
        case ImportFileAction():
            return CLASSES  # a file may change anything


def _class_of_field(path: str) -> ActionClass:
    root = path.partition(".")[0]
    return _BY_FIELD.get(root) or "content"


def _set(*classes: ActionClass) -> frozenset[ActionClass]:
    return frozenset(classes)


def required(
    action: SingleAction | BatchAction, levels: Levels, types_of: Callable[[SingleAction], Iterable[str]]
) -> list[Demand]:
    """Return why a person must be asked, in the order of levels; empty: nobody need be.

    Args:
        types_of: the names of the node types that a part of the action touches.
    """
    found: list[Demand] = []
    for where, single in single_actions(action):
        classes = classes_of(single)
        demands: list[tuple[Level, frozenset[ActionClass]]] = [
            ("application", levels.application),
            ("workspace", levels.workspace),
            ("graph", levels.graph),
            *(("nodeType", levels.node_types.get(name, frozenset())) for name in types_of(single)),
            ("session", CLASSES if levels.session else frozenset()),
            ("request", CLASSES if levels.request else frozenset()),
            ("floor", FLOOR if levels.unattended else frozenset()),
        ]
        reasons = [Demand(level=lv, classes=classes & asked, where=where) for lv, asked in demands]
        found += [one for one in reasons if one.classes]
    return found


def classes_named(value: Any) -> frozenset[ActionClass]:
    """Return the classes that a stored list names; what is no list of them names none."""
    if not isinstance(value, list):
        return frozenset()
    names = cast(list[Any], value)
    return frozenset(name for name in CLASSES if name in names)
