"""The link of a proposal is opened by clients that can, in both revisions; what they give back is sealed."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import mcp_types as types
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client

from tests.server.mcp.helpers import ERAS, connected
from tests.support.served import Served, served
from tests.support.service import CHANGE, GRAPH, token

PROPOSE = ("propose_update_node", {"graphKey": GRAPH, **CHANGE})


@asynccontextmanager
async def opening(
    running: Served, mode: str, action: str, user: str = "ed"
) -> AsyncGenerator[tuple[Client, list[types.ElicitRequestURLParams]]]:
    """A client whose person answers so when an address is to be opened."""
    asked: list[types.ElicitRequestURLParams] = []

    async def answer(_: Any, params: Any) -> types.ElicitResult:
        asked.append(params)
        return types.ElicitResult(action=action)  # type: ignore[arg-type]

    headers = {"Authorization": f"Bearer {token(user, 'editor')}"}
    async with httpx2.AsyncClient(headers=headers, trust_env=False, timeout=30) as http:
        transport = streamable_http_client(f"{running.address}/mcp", http_client=http)
        async with Client(transport, mode=mode, elicitation_callback=answer) as client:  # type: ignore[arg-type]
            yield client, asked


@pytest.mark.parametrize("action", ["accept", "decline"])
@pytest.mark.parametrize("mode", ERAS)
async def test_a_client_that_can_opens_the_link_and_the_proposal_waits_once(mode: str, action: str) -> None:
    async with served() as running, opening(running, mode, action) as (client, asked):
        found = await client.call_tool(*PROPOSE)
        services = await running.state.services("default")
        [waiting] = await services.approvals.waiting()
    assert found.structured_content is not None
    assert (found.structured_content["id"], found.structured_content["status"]) == (waiting.id, "pending")
    assert [f"approval={waiting.id}" in one.url for one in asked] == [True]


async def test_what_a_client_gives_back_is_refused_where_it_was_changed_or_is_of_another() -> None:
    async with (
        served() as running,
        opening(running, "2026-07-28", "accept") as (client, _),
        connected(running, user="ann", mode="2026-07-28") as ann,
    ):
        session = client.session
        first = await session.call_tool(*PROPOSE, allow_input_required=True)
        assert isinstance(first, types.InputRequiredResult)
        state = first.request_state
        assert state is not None
        given: dict[str, Any] = {"review": types.ElicitResult(action="accept")}
        services = await running.state.services("default")
        [waiting] = await services.approvals.waiting()
        assert waiting.id not in state
        for who, wrong in ((session, state[:-2] + "AA"), (session, waiting.id), (ann.session, state)):
            with pytest.raises(MCPError):
                await who.call_tool(
                    *PROPOSE, input_responses=given, request_state=wrong, allow_input_required=True
                )
        done = await session.call_tool(
            *PROPOSE, input_responses=given, request_state=state, allow_input_required=True
        )
        assert isinstance(done, types.CallToolResult)
        assert len(await services.approvals.waiting()) == 1
