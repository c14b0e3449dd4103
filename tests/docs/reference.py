"""The parts that tell a client what to send and what comes: providers, events,
messages, endpoints, rooms.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

import grimp
import networkx as nx
from pydantic import BaseModel

from graphrag.agent import events
from graphrag.config import Settings
from graphrag.llm.registry import DETECTED, ENTRIES, FREE, ProviderEntry
from tests.docs.log_events import LOG_EVENTS
from tests.docs.program import ROOMS, ROOT

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
    address = (
        "in this process"
        if entry.kind == "offline"
        else entry.base_url
        if local
        else "the provider's"
    )
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

    return _messages_table(dict.fromkeys(FORMS.values()))


def sent_messages_part() -> str:
    """Return the messages that the server sends."""
    from tests.support.ws_catalogue import SENT

    return _messages_table(SENT)


def _messages_table(forms: Iterable[type[BaseModel]]) -> str:
    from tests.support.ws_catalogue import types_of

    rows = ["| message | must have | may have | meaning |", "|---|---|---|---|"]
    for form in forms:
        must, may = _fields(form)
        types = ", ".join(f"`{name}`" for name in types_of(form))
        meaning = _cell(inspect.getdoc(form) or "")
        rows.append(f"| {types} | {', '.join(must) or '–'} | {', '.join(may) or '–'} | {meaning} |")
    return "\n".join(rows)


def _fields(form: type[BaseModel]) -> tuple[list[str], list[str]]:
    must = list[str]()
    may = list[str]()
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
    from server.api_docs import described_api
    from server.app import create_app

    return described_api(create_app(Settings(_env_file=None, db="memory:")))


@cache
def _imports() -> frozenset[tuple[str, str]]:
    graph = grimp.build_graph(*ROOMS)
    return frozenset(
        (importer, imported)
        for importer in graph.modules
        for imported in graph.find_modules_directly_imported_by(importer)
    )


def diagram_part() -> str:
    """Return the rooms and what they really import, as a Mermaid flow chart."""
    arrows = {(importer.split(".")[0], imported.split(".")[0]) for importer, imported in _imports()}
    return _flow_chart({(a, b) for a, b in arrows if a != b})


def packages_diagram_part() -> str:
    """Return the packages of `graphrag` and what they import, but for what is reached
    by another way.
    """
    packages = {path.parent.name for path in (ROOT / "graphrag").glob("*/__init__.py")}
    split = [(a.split("."), b.split(".")) for a, b in _imports()]
    arrows = {
        (a[1], b[1])
        for a, b in split
        if a[0] == b[0] == "graphrag"
        and len(a) > 1 < len(b)
        and a[1] != b[1]
        and {a[1], b[1]} <= packages
    }
    graph: nx.DiGraph[str] = nx.DiGraph(sorted(arrows))
    groups = nx.condensation(graph)
    names = {group: " + ".join(sorted(data["members"])) for group, data in groups.nodes(data=True)}
    reduced = nx.transitive_reduction(groups)
    return _flow_chart({(names[a], names[b]) for a, b in reduced.edges})


def _flow_chart(arrows: Iterable[tuple[str, str]]) -> str:
    lines = [f"    {a} --> {b}" for a, b in sorted(arrows)]
    return "\n".join(["```mermaid", "flowchart TD", *lines, "```"])


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
