"""The view of a proposal for other programs: a document that loads nothing, bounded
data without secrets.
"""

import asyncio
import base64
import hashlib
import json
import re
from collections.abc import AsyncGenerator, Awaitable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
from mcp import Client

from graphrag.approvals import Approval
from graphrag.i18n import LANGUAGES
from server.channels.mcp_results import MAX_BYTES, MAX_ITEMS
from server.mcp.app_resource import app_html, resource_meta, tool_ui
from server.mcp.tool_answers import proposal_view
from server.workspaces import WorkspaceResolver
from tests.server.mcp.helpers import connected
from tests.support.agui_runs import interrupts, run, said
from tests.support.chosen_database import address_in
from tests.support.databases import nba_file
from tests.support.scripted_provider import Says, ScriptedProvider, call
from tests.support.served import Served, served
from tests.support.service import GRAPH, Service, service, token

KEY = "sk-proj-" + "Ab1" * 16


class Elements(HTMLParser):
    """The elements of a document with their attributes, and the text of scripts and styles."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {"script": [], "style": []}
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        tag = self.found[-1][0] if self.found else ""
        if tag in self.texts and data.strip():
            self.texts[tag].append(data)


def digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def test_the_document_loads_nothing_and_runs_only_its_own_script() -> None:
    elements = Elements(app_html())
    policy = next(a["content"] or "" for _, a in elements.found if a.get("http-equiv"))
    data, script = elements.texts["script"]
    (style,) = elements.texts["style"]
    assert policy.split("; ") == [
        "default-src 'none'",
        f"script-src {digest(script)}",
        f"style-src {digest(style)}",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    assert not [a for _, a in elements.found if {"src", "href", "style"} & set(a)]
    assert not [name for _, a in elements.found for name in a if name.startswith("on")]
    assert not re.search(r"url\((?!#)|@import", style)
    assert not re.search(
        r"\b(fetch|XMLHttpRequest|WebSocket|EventSource)\(", script.split("host/bridge.js")[1]
    )
    assert set(json.loads(data)["texts"]) == set(LANGUAGES)
    assert resource_meta()["ui"]["csp"] == {
        "connectDomains": [],
        "resourceDomains": [],
        "frameDomains": [],
    }


def test_every_text_that_the_script_names_comes_with_it() -> None:
    data, script = Elements(app_html()).texts["script"]
    english = json.loads(data)["texts"]["en"]
    named = set(re.findall(r'\bt\("([\w.]+)"', script)) | set(
        re.findall(r'say\("([\w.]+)"', script)
    )
    of_the_page_alone = {
        key for key in named - set(english) if key.startswith(("canvas.", "find.", "tidy."))
    }
    assert named - set(english) - of_the_page_alone == set()
    assert {
        "ghost.added",
        "state.pending",
        "state.expired",
        "view.open",
        "change.node.added",
    } <= set(english)
    assert len(english) < 200


def test_only_tools_that_propose_have_the_view() -> None:
    assert tool_ui("propose_update_node") == {"ui": {"resourceUri": "ui://nodius/proposal"}}
    assert tool_ui("search_nodes") is None


async def waiting(running: Service, message: str) -> tuple[Any, Approval]:
    async with running.as_() as ed:
        said = (await ed.post("/api/ai/chat", json={"graphKey": GRAPH, "message": message})).json()
        token = ed.headers["authorization"].removeprefix("Bearer ")
    identity = await running.state.authentication.authenticator.authenticate(token, "mcp")
    return await WorkspaceResolver(running.state.backend.workspaces, identity).of_approval(
        said["approvals"][0]["id"]
    )


async def test_a_view_has_the_graph_around_and_the_address_of_the_page() -> None:
    async with service() as running:
        place, approval = await waiting(running, 'rename error-handler to "Report error"')
        view = await proposal_view(place, approval, "en")
    assert view["link"].endswith(f"/#graph={GRAPH}&panel=review&approval={approval.id}")
    assert view["proposal"]["status"] == "pending"
    assert set(view["names"]) <= {approval.asker}
    assert view["proposal"]["preview"] == approval.preview
    assert "action" not in view["proposal"]
    nodes = {node["_key"] for node in view["around"]["nodes"]}
    assert nodes >= {"error-handler", "fetch-api"}
    assert {
        end for edge in view["around"]["edges"] for end in (edge["source"], edge["target"])
    } <= nodes
    assert {one["type"] for one in view["around"]["types"]} == {
        n["type"] for n in view["around"]["nodes"]
    }
    assert view["around"]["graph"]["name"] == "NBA Stats Pipeline"


async def test_a_view_is_bounded_and_masks_secrets() -> None:
    async with service() as running:
        place, approval = await waiting(running, 'rename error-handler to "Report error"')
        node = {
            "_key": "x",
            "type": "log-node",
            "sheet": "0",
            "data": {"text": f"key={KEY} " + "y" * 9_000},
        }
        many = approval.model_copy(update={"preview": {"nodesAdded": [node] * 500}})
        view = await proposal_view(place, many, "en")
        deep: Any = "z"
        for _ in range(50):
            deep = [deep]
        wide = {
            **node,
            "data": {str(i): {str(j): "w" * 1_900 for j in range(20)} for i in range(20)},
            "deep": deep,
        }
        huge = approval.model_copy(update={"preview": {"nodesAdded": [wide] * 5}})
        cut = await proposal_view(place, huge, "en")
    assert len(view["proposal"]["preview"]["nodesAdded"]) == MAX_ITEMS
    assert KEY not in json.dumps(view)
    assert (cut["proposal"]["preview"], cut["proposal"]["cut"]) == ({}, True)
    assert cut["proposal"]["title"]
    for each in (view, cut):
        assert len(json.dumps(each, ensure_ascii=False).encode()) <= MAX_BYTES


MODEL = f"graph:{GRAPH}"


def move(node_key: str, x: int) -> dict[str, Any]:
    return {"nodeKey": node_key, "posX": x, "posY": 7, "reason": "tidier"}


class MovingModel(ScriptedProvider):
    """Proposes the move that a message asks for, and says so when it is decided."""

    async def stream(self, messages: Any, *more: Any, **given: Any) -> AsyncGenerator[Any]:
        asked = re.search(r"Move (\S+) to (\d+)", str(messages[-1].content))
        calls = [call("propose_move_node", move(asked[1], int(asked[2])))] if asked else []
        self.play_instead(Says(text="Moved.", calls=calls))
        async for chunk in super().stream(messages, *more, **given):
            yield chunk


@dataclass(frozen=True, slots=True, kw_only=True)
class Clients:
    """A client of each kind at the first server, and reviewers at both."""

    first: Served
    mcp: Client
    openai: openai.AsyncOpenAI
    rest: httpx2.AsyncClient
    reviewers: tuple[httpx2.AsyncClient, httpx2.AsyncClient]

    async def over_mcp(self, number: int) -> None:
        made = await self.mcp.call_tool(
            "propose_move_node", {"graphKey": GRAPH, **move("root", number)}
        )
        assert not made.is_error, made

    async def over_agui(self, number: int) -> None:
        events = await run(self.rest, said(f"Move fetch-api to {number}"), thread=f"t{number}")
        assert len(interrupts(events)) == 1

    async def over_openai(self, number: int) -> None:
        asked: list[Any] = [{"role": "user", "content": f"Move filter-active to {number}"}]
        answer = await self.openai.chat.completions.create(model=MODEL, messages=asked)
        assert "approval=" in (answer.choices[0].message.content or "")

    async def over_rest(self, number: int) -> str:
        body = {"graphKey": GRAPH, "message": f"Move error-handler to {number}"}
        answer = await self.rest.post(
            "/api/ai/chat", json=body, headers={"X-Nodius-Client": "n8n/2"}
        )
        return answer.json()["threadId"]

    async def decide(self, approval_id: str, thread_id: str | None) -> list[httpx2.Response]:
        """Approve one proposal twice at once, each time by another way."""
        here, there = self.reviewers
        one = there.post(f"/api/approvals/{approval_id}/decision", json={"verdict": "approve"})
        body: dict[str, Any] = {"approvalIds": [approval_id], "verdict": "approve"}
        if thread_id is None:
            other: Awaitable[httpx2.Response] = here.post("/api/approvals/decisions", json=body)
        else:
            body = {"threadId": thread_id, "approvalId": approval_id, "approved": True}
            other = self.rest.post("/api/ai/resume", json=body)
        return list(await asyncio.gather(one, other))


@asynccontextmanager
async def clients(tmp_path: Path) -> AsyncGenerator[Clients]:
    database = address_in(await nba_file(tmp_path))
    async with AsyncExitStack() as stack:
        model = stack.enter_context(MovingModel())
        given: dict[str, Any] = {"db": database, "rate_limit": 0}
        first = await stack.enter_async_context(served(model, **given))
        second = await stack.enter_async_context(served(model, **given))

        async def http(running: Served, user: str, role: str) -> httpx2.AsyncClient:
            headers = {"Authorization": f"Bearer {token(user, role)}"}
            made = httpx2.AsyncClient(
                base_url=running.address, headers=headers, trust_env=False, timeout=60
            )
            return await stack.enter_async_context(made)

        asker = openai.AsyncOpenAI(
            base_url=f"{first.address}/v1", api_key=token("ed", "editor"), max_retries=0
        )
        yield Clients(
            first=first,
            mcp=await stack.enter_async_context(connected(first)),
            openai=await stack.enter_async_context(asker),
            rest=await http(first, "ed", "editor"),
            reviewers=(await http(first, "rev", "reviewer"), await http(second, "rex", "reviewer")),
        )


@pytest.mark.parametrize("rounds", [2, pytest.param(250, marks=pytest.mark.slow)])
async def test_four_clients_propose_and_each_decision_is_done_once(
    rounds: int, tmp_path: Path
) -> None:
    async with clients(tmp_path) as each:
        services = await each.first.state.services("default")
        began = (await services.source.get_graph(GRAPH)).revision
        channels: set[str] = set()
        decided: list[str] = []
        for number in range(1, rounds + 1):
            await each.over_mcp(number)
            await each.over_agui(number)
            await each.over_openai(number)
            thread = await each.over_rest(number)
            waiting = await services.approvals.waiting()
            assert len(waiting) == 4, [one.client for one in waiting]
            for approval in waiting:
                channels.add(f"{approval.client['channel']}/{approval.client.get('name', '')}")
                is_rest = approval.client["channel"] == "api"
                answers = await each.decide(approval.id, thread if is_rest else None)
                assert {answer.status_code for answer in answers} <= {200, 409}, answers
                decided.append(approval.id)
        graph = await services.source.get_graph(GRAPH)
        assert graph.revision == began + 4 * rounds
        assert {one.split("/")[0] for one in channels} == {"mcp", "ag-ui", "openai", "api"}
        assert {"mcp/test-client", "api/n8n"} <= channels
        entries = await services.database.records("default").query("audit", limit=100_000)
        applied = [
            entry.data["approvalId"] for entry in entries if entry.data.get("event") == "applied"
        ]
        assert sorted(applied) == sorted(decided)
        for key in ("root", "fetch-api", "filter-active", "error-handler"):
            assert (await services.source.get_nodes_by_key(GRAPH, [key]))[0].pos_x == rounds
