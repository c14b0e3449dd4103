"""Expressions agree with a plain oracle, never raise, and refuse everything they need not have."""

import ast
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tools.http.values import EVERY, JSON, NOW, conversation, parse_expression, scope
from tools.http.problems import BadText
from tools.http.scope import CHECK, Scope

VALUES: dict[str, Any] = {
    "a": [1, 1.0, True, None, "x", [1], [True], {"k": 1}],
    "b": {"k": 1, "from": {"is": 2}, "x": [{"y": "z"}]},
    "one": 1,
    "true": True,
    "text": "abc",
    "empty": "",
    "none": None,
}


def holds(source: str, **values: Any) -> Any:
    values = values or {"ctx": VALUES, "response": VALUES}
    return parse_expression(source, EVERY).evaluate(scope(**values))


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("ctx.one == 1.0", True),
        ("ctx.one == true", False),
        ("ctx.true == True", True),
        ("ctx.one != '1'", True),
        ("ctx.none == null", True),
        ("ctx.gone.deep.deeper == None", True),
        ("$.b.from.is == 2", True),
        ("$.b.x[0].y == 'z'", True),
        ("$.b.x[7].y", None),
        ("$['b']['k'] == 1", True),
        ("1 < ctx.b.k", False),
        ("0 < ctx.one <= 1.0 < 2", True),
        ("ctx.one < ctx.text", False),
        ("ctx.one >= true", False),
        ("'a' < ctx.text < 'b'", True),
        ("not ctx.empty and not ctx.none", True),
        ("ctx.text or ctx.none", True),
        ("ctx.text and ctx.one", True),
        ("ctx.text", "abc"),
        ("true in ctx.a", True),
        ("[true] in ctx.a", True),
        ("[1.0] in ctx.a", True),
        ("{0} in ctx.a", BadText),
        ("'k' in ctx.b", True),
        ("1 in ctx.b", False),
        ("'bc' in ctx.text", True),
        ("1 in ctx.text", False),
        ("1 in ctx.none", False),
        ("1 not in ctx.none", True),
        ("1 not in ctx.one", True),
        ("ctx.one in [2, -1, ctx.b.k]", True),
        ("true in [1]", False),
        ("found.x not in ['pending', \"confirmed\"]", True),
        ("caller_phone == '+33612345678'", True),
        ("  ctx.one  ==\n 1 ", True),
        ("'it\\'s' == \"it's\"", True),
        ("'\\u00e9' == 'é'", True),
        ("'$' == '$' and $.one == 1", True),
    ],
)
def test_examples(source: str, expected: Any) -> None:
    if expected is BadText:
        with pytest.raises(BadText):
            holds(source)
    else:
        assert holds(source) is expected or holds(source) == expected


def canonical(value: Any) -> Any:
    """A value whose equality is that of JSON."""
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, list):
        return ("list", [canonical(item) for item in value])
    if isinstance(value, dict):
        return ("dict", {key: canonical(item) for key, item in value.items()})
    return ("number", value) if isinstance(value, int | float) else value


def equal(a: Any, b: Any) -> bool:
    return bool(canonical(a) == canonical(b))


def comparable(a: Any, b: Any) -> bool:
    kinds = {"number" if type(v) in {int, float} else type(v).__name__ for v in (a, b)}
    return kinds in ({"number"}, {"str"})


def contained(a: Any, b: Any) -> bool:
    if isinstance(b, list):
        return any(equal(a, item) for item in b)
    return isinstance(a, str) and isinstance(b, str | dict) and a in b


ORACLE = {
    "==": equal,
    "!=": lambda a, b: not equal(a, b),
    "<": lambda a, b: comparable(a, b) and a < b,
    "<=": lambda a, b: comparable(a, b) and a <= b,
    ">": lambda a, b: comparable(a, b) and a > b,
    ">=": lambda a, b: comparable(a, b) and a >= b,
    "in": contained,
    "not in": lambda a, b: not contained(a, b),
    "and": lambda a, b: bool(a) and bool(b),
    "or": lambda a, b: bool(a) or bool(b),
}


@given(
    st.sampled_from(list(ORACLE)),
    JSON,
    JSON | st.builds(lambda v: [v, 1, True], JSON),
    st.booleans(),
)
def test_operators_agree_with_the_oracle(operator: str, a: Any, b: Any, alike: bool) -> None:
    b = json.loads(json.dumps(a)) if alike else b
    assert holds(f"args.a {operator} ctx.b", args={"a": a}, ctx={"b": b}) is ORACLE[operator](a, b)


def joined(operator: str) -> Any:
    def join(a: tuple[str, str], b: tuple[str, str]) -> tuple[str, str]:
        return f"({a[0]} {operator} {b[0]})", f"bool({a[1]} {operator} {b[1]})"

    return join


BOOLEANS = st.recursive(
    st.sampled_from(
        [
            ("ctx.a", "a"),
            ("ctx.b", "b"),
            ("true", "True"),
            ("null", "None"),
            ("(1 < 2)", "True"),
            ("ctx.c.x", "None"),
        ]
    ),
    lambda inner: (
        st.builds(joined("and"), inner, inner)
        | st.builds(joined("or"), inner, inner)
        | st.builds(joined("=="), inner, inner)
        | inner.map(lambda pair: (f"(not {pair[0]})", f"(not {pair[1]})"))
    ),
    max_leaves=8,
)


@given(BOOLEANS, st.booleans(), st.booleans())
def test_nested_conditions_agree_with_python(pair: tuple[str, str], a: bool, b: bool) -> None:
    ours, plain = pair
    assert holds(ours, ctx={"a": a, "b": b}) is eval(plain, {"a": a, "b": b})


PIECES = (
    "ctx.a|$|args|pre|.|[|]|(|)|'x'|\"|'|0|-|1e5|0x1|==|!=|<|in|not|and|or|is|lambda|if|else|for|,|:|{|}"
    "|*|+|_|\\|#|\n|é|两| |null|True|f'a'|1_0|b''|:=|await|yield"
)


def refusal(source: str) -> BadText | None:
    try:
        parse_expression(source, EVERY)
    except BadText as bad:
        return bad
    return None


@given(st.lists(st.sampled_from(PIECES.split("|")), max_size=12).map("".join), JSON)
def test_any_text_evaluates_or_is_refused(source: str, value: Any) -> None:
    bad = refusal(source)
    if bad is None:
        parse_expression(source, EVERY).evaluate(
            scope(args=value, ctx={"a": value}, response=value)
        )
    else:
        assert bad.code in {"bad_expression", "unknown_namespace"}
        assert bad.allowed


@pytest.mark.parametrize(
    ("source", "column"),
    [
        ("ctx.a + 1", 1),
        ("ctx.a == f(1)", 10),
        ("open('x')", 1),
        ("ctx.a.__class__", 1),
        ("ctx['__class__']", 1),
        ("[x for x in ctx.a]", 1),
        ("lambda: 1", 1),
        ("f'{ctx.a}'", 2),
        ("ctx.a[0:1]", 1),
        ("ctx.a[-1]", 1),
        ("ctx.a[ctx.b]", 1),
        ("(x := 1)", 2),
        ("[*ctx.a]", 2),
        ("{'a': 1}", 1),
        ("('a', 'b')", 1),
        ("1 if ctx.a else 2", 1),
        ("ctx.a is null", 1),
        ("-ctx.a", 1),
        ("+1", 1),
        ("~1", 1),
        ("...", 1),
        ("b'a'", 2),
        ("1j", 1),
        ("0x10", 1),
        ("1_000", 1),
        ("1in ctx.a", 1),
        ("1e999", 1),
        ("'a' 'b'", 5),
        ("'''a'''", 3),
        ("'\\d'", 1),
        ("'open", 1),
        ("ctx.a # no", 7),
        ("'é' == f(1)", 8),
        ("[ctx.a == 1]", 2),
        ("", 1),
        ("ctx.a\0", 6),
        ("not " * 200, None),
        ("(" * 300 + ")" * 300, None),
        ("[" * 90 + "]" * 90, None),
        ("-" * 900 + "1", None),
        ("ctx.a" + ".b" * 100, None),
        ("1 and " * 120 + "1", None),
        ("x" * 1001, None),
    ],
)
def test_everything_else_is_refused_with_its_column(source: str, column: int | None) -> None:
    with pytest.raises(BadText) as bad:
        parse_expression(source, EVERY)
    assert bad.value.code == "bad_expression"
    assert bad.value.allowed
    if column is not None:
        assert bad.value.column == column


def test_what_the_parser_fails_on_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Source: CPython 3.11, "AST constructor recursion depth mismatch" of deep texts."""

    def failing(*_: object, **__: object) -> None:
        raise SystemError

    monkeypatch.setattr(ast, "parse", failing)
    with pytest.raises(BadText, match="cannot be read"):
        parse_expression("ctx.a", EVERY)


def test_a_place_reads_its_own_names_only() -> None:
    for source in ("$.blocked", "ctx.a", "target == 1", "session.x", "secret.X == 'a'"):
        with pytest.raises(BadText) as bad:
            parse_expression(source, CHECK)
        assert bad.value.code in {"unknown_namespace", "secret_not_allowed_here"}


def test_worst_conditions_are_bounded() -> None:
    """Each ends, with a boolean, on responses made to be slow; the steps are counted."""
    bits = [[True]] * 60_000
    response = {
        "l": bits,
        "m": [[1]] * 60_000,
        "t": "ab" * 60_000,
        "d": {str(i): i for i in range(20_000)},
    }
    for source in (
        " and ".join(["$.l != $.m"] * 10),
        " or ".join(["[1] in $.l"] * 12),
        "[1] not in $.l not in $.l not in $.l",
        " and ".join(["$ == $"] * 25),
        "$.t in $.t in $.t",
    ):
        assert isinstance(parse_expression(source, EVERY).evaluate(scope(response=response)), bool)


def test_in_looks_at_the_first_ten_thousand() -> None:
    items = [0] * 10_000 + [1]
    assert holds("1 in ctx.a", ctx={"a": items}) is False
    assert holds("1 in ctx.a", ctx={"a": items[1:]}) is True


def test_paths_are_all_that_is_read() -> None:
    expression = parse_expression("ctx.a.b == $.x[0] or not found", EVERY)
    assert [path for path, _ in expression.reads] == [("ctx", "a", "b"), ("$", "x", 0), ("found",)]


def test_scope_holds_nothing_that_was_not_given() -> None:
    empty = Scope({})
    for source in ("$.a", "args.x.y", "found.x", "pre.x", "now_iso", "status"):
        assert parse_expression(source, EVERY).evaluate(empty) is None
    assert (
        parse_expression("now_iso", EVERY).evaluate(conversation().scope(NOW))
        == "2025-01-15T19:00:00Z"
    )
