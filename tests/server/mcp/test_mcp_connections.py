"""A client of MCP reads where graphs stand to the servers of their workflows, and writes none."""

import httpx2
import mcp_types as types

from tests.graphrag.connections.conftest import workflow
from tests.server.mcp.helpers import connected
from tests.server.test_rest_connections import to
from tests.support.served import served
from tests.support.service import token
from tests.support.workflow_servers import N8N_KEY, WRITE_SCOPES, n8n_double

NAME = "Order: approve and push, show the key"


async def test_a_client_reads_where_a_graph_stands_and_has_no_tool_that_writes_there() -> None:
    async with served() as running, n8n_double() as n8n, connected(running) as client:
        n8n.scopes = WRITE_SCOPES
        n8n.put(workflow(NAME, "Check", limit=1))
        headers = {"Authorization": f"Bearer {token('ann', 'admin')}"}
        async with httpx2.AsyncClient(
            base_url=running.address, headers=headers, trust_env=False
        ) as ann:
            made = await ann.post("/api/connections", json=to(n8n, push="ask"))
            assert made.status_code == 201, made.text
            await (await running.state.workspace("default")).syncs.idle()
            [linked] = (await ann.get("/api/connections/shop")).json()["workflows"]
        uri = f"nodius://graph/{linked['graph']}/connections"
        (content,) = (await client.read_resource(uri)).contents
        assert isinstance(content, types.TextResourceContents)
        assert "shop,n8n," in content.text
        assert N8N_KEY not in content.text
        names = [tool.name for tool in (await client.list_tools()).tools]
        words = ("push", "publish", "connect", "sync")
        assert [name for name in names if any(word in name for word in words)] == []
        assert [each.line for each in n8n.api.arrived if not each.line.startswith("GET ")] == []
