"""Every endpoint is described with a true example: of the right form, and answered when it is sent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from jsonschema import Draft202012Validator

from server.api_docs import api_examples, operations
from tests.docs.reference import openapi
from tests.support.api_examples import NOT_SENT, sending


def fault(schema: Mapping[str, Any], value: Any) -> str | None:
    """Return where a value is not as a schema of the description says."""
    checked = Draft202012Validator({**schema, "components": openapi()["components"]})
    found = next(iter(checked.iter_errors(value)), None)
    return None if found is None else f"{found.json_path}: {found.message[:200]}"


def shown(operation: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any], Any]]:
    """Yield what an endpoint shows: each parameter, each body, its answer; with the schema of it."""
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
                    ((kind.get("schema", {}), kind["example"]) for kind in kinds if "example" in kind),
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
