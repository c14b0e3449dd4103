"""The node types built into every workspace, and the resolution of type names.

A name is resolved to the type stored in the workspace, else to the one stored in `root`, else to
the built-in type. If a workspace stores two types with the same name, the first by key is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from datasources.types import ROOT_WORKSPACE, NodeTypeConfig

ENTRY_TYPE = "entryType"


_ENTRY_IN = {"id": "1", "type": "in", "accept": ENTRY_TYPE}


def _builtin(
    name: str,
    display_name: str,
    icon: str,
    size: tuple[int, int],
    handles: Mapping[str, Any],
    description: str,
) -> NodeTypeConfig:
    """Returns a type. `handles` are the connection points of each side."""
    groups = {side: {"position": "separate", "point": points} for side, points in handles.items()}
    node = {"type": name, "handles": groups, "size": {"width": size[0], "height": size[1]}}
    document = {
        "_key": name,
        "workspace": ROOT_WORKSPACE,
        "version": 1,
        "displayName": display_name,
        "node": node,
    }
    document |= {"description": description, "category": "builtin", "icon": icon}
    document["alwaysRendered"] = name in ("starter", "html")
    return NodeTypeConfig.model_validate(document, by_alias=True, by_name=False)


# By type name. Sources do not store or return them, but text search finds their words.
BUILTIN_TYPES: Mapping[str, NodeTypeConfig] = MappingProxyType(
    {
        config.type: config
        for config in (
            _builtin(
                *("starter", "Start", "Play", (150, 150)),
                {"0": [_ENTRY_IN], "R": [{"id": "0", "type": "out", "accept": "any"}]},
                "Starts the workflow; an entry node gives it its first input.",
            ),
            _builtin(
                *("return", "Return", "CornerDownLeft", (150, 150)),
                {"L": [{"id": "0", "type": "in", "accept": "any"}]},
                "Ends the workflow and returns what reaches it.",
            ),
            _builtin(
                *("html", "HTML", "AppWindow", (640, 360)),
                {"0": [{"id": "0", "type": "out", "accept": "event[]"}, _ENTRY_IN]},
                "Shows a page or a component and sends the events of the people who use it.",
            ),
            _builtin(
                *(ENTRY_TYPE, "Entry data", "TextCursorInput", (200, 150)),
                {"0": [{"id": "0", "type": "out", "accept": ENTRY_TYPE}]},
                "Holds a form or fixed values that are the input of another node.",
            ),
        )
    }
)


def visible_types(
    own: Iterable[NodeTypeConfig], root: Iterable[NodeTypeConfig]
) -> list[NodeTypeConfig]:
    """Returns the stored types that a workspace sees, one per name, in key order.

    Types of `own` replace types of `root`.
    """
    configs_by_type: dict[str, NodeTypeConfig] = {}
    for configs in (own, root):
        for config in sorted(configs, key=lambda config: config.key):
            configs_by_type.setdefault(config.type, config)
    return sorted(configs_by_type.values(), key=lambda config: (config.key, config.type))


def types_by_name(visible: Iterable[NodeTypeConfig]) -> dict[str, NodeTypeConfig]:
    """Returns the type of each name. Visible stored types replace built-in ones."""
    return {**BUILTIN_TYPES, **{config.type: config for config in visible}}


def reworded_types(
    before: Mapping[str, NodeTypeConfig], after: Mapping[str, NodeTypeConfig]
) -> set[str]:
    """Returns the names of the types whose own text, which nodes are found by, is another."""
    names = before.keys() | after.keys()
    return {name for name in names if _type_text(before.get(name)) != _type_text(after.get(name))}


def _type_text(config: NodeTypeConfig | None) -> tuple[str, str, str | None] | None:
    return (config.display_name, config.description, config.node.process) if config else None
