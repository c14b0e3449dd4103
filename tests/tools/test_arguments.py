"""Arguments a model wrote: read strictly, repaired only where nothing else can be meant."""

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasources.mock import open_nba
from tools import arguments
from tools.read_tools.views import describe_near, near_nodes

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
        ('{"on": true "off": [false, ]}', {"on": True, "off": [False]}),
        ("{'say': 'it\\'s \"so\"', at: fetch-api}", {"say": 'it\'s "so"', "at": "fetch-api"}),
        ('{"search": "\\d+\\s"}', {"search": "\\d+\\s"}),
        ("```\n{'a': [{'b': None}]}\n```", {"a": [{"b": None}]}),
    ],
)
def test_plain_mistake_is_repaired_and_reported(raw: str, meant: dict[str, Any]) -> None:
    parsed = arguments.parse_arguments(raw)
    assert parsed.values == meant
    assert parsed.repaired


@pytest.mark.parametrize(
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
        "x" * (arguments.ARGUMENT_LIMITS.chars + 1),
    ],
)
def test_text_that_could_mean_several_things_is_refused(raw: str) -> None:
    with pytest.raises(arguments.MalformedArguments):
        arguments.parse_arguments(raw)


@given(objects)
def test_valid_json_is_never_touched(values: dict[str, Any]) -> None:
    parsed = arguments.parse_arguments(json.dumps(values))
    assert parsed.values == values
    assert not parsed.repaired


@given(objects, st.data())
def test_cut_off_json_is_refused_or_lacks_brackets_alone(
    values: dict[str, Any], data: st.DataObject
) -> None:
    raw = json.dumps(values)
    part = raw[: data.draw(st.integers(1, len(raw)))]
    try:
        parsed = arguments.parse_arguments(part)
    except arguments.MalformedArguments:
        return
    left_open = part.rstrip(", ")
    assert json.dumps(parsed.values).startswith(left_open)
    assert set(json.dumps(parsed.values)[len(left_open) :]) <= set("]}")


@given(
    objects.filter(bool),
    st.booleans(),
    st.sampled_from([None, 2]),
    st.sampled_from([",}", ", }", ",\n}"]),
)
def test_text_with_mistakes_means_the_same_as_without(
    values: dict[str, Any], is_ascii: bool, indent: int | None, end: str
) -> None:
    whole = json.dumps(values, ensure_ascii=is_ascii, indent=indent)
    slipped = whole[:-1].rstrip() + end
    assert arguments.parse_arguments(slipped).values == values
    assert arguments.parse_arguments(slipped).repaired


@pytest.mark.parametrize("part", ["{", "}{1", '1"', '"a"b', "{```}", "[{", ",", "'\\", "{a:", '["'])
def test_no_text_of_a_model_is_slow_to_read(part: str) -> None:
    """A reader that looks at the rest of the text for each of these needs minutes; one
    pass, an instant.
    """
    for start in ('{"x": ', '{"x": [', '{"x": "'):
        raw = start + part * ((arguments.ARGUMENT_LIMITS.chars - 20) // len(part))
        with pytest.raises(arguments.MalformedArguments):
            arguments.parse_arguments(raw)


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False}


@pytest.mark.parametrize(
    ("schema", "values", "where"),
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
        (
            {"$schema": "http://json-schema.org/draft-07/schema#", **of(n={"type": "null"})},
            {"n": 1},
            ["n"],
        ),
    ],
)
def test_what_is_wrong_is_found_with_its_place(
    schema: dict[str, Any], values: dict[str, Any], where: list[str]
) -> None:
    assert [place for place, _ in arguments.wrong_arguments(schema, values)] == where


@pytest.mark.parametrize(
    ("schema", "values"),
    [
        ({}, {"x": 1}),
        (of(n={"type": "integer"}), {"n": 12.0}),
        (of(t={"pattern": "^[0-9]{2}$"}), {"t": "12"}),
        (
            {"type": "object", "patternProperties": {"^x": {}}, "additionalProperties": False},
            {"x1": 1},
        ),
    ],
)
def test_what_is_right_passes(schema: dict[str, Any], values: dict[str, Any]) -> None:
    assert arguments.wrong_arguments(schema, values) == []


def test_errors_are_few_and_short() -> None:
    found = arguments.wrong_arguments(
        of(a={"items": {"type": "null"}}), {"a": ["x" * 10_000] * 1_000}
    )
    assert len(found) == arguments.ARGUMENT_LIMITS.shown
    assert max(len(what) for _, what in found) <= 300


DOUBLING: dict[str, Any] = {
    f"d{i}": {"allOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 2} for i in range(40)
}


@pytest.mark.parametrize(
    ("schema", "values"),
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
    arguments.wrong_arguments(schema, values)
    assert time.process_time() - begun < 0.5, "else one call holds up everybody"


GRAPH = "testgraph001"


@pytest.mark.parametrize(
    "wrong",
    [
        "Fetch-API",
        "fetch_api",
        "fetch-ap",
        "fetch-api:0",
        "{{node:fetch-api}}",
        "{{node:fetchapi}}",
        "testgraph001-fetch-api",
        "nodius_nodes/testgraph001-fetch-api",
        "Fetch NBA players",
        " fetch-api ",
    ],
)
async def test_mistyped_key_leads_to_the_node_meant(wrong: str) -> None:
    source = open_nba().source("test")
    near = await near_nodes(source, await source.get_graph(GRAPH), wrong)
    assert near[0].key == "fetch-api"


async def test_near_node_is_shown_with_its_name_and_sheet() -> None:
    source = open_nba().source("test")
    graph = await source.get_graph(GRAPH)
    near = await near_nodes(source, graph, "sort_stats")
    assert describe_near(near, graph) == "sort-stats (Sort by points, sheet 1 data-processing)"
