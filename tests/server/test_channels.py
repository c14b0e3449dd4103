"""Four kinds of client propose into one queue; what is decided twice, at two servers, is carried out once."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
from mcp import Client

from tests.server.mcp.helpers import connected
from tests.support.agui_runs import interrupts, run, said
from tests.support.databases import nba_file
from tests.support.scripted_provider import Says, ScriptedProvider, call
from tests.support.served import Served, served
from tests.support.service import GRAPH, token

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
        made = await self.mcp.call_tool("propose_move_node", {"graphKey": GRAPH, **move("root", number)})
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
        answer = await self.rest.post("/api/ai/chat", json=body, headers={"X-Nodius-Client": "n8n/2"})
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
    database = f"sqlite:{await nba_file(tmp_path)}"
    async with AsyncExitStack() as stack:
        model = stack.enter_context(MovingModel())
        given: dict[str, Any] = {"db": database, "rate_limit": 0}
        first = await stack.enter_async_context(served(model, **given))
        second = await stack.enter_async_context(served(model, **given))

        async def http(running: Served, user: str, role: str) -> httpx2.AsyncClient:
            headers = {"Authorization": f"Bearer {token(user, role)}"}
            made = httpx2.AsyncClient(base_url=running.address, headers=headers, trust_env=False, timeout=60)
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
async def test_four_clients_propose_and_each_decision_is_carried_out_once(
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
                assert approval.client is not None
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
        applied = [entry.data["approvalId"] for entry in entries if entry.data.get("event") == "applied"]
        assert sorted(applied) == sorted(decided)
        for key in ("root", "fetch-api", "filter-active", "error-handler"):
            assert (await services.source.get_nodes_by_key(GRAPH, [key]))[0].pos_x == rounds
