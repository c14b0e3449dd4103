"""Conversations as they are stored."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass, replace
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st

from datasources.base import Record, RecordStore, RecordWrite
from datasources.mock import open_nba
from graphrag.agent.thread_agent import ThreadAgent
from graphrag.agent.thread_messages import from_stored, to_stored
from graphrag.agent.thread_store import KIND, StoredThread, ThreadBusy, Threads, ThreadVersion
from graphrag.approvals import Person
from graphrag.llm.base import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from tests.support.agents import EDITOR, GRAPH


def hello() -> list[Message]:
    return [UserMessage(content="hello")]


@dataclass
class Shelf:
    threads: Threads
    records: RecordStore
    now: int = 1_000

    async def keep(
        self, title: str, person: Person = EDITOR, graph: str = GRAPH, **more: Any
    ) -> StoredThread:
        self.now += 1
        return await self.threads.save(
            self.threads.begin(graph, person, title=title, **more), hello()
        )


@pytest_asyncio.fixture
async def shelf() -> AsyncGenerator[Shelf]:
    async with open_nba("default") as database:
        records = database.records("default")
        made = Shelf(Threads(records), records)
        made.threads = Threads(records, clock=lambda: made.now)
        yield made


async def test_a_thread_is_stored_in_the_form_of_the_editors_chat(shelf: Shelf) -> None:
    stored = await shelf.keep("  What\n is\tthis?  " + "x" * 100)
    record = await shelf.records.get(KIND, stored.thread.key)
    data = dict(record.data)
    assert data["title"] == ("What is this? " + "x" * 100)[:80]
    [said] = data["conversationHistory"]
    assert said.pop("id")
    assert said == {"role": "user", "content": "hello", "time": shelf.now}
    for name in (
        "graphKey",
        "workspace",
        "userId",
        "totalPromptTokens",
        "totalCost",
        "createdTime",
    ):
        assert name in data
    assert (data["userId"], data["schemaVersion"], data["turn"]["status"]) == ("ed", 1, "idle")


async def test_of_two_who_write_the_second_is_reported(shelf: Shelf) -> None:
    stored = await shelf.keep("one")
    await shelf.threads.save(stored, [*hello(), AssistantMessage(content="first")])
    with pytest.raises(ThreadBusy):
        await shelf.threads.save(stored, [*hello(), AssistantMessage(content="second")])
    kept = (await shelf.threads.get(stored.thread.key, EDITOR)).thread.messages
    assert kept[-1] == AssistantMessage(content="first")


async def test_threads_are_listed_newest_first_by_graph_and_kind(shelf: Shelf) -> None:
    first = await shelf.keep("first")
    second = await shelf.keep("second", context_type="home")
    other = await shelf.keep("other", graph="another")
    shelf.now += 1
    await shelf.threads.save(first, hello())
    assert [t.title for t in await shelf.threads.list(EDITOR)] == ["first", "other", "second"]
    assert [t.key for t in await shelf.threads.list(EDITOR, graph_key="another")] == [
        other.thread.key
    ]
    assert [t.key for t in await shelf.threads.list(EDITOR, context_type="home")] == [
        second.thread.key
    ]
    assert len(await shelf.threads.list(EDITOR, limit=2)) == 2


async def test_a_thread_of_a_newer_program_is_refused_and_does_not_spoil_the_list(
    shelf: Shelf,
) -> None:
    old = await shelf.keep("old")
    newer = await shelf.keep("newer")
    record = await shelf.records.get(KIND, newer.thread.key)
    changed = Record(kind=KIND, key=record.key, data={**record.data, "schemaVersion": 2})
    await shelf.records.put(changed, expected_version=record.version)
    with pytest.raises(ThreadVersion, match="upgrade"):
        await shelf.threads.get(newer.thread.key, EDITOR)
    damaged = Record(kind=KIND, key="bad", data={**record.data, "graphKey": 7})
    await shelf.records.put(damaged, expected_version=None)
    assert [t.key for t in await shelf.threads.list(EDITOR)] == [old.thread.key]


async def test_a_thread_of_another_program_is_read_and_keeps_what_we_do_not_know(
    shelf: Shelf,
) -> None:
    data: dict[str, Any] = {
        "graphKey": GRAPH,
        "workspace": "default",
        "userId": "ed",
        "title": "Theirs",
        "mood": {"happy": True},
        "conversationHistory": [
            {"role": "system", "content": "Rules"},
            {"role": "system", "content": "[Contexte RAG pour cette question]\nnodes"},
            {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
            {"role": "assistant", "content": None, "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "look", "arguments": "{}"}}, "junk"]},
            {"role": "tool", "tool_call_id": "a", "content": "seen"},
            {"role": "function", "content": "old"}, 7,
        ],
    }  # fmt: skip
    await shelf.records.put(Record(kind=KIND, key="theirs", data=data), expected_version=None)
    stored = await shelf.threads.get("theirs", EDITOR)
    assert stored.thread.messages == [
        UserMessage(content="Hi"),
        AssistantMessage(tool_calls=(ToolCall(id="a", name="look", arguments="{}"),)),
        ToolMessage(call_id="a", name="", content="seen"),
    ]
    went_on = [*stored.thread.messages, UserMessage(content="More")]
    await shelf.threads.save(stored, went_on)
    assert [message.time for message in went_on] == [0, 0, 0, shelf.now]
    record = await shelf.records.get(KIND, "theirs")
    assert [("id" in raw, "time" in raw) for raw in record.data["conversationHistory"]] == [
        *[(False, False)] * 3,
        (True, True),
    ]
    assert record.data["mood"] == {"happy": True}
    assert record.data["schemaVersion"] == 1


words = st.text(max_size=30)
extras = st.dictionaries(
    words, st.none() | st.integers(-9, 9) | st.lists(words, max_size=2), max_size=2
)
messages: st.SearchStrategy[list[Message]] = st.lists(
    st.one_of(
        st.builds(SystemMessage, content=words.map(lambda text: f"s{text}"), stable=st.booleans()),
        st.builds(UserMessage, content=words),
        st.builds(
            AssistantMessage,
            content=words,
            origin=words,
            extra=extras,
            tool_calls=st.lists(
                st.builds(ToolCall, id=words, name=words, arguments=words, extra=extras), max_size=3
            ).map(tuple),
        ),
        st.builds(
            ToolMessage,
            call_id=words,
            name=words,
            content=words,
            is_error=st.booleans(),
            outcome=st.none() | st.just({"status": "applied", "created": ["ai_1"]}),
        ),
    ),
    max_size=6,
)


@given(messages)
def test_messages_come_back_as_they_were_stored(stored: list[Message]) -> None:
    assert from_stored(to_stored(stored)) == stored


async def test_a_message_keeps_the_id_and_time_it_was_first_stored_with(shelf: Shelf) -> None:
    said = hello()
    stored = await shelf.threads.save(shelf.threads.begin(GRAPH, EDITOR, title="x"), said)
    before = [(message.id, message.time) for message in said]
    shelf.now += 5
    said.append(AssistantMessage(content="hi"))
    stored = await shelf.threads.save(stored, said)
    again = (await shelf.threads.get(stored.thread.key, EDITOR)).thread.messages
    assert [(message.id, message.time) for message in again[:1]] == before
    assert again[1].time == shelf.now
    assert len({message.id for message in again}) == 2


async def test_half_a_surrogate_pair_is_stored_as_the_replacement_character(shelf: Shelf) -> None:
    stored = await shelf.keep("half \ud800 pair")
    kept = await shelf.threads.save(stored, [UserMessage(content="\udfff")])
    assert kept.thread.messages == [UserMessage(content="\ufffd")]
    assert (await shelf.threads.get(stored.thread.key, EDITOR)).thread.title == "half \ufffd pair"


async def test_a_thread_of_an_agent_is_found_by_it_and_read_as_it_was_stored(shelf: Shelf) -> None:
    agent = ThreadAgent(agent_id="shop", version=2, ctx={"a": None, "b": [None, 1.5]}, idle_time=7)
    begun = shelf.threads.begin("", EDITOR, title="t")
    begun = replace(begun, thread=begun.thread.model_copy(update={"agent": agent}))
    owed = RecordWrite(kind="delivery", key="d", data={"status": "waiting"}, expected_version=None)
    stored = await shelf.threads.save(begun, hello(), [owed])
    read = await shelf.threads.get(stored.thread.key, EDITOR)
    assert (read.thread.agent, read.version) == (agent, stored.version)
    (found,) = await shelf.records.query(
        KIND, {"agentId": "shop"}, order_by="agentIdleTime", at_most=7
    )
    assert found.key == stored.thread.key
    ended = agent.model_copy(update={"ended_time": 9})
    again = replace(read, thread=read.thread.model_copy(update={"agent": ended}))
    with pytest.raises(ThreadBusy):  # the delivery is there already: nothing is written
        await shelf.threads.save(again, hello(), [owed])
    assert await shelf.records.query(KIND, {"agentOpen": True}) != []
    await shelf.threads.save(again, hello())
    assert await shelf.records.query(KIND, {"agentOpen": True}) == []
    assert await shelf.records.query(KIND, order_by="agentIdleTime", at_most=7) == []
