"""Conversations that the Nodius editor's own assistant stored go on here: messages, pauses, decisions."""

from __future__ import annotations

import json
from typing import Any

from datasources.base import Record
from graphrag.agent.events import Completed, ToolLimit
from graphrag.agent.thread_store import KIND
from graphrag.approvals import Approve, Reject
from graphrag.llm.base import ToolMessage
from tests.support.agents import EDITOR, GRAPH, of, setting_of, text_of
from tests.support.each_row import each_row
from tests.support.scripted_provider import ScriptedProvider

RENAME = {"nodeKey": "fetch-api", "changes": {"data.name": "Load players"}, "reason": "asked for"}
HISTORY: list[dict[str, Any]] = [
    {"role": "system", "content": "Tu es un ancien assistant. Utilise query_aql."},
    {"role": "user", "content": "Rename fetch-api to Load players"},
    {"role": "system", "content": "[Contexte RAG pour cette question]\n- fetch-api"},
]
CALL = {"id": "call_1", "name": "propose_update_node", "args": RENAME}
ASSISTANT = {
    "role": "assistant",
    "content": "",
    "tool_calls": [
        {
            "id": "call_1",
            "type": "function",
            "function": {"name": "propose_update_node", "arguments": json.dumps(RENAME)},
        }
    ],
}


def stored(pending: dict[str, Any] | None, *messages: dict[str, Any]) -> Record:
    data = {
        "graphKey": GRAPH,
        "workspace": "default",
        "userId": EDITOR.user_id,
        "title": "Theirs",
        "conversationHistory": [*HISTORY, *messages],
        "pendingInterrupt": pending,
    }
    return Record(kind=KIND, key="theirs", data=data)


async def test_old_instructions_and_contexts_are_replaced_by_ours() -> None:
    with ScriptedProvider("It was renamed.") as model:
        async with setting_of(model) as setting:
            records = setting.database.records("default")
            await records.put(stored(None, {"role": "assistant", "content": "Done."}), expected_version=None)
            events = await setting.ask("And now?", "theirs")
        assert of(events, Completed)
        (request,) = model.requests
        sent = "\n".join(message.content for message in request.messages)
        assert "query_aql" not in sent
        assert "Contexte RAG" not in sent
        assert "assistant of a workflow graph editor" in request.messages[0].content
        assert "Rename fetch-api to Load players" in sent


@each_row("is_in_history", [True, False])
@each_row("approves", [True, False])
async def test_a_pending_interrupt_is_decided_and_the_turn_goes_on(
    is_in_history: bool, approves: bool
) -> None:
    pending = {
        "type": "interrupt",
        "proposedAction": {"type": "update_node"},
        "toolCall": CALL,
        "message": "?",
    }
    with ScriptedProvider("So be it.") as model:
        async with setting_of(model) as setting:
            records = setting.database.records("default")
            record = stored(pending, *([ASSISTANT] if is_in_history else []))
            await records.put(record, expected_version=None)
            events = await setting.resume("theirs", decision=Approve() if approves else Reject("keep it"))
            node = await setting.node("fetch-api")
        assert text_of(events).endswith("So be it.")
        assert node is not None
        assert (node.data or {})["name"] == ("Load players" if approves else "Fetch NBA players")
        (request,) = model.requests
        (outcome,) = (m.content for m in request.messages if isinstance(m, ToolMessage))
        assert outcome.startswith("APPLIED" if approves else "REJECTED")
        assert "assistant of a workflow graph editor" in request.messages[0].content


async def test_a_pending_interrupt_that_no_longer_fits_is_reported_to_the_model_instead() -> None:
    call = {**CALL, "args": {**RENAME, "nodeKey": "gone"}}
    with ScriptedProvider("That node is gone.") as model:
        async with setting_of(model) as setting:
            records = setting.database.records("default")
            await records.put(stored({"type": "interrupt", "toolCall": call}), expected_version=None)
            events = await setting.resume("theirs", decision=Approve())
        assert text_of(events).endswith("That node is gone.")
        (request,) = model.requests
        assert "no node 'gone'" in request.messages[-2].content


async def test_a_pending_tool_limit_is_granted() -> None:
    read = {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {"id": "r1", "type": "function", "function": {"name": "read_graph_overview", "arguments": "{}"}}
        ],
    }
    pending = {"type": "tool_limit", "roundsUsed": 5, "maxExtended": 10}
    with ScriptedProvider("Nine nodes.") as model:
        async with setting_of(model) as setting:
            records = setting.database.records("default")
            await records.put(stored(pending, read), expected_version=None)
            events = await setting.resume("theirs", grant_rounds=True)
            assert not of(events, ToolLimit)
        assert text_of(events).endswith("Nine nodes.")
        assert "NBA Stats Pipeline" in model.requests[0].messages[-2].content
