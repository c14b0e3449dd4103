"""What is said of a node: its values as a person would say them, within a limit, and no secret."""

from typing import Any

import pytest

from datasources.types import Node
from tools.node_meaning import facts_of, line_of, write_facts
from tools.node_meaning.writing import by_relevance, shorten


def node(node_type: str, data: Any = None, **parameters: Any) -> Node:
    given = {"name": "N", "parameters": parameters} if data is None else data
    return Node.model_validate({"_key": "n", "graphKey": "g", "type": node_type, "data": given})


def said(node_type: str, data: Any = None, **parameters: Any) -> str | None:
    return write_facts(facts_of(node(node_type, data, **parameters)), 2_000)


def condition(left: str, kind: str, operation: str, right: Any = "", **more: Any) -> dict[str, Any]:
    operator = {"type": kind, "operation": operation, **more}
    return {"id": "6b7e", "leftValue": left, "operator": operator, "rightValue": right}


def group(*conditions: dict[str, Any], combinator: str = "and") -> dict[str, Any]:
    options = {"version": 2, "leftValue": "", "caseSensitive": True, "typeValidation": "strict"}
    return {"options": options, "combinator": combinator, "conditions": list(conditions)}


AMOUNT = condition("={{ $json.amount }}", "number", "gt", 200)
VIP = condition("={{ $json.vip }}", "boolean", "true", singleValue=True)


@pytest.mark.parametrize(
    ("conditions", "text"),
    [
        (group(AMOUNT), "$json.amount > 200"),
        (group(AMOUNT, VIP, combinator="or"), "$json.amount > 200 or $json.vip is true"),
        (
            group(condition("={{ $json.mail }}", "string", "notContains", "@x.org"), VIP),
            "$json.mail does not contain @x.org and $json.vip is true",
        ),
        (
            group(condition("={{ $json.id }}", "string", "startsWith", "a")),
            "$json.id starts with a",
        ),
        (group(condition("", "string", "equals")), None),
        ({"number": [{"value1": "={{ $json.a }}", "value2": 5}]}, "$json.a < 5"),
        (
            {"string": [{"value1": "={{ $json.a }}", "operation": "isNotEmpty"}], "boolean": []},
            "$json.a is not empty",
        ),
    ],
)
def test_a_condition_is_written_as_left_operation_right(conditions: Any, text: str | None) -> None:
    assert said("n8n-nodes-base.if", conditions=conditions, options={}) == text


def test_each_output_of_a_switch_is_written_with_its_condition() -> None:
    rules = {
        "values": [
            {"outputKey": "large", "renameOutput": True, "conditions": group(AMOUNT)},
            {"conditions": group(VIP)},
        ]
    }
    options = {"fallbackOutput": "extra", "renameFallbackOutput": "rest"}
    text = said("n8n-nodes-base.switch", rules=rules, options=options)
    assert text is not None
    assert text.startswith("large ← $json.amount > 200; 1 ← $json.vip is true; rest ← otherwise")
    older = {"rules": [{"value2": "a"}, {"output": 1, "value2": "b", "operation": "contains"}]}
    text = said("n8n-nodes-base.switch", rules=older, value1="={{ $json.k }}", dataType="string")
    assert text == "0 ← $json.k = a; 1 ← $json.k contains b"


@pytest.mark.parametrize(
    ("node_type", "parameters", "line"),
    [
        (
            "httpRequest",
            {"url": "=https://x.org/{{ $json.id }}", "method": "PUT"},
            "PUT https://x.org/{{ $json.id }}",
        ),
        ("httpRequest", {"url": "https://x.org", "options": {}}, "GET https://x.org"),
        ("webhook", {"path": "orders", "httpMethod": "POST"}, "POST /orders"),
        (
            "set",
            {
                "assignments": {
                    "assignments": [{"name": "a", "type": "string", "value": "=1{{ $json.b }}"}]
                }
            },
            "a = 1{{ $json.b }}",
        ),
        ("set", {"values": {"number": [{"name": "n", "value": 3}]}}, "n = 3"),
        (
            "scheduleTrigger",
            {"rule": {"interval": [{"field": "days", "triggerAtHour": 9}]}},
            "every day at 09:00",
        ),
        (
            "googleSheets",
            {
                "operation": "append",
                "sheetName": {
                    "__rl": True,
                    "mode": "list",
                    "value": "gid=0",
                    "cachedResultName": "Orders",
                },
            },
            "append; sheetName: Orders (gid=0)",
        ),
        (
            "postgres",
            {"operation": "executeQuery", "query": "DELETE FROM t"},
            "execute query; query: DELETE FROM t",
        ),
        ("slack", {"resource": "message", "operation": "post", "text": "hi"}, "post message"),
        ("wait", {"amount": 4, "unit": "minutes"}, "4 minutes"),
        ("limit", {"maxItems": 3}, "first 3 items"),
        (
            "merge",
            {"mode": "combine", "combineBy": "combineByPosition"},
            "combine, combine by position",
        ),
        (
            "lmChatOpenAi",
            {"model": {"__rl": True, "mode": "list", "value": "gpt-4o"}},
            "model: gpt-4o",
        ),
    ],
)
def test_the_line_of_an_n8n_node_says_what_it_does(
    node_type: str, parameters: dict[str, Any], line: str
) -> None:
    assert line_of(facts_of(node(f"n8n-nodes-base.{node_type}", **parameters))) == line


@pytest.mark.parametrize(
    ("node_type", "parameters", "line"),
    [
        (
            "inject",
            {"payload": "on", "payloadType": "str", "repeat": "30"},
            "every 30 s; payload = on",
        ),
        ("inject", {"payload": "", "payloadType": "date", "once": True}, "at start; payload = now"),
        (
            "change",
            {
                "rules": [
                    {"t": "set", "p": "payload", "pt": "msg", "to": "a", "tot": "flow"},
                    {"t": "delete", "p": "x"},
                ]
            },
            "msg.payload = flow.a; delete msg.x",
        ),
        (
            "switch",
            {
                "property": "t",
                "propertyType": "msg",
                "rules": [{"t": "btwn", "v": "1", "v2": "5"}, {"t": "else"}],
            },
            "1 ← msg.t between 1 and 5; 2 ← otherwise",
        ),
        ("http request", {"method": "POST", "url": "https://x.org"}, "POST https://x.org"),
        ("http in", {"method": "get", "url": "/a"}, "GET /a"),
        ("mqtt out", {"topic": "home/fan", "broker": "b"}, "topic home/fan"),
        ("delay", {"pauseType": "delay", "timeout": "5", "timeoutUnits": "seconds"}, "5 seconds"),
        (
            "delay",
            {
                "pauseType": "rate",
                "rate": "1",
                "nbRateUnits": "2",
                "rateUnits": "minute",
                "drop": True,
            },
            "1 per 2 minute, others dropped",
        ),
        ("catch", {"scope": None}, "errors of all nodes"),
        (
            "api-call-service",
            {"domain": "light", "service": "turn_on", "entityId": ["light.hall"]},
            "light.turn_on on light.hall",
        ),
        (
            "api-current-state",
            {"entity_id": "sensor.t", "halt_if": "28", "halt_if_compare": "gte"},
            "sensor.t >= 28",
        ),
    ],
)
def test_the_line_of_a_node_red_node_says_what_it_does(
    node_type: str, parameters: dict[str, Any], line: str
) -> None:
    assert line_of(facts_of(node(node_type, **parameters))) == line


def test_what_an_editor_stores_for_itself_is_left_out_and_defaults_come_last() -> None:
    text = said(
        "n8n-nodes-base.googleSheets",
        operation="append",
        simple=False,
        columns={
            "mappingMode": "defineBelow",
            "value": {"Day": "={{ $now }}"},
            "schema": [{"id": "Day", "displayName": "Day", "canBeUsedToMatch": True}],
            "matchingColumns": ["id"],
            "attemptToConvertTypes": False,
        },
        options={},
    )
    assert text == "append; Day = $now; matched by: id; simple: false"


def test_fields_of_a_node_of_an_unknown_type_are_said_with_their_names() -> None:
    data = {
        "name": "N",
        "url": "https://x",
        "headers": [{"name": "A", "value": "1"}],
        "on": {"retries": 3},
    }
    assert said("my-type", data) == "url: https://x; name: A; headers: 1; retries: 3"
    assert said("my-type", "just a text") == "just a text"
    assert said("my-type", {"name": "N"}) is None


def test_secrets_are_never_written() -> None:
    key = "sk-proj-" + "a1B2" * 10
    text = said(
        "n8n-nodes-base.httpRequest",
        url=f"https://x.org/?api_key={'k' * 12}",
        headerParameters={"parameters": [{"name": "X-API-Key", "value": "hunter2hunter2"}]},
        jsonBody=f'{{"token": "{key}"}}',
        password="correct horse",
    )
    assert text is not None
    assert not any(secret in text for secret in (key, "hunter2", "k" * 12, "correct horse"))
    assert "X-API-Key = (secret left out)" in text


def test_what_does_not_fit_is_counted_and_no_value_is_cut_without_saying_so() -> None:
    columns = {f"column{i}": f"value {i} " * 5 for i in range(30)}
    facts = facts_of(
        node("n8n-nodes-base.airtable", columns={"mappingMode": "defineBelow", "value": columns})
    )
    text = write_facts(facts, 300)
    assert text is not None
    assert len(text) < 340
    *shown, rest = text.split("; ")
    assert rest == f"…+{30 - len(shown)} values"
    assert all(value in text for value in [f.text for f in facts][: len(shown)])


def test_of_a_long_text_the_passage_that_a_question_asks_for_is_shown() -> None:
    prompt = (
        "You are a clerk. " * 40 + "Refunds above 300 euros need the manager. " + "Be polite. " * 60
    )
    words = frozenset({"refund", "manag"})
    facts = by_relevance(
        facts_of(node("@n8n/n8n-nodes-langchain.agent", prompt="x", text=prompt)), words
    )
    assert facts[0].label == "text"
    plain = write_facts(facts, 300)
    asked = write_facts(facts, 300, words)
    assert plain is not None
    assert asked is not None
    assert "Refunds" not in plain
    assert "Refunds above 300 euros need the manager" in asked
    assert asked.startswith("text: You are a clerk.")
    assert "…+" in asked


def test_a_hostile_node_is_bounded() -> None:
    wide = {f"k{i}": "x" * 5_000 for i in range(2_000)}
    deep: dict[str, Any] = {"v": "end"}
    for _ in range(500):
        deep = {"in": deep}
    for data in (wide, deep, {"parameters": {"list": [wide] * 5}}):
        facts = facts_of(node("n8n-nodes-base.set", {"name": "N", **data}))
        assert sum(len(fact.value) for fact in facts) <= 100_000
        assert len(write_facts(facts, 400) or "") < 500


def test_shorten_keeps_whole_words_and_counts_what_is_missing() -> None:
    text = " ".join(f"word{i}" for i in range(100))
    short = shorten(text, 50)
    head, _, missing = short.partition("…+")
    assert text.startswith(head + " ")
    assert int(missing.removesuffix(" chars")) == len(text) - len(head)
