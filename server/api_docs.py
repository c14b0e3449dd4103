"""Serves `/docs`: the API's pages, by Swagger UI from the package `fastapi-offline`, under
the page's policy.

Nothing of it is loaded from elsewhere; what programs read is at `/openapi.json`,
`/api/ws-messages.json` and `/llms.txt`.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import fastapi_offline
import orjson
from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import Response
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Match

from server.page_bundle import PageFile, page_file
from server.pages import file_answer

FILE = Path(__file__).with_name("api_examples.json")
METHODS = ("get", "put", "post", "patch", "delete")


@cache
def api_examples() -> Mapping[str, Any]:
    """Returns the examples: `parameters` by name, and `operations` by method and path. Read-only.

    A body is one `body`, or several named `examples`.
    """
    return json.loads(FILE.read_text(encoding="utf-8"))


def described_api(app: FastAPI) -> dict[str, Any]:
    """Returns the OpenAPI description of an application, with the examples."""
    described = app.openapi()
    for name, operation in operations(described):
        example = api_examples()["operations"].get(name)
        if example is not None:
            _add(operation, example)
    return described


def operations(described: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the endpoints of a description, each with its method and path."""
    for path, methods in described["paths"].items():
        for method in METHODS:
            if method in methods:
                yield f"{method.upper()} {path}", methods[method]


def _add(operation: dict[str, Any], example: Mapping[str, Any]) -> None:
    named = api_examples()["parameters"]
    given = {**example.get("query", {}), **example.get("header", {})}
    for parameter in operation.get("parameters", []):
        name = parameter["name"]
        schema = parameter["schema"]
        parameter["example"] = given.get(name, named.get(name, schema.get("default")))
    for content in operation.get("requestBody", {}).get("content", {}).values():
        kind = "examples" if "examples" in example else "example"
        content[kind] = example["examples"] if kind == "examples" else example["body"]
    answer = next(
        answer for status, answer in operation["responses"].items() if status.startswith("2")
    )
    kinds = answer.get("content", {})
    if "answer" in example and kinds:
        is_text = isinstance(example["answer"], str)
        kind = next(
            (kind for kind in kinds if (kind != "application/json") == is_text), next(iter(kinds))
        )
        kinds[kind]["example"] = example["answer"]


_OPEN_TO_AGENTS: Final = {
    "/mcp": "Model Context Protocol over streamable HTTP: read, search and propose with tools",
    "/v1/chat/completions": "OpenAI-compatible chat: a graph or an agent is a model of `/v1/models`",
    "/api/agui/{graph_key}": "AG-UI: runs with events, state and interrupts",
}
_DESCRIBED: Final = (
    ("/openapi.json", "OpenAPI of every endpoint, with examples"),
    ("/api/ws-messages.json", "JSON Schema of the WebSocket's messages"),
    ("/docs", "both, to read and to try"),
)


def llms_text(described: Mapping[str, Any], routes: list[BaseRoute]) -> str:
    """Returns `/llms.txt` of a service with these routes. `described`: its OpenAPI document."""
    info = described["info"]
    lines = [f"# {info['title']}", "", f"> {info['description']}", ""]
    lines.append(
        "Send `Authorization: Bearer TOKEN`, and `X-Nodius-Client: name/version` to say which program asks. "
        "A change that a model asks for is a proposal with a link, where a person decides it."
    )
    ways = [(path, what) for path, what in _OPEN_TO_AGENTS.items() if _is_served(path, routes)]
    lines += _section("For agents", ways) if ways else []
    lines += _section("Descriptions", _DESCRIBED)
    by_tag: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for path, operations in described["paths"].items():
        for method, operation in operations.items():
            summary = str(operation.get("description", "")).split("\n")[0]
            by_tag[operation["tags"][0]].append((f"{method.upper()} {path}", summary))
    for tag in sorted(by_tag):
        lines += [
            "",
            f"## Endpoints: {tag}",
            "",
            *(f"- [{name}](/openapi.json): {summary}" for name, summary in by_tag[tag]),
        ]
    return "\n".join(lines) + "\n"


def _is_served(path: str, routes: Iterable[BaseRoute]) -> bool:
    asked: dict[str, Any] = {
        "type": "http",
        "method": "POST",
        "path": path,
        "root_path": "",
        "headers": [],
    }
    return any(route.matches(asked)[0] is Match.FULL for route in routes)


def _section(title: str, links: Iterable[tuple[str, str]]) -> list[str]:
    return ["", f"## {title}", "", *(f"- [{path}]({path}): {what}" for path, what in links)]


router = APIRouter(include_in_schema=False)

_OURS = Path(__file__).with_name("api_page")
_SWAGGER = files(fastapi_offline) / "static"
_MESSAGES = Path(__file__).with_name("ws-messages.json")
_FILES = {
    "page.js": _OURS / "page.js",
    "page.css": _OURS / "page.css",
    "swagger-ui-bundle.js": _SWAGGER / "swagger-ui-bundle.js",
    "swagger-ui.css": _SWAGGER / "swagger-ui.css",
}


@router.api_route("/docs", methods=["GET", "HEAD"])
def api_docs(request: Request) -> Response:
    """Returns the page that describes all endpoints and messages."""
    return file_answer(request, page_file((_OURS / "index.html").read_bytes(), ".html"))


@router.api_route("/docs/{name}", methods=["GET", "HEAD"])
def api_docs_file(request: Request, name: str) -> Response:
    """Returns a script or style of that page."""
    if name not in _FILES:
        raise HTTPException(404)
    return file_answer(request, _file(_FILES[name]))


@router.api_route("/openapi.json", methods=["GET", "HEAD"])
def openapi(request: Request) -> Response:
    """Returns the description of all endpoints. Takes half a second, so it runs in a thread."""
    return file_answer(request, _described(request.app, "openapi.json"))


@router.api_route("/llms.txt", methods=["GET", "HEAD"])
def llms(request: Request) -> Response:
    """Returns the summary of the service for models."""
    return file_answer(request, _described(request.app, "llms.txt"))


@router.api_route("/api/ws-messages.json", methods=["GET", "HEAD"])
def ws_messages(request: Request) -> Response:
    """Returns the JSON Schema of all messages of the WebSocket."""
    return file_answer(request, _file(_MESSAGES))


@lru_cache(maxsize=2)
def _described(app: FastAPI, name: str) -> PageFile:
    content = {
        "openapi.json": lambda: orjson.dumps(described_api(app)),
        "llms.txt": lambda: llms_text(described_api(app), app.routes).encode(),
    }
    return page_file(content[name](), Path(name).suffix)


@cache
def _file(path: Path) -> PageFile:
    return page_file(path.read_bytes(), path.suffix)
