"""Bodies, parameters and answers: nulls of templates leave, nulls of the document stay."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tools.http.values import EVERY, JSON, scope
from tools.http.problems import DocumentProblem
from tools.http.scope import INSTRUCTIONS
from tools.http.value_templates import TemplateFailed
from tools.http.value_tree import ValueTree, parse_tree

GONE = object()


def tree(value: Any) -> ValueTree:
    problems: list[DocumentProblem] = []
    parsed = parse_tree(value, EVERY, "body", problems)
    assert not problems
    return parsed


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
    assert tree(body).render(scope(args=args), drop_null=True) == without(body, args)


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

    assert tree(body).render(scope(args={"a": a})) == shape(body)


def test_nulls_inside_a_value_that_was_put_in_stay() -> None:
    body = tree({"order": "{{args.order}}", "empty": {"a": "{{args.none}}"}})
    got = body.render(scope(args={"order": {"note": None}}), drop_null=True)
    assert got == {"order": {"note": None}, "empty": {}}


def test_what_was_put_in_is_not_rendered() -> None:
    body = tree({"a": "{{args.a}}", "b": "<{{args.a}}>"})
    hostile = "{{secret.X}}{{args.a}}"
    assert body.render(scope(args={"a": hostile})) == {"a": hostile, "b": f"<{hostile}>"}


def test_every_mistake_is_said_with_its_place() -> None:
    problems: list[DocumentProblem] = []
    body = {"a": ["fine", "{{args.x}}"], "b": {"c": "{{ctx.x | shout}}"}, "d": "{{"}
    parse_tree(body, INSTRUCTIONS, "tools.t.body", problems)
    assert [(p.where, p.code) for p in problems] == [
        ("tools.t.body.a.1", "unknown_namespace"),
        ("tools.t.body.b.c", "unknown_filter"),
        ("tools.t.body.d", "bad_template"),
    ]


def test_depth_and_size_are_bounded() -> None:
    deep: Any = "x"
    for _ in range(1000):
        deep = [deep]
    problems: list[DocumentProblem] = []
    parse_tree(deep, EVERY, "body", problems)
    assert [p.code for p in problems] == ["too_deep"]
    wide = tree([["{{args.x}}"] * 10])
    with pytest.raises(TemplateFailed):
        wide.render(scope(args={"x": "x" * 30_000}))


def test_paths_are_all_that_is_read() -> None:
    body = tree({"a": ["{{ctx.a.0}}", "x{{args.b | default(pre.found)}}"], "c": "none"})
    assert set(body.paths) == {("ctx", "a", 0), ("args", "b"), ("pre", "found")}
