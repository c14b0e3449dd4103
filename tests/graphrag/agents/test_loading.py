"""Documents come as JSON or YAML, with variables, and from people who mean harm."""

import json
import time
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
import yaml

from cli.demo import SAMPLES
from graphrag.agents.document_check import check_document
from graphrag.agents.loading import read_document
from graphrag.samples.demo_api import BLOCKED_PHONE, DEFAULT_PORT, KNOWN_PHONE, DemoApi
from mock_data import load_json, load_text
from tests.support.agent_documents import agent_document

BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


def test_yaml_and_json_give_the_same_document() -> None:
    document = agent_document()
    for text in (
        yaml.safe_dump(document, allow_unicode=True),
        json.dumps(document),
        "\ufeff" + json.dumps(document),
    ):
        for source in (text, text.encode()):
            read = read_document(source)
            assert read.problems == []
            assert read.document == document


def test_yaml_has_the_values_of_json_and_no_others() -> None:
    text = """
        version: "2.0"
        date: 2025-01-15
        time: 12:30
        yes: no
        octal: 010
        hex: 0x1F
        words: [true, false, null, ~, True, .nan, .inf, 1_000]
        numbers: [1, -2, 1.5, 1e3]
        block: |
          a
          b
        empty:
        quoted: ["1", 'true', "null"]
    """
    assert read_document(text).document == {
        "version": "2.0",
        "date": "2025-01-15",
        "time": "12:30",
        "yes": "no",
        "octal": "010",
        "hex": "0x1F",
        "words": [True, False, None, None, "True", ".nan", ".inf", "1_000"],
        "numbers": [1, -2, 1.5, 1000.0],
        "block": "a\nb\n",
        "empty": None,
        "quoted": ["1", "true", "null"],
    }


@pytest.mark.parametrize(
    ("source", "code", "where"),
    [
        (BOMB, "wrong_type", ""),
        ("a: &a [*a]", "wrong_type", ""),
        ("<<: {a: 1}\na: !!python/object/apply:os.system [ls]", "wrong_type", ""),
        ("a: !!binary aGk=", "wrong_type", ""),
        ("[a]: 1", "wrong_type", ""),
        ("a: 1\n---\nb: 2", "wrong_type", ""),
        ("a: [", "wrong_type", ""),
        ("a: \x01", "wrong_type", ""),
        ("", "wrong_type", ""),
        ("- a", "wrong_type", ""),
        ("[1]", "wrong_type", ""),
        ('{"a": 1', "wrong_type", ""),
        ('{"a": NaN}', "wrong_type", ""),
        (b"\xff\xfe", "wrong_type", ""),
        ('{"a": {"b": "\\ud800"}}', "wrong_type", "a.b"),
        ('{"a": 1e999}', "out_of_range", "a"),
        ('{"a": ' + "9" * 5_000 + "}", "out_of_range", ""),
        ("a: " + "9" * 5_000, "", ""),
        ('{"a": {"b": 1, "b": 2}}', "duplicate_name", "a.b"),
        ("a:\n  b: 1\n  b: 2", "duplicate_name", "a.b"),
        ('{"a\\u0000b": 1}', "bad_name", ""),
        ("[" * 100_000, "too_deep", ""),
        ('{"a":' * 40_000, "too_deep", ""),
        ("a: " + "[" * 100_000, "too_deep", ""),
        ("a:\n" + "".join(" " * i + "- \n" for i in range(1, 300)), "too_deep", ""),
        ("x" * 256_001, "too_large", ""),
        ({"a": "é" * 130_000}, "too_large", ""),
        ({"a": {1, 2}}, "wrong_type", "a"),
        ({1: 2}, "bad_name", ""),
        ({"a": b"x"}, "wrong_type", "a"),
    ],
)
def test_what_is_no_document_is_refused_quickly(source: Any, code: str, where: str) -> None:
    begin = time.perf_counter()
    problems = read_document(source).problems
    assert time.perf_counter() - begin < 2
    assert [(problem.code, problem.where) for problem in problems] == (
        [(code, where)] if code else []
    )
    assert all(problem.what and problem.allowed for problem in problems)


def test_a_mistake_of_the_writing_says_its_line_and_column() -> None:
    for source in ('{\n "a": 1,\n "b" 2}', "a: 1\nb: [1\nc: 2"):
        problem = read_document(source).problems[0]
        assert "line 3" in problem.what
        assert problem.column is not None


def test_an_object_that_holds_itself_is_too_deep() -> None:
    document: dict[str, Any] = {}
    document["a"] = document
    assert [problem.code for problem in read_document(document).problems] == ["too_deep"]


def test_variables_stand_in_texts_only_once_and_cannot_change_the_shape() -> None:
    source = {"a": "${NAME} of ${CITY}", "${NAME}": ["${COUNT}", 1], "b": "${name} $NAME ${CITY"}
    variables = {"NAME": '"}, {"x": "${CITY}', "CITY": "Paris", "COUNT": "3"}
    assert read_document(source, variables).document == {
        "a": '"}, {"x": "${CITY} of Paris',
        "${NAME}": ["3", 1],
        "b": "${name} $NAME ${CITY",
    }
    problems = read_document(source, {"CITY": "Paris"}).problems
    assert [(p.code, p.where, p.what) for p in problems] == [
        ("unresolved_variable", "a", "no value for COUNT, NAME")
    ]


def test_variables_cannot_make_a_small_document_large() -> None:
    checked = check_document({"a": ["${A}" * 1_000] * 60}, {"A": "x" * 100_000})
    assert [problem.code for problem in checked.errors] == ["too_large"]
    assert read_document({"a": "${A}"}, {"A": "\udc80"}).problems[0].code == "wrong_type"


AGENTS = ("helpdesk", "incident_intake", "catalogue")


@pytest.fixture
def api() -> DemoApi:
    return DemoApi(lambda: 1736960400000)


@pytest.fixture
async def client(api: DemoApi) -> AsyncIterator[httpx2.AsyncClient]:
    transport = httpx2.ASGITransport(app=api.app())
    async with httpx2.AsyncClient(transport=transport, base_url="http://demo") as client:
        yield client


@pytest.mark.parametrize("name", [*AGENTS])
def test_sample_has_no_mistake_and_reads_graphs_of_the_demo(name: str) -> None:
    checked = check_document(load_text(f"agents/{name}.json"))
    assert (checked.errors, checked.warnings) == ((), ())
    document = checked.document
    assert set(document.graphs) <= set(SAMPLES.values())
    assert document.base_url == f"http://127.0.0.1:{DEFAULT_PORT}"


async def test_declarations_of_the_catalogue_fit_its_document(client: httpx2.AsyncClient) -> None:
    document = load_json("agents/catalogue.json")
    config = (await client.get("/config", params={"phone": KNOWN_PHONE})).json()
    document["session"] = {
        "mode": "inline",
        "instructions": config["systemPrompt"],
        "tools": config["tools"],
    }
    checked = check_document(document)
    assert checked.errors == ()
    assert {each.what for each in checked.warnings} == {"nothing sets session.customer: it is null"}
    assert config["customer"]["name"]
    assert (await client.get("/config")).json()["customer"] is None
    assert (await client.get("/blocked", params={"phone": BLOCKED_PHONE})).json() == {
        "blocked": True
    }


async def test_what_is_sent_is_kept_found_and_changed(
    api: DemoApi, client: httpx2.AsyncClient
) -> None:
    made = await client.post(
        "/orders", json={"customerPhone": KNOWN_PHONE, "total": 9}, headers={"Idempotency-Key": "k"}
    )
    order = made.json()["id"]
    assert (
        await client.patch("/orders", json={"id": order, "state": "cancelled"})
    ).status_code == 200
    found = (await client.get("/orders", params={"phone": KNOWN_PHONE})).json()["orders"]
    assert [(item["id"], item["state"]) for item in found] == [(order, "cancelled")]
    assert (await client.patch("/orders", json={"id": "none"})).status_code == 404
    assert (await client.post("/orders", content=b"[" * 100_000)).status_code == 422
    assert (await client.get("/services/none")).status_code == 404
    assert api.requests[0]["key"] == "k"


async def test_faults_on_demand_end_by_themselves(client: httpx2.AsyncClient) -> None:
    await client.put("/faults/orders", json={"status": 503, "times": 2})
    statuses = [(await client.get("/orders")).status_code for _ in range(3)]
    assert statuses == [503, 503, 200]
    await client.put("/faults/orders", json={"times": 9})
    await client.delete("/faults")
    assert (await client.get("/orders")).status_code == 200
    assert (await client.put("/faults/orders", json={"delay_s": 1e9})).status_code == 422
