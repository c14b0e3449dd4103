"""An act whose process is killed between the request and its stored answer is not sent again."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from graphrag.agent.requested_calls import Requested
from graphrag.agent.tool_calls import CallPlace, ToolCalls
from graphrag.agents.chat_values import http_sentence
from graphrag.approvals import Approvals
from tests.support.agents import VIEWER
from tests.support.raw_api import RawApi, answer, raw_api
from tests.support.scripted_provider import call
from tools.base import ToolBox, ToolContext
from tools.http.addresses import AddressRules
from tools.http.compiled import compile_tool
from tools.http.executor import HttpExecutor
from tools.http.fetch import HttpClient
from tools.http.model import HttpTool
from tools.http.scope import ConversationValues
from tools.http.secret_values import Secrets
from tools.http.tool import Declaration, http_tool


async def order(port: int, stored: Path) -> list[str]:
    """Run one order as a turn does; `stored` keeps the ids of calls that began and of those answered."""
    values = ConversationValues(agent={"id": "a1"}, call_id="t1", base_url=f"http://127.0.0.1:{port}")
    document = {"type": "http", "method": "POST", "url": "{{base_url}}/orders", "body": {}, "retries": 2}
    tool = compile_tool("order", HttpTool.model_validate(document))
    client = HttpClient(AddressRules(allow=(f"127.0.0.1:{port}",)))
    executor = HttpExecutor(client, Secrets({}), lambda: 0, http_sentence)
    made = http_tool(tool, Declaration(name="order", description="", parameters={}), executor, values)
    calls = ToolCalls(ToolBox([made]), cast(Approvals, None))

    async def begin(call_id: str) -> None:
        await asyncio.to_thread(stored.write_text, call_id)

    place = CallPlace(
        context=ToolContext(source=cast(Any, None), graph_key=""),
        person=VIEWER,
        thread_id="t1",
        turn=1,
        model="m",
        begin_act=begin,
        started=ids_in(stored),
    )
    asked = Requested(calls=[call("order", {}, call_id="c1")])
    found = [answered.result.text async for answered in calls.run(asked, place)]
    await client.aclose()
    return found


def ids_in(file: Path) -> list[str]:
    return [file.read_text()] if file.exists() else []


async def held(api: RawApi) -> None:
    async with asyncio.timeout(60):
        while not api.got:  # noqa: ASYNC110 - what the server sees
            await asyncio.sleep(0.01)


@pytest.mark.slow
async def test_an_act_killed_after_its_request_is_answered_as_interrupted_and_not_sent_again(
    tmp_path: Path,
) -> None:
    stored = tmp_path / "started"

    async def never(writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(60)

    async with raw_api() as api:
        api.answers = [never, answer({"id": 1})]
        running = await asyncio.create_subprocess_exec(
            sys.executable, "-m", __name__, str(api.port), str(stored), env={**os.environ}
        )
        await held(api)
        running.send_signal(signal.SIGKILL)
        await running.wait()
        assert api.got[0].headers["idempotency-key"] == "t1:c1:0"
        assert ids_in(stored) == ["c1"]
        for _ in range(2):
            (text,) = await order(api.port, stored)
            assert text == '{"success":false,"error":"interrupted; it may have been carried out"}'
        assert len(api.got) == 1
        stored.unlink()
        assert await order(api.port, stored) == ['{"id":1}'], "what was never begun is sent"


if __name__ == "__main__":
    asyncio.run(order(int(sys.argv[1]), Path(sys.argv[2])))
