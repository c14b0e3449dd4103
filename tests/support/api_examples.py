"""Sends the examples of the API's description to a service, one after the other.

`python -m tests.support.api_examples` writes the answers that come into `server/api_examples.json`.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx2

from datasources.base import Record
from datasources.types import ROOT_WORKSPACE
from graphrag.live.edits import rename_sheet
from graphrag.voice.call_records import Call
from server.api_docs import FILE, api_examples, operations
from tests.docs.reference import openapi
from tests.support.service import GRAPH, Service, service

Keys = dict[str, str]

NOT_SENT = {
    "POST /api/agui/{graph_key}": "its events bear times and ids of their own",
    "POST /api/ai/thread/{thread_id}/answer": "only a model asks a question, and here rules answer",
    "POST /api/sessions/{session_id}/confirm": "a run is about to end for seconds only",
    "POST /api/sessions/{session_id}/resume": "only a run that lost the network can be resumed",
    "POST /api/sessions/{session_id}/answer": "only a model proposes in a run",
    "POST /api/sessions/{session_id}/retry": "the automation of the run is removed by then",
    "POST /api/automations/{automation_id}/trial": "only a model works on a run to its end",
    "POST /api/deliveries/{delivery_id}/retry": "a delivery is owed only where an API was away",
    **dict.fromkeys(
        (
            "GET /api/connections",
            "POST /api/connections",
            "GET /api/connections/{connection_name}",
            "DELETE /api/connections/{connection_name}",
            "POST /api/connections/{connection_name}/sync",
            "GET /api/connections/{connection_name}/difference",
            "GET /api/graphs/{graph_key}/connections",
            "POST /api/connections/{connection_name}/pushes",
            "POST /api/connections/{connection_name}/publications",
            "POST /api/connections/{connection_name}/workflows",
            "GET /api/pushes",
            "GET /api/pushes/{push_id}",
            "POST /api/pushes/{push_id}/approve",
            "POST /api/pushes/{push_id}/reject",
            "POST /api/pushes/{push_id}/undo",
        ),
        "no workflow server runs there",
    ),
    "POST /api/settings/test": "it asks the service of a model",
    **dict.fromkeys(
        ("GET /api/administration/settings", "PUT /api/administration/settings"),
        "they name every setting that may be changed",
    ),
    "GET /api/administration/findings": "it examines this computer",
    **dict.fromkeys(
        (
            "POST /api/administration/backup",
            "GET /api/administration/backup",
        ),
        "a database in memory has no copy",
    ),
    "POST /api/agents/{agent_id}/talk": "the service of the model that speaks is not set up",
    "POST /api/calls/{call_id}/end": "a call is open only while somebody talks",
    "POST /voice/{workspace}/{agent_id}": "the telephone service signs it",
    "POST /voice/after/{call_id}": "the telephone service signs it",
    "POST /voice/answered/{call_id}": "the telephone service signs it",
    "POST /voice/recorded/{call_id}": "the telephone service signs it",
    "POST /voice/dialled/{call_id}": "the telephone service signs it",
}
"""Examples that no service of a test can be sent, and why; their answers are written by hand."""

MOST_ITEMS, MOST_CHARS, MOST_FIELDS, MOST_DEPTH = 2, 300, 45, 5
TIME = 1_767_225_600_000
TOOL_AGENT = {
    "version": "2.0",
    "agent": {"id": "helpdesk", "name": "Help desk"},
    "session": {"mode": "inline", "instructions": "Help with orders."},
    "tools": {
        "order_status": {
            "type": "http",
            "url": "https://api.example.com/orders/{{args.order_number}}",
        }
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SentExample:
    """An example with the answer that came, in which keys are those of the examples again."""

    name: str
    answer: httpx2.Response
    body: Any


class ExampleSender:
    """Sends examples as an admin. `keys`: what stands in an example -> what the service has
    in its place.
    """

    def __init__(self, running: Service, client: httpx2.AsyncClient) -> None:
        self.running = running
        self.client = client
        self.keys: Keys = {}
        self._named: Keys = {name: str(each) for name, each in api_examples()["parameters"].items()}
        self._proposals = 0

    async def send_all(self) -> AsyncGenerator[SentExample]:
        """Send every example that can be sent, in the order of the file."""
        described = dict(operations(openapi()))
        for name in api_examples()["operations"]:
            if name not in NOT_SENT:
                yield await self._send(name, described[name])

    async def _send(self, name: str, operation: dict[str, Any]) -> SentExample:
        if (before := _BEFORE.get(name)) is not None:
            await before(self)
        method, _, path = name.partition(" ")
        example = api_examples()["operations"][name]
        given = {each["name"]: each["example"] for each in operation.get("parameters", [])}
        path = re.sub(r"\{(\w+)\}", lambda match: str(given[match[1]]), path)
        body = example.get("body", _first_example(operation))
        answer = await self.client.request(
            method,
            self._real(path),
            params=example.get("query", {})
            and json.loads(self._real(json.dumps(example["query"]))),
            json=None if body is None else json.loads(self._real(json.dumps(body))),
            headers=example.get("header"),
        )
        if (after := _AFTER.get(name)) is not None and answer.is_success:
            after(self, answer.json())
        kind = answer.headers.get("content-type", "")
        text = self._alike(answer.text)
        return SentExample(
            name=name, answer=answer, body=json.loads(text) if "json" in kind else text
        )

    def learn(self, name: str, real: Any) -> None:
        """Note what the service has in place of a parameter's example."""
        self.keys[self._named[name]] = str(real)

    def _real(self, text: str) -> str:
        return _replaced(text, self.keys)

    def _alike(self, text: str) -> str:
        return _replaced(text, {real: shown for shown, real in self.keys.items()})

    async def proposal(self) -> None:
        """Make a proposal that waits; its thread and approval are those of the next examples."""
        self._proposals += 1
        message = f'rename error-handler to "Report error {self._proposals}"'
        made = await self.client.post("/api/ai/chat", json={"graphKey": GRAPH, "message": message})
        self.learn("thread_id", made.json()["threadId"])
        self.learn("approval_id", made.json()["approvals"][0]["id"])

    async def answered(self) -> None:
        """Make a conversation that waits for nothing."""
        body = {"graphKey": GRAPH, "message": "Who logs errors?"}
        self.learn(
            "thread_id", (await self.client.post("/api/ai/chat", json=body)).json()["threadId"]
        )

    async def webhook(self) -> None:
        """Store a request that nobody took."""
        data = {
            "event": "graph_changed",
            "inWorkspace": "default",
            "status": "expired",
            "attempts": 28,
        }
        times = {"createdTime": TIME, "nextTime": TIME + 1, "httpStatus": 503}
        records = self.running.state.backend.shared.database.records(ROOT_WORKSPACE)
        body = {
            "event": "graph_changed",
            "workspace": "default",
            "graphKey": GRAPH,
            "nodesSaved": 2,
        }
        key = self._named["webhook_id"]
        await records.put(
            Record(kind="webhook", key=key, data={**data, **times, "body": body}),
            expected_version=None,
        )

    async def agent_chat(self) -> None:
        """Begin a conversation with the agent."""
        body = {"graphKey": GRAPH, "agentId": "helpdesk", "message": "Hello"}
        self.learn(
            "thread_id", (await self.client.post("/api/ai/chat", json=body)).json()["threadId"]
        )

    async def edit(self) -> None:
        """Make a live edit."""
        live = await self.running.state.backend.live.open("default", GRAPH)
        edit = await live.edit("al", None, rename_sheet, "0", "first")
        await live.save()
        self.learn("edit_id", edit.timestamp)

    async def revision(self) -> None:
        found = (await self.client.get(f"/api/graphs/{GRAPH}/revisions")).json()["revisions"]
        self.learn("revision", found[-1]["revision"])

    async def with_tool(self) -> None:
        """Give the agent a tool."""
        await self.client.put("/api/agents/helpdesk", json={"document": TOOL_AGENT})

    async def call(self) -> None:
        """Store the record of a call."""
        made = Call(
            call_id=self._named["call_id"],
            agent_id="helpdesk",
            agent_version=1,
            workspace="default",
            channel="browser",
            status="ended",
            started_time=TIME,
            answered_time=TIME,
            ended_time=TIME + 42_000,
            end_reason="caller_hung_up",
        )
        await (await self.running.state.workspace("default")).calls.records.add(made)


@asynccontextmanager
async def sending() -> AsyncGenerator[AsyncGenerator[SentExample]]:
    """Send the examples to a service of their own."""
    async with (
        service(rate_limit=0, automations_at_once=0) as running,
        running.as_("al", "admin") as client,
        aclosing(ExampleSender(running, client).send_all()) as sent,
    ):
        yield sent


def _replaced(text: str, by: Keys) -> str:
    if not by:
        return text
    return re.sub(
        "|".join(re.escape(each) for each in sorted(by, key=len, reverse=True)),
        lambda m: by[m[0]],
        text,
    )


def _first_example(operation: dict[str, Any]) -> Any:
    for content in operation.get("requestBody", {}).get("content", {}).values():
        first = next(iter(content.get("examples", {}).values()), {"value": content.get("example")})
        return first["value"]
    return None


_BEFORE: dict[str, Callable[[ExampleSender], Awaitable[None]]] = {
    "GET /api/ai/thread/{thread_id}/messages": ExampleSender.proposal,
    "PATCH /api/ai/thread/{thread_id}": ExampleSender.answered,
    "GET /api/approvals": ExampleSender.proposal,
    "POST /api/ai/resume": ExampleSender.proposal,
    "POST /api/approvals/{approval_id}/decision": ExampleSender.proposal,
    "POST /api/approvals/decisions": ExampleSender.proposal,
    "GET /api/graphs/{graph_key}/revisions/{revision}": ExampleSender.revision,
    "GET /api/graphs/{graph_key}/history": ExampleSender.edit,
    "POST /api/ai/thread/{thread_id}/end": ExampleSender.agent_chat,
    "GET /api/calls": ExampleSender.call,
    "GET /api/webhooks": ExampleSender.webhook,
    "POST /api/agents/{agent_id}/tools/{name}/try": ExampleSender.with_tool,
    "DELETE /api/ai/thread/{thread_id}": ExampleSender.answered,
}
_AFTER: dict[str, Callable[[ExampleSender, Any], None]] = {
    "POST /api/automations": lambda sender, made: sender.learn("automation_id", made["id"]),
    "POST /api/automations/{automation_id}/run": lambda sender, made: sender.learn(
        "session_id", made["sessionId"]
    ),
    "POST /api/keys": lambda sender, made: sender.keys.update(
        {f"nodius_key_{'0' * 16}_{'x' * 43}": made["key"], f"key_{'0' * 16}": made["id"]}
    ),
    "POST /api/codemods": lambda sender, made: sender.learn("codemod_id", made["codemodId"]),
}


def shortened(value: Any, depth: int = 0) -> Any:
    """Return an answer as it is shown: few items of a list, the beginning of a long
    text, one time.
    """
    if isinstance(value, dict):
        shown = list(value.items())[: MOST_FIELDS if depth < MOST_DEPTH else 0]
        return {name: shortened(each, depth + 1) for name, each in shown}
    if isinstance(value, list):
        is_point = all(isinstance(each, int | float) for each in value)
        return [shortened(each, depth + 1) for each in (value if is_point else value[:MOST_ITEMS])]
    if isinstance(value, str) and len(value) > MOST_CHARS:
        return f"{value[:MOST_CHARS]}…"
    return TIME if isinstance(value, int) and value > TIME else value


async def record() -> None:
    """Write the answers that come into the file."""
    table = json.loads(FILE.read_text(encoding="utf-8"))
    async with sending() as sent:
        async for one in sent:
            print(
                one.answer.status_code,
                one.name,
                one.answer.text[:300] if one.answer.is_error else "",
            )
            example = table["operations"][one.name]
            example["answer"] = shortened(one.body, MOST_DEPTH - 2 if example.get("brief") else 0)
    FILE.write_text(json.dumps(table, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    os.chdir(FILE.parent)
    asyncio.run(record())
