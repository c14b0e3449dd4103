"""`/docs` and the descriptions behind it: from this server alone, complete, and usable
by other programs.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from jsonschema import Draft202012Validator

from server.api_docs import api_examples, operations
from server.pages import POLICY
from server.ws_messages import FORMS
from tests.docs.reference import openapi
from tests.support.api_examples import NOT_SENT, sending
from tests.support.service import service
from tests.support.ws_catalogue import SENT_FORMS, ws_description


async def test_the_pages_of_the_api_load_only_what_this_server_has() -> None:
    async with service() as running, running.client() as client:
        page = await client.get("/docs")
        named = [*re.findall(r'(?:src|href)="(/[^"]*)"', page.text)]
        parts = {name: await client.get(name) for name in named if name != "/"}
        gone = (
            await client.get("/docs/../server/app.py"),
            await client.get("/docs/redoc.standalone.js"),
        )
    assert page.headers["content-security-policy"] == POLICY
    assert not re.search(r"https?://|<script>|<style|style=|\son\w+=", page.text)
    assert {"/docs/swagger-ui-bundle.js", "/openapi.json", "/api/ws-messages.json"} <= parts.keys()
    for name, answer in parts.items():
        assert answer.status_code == 200, name
        assert answer.headers["content-encoding"] == "gzip"
        assert answer.headers["etag"]
    assert {answer.status_code for answer in gone} == {404}


async def test_the_messages_are_described_as_json_schema_that_other_programs_read() -> None:
    async with service() as running, running.client() as client:
        described = (await client.get("/api/ws-messages.json")).json()
    assert described == ws_description()
    Draft202012Validator.check_schema(described)
    for direction, types in (
        ("ClientMessage", set(FORMS)),
        ("ServerMessage", {name for name, _ in SENT_FORMS}),
    ):
        forms = [
            described["$defs"][one["$ref"].split("/")[-1]]
            for one in described["$defs"][direction]["oneOf"]
        ]
        kinds = [form["properties"]["type"] for form in forms]
        assert {name for kind in kinds for name in kind.get("enum", [kind.get("const")])} == types
        assert all(form.get("description") for form in forms)
    checked = Draft202012Validator({**described, "anyOf": [{"$ref": "#/$defs/ServerMessage"}]})
    assert checked.is_valid({"type": "ai:token", "_id": 1, "token": "a"})
    assert Draft202012Validator(described).is_valid(
        {"type": "ai:chat", "_id": 1, "graphKey": "a", "message": "b"}
    )
    sent = {"type": "deleteSheet", "key": "1", "graphKey": "g", "userId": "u", "timestamp": 1}
    assert checked.is_valid(sent)
    assert checked.is_valid(
        {"type": "deleteSheet", "key": "1", "mine": 1, "_response": {"status": True}}
    )
    assert not checked.is_valid({**sent, "mine": 1})
    assert not checked.is_valid({"type": "ai:token", "_id": 1, "token": "a", "more": 1})
    assert not checked.is_valid({"type": "ai:tokens", "_id": 1})


async def test_a_model_reads_first_what_the_service_really_has() -> None:
    async with service() as running, running.client() as client:
        answer = await client.get("/llms.txt")
        described = (await client.get("/openapi.json")).json()
        links = re.findall(r"(?m)^- \[([^]]+)\]\((/[^)]*)\): \S", answer.text)
        for to in {to for name, to in links if name == to}:
            shown = await client.get(to)
            assert shown.status_code in (200, 401, 405), to
    lines = answer.text.splitlines()
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert lines[0] == f"# {described['info']['title']}"
    assert lines[2] == f"> {described['info']['description']}"
    assert len(links) == sum(line.startswith("- ") for line in lines), (
        "each line is a link that says what is there"
    )
    named = {name for name, to in links if to == "/openapi.json"} - {"/openapi.json"}
    assert named == {
        f"{way.upper()} {path}" for path, ways in described["paths"].items() for way in ways
    }


def fault(schema: Mapping[str, Any], value: Any) -> str | None:
    """Return where a value is not as a schema of the description says."""
    checked = Draft202012Validator({**schema, "components": openapi()["components"]})
    found = next(iter(checked.iter_errors(value)), None)
    return None if found is None else f"{found.json_path}: {found.message[:200]}"


def shown(operation: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any], Any]]:
    """Yield what an endpoint shows: each parameter, each body, its answer; with the
    schema of it.
    """
    for parameter in operation.get("parameters", []):
        yield parameter["name"], parameter["schema"], parameter.get("example")
    for content in operation.get("requestBody", {}).get("content", {}).values():
        several = [one["value"] for one in content.get("examples", {}).values()]
        for value in several or [content.get("example")]:
            yield "body", content.get("schema", {}), value
    for status, answer in operation["responses"].items():
        if status.startswith("2"):
            kinds = answer["content"].values()
            yield (
                "answer",
                *next(
                    (
                        (kind.get("schema", {}), kind["example"])
                        for kind in kinds
                        if "example" in kind
                    ),
                    ({}, None),
                ),
            )


def test_every_endpoint_shows_examples_as_its_description_says() -> None:
    described = dict(operations(openapi()))
    assert described.keys() == api_examples()["operations"].keys(), "see `server/api_docs.py`"
    assert NOT_SENT.keys() <= described.keys()
    wrong = [
        f"{name}, {part}: {why}"
        for name, operation in described.items()
        for part, schema, value in shown(operation)
        if (why := "no example" if value is None else fault(schema, value)) is not None
    ]
    assert wrong == []


async def test_every_example_that_can_be_sent_is_answered_as_described() -> None:
    described = dict(operations(openapi()))
    sent: set[str] = set()
    async with sending() as examples:
        async for one in examples:
            assert one.answer.is_success, (one.name, one.answer.text)
            answers = described[one.name]["responses"][str(one.answer.status_code)]["content"]
            kind = one.answer.headers["content-type"].split(";")[0]
            assert fault(answers[kind].get("schema", {}), one.body) is None, one.name
            sent.add(one.name)
    assert sent == described.keys() - NOT_SENT.keys()
