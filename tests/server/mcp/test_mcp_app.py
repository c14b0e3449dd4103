"""MCP Apps over the protocol: the extension is advertised, and tools lead to a resource that hosts show."""

from __future__ import annotations

import mcp_types as types
import pytest

from server.mcp.app_resource import app_html
from tests.server.mcp.helpers import ERAS, connected
from tests.support.served import served


@pytest.mark.parametrize("mode", ERAS)
async def test_tools_that_propose_lead_to_the_one_view(mode: str) -> None:
    async with served() as running, connected(running, mode=mode) as client:
        tools = (await client.list_tools()).tools
        uris = {tool.name: (tool.meta or {}).get("ui", {}).get("resourceUri") for tool in tools}
        (uri,) = {found for found in uris.values() if found}
        (listed,) = [one for one in (await client.list_resources()).resources if str(one.uri) == uri]
        (content,) = (await client.read_resource(uri)).contents
    assert {name for name, found in uris.items() if found} == {n for n in uris if n.startswith("propose_")}
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
