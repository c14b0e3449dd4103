"""The description of all endpoints with an example of each: its parameters, body and answer.

The examples stand in `api_examples.json`, in an order in which they can be sent one after the other; the
answers are those of a server that was sent them (`python -m tests.support.api_examples`). Examples of bodies
that stand beside their route stay as they are.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from fastapi import FastAPI

FILE = Path(__file__).with_suffix(".json")
METHODS = ("get", "put", "post", "patch", "delete")


@cache
def api_examples() -> Mapping[str, Any]:
    """Return `parameters` by name, and `operations` by method and path. For reading."""
    return json.loads(FILE.read_text(encoding="utf-8"))


def described_api(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI description of an application, with the examples."""
    described = app.openapi()
    for name, operation in operations(described):
        example = api_examples()["operations"].get(name)
        if example is not None:
            _add(operation, example)
    return described


def operations(described: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the endpoints of a description, each by its method and path."""
    for path, methods in described["paths"].items():
        for method in METHODS:
            if method in methods:
                yield f"{method.upper()} {path}", methods[method]


def _add(operation: dict[str, Any], example: Mapping[str, Any]) -> None:
    named = api_examples()["parameters"]
    given = {**example.get("query", {}), **example.get("header", {})}
    for parameter in operation.get("parameters", []):
        name, schema = parameter["name"], parameter["schema"]
        parameter["example"] = given.get(name, named.get(name, schema.get("default")))
    for content in operation.get("requestBody", {}).get("content", {}).values():
        if "examples" not in content:
            content["example"] = example["body"]
    answer = next(answer for status, answer in operation["responses"].items() if status.startswith("2"))
    kinds = answer.get("content", {})
    if "answer" in example and kinds:
        is_text = isinstance(example["answer"], str)
        kind = next((kind for kind in kinds if (kind != "application/json") == is_text), next(iter(kinds)))
        kinds[kind]["example"] = example["answer"]
