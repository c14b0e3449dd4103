"""Arguments against the JSON Schema of a stranger: right errors, bounded time, no network."""

from __future__ import annotations

import time
from typing import Any

from tests.support.each_row import each_row
from tools.arguments import MAX_SHOWN, wrong_arguments


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False}


@each_row(
    "schema, values, where",
    [
        (of(n={"type": "integer"}), {"n": "1"}, ["n"]),
        (of(n={"type": "integer"}), {"n": 1.5}, ["n"]),
        (of(n={"type": "integer"}), {"m": 1}, [""]),
        ({**of(n={}), "required": ["n"]}, {}, [""]),
        (of(a={"type": "array", "items": {"enum": ["x"]}}), {"a": ["x", "y"]}, ["a.1"]),
        (of(t={"type": "string", "pattern": "^[0-9]{2}:[0-9]{2}$"}), {"t": "8pm"}, ["t"]),
        (of(t={"type": "string", "minLength": 2}), {"t": "x"}, ["t"]),
        (of(t={"uniqueItems": True}), {"t": [1, 1]}, ["t"]),
        ({"$defs": {"n": {"type": "integer"}}, **of(n={"$ref": "#/$defs/n"})}, {"n": "x"}, ["n"]),
        ({"$schema": "http://json-schema.org/draft-07/schema#", **of(n={"type": "null"})}, {"n": 1}, ["n"]),
    ],
)
def test_what_is_wrong_is_found_with_its_place(
    schema: dict[str, Any], values: dict[str, Any], where: list[str]
) -> None:
    assert [place for place, _ in wrong_arguments(schema, values)] == where


@each_row(
    "schema, values",
    [
        ({}, {"x": 1}),
        (of(n={"type": "integer"}), {"n": 12.0}),
        (of(t={"pattern": "^[0-9]{2}$"}), {"t": "12"}),
        ({"type": "object", "patternProperties": {"^x": {}}, "additionalProperties": False}, {"x1": 1}),
    ],
)
def test_what_is_right_passes(schema: dict[str, Any], values: dict[str, Any]) -> None:
    assert wrong_arguments(schema, values) == []


def test_errors_are_few_and_short() -> None:
    found = wrong_arguments(of(a={"items": {"type": "null"}}), {"a": ["x" * 10_000] * 1_000})
    assert len(found) == MAX_SHOWN
    assert max(len(what) for _, what in found) <= 300


DOUBLING: dict[str, Any] = {f"d{i}": {"allOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 2} for i in range(40)}


@each_row(
    "schema, values",
    [
        (of(t={"pattern": "(a|a)*$"}), {"t": "a" * 40 + "b"}),
        (of(t={"pattern": "^(([a-z])+.)+[A-Z]([a-z])+$"}), {"t": "a" * 5_000}),
        ({"$ref": "#"}, {"a": 1}),
        ({"$defs": {**DOUBLING, "d40": {"type": "object"}}, "$ref": "#/$defs/d0"}, {}),
        (of(a={"uniqueItems": True}), {"a": [{"i": i} for i in range(20_000)]}),
        (of(a={"items": {"enum": [{"x": i} for i in range(500)]}}), {"a": [{"x": 499}] * 20_000}),
        ({"$ref": "http://169.254.169.254/latest"}, {"a": 1}),
        (of(a={"$ref": "https://example.com/schema.json"}), {"a": 1}),
        ({"type": 5}, {"a": 1}),
        ({"properties": []}, {"a": 1}),
        (of(a={"pattern": "("}), {"a": "x"}),
        (of(a={"multipleOf": 0}), {"a": 1}),
    ],
)
def test_a_hostile_schema_costs_little_reaches_nothing_and_refuses_nothing_by_raising(
    schema: dict[str, Any], values: dict[str, Any]
) -> None:
    begun = time.process_time()
    wrong_arguments(schema, values)
    assert time.process_time() - begun < 0.5, "else one call holds up everybody"
