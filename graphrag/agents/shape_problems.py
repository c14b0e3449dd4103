"""Problems of the shape of a document: differences from its schema, and what is allowed.

Templates that cannot be parsed are reported by their parsers, as pydantic errors. From outside:
`shape_problems`, `without_parts`, `allowed_by`, `near`.
"""

from __future__ import annotations

import copy
import difflib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, cast

from jsonschema import Draft202012Validator, ValidationError
from pydantic import ValidationError as TextErrors

from graphrag.agents.document import agent_schema
from tools.http.problems import BadText, DocumentProblem

Place = tuple[str | int, ...]

MAX_PROBLEMS: Final = 50
_OF_FIELDS: Final = {
    "version": "unsupported_version",
    "openai.voice": "unknown_voice",
    "openai.input_audio_format": "unsupported_audio_format",
    "openai.output_audio_format": "unsupported_audio_format",
}
"""Codes of fields that replace `out_of_range`."""
_NAME_PATTERN: Final = "^[A-Za-z"
_STUBS: Final[Mapping[str, Any]] = {
    "version": "2.0",
    "agent": {"id": "unnamed", "name": "unnamed"},
    "session": {"mode": "inline", "instructions": "-"},
}
_OF_TEXTS: Final = frozenset(
    ("bad_template", "unknown_filter", "bad_expression", "bad_jsonpath", "host_not_literal")
)
"""Codes of templates that cannot be parsed."""


def shape_problems(exc: TextErrors, document: Mapping[str, Any]) -> dict[Place, DocumentProblem]:
    """Returns the problems by place."""
    found: dict[Place, DocumentProblem] = {}
    for error in exc.errors(include_url=False)[: 3 * MAX_PROBLEMS]:
        bad = error.get("ctx", {}).get("error")
        if isinstance(bad, BadText):
            place = _place(error["loc"], document)
            found[place] = bad.at(_named(place))
    for place, problem in islice(_faults(document, agent_schema(), ()), 3 * MAX_PROBLEMS):
        if place not in found or found[place].code == "wrong_type":
            found[place] = problem
    return found


def without_parts(
    document: Mapping[str, Any], wrong: Mapping[Place, DocumentProblem]
) -> dict[str, Any]:
    """Returns a document without the tools, lifecycle requests and other fields of a wrong shape.

    The rest can be checked for more problems. Stubs replace required fields and templates that
    cannot be parsed.
    """
    left = copy.deepcopy(dict(document))
    for place, problem in wrong.items():
        name = cast(str, place[0])
        parent = _at(left, place[:-1])
        if problem.code in _OF_TEXTS:
            if parent is not None:
                parent[place[-1]] = "https://a" if place[-1] == "url" else "$"
        elif name in ("tools", "lifecycle") and len(place) > 1:
            left[name].pop(place[1], None)
        elif name in _STUBS:
            left[name] = _STUBS[name]
        else:
            left.pop(name, None)
    return left


def near(name: str, names: Iterable[str], *, cutoff: float = 0.6) -> str:
    """Returns a suggestion of a similar name, or "". `cutoff`: similarity, 0 to 1."""
    found = difflib.get_close_matches(name[:100], list(names), n=1, cutoff=cutoff)
    return f"; did you mean {found[0]}?" if found else ""


def _place(loc: Sequence[str | int], document: Any) -> Place:
    """Returns the place of an error in the document; pydantic also names branches of unions."""
    place: Place = ()
    for part in loc:
        if _at(document, (*place, part)) is not None:
            place = (*place, part)
    return place


def _named(place: Place) -> str:
    return ".".join(map(str, place))


def _faults(
    value: Any, shape: Mapping[str, Any], place: Place
) -> Iterator[tuple[Place, DocumentProblem]]:
    """Yields the differences of a value from a schema; in a union, from the chosen branch."""
    checked = Draft202012Validator({**shape, "$defs": agent_schema()["$defs"]})
    errors: Iterator[ValidationError] = checked.iter_errors(value)
    for error in errors:
        at = (*place, *error.absolute_path)
        branch = (
            _branch(error.schema, error.instance) if error.validator in ("anyOf", "oneOf") else {}
        )
        if "items" in branch or "properties" in branch:
            yield from _faults(error.instance, branch, at)
        else:
            yield from _said(error, at)


def _said(error: ValidationError, place: Place) -> Iterator[tuple[Place, DocumentProblem]]:
    """Yields the problems of one rule of the schema, with their places."""
    shape = cast(Mapping[str, Any], error.schema)
    value = cast(Any, error.instance)
    known: Mapping[str, Any] = shape.get("properties", {})
    pattern = next(iter(shape.get("patternProperties", ())), None)
    found: list[tuple[str | None, str, str, str]]
    match error.validator:
        case "required":
            missing = {name: known[name] for name in shape["required"] if name not in value}
            said = {
                name: f"{name} is missing: {of.get('description', '')}"
                for name, of in missing.items()
            }
            found = [
                (n, "missing_field", said[n].rstrip(": "), allowed_by(of))
                for n, of in missing.items()
            ]
        case "additionalProperties" if pattern is not None:
            others = [name for name in value if re.search(pattern, name) is None]
            found = [(n, "bad_name", f"{n[:80]} is no name", f"names as {pattern}") for n in others]
        case "additionalProperties":
            said = {name: f"{name[:80]} is no field here{near(name, known)}" for name in value}
            found = [
                (n, "unknown_field", said[n], ", ".join(known)) for n in value if n not in known
            ]
        case _:
            what = f"{_shown(value)} cannot stand here"
            found = [(None, _code(error, place), what, allowed_by(shape))]
    for name, code, what, allowed in found:
        at = place if name is None else (*place, name)
        yield at, DocumentProblem(where=_named(at), code=code, what=what, allowed=allowed or None)


def _code(error: ValidationError, place: Place) -> str:
    name = place[-1] if place else ""
    match error.validator:
        case "anyOf" | "oneOf":
            codes = [_code(each, place) for each in error.context or ()]
            return next((code for code in codes if code != "wrong_type"), "wrong_type")
        case "enum" | "const":
            is_text = isinstance(error.instance, str)
            return _OF_FIELDS.get(_named(place), "out_of_range") if is_text else "wrong_type"
        case "pattern" if (
            str(error.validator_value).startswith(_NAME_PATTERN) and name != "language"
        ):
            return "bad_name"
        case "type":
            return "wrong_type"
        case _:
            return "out_of_range"


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else f"{text[:59]}…"


def _at(document: Any, place: Place) -> Any:
    """Returns the value at a place, None if there is none."""
    for part in place:
        if isinstance(document, dict):
            document = cast(dict[Any, Any], document).get(part)
        elif (
            isinstance(document, list)
            and isinstance(part, int)
            and part < len(cast(list[Any], document))
        ):
            document = cast(list[Any], document)[part]
        else:
            return None
    return document


def _branch(shape: Mapping[str, Any], value: Any) -> dict[str, Any]:
    """Returns the branch of a union for a value, or what distinguishes its branches, or the
    shape.
    """
    branches = [_resolved(branch) for branch in (*shape.get("oneOf", ()), *shape.get("anyOf", ()))]
    if isinstance(value, list):
        return next((branch for branch in branches if "items" in branch), dict(shape))
    objects = [branch["properties"] for branch in branches if "properties" in branch]
    if not isinstance(value, dict) or not objects:
        return dict(shape)
    tag = next((name for name, of in objects[0].items() if "const" in of), None)
    if tag is None:
        return next(branch for branch in branches if "properties" in branch)
    kinds = {of[tag]["const"]: branch for of, branch in zip(objects, branches, strict=True)}
    given = cast(dict[str, Any], value).get(tag)
    if isinstance(given, str) and given in kinds:
        return kinds[given]
    return {"type": "object", "required": [tag], "properties": {tag: {"enum": list(kinds)}}}


def _resolved(shape: Mapping[str, Any]) -> dict[str, Any]:
    reference = str(shape.get("$ref", ""))
    found: dict[str, Any] = (
        agent_schema()["$defs"][reference.rpartition("/")[2]] if reference else {}
    )
    return {**found, **shape}


def allowed_by(shape: Mapping[str, Any]) -> str:
    """Returns in words what a schema allows."""
    branches = [*shape.get("oneOf", ()), *shape.get("anyOf", ())]
    if branches:
        example = {"examples": shape["examples"]} if "examples" in shape else {}
        return " or ".join(dict.fromkeys(allowed_by({**example, **branch}) for branch in branches))
    shape = _resolved(shape)
    if "const" in shape or "enum" in shape:
        return ", ".join(json.dumps(word) for word in shape.get("enum", [shape.get("const")]))
    match shape.get("type"):
        case "string" if "pattern" in shape:
            example = json.dumps(shape["examples"][0]) + ": " if "examples" in shape else ""
            return f"a text as {example}{shape['pattern']}"
        case "string":
            return "a text" + _bounds(shape, "minLength", "maxLength", unit=" characters")
        case "integer":
            return "a whole number" + _bounds(shape, "minimum", "maximum")
        case "number":
            return "a number" + _bounds(shape, "minimum", "maximum")
        case "boolean":
            return "true or false"
        case "array":
            return "a list" + _bounds(shape, "minItems", "maxItems", unit=" elements")
        case "object":
            needed = f" with {', '.join(shape['required'])}" if "required" in shape else ""
            return (
                "an object"
                + needed
                + _bounds(shape, "minProperties", "maxProperties", unit=" members")
            )
        case "null":
            return "null"
        case _:
            return ""


def _bounds(shape: Mapping[str, Any], least: str, most: str, *, unit: str = "") -> str:
    """Returns the bounds of a number, or of a count with a unit."""
    low = shape.get(least)
    high = shape.get(most)
    if low is None or high is None:
        bound = "" if high is None else f" of at most {high:g}{unit}"
        return bound if low is None else f" of at least {low:g}{unit}"
    return f" {'of' if unit else 'from'} {low:g} to {high:g}{unit}"
