"""The stored form of a node type that an action creates or changes."""

from __future__ import annotations

from typing import Any

from datasources.types import NodeTypeConfig
from tools.actions.field_checks import DEFAULT_HANDLES, handles_from
from tools.proposal_parts import ConfigureNodeType, TypeBorder

_DEFAULT_BORDER: dict[str, Any] = {
    "radius": 10,
    "width": 1,
    "type": "solid",
    "normal": {"color": "var(--nodius-primary-dark)"},
    "hover": {"color": "var(--nodius-primary-light)"},
}


def configured_type(
    payload: ConfigureNodeType, old: NodeTypeConfig | None, workspace: str
) -> NodeTypeConfig:
    """Returns the type after the payload. Omitted fields are unchanged, or the defaults of a new
    type.
    """
    document = old.to_document() if old is not None else _new_document(payload, workspace)
    given = {"display_name", "description", "category", "icon", "content"}
    document |= {
        k: v for k, v in payload.model_dump(by_alias=True, include=given).items() if v is not None
    }
    template = dict(document["node"])
    handles = handles_from(payload.handles)
    if handles is not None:
        template["handles"] = {side: group.to_document() for side, group in handles.items()}
    if payload.size is not None:
        template["size"] = payload.size.model_dump(by_alias=True, exclude_none=True)
    if payload.process is not None:
        template["process"] = payload.process
    if payload.border is not None:
        document["border"] = _bordered(document.get("border"), payload.border)
    if old is not None:
        document["version"] = old.version + 1
    return NodeTypeConfig.model_validate(
        {**document, "node": template}, by_alias=True, by_name=False
    )


def _new_document(payload: ConfigureNodeType, workspace: str) -> dict[str, Any]:
    return {
        "_key": payload.type_key,
        "workspace": workspace,
        "version": 1,
        "displayName": payload.display_name or payload.type_key,
        "description": "",
        "category": "custom",
        "alwaysRendered": False,
        "content": {
            "type": "list",
            "identifier": "root",
            "tag": "div",
            "name": "Container",
            "css": [{"selector": "&", "rules": [["height", "100%"], ["width", "100%"]]}],
            "domEvents": [],
            "content": [],
        },
        "border": _DEFAULT_BORDER,
        "node": {
            "type": payload.type_key,
            "handles": {side: group.to_document() for side, group in DEFAULT_HANDLES.items()},
            "size": {"width": 200, "height": 100, "dynamic": True},
            "process": "",
        },
    }


def _bordered(old: Any, border: TypeBorder) -> dict[str, Any]:
    base: dict[str, Any] = (
        {**_DEFAULT_BORDER, **old} if isinstance(old, dict) else dict(_DEFAULT_BORDER)
    )
    for name in ("radius", "width", "type"):
        value = getattr(border, name)
        if value is not None:
            base[name] = value
    for name, color in (("normal", border.normal_color), ("hover", border.hover_color)):
        if color is not None:
            inner = base.get(name)
            base[name] = {**(inner if isinstance(inner, dict) else {}), "color": color}
    return base
