"""The arguments of tools: their schema for the model, and parsing the JSON that a model wrote.

The schemas of all tools are sent with every model request, so they omit bounds, defaults and
`additionalProperties`. These are checked when a tool is called; the error says what is allowed.
Arguments must be JSON. Malformed JSON is repaired only if it is unambiguous: a string or number
that was cut off is rejected, because its rest is unknown.

The schema of a tool described by a document may come from an untrusted server. Validation with it
has a limit of computing time that every keyword checks, regular expressions have a timeout, and
a `$ref` resolves only inside the schema itself.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Any, Final, cast

import regex
from jsonschema import Draft202012Validator, ValidationError, validators
from pydantic import BaseModel
from referencing import Registry
from referencing.exceptions import Unresolvable

from tools import lenient_json


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentLimits:
    """Limits of the arguments of a tool call, the same on every channel."""

    chars: int = 200_000
    """Length of the JSON text."""
    depth: int = 60
    """Nesting of lists and objects."""
    check_s: float = 0.03
    """CPU time in seconds of one validation against a schema, independent of the load of the
    machine. Errors not found by then are not reported.
    """
    shown: int = 5
    """Number of problems reported."""
    unique: int = 200
    """Longest list whose elements are compared for `uniqueItems`."""


ARGUMENT_LIMITS: Final = ArgumentLimits()

_FENCE = re.compile(r"\A\s*```[a-zA-Z]*\s*\n?(.*?)\n?\s*```\s*\Z", re.DOTALL)


class MalformedArguments(ValueError):
    """Raised when arguments are not one JSON object. `near` is the text at the error."""

    def __init__(self, *, reason: str, near: str = "") -> None:
        self.reason = reason
        self.near = near
        super().__init__(reason + (f" near {near!r}" if near else ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """Parsed arguments. `repaired` is True if the text was malformed JSON that was repaired."""

    values: dict[str, Any]
    repaired: bool = False


def parse_arguments(raw: str | dict[str, Any]) -> Arguments:
    """Returns the arguments of a call. An empty text counts as an empty object.

    Raises: MalformedArguments.
    """
    parsed = Arguments(values=raw) if isinstance(raw, dict) else _parse(raw)
    if is_deeper(parsed.values, ARGUMENT_LIMITS.depth):
        raise MalformedArguments(
            reason=f"the arguments are nested more than {ARGUMENT_LIMITS.depth} levels deep"
        )
    try:
        json.dumps(parsed.values, ensure_ascii=False).encode()
    except UnicodeEncodeError as exc:
        raise MalformedArguments(reason="a string holds half of a surrogate pair") from exc
    except (TypeError, ValueError, RecursionError) as exc:
        raise MalformedArguments(reason="the arguments are no JSON object") from exc
    return parsed


def _parse(raw: str) -> Arguments:
    if len(raw) > ARGUMENT_LIMITS.chars:
        raise MalformedArguments(
            reason=f"the arguments are longer than {ARGUMENT_LIMITS.chars} characters"
        )
    if not raw.strip():
        return Arguments(values={})
    try:
        value = _load(raw)
        repaired = False
        if isinstance(value, str):  # some models send the object as a string
            value = _load(value)
            repaired = True
    except json.JSONDecodeError as exc:
        value = _repair(raw, exc)
        repaired = True
    except RecursionError as exc:
        raise MalformedArguments(
            reason=f"the arguments are nested more than {ARGUMENT_LIMITS.depth} levels deep"
        ) from exc
    if not isinstance(value, dict):
        raise MalformedArguments(reason="the arguments must be one JSON object", near=raw[:40])
    return Arguments(values=cast(dict[str, Any], value), repaired=repaired)


def _load(text: str) -> Any:
    return json.loads(text, object_pairs_hook=_object, parse_constant=_constant)


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise MalformedArguments(reason="a field is given twice", near=repeated[:40])
    return fields


def _constant(name: str) -> Any:
    raise MalformedArguments(reason="a number is not finite", near=name)


def _repair(raw: str, exc: json.JSONDecodeError) -> Any:
    fenced = _FENCE.match(raw)
    try:
        return lenient_json.read(fenced.group(1) if fenced else raw, _object)
    except MalformedArguments:
        raise
    except ValueError:
        raise MalformedArguments(
            reason=f"not valid JSON: {exc.msg} at character {exc.pos}",
            near=raw[max(0, exc.pos - 20) : exc.pos + 20],
        ) from exc


def read_object(text: str) -> dict[str, Any] | None:
    """Returns the JSON object in a text; None if it is anything else or nested too deeply."""
    try:
        value = json.loads(text, parse_constant=_constant)
    except (ValueError, RecursionError):
        return None
    is_object = isinstance(value, dict) and not is_deeper(value, ARGUMENT_LIMITS.depth)
    return cast(dict[str, Any], value) if is_object else None


def is_deeper(value: Any, levels: int) -> bool:
    """Returns whether lists and objects are nested more than `levels` deep."""
    level: list[Any] = [value]
    for _ in range(levels + 1):
        inner = [
            list(cast(Mapping[Any, Any], item).values())
            if isinstance(item, Mapping)
            else cast(list[Any], item)
            for item in level
            if isinstance(item, Mapping | list | tuple)
        ]
        if not inner:
            return False
        level = [item for items in inner for item in items]
    return True


Schema = dict[str, Any]

_KEPT_KEYWORDS = ("type", "description", "enum", "items", "properties", "required", "anyOf")


@cache
def parameters_of(arguments: type[BaseModel]) -> Schema:
    """Returns the JSON Schema of arguments, with references resolved and only the keywords
    that a caller needs.

    The result is cached and shared, do not change it. Building those of all tools takes 20 ms.
    """
    whole = arguments.model_json_schema()
    parts = cast(Mapping[str, Schema], whole.pop("$defs", {}))
    schema = _slim(whole, parts)
    schema.pop("description", None)
    return {"type": "object", "properties": {}, **schema}


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
    return {name: _value(name, schema[name], parts) for name in _KEPT_KEYWORDS if name in schema}


def _value(name: str, value: Any, parts: Mapping[str, Schema]) -> Any:
    if name == "properties":
        return {key: _slim(item, parts) for key, item in cast(Mapping[str, Schema], value).items()}
    if name == "items":
        return _slim(cast(Schema, value), parts)
    if name == "anyOf":
        return [_slim(kind, parts) for kind in cast(list[Schema], value)]
    return value


# Raised by the library if a keyword has an invalid value.
_NO_SCHEMA = (TypeError, ValueError, AttributeError, LookupError, ArithmeticError)

_ENDS: ContextVar[float] = ContextVar("schema_check_ends")


class _OutOfTime(Exception): ...


def wrong_arguments(schema: Mapping[str, Any], values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Returns at most `ARGUMENT_LIMITS.shown` errors as pairs of location and message.

    Returns [] if the schema itself is invalid or the time limit is reached.
    """
    no_other_schemas: Registry[Any] = Registry()
    validator = _BOUNDED(_plain(schema), registry=no_other_schemas)
    token = _ENDS.set(time.thread_time() + ARGUMENT_LIMITS.check_s)
    try:
        faults: list[ValidationError] = list(
            islice(validator.iter_errors(values), ARGUMENT_LIMITS.shown)
        )
    except (_OutOfTime, TimeoutError, RecursionError, Unresolvable, regex.error, *_NO_SCHEMA):
        return []
    finally:
        _ENDS.reset(token)
    return [
        (".".join(map(str, cast(Any, e).absolute_path))[:200], str(cast(Any, e).message)[:300])
        for e in faults
    ]


def _plain(part: Any) -> Any:
    """Returns a schema without the keywords whose validation time cannot be limited.

    Removes `$schema` from all parts, because it would select another validator. Removes
    `patternProperties` and, in schemas that have it, the keywords for additional properties.
    """
    if isinstance(part, Mapping):
        pairs = dict(cast(Mapping[str, Any], part))
        if isinstance(pairs.get("$schema"), str):
            del pairs["$schema"]
        if "patternProperties" in pairs:
            pairs = {name: value for name, value in pairs.items() if name not in _BY_PATTERN}
        return {name: _plain(value) for name, value in pairs.items()}
    if isinstance(part, list):
        return [_plain(inner) for inner in cast(list[Any], part)]
    return part


_BY_PATTERN = ("patternProperties", "additionalProperties", "unevaluatedProperties")
_Keyword = Callable[..., Iterator[Any] | None]


def _timed(keyword: _Keyword) -> _Keyword:
    def check(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
        if time.thread_time() > _ENDS.get():
            raise _OutOfTime
        yield from keyword(validator, value, instance, schema) or ()

    return check


def _pattern(
    _validator: Any, pattern: str, instance: Any, _schema: Any
) -> Iterator[ValidationError]:
    left = max(0.001, _ENDS.get() - time.thread_time())
    if isinstance(instance, str) and not regex.search(pattern, instance, timeout=left):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


def _unique(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if isinstance(instance, list) and len(cast(list[Any], instance)) <= ARGUMENT_LIMITS.unique:
        yield from _KEYWORDS["uniqueItems"](validator, wanted, instance, schema) or ()


_KEYWORDS: Mapping[str, _Keyword] = cast(Any, Draft202012Validator).VALIDATORS
_BOUNDED: Any = cast(Any, validators).extend(
    Draft202012Validator,
    {
        name: _timed(keyword)
        for name, keyword in {**_KEYWORDS, "pattern": _pattern, "uniqueItems": _unique}.items()
    },
)
