"""A proposal that an answer describes is made, where a person asked for a change and only
one is meant.
"""

import json

import pytest

from graphrag.agent.events import Completed, ProposalPending, TextTakenBack
from graphrag.approvals import Approve
from graphrag.llm.base import AssistantMessage
from graphrag.llm.written_calls import read_described_calls
from tests.support.agents import VIEWER, of, only, scripted
from tests.support.scripted_provider import Says, call
from tools.proposals import to_document

ASKED = "Rename root to Begin."
ARGUMENTS = {"nodeKey": "root", "changes": {"data.name": "Begin"}}
BARE = json.dumps(ARGUMENTS, indent=2)
NAMED = json.dumps({"name": "propose_update_node", "arguments": ARGUMENTS})
OTHER = json.dumps({"nodeKey": "root", "changes": {"data.name": "Other"}})
BLOCK = f"```json\n{BARE}\n```"
PROSE = "To rename it, you can use the `propose_update_node` function:"
TEXTS = {
    "arguments after the name": f"{PROSE}\n\n{BLOCK}\n\nThis renames the node.",
    "twice the same": f"{PROSE}\n{BLOCK}\n\n{PROSE}\n{BLOCK}",
    "a block without a language": f"{PROSE}\n```\n{BARE}\n```\nDone so.",
    "an indented block": f"1. {PROSE}\n   ```json\n   {json.dumps(ARGUMENTS)}\n   ```\n",
    "a whole call in a block": f"Here is the call:\n```json\n{NAMED}\n```\nA person decides.",
    "a list of one call": f"Here are the calls:\n```json\n[{NAMED}]\n```\nA person decides.",
    "as Python": (
        "Use this:\n```python\npropose_update_node(nodeKey='root', changes={'data.name': 'Begin'})\n```\nSo."
    ),
    "beside a block of the node": f'{PROSE}\n{BLOCK}\nThe node then is:\n```json\n{{"name": "Begin"}}\n```',
}
NO_CALLS = {
    "two ways to do it": f"{PROSE}\n{BLOCK}\nOr `propose_update_node`:\n```json\n{OTHER}\n```",
    "two tools named": f"Use `propose_update_node`, not `propose_delete_node`:\n{BLOCK}\nSo.",
    "no tool named": f"The node would be:\n{BLOCK}\nSo.",
    "a tool that is not offered": f"Use `propose_rename_node`:\n{BLOCK}\nSo.",
    "a list of arguments": f"{PROSE}\n```json\n[{BARE}]\n```\nSo.",
    "a text": f'{PROSE}\n```json\n"root"\n```\nSo.',
    "more than the arguments": f"{PROSE}\n```json\n{BARE}\nand so on\n```\nSo.",
    "an unknown argument": f'{PROSE}\n```json\n{{"nodeKey": "root", "name": "Begin"}}\n```\nSo.',
    "an argument is missing": f'{PROSE}\n```json\n{{"changes": {{"data.name": "Begin"}}}}\n```\nSo.',
    "cut off": f"{PROSE}\n```json\n{BARE[:-20]}",
    "a quotation": f"> {PROSE}\n> ```json\n> {json.dumps(ARGUMENTS)}\n> ```\nis what the note says.",
}


@pytest.mark.parametrize("name", [*TEXTS])
async def test_a_described_call_is_the_call_and_its_description_is_taken_back(name: str) -> None:
    async with scripted(TEXTS[name]) as (setting, _):
        events = await setting.ask(ASKED)
        pending = only(events, ProposalPending)
        (approval,) = pending.approvals
        assert to_document(approval.action)["payload"]["changes"] == {"data.name": "Begin"}
        assert pending.text == ""
        assert len(of(events, TextTakenBack)) == 1
        said = [
            m for m in await setting.messages(pending.thread_id) if isinstance(m, AssistantMessage)
        ]
        assert [(m.content, len(m.tool_calls)) for m in said] == [("", 1)]


@pytest.mark.parametrize("name", [*NO_CALLS])
async def test_what_may_mean_something_else_proposes_nothing(name: str) -> None:
    is_asked_again = name not in ("no tool named", "a text")  # nothing in these looks like a call
    async with scripted(NO_CALLS[name], *(["I cannot."] if is_asked_again else [])) as (setting, _):
        events = await setting.ask(ASKED)
        assert isinstance(events[-1], Completed)


async def test_a_list_of_several_calls_is_all_of_them() -> None:
    calls = [
        {"name": "propose_update_node", "arguments": ARGUMENTS},
        {"name": "propose_delete_node", "arguments": {"nodeKey": "disconnected-note"}},
    ]
    text = f"Both changes:\n```json\n{json.dumps(calls)}\n```\nA person decides."
    async with scripted(text) as (setting, _):
        pending = only(
            await setting.ask("Rename root to Begin and delete the note."), ProposalPending
        )
        assert len(pending.approvals) == 2


@pytest.mark.parametrize(
    "asked", ["How do I rename root?", "What would rename root?", "Do not rename root yet."]
)
async def test_an_answer_to_a_question_proposes_nothing(asked: str) -> None:
    async with scripted(TEXTS["arguments after the name"], "Like that.") as (setting, _):
        assert not of(await setting.ask(asked), ProposalPending)


async def test_a_viewer_proposes_nothing_by_a_description() -> None:
    async with scripted(TEXTS["arguments after the name"], "You cannot.") as (setting, _):
        assert not of(await setting.ask(ASKED, by=VIEWER), ProposalPending)


async def test_a_call_that_stands_in_the_graph_is_quoted_and_proposes_nothing() -> None:
    note = call(
        "propose_update_node",
        {"nodeKey": "disconnected-note", "changes": {"data.text": TEXTS["an indented block"]}},
    )
    quoted = f"The note says: {PROSE}\n```json\n{json.dumps(ARGUMENTS)}\n```\nI renamed nothing."
    async with scripted(Says(calls=[note]), "It waits.", quoted, "No.") as (setting, _):
        pending = only(await setting.ask("Write that into the note."), ProposalPending)
        await setting.resume(pending.thread_id, decision=Approve())
        assert not of(
            await setting.ask("Add what the disconnected note says to it."), ProposalPending
        )


async def test_a_change_that_was_proposed_is_not_proposed_again_by_words() -> None:
    rename = call("propose_update_node", ARGUMENTS)
    async with scripted(Says(calls=[rename]), TEXTS["arguments after the name"]) as (setting, _):
        pending = only(await setting.ask(ASKED), ProposalPending)
        assert isinstance(
            (await setting.resume(pending.thread_id, decision=Approve()))[-1], Completed
        )


def test_thousands_of_blocks_are_read_at_most_to_the_bound() -> None:
    assert read_described_calls(f"{PROSE}\n{BLOCK}\n" * 5_000, ("propose_update_node",))
    assert not read_described_calls("```\n" * 100_000, ("propose_update_node",))
    assert not read_described_calls(
        "x" * 30_000 + TEXTS["twice the same"], ("propose_update_node",)
    )
