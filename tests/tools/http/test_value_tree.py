"""Bodies, parameters and answers: nulls of templates leave, nulls of the document stay."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.tools.http.values import JSON, scope
from tools.http.value_templates import TemplateFailed
from tools.http.value_tree import parse_tree

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
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
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
    assert mistakes(body) == [("a.1", "unknown_filter"), ("b.c", "unknown_filter"), ("d", "bad_template")]


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
