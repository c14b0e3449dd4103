"""The errors of pydantic about an agent document, in words: where, what, and what is allowed.

What is allowed is read from the document's JSON Schema. From outside: `shape_problems`,
`without_parts`, `allowed_by`, `near`.
"""

from __future__ import annotations

import copy
import difflib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast

from pydantic import ValidationError
from pydantic_core import ErrorDetails

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
_KEY: Final = "[key]"  # pydantic names the keys of an object so
_STUBS: Final[Mapping[str, Any]] = {
    "version": "2.0",
    "agent": {"id": "unnamed", "name": "unnamed"},
    "session": {"mode": "inline", "instructions": "-"},
}
_OF_TEXTS: Final = frozenset(
    ("bad_template", "unknown_filter", "bad_expression", "bad_jsonpath", "host_not_literal")
)
"""Codes of templates that cannot be parsed."""


def shape_problems(
    exc: ValidationError, document: Mapping[str, Any]
) -> dict[Place, DocumentProblem]:
    """Returns the problems by place."""
    errors: dict[Place, list[ErrorDetails]] = {}
    for error in exc.errors(include_url=False)[: 3 * MAX_PROBLEMS]:
        errors.setdefault(_place(error, document), []).append(error)
    # Each branch of a union reports. The branch of the value's own type reports further inside.
    outer = {place[:depth] for place in errors for depth in range(len(place))}
    return {
        place: _problem(place, at_place, document)
        for place, at_place in errors.items()
        if place not in outer
    }


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


def _place(error: ErrorDetails, document: Mapping[str, Any]) -> Place:
    """Returns the place of an error in the document. Pydantic's location also names the branches
    of unions, and not the field that selects a branch.
    """
    place: Place = ()
    for part in error["loc"]:
        if _has(document, (*place, part)):
            place = (*place, part)
    match error["type"]:
        case "missing":
            return (*place, error["loc"][-1])
        case "union_tag_not_found" | "union_tag_invalid":
            return (*place, str(error.get("ctx", {})["discriminator"]).strip("'"))
        case _:
            return place


def _problem(
    place: Place, errors: Sequence[ErrorDetails], document: Mapping[str, Any]
) -> DocumentProblem:
    """Returns the problem of a place. Its errors are of one value, or of branches of a union."""
    texts = [bad for error in errors if (bad := _bad_text(error)) is not None]
    others = [error for error in errors if _bad_text(error) is None]
    if texts and (texts[0].code != "wrong_type" or not others):
        return texts[0].at(_named(place))
    codes = [_code(error, place, document) for error in others]
    code = next((code for code in codes if code != "wrong_type"), "wrong_type")
    what, allowed = _words(code, place, document, others[0])
    return DocumentProblem(where=_named(place), code=code, what=what, allowed=allowed or None)


def _bad_text(error: ErrorDetails) -> BadText | None:
    """Returns the error of the parser of a template, expression or JSONPath."""
    cause = error.get("ctx", {}).get("error")
    return cause if isinstance(cause, BadText) else None


def _code(error: ErrorDetails, place: Place, document: Mapping[str, Any]) -> str:
    kind = error["type"]
    if kind in ("missing", "union_tag_not_found"):
        return "missing_field"
    if kind == "extra_forbidden":
        return "unknown_field"
    if error["loc"][-1] == _KEY:
        return "bad_name"
    if kind in ("literal_error", "union_tag_invalid"):
        is_text = isinstance(_at(document, place), str)
        return _OF_FIELDS.get(_named(place), "out_of_range") if is_text else "wrong_type"
    if kind == "string_pattern_mismatch":
        pattern = str(error.get("ctx", {})["pattern"])
        is_name = pattern.startswith(_NAME_PATTERN) and place[-1] != "language"
        return "bad_name" if is_name else "out_of_range"
    return "wrong_type" if kind.endswith("_type") else "out_of_range"


def _words(
    code: str, place: Place, document: Mapping[str, Any], error: ErrorDetails
) -> tuple[str, str]:
    """Returns what is wrong at a place, and what is allowed there."""
    name = str(place[-1]) if place else ""
    shape = _shape_at(place, document)
    if code == "missing_field":
        about = shape.get("description", "")
        return f"{name} is missing: {about}".rstrip(": "), allowed_by(shape)
    if code == "unknown_field":
        known: Mapping[str, Any] = _object_at(place[:-1], document).get("properties", {})
        return f"{name[:80]} is no field here{near(name, known)}", ", ".join(known)
    if error["loc"][-1] == _KEY:
        names = _object_at(place[:-1], document).get("patternProperties", {})
        return f"{name[:80]} is no name", f"names as {next(iter(names), '')}"
    return f"{_shown(_at(document, place))} cannot stand here", allowed_by(shape)


def _object_at(place: Place, document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the schema of the object or list at a place, in a union that of its branch."""
    return _branch(_resolved(_shape_at(place, document)), _at(document, place))


def _shape_at(place: Place, document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the schema of a place."""
    if not place:
        return agent_schema()
    outside = _object_at(place[:-1], document)
    fields: Mapping[str, Any] = outside.get("properties", {})
    others = (*outside.get("patternProperties", {}).values(), outside.get("additionalProperties"))
    shape = (
        outside.get("items")
        if isinstance(place[-1], int)
        else fields.get(place[-1], next(iter(others)))
    )
    return cast(dict[str, Any], shape) if isinstance(shape, dict) else {}


def _named(place: Place) -> str:
    return ".".join(map(str, place))


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else f"{text[:59]}…"


def _at(document: Any, place: Place) -> Any:
    """Returns the value at a place, None if there is none."""
    value = document
    for part in place:
        if not _has(value, (part,)):
            return None
        value = value[part]
    return value


def _has(document: Any, place: Place) -> bool:
    """Returns whether a document has a value at a place; the value may be null."""
    value = document
    for part in place:
        if isinstance(value, dict):
            if part not in value:
                return False
        elif (
            not isinstance(value, list)
            or not isinstance(part, int)
            or part >= len(cast(list[Any], value))
        ):
            return False
        value = cast(Any, value)[part]
    return True


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
