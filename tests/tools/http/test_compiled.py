"""An HTTP tool of a document: every mistake is found at once, with its place."""

from __future__ import annotations

from typing import Any

from graphrag.agents.document_check import check_document
from tests.support.each_row import each_row
from tools.http.compiled import MAX_TOOL_S, compile_tool
from tools.http.model import HttpTool
from tools.http.problems import DocumentProblem
from tools.http.request_url import parse_url

STOP = {"condition": "ctx.x", "fail_return": 1}
SECRETS = [{"name": "KEY", "hosts": ["api.example"]}, {"name": "O", "hosts": ["o.example"]}]


def mistakes(base_url: str | None = "https://api.example/v1/", **tool: Any) -> list[DocumentProblem]:
    return list(
        check_document(
            {
                "version": "2.0",
                "agent": {"id": "a", "name": "A"},
                "session": {"mode": "inline", "instructions": "-"},
                "tools": {"t": {"type": "http", "url": "{{base_url}}/x", **tool}},
                "secrets": SECRETS,
                **({} if base_url is None else {"base_url": base_url}),
            }
        ).errors
    )


@each_row(
    "document, where, code",
    [
        ({"url": "https://{{args.host}}/x"}, "url", "host_not_literal"),
        ({"url": "{{args.url}}"}, "url", "host_not_literal"),
        ({"url": "{{base_url}}.evil.example/x"}, "url", "host_not_literal"),
        ({"url": "{{base_url}}@evil.example/x"}, "url", "host_not_literal"),
        ({"url": "{{base_url}}:81/x"}, "url", "host_not_literal"),
        ({"url": "https://a.example{{args.x}}"}, "url", "host_not_literal"),
        ({"url": "https://a.example\\@b.example/"}, "url", "host_not_literal"),
        ({"url": "https://u:p@a.example/x"}, "url", "host_not_literal"),
        ({"url": "https://a.example:99999/x"}, "url", "host_not_literal"),
        ({"url": "ftp://a.example/x"}, "url", "host_not_literal"),
        ({"url": "/x"}, "url", "host_not_literal"),
        ({"url": "{{base_url}}/x", "base_url": None}, "url", "missing_base_url"),
        ({"url": "{{base_url}}/{{args.x"}, "url", "bad_template"),
        ({"url": "{{base_url}}/{{secret.KEY}}"}, "url", "secret_not_allowed_here"),
        ({"params": {"a": ["{{nowhere.x}}"]}}, "params.a.0", "unknown_namespace"),
        ({"headers": {"Host": "x"}}, "headers.Host", "bad_name"),
        ({"headers": {"content-LENGTH": "1"}}, "headers.content-LENGTH", "bad_name"),
        ({"headers": {"A b": "1"}}, "headers.A b", "bad_name"),
        ({"headers": {"A": "{{secret.NONE}}"}}, "headers.A", "undeclared_secret"),
        ({"headers": {"A": "{{secret.O}}"}}, "headers.A", "secret_not_allowed_here"),
        ({"body": {}}, "body", "body_with_get"),
        ({"body_builder": "confirm_order"}, "body_builder", "body_with_get"),
        (
            {"method": "POST", "body": {}, "body_builder": "confirm_order"},
            "body_builder",
            "both_body_and_builder",
        ),
        ({"method": "POST", "body_builder": "nothing"}, "body_builder", "unknown_builder"),
        ({"store_in_ctx": {"had_conversation": "$"}}, "store_in_ctx.had_conversation", "reserved_name"),
        ({"store_in_ctx": {"a": "$["}}, "store_in_ctx.a", "bad_jsonpath"),
        ({"on_success_flags": ["ok", "should_hangup"]}, "on_success_flags.1", "reserved_name"),
        ({"success_if": "$.a ="}, "success_if", "bad_expression"),
        ({"on_success": {"return": {"e": "{{error}}"}}}, "on_success.return.e", "unknown_namespace"),
        (
            {"pre_steps": [STOP, {**STOP, "fail_before": "ctx.y"}]},
            "pre_steps.1.fail_before",
            "duplicate_name",
        ),
        ({"pre_steps": [{"condition": "ctx.x"}]}, "pre_steps.0.fail_return", "missing_field"),
        ({"pre_steps": [{"extract": {"a": "$"}}]}, "pre_steps.0.url", "missing_field"),
        ({"pre_steps": [{**STOP, "condition": "f()"}]}, "pre_steps.0.condition", "bad_expression"),
        ({"pre_steps": [{**STOP, "fail_return": "{{ctx.x"}]}, "pre_steps.0.fail_return", "bad_template"),
        ({"pre_steps": [{"url": "{{base_url}}/{{order}}"}]}, "pre_steps.0.url", "unknown_namespace"),
    ],
)
def test_a_mistake_is_found_at_its_place(document: dict[str, Any], where: str, code: str) -> None:
    found = mistakes(**document)
    assert [(problem.where, problem.code) for problem in found] == [(f"tools.t.{where}", code)]
    assert found[0].what


def test_all_mistakes_are_found_at_once_with_columns_of_the_text() -> None:
    found = mistakes(
        url="{{base_url}}/a/{{nope.x}}", params={"b": "{{c.d}}"}, store_in_ctx={"e": "f"}, success_if="g("
    )
    assert {problem.where.removeprefix("tools.t.") for problem in found} == {
        *("url", "params.b", "store_in_ctx.e", "success_if")
    }
    assert next(p.column for p in found if p.where.endswith("url")) == 18


def test_the_path_of_the_base_url_stands_before_that_of_the_tool() -> None:
    origin, beginning = parse_url("{{ base_url }}?x=1").beginning("https://api.example/v 1/")
    assert (str(origin), beginning) == ("https://api.example", "/v%201")


def test_a_tool_has_the_time_of_its_requests_together_to_a_bound() -> None:
    steps = [{"url": "{{base_url}}/s", "timeout_s": 40}, {**STOP}]
    tool = {"type": "http", "url": "{{base_url}}/x", "timeout_s": 5}
    one = compile_tool("t", HttpTool.model_validate(tool))
    many = compile_tool("t", HttpTool.model_validate({**tool, "pre_steps": steps, "timeout_s": 30}))
    assert (one.timeout_s, many.timeout_s) == (5, MAX_TOOL_S)
