"""Checks the declarations of tools: the JSON Schema of their arguments, and that somebody handles them.

From outside: `parameters_problem`, `checked_declarations`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, cast

import regex
from pydantic import ValidationError

from graphrag.agents.session_fields import ToolDeclaration
from tools.http.problems import BadText

MAX_DECLARATIONS: Final = 60
MAX_BYTES: Final = 16_000
MAX_LEVELS: Final = 8
MAX_PATTERN: Final = 500
"""Characters of a regular expression as written, and of the atoms that its counted repeats make of it."""
_PATTERN_PART: Final = re.compile(
    r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\{(?P<least>\d*)(?:,(?P<most>\d*))?\}|.", re.DOTALL
)
_COUNTS: Final = "minLength maxLength minItems maxItems minProperties maxProperties minContains maxContains"
_KEYWORDS: Final[Mapping[str, tuple[type, ...]]] = {
    keyword: kinds
    for kinds, keywords in (
        ((dict, bool), "items additionalProperties propertyNames contains not if then else"),
        ((dict, bool), "unevaluatedItems unevaluatedProperties"),
        ((list,), "allOf anyOf oneOf prefixItems enum examples required"),
        ((dict,), "properties patternProperties $defs definitions dependentSchemas dependentRequired"),
        ((str,), "title description format pattern $ref $id $anchor $schema $comment"),
        ((int,), _COUNTS),
        ((int, float), "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf"),
        ((bool,), "uniqueItems deprecated readOnly writeOnly"),
    )
    for keyword in keywords.split()
}
"""Keywords of JSON Schema with what stands there. Others are let through, as JSON Schema wants it."""
_TYPES: Final = frozenset(("object", "array", "string", "number", "integer", "boolean", "null"))
_INNER: Final = frozenset(
    ("items", "additionalProperties", "propertyNames", "contains", "not", "if", "then", "else")
)
_INNER_LISTS: Final = frozenset(("allOf", "anyOf", "oneOf", "prefixItems"))
_INNER_MEMBERS: Final = frozenset(
    ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
)
_LEAST: Final[Mapping[str, float]] = {"multipleOf": 1e-300, **dict.fromkeys(_COUNTS.split(), 0)}


def parameters_problem(parameters: Mapping[str, Any]) -> BadText | None:
    """Return what is wrong with the JSON Schema of a tool's arguments, None where nothing is.

    The metaschema itself would take 15 ms for one tool.
    """
    try:
        if len(json.dumps(parameters, ensure_ascii=False).encode()) > MAX_BYTES:
            return BadText("too_large", "the schema is too large", allowed=f"{MAX_BYTES // 1000} kB")
        if parameters.get("type") != "object":
            return BadText("bad_schema", "the arguments are no object", allowed='"type": "object"')
        _check(parameters, "", 1, parameters)
    except BadText as bad:
        return bad
    return None


def _check(schema: Mapping[str, Any], path: str, level: int, root: Mapping[str, Any]) -> None:
    """Raises BadText for the first mistake of a schema and of those in it."""
    at = f" at {path}" if path else ""
    if level > MAX_LEVELS:
        raise BadText("too_deep", f"the schema is too deep{at}", allowed=f"{MAX_LEVELS} levels")
    for keyword, value in schema.items():
        kinds = _KEYWORDS.get(keyword)
        if kinds is not None and type(value) not in kinds:  # true is no number
            allowed = " or ".join(_WORDS[kind] for kind in kinds)
            raise BadText("bad_schema", f"{keyword}{at} is of a wrong type", allowed=allowed)
    _check_values(schema, at, root)
    for name, inner in _inner(schema):
        where = f"{path}.{name}" if path else name
        if isinstance(inner, dict):
            _check(cast(dict[str, Any], inner), where, level + 1, root)
        elif not isinstance(inner, bool):
            raise BadText("bad_schema", f"{where} is no schema", allowed="an object, true or false")


_WORDS: Final = {dict: "an object", list: "a list", str: "a text", bool: "true or false"} | {
    int: "a whole number",
    float: "a number",
}


def _check_values(schema: Mapping[str, Any], at: str, root: Mapping[str, Any]) -> None:
    kinds = schema.get("type", "object")
    if not (isinstance(kinds, str) and kinds in _TYPES) and not set(_names(kinds) or [""]) <= _TYPES:
        raise BadText("bad_schema", f"type{at} is none", allowed=", ".join(sorted(_TYPES)))
    for needed in (schema.get("required", []), *schema.get("dependentRequired", {}).values()):
        if needed != [] and not _names(needed):
            what = f"required{at} holds what is no name, or one twice"
            raise BadText("bad_schema", what, allowed="a list of names of properties")
    for keyword in schema.keys() & _LEAST.keys():
        if schema[keyword] < _LEAST[keyword]:
            raise BadText("bad_schema", f"{keyword}{at} is too small", allowed="a positive number")
    if any(schema[keyword] == [] for keyword in schema.keys() & _INNER_LISTS):
        raise BadText("bad_schema", f"an empty list of schemas{at}", allowed="one schema or more")
    if "$ref" in schema and not _is_inside(schema["$ref"], root):
        raise BadText("bad_schema", f"$ref{at} leads nowhere in this schema", allowed="#/$defs/NAME")
    for pattern in (schema.get("pattern"), *schema.get("patternProperties", ())):
        if pattern is not None:
            _check_pattern(pattern, at)


def _names(values: Any) -> list[str]:
    """Return texts that are all different; nothing where they are not."""
    listed = cast(list[Any], values) if isinstance(values, list) else []
    names = [value for value in listed if isinstance(value, str)]
    return names if len(set(names)) == len(listed) else []


def _check_pattern(pattern: str, at: str) -> None:
    allowed = f"a regular expression of {MAX_PATTERN} characters, its repeats written out"
    if len(pattern) > MAX_PATTERN or _written_out(pattern) > MAX_PATTERN:
        raise BadText("too_large", f"a pattern{at} is too large", allowed=allowed)
    try:
        regex.compile(pattern)
    except (regex.error, RecursionError, OverflowError) as exc:
        what = f"a pattern{at} is no regular expression: {str(exc)[:100]}"
        raise BadText("bad_schema", what, allowed=allowed) from None


def _written_out(pattern: str) -> int:
    """Return about how many atoms a pattern has when its counted repeats are written out.

    Compiling `(?:(?:a{9999}){9999}){9999}` would take all the memory there is.
    """
    groups, last = [0], 0
    for part in _PATTERN_PART.finditer(pattern):
        if part["least"] is not None and part[0] != "{}":
            times = max(1, *(int(bound) for bound in (part["least"], part["most"]) if bound))
            groups[-1] += last * (times - 1)
            last *= times
        elif part[0] == "(":
            groups.append(0)
        elif part[0] == ")" and len(groups) > 1:
            last = groups.pop()
            groups[-1] += last
        else:
            groups[-1] += 1
            last = 1
    return sum(groups)


def _inner(schema: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the schemas that stand in a schema, each with its path."""
    for keyword, value in schema.items():
        if keyword in _INNER:
            yield keyword, value
        elif keyword in _INNER_LISTS:
            yield from ((f"{keyword}.{i}", inner) for i, inner in enumerate(value))
        elif keyword in _INNER_MEMBERS:
            yield from ((f"{keyword}.{member}", inner) for member, inner in value.items())


def _is_inside(reference: str, root: Any) -> bool:
    """Return whether a `$ref` finds something in its own schema."""
    here = root
    for part in reference.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        here = cast(dict[str, Any], here).get(name) if isinstance(here, dict) else None
    return reference.partition("/")[0] == "#" and isinstance(here, dict | bool)


def checked_declarations(
    tools: Any, handlers: Collection[str]
) -> tuple[list[ToolDeclaration], list[tuple[str, str]]]:
    """Return the declarations of a fetched session that can be offered, and name and reason of the others."""
    kept: dict[str, ToolDeclaration] = {}
    dropped: list[tuple[str, str]] = []
    listed = cast(list[Any], tools) if isinstance(tools, list) else []
    for item in listed[: 2 * MAX_DECLARATIONS]:
        name = str(cast(Any, item).get("name", "") if isinstance(item, dict) else item)[:64]
        try:
            declaration = ToolDeclaration.model_validate(item)
        except ValidationError as exc:
            error = exc.errors(include_url=False)[0]
            dropped.append((name, f"{'.'.join(map(str, error['loc']))[:80]}: {error['msg'][:200]}"))
            continue
        problem = parameters_problem(declaration.parameters)
        if problem is not None:
            dropped.append((name, problem.what))
        elif name not in handlers:
            dropped.append((name, "no handler of this name"))
        elif name in kept or len(kept) == MAX_DECLARATIONS:
            dropped.append((name, "declared twice" if name in kept else "too many tools"))
        else:
            kept[name] = declaration
    return list(kept.values()), dropped
