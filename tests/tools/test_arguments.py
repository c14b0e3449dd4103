"""Arguments a model wrote: read strictly, repaired only where nothing else can be meant."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.arguments import MAX_ARGUMENT_CHARS, MalformedArguments, parse_arguments

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc_", min_size=1), inner),
    max_leaves=8,
)
objects = st.dictionaries(st.text("abcxyz", min_size=1, max_size=5), json_values, max_size=4)


@pytest.mark.parametrize(
    ("raw", "meant"),
    [
        ("{'key': 'fetch-api'}", {"key": "fetch-api"}),
        ('{"key": "a", "depth": 2,}', {"key": "a", "depth": 2}),
        ('{"keys": ["a", "b"]', {"keys": ["a", "b"]}),
        ('```json\n{"key": "a"}\n```', {"key": "a"}),
        ('{key: "a"}', {"key": "a"}),
        ('"{\\"key\\": \\"a\\"}"', {"key": "a"}),
        ('{"on": True}', {"on": True}),
        ('{"on": true', {"on": True}),
    ],
)
def test_plain_slip_is_repaired_and_said(raw: str, meant: dict[str, Any]) -> None:
    parsed = parse_arguments(raw)
    assert parsed.values == meant
    assert parsed.repaired


@pytest.mark.parametrize(
    "raw",
    [
        '{"key": "fetch-a',
        '{"limit": 1',
        '{"code": "say "hi" now"}',
        '{"key": "a"} {"key": "b"}',
        "please read fetch-api",
        '{"key": "a" or "b"}',
        '["key"]',
        "12",
        "null",
        '{"a": NaN}',
        '{"key": "a", "key": "b"}',
        "{'key': 'a', 'key': 'b'}",
        '{"a": "\\ud800"}',
        "[" * 100_000,
        '{"a":' * 100_000,
        "x" * (MAX_ARGUMENT_CHARS + 1),
    ],
)
def test_text_that_could_mean_several_things_is_refused(raw: str) -> None:
    with pytest.raises(MalformedArguments):
        parse_arguments(raw)


@pytest.mark.parametrize("raw", ["", "  \n", "{}"])
def test_nothing_is_an_empty_object(raw: str) -> None:
    assert parse_arguments(raw).values == {}
    assert not parse_arguments(raw).repaired


@given(objects)
def test_valid_json_is_never_touched(values: dict[str, Any]) -> None:
    parsed = parse_arguments(json.dumps(values))
    assert parsed.values == values
    assert not parsed.repaired


@given(objects, st.data())
def test_cut_off_json_is_refused_or_lacks_nothing_but_closing_brackets(
    values: dict[str, Any], data: st.DataObject
) -> None:
    raw = json.dumps(values)
    part = raw[: data.draw(st.integers(1, len(raw)))]
    try:
        parsed = parse_arguments(part)
    except MalformedArguments:
        return
    left_open = part.rstrip(", ")
    assert json.dumps(parsed.values).startswith(left_open)
    assert set(json.dumps(parsed.values)[len(left_open) :]) <= set("]}")


@given(st.text(max_size=60) | st.text("{}[]\",:' \\abc1", max_size=40))
def test_any_text_gives_an_object_or_a_reason(raw: str) -> None:
    reason = ""
    try:
        values: Any = parse_arguments(raw).values
    except MalformedArguments as exc:
        values, reason = None, exc.reason
    assert isinstance(values, dict) or reason
