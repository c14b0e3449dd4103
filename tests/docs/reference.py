"""The parts that tell a client what to send and what comes: providers, events, messages, endpoints, rooms."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Iterator
from functools import cache
from typing import Any

import grimp
from pydantic import BaseModel

from graphrag.agent import events
from graphrag.config import Settings
from graphrag.llm.prices import FREE
from graphrag.llm.registry import DETECTED, ENTRIES, ProviderEntry
from graphrag.log_events import LOG_EVENTS
from tests.docs.program import ROOMS

_METHODS = ("get", "post", "put", "patch", "delete")


def providers_part() -> str:
    """Return the table of providers, in the order in which a key turns them on."""
    first = [ENTRIES[name] for name in DETECTED]
    rest = [entry for name, entry in ENTRIES.items() if name not in DETECTED]
    rows = [
        "| provider | default model | its key | address | context (tokens) | price in / out ($ per 1M) |",
        "|---|---|---|---|---:|---|",
    ]
    return "\n".join([*rows, *(_provider_row(entry) for entry in (*first, *rest))])


def _provider_row(entry: ProviderEntry) -> str:
    local = entry.base_url is not None and "127.0.0.1" in entry.base_url
    key = f"`{entry.key_variable}`" if entry.key_variable else "none needed"
    address = "in this process" if entry.kind == "offline" else entry.base_url if local else "the provider's"
    if entry.kind != "offline" and entry.base_url is None:
        address, key = "`NODIUS_LLM_BASE_URL`", "`NODIUS_LLM_API_KEY`, if it wants one"
    price = "free" if entry.price == FREE else "as set" if entry.price is None else _price(entry)
    model = f"`{entry.model}`" if entry.model else "`NODIUS_MODEL`"
    return f"| `{entry.name}` | {model} | {key} | {address} | {entry.context_window:,} | {price} |"


def _price(entry: ProviderEntry) -> str:
    assert entry.price is not None
    return f"{entry.price.input:.2f} / {entry.price.output:.2f}"


def events_part() -> str:
    """Return the events of a turn with their facts."""
    rows = ["| event | facts | meaning |", "|---|---|---|"]
    for event in typing.get_args(events.Event):
        facts = ", ".join(f"`{name}`" for name in event.__dataclass_fields__)
        rows.append(f"| `{event.__name__}` | {facts} | {_cell(inspect.getdoc(event) or '')} |")
    return "\n".join(rows)


def log_events_part() -> str:
    """Return the events that operators build on."""
    rows = ["| event | level | facts | when |", "|---|---|---|---|"]
    for name, event in LOG_EVENTS.items():
        facts = ", ".join(f"`{fact}`" for fact in event.facts) or "–"
        rows.append(f"| `{name}` | {event.level} | {facts} | {event.meaning} |")
    return "\n".join(rows)


def messages_part() -> str:
    """Return the messages that a WebSocket client may send."""
    from server.ws_messages import FORMS

    rows = ["| message | must have | may have |", "|---|---|---|"]
    for name, form in FORMS.items():
        must, may = _fields(form)
        rows.append(f"| `{name}` | {', '.join(must) or '–'} | {', '.join(may) or '–'} |")
    return "\n".join(rows)


def _fields(form: type[BaseModel]) -> tuple[list[str], list[str]]:
    must, may = list[str](), list[str]()
    for name, field in form.model_fields.items():
        if name != "type":
            (must if field.is_required() else may).append(f"`{field.alias or name}`")
    return must, may


def endpoints_part() -> str:
    """Return what the OpenAPI description lists, by path."""
    rows = ["| method | path | what it does |", "|---|---|---|"]
    return "\n".join([*rows, *_endpoint_rows(openapi())])


def _endpoint_rows(description: dict[str, Any]) -> Iterator[str]:
    for path, methods in sorted(description["paths"].items()):
        for method in _METHODS:
            if method in methods:
                does = methods[method].get("description") or methods[method].get("summary") or ""
                yield f"| {method.upper()} | `{path}` | {_cell(does.split(chr(10) * 2)[0])} |"


@cache
def openapi() -> dict[str, Any]:
    """Return the description of the service in its default settings. For reading."""
    from server.app import create_app

    return create_app(Settings(_env_file=None, db="memory:")).openapi()


@cache
def diagram_part() -> str:
    """Return the rooms and what they really import, as a Mermaid flow chart."""
    graph = grimp.build_graph(*ROOMS)
    arrows = {
        (importer.split(".")[0], imported.split(".")[0])
        for importer in graph.modules
        for imported in graph.find_modules_directly_imported_by(importer)
    }
    lines = [f"    {a} --> {b}" for a, b in sorted(arrows) if a != b]
    return "\n".join(["```mermaid", "flowchart TD", *lines, "```"])


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
