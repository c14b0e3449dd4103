"""What is wrong with the shape of a document: pydantic's errors with where, what and what is allowed.

From outside: `shape_problems`, `without_parts`, `allowed_by`, `near`.
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
_CODES: Final = {
    "missing": "missing_field",
    "union_tag_not_found": "missing_field",
    "extra_forbidden": "unknown_field",
    "union_tag_invalid": "out_of_range",
    "literal_error": "out_of_range",
    "string_too_long": "out_of_range",
    "string_too_short": "out_of_range",
    "too_long": "out_of_range",
    "too_short": "out_of_range",
    "greater_than_equal": "out_of_range",
    "less_than_equal": "out_of_range",
    "string_pattern_mismatch": "out_of_range",
}
"""Codes of pydantic's errors; every other one is `wrong_type`."""
_OF_FIELDS: Final = {
    "version": "unsupported_version",
    "openai.voice": "unknown_voice",
    "openai.input_audio_format": "unsupported_audio_format",
    "openai.output_audio_format": "unsupported_audio_format",
}
"""Codes in place of `out_of_range`."""
_NAME_PATTERN: Final = "^[A-Za-z"
_STUBS: Final[Mapping[str, Any]] = {
    "version": "2.0",
    "agent": {"id": "unnamed", "name": "unnamed"},
    "session": {"mode": "inline", "instructions": "-"},
}
_OF_TEXTS: Final = frozenset(
    ("bad_template", "unknown_filter", "bad_expression", "bad_jsonpath", "host_not_literal")
)
"""Codes of texts that cannot be parsed."""


def shape_problems(exc: ValidationError, document: Mapping[str, Any]) -> dict[Place, DocumentProblem]:
    """Return what is wrong, by its place. Of a union's branches the one that came furthest is believed."""
    found: dict[Place, DocumentProblem] = {}
    for error in exc.errors(include_url=False)[: 3 * MAX_PROBLEMS]:
        place = _place(error, document)
        if place not in found or found[place].code == "wrong_type":
            found[place] = _problem(error, place, document)
    inside = {place[:size] for place in found for size in range(len(place))}
    return {
        place: problem
        for place, problem in found.items()
        if problem.code != "wrong_type" or place not in inside
    }


def without_parts(document: Mapping[str, Any], wrong: Mapping[Place, DocumentProblem]) -> dict[str, Any]:
    """Return a document without the tools, lifecycle requests and other fields that have a wrong shape.

    What is left can be looked at for more mistakes. Stubs stand for texts that cannot be parsed, and for what
    a document needs.
    """
    left = copy.deepcopy(dict(document))
    for place, problem in wrong.items():
        name, parent = cast(str, place[0]), _at(left, place[:-1])
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


def near(name: str, names: Iterable[str]) -> str:
    """Return a question after the name that may be meant, or nothing."""
    found = difflib.get_close_matches(name[:100], list(names), n=1, cutoff=0.6)
    return f"; did you mean {found[0]}?" if found else ""


def _place(error: ErrorDetails, document: Any) -> Place:
    """Return where an error is in the document: its `loc` without the names of a union's branches."""
    place: list[str | int] = []
    here = document
    loc = list(error["loc"])
    is_missing = error["type"] == "missing"
    while loc:
        part = loc.pop(0)
        if isinstance(here, dict) and part in cast(dict[Any, Any], here):
            here = cast(dict[Any, Any], here)[part]
        elif isinstance(here, list) and isinstance(part, int) and part < len(cast(list[Any], here)):
            here = cast(list[Any], here)[part]
        elif loc or not is_missing:
            continue
        place.append(part)
        if _tag(place) and loc and isinstance(here, dict) and loc[0] == here.get(_tag(place)):  # pyright: ignore
            del loc[0]
    if error["type"].startswith("union_tag"):
        place.append(_tag(place))
    return tuple(place)


def _tag(place: Sequence[str | int]) -> str:
    """Return the field that says which kind of object stands at a place, "" where there is one kind."""
    if list(place) == ["session"]:
        return "mode"
    return "type" if len(place) == 2 and place[0] == "tools" else ""


def _problem(error: ErrorDetails, place: Place, document: Any) -> DocumentProblem:
    where, name = ".".join(map(str, place)), str(place[-1])[:80] if place else ""
    bad = error.get("ctx", {}).get("error")
    if isinstance(bad, BadText):
        return bad.at(where)
    code = _CODES.get(error["type"], "wrong_type")
    shape = _shape(place, document)
    allowed, what = allowed_by(shape), f"{_shown(error['input'])} cannot stand here"
    if error["type"].startswith("union_tag"):
        kinds = [
            _resolved(kind)["properties"][name]["const"] for kind in _shape(place[:-1], document)["oneOf"]
        ]
        allowed = ", ".join(map(json.dumps, kinds))
    if code == "missing_field":
        what = f"{name} is missing: {shape.get('description', '')}".rstrip(": ")
    elif code == "unknown_field":
        names = list(_branch(_shape(place[:-1], document), _at(document, place[:-1])).get("properties", ()))
        what, allowed = f"{name} is no field here{near(name, names)}", ", ".join(names)
    elif error["type"] == "string_pattern_mismatch" and "[key]" in error["loc"]:
        code, what, allowed = "bad_name", f"{name} is no name", f"names as {error['ctx']['pattern']}"  # pyright: ignore
    elif (
        error["type"] == "string_pattern_mismatch"
        and _NAME_PATTERN in str(error.get("ctx"))
        and name != "language"
    ):
        code = "bad_name"
    elif error["type"] in ("literal_error", "union_tag_invalid"):
        value = _at(document, place)
        code = _OF_FIELDS.get(where, code) if isinstance(value, str) else "wrong_type"
        what = f"{_shown(value)} cannot stand here"
    return DocumentProblem(where=where, code=code, what=what, allowed=allowed or None)


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else f"{text[:59]}…"


def _at(document: Any, place: Place) -> Any:
    """Return the value at a place, None where there is none."""
    for part in place:
        if isinstance(document, dict):
            document = cast(dict[Any, Any], document).get(part)
        elif isinstance(document, list) and isinstance(part, int) and part < len(cast(list[Any], document)):
            document = cast(list[Any], document)[part]
        else:
            return None
    return document


def _shape(place: Place, document: Any) -> dict[str, Any]:
    """Return the part of the JSON Schema for a place; {} where it has none."""
    shape, here = agent_schema(), document
    for part in place:
        shape = _branch(shape, here)
        if isinstance(part, int):
            shape = shape.get("items", {})
        else:
            others = list(shape.get("patternProperties", {}).values()) or [shape.get("additionalProperties")]
            shape = shape.get("properties", {}).get(part, others[0])
        shape = cast(dict[str, Any], shape) if isinstance(shape, dict) else {}
        here = _at(here, (part,))
    return shape


def _branch(shape: Mapping[str, Any], value: Any) -> dict[str, Any]:
    """Return a shape without reference and union: of a union the branch that is meant by a value."""
    shape = _resolved(shape)
    branches = [_resolved(branch) for branch in (*shape.get("oneOf", ()), *shape.get("anyOf", ()))]
    for branch in branches:
        kinds = {name: p["const"] for name, p in branch.get("properties", {}).items() if "const" in p}
        is_kind = isinstance(value, dict) and all(value.get(n) == kind for n, kind in kinds.items())  # pyright: ignore
        if (is_kind and "properties" in branch) or (isinstance(value, list) and "items" in branch):
            return branch
    return dict(shape)


def _resolved(shape: Mapping[str, Any]) -> dict[str, Any]:
    reference = str(shape.get("$ref", ""))
    found: dict[str, Any] = agent_schema()["$defs"][reference.rpartition("/")[2]] if reference else {}
    return {**found, **shape}


def allowed_by(shape: Mapping[str, Any]) -> str:
    """Return what a part of the schema allows, in words."""
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
            return "an object" + needed + _bounds(shape, "minProperties", "maxProperties", unit=" members")
        case "null":
            return "null"
        case _:
            return ""


def _bounds(shape: Mapping[str, Any], least: str, most: str, *, unit: str = "") -> str:
    """Return bounds of a number, or of a count where there is a unit."""
    low, high = shape.get(least), shape.get(most)
    if low is None or high is None:
        bound = "" if high is None else f" of at most {high:g}{unit}"
        return bound if low is None else f" of at least {low:g}{unit}"
    return f" {'of' if unit else 'from'} {low:g} to {high:g}{unit}"
