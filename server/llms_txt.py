"""Writes `/llms.txt`: what a model reads first of this service. Made of the API's own description.

Source: https://llmstxt.org (a title, a summary, sections of links).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final

from starlette.routing import BaseRoute, Match

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
    """Return the text of a service with these routes. `described` is its OpenAPI document."""
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
            said = str(operation.get("description", "")).split("\n")[0]
            by_tag[operation["tags"][0]].append((f"{method.upper()} {path}", said))
    for tag in sorted(by_tag):
        lines += [
            "",
            f"## Endpoints: {tag}",
            "",
            *(f"- [{name}](/openapi.json): {said}" for name, said in by_tag[tag]),
        ]
    return "\n".join(lines) + "\n"


def _is_served(path: str, routes: Iterable[BaseRoute]) -> bool:
    asked: dict[str, Any] = {"type": "http", "method": "POST", "path": path, "root_path": "", "headers": []}
    return any(route.matches(asked)[0] is Match.FULL for route in routes)


def _section(title: str, links: Iterable[tuple[str, str]]) -> list[str]:
    return ["", f"## {title}", "", *(f"- [{path}]({path}): {what}" for path, what in links)]
