"""TOON and digests: whatever a node holds comes back or is cut with its length, and never
leaves its cell.
"""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from datasources.types import HandleGroup, HandlePoint
from tools.compact import compact_handles, compact_value, cut, cut_name, without_empty
from tools.toon import ToonError, decode, encode, encode_table

nasty = st.sampled_from(
    [
        "",
        " ",
        " lead",
        "trail ",
        "\t",
        "a,b",
        'say "hi"',
        "line\nbreak",
        "cr\r\nlf",
        "\\",
        "\\n",
        "\\u2028",
        "\\u00002028",
        "\x00",
        "\x002028",
        "\x1b[31m",
        "\x85",
        "\u2028",
        "\u202eabc",
        "\ufeffbom",
        "true",
        "null",
        "-0",
        "05",
        "1e5",
        "-",
        "- item",
        "#x",
        "key: value",
        "[2]{a,b}:",
        "nodes[1]:",
        "{{node:root}}",
        "🏀",
        "é",
        "RELEVANT NODES",
        "```",
        "return `${a}, ${b}`;\n}",
    ]
)
text = nasty | st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
scalars = st.none() | st.booleans() | st.integers(-(10**18), 10**18) | text
cells = scalars | st.floats(allow_nan=False, allow_infinity=False)
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12) | nasty.filter(
    bool
)
json_values = st.recursive(
    cells,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
    max_leaves=12,
)


@given(json_values)
@example({"a": {"x": "\u2028"}, "b": {"x": "\x00"}})
@example("\ufeff")
@example([{"a": "\x9f", "\u2029": ["\x7f", []]}])
def test_every_json_value_decodes_to_itself(value: Any) -> None:
    assert decode(encode(value)) == value


@given(st.lists(st.lists(cells, min_size=3, max_size=3), min_size=1, max_size=5), st.none() | names)
def test_table_is_one_line_a_row_and_decodes_to_its_rows(
    rows: list[list[Any]], name: str | None
) -> None:
    columns = ["_key", "type", "proc:ess"]
    table = [dict(zip(columns, row, strict=True)) for row in rows]
    written = encode_table(name, table, columns)
    assert len(written.splitlines()) == 1 + len(rows)
    assert decode(written) == (table if name is None else {name: table})


def test_table_header_is_the_compact_form() -> None:
    written = encode_table(
        "nodes", [{"_key": "a", "type": "x"}, {"_key": "b", "type": "y"}], ["_key", "type"]
    )
    assert written == "nodes[2]{_key,type}:\n  a,x\n  b,y"


def test_missing_cell_is_null_and_nested_cell_is_json() -> None:
    written = encode_table(None, [{"a": {"x": [1, "é"]}}], ["a", "b"])
    assert decode(written) == [{"a": '{"x":[1,"é"]}', "b": None}]


def test_lone_surrogate_becomes_the_replacement_character() -> None:
    assert decode(encode({"a\ud800": ["x\udfffy", "🏀"]})) == {"a\ufffd": ["x\ufffdy", "🏀"]}


def test_value_that_nests_too_deeply_or_is_no_json_is_refused() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    for value in (deep, {"a": object()}, {("a", "b"): 1}):
        with pytest.raises(ToonError):
            encode(value)


@pytest.mark.parametrize("broken", ["a[2]: 1", '"open', "a[1]{b,c}:\n  1"])
def test_broken_text_is_refused(broken: str) -> None:
    with pytest.raises(ToonError):
        decode(broken)


mixed = cells | st.sampled_from(
    [1, 1.0, True, "1", 0, 0.0, -0.0, False, "0", "true", None, "null", float("nan")]
)
mixed |= st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=12)
mixed |= st.text("true nul1e+-.,:_", max_size=6)
tables = st.integers(1, 4).flatmap(
    lambda width: st.lists(st.lists(mixed, min_size=width, max_size=width), max_size=6)
)


@given(tables, st.none() | names, st.lists(names, min_size=4, max_size=4, unique=True))
@example([["a", "b\u2028", "\ud800"]], "[1]{a}:", ["a", "_key", "x[1]", "d"])
def test_a_table_is_written_as_if_encoded_whole(
    rows: list[list[Any]], name: str | None, columns: list[str]
) -> None:
    columns = columns[: len(rows[0]) if rows else 2]
    table = [dict(zip(columns, row, strict=True)) for row in rows]
    whole = encode(table if name is None else {name: table})
    assert encode_table(name, table, columns) == whole


def test_a_cell_that_is_no_json_is_refused() -> None:
    with pytest.raises(ToonError):
        encode_table(None, [{"a": object()}], ["a"])


digested_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=15,
)


def test_flow_style_reads_like_the_data() -> None:
    data = {
        "url": "https://a.b/c?d=1",
        "n": 3,
        "on": True,
        "list": [1, "two, three"],
        "o": {"x": {"y": None}, "z": []},
    }
    assert (
        compact_value(data)
        == "url:https://a.b/c?d=1,n:3,on:true,list:[1,'two, three'],o:{x.y:null,z:[]}"
    )


def test_strings_that_look_like_other_values_are_quoted() -> None:
    data = {"a": "3", "b": "true", "c": "", "e:f": "{x}", "g": "it's, yes", "h": "a}b"}
    assert compact_value(data) == "a:'3',b:'true',c:'','e:f':'{x}',g:'it''s, yes',h:'a}b'"


def test_expressions_whose_brackets_close_need_no_quotes() -> None:
    assert compact_value({"a": "={{ $json['x'] }}", "b": "it's"}) == "a:={{ $json['x'] }},b:it's"


@given(digested_values)
def test_digest_of_any_data_is_one_line(value: Any) -> None:
    assert len(compact_value(value).splitlines()) <= 1


def test_very_deep_data_is_cut_and_not_a_crash() -> None:
    deep: Any = "end"
    for _ in range(100_000):
        deep = {"a": deep}
    assert "…" in compact_value(deep)
    assert "…" in compact_value(without_empty(deep))


def test_empty_values_are_left_out_but_zero_and_false_are_not() -> None:
    data = {"a": {"b": {}}, "c": [None, ""], "d": 0, "e": False, "f": [1, {}]}
    assert without_empty(data) == {"d": 0, "e": False, "f": [1]}
    assert without_empty({"a": {"b": []}}) is None


def test_handles_show_side_id_accepted_type_and_label() -> None:
    handles = {
        "R": HandleGroup(
            point=(
                HandlePoint(id="0", type="out", display="success"),
                HandlePoint(id="1", type="out", accept="number"),
            )
        ),
        "L": HandleGroup(point=(HandlePoint(id="0", type="in"),)),
    }
    assert compact_handles(handles) == "in L:0; out R:0 success,R:1<number>"


@given(st.text(max_size=200), st.integers(0, 100))
def test_cut_text_is_whole_or_says_exactly_how_much_is_missing(text: str, limit: int) -> None:
    shown = cut(text, limit)
    if shown != text:
        assert shown == f"{text[:limit]}…+{len(text) - limit} chars"
        assert len(shown) < len(text)


@given(st.text(max_size=200), st.integers(1, 100))
def test_cut_name_is_one_bounded_line(text: str, limit: int) -> None:
    assert len(cut_name(text, limit)) <= limit
    assert len(cut_name(text, limit).splitlines()) <= 1
