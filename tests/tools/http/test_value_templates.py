"""Templates keep a lone value's type, write others as text, and never render what they wrote."""

import ast
import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import ValidationError

import tools.http
from tests.tools.http.values import EVERY, JSON, NOW, conversation, parse_template, scope
from tools.http.problems import BadText
from tools.http.scope import AT_END, INSTRUCTIONS, TOOL
from tools.http.value_templates import TemplateFailed
from tools.http.value_tree import parse_tree


def rendered(text: str, **values: Any) -> Any:
    return parse_template(text, EVERY).render(scope(**values))


def written(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


@given(JSON)
def test_lone_placeholder_keeps_the_value(value: Any) -> None:
    got = rendered("{{ args.x }}", args={"x": value})
    assert got is value


@given(
    st.lists(
        st.sampled_from(["{{args.x}}", "{{ args.x | string }}", "a b", '{{ "{{" }}', "}} { ", "é"])
    ),
    JSON,
)
def test_mixed_text_is_its_parts_written(parts: list[str], value: Any) -> None:
    oracle = {
        "{{args.x}}": written(value),
        "{{ args.x | string }}": written(value),
        '{{ "{{" }}': "{{",
    }
    text = "!" + "".join(parts)
    assert rendered(text, args={"x": value}) == "!" + "".join(
        oracle.get(part, part) for part in parts
    )


def refusal(text: str) -> BadText | None:
    try:
        parse_template(text, EVERY)
    except BadText as bad:
        return bad
    return None


@given(st.text(alphabet="{}|()\"'. aargsxctx0123-|default(", max_size=40), JSON)
def test_any_text_renders_or_is_refused_with_its_column(text: str, value: Any) -> None:
    bad = refusal(text)
    if bad is None:
        parse_template(text, EVERY).render(scope(args={"x": value}, ctx={"x": value}))
    else:
        assert bad.column is not None
        assert 1 <= bad.column <= len(text)
        assert bad.allowed


PIECES = st.lists(
    st.sampled_from(
        [
            "{{",
            "}}",
            "args.a",
            "ctx.b-1.0",
            "secret.x",
            "none",
            "|",
            "default",
            "(",
            ")",
            " ",
            "\n",
            "'x'",
            "upper",
        ]
    ),
    max_size=9,
)


def test_every_special_is_there() -> None:
    said = [
        {"role": role, "content": f"{role} {n}\nline"}
        for n in range(4)
        for role in ("user", "assistant")
    ]
    values = conversation(
        transcript=said, outcome="done", ended_time=NOW, ctx={"items": [{"a": 1}]}
    )
    at_end = values.scope(NOW + 9_000)
    names = AT_END | TOOL
    assert parse_template("{{now_iso}} {{today}} {{call_duration_sec}}", names).render(at_end) == (
        "2025-01-15T19:00:09Z 2025-01-15 61"
    )
    assert parse_template("{{call_duration_sec}}", names).render(at_end) == 61
    assert parse_template("{{transcript}}", names).render(at_end) is said
    summary = parse_template("{{transcript_summary}}", names).render(at_end).split("\n")
    assert len(summary) == 6
    assert summary[-1] == "Assistant: assistant 3 line"
    assert parse_template("{{ctx.items.0.a}}", names).render(at_end) == 1
    assert parse_template("{{ctx.items.9.a}}", names).render(at_end) is None
    assert (
        parse_template("{{agent.id}} {{base_url}}", names).render(at_end)
        == "a1 https://api.example.com"
    )


def test_today_is_the_agents_day() -> None:
    late = conversation(timezone="Pacific/Auckland").scope(NOW)
    assert parse_template("{{today}}", TOOL).render(late) == "2025-01-16"


def test_bare_name_is_of_the_steps_and_nothing_else() -> None:
    values = {"pre": {"found": 1, "args": 2}, "args": {"found": 3}}
    assert rendered("{{found}}", **values) == 1
    assert rendered("{{pre.found}}", **values) == 1
    assert rendered("{{args.found}}", **values) == 3


@pytest.mark.parametrize(
    ("text", "value", "expected"),
    [
        ("{{args.x | default('no')}}", None, "no"),
        ('{{args.x | default("a | b }}")}}', None, "a | b }}"),
        ("{{args.x | default(-12)}}", None, -12),
        ("{{args.x | default(1.5e3)}}", None, 1500.0),
        ("{{args.x | default(true)}}", None, True),
        ("{{args.x | default(null)}}", None, None),
        ("{{args.x | default(caller_phone)}}", None, "+33612345678"),
        ("{{args.x | default(args.y) | default(7)}}", None, 7),
        ("{{args.x | default(7)}}", False, False),
        ("{{args.x | default(7)}}", "", ""),
        ("{{args.x | int}}", "12", 12),
        ("{{args.x | int}}", 12.0, 12),
        ("{{args.x | int}}", True, 1),
        ("{{args.x | int}}", None, None),
        ("{{args.x | float}}", "-1.5e2", -150.0),
        ("{{args.x | float}}", 3, 3.0),
        ("{{args.x | float}}", None, None),
        ("{{args.x | string}}", 12, "12"),
        ("{{args.x | string}}", True, "true"),
        ("{{args.x | json}}", {"a": [1, None]}, '{"a":[1,null]}'),
        ("{{args.x | json}}", None, "null"),
    ],
)
def test_filters(text: str, value: Any, expected: Any) -> None:
    got = rendered(text, args={"x": value})
    assert got == expected
    assert type(got) is type(expected)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        *[
            ("int", wrong)
            for wrong in ("12.5", "abc", 12.5, "1_0", " 1", "", [], {}, float("inf"), "9" * 9999)
        ],
        *[
            ("float", wrong)
            for wrong in ("nan", "inf", "1e999", "", True, [], 10**400, float("nan"))
        ],
    ],
)
def test_wrong_value_of_a_filter_is_a_template_error(kind: str, value: Any) -> None:
    with pytest.raises(TemplateFailed) as failed:
        rendered(f"{{{{args.x | {kind}}}}}", args={"x": value})
    assert failed.value.code == "template_error"
    assert len(str(failed.value)) < 100


@pytest.mark.parametrize(
    ("text", "code", "column"),
    [
        ("Hi {{args.x", "bad_template", 11),
        ("Hi {{}}", "bad_template", 6),
        ("{{ 12 }}", "bad_template", 4),
        ("{{ 'x' }}", "bad_template", 4),
        ("{{args.x | }}", "bad_template", 12),
        ("{{args.x | default}}", "bad_template", 19),
        ("{{args.x + 1}}", "bad_template", 9),
        ("{{args.x | upper}}", "unknown_filter", 12),
        ("Hi {{user.x}}", "unknown_namespace", 6),
        ("{{args.x | default(nobody)}}", "unknown_namespace", 20),
        ("{{secret.KEY}}", "secret_not_allowed_here", 3),
        ("{{args." + "x" * 2_000 + "}}", "bad_template", None),
        ("{{args.x}}" * 101, "bad_template", 1001),
    ],
)
def test_mistake_says_code_and_column(text: str, code: str, column: int | None) -> None:
    with pytest.raises(BadText) as bad:
        parse_template(text, EVERY)
    assert bad.value.code == code
    assert bad.value.allowed or code == "bad_template"
    assert column is None or bad.value.column == column


def test_a_place_reads_its_own_names_only() -> None:
    parse_template("{{ctx.a}}{{caller_phone}}", INSTRUCTIONS)
    for text in ("{{args.x}}", "{{pre.x}}", "{{outcome}}", "{{error}}"):
        with pytest.raises(BadText):
            parse_template(text, INSTRUCTIONS)
    template = parse_template("Bearer {{secret.KEY}}", TOOL | {"secret"})
    assert template.render(conversation().scope(NOW, secrets={"KEY": "abc"})) == "Bearer abc"
    assert template.reads == ((("secret", "KEY"), 10),)


@given(
    st.text(max_size=30)
    | st.sampled_from(["../../admin", "...", "?x=1", "a/b", "#", "%2e%2e", "\r\n"])
)
def test_a_value_stays_in_its_segment_of_an_address(value: str) -> None:
    assume(value not in {"", ".", ".."})
    template = parse_template("/orders/{{args.x}}/items?q={{args.x}}", EVERY)
    url = template.render(scope(args={"x": value}), insert="url")
    split = urlsplit(url)
    assert split.path.count("/") == 3
    assert unquote(split.path.split("/")[2]) == value
    assert split.query == "q=" + split.path.split("/")[2]
    assert split.fragment == ""


@pytest.mark.parametrize("value", [".", "..", "\ud800"])
def test_no_value_climbs_out_of_a_path(value: str) -> None:
    template = parse_template("/orders/{{args.x}}/items", EVERY)
    with pytest.raises(TemplateFailed) as failed:
        template.render(scope(args={"x": value}), insert="url")
    assert failed.value.code == "template_error"


@pytest.mark.parametrize("value", [None, ""])
def test_nothing_in_a_path_is_a_missing_value(value: Any) -> None:
    template = parse_template("/a/{{args.id}}", EVERY)
    with pytest.raises(TemplateFailed, match=r"args\.id") as failed:
        template.render(scope(args={"id": value}), insert="url")
    assert (failed.value.code, failed.value.path) == ("missing_value", "args.id")


def test_rendered_text_is_bounded() -> None:
    with pytest.raises(TemplateFailed):
        rendered("{{args.x}}{{args.x}}", args={"x": "x" * 200_000})


def test_no_text_is_compiled_to_code() -> None:
    modules = list(Path(tools.http.__path__[0]).glob("*.py"))
    assert len(modules) > 8
    for module in modules:
        for node in ast.walk(ast.parse(module.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in {"eval", "exec", "compile", "__import__"}, module.name


GONE = object()


def without(value: Any, args: dict[str, Any]) -> Any:
    """What null removal should give, said plainly."""
    if isinstance(value, dict):
        pairs = ((key, without(item, args)) for key, item in value.items())
        return {key: item for key, item in pairs if item is not GONE}
    if isinstance(value, list):
        return [item for item in (without(item, args) for item in value) if item is not GONE]
    if isinstance(value, str) and value.startswith("{{args."):
        found = args.get(value[7:-2])
        return GONE if found is None else found
    return value


LEAVES = st.sampled_from([None, 1, True, "text", "{{args.a}}", "{{args.b}}", "{{args.missing}}"])
BODIES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=15,
)


@given(BODIES.filter(lambda body: not isinstance(body, str)), JSON, JSON)
def test_null_removal_is_at_every_depth_and_of_templates_only(body: Any, a: Any, b: Any) -> None:
    args = {"a": a, "b": b}
    assert parse_tree(body).render(scope(args=args), drop_null=True) == without(body, args)


@given(BODIES, JSON)
def test_without_removal_the_shape_stays(body: Any, a: Any) -> None:
    def shape(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: shape(item) for key, item in value.items()}
        if isinstance(value, list):
            return [shape(item) for item in value]
        if isinstance(value, str) and value.startswith("{{args."):
            return {"{{args.a}}": a}.get(value)
        return value

    assert parse_tree(body).render(scope(args={"a": a})) == shape(body)


def test_nulls_inside_a_value_that_was_put_in_stay() -> None:
    body = parse_tree({"order": "{{args.order}}", "empty": {"a": "{{args.none}}"}})
    got = body.render(scope(args={"order": {"note": None}}), drop_null=True)
    assert got == {"order": {"note": None}, "empty": {}}


def test_what_was_put_in_is_not_rendered() -> None:
    body = parse_tree({"a": "{{args.a}}", "b": "<{{args.a}}>"})
    hostile = "{{secret.X}}{{args.a}}"
    assert body.render(scope(args={"a": hostile})) == {"a": hostile, "b": f"<{hostile}>"}


def mistakes(value: Any) -> list[tuple[str, str]]:
    with pytest.raises(ValidationError) as refused:
        parse_tree(value)
    errors = refused.value.errors()
    return [(".".join(map(str, error["loc"])), error["ctx"]["error"].code) for error in errors]  # pyright: ignore


def test_every_mistake_is_said_with_its_place() -> None:
    body = {"a": ["fine", "{{args.x | nope}}"], "b": {"c": "{{ctx.x | shout}}"}, "d": "{{"}
    assert mistakes(body) == [
        ("a.1", "unknown_filter"),
        ("b.c", "unknown_filter"),
        ("d", "bad_template"),
    ]


def test_depth_and_size_are_bounded() -> None:
    deep: Any = "x"
    for _ in range(1000):
        deep = [deep]
    assert [code for _, code in mistakes(deep)] == ["too_deep"]
    wide = parse_tree([["{{args.x}}"] * 10])
    with pytest.raises(TemplateFailed):
        wide.render(scope(args={"x": "x" * 30_000}))


def test_paths_are_all_that_is_read() -> None:
    body = parse_tree({"a": ["{{ctx.a.0}}", "x{{args.b | default(pre.found)}}"], "c": "none"})
    assert {path for path, _ in body.reads} == {("ctx", "a", 0), ("args", "b"), ("pre", "found")}
