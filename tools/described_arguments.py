"""Checks arguments against the JSON Schema of a document, in bounded time and without the network.

A schema may come from a stranger's server: what it costs is bounded by a clock that every keyword reads,
regular expressions have a time limit, and a `$ref` finds only what stands in the schema itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from itertools import islice
from typing import Any, cast

import regex
from jsonschema import Draft202012Validator, ValidationError, validators
from referencing import Registry
from referencing.exceptions import Unresolvable

MAX_CHECK_S = 0.03
"""Seconds a check may take; what is not found wrong by then is let through."""
MAX_SHOWN = 5
MAX_UNIQUE = 200
"""Elements of a list that are compared with one another."""

_NO_SCHEMA = (TypeError, ValueError, AttributeError, LookupError, ArithmeticError)
"""What the library raises where a keyword has a value that it cannot have."""

_ENDS: ContextVar[float] = ContextVar("schema_check_ends")


class _OutOfTime(Exception):
    pass


def wrong_arguments(schema: Mapping[str, Any], values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return where and what is wrong, at most MAX_SHOWN; a schema that cannot be applied finds nothing."""
    nothing_else: Registry[Any] = Registry()
    validator = _BOUNDED(_plain(schema), registry=nothing_else)
    token = _ENDS.set(time.monotonic() + MAX_CHECK_S)
    try:
        found: list[ValidationError] = list(islice(validator.iter_errors(values), MAX_SHOWN))
    except (_OutOfTime, TimeoutError, RecursionError, Unresolvable, regex.error, *_NO_SCHEMA):
        return []
    finally:
        _ENDS.reset(token)
    return [
        (".".join(map(str, cast(Any, e).absolute_path))[:200], str(cast(Any, e).message)[:300]) for e in found
    ]


def _plain(part: Any) -> Any:
    """Return a schema without what cannot be bounded.

    `$schema` in a part would choose another validator for it; names of properties are not matched with
    regular expressions, nor are other properties refused where a schema does so.
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
        if time.monotonic() > _ENDS.get():
            raise _OutOfTime
        yield from keyword(validator, value, instance, schema) or ()

    return check


def _pattern(_validator: Any, pattern: str, instance: Any, _schema: Any) -> Iterator[ValidationError]:
    left = max(0.001, _ENDS.get() - time.monotonic())
    if isinstance(instance, str) and not regex.search(pattern, instance, timeout=left):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


def _unique(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if isinstance(instance, list) and len(cast(list[Any], instance)) <= MAX_UNIQUE:
        yield from _KEYWORDS["uniqueItems"](validator, wanted, instance, schema) or ()


_KEYWORDS: Mapping[str, _Keyword] = cast(Any, Draft202012Validator).VALIDATORS
_BOUNDED: Any = cast(Any, validators).extend(
    Draft202012Validator,
    {
        name: _timed(keyword)
        for name, keyword in {**_KEYWORDS, "pattern": _pattern, "uniqueItems": _unique}.items()
    },
)
