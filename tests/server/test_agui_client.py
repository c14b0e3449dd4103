"""The front end's own client of AG-UI against the service."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.server.test_agui import propose_two, stored
from tests.support.node_packages import node_modules, run_script
from tests.support.scripted_provider import Says, ScriptedProvider, call
from tests.support.served import served
from tests.support.service import CHANGE, GRAPH, token

SCRIPT = Path(__file__).with_name("agui_client.mjs")


@pytest.mark.slow
async def test_the_front_ends_client_reads_a_run_reloads_and_resumes_two_interrupts(tmp_path: Path) -> None:
    modules = await asyncio.to_thread(node_modules, "@ag-ui/client@1.0.0")
    search = Says(text="I look.", calls=[call("search_nodes", {"query": "error"})])
    with ScriptedProvider(search, "It is logged.", propose_two(), "One of them, then.") as model:
        async with served(model) as running:
            url = f"{running.address}/api/agui/{GRAPH}"
            seen: Any = await asyncio.to_thread(run_script, SCRIPT, modules, tmp_path, url=url, token=token())
            node, moved = await stored(running, "error-handler"), await stored(running, "root")
    assert (node.data["level"], moved.pos_x == 5) == ("warning", False)
    roles = [message["role"] for message in seen["afterOne"]]
    assert roles == ["user", "assistant", "tool", "assistant"] == [m["role"] for m in seen["later"][:4]]
    assert seen["found"] == seen["waiting"], "another tab finds the same interrupts"
    assert "pending interrupt" in seen["refused"]
    assert seen["open"] == []
    calls = [one for message in seen["messages"] for one in message.get("toolCalls") or ()]
    assert len({one["id"] for one in calls}) == len(calls) == 3
    assert json.loads(calls[1]["function"]["arguments"]) == CHANGE, "arguments are sent once"
    assert seen["messages"][-1]["content"] == "One of them, then."
    assert (seen["state"]["graph"]["revision"], len(seen["state"]["changes"])) == (2, 1)
    assert [m["role"] for m in seen["later"]] == [m["role"] for m in seen["messages"]]
