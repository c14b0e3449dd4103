"""JSONPaths take the first match; what is put into one is a literal and nothing else."""

import re
from typing import Any

import jsonpath
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.tools.http.values import EVERY, JSON, SCALARS, parse_path, scope
from tools.http import json_paths
from tools.http.problems import BadText
from tools.http.value_tree import parse_return

ORDERS = {
    "orders": [{"n": n, "id": f"id-{n!r}"} for n in (7, 42, 42.0, "42", True, None, "1 || true", 0)]
}
BY_NUMBER = "$.orders[?(@.n == {{args.n}})].id"


def first(text: str, document: Any, **values: Any) -> Any:
    return parse_path(text, EVERY).first(document, scope(**values))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$", ORDERS),
        ("$.orders[1].id", "id-42"),
        ("$.orders[?(@.n == 42)].id", "id-42"),
        ("$.orders[?@.n == true].id", "id-True"),
        ("$..n", 7),
        ("$.orders[?@.n == 8]", None),
        ("$.gone.deeper", None),
        ("$.orders[?length(@.n) == 2].id", "id-'42'"),
    ],
)
def test_first_match_or_null(text: str, expected: Any) -> None:
    assert first(text, ORDERS) == expected


@pytest.mark.parametrize("document", [None, "text", '{"a": 1}', 7, True])
def test_a_response_that_is_no_container(document: Any) -> None:
    assert first("$", document) == document
    assert first("$.a", document) is None


@given(SCALARS | st.sampled_from(["1 || true", '"] || @.n == 7 || "', "')]", "\ud800", "\u2028"]))
def test_argument_is_a_literal(value: Any) -> None:
    matching = [
        o["id"] for o in ORDERS["orders"] if o["n"] == value and (o["n"] is True) == (value is True)
    ]
    matching = [] if value is False else matching
    got = first(BY_NUMBER, ORDERS, args={"n": value})
    assert got == (matching[0] if matching else None)


@given(SCALARS.filter(lambda value: not re.search(r"[\x00-\x1f]", str(value))))
def test_argument_is_found_where_it_stands(value: Any) -> None:
    document = {"orders": [{"n": [value], "id": "other"}, {"n": value, "id": "this"}]}
    assert first(BY_NUMBER, document, args={"n": value}) == "this"


@given(JSON, JSON)
def test_no_argument_and_no_response_makes_a_path_raise(value: Any, document: Any) -> None:
    for text in (BY_NUMBER, "$[{{args.n}}]", "$..[?(@.n < {{args.n}})]"):
        first(text, document, args={"n": value})


@pytest.mark.parametrize("value", [[0], {"a": 1}, [["x"]], float("nan"), "x" * 5_000])
def test_what_is_no_literal_matches_nothing(value: Any) -> None:
    assert first("$[{{args.n}}]", [1, 2, 3], args={"n": value}) is None


NAMES = st.sampled_from(["a", "b", "_", "and", "in", "null", "true", "length", "None", "A1"])
STEPS = st.lists(NAMES.map(".{}".format) | st.integers(0, 3).map("[{}]".format), max_size=4).map(
    "".join
)
TREES = st.recursive(
    st.sampled_from([None, True, 0, 1, "a", "text"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=20,
)


@given(STEPS, TREES)
def test_plain_path_finds_what_the_library_finds(steps: str, document: Any) -> None:
    assume(isinstance(document, list | dict))
    found = jsonpath.JSONPathEnvironment(strict=True).compile(f"${steps}").match(document)
    path = parse_path(f"${steps}", EVERY)
    assert path.steps is not None, "this way is the short one"
    assert path.first(document, scope()) == (found.obj if found else None)


def test_index_and_name_from_an_argument() -> None:
    assert first("$[{{args.n}}]", [1, 2, 3], args={"n": 1}) == 2
    assert first("$[{{args.n}}]", {"a']['b": 5}, args={"n": "a']['b"}) == 5


@pytest.mark.parametrize(
    "text",
    [
        "a.b",
        "$.",
        "$ ",
        "$.a[?@.b =~ /x/]",
        "$.a[?match(@.b, 'x')]",
        "$.a[?search(@.b, 'x')]",
        "$.a[?@.b in ['x']]",
        "$.a[?@.b == ['x']]",
        "$.a[?@.b <> 1]",
        "$.a[?@.c[?@.b <> 1]]",
        "$.a | $.b",
        "$.a~",
        "^.a",
        "$.a[?_.x == 1]",
        "$.a[?@.b == 1e400]",
        "$" + ".a" * 250,
        "$[?" + "(" * 400,
        "$['{{args.n}}']",
        '$["{{args.n}}"]',
        "$['a [{{args.n}}] b']",
        "$.a{{args.n}}",
        "$.a[1{{args.n}}]",
        "$.a[{{args.n}}{{args.n}}]",
        "{{args.n}}",
    ],
)
def test_what_is_no_path_is_refused(text: str) -> None:
    with pytest.raises(BadText) as bad:
        parse_path(text, EVERY)
    assert bad.value.code == "bad_jsonpath"
    assert bad.value.allowed


def test_mistake_has_its_column() -> None:
    with pytest.raises(BadText) as bad:
        parse_path("$.orders[?match(@.n, 'x')]", EVERY)
    assert bad.value.column == 11


@pytest.mark.parametrize(
    "text",
    [
        "$..*..*..*..zz",
        "$..[?@..[?@..[?@..zz]]]",
        "$..[?$..zz]",
        "$..[?count($..*) == 0]",
        "$..[?@ != @]",
        "$..[::-1,::-1,:,:]..zz",
    ],
)
@pytest.mark.parametrize("shape", ["deep", "wide", "flat"])
def test_a_path_looks_at_a_bounded_number_of_values(
    text: str, shape: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep: Any = list(range(1000))
    for _ in range(200):
        deep = {"a": deep, "b": [1, 2]}
    document = {"deep": deep, "wide": [{"id": n} for n in range(3000)], "flat": [0] * 10_000}[shape]
    visits = 0
    count = json_paths._Match.filter_context

    def counting(match: json_paths._Match) -> Any:
        nonlocal visits
        visits += 1
        return count(match)

    monkeypatch.setattr(json_paths, "MAX_VISITED", 2_000)
    monkeypatch.setattr(json_paths._Match, "filter_context", counting)
    assert first(text, document) is None
    assert visits <= 2_001


def test_return_mixes_paths_and_templates() -> None:
    value = {
        "id": "$.id",
        "all": "$",
        "first": "$[0]",
        "cost": "$5 for {{args.who}}",
        "literal": "$$.id {{args.who}}",
        "who": "{{args.who}}",
        "gone": "$.gone",
        "none": None,
    }
    tree = parse_return(value)
    assert tree.render(scope(args={"who": "Jo"}, response={"id": 5})) == {
        "id": 5,
        "all": {"id": 5},
        "first": None,
        "cost": "$5 for Jo",
        "literal": "$.id Jo",
        "who": "Jo",
        "gone": None,
        "none": None,
    }
    with pytest.raises(ValidationError) as refused:
        parse_return({"a": ["$.a["]})
    assert [error["loc"] for error in refused.value.errors()] == [("a", 0)]
