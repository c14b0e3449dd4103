"""Runs of AG-UI as tests send them, and their events as a client reads them."""

from __future__ import annotations

import itertools
import json
from typing import Any

import httpx2
from ag_ui.core import Event
from ag_ui_validate.pytest_plugin import assert_valid_agui
from pydantic import TypeAdapter

from tests.support.service import GRAPH

_numbers = itertools.count(1)
_EVENT: TypeAdapter[Any] = TypeAdapter(Event)


def said(text: str, key: str | None = None) -> dict[str, Any]:
    return {"id": key or f"u{next(_numbers)}", "role": "user", "content": text}


def resolved(interrupt: dict[str, Any], payload: Any) -> dict[str, Any]:
    return {"interruptId": interrupt["id"], "status": "resolved", "payload": payload}


def run_body(*messages: dict[str, Any], thread: str = "t1", **more: Any) -> dict[str, Any]:
    """A RunAgentInput as clients send it."""
    empty: dict[str, Any] = {"state": {}, "tools": [], "context": [], "forwardedProps": {}}
    return {
        "threadId": thread,
        "runId": f"r{next(_numbers)}",
        "messages": list(messages),
        **empty,
        **more,
    }


def parsed(text: str) -> list[dict[str, Any]]:
    """Read the events of an answer; each is one of the protocol's, and together they
    are a valid run.
    """
    found = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]
    for event in found:
        _EVENT.validate_python(event)
    assert_valid_agui(found, max_warnings=0)
    return found


async def run(
    client: httpx2.AsyncClient,
    *messages: dict[str, Any],
    thread: str = "t1",
    graph: str = GRAPH,
    **more: Any,
) -> list[dict[str, Any]]:
    """Send a run and return its events."""
    answer = await client.post(
        f"/api/agui/{graph}", json=run_body(*messages, thread=thread, **more)
    )
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/event-stream")
    return parsed(answer.text)


def of_type(events: list[dict[str, Any]], type_: str) -> list[dict[str, Any]]:
    return [event for event in events if event["type"] == type_]


def interrupts(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    outcome = events[-1]["outcome"]
    assert outcome["type"] == "interrupt", events[-1]
    return outcome["interrupts"]


def text_of(events: list[dict[str, Any]]) -> str:
    return "".join(event["delta"] for event in of_type(events, "TEXT_MESSAGE_CONTENT"))
