"""The exported JSON Schema says what the model of the document says."""

from __future__ import annotations

import random
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pydantic import ValidationError

from graphrag.agents.document import SCHEMA_ID, AgentDocument, agent_schema
from graphrag.agents.loading import read_document
from tests.support.agent_documents import agent_document, fetched_document, mutated

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
