"""What a model is told of a tool's arguments: their JSON schema, without what costs tokens and says little.

Every call of a model pays for the schemas of all tools. What is left out here (bounds, defaults,
unknown fields) is checked when a call comes, and an error then says what is allowed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from pydantic import BaseModel

Schema = dict[str, Any]

_SAID = ("type", "description", "enum", "items", "properties", "required", "anyOf")


def parameters_of(arguments: type[BaseModel]) -> Schema:
    """Return the schema of some arguments with its definitions in place and only what a caller needs."""
    whole = arguments.model_json_schema()
    parts = cast(Mapping[str, Schema], whole.pop("$defs", {}))
    made = _slim(whole, parts)
    made.pop("description", None)
    return {"type": "object", "properties": {}, **made}


def _slim(schema: Schema, parts: Mapping[str, Schema]) -> Schema:
    reference = schema.get("$ref")
    if isinstance(reference, str):
        rest = {name: value for name, value in schema.items() if name != "$ref"}
        part = {k: v for k, v in parts[reference.rpartition("/")[2]].items() if k != "description"}
        return _slim({**part, **rest}, parts)
    kinds = [kind for kind in schema.get("anyOf", []) if kind != {"type": "null"}]
    if kinds and all(kind.get("type") in ("integer", "number") for kind in kinds):
        kinds = [{"type": "number"}]
    if len(kinds) == 1:
        rest = {name: value for name, value in schema.items() if name != "anyOf"}
        return _slim({**kinds[0], **rest}, parts)
    return {name: _value(name, schema[name], parts) for name in _SAID if name in schema}


def _value(name: str, value: Any, parts: Mapping[str, Schema]) -> Any:
    if name == "properties":
        return {key: _slim(item, parts) for key, item in cast(Mapping[str, Schema], value).items()}
    if name == "items":
        return _slim(cast(Schema, value), parts)
    if name == "anyOf":
        return [_slim(kind, parts) for kind in cast(list[Schema], value)]
    return value
