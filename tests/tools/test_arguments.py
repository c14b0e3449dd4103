"""Arguments a model wrote: read strictly, repaired only where nothing else can be meant."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.each_row import each_row
from tools.arguments import MAX_ARGUMENT_CHARS, MalformedArguments, parse_arguments

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc_", min_size=1), inner),
    max_leaves=8,
)
objects = st.dictionaries(st.text("abcxyz", min_size=1, max_size=5), json_values, max_size=4)


@each_row(
    "raw, meant",
    [
        ("{'key': 'fetch-api'}", {"key": "fetch-api"}),
        ('{"key": "a", "depth": 2,}', {"key": "a", "depth": 2}),
        ('{"keys": ["a", "b"]', {"keys": ["a", "b"]}),
        ('```json\n{"key": "a"}\n```', {"key": "a"}),
        ('{key: "a"}', {"key": "a"}),
        ('"{\\"key\\": \\"a\\"}"', {"key": "a"}),
        ('{"on": True}', {"on": True}),
        ('{"on": true', {"on": True}),
        ('{"on": true "off": [false, ]}', {"on": True, "off": [False]}),
        ("{'say': 'it\\'s \"so\"', at: fetch-api}", {"say": 'it\'s "so"', "at": "fetch-api"}),
        ('{"search": "\\d+\\s"}', {"search": "\\d+\\s"}),
        ("```\n{'a': [{'b': None}]}\n```", {"a": [{"b": None}]}),
    ],
)
def test_plain_mistake_is_repaired_and_reported(raw: str, meant: dict[str, Any]) -> None:
    parsed = parse_arguments(raw)
    assert parsed.values == meant
    assert parsed.repaired


@each_row(
    "raw",
    [
        '{"key": "fetch-a',
        '{"limit": 1',
        '{"keys": [',
        '{"keys": ["a",',
        '{"keys": ["a" "b"]}',
        '{"keys": [1 2]}',
        '{"keys": ["a"}}',
        '{"limit": 01}',
        '{"limit": .5}',
        '{"limit": -Infinity, }',
        '{"search": "\\d+\\n"}',
        '{"a": 1,, "b": 2}',
        '{"a": {"a": 1, "a": 2,}}',
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


@given(
    objects.filter(bool), st.booleans(), st.sampled_from([None, 2]), st.sampled_from([",}", ", }", ",\n}"])
)
def test_text_with_mistakes_means_the_same_as_without(
    values: dict[str, Any], is_ascii: bool, indent: int | None, end: str
) -> None:
    whole = json.dumps(values, ensure_ascii=is_ascii, indent=indent)
    slipped = whole[:-1].rstrip() + end
    assert parse_arguments(slipped).values == values
    assert parse_arguments(slipped).repaired


@each_row("part", ["{", "}{1", '1"', '"a"b', "{```}", "[{", ",", "'\\", "{a:", '["'])
def test_no_text_of_a_model_is_slow_to_read(part: str) -> None:
    """A reader that looks at the rest of the text for each of these needs minutes; one pass, an instant."""
    for start in ('{"x": ', '{"x": [', '{"x": "'):
        raw = start + part * ((MAX_ARGUMENT_CHARS - 20) // len(part))
        with pytest.raises(MalformedArguments):
            parse_arguments(raw)
