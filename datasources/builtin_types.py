"""The node types every workspace has without storing them, and which stored type a name means.

A stored type may take a built-in's name and then wins: the workspace's own, else `root`'s, else
the built-in. Where one workspace stores two types of one name, the first by key is meant.
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
    shown: str,
    icon: str,
    size: tuple[int, int],
    handles: Mapping[str, Any],
    description: str,
) -> NodeTypeConfig:
    """Return a type; `handles` are the points of each side."""
    groups = {side: {"position": "separate", "point": points} for side, points in handles.items()}
    node = {"type": name, "handles": groups, "size": {"width": size[0], "height": size[1]}}
    document = {
        "_key": name,
        "workspace": ROOT_WORKSPACE,
        "version": 1,
        "displayName": shown,
        "node": node,
    }
    document |= {"description": description, "category": "builtin", "icon": icon}
    document["alwaysRendered"] = name in ("starter", "html")
    return NodeTypeConfig.model_validate(document, by_alias=True, by_name=False)


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
"""By type name. Sources do not store or return them; their words count in text search."""


def visible_types(
    own: Iterable[NodeTypeConfig], root: Iterable[NodeTypeConfig]
) -> list[NodeTypeConfig]:
    """Return the stored types a workspace sees, one per name, in key order; `own`
    wins over `root`.
    """
    found: dict[str, NodeTypeConfig] = {}
    for configs in (own, root):
        for config in sorted(configs, key=lambda config: config.key):
            found.setdefault(config.type, config)
    return sorted(found.values(), key=lambda config: (config.key, config.type))


def types_by_name(visible: Iterable[NodeTypeConfig]) -> dict[str, NodeTypeConfig]:
    """Return what each type name means: the visible stored types over the built-in ones."""
    return {**BUILTIN_TYPES, **{config.type: config for config in visible}}
