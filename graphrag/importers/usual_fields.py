"""The usual fields of other tools' node types, as a schema for forms.

Not a rule: these tools take other values, too, and nothing is checked by it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

_PACKAGES = {"n8n": "graphrag.importers.n8n", "node-red": "graphrag.importers.node_red"}
_INSIDE = {"n8n": "parameters"}  # the field of a node's data that holds them
_KINDS: Mapping[str, dict[str, str]] = {
    "text": {"type": "string"},
    "lines": {"type": "string", "format": "textarea"},
    "number": {"type": "number"},
    "yes": {"type": "boolean"},
}

Fields = Mapping[str, str | list[str]]


def usual_schema(family: object, type_name: str) -> dict[str, Any] | None:
    """Returns the JSON Schema of the usual fields of a node's data; None for a type without any.

    `family` is the format that the type was imported from.
    """
    if not isinstance(family, str) or (package := _PACKAGES.get(family)) is None:
        return None
    name = type_name.rpartition(".")[2] if family == "n8n" else type_name
    fields = _fields(package).get(name)
    if fields is None:
        return None
    schema = _object({field: _rule(kind) for field, kind in fields.items()})
    inside = _INSIDE.get(family)
    return schema if inside is None else _object({inside: schema})


@cache
def _fields(package: str) -> Mapping[str, Fields]:
    return tomllib.loads(resources.files(package).joinpath("fields.toml").read_text("utf-8"))


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def _rule(kind: str | list[str]) -> dict[str, Any]:
    return {"type": "string", "enum": kind} if isinstance(kind, list) else dict(_KINDS[kind])
