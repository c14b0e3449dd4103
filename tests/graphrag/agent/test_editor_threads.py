"""Conversations that the Nodius editor's own server stored go on here where they wait."""

from __future__ import annotations

from typing import Any

import pytest

from datasources.base import Record
from graphrag.agent.events import Completed, ProposalPending, ToolLimit
from graphrag.agent.thread_store import KIND
from graphrag.approvals import Approve, Reject
from graphrag.llm.base import ToolMessage
from tests.support.agents import EDITOR, GRAPH, Setting, of, scripted, text_of
from tests.support.editor_database import (
    PLAIN,
    WAITING,
    a_call,
    editor_thread,
    thread_at_limit,
    waiting_thread,
)


def stored(thread: dict[str, Any]) -> Record:
    """A thread of the editor's, given to this test's person; the sample graph has
    the same nodes.
    """
    own = {"graphKey": GRAPH, "workspace": "default", "userId": EDITOR.user_id}
    return Record(kind=KIND, key="theirs", data=thread | own)


async def put(setting: Setting, thread: dict[str, Any]) -> None:
    await setting.database.records("default").put(stored(thread), expected_version=None)


async def test_the_editors_instructions_and_contexts_are_replaced_by_ours() -> None:
    async with scripted("It is logged.") as (setting, model):
        await put(setting, editor_thread(PLAIN))
        events = await setting.ask("And then?", "theirs")
    assert of(events, Completed)
    (request,) = model.requests
    sent = "\n".join(message.content for message in request.messages)
    assert "editor's own assistant" not in sent
    assert "Contexte RAG" not in sent
    assert "assistant of a workflow graph editor" in request.messages[0].content
    assert "What happens when fetching fails?" in sent


@pytest.mark.parametrize("approves", [True, False])
async def test_a_proposal_that_waits_in_the_editor_is_decided_and_the_turn_goes_on(
    approves: bool,
) -> None:
    async with scripted("So be it.") as (setting, model):
        await put(setting, editor_thread(WAITING))
        events = await setting.resume(
            "theirs", decision=Approve() if approves else Reject("keep it")
        )
        node = await setting.node("error-handler")
    assert text_of(events).endswith("So be it.")
    assert (node is None) == approves
    (request,) = model.requests
    (outcome,) = (m.content for m in request.messages if isinstance(m, ToolMessage))
    assert outcome.startswith("APPLIED" if approves else "REJECTED")
    assert "assistant of a workflow graph editor" in request.messages[0].content


MOVE = {"nodeKey": "error-handler", "posX": 7, "posY": 9, "reason": "asked"}


@pytest.mark.parametrize("listed", [True, False])
async def test_the_calls_that_remain_are_run_before_the_turn_goes_on(listed: bool) -> None:
    rename = {"nodeKey": "fetch-api", "updates": {"name": "Load players"}, "reason": "asked"}
    more = [
        a_call("r1", "read_node_detail", {"nodeKey": "fetch-api"}),
        a_call("r2", "propose_move_node", MOVE),
    ]
    async with scripted("Both are done.") as (setting, model):
        await put(setting, waiting_thread("propose_update_node", rename, *more, listed=listed))
        events = await setting.resume("theirs", decision=Approve())
        (pending,) = of(events, ProposalPending)
        assert len(pending.approvals) == 1
        assert not model.requests
        events = await setting.resume("theirs", decision=Approve())
        fetch = await setting.node("fetch-api")
        handler = await setting.node("error-handler")
    assert text_of(events).endswith("Both are done.")
    assert fetch is not None
    assert (fetch.data or {})["name"] == "Load players"
    assert handler is not None
    assert (handler.pos_x, handler.pos_y) == (7, 9)
    answers = [m for m in model.requests[0].messages if isinstance(m, ToolMessage)]
    assert len(answers) == 3
    assert "Fetch NBA players" in next(m.content for m in answers if m.call_id == "r1")


async def test_a_call_of_an_earlier_message_that_the_editor_gave_up_is_not_made_up_for() -> None:
    thread = editor_thread(WAITING)
    lost = {
        "role": "assistant",
        "content": None,
        "tool_calls": [a_call("lost", "propose_move_node", MOVE)],
    }
    thread["conversationHistory"][3:3] = [lost, {"role": "assistant", "content": "Moved."}]
    async with scripted("Done.") as (setting, _):
        await put(setting, thread)
        events = await setting.resume("theirs", decision=Reject(""))
        assert not of(events, ProposalPending)
        handler = await setting.node("error-handler")
    assert handler is not None
    assert handler.pos_x != 7


EDITORS_PROPOSALS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("propose_create_node", {"typeKey": "log-node", "sheet": "0", "posX": 1, "posY": 2, "data": {}}),
    (
        "propose_create_edge",
        {"sourceKey": "filter-active", "sourceHandle": "0", "targetKey": "error-handler", "targetHandle": "0",
         "sheet": "0", "label": "also"},
    ),
    (
        "propose_create_node_with_edges",
        {"typeKey": "log-node", "sheet": "0", "edges": [
            {"direction": "in", "handleId": "0", "targetNodeKey": "filter-active", "targetHandleId": "0"}]},
    ),
    (
        "propose_update_node",
        {"nodeKey": "fetch-api", "updates": {"name": "Load", "size": {"width": 300, "height": 100}}},
    ),
    ("propose_update_node", {"nodeKey": "display-html", "updates": {"html": "<b>hi</b>"}}),
    ("propose_move_node", {"nodeKey": "fetch-api", "posX": 1.5, "posY": 2}),
    ("propose_delete_edge", {"edgeKey": "edge-fetch-error"}),
    ("propose_delete_node", {"nodeKey": "error-handler"}),
    ("propose_reorganize_layout", {"nodeKeys": ["fetch-api", "filter-active"], "strategy": "horizontal"}),
    ("propose_reorganize_layout", {"nodeKeys": ["fetch-api", "filter-active"], "strategy": "spiral"}),
    ("propose_configure_node_type", {"mode": "create", "displayName": "Wait", "process": "next('0')"}),
    (
        "propose_configure_node_type",
        {"mode": "update", "typeKey": "filter", "displayName": "Sieve", "processPatches": [
            {"search": "PATCH", "replace": "next"}]},
    ),
    (
        "propose_batch",
        {"actions": [
            {"type": "update_node", "nodeKey": "fetch-api", "updates": {"name": "Load"}},
            {"type": "move_node", "nodeKey": "fetch-api", "posX": 1, "posY": 2},
            {"type": "create_edge", "sourceKey": "filter-active", "sourceHandle": "0",
             "targetKey": "error-handler", "targetHandle": "0", "sheet": "0"},
        ]},
    ),
)  # fmt: skip
"""A proposal of each kind in the editor's own arguments. Source: Nodius,
`ai/tools/writeTools.ts`.
"""


@pytest.mark.parametrize(("name", "arguments"), [*EDITORS_PROPOSALS])
async def test_every_kind_of_proposal_of_the_editor_applies(
    name: str, arguments: dict[str, Any]
) -> None:
    async with scripted("Done.") as (setting, model):
        if "processPatches" in arguments:
            (config,) = await setting.source.get_node_configs(["filter"])
            arguments = arguments | {
                "processPatches": [{"search": config.node.process, "replace": "next()"}]
            }
        await put(setting, waiting_thread(name, {**arguments, "reason": "asked"}))
        await setting.resume("theirs", decision=Approve())
    (answer,) = (m.content for m in model.requests[0].messages if isinstance(m, ToolMessage))
    assert answer.startswith("APPLIED"), answer


async def test_a_proposal_of_the_editor_that_no_longer_fits_is_reported_to_the_model_instead() -> (
    None
):
    gone = waiting_thread("propose_delete_node", {"nodeKey": "gone", "reason": "asked"})
    async with scripted("That node is gone.") as (setting, model):
        await put(setting, gone)
        events = await setting.resume("theirs", decision=Approve())
    assert text_of(events).endswith("That node is gone.")
    (request,) = model.requests
    assert "no node 'gone'" in request.messages[-2].content


@pytest.mark.parametrize("remains", [True, False])
async def test_more_rounds_are_granted_where_the_editor_waits_at_the_limit(remains: bool) -> None:
    more = [a_call("r1", "read_graph_overview", {})] if remains else []
    async with scripted("Nine nodes.") as (setting, model):
        await put(setting, thread_at_limit(*more))
        events = await setting.resume("theirs", grant_rounds=True)
        assert not of(events, ToolLimit)
    assert text_of(events).endswith("Nine nodes.")
    assert "assistant of a workflow graph editor" in model.requests[0].messages[0].content
    sent = "\n".join(message.content for message in model.requests[0].messages)
    assert "Fetch NBA players" in sent  # what the editor's assistant had read
    assert ("NBA Stats Pipeline" in model.requests[0].messages[-2].content) == remains


async def test_an_answer_is_written_where_no_more_rounds_are_granted() -> None:
    async with scripted("What I know.") as (setting, model):
        await put(setting, thread_at_limit())
        events = await setting.resume("theirs", grant_rounds=False)
    assert text_of(events).endswith("What I know.")
    assert model.requests[0].options.tool_choice == "none"
