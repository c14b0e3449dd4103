"""Every mistake of an agent document is found, with where it is, what it is and what is allowed."""

import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from jsonschema import Draft202012Validator
from pydantic import ValidationError

from graphrag.agents.agent_list import read_list
from graphrag.agents.document import SCHEMA_ID, AgentDocument, agent_schema
from graphrag.agents.document_check import WARNINGS, CheckedDocument, check_document
from graphrag.agents.loading import read_document
from graphrag.i18n import text
from tests.support.agent_documents import agent_document, fetched_document, mutated
from tests.support.document_codes import ERRORS, WORLD_ERRORS

Change = Callable[[dict[str, Any]], Any]


class Case(NamedTuple):
    """A change of a right document, and the one problem that it makes."""

    code: str
    where: str
    change: Change
    column: int | None = None


MISSING = object()


def put(path: str, value: Any) -> Change:
    """Return a change that sets or removes a member; numbers in the path are places of a list."""

    def change(document: dict[str, Any]) -> None:
        *parts, last = (int(part) if part.isdigit() else part for part in path.split("."))
        here: Any = document
        for part in parts:
            here = here[part]
        if value is MISSING:
            del here[last]
        else:
            here[last] = value

    return change


def case(
    code: str, path: str, value: Any, *, where: str | None = None, column: int | None = None
) -> Case:
    return Case(code, path if where is None else where, put(path, value), column)


PARAMETERS = "session.tools.0.parameters"
NO_SECRET = "tools.order_status.headers"
DEEP = json.loads('{"properties":{"a":' * 9 + "{}" + "}}" * 9) | {"type": "object"}
TRANSFER = {
    "type": "function",
    "name": "forward",
    "parameters": {"type": "object", "properties": {"destination": {"enum": ["sales", "boss"]}}},
}
CASES = [
    case("unsupported_version", "version", "1.0"),
    case("unknown_field", "agent.nam", "x"),
    case("unknown_field", "tools.cancel_order.pre_steps.0.header", {}),
    case("missing_field", "agent.name", MISSING),
    case("missing_field", "session.mode", MISSING),
    case("missing_field", "tools.end_call.type", MISSING),
    case("missing_field", "tools.order_status.url", MISSING),
    Case(
        "missing_field",
        "pre_call_checks.0.message",
        lambda d: d["pre_call_checks"][0].pop("message"),
    ),
    case("missing_field", "greeting", {}, where="greeting.unknown_customer"),
    Case(
        "missing_field",
        "tools.cancel_order.pre_steps.1.fail_return",
        lambda d: d["tools"]["cancel_order"]["pre_steps"][1].pop("fail_return"),
    ),
    case("wrong_type", "limits.max_calls", "10"),
    case("wrong_type", "chat.max_rounds", True),
    case("wrong_type", "graph_tools", ["search_nodes", 3], where="graph_tools.1"),
    case("wrong_type", "tools.order_status.body_builder", 3),
    case("wrong_type", "session", 3),
    case("out_of_range", "openai.speed", 2),
    case("out_of_range", "openai.max_output_tokens", 5000),
    case("out_of_range", "session.mode", "file"),
    case("out_of_range", "channels", []),
    case("out_of_range", "agent.timezone", "Mars/Olympus"),
    case("out_of_range", "agent.timezone", "../../etc/passwd"),
    case("out_of_range", "base_url", "https://h:0/"),
    case("out_of_range", "base_url", "https://h/?q=1"),
    case("out_of_range", "agent.language", "_"),
    case("bad_name", "agent.id", "-"),
    case("bad_name", "tools.a b", {"type": "builtin", "action": "hangup"}),
    case(
        "bad_name",
        "tools.order_status.on_success_flags",
        ["a-b"],
        where="tools.order_status.on_success_flags.0",
    ),
    case("bad_name", NO_SECRET, {"Host": "x"}, where=f"{NO_SECRET}.Host"),
    case("duplicate_name", "graphs", ["nba", "nba"], where="graphs.1"),
    Case(
        "duplicate_name",
        "session.tools.2.name",
        lambda d: d["session"]["tools"].append(d["session"]["tools"][1]),
    ),
    case("reserved_name", "tools.search_nodes", {"type": "http", "url": "https://a"}),
    case(
        "reserved_name",
        "tools.order_status.store_in_ctx",
        {"transcript": "$"},
        where="tools.order_status.store_in_ctx.transcript",
    ),
    case("unknown_voice", "openai.voice", "nova"),
    case("unsupported_audio_format", "openai.input_audio_format", "pcm16"),
    case("bad_template", "session.instructions", "Hello {{agent.name", column=18),
    case(
        "bad_template",
        "lifecycle.on_end.body",
        {"a": [{"b": "x {{}}"}]},
        where="lifecycle.on_end.body.a.0.b",
        column=5,
    ),
    case("unknown_namespace", "session.instructions", "{{args.x}}", column=3),
    case("unknown_namespace", "pre_call_checks.0.params.phone", "{{ ctx.x }}", column=4),
    case("unknown_namespace", "pre_call_checks.0.block_if", "session.x == 1", column=1),
    case("unknown_namespace", "lifecycle.on_no_action.body.text", "{{outcome}}", column=3),
    case("unknown_namespace", "tools.order_status.params.phone", "{{error}}", column=3),
    case("unknown_namespace", "greeting.condition_field", "args.name", column=1),
    case(
        "unknown_namespace", "tools.order_status.url", "https://a.example.com/{{ x.y }}", column=26
    ),
    case("out_of_range", "secrets.0.hosts", ["https://a"], where="secrets.0.hosts.0"),
    case("unknown_filter", "greeting.known_customer", "{{ctx.a | upper}}", column=11),
    case(
        "secret_not_allowed_here", "lifecycle.on_end.body.outcome", "{{secret.API_KEY}}", column=3
    ),
    case(
        "secret_not_allowed_here",
        "secrets.0.hosts",
        ["other.example.com"],
        where=f"{NO_SECRET}.Authorization",
    ),
    case("undeclared_secret", NO_SECRET, {"A": "{{secret.OTHER}}"}, where=f"{NO_SECRET}.A"),
    case("bad_expression", "tools.cancel_order.pre_steps.1.condition", "pre.a + 1", column=1),
    case("bad_expression", "lifecycle.on_no_action.condition", "ctx.a == f(1)", column=10),
    case(
        "bad_jsonpath",
        "tools.order_status.store_in_ctx",
        {"a": "$.a[?@.b ~ 1]"},
        where="tools.order_status.store_in_ctx.a",
        column=10,
    ),
    case("bad_schema", PARAMETERS, {"type": "string"}),
    case("bad_schema", PARAMETERS, {"type": "object", "$ref": "https://a/b"}),
    case("bad_schema", PARAMETERS, {"type": "object", "properties": {"a": {"type": "text"}}}),
    case("bad_schema", PARAMETERS, {"type": "object", "properties": {"a": {"pattern": "["}}}),
    case("host_not_literal", "tools.order_status.url", "https://{{args.host}}/", column=1),
    case("missing_base_url", "base_url", MISSING, where="lifecycle.on_end.url", column=1),
    case("both_body_and_builder", "tools.cancel_order.body_builder", "confirm_order"),
    case("body_with_get", "tools.order_status.body", {}),
    Case(
        "unknown_builder",
        "tools.cancel_order.body_builder",
        lambda d: d["tools"]["cancel_order"].update(body_builder="bake", body=None),
    ),
    case("unhandled_tool", "session.tools.0.name", "order_statu"),
    case("unknown_graph_tool", "graph_tools", ["search_node"], where="graph_tools.0"),
    case("propose_needs_editor", "permissions.role", "viewer"),
    case("unknown_destination", "voice.destinations", {}, where="tools.forward"),
    Case(
        "unknown_destination",
        "session.tools.2.parameters.properties.destination",
        lambda d: d["session"]["tools"].append(TRANSFER),
    ),
    case("unresolved_variable", "agent.name", "${NAME} of ${CITY}"),
    case("too_large", "session.instructions", "x" * 300_000, where=""),
    case("too_large", PARAMETERS, {"type": "object", "title": "x" * 17_000}),
    case(
        "too_large",
        PARAMETERS,
        {"type": "object", "properties": {"a": {"pattern": "(?:(?:a{999}){999}){999}"}}},
    ),
    case("too_deep", PARAMETERS, DEEP),
    case("too_deep", "tools.cancel_order.body.id", json.loads("[" * 40 + "]" * 40), where=""),
    Case("undeclared_tool", "tools.cancel_order", lambda d: d["session"]["tools"].pop()),
    case("unset_flag", "lifecycle.outcome_rules.0.flag", "askd"),
    case("ignored_field", "openai.temperature", 0.5),
    case("ignored_field", "openai.vad.type", "semantic_vad", where="openai.vad.threshold"),
    case("unknown_path", "tools.cancel_order.body.id", "{{args.ordr_id}}", column=3),
    case("unknown_path", "lifecycle.on_end.body.id", "{{ctx.cal_id}}", column=3),
    case("unset_value", "lifecycle.on_end.body.id", "{{ctx.weather}}", column=3),
    case("model_retires", "openai.model", "gpt-realtime"),
    case("unknown_model", "openai.model", "gpt-realtme-2.1"),
    case(
        "unknown_model",
        "openai.input_audio_transcription",
        {"model": "gpt-transcibe"},
        where="openai.input_audio_transcription.model",
    ),
    case(
        "model_retires",
        "openai.input_audio_transcription",
        {"model": "whisper-1"},
        where="openai.input_audio_transcription.model",
    ),
    Case(
        "no_fallback_outcome",
        "lifecycle.outcome_rules",
        lambda d: d["lifecycle"]["outcome_rules"].pop(),
    ),
    case("unused_secret", NO_SECRET, {}, where="secrets.0"),
    case("insecure_url", "base_url", "http://api.example.com"),
    case("insecure_url", "lifecycle.on_end.url", "http://198.51.100.7/x"),
]


def found(checked: CheckedDocument) -> list[tuple[str, str]]:
    return [(problem.code, problem.where) for problem in (*checked.errors, *checked.warnings)]


@pytest.mark.parametrize("document", [agent_document(), fetched_document()])
def test_a_right_document_has_nothing_wrong(document: dict[str, Any]) -> None:
    checked = check_document(document)
    assert found(checked) == []
    assert checked.agent.base_url == "https://api.example.com/v1"
    assert checked.agent.flags == {"asked"}
    assert check_document(json.dumps(document)).document == checked.document


@pytest.mark.parametrize("case", [*CASES])
def test_a_mistake_is_said_with_its_place(case: Case) -> None:
    document = agent_document()
    case.change(document)
    checked = check_document(document)
    problems = [
        p
        for p in (*checked.errors, *checked.warnings)
        if (p.code, p.where) == (case.code, case.where)
    ]
    assert len(problems) == 1, found(checked)
    assert problems[0].what
    assert problems[0].column == case.column
    assert problems[0].allowed or case.code in WARNINGS, problems[0]
    assert (checked.agent is None) == (case.code not in WARNINGS)


def test_every_code_of_a_document_has_a_case() -> None:
    needs_world = {"host_unknown", "model_not_tried", "no_voice_model", "transcription_refused"}
    assert {case.code for case in CASES} == (ERRORS | WARNINGS) - needs_world


def test_mistakes_of_the_shape_and_of_the_texts_are_said_at_once_and_nothing_that_follows_from_them() -> (
    None
):
    document = agent_document()
    # takes away a handler, a flag and the use of a secret
    put("tools.order_status.urll", "x")(document)
    put("base_urll", document.pop("base_url"))(document)
    put("session.instructions", "{{args.x}}")(document)
    put("tools.cancel_order.pre_steps.0.fail_if", "a + 1")(document)
    assert sorted(found(check_document(document))) == [
        ("bad_expression", "tools.cancel_order.pre_steps.0.fail_if"),
        ("unknown_field", "base_urll"),
        ("unknown_field", "tools.order_status.urll"),
        ("unknown_namespace", "session.instructions"),
    ]


def test_there_are_fifty_errors_at_most_and_the_nearest_name_is_said() -> None:
    document = agent_document() | {f"{'x' * 2_000}{i}": i for i in range(100)}
    errors = check_document(document).errors
    assert len(errors) == 50
    assert len(repr(errors)) < 100_000
    errors = check_document(agent_document() | {"lifecycl": {}}).errors
    assert "did you mean lifecycle?" in errors[0].what
    assert "pre_call_checks" in (errors[0].allowed or "")


@pytest.mark.parametrize("count", [80, pytest.param(1_000, marks=pytest.mark.slow)])
def test_no_changed_document_raises_and_a_refusal_names_where_what_and_what_is_allowed(
    count: int,
) -> None:
    chance = random.Random(count)
    refused = 0
    for _ in range(count):
        checked = check_document(
            mutated(chance.choice((agent_document(), fetched_document())), chance)
        )
        refused += bool(checked.errors)
        assert (checked.agent is None) == bool(checked.errors)
        assert {p.code for p in checked.errors} <= ERRORS
        assert {p.code for p in checked.warnings} <= WARNINGS
        for problem in checked.errors:
            assert problem.what
            assert problem.allowed
            assert problem.where or problem.code in ("too_large", "too_deep")
            assert problem.column is None or problem.column >= 1
            json.dumps(problem.what + problem.where).encode()
    assert count * 0.5 < refused < count


def test_the_documents_of_the_manual_are_right_and_each_code_has_a_meaning_in_both_languages(
    tmp_path: Path,
) -> None:
    manual = (Path(__file__).parents[3] / "docs" / "agents.md").read_text(encoding="utf-8")
    examples = re.findall(r"```(?:yaml|json)\n(.*?)```", manual, re.DOTALL)
    *documents, listed = examples
    assert len(documents) == 2
    assert [found(check_document(document)) for document in documents] == [[], []]
    (tmp_path / "list.yaml").write_text(listed)
    (tmp_path / "template.yaml").write_text(documents[0])
    assert read_list(tmp_path / "list.yaml").file.on_missing == "stop"
    for code in ERRORS | WORLD_ERRORS | WARNINGS:
        assert text(f"problem_{code}", "en") != text(f"problem_{code}", "fr")


SCHEMA: dict[str, Any] = agent_schema()


def fields() -> list[tuple[str, dict[str, Any]]]:
    parts = {"": SCHEMA, **SCHEMA["$defs"]}
    return [
        (f"{part}.{name}", field)
        for part, s in parts.items()
        for name, field in s.get("properties", {}).items()
    ]


def test_the_schema_is_one_and_every_field_has_a_description_and_an_example_that_fits() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["$id"] == SCHEMA_ID
    assert len(fields()) > 100
    for name, field in fields():
        assert field.get("description"), name
        for example in field["examples"]:
            Draft202012Validator({**field, "$defs": SCHEMA["$defs"]}).validate(example)


@pytest.mark.parametrize("count", [100, pytest.param(300, marks=pytest.mark.slow)])
def test_the_schema_and_the_model_agree_on_documents_right_and_changed(count: int) -> None:
    validator = Draft202012Validator(SCHEMA)
    chance = random.Random(count)
    accepted = 0
    for _ in range(count):
        document = chance.choice((agent_document(), fetched_document()))
        if chance.random() < 0.8:
            document = mutated(document, chance)
        read = read_document(document)
        if read.document is None or read.problems:
            continue
        try:
            AgentDocument.model_validate(read.document)
            fits = True
        except ValidationError as exc:  # what is wrong inside a template is for no JSON Schema
            fits = all("error" in error.get("ctx", {}) for error in exc.errors())
        assert validator.is_valid(read.document) == fits, read.document
        accepted += fits
    assert count * 0.1 < accepted < count * 0.8
