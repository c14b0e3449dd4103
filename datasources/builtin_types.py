"""The node types every workspace has without storing them, and which stored type a name means.

A stored type may take a built-in's name and then wins: the workspace's own, else `root`'s, else
the built-in. Where one workspace stores two types of one name, the first by key is meant.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from datasources.types import (
    ROOT_WORKSPACE,
    HandleGroup,
    HandlePoint,
    Handles,
    NodeTypeConfig,
    Number,
    Side,
    Size,
    TypeTemplate,
)

ENTRY_TYPE = "entryType"


def _group(*points: HandlePoint) -> HandleGroup:
    return HandleGroup(position="separate", point=points)


def _builtin(
    type_name: str,
    display_name: str,
    description: str,
    *,
    size: tuple[Number, Number],
    handles: dict[Side, HandleGroup],
    icon: str,
    always_rendered: bool = False,
) -> NodeTypeConfig:
    template: Handles = dict(handles)
    return NodeTypeConfig(
        key=type_name,
        workspace=ROOT_WORKSPACE,
        version=1,
        display_name=display_name,
        description=description,
        category="builtin",
        icon=icon,
        always_rendered=always_rendered,
        node=TypeTemplate(type=type_name, handles=template, size=Size(width=size[0], height=size[1])),
    )


_ENTRY_IN = HandlePoint(id="1", type="in", accept=ENTRY_TYPE)

BUILTIN_TYPES: Mapping[str, NodeTypeConfig] = MappingProxyType(
    {
        config.type: config
        for config in (
            _builtin(
                "starter",
                "Start",
                "Starts the workflow; an entry node gives it its first input.",
                size=(150, 150),
                handles={"0": _group(_ENTRY_IN), "R": _group(HandlePoint(id="0", type="out", accept="any"))},
                icon="Play",
                always_rendered=True,
            ),
            _builtin(
                "return",
                "Return",
                "Ends the workflow and returns what reaches it.",
                size=(150, 150),
                handles={"L": _group(HandlePoint(id="0", type="in", accept="any"))},
                icon="CornerDownLeft",
            ),
            _builtin(
                "html",
                "HTML",
                "Shows a page or a component and sends the events of the people who use it.",
                size=(640, 360),
                handles={"0": _group(HandlePoint(id="0", type="out", accept="event[]"), _ENTRY_IN)},
                icon="AppWindow",
                always_rendered=True,
            ),
            _builtin(
                ENTRY_TYPE,
                "Entry data",
                "Holds a form or fixed values that are the input of another node.",
                size=(200, 150),
                handles={"0": _group(HandlePoint(id="0", type="out", accept=ENTRY_TYPE))},
                icon="TextCursorInput",
            ),
        )
    }
)
"""By type name. Sources do not store or return them; their words count in text search."""


def visible_types(own: Iterable[NodeTypeConfig], root: Iterable[NodeTypeConfig]) -> list[NodeTypeConfig]:
    """Return the stored types a workspace sees, one per name, in key order; `own` wins over `root`."""
    found: dict[str, NodeTypeConfig] = {}
    for configs in (own, root):
        for config in sorted(configs, key=lambda config: config.key):
            found.setdefault(config.type, config)
    return sorted(found.values(), key=lambda config: (config.key, config.type))


def types_by_name(visible: Iterable[NodeTypeConfig]) -> dict[str, NodeTypeConfig]:
    """Return what each type name means: the visible stored types over the built-in ones."""
    return {**BUILTIN_TYPES, **{config.type: config for config in visible}}
