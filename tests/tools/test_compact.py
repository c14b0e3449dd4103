"""Digests of data, handles and long text."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from datasources.types import HandleGroup, HandlePoint
from tools.compact import compact_handles, compact_value, cut, cut_name, without_empty

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
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
    assert compact_value(data) == "url:https://a.b/c?d=1,n:3,on:true,list:[1,'two, three'],o:{x.y:null,z:[]}"


def test_strings_that_look_like_other_values_are_quoted() -> None:
    data = {"a": "3", "b": "true", "c": "", "e:f": "{x}", "g": "it's, yes", "h": "a}b"}
    assert compact_value(data) == "a:'3',b:'true',c:'','e:f':'{x}',g:'it''s, yes',h:'a}b'"


def test_expressions_whose_brackets_close_need_no_quotes() -> None:
    assert compact_value({"a": "={{ $json['x'] }}", "b": "it's"}) == "a:={{ $json['x'] }},b:it's"


@given(json_values)
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
