"""MCP over HTTP: what clients list, read and propose in both eras; who is let in; what
does not exist.
"""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import mcp_types as types
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import Implementation

from cli.common import EXIT_USAGE
from graphrag.approvals import Approvals
from graphrag.config import Settings
from graphrag.roles import Person
from mock_data import load_text
from server.mcp import stdio_server
from server.mcp.app_resource import app_html
from tests.cli.conftest import invoke
from tests.server.mcp.helpers import ERAS, connected, said
from tests.support.chosen_database import address_in, database_in
from tests.support.served import Served, served
from tests.support.service import CHANGE, GRAPH, token

RENAME = {"graphKey": GRAPH, **CHANGE}
NAMED = {"name": "a", "version": "1"}
ERA = {"MCP-Protocol-Version": "2025-11-25"}


@pytest.mark.parametrize("mode", ERAS)
async def test_an_agent_reads_proposes_and_learns_what_a_person_decided(mode: str) -> None:
    async with served() as running, connected(running, mode=mode) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert {
            "search_nodes",
            "search_workspace",
            "check_graph",
            "propose_update_node",
        } <= tools.keys()
        assert tools["search_nodes"].input_schema["required"][0] == "graphKey"
        assert (tools["propose_update_node"].meta or {})["ui"][
            "resourceUri"
        ] == "ui://nodius/proposal"
        found = await client.call_tool(
            "search_nodes", {"graphKey": GRAPH, "query": "fetch players"}
        )
        assert "fetch-api" in said(found)
        rows = found.structured_content["tables"]["found"]
        assert rows[0]["_key"] == "fetch-api"
        everywhere = await client.call_tool("search_workspace", {"query": "fetch players"})
        assert GRAPH in said(everywhere)

        proposed = await client.call_tool("propose_update_node", RENAME)
        assert not proposed.is_error, said(proposed)
        approval_id, link = (proposed.structured_content[name] for name in ("id", "link"))
        assert f"approval={approval_id}" in link
        assert "a person decides" in said(proposed)
        assert proposed.structured_content["outcome"] == said(proposed)
        view = (proposed.meta or {})["nodius/view"]
        assert (view["proposal"]["id"], view["link"]) == (approval_id, link)
        assert len(json.dumps(proposed.structured_content)) < 1_000, (
            "some programs give it to their model"
        )
        waiting = await client.call_tool("list_proposals", {"graphKey": GRAPH})
        assert [one["id"] for one in waiting.structured_content["proposals"]] == [approval_id]
        headers = {"Authorization": f"Bearer {token('rita', 'reviewer')}"}
        async with httpx2.AsyncClient(
            base_url=running.address, headers=headers, trust_env=False
        ) as rita:
            document = (await rita.get(f"/api/approvals/{approval_id}")).json()
            assert document["client"] == {"channel": "mcp", "name": "test-client", "version": "1.2"}
            assert (document["userId"], document["status"]) == ("ed", "pending")
            decision = {"verdict": "reject", "feedback": "Not now"}
            await rita.post(f"/api/approvals/{approval_id}/decision", json=decision)
        status = await client.call_tool("proposal_status", {"id": approval_id})
        assert status.structured_content["status"] == "rejected"
        assert "Not now" in said(status)


@pytest.mark.parametrize("mode", ERAS)
async def test_graphs_their_contexts_nodes_and_history_are_resources(mode: str) -> None:
    async with served() as running, connected(running, mode=mode) as client:
        listed = await client.list_resources()
        uris = [str(one.uri) for one in listed.resources]
        assert f"nodius://graph/{GRAPH}" in uris
        assert len((await client.list_resource_templates()).resource_templates) == 5
        for uri, word in (
            (f"nodius://graph/{GRAPH}", "NBA"),
            (f"nodius://graph/{GRAPH}/node/fetch-api", "fetch-api"),
            (
                f"nodius://graph/{GRAPH}/context/what%20fetches%20players",
                "fetch-api --error--> error-handler",
            ),
            (f"nodius://graph/{GRAPH}/history", "change"),
            (f"nodius://graph/{GRAPH}/connections", "connections: []"),
            ("ui://nodius/proposal", "<!doctype html>"),
        ):
            (content,) = (await client.read_resource(uri)).contents
            assert isinstance(content, types.TextResourceContents)
            assert word in content.text, uri
        for none in (
            "nodius://graph/none",
            "nodius://graph",
            f"nodius://graph/{GRAPH}/node/none",
            "file:///etc/passwd",
        ):
            with pytest.raises(MCPError):
                await client.read_resource(none)
        with pytest.raises(MCPError):
            await client.list_resources(cursor="bm90IG91cnM=")
        prompts = {one.name for one in (await client.list_prompts()).prompts}
        assert prompts == {"ask", "review", "explain"}
        made = await client.get_prompt("ask", {"graphKey": GRAPH, "question": "why?"})
        assert "why?" in str(made.messages[0].content)
        with pytest.raises(MCPError):
            await client.get_prompt("ask", {"graphKey": GRAPH})


async def test_a_viewer_is_offered_no_proposals_and_stores_none() -> None:
    async with served() as running, connected(running, "viewer", user="vi") as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert not [name for name in names if name.startswith("propose_")]
        refused = await client.call_tool("propose_update_node", RENAME)
        assert refused.is_error
        assert (await client.call_tool("list_proposals", {})).structured_content == {
            "proposals": []
        }


async def test_another_workspaces_graph_and_proposal_do_not_exist() -> None:
    async with served() as running, connected(running) as client:
        made = (await client.call_tool("propose_update_node", RENAME)).structured_content["id"]
        bearer = token("sam", "admin", ("globex",))
        async with connected(running, bearer=bearer) as stranger:
            for tool, arguments in (
                ("search_nodes", {"graphKey": GRAPH, "query": "x"}),
                ("propose_update_node", RENAME),
                ("proposal_status", {"id": made}),
            ):
                answer = await stranger.call_tool(tool, arguments)
                other = {"id": "ap_none"} if "id" in arguments else {"graphKey": "none"}
                none = await stranger.call_tool(tool, {**arguments, **other})
                assert answer.is_error
                assert said(answer).replace(GRAPH, "none").replace(made, "ap_none") == said(none)
            assert (await stranger.call_tool("list_proposals", {})).structured_content == {
                "proposals": []
            }


async def test_without_a_token_a_client_learns_where_to_sign_in() -> None:
    async with (
        served(auth_issuer="https://id.example.com") as running,
        httpx2.AsyncClient(base_url=running.address, trust_env=False) as client,
    ):
        for headers in ({}, {"Authorization": "Bearer nonsense"}):
            refused = await client.post("/mcp", json={}, headers=headers)
            assert refused.status_code == 401
            challenge = refused.headers["www-authenticate"]
            metadata = challenge.split('resource_metadata="')[1].split('"')[0]
        found = (await client.get(metadata)).json()
        assert found["resource"] == f"{running.address}/mcp"
        assert found["authorization_servers"] == ["https://id.example.com"]


async def test_without_sign_in_only_this_computers_own_pages_are_let_in() -> None:
    async with (
        served(auth_secret=None) as running,
        httpx2.AsyncClient(base_url=running.address, trust_env=False) as client,
    ):
        refused = await client.post("/mcp", json={}, headers={"Origin": "https://evil.example"})
        assert refused.status_code == 403
        rebound = await client.post("/mcp", json={}, headers={"Host": "evil.example"})
        assert rebound.status_code == 403
        assert (await client.get("/.well-known/oauth-protected-resource")).status_code == 404


async def test_another_persons_session_is_none() -> None:
    async with served() as running:
        ask = {
            "jsonrpc": "2.0", "id": 1, "method": "initialize",
            "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": NAMED},
        }  # fmt: skip
        accept = {"Accept": "application/json, text/event-stream"}
        async with httpx2.AsyncClient(
            base_url=running.address, headers=accept, trust_env=False
        ) as client:
            of_ed = {"Authorization": f"Bearer {token()}"}
            begun = await client.post("/mcp", json=ask, headers=of_ed)
            session = {
                "Mcp-Session-Id": begun.headers["mcp-session-id"],
                "MCP-Protocol-Version": "2025-11-25",
            }
            listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
            other = {"Authorization": f"Bearer {token('rita', 'reviewer')}"}
            assert (
                await client.post("/mcp", json=listing, headers={**session, **other})
            ).status_code == 404
            assert (
                await client.post("/mcp", json=listing, headers={**session, **of_ed})
            ).status_code == 200


async def test_what_needs_no_person_waits_all_the_same() -> None:
    async with served(require_validation="") as running, connected(running) as client:
        made = await client.call_tool("propose_update_node", RENAME)
        assert made.structured_content["status"] == "pending"


@pytest.mark.parametrize("many", [20, pytest.param(100, marks=pytest.mark.slow)])
async def test_many_calls_at_once_are_all_answered(many: int) -> None:
    async with served() as running, connected(running) as client:
        calls = (
            client.call_tool("read_node_detail", {"graphKey": GRAPH, "nodeKey": "fetch-api"})
            for _ in range(many)
        )
        found = await asyncio.gather(*calls)
        assert all(not one.is_error for one in found)
        assert len({json.dumps(one.structured_content) for one in found}) == 1


@pytest.mark.parametrize("mode", ERAS)
async def test_tools_that_propose_lead_to_the_one_view(mode: str) -> None:
    async with served() as running, connected(running, mode=mode) as client:
        tools = (await client.list_tools()).tools
        uris = {tool.name: (tool.meta or {}).get("ui", {}).get("resourceUri") for tool in tools}
        (uri,) = {found for found in uris.values() if found}
        (listed,) = [
            one for one in (await client.list_resources()).resources if str(one.uri) == uri
        ]
        (content,) = (await client.read_resource(uri)).contents
    assert {name for name, found in uris.items() if found} == {
        n for n in uris if n.startswith("propose_")
    }
    assert isinstance(content, types.TextResourceContents)
    assert content.text == app_html()
    for one in (listed, content):
        assert one.mime_type == "text/html;profile=mcp-app"
        assert (one.meta or {})["ui"]["csp"] == {
            "connectDomains": [],
            "resourceDomains": [],
            "frameDomains": [],
        }


async def test_a_client_of_the_newer_protocol_finds_the_extension_advertised() -> None:
    async with served() as running, connected(running, mode="auto") as client:
        extensions = client.server_capabilities.extensions or {}
    assert extensions["io.modelcontextprotocol/ui"] == {"mimeTypes": ["text/html;profile=mcp-app"]}


ROOT = Path(__file__).parents[3]
_BEGIN = "from cli.main import run; run()"


def nodius(*arguments: str) -> StdioServerParameters:
    return StdioServerParameters(command=sys.executable, args=["-c", _BEGIN, *arguments], cwd=ROOT)


@pytest.mark.slow
async def test_an_agent_proposes_on_this_computer_and_the_queue_has_it(tmp_path: Path) -> None:
    file = tmp_path / "graphs.db"
    (tmp_path / "nba.json").write_text(load_text("nba.json"), encoding="utf-8")
    options = ("import", tmp_path / "nba.json", "--no-embed", "--db", address_in(file))
    imported = await asyncio.to_thread(invoke, *options)
    assert imported.exit_code == 0, imported.output
    info = Implementation(name="desk-agent", version="3")
    options = ("mcp", "--db", address_in(file), "--graph", GRAPH)
    async with Client(nodius(*options), client_info=info) as client:
        overview = await client.call_tool("read_graph_overview", {})
        assert "NBA" in said(overview)
        made = await client.call_tool("propose_update_node", CHANGE)
        approval_id = made.structured_content["id"]
    async with database_in(file) as database:
        approvals = Approvals(database.source("default"), database.records("default"))
        (waiting,) = await approvals.list(by=Person("local", "admin", "default"))
    assert (waiting.id, waiting.status, waiting.program) == (
        approval_id,
        "pending",
        "mcp/desk-agent",
    )


def test_a_role_is_passed_on_and_one_that_is_none_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    roles: list[str] = []

    async def served(settings: Settings, *, role: str, graph: str | None) -> None:
        roles.append(role)

    monkeypatch.setattr(stdio_server, "serve_stdio", served)
    assert invoke("mcp", "--role", "viewer", "--db", "memory:").exit_code == 0
    assert roles == ["viewer"]
    assert invoke("mcp", "--role", "king").exit_code == EXIT_USAGE


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
async def test_a_client_that_can_opens_the_link_and_the_proposal_waits_once(
    mode: str, action: str
) -> None:
    async with served() as running, opening(running, mode, action) as (client, asked):
        found = await client.call_tool(*PROPOSE)
        services = await running.state.services("default")
        [waiting] = await services.approvals.waiting()
    assert (found.structured_content["id"], found.structured_content["status"]) == (
        waiting.id,
        "pending",
    )
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
        given: dict[str, Any] = {"review": types.ElicitResult(action="accept")}
        services = await running.state.services("default")
        [waiting] = await services.approvals.waiting()
        assert waiting.id not in state
        for who, wrong in (
            (session, state[:-2] + "AA"),
            (session, waiting.id),
            (ann.session, state),
        ):
            with pytest.raises(MCPError):
                await who.call_tool(
                    *PROPOSE, input_responses=given, request_state=wrong, allow_input_required=True
                )
        done = await session.call_tool(
            *PROPOSE, input_responses=given, request_state=state, allow_input_required=True
        )
        assert isinstance(done, types.CallToolResult)
        assert len(await services.approvals.waiting()) == 1


CASE_15 = Path(__file__).parents[2] / "data/cases/15-mcp-stringified-arguments/calls.json"


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_arguments_that_a_client_wraps_in_strings_or_fills_with_null_are_read(
    mode: str,
) -> None:
    async with served() as running, connected(running, mode=mode) as client:
        calls = json.loads(CASE_15.read_text().replace('"400"', '"410"'))  # where it is not already
        for name, arguments in calls:
            answer = await client.call_tool(name, arguments)
            assert not answer.is_error, (name, answer)
        listed = await client.call_tool(
            "list_proposals", {"graphKey": None, "limit": "2", "status": None}
        )
        assert len(listed.structured_content["proposals"]) == 2
        assert not (await client.call_tool("read_graph_overview", {"graphKey": GRAPH})).is_error


@pytest.mark.parametrize("levels", [70, 180])
async def test_arguments_that_nest_too_deep_are_refused_by_name(levels: int) -> None:
    nested: Any = "x"
    for _ in range(levels):
        nested = [nested]
    async with served() as running, connected(running) as client:
        answer = await client.call_tool("search_nodes", {"graphKey": GRAPH, "query": nested})
        assert answer.is_error
        assert "60 levels deep" in str(answer.content)
