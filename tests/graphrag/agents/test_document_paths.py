"""Paths of a document are held against what can be there: arguments, stored
values, fields, extracts.
"""

from typing import Any

import pytest

from graphrag.agents.declared_tools import parameters_problem
from graphrag.agents.document_check import check_document
from tests.support.agent_documents import agent_document, fetched_document

NUMBER: dict[str, Any] = {"type": "integer"}
PERSON: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": NUMBER},
}


DEFS: dict[str, Any] = {"$defs": {"p": PERSON}}
TWO = {"x": {"$ref": "#/$defs/y"}, "y": {"$ref": "#/$defs/x"}}
TREE = {"n": {"properties": {"k": {"items": {"$ref": "#/$defs/n"}}}}}


def paths(document: dict[str, Any]) -> list[tuple[str, str]]:
    found = check_document(document).errors
    return [(each.where, each.what) for each in found if each.code == "unknown_path"]


def reading(text: str, parameters: dict[str, Any] | None = None) -> dict[str, Any]:
    """A document whose tool sends a text."""
    document = agent_document()
    document["tools"]["cancel_order"]["body"]["id"] = text
    if parameters is not None:
        document["session"]["tools"][1]["parameters"] = {"type": "object", **parameters}
        document["tools"]["cancel_order"]["pre_steps"] = []
    return document


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("{{args.numbr}}", "did you mean number?"),
        ("{{ args.numbr | default(args.number) }}", "number"),
        ("{{ args.number | default(args.nmber) }}", "number"),
        ("n {{ctx.cal_id}}", "did you mean call_id?"),
        ("{{ctx.had_conversaton}}", "had_conversation"),
        ("{{pre.targt.id}}", "did you mean target?"),
        ("{{targt.id}}", ""),
        ("{{agent.langage}}", "did you mean language?"),
    ],
)
def test_a_mistyped_path_is_an_error_with_what_is_meant(text: str, near: str) -> None:
    errors = check_document(reading(text)).errors
    assert [each.where for each in errors] == ["tools.cancel_order.body.id"]
    assert near in errors[0].what
    assert errors[0].column
    assert errors[0].allowed


@pytest.mark.parametrize(
    "text",
    [
        *(
            "{{args}}",
            "{{args.number}}",
            "{{ctx.call_id.any.thing}}",
            "{{ctx.asked}}",
            "{{ctx.transcript.0.role}}",
        ),
        *(
            "{{pre.target.what.ever}}",
            "{{target.id}}",
            "{{agent.timezone}}",
            "{{ctx.note}}",
            "{{caller_phone}}",
        ),
    ],
)
def test_what_can_be_there_is_none(text: str) -> None:
    assert paths(reading(text)) == []


@pytest.mark.parametrize(
    ("parameters", "right", "wrong"),
    [
        (
            {"properties": {"who": PERSON}},
            ["args.who.name", "args.who"],
            ["args.who.nme", "args.name"],
        ),
        (
            {"properties": {"all": {"type": "array", "items": PERSON}}},
            ["args.all.0.name"],
            ["args.all.0.nam"],
        ),
        (
            {"properties": {"who": {"$ref": "#/$defs/p"}}, "$defs": {"p": PERSON}},
            ["args.who.age"],
            ["args.who.ag"],
        ),
        ({"properties": {"a": NUMBER}, "additionalProperties": True}, ["args.a", "args.b.c"], []),
        ({"properties": {"a": NUMBER}, "patternProperties": {"^x_": NUMBER}}, ["args.x_1"], []),
        (
            {"oneOf": [{"properties": {"a": NUMBER}}, {"properties": {"b": NUMBER}}]},
            ["args.a", "args.b"],
            ["args.c"],
        ),
        (
            {"properties": {"a": NUMBER}, "allOf": [{"properties": {"b": PERSON}}]},
            ["args.b.name"],
            ["args.b.x"],
        ),
        ({"properties": {"any": {}}}, ["args.any.thing.0"], ["args.all"]),
        ({"properties": {"tree": {"type": "object"}}}, ["args.tree.x.y"], []),
    ],
)
def test_arguments_are_looked_for_as_deep_as_their_schema_describes_them(
    parameters: dict[str, Any], right: list[str], wrong: list[str]
) -> None:
    for path in right:
        assert paths(reading(f"{{{{{path}}}}}", parameters)) == [], path
    for path in wrong:
        assert len(paths(reading(f"{{{{{path}}}}}", parameters))) == 1, path


def test_conditions_json_paths_headers_and_greetings_are_looked_at_too() -> None:
    document = agent_document()
    cancel = document["tools"]["cancel_order"]
    cancel["pre_steps"][0]["extract"] = {"target": "$.orders[?(@.number == {{args.nummer}})]"}
    cancel["pre_steps"][1]["condition"] = "pre.tarket.status == 'done' or ctx.askedd"
    cancel["headers"] = {"X-Order": "{{args.nr}}"}
    document["greeting"]["condition_field"] = "ctx.namee"
    document["lifecycle"]["on_no_action"]["condition"] = "not ctx.asket"
    assert {where for where, _ in paths(document)} == {
        "tools.cancel_order.pre_steps.0.extract.target",
        "tools.cancel_order.pre_steps.1.condition",
        "tools.cancel_order.headers.X-Order",
        "greeting.condition_field",
        "lifecycle.on_no_action.condition",
    }


def test_a_fetched_session_brings_arguments_and_fields_that_nobody_knows_before() -> None:
    document = fetched_document()
    tool = next(each for each in document["tools"].values() if each["type"] == "http")
    tool["headers"] = {"X-A": "{{args.anything}}", "X-B": "{{session.else.where}}"}
    assert paths(document) == []
    mapped = document["session"]["response_mapping"]["ctx_init"] = {"shop": "$.restaurant.name"}
    tool["headers"] = {"X-B": "{{session.restuarant.name}}", "X-C": "{{ctx.shop}}"}
    (found,) = paths(document)
    assert mapped
    assert "did you mean restaurant?" in found[1]


@pytest.mark.parametrize("read", ["ctx.weather", "session.customer.name"])
def test_what_nothing_sets_is_a_warning_once(read: str) -> None:
    warnings = check_document(reading(f"{{{{{read}}}}} {{{{{read}}}}}")).warnings
    assert [each.code for each in warnings] == ["unset_value"]
    assert read.startswith(warnings[0].what.removeprefix("nothing sets ").partition(":")[0])


def test_a_document_that_was_stored_before_runs_on() -> None:
    document = reading("{{args.numbr}}")
    assert check_document(document).agent is None
    assert check_document(document, is_stored=True).agent is not None


@pytest.mark.parametrize(
    "parameters",
    [
        {"$ref": "#"},
        {"properties": {"a": {"$ref": "#/properties/a"}}},
        {
            "properties": {"a": {"$ref": "#/$defs/x"}},
            "$defs": {"x": {"$ref": "#/$defs/y"}, "y": {"$ref": "#/$defs/x"}},
        },
        {
            "properties": {"a": {"$ref": "#/$defs/n"}},
            "$defs": {"n": {"properties": {"k": {"items": {"$ref": "#/$defs/n"}}}}},
        },
        {"$defs": {"x": {"anyOf": [{"not": {"$ref": "#/$defs/x"}}]}}},
    ],
)
def test_a_reference_that_leads_back_to_itself_is_refused(parameters: dict[str, Any]) -> None:
    bad = parameters_problem({"type": "object", **parameters})
    assert bad is not None
    assert bad.code == "bad_schema"
    assert "leads back to itself" in bad.what
    assert not check_document(reading("x", parameters)).agent


def test_references_that_end_are_taken_however_often_one_is_used() -> None:
    defs = {
        "p": PERSON,
        **{f"r{i}": {"anyOf": [{"$ref": f"#/$defs/r{i + 1}"}] * 5} for i in range(6)},
    }
    defs["r6"] = {"$ref": "#/$defs/p"}
    both = {name: {"$ref": "#/$defs/r0"} for name in "abc"}
    assert parameters_problem({"type": "object", "properties": both, "$defs": defs}) is None
    data = {"a": {"enum": [{"$ref": "#"}], "default": {"$ref": "#/properties/a"}}}
    assert parameters_problem({"type": "object", "properties": data}) is None


@pytest.mark.parametrize(
    "schema", [{"properties": 7}, {"anyOf": 3}, {"allOf": {"a": 1}}, {"properties": ["x"]}]
)
def test_a_schema_of_a_wrong_form_is_no_fault_of_the_path_check(schema: dict[str, Any]) -> None:
    document = reading("{{args.order.id}}", {"type": "object", "properties": {"order": schema}})
    assert check_document(document) is not None
