"""The arguments of tools: the schema that a model gets, and reading what a model wrote.

Every call of a model pays for the schemas of all tools, so they leave out bounds, defaults and
unknown fields; these are checked when a call comes, and an error then says what is allowed.
Arguments are strict JSON, repaired only where nothing else can be meant: a string or a number that
was cut off could have gone on, so it is refused.

The schema of a tool that a document describes may come from a stranger's server: a check against it
is bounded by its computing time, which every keyword reads, regular expressions have a time limit,
and a `$ref` finds only what stands in the schema itself.
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
    """Limits of the arguments of a tool call, at every door."""

    chars: int = 200_000
    """Length of the JSON text."""
    depth: int = 60
    """Nesting of lists and objects."""
    check_s: float = 0.03
    """Seconds of computing that a check against a schema may take; what is not found wrong by then
    passes.
    """
    shown: int = 5
    """Number of problems reported."""
    unique: int = 200
    """Elements of a list that are compared with one another."""


ARGUMENT_LIMITS: Final = ArgumentLimits()

_FENCE = re.compile(r"\A\s*```[a-zA-Z]*\s*\n?(.*?)\n?\s*```\s*\Z", re.DOTALL)


class MalformedArguments(ValueError):
    """The arguments are not one JSON object; `reason` says why, `near` shows where."""

    def __init__(self, *, reason: str, near: str = "") -> None:
        self.reason = reason
        self.near = near
        super().__init__(reason + (f" near {near!r}" if near else ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """Arguments as an object. `repaired`: the text was not JSON and was put right."""

    values: dict[str, Any]
    repaired: bool = False


def parse_arguments(raw: str | dict[str, Any]) -> Arguments:
    """Return the arguments of a call; nothing at all counts as an empty object.

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
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise MalformedArguments(reason="a field is given twice", near=twice[:40])
    return found


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
    """Returns the object that a text is as JSON; None for anything else, and for one
    nested too deeply.
    """
    try:
        value = json.loads(text, parse_constant=_constant)
    except (ValueError, RecursionError):
        return None
    is_object = isinstance(value, dict) and not is_deeper(value, ARGUMENT_LIMITS.depth)
    return cast(dict[str, Any], value) if is_object else None


def is_deeper(value: Any, levels: int) -> bool:
    """Return whether lists and objects stand in one another more than so many levels deep."""
    level: list[Any] = [value]
    for _ in range(levels + 1):
        inner = [
            list(cast(Mapping[Any, Any], one).values())
            if isinstance(one, Mapping)
            else cast(list[Any], one)
            for one in level
            if isinstance(one, Mapping | list | tuple)
        ]
        if not inner:
            return False
        level = [item for items in inner for item in items]
    return True


Schema = dict[str, Any]

_SAID = ("type", "description", "enum", "items", "properties", "required", "anyOf")


@cache
def parameters_of(arguments: type[BaseModel]) -> Schema:
    """Return the schema of some arguments with its definitions in place and only
    what a caller needs.

    All callers share it: to make those of all tools takes 20 ms.
    """
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


_NO_SCHEMA = (TypeError, ValueError, AttributeError, LookupError, ArithmeticError)
"""What the library raises where a keyword has a value that it cannot have."""

_ENDS: ContextVar[float] = ContextVar("schema_check_ends")


class _OutOfTime(Exception): ...


def wrong_arguments(schema: Mapping[str, Any], values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return where and what is wrong, at most ARGUMENT_LIMITS.shown; a schema that cannot be
    applied finds nothing.
    """
    nothing_else: Registry[Any] = Registry()
    validator = _BOUNDED(_plain(schema), registry=nothing_else)
    token = _ENDS.set(time.thread_time() + ARGUMENT_LIMITS.check_s)
    try:
        found: list[ValidationError] = list(
            islice(validator.iter_errors(values), ARGUMENT_LIMITS.shown)
        )
    except (_OutOfTime, TimeoutError, RecursionError, Unresolvable, regex.error, *_NO_SCHEMA):
        return []
    finally:
        _ENDS.reset(token)
    return [
        (".".join(map(str, cast(Any, e).absolute_path))[:200], str(cast(Any, e).message)[:300])
        for e in found
    ]


def _plain(part: Any) -> Any:
    """Return a schema without what cannot be bounded.

    `$schema` in a part would choose another validator for it; names of properties are not matched
    with regular expressions, nor are other properties refused where a schema does so.
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
