"""What a model is told of a tool's arguments: their JSON schema, without what costs tokens and says little.

Every call of a model pays for the schemas of all tools. Bounds are checked when a call comes, and
told then to whoever broke one; unknown fields stay forbidden on the outside.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from pydantic import BaseModel

Schema = dict[str, Any]

_UNSAID = frozenset(
    ("title", "minLength", "maxLength", "minItems", "maxItems", "maxProperties", "propertyNames", "minimum")
)
_TOLD_MAXIMUM = 1_000
"""A greater bound of a number keeps mischief out, and tells a model nothing."""


def parameters_of(arguments: type[BaseModel]) -> Schema:
    """Return the schema of some arguments with its definitions in place and only what a caller needs."""
    whole = arguments.model_json_schema()
    parts = cast(Mapping[str, Schema], whole.pop("$defs", {}))
    made = _slim(whole, parts)
    made.pop("description", None)
    return {**made, "additionalProperties": False}


def _slim(schema: Schema, parts: Mapping[str, Schema]) -> Schema:
    reference = schema.get("$ref")
    if isinstance(reference, str):
        rest = {name: value for name, value in schema.items() if name != "$ref"}
        part = {k: v for k, v in parts[reference.rpartition("/")[2]].items() if k != "description"}
        return _slim({**part, **rest}, parts)
    kinds = [kind for kind in schema.get("anyOf", []) if kind != {"type": "null"}]
    if len(kinds) == 1:
        rest = {name: value for name, value in schema.items() if name != "anyOf"}
        return _slim({**kinds[0], **rest}, parts)
    return {name: _value(name, value, parts) for name, value in schema.items() if _is_told(name, value)}


def _is_told(name: str, value: Any) -> bool:
    if name == "default":
        return bool(value)
    if name == "maximum":
        return value <= _TOLD_MAXIMUM
    return name not in _UNSAID and not (name == "additionalProperties" and isinstance(value, bool))


def _value(name: str, value: Any, parts: Mapping[str, Schema]) -> Any:
    if name == "properties":
        return {key: _slim(item, parts) for key, item in cast(Mapping[str, Schema], value).items()}
    if name in ("items", "additionalProperties") and isinstance(value, dict):
        return _slim(cast(Schema, value), parts)
    if name == "anyOf":
        return [_slim(kind, parts) for kind in cast(list[Schema], value)]
    return value
