"""Turns in their threads: whose they are, one at a time, and stopped at any moment."""

import asyncio
import os
import signal
import sys
from contextlib import aclosing
from pathlib import Path
from typing import Any, cast

import pytest

from datasources.errors import GraphNotFound
from graphrag.agent.events import Completed, Token, TurnStarted
from graphrag.agent.history import repaired, unanswered
from graphrag.agent.requested_calls import Requested
from graphrag.agent.thread_store import (
    NothingToResume,
    ThreadBusy,
    ThreadNotFound,
    ThreadOfOtherGraph,
)
from graphrag.agent.tool_calls import CallPlace, ToolCalls
from graphrag.agents.chat_values import http_sentence
from graphrag.approvals import Approvals
from tests.support import agents
from tests.support.raw_api import answer, raw_api
from tests.support.scripted_provider import Says, ScriptedProvider, call
from tests.support.valid_history import check_valid
from tests.support.waiting import until
from tools.base import ToolContext
from tools.http.addresses import AddressRules
from tools.http.compiled import compile_tool
from tools.http.executor import HttpExecutor
from tools.http.fetch import HttpClient
from tools.http.model import HttpTool
from tools.http.scope import ConversationValues
from tools.http.secret_values import Secrets
from tools.http.tool import Declaration, http_tool
from tools.tool_box import ToolBox


async def test_a_thread_stays_with_its_graph_and_an_unknown_graph_begins_none() -> None:
    async with agents.scripted("ok") as (setting, _):
        thread_id = agents.only(await setting.ask(), TurnStarted).thread_id
        with pytest.raises(ThreadOfOtherGraph):
            await agents.collected(setting.agent.run(thread_id, "another", "hello", agents.EDITOR))
        with pytest.raises(GraphNotFound):
            await agents.collected(setting.agent.run(None, "another", "hello", agents.EDITOR))
        assert len(await setting.threads.list(agents.EDITOR)) == 1


async def test_nothing_is_resumed_where_nothing_waits() -> None:
    async with agents.scripted("ok") as (setting, _):
        thread_id = agents.only(await setting.ask(), TurnStarted).thread_id
        with pytest.raises(NothingToResume):
            await setting.resume(thread_id)


async def test_a_thread_that_runs_is_busy_for_its_owner_and_does_not_exist_for_others() -> None:
    held = asyncio.Event()
    async with agents.scripted("ok", Says(text="slow", held=held)) as (setting, _):
        thread_id = agents.only(await setting.ask(), TurnStarted).thread_id
        async with aclosing(
            setting.agent.run(thread_id, agents.GRAPH, "again", agents.EDITOR)
        ) as turn:
            await agents.up_to(turn, Token)
            with pytest.raises(ThreadBusy):
                await setting.ask("and again", thread_id)
            with pytest.raises(ThreadBusy):
                await setting.resume(thread_id)
            with pytest.raises(ThreadNotFound):
                await setting.resume(thread_id, agents.REVIEWER)
            held.set()
            assert isinstance([event async for event in turn][-1], Completed)


# stopping


@pytest.mark.slow
@pytest.mark.parametrize("places", [*range(40)])
async def test_cancelled_at_any_await_a_turn_leaves_a_thread_that_goes_on(places: int) -> None:
    """Each case lets one step more of the event loop pass before it cancels."""
    calls = [call("search_nodes", {"query": "error"}), call("read_node_detail", {"key": "root"})]
    proposal = call("propose_move_node", {"nodeKey": "root", "posX": 1, "posY": 2, "reason": "x"})
    steps = [
        Says(text="a", calls=calls),
        Says(text="b", calls=[proposal, call("search_nodes", {"query": "y"})]),
    ]
    model = ScriptedProvider(*steps)
    async with agents.setting_of(model) as setting:
        task = asyncio.create_task(setting.ask("go"))
        for _ in range(places):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        threads = await setting.threads.list(agents.EDITOR)
        if not threads:
            return  # cancelled before the turn began: nothing is stored
        stored = threads[0]
        check_valid(repaired(stored.messages, missing="-"))
        assert stored.turn.status in ("stopped", "waiting")
        open_calls = {
            approval.tool_call_id for approval in await setting.approvals.list(by=agents.EDITOR)
        }
        assert {c.id for c in unanswered(stored.messages)} <= open_calls
        model.play_instead("On we go.")
        assert agents.shown(await setting.ask("next", stored.key)) == "On we go."
        check_valid(await setting.messages(stored.key))


async def order(port: int, stored: Path) -> list[str]:
    """Run one order as a turn does; `stored` keeps the ids of calls that began
    and of those answered.
    """
    values = ConversationValues(
        agent={"id": "a1"}, call_id="t1", base_url=f"http://127.0.0.1:{port}"
    )
    document = {
        "type": "http",
        "method": "POST",
        "url": "{{base_url}}/orders",
        "body": {},
        "retries": 2,
    }
    tool = compile_tool("order", HttpTool.model_validate(document))
    client = HttpClient(AddressRules(allow=(f"127.0.0.1:{port}",)))
    executor = HttpExecutor(client, Secrets({}), lambda: 0, http_sentence)
    made = http_tool(
        tool, Declaration(name="order", description="", parameters={}), executor, values
    )
    calls = ToolCalls(ToolBox([made]), cast(Approvals, None))

    async def begin(call_id: str) -> None:
        await asyncio.to_thread(stored.write_text, call_id)

    place = CallPlace(
        context=ToolContext(source=cast(Any, None), graph_key=""),
        person=agents.VIEWER,
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


@pytest.mark.slow
async def test_an_act_killed_after_its_request_is_interrupted_and_not_sent_again(
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
        await until(lambda: api.got)
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
