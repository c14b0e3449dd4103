"""Checks the declarations of tools: the JSON Schema of their arguments, and that each has a
handler.

From outside: `parameters_problem`, `checked_declarations`, `referred`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, cast, final

import regex
from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    with_config,
)
from typing_extensions import TypedDict

from graphrag.agents.session_fields import ToolDeclaration
from tools.http.problems import BadText

MAX_DECLARATIONS: Final = 60
MAX_BYTES: Final = 16_000
MAX_LEVELS: Final = 8
MAX_PATTERN: Final = 500
"""Maximum characters of a regular expression, and of its atoms with counted repeats expanded."""
_DATA: Final = frozenset(("enum", "const", "default", "examples"))
"""Keywords whose values are data, not schemas."""
_PATTERN_PART: Final = re.compile(
    r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\{(?P<least>\d*)(?:,(?P<most>\d*))?\}|.", re.DOTALL
)


@final
@dataclass(slots=True)
class _Whole:
    """The complete schema, and the depth at which a part of it is read."""

    schema: Mapping[str, Any]
    level: int = 1


def _inner(value: Any, read: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
    """Reads a schema inside another one. Raises: BadText (too_deep)."""
    whole = cast(_Whole, info.context)
    whole.level += 1
    if whole.level > MAX_LEVELS:
        raise BadText("too_deep", "the schema is too deep", allowed=f"{MAX_LEVELS} levels")
    found = value if isinstance(value, bool) else read(value)
    whole.level -= 1
    return found


def _reference(value: str, info: ValidationInfo) -> str:
    """Returns a `$ref` with a target in its own schema. Raises: BadText."""
    here = referred(value, cast(_Whole, info.context).schema)
    if value.partition("/")[0] != "#" or not isinstance(here, dict | bool):
        raise BadText("bad_schema", "$ref leads nowhere in this schema", allowed="#/$defs/NAME")
    return value


def referred(reference: str, whole: Mapping[str, Any]) -> Any:
    """Returns the target of a reference within a schema, None if it has none."""
    here: Any = whole
    for part in reference.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        here = cast(dict[str, Any], here).get(name) if isinstance(here, dict) else None
    return here


def _pattern(pattern: str) -> str:
    """Returns a regular expression that compiles. Raises: BadText."""
    allowed = f"a regular expression of {MAX_PATTERN} characters, its repeats written out"
    if len(pattern) > MAX_PATTERN or _written_out(pattern) > MAX_PATTERN:
        raise BadText("too_large", "a pattern is too large", allowed=allowed)
    try:
        regex.compile(pattern)
    except (regex.error, RecursionError, OverflowError) as exc:
        what = f"a pattern is no regular expression: {str(exc)[:100]}"
        raise BadText("bad_schema", what, allowed=allowed) from None
    return pattern


def _different(names: list[str]) -> list[str]:
    if len(set(names)) < len(names):
        raise BadText("bad_schema", "a name stands twice", allowed="a list of names of properties")
    return names


_Kind = Literal["object", "array", "string", "number", "integer", "boolean", "null"]
_Inner = Annotated["_Schema", WrapValidator(_inner)]
_Names = Annotated[list[str], AfterValidator(_different)]
_Pattern = Annotated[str, AfterValidator(_pattern)]
_KEYWORDS: Final[tuple[tuple[Any, str], ...]] = (
    (_Kind | Annotated[list[_Kind], Field(min_length=1), AfterValidator(_different)], "type"),
    (_Inner, "items additionalProperties propertyNames contains not if then else"),
    (_Inner, "unevaluatedItems unevaluatedProperties"),
    (Annotated[list[_Inner], Field(min_length=1)], "allOf anyOf oneOf prefixItems"),
    (dict[str, _Inner], "properties $defs definitions dependentSchemas"),
    (dict[_Pattern, _Inner], "patternProperties"),
    (_Pattern, "pattern"),
    (_Names, "required"),
    (dict[str, _Names], "dependentRequired"),
    (list[Any], "enum examples"),
    (Annotated[str, AfterValidator(_reference)], "$ref"),
    (str, "title description format $id $anchor $schema $comment"),
    (
        Annotated[int, Field(ge=0)],
        "minLength maxLength minItems maxItems minProperties maxProperties",
    ),
    (Annotated[int, Field(ge=0)], "minContains maxContains"),
    (float, "minimum maximum exclusiveMinimum exclusiveMaximum"),
    (Annotated[float, Field(gt=0)], "multipleOf"),
    (bool, "uniqueItems deprecated readOnly writeOnly"),
)
"""The checks of the keywords of JSON Schema. Unknown keywords are allowed."""
_Schema = with_config(ConfigDict(extra="allow", strict=True))(
    TypedDict(
        "_Schema",
        {word: kind for kind, words in _KEYWORDS for word in words.split()},  # pyright: ignore
        total=False,
    )
)
_SCHEMA: Final = TypeAdapter[Any](_Schema)


def parameters_problem(parameters: Mapping[str, Any]) -> BadText | None:
    """Returns the problem of the JSON Schema of a tool's arguments, None if it has none.

    Validation by the metaschema would take 15 ms a tool.
    """
    if len(json.dumps(parameters, ensure_ascii=False).encode()) > MAX_BYTES:
        return BadText("too_large", "the schema is too large", allowed=f"{MAX_BYTES // 1000} kB")
    if parameters.get("type") != "object":
        return BadText("bad_schema", "the arguments are no object", allowed='"type": "object"')
    try:
        _SCHEMA.validate_python(parameters, context=_Whole(parameters))
    except ValidationError as exc:
        first = exc.errors(include_url=False)[0]
        bad = first.get("ctx", {}).get("error")
        at = ".".join(map(str, first["loc"]))
        if isinstance(bad, BadText):
            return BadText(bad.code, f"{at}: {bad.what}", allowed=bad.allowed)
        allowed = first["msg"].removeprefix("Input should be ")
        return BadText("bad_schema", f"{at} is no part of a JSON Schema", allowed=allowed)
    cyclic = _cyclic_reference(parameters, parameters, (), set())
    if cyclic is not None:
        what = f"$ref {cyclic[:80]} leads back to itself"
        return BadText("bad_schema", what, allowed="references that end")
    return None


def _cyclic_reference(
    part: Any, whole: Mapping[str, Any], following: tuple[str, ...], done: set[str]
) -> str | None:
    """Returns a reference of a schema that leads back to itself, None if there is none.

    Such a schema cannot be sent to a model completely, and reading it may not end. `done`:
    references that are known to end.
    """
    if isinstance(part, list):
        members = cast(list[Any], part)
    elif isinstance(part, dict):
        named = cast(dict[str, Any], part)
        reference = named.get("$ref")
        if isinstance(reference, str) and reference not in done:
            if reference in following:
                return reference
            target = referred(reference, whole)
            cyclic = _cyclic_reference(target, whole, (*following, reference), done)
            if cyclic is not None:
                return cyclic
            done.add(reference)
        members = [value for name, value in named.items() if name not in _DATA]
    else:
        return None
    found = (_cyclic_reference(member, whole, following, done) for member in members)
    return next((each for each in found if each is not None), None)


def _written_out(pattern: str) -> int:
    """Returns about how many atoms a pattern has with counted repeats expanded.

    Compiling `(?:(?:a{9999}){9999}){9999}` would exhaust the memory.
    """
    groups = [0]
    last = 0
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


def checked_declarations(
    tools: Any, handlers: Collection[str]
) -> tuple[list[ToolDeclaration], list[tuple[str, str]]]:
    """Returns the valid declarations of a fetched session, and the reasons against the others by
    name.
    """
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
