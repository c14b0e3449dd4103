"""Nothing of another workspace is there: its keys behave as keys that nobody ever made up."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphrag.live.edits import rename_sheet
from tests.docs.reference import openapi
from tests.support.profiles import examples
from tests.support.scripted_provider import Says, ScriptedProvider, call
from tests.support.service import CHANGE, GRAPH, Service, service, with_a_codemod, with_a_run, with_an_agent

Asked = tuple[str, str, Any, dict[str, str]]
MARK = "NBA"
"""Stands in the sample graph, and nowhere else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Secrets:
    """What is in workspace `default`."""

    running: Service
    thread: str
    approval: str
    edit: int
    run: dict[str, str]

    @property
    def keys(self) -> dict[str, str]:
        edit = str(self.edit)
        more = {"thread_id": self.thread, "approval_id": self.approval, "edit_id": edit, "revision": edit}
        more |= {"node_key": "fetch-api", "model": f"graph:{GRAPH}"}
        return {**self.run, "graph_key": GRAPH, **more}


@asynccontextmanager
async def kept() -> AsyncIterator[Secrets]:
    provider = ScriptedProvider(Says(calls=[call("propose_update_node", CHANGE)]))
    async with service(provider, rate_limit=0, automations_at_once=0) as running, running.as_() as ed:
        run = {**await with_a_run(ed), **await with_a_codemod(ed), **await with_an_agent(running.state)}
        waits = (await ed.post("/api/ai/chat", json={"graphKey": GRAPH, "message": f"{MARK}: warn"})).json()
        live = await running.state.live.open("default", GRAPH)
        edit = (await live.edit("ed", None, rename_sheet, "0", f"{MARK} sheet")).timestamp
        yield Secrets(
            running=running,
            thread=waits["threadId"],
            approval=waits["approvals"][0]["id"],
            edit=edit,
            run=run,
        )


def strangers(running: Service) -> list[httpx2.AsyncClient]:
    """People of other workspaces: one has the same name, one the highest role, one a similar workspace."""
    return [
        running.as_("ed", "admin", "other"),
        running.as_("eve", "admin", "other", "third"),
        running.as_("ed", "editor", "Default"),
    ]


def described() -> dict[str, Any]:
    """The paths of the service's OpenAPI description."""
    return openapi()["paths"]


def endpoints() -> list[tuple[str, str]]:
    """Method and path of every endpoint that is described."""
    paths = described()
    ours = [path for path in paths if path.startswith(("/api/", "/v1/"))]
    return [(m.upper(), path) for path in ours for m in paths[path]]


HELLO = [{"role": "user", "content": "hello"}]
BLOCKS = [{"id": "b1", "type": "USE", "target": {"kind": "node", "key": "error-handler"}}]


def bodies(keys: dict[str, str]) -> dict[str, Any]:
    """A body for every endpoint that takes one."""
    return {
        "/api/ai/chat": {"graphKey": keys["graph_key"], "message": "hello"},
        "/api/ai/chat thread": {
            "graphKey": keys["graph_key"],
            "message": "hello",
            "threadId": keys["thread_id"],
        },
        "/api/agui/{graph_key}": {
            "threadId": keys["thread_id"],
            "runId": "run",
            "resume": [
                {"interruptId": keys["approval_id"], "status": "resolved", "payload": {"approved": True}}
            ],
        },
        "/v1/chat/completions": {"model": f"graph:{keys['graph_key']}", "messages": HELLO},
        "/v1/responses": {
            "model": f"graph:{keys['graph_key']}",
            "input": "hello",
            "previous_response_id": f"resp_{keys['thread_id']}",
        },
        "/api/enrichments/preview": {"graphKey": keys["graph_key"], "blocks": BLOCKS},
        "/api/ai/chat blocks": {"graphKey": keys["graph_key"], "message": "hello", "blocks": BLOCKS},
        "/api/ai/resume": {
            "threadId": keys["thread_id"],
            "approved": True,
            "approvalId": keys["approval_id"],
        },
        "/api/ai/threads": {"graphKey": keys["graph_key"]},
        "/api/ai/thread/{thread_id}/answer": {"response": True},
        "/api/approvals/{approval_id}/decision": {"verdict": "approve"},
        "/api/graphs/{graph_key}/undo": {"approvalId": keys["approval_id"]},
        "/api/graphs/{graph_key}": {"name": "Mine"},
        "/api/graphs/{graph_key}/duplicate": {"name": "Mine"},
        "/api/graphs/{graph_key}/tidy": {},
        "/api/graphs/{graph_key}/paste": {"text": "{}", "x": 0, "y": 0, "sheet": "0"},
        "/api/graphs/{graph_key}/copy": {"nodes": ["fetch-api"], "format": "n8n"},
        "/api/codemods": {"old": "https://api.example.com", "new": "https://example.org"},
        "/api/codemods/{codemod_id}/decision": {"verdict": "approve"},
        "/api/codemods/{codemod_id}/undo": {},
        "/api/approvals/{approval_id}/comments": {"text": "Seen."},
        "/api/approvals/decisions": {"approvalIds": [keys["approval_id"]], "verdict": "approve"},
        "/api/ai/thread/{thread_id}": {"title": "Mine"},
        "/api/graphs/{graph_key}/revisions/{revision}/restore": {"propose": True},
        "/api/automations": {"graphKey": keys["graph_key"], "name": "Mine", "message": "hello"},
        "/api/automations thread": {
            "graphKey": keys["graph_key"],
            "name": "Mine too",
            "fromThreadId": keys["thread_id"],
        },
        "/api/automations/{automation_id}": {"version": 1, "name": "Mine"},
        "/api/sessions/{session_id}/answer": {"approved": True},
        "/api/sessions/{session_id}/confirm": {"end": True},
        "/api/settings/test": {"provider": "openai"},
        "/api/schedules/preview": {"cron": "0 2 * * *", "timezone": "UTC"},
        "/api/agents/{agent_id}/rollback": {"version": 1},
        "/api/agents/{agent_id}/tools/{name}/try": {},
    }


def requests_of(keys: dict[str, str]) -> list[Asked]:
    """Every endpoint with these keys: method, path, body, query."""
    found: list[Asked] = []
    given = bodies(keys)
    for method, template in endpoints():
        for name in [n for n in given if n.split(" ")[0] == template] or [""]:
            path = re.sub(r"\{(\w+)\}", lambda m: keys[m[1]], template)
            for query in ({"graphKey": keys["graph_key"]}, {"workspace": "default"}):
                if template != "/api/graphs/import":
                    found.append((method, path, given.get(name), query))
    return found


async def answer_to(client: httpx2.AsyncClient, asked: Asked, keys: dict[str, str]) -> tuple[int, str]:
    """Return the answer to a request, its keys made alike."""
    method, path, body, query = asked
    answer = await client.request(method, path, json=body, params=query)
    text = answer.text.replace(answer.headers["X-Request-ID"], "ID")
    for key in sorted(keys.values(), key=len, reverse=True):  # a run's key holds its automation's
        text = text.replace(key, "KEY")
    return answer.status_code, text


@pytest.mark.parametrize("asks_all", [False, pytest.param(True, marks=pytest.mark.slow)])
async def test_every_endpoint_answers_a_foreign_key_as_one_that_does_not_exist(asks_all: bool) -> None:
    """Each stranger asks for everything, or they take turns."""
    made_up = {
        "graph_key": "testgraph0x1",
        "thread_id": "f" * 32,
        "approval_id": f"ap_{'0' * 24}",
        "edit_id": "1700000000000",
        "revision": "1700000000000",
        "automation_id": "au_00000000",
        "agent_id": "hiddem-agent",
        "node_key": "fetch-apj",
        "model": "graph:testgraph0x1",
        "codemod_id": f"cm_{'0' * 24}",
        "name": "hiddem_tool",
        "delivery_id": "hiddem:on_end",
        "call_id": "hiddem-call",
        "key_id": "key_0000000000000000",
        "webhook_id": "msg_hiddem",
        "session_id": "auto/au_00000000/1700000000000",
    }
    async with kept() as secrets:
        real, fake = requests_of(secrets.keys), requests_of(made_up)
        assert len(real) > 40
        asked = list(zip(real, fake, strict=True))
        for turn, stranger in enumerate(strangers(secrets.running)):
            async with stranger:
                for foreign, nothing in asked if asks_all else asked[turn::3]:
                    status, text = await answer_to(stranger, foreign, secrets.keys)
                    assert status < 500, (foreign, text)
                    assert (status, text) == await answer_to(stranger, nothing, made_up), foreign
                    assert MARK not in text
                    assert "error-handler" not in text
        async with secrets.running.as_("rev", "reviewer") as reviewer, secrets.running.as_() as ed:
            found = (await reviewer.get(f"/api/approvals/{secrets.approval}")).json()
            assert found["status"] == "pending"
            assert (await ed.get(f"/api/ai/thread/{secrets.thread}/messages")).json()["status"] == "waiting"


async def test_an_import_does_not_tell_whether_a_key_is_taken_elsewhere() -> None:
    async with (
        kept() as secrets,
        secrets.running.as_() as ed,
        secrets.running.as_("eve", "admin", "other") as eve,
    ):
        before = (await ed.get(f"/api/graphs/{GRAPH}/nodes")).json()
        document = (await ed.get(f"/api/graphs/{GRAPH}/export")).json()
        document["nodes"] = document["nodes"][:1]
        document["edges"] = []
        for path in ("created", "unchanged"):
            answers: list[str] = []
            for key in (GRAPH, "testgraph0x1"):
                answer = await eve.post("/api/graphs/import", json=document, params={"graphKey": key})
                assert (answer.status_code, answer.json()["action"]) == (200, path)
                answers.append(answer.text.replace(key, "KEY"))
            assert answers[0] == answers[1]
        assert (await ed.get(f"/api/graphs/{GRAPH}/nodes")).json() == before
        assert len((await eve.get("/api/graphs")).json()["graphs"]) == 2


_KEYS = [GRAPH, GRAPH.upper(), f"{GRAPH} ", f"default/{GRAPH}", f"{GRAPH}-root", f"{GRAPH}%00", "%", "_", "*"]
_probes = st.tuples(
    st.sampled_from(_KEYS)
    | st.text(min_size=1, max_size=40).filter(lambda key: key not in (".", "..")),  # a URL has no such parts
    st.sampled_from(["default", "DEFAULT", "root", "other", "%", "", None]),
)


@given(probes=st.lists(_probes, min_size=20, max_size=40))
@settings(max_examples=examples(1 / 15))
@pytest.mark.slow
async def test_no_spelling_of_a_key_or_workspace_opens_another_one(
    probes: list[tuple[str, str | None]],
) -> None:
    async with kept() as secrets, secrets.running.as_("eve", "admin", "other") as eve:
        for key, workspace in probes:
            query = {} if workspace is None else {"workspace": workspace}
            for path in (f"/api/graphs/{quote(key, safe='')}", f"/api/graphs/{quote(key, safe='')}/nodes"):
                answer = await eve.get(path, params=query)
                assert answer.status_code in (404, 405, 422), answer.text
            for path in ("/api/graphs", "/api/approvals", "/api/audit"):
                answer = await eve.get(path, params={**query, "graphKey": key})
                assert answer.status_code in (200, 422), answer.text
                assert MARK not in answer.text
                assert GRAPH not in answer.text
