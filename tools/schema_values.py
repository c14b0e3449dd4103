"""Converts arguments to the types of their schema: values that a client sent as a string, and
nulls in place of missing properties.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from typing import Any, NoReturn, cast

from pydantic import BaseModel

from tools import lenient_json
from tools.arguments import ARGUMENT_LIMITS, is_deeper

Schema = Mapping[str, Any]
_KIND_OF: Mapping[type[Any], str] = {
    list: "array",
    dict: "object",
    bool: "boolean",
    float: "number",
    int: "integer",
}


@cache
def schema_of(arguments: type[BaseModel]) -> Schema:
    """Returns the complete JSON Schema of a class. The result is cached and shared."""
    return arguments.model_json_schema()


def read_by_schema(schema: Schema, values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns arguments converted to the types of their schema, if this is unambiguous.

    A string with an array, object, number or boolean is converted if the schema allows that type
    and no string. For an optional property, a `null` that the schema does not allow counts as
    missing, and so does an empty array if the schema requires items. All other values are left
    for validation.
    Source: MCP clients that send arrays, objects and numbers as JSON strings and null for missing
    values; small models that fill in every property.
    """
    whole = _RootSchema(schema)
    return cast(dict[str, Any], whole.read(schema, dict(values)))


class _RootSchema:
    """A schema with definitions (`$defs`) that its parts may refer to."""

    def __init__(self, schema: Schema) -> None:
        self._parts = cast(Mapping[str, Schema], schema.get("$defs") or {})

    def read(self, schema: Any, value: Any) -> Any:
        options = list(self._options(schema))
        kinds = {kind for option in options for kind in _kinds_of(option)}
        if isinstance(value, str) and kinds and "string" not in kinds:
            value = _held_value(value, kinds)
        if isinstance(value, dict):
            return self._object(options, cast(dict[str, Any], value))
        if isinstance(value, list):
            items = [
                option["items"] for option in options if isinstance(option.get("items"), Mapping)
            ]
            if len(items) == 1:
                return [self.read(items[0], item) for item in cast(list[Any], value)]
        return cast(object, value)

    def _object(self, options: list[Schema], value: dict[str, Any]) -> dict[str, Any]:
        """Returns an object converted by the one option that matches its constant properties.

        Returns it unchanged if no option matches, or several.
        """
        objects = [
            o for o in options if isinstance(o.get("properties"), Mapping) and _may_be(o, value)
        ]
        if len(objects) != 1:
            return value
        properties = cast(Mapping[str, Any], objects[0]["properties"])
        required = objects[0].get("required") or ()
        read: dict[str, Any] = {}
        for name, item in value.items():
            if name not in properties:
                read[name] = item
            elif name in required or not self._is_absence(properties[name], item):
                read[name] = self.read(properties[name], item)
        return read

    def _is_absence(self, schema: Any, value: Any) -> bool:
        """Returns whether a value of an optional property can only mean that it is missing."""
        if value is None:
            return not self._takes_null(schema)
        arrays = [option for option in self._options(schema) if "array" in _kinds_of(option)]
        return value == [] and bool(arrays) and all(array.get("minItems") for array in arrays)

    def _takes_null(self, schema: Any) -> bool:
        return any(
            "null" in _kinds_of(option) or not _kinds_of(option) for option in self._options(schema)
        )

    def _options(self, schema: Any, level: int = 0) -> Iterator[Schema]:
        """Yields the alternatives of a schema, with references and unions resolved."""
        if not isinstance(schema, Mapping) or level > ARGUMENT_LIMITS.depth:
            return
        part = cast(Schema, schema)
        reference = part.get("$ref")
        unions = [part.get(name) for name in ("anyOf", "oneOf")]
        if isinstance(reference, str):
            yield from self._options(self._parts.get(reference.rpartition("/")[2]), level + 1)
        elif any(isinstance(union, list) for union in unions):
            for union in unions:
                for option in cast(list[Any], union or []):
                    yield from self._options(option, level + 1)
        else:
            yield part


def _kinds_of(schema: Schema) -> set[str]:
    """Returns the types of a schema; if it has no `type`, those of its `enum` or `const`."""
    kind = schema.get("type")
    if isinstance(kind, str):
        return {kind}
    if isinstance(kind, list):
        return {str(name) for name in cast(list[Any], kind)}
    values = cast(list[Any], schema.get("enum") or ([schema["const"]] if "const" in schema else []))
    return {
        "string" if isinstance(value, str) else "null" if value is None else "other"
        for value in values
    }


def _may_be(schema: Schema, value: Mapping[str, Any]) -> bool:
    """Returns whether a value does not contradict the constants in an object's schema."""
    properties = cast(Mapping[str, Any], schema["properties"])
    constants = {
        name: cast(Schema, part)["const"]
        for name, part in properties.items()
        if isinstance(part, Mapping) and "const" in part
    }
    return all(value.get(name, constant) == constant for name, constant in constants.items())


def _held_value(text: str, kinds: set[str]) -> Any:
    """Returns the value of one of these types that a string contains, or else the string."""
    plain = text.strip()
    value: Any = None
    try:
        value = json.loads(plain, parse_constant=_refuse)
    except (ValueError, RecursionError):
        if plain[:1] in ("[", "{"):
            with suppress(ValueError, RecursionError):
                value = lenient_json.read(plain)
        elif plain in ("True", "False"):
            value = plain == "True"
    if isinstance(value, float) and value.is_integer() and "integer" in kinds:
        value = int(value)
    kind = _KIND_OF.get(type(cast(object, value)))
    is_wanted = kind in kinds or (kind == "integer" and "number" in kinds)
    return value if is_wanted and not is_deeper(value, ARGUMENT_LIMITS.depth) else text


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not valid JSON")
