"""Records as documents: those of the reference are read, its fields stand where it looks, none is lost."""

from __future__ import annotations

import string
from typing import Any

import pytest
from arango.database import StandardDatabase
from hypothesis import given
from hypothesis import strategies as st

from datasources.arango import ArangoDatabase, parse_address
from datasources.arango.graph_documents import is_plain
from datasources.arango.layout import THREADS
from datasources.arango.records import from_document, names_of, to_document
from datasources.base import Record
from datasources.errors import BadDocument, RecordConflict
from graphrag.agent.thread_store import Threads
from graphrag.roles import Person

ANN = Person("ann", "editor", "acme")
REFERENCE = {
    "_key": "thread-7f3a",
    "graphKey": "flow",
    "workspace": "acme",
    "userId": "ann",
    "contextType": "graph",
    "title": "What is this?",
    "conversationHistory": [
        {"role": "user", "content": "What is this?"},
        {"role": "assistant", "content": "A flow."},
    ],
    "pendingInterrupt": None,
    "totalPromptTokens": 10,
    "totalCompletionTokens": 2,
    "totalTokens": 12,
    "totalCost": 0.01,
    "provider": "openai",
    "model": "gpt",
    "messageCount": 2,
    "toolCallCount": 0,
    "createdTime": 1,
    "lastUpdatedTime": 2,
    "theirs": {"kept": True},
}
"""A thread as the reference stores it, with a field that we do not know."""

names = st.sampled_from(
    ["_key", "_id", "_rev", "_from", "", "rag", "workspace", "kind", "key", "a", "é", "__proto__"]
)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
keys = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=200)


@given(data=st.dictionaries(names, values, max_size=6), key=keys)
def test_data_of_any_names_comes_back_as_it_went_in(data: dict[str, Any], key: str) -> None:
    document = to_document("acme", "approval", key, data, write="w")
    assert not {name for name in document if name.startswith("_") or name == ""}
    stored = {**document, "_key": names_of("acme", "approval", key)[0], "_id": "c/k", "_rev": "r"}
    assert from_document("approval", stored) == Record(kind="approval", key=key, data=data, version="r")


@given(
    one=st.tuples(st.sampled_from(["acme", "a", "a:b", "é"]), st.sampled_from(["audit", "odd"]), keys),
    other=st.tuples(st.sampled_from(["acme", "a", "a:b", "é"]), st.sampled_from(["audit", "odd"]), keys),
)
def test_two_records_never_share_a_name(one: tuple[str, str, str], other: tuple[str, str, str]) -> None:
    ours, theirs = names_of(*one), names_of(*other)
    assert all(set(name) <= set(string.ascii_letters + string.digits + "_-.@()+,=;$!*':%") for name in ours)
    assert all(len(name) <= 254 for name in ours)
    same = one == other or (one[1:] == other[1:] and one[0] == other[0])
    if {one[1], other[1]} == {"audit", "odd"}:
        return  # in other collections
    assert bool(set(ours) & set(theirs)) == same


def test_a_thread_is_named_as_the_reference_names_it() -> None:
    key = "0123456789abcdef0123456789abcdef"
    assert names_of("acme", "thread", key)[0] == key
    assert is_plain(key)


def test_what_cannot_be_stored_is_refused() -> None:
    for data in ({"a": object()}, {"a": 2**70}, {"a": "\ud800"}):
        with pytest.raises(BadDocument):
            to_document("acme", "approval", "k", data, write="w")
    with pytest.raises(BadDocument):
        to_document("acme", "approval", "\ud800", {}, write="w")


async def test_a_thread_of_the_reference_goes_on_here_and_keeps_what_we_do_not_know(
    arango_address: str,
) -> None:
    async with ArangoDatabase(parse_address(arango_address)) as database:
        run = database.state.connection.run

        def put(server: StandardDatabase) -> None:
            server.collection(THREADS).insert(REFERENCE)

        await run(put)
        threads = Threads(database.records("acme"))
        (listed,) = await threads.list(ANN)
        stored = await threads.get("thread-7f3a", ANN)
        assert listed.title == stored.thread.title == "What is this?"
        assert [m.content for m in stored.thread.messages] == ["What is this?", "A flow."]
        await threads.save(stored, stored.thread.messages)
        kept: Any = await run(lambda server: server.collection(THREADS).get("thread-7f3a"))
        assert kept["theirs"] == {"kept": True}
        assert (kept["title"], kept["userId"], kept["workspace"]) == ("What is this?", "ann", "acme")
        assert kept["conversationHistory"][0]["role"] == "user"
        count: Any = await run(lambda server: server.collection(THREADS).count())
        assert count == 1
        record = Record(kind="thread", key="thread-7f3a", data={})
        with pytest.raises(RecordConflict):
            await database.records("acme").put(record, expected_version=None)
        assert await database.records("globex").get("thread", "thread-7f3a") is None
        await threads.delete("thread-7f3a", ANN)
        assert await threads.list(ANN) == []
