"""Documents and their keys: what was written is read back, and those of the reference are read."""

import re
import string
from typing import Any

import pytest
from arango.database import StandardDatabase
from hypothesis import example, given
from hypothesis import strategies as st

from datasources.arango import ArangoDatabase, parse_address
from datasources.arango.graph_documents import (
    MAX_BYTES,
    document_key,
    edge_document,
    encoded,
    is_plain,
    node_document,
    node_id,
    read_document,
)
from datasources.arango.layout import THREADS
from datasources.arango.records import from_document, names_of, to_document
from datasources.base import Record
from datasources.errors import BadDocument, RecordConflict
from datasources.types import Edge, Node
from graphrag.agent.thread_store import Threads
from graphrag.roles import Person
from tests.contracts.samples import a_node, an_edge
from tests.support.editor_database import PLAIN, USER, WORKSPACE, editor_thread

OWNER = Person(USER, "editor", WORKSPACE)

names = st.sampled_from(
    ["_key", "_id", "_rev", "_from", "", "rag", "workspace", "kind", "key", "a", "é", "__proto__"]
)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)
keys = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=200)


@given(data=st.dictionaries(names, values, max_size=6), key=keys)
def test_data_of_any_names_comes_back_as_it_went_in(data: dict[str, Any], key: str) -> None:
    document = to_document("acme", "approval", key, data, write="w")
    assert not {name for name in document if name.startswith("_") or name == ""}
    stored = {**document, "_key": names_of("acme", "approval", key)[0], "_id": "c/k", "_rev": "r"}
    assert from_document("approval", stored) == Record(
        kind="approval", key=key, data=data, version="r"
    )


@given(
    one=st.tuples(
        st.sampled_from(["acme", "a", "a:b", "é"]), st.sampled_from(["audit", "odd"]), keys
    ),
    other=st.tuples(
        st.sampled_from(["acme", "a", "a:b", "é"]), st.sampled_from(["audit", "odd"]), keys
    ),
)
def test_two_records_never_share_a_name(
    one: tuple[str, str, str], other: tuple[str, str, str]
) -> None:
    ours = names_of(*one)
    theirs = names_of(*other)
    assert all(
        set(name) <= set(string.ascii_letters + string.digits + "_-.@()+,=;$!*':%") for name in ours
    )
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


async def test_a_thread_of_the_editor_goes_on_and_keeps_what_we_do_not_know(
    arango_address: str,
) -> None:
    document = {**editor_thread(PLAIN), "_key": PLAIN, "futureField": {"kept": True}}
    async with ArangoDatabase(parse_address(arango_address)) as database:
        run = database.state.connection.run

        def put(server: StandardDatabase) -> None:
            server.collection(THREADS).insert(document)

        await run(put)
        threads = Threads(database.records(WORKSPACE))
        (listed,) = await threads.list(OWNER)
        stored = await threads.get(PLAIN, OWNER)
        assert listed.title == stored.thread.title == document["title"]
        said = [message["content"] for message in document["conversationHistory"][-2:]]
        assert [m.content for m in stored.thread.messages] == said
        await threads.save(stored, stored.thread.messages)
        kept: Any = await run(lambda server: server.collection(THREADS).get(PLAIN))
        assert kept["futureField"] == {"kept": True}
        assert (kept["title"], kept["userId"], kept["workspace"]) == (
            document["title"],
            USER,
            WORKSPACE,
        )
        assert kept["conversationHistory"][0]["role"] == "user"
        count: Any = await run(lambda server: server.collection(THREADS).count())
        assert count == 1
        record = Record(kind="thread", key=PLAIN, data={})
        with pytest.raises(RecordConflict):
            await database.records(WORKSPACE).put(record, expected_version=None)
        assert await database.records("globex").get("thread", PLAIN) is None
        await threads.delete(PLAIN, OWNER)
        assert await threads.list(OWNER) == []


TAKEN = re.compile(r"[A-Za-z0-9_\-.@()+,=;$!*'%:]{1,254}")
any_keys = st.one_of(
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=200),
    st.text("ab-%2F%é/", min_size=1, max_size=8),
    st.sampled_from(["a" * 200, "é" * 200, "%41", "%", "%%", "100%", "a b", "..", "-", "a-b"]),
)


@given(any_keys, any_keys)
@example("g" * 127, "l" * 126)
@example("g" * 127, "l" * 127)
def test_the_server_takes_every_key(graph: str, local: str) -> None:
    for key in (encoded(graph), document_key(graph, local)):
        assert TAKEN.fullmatch(key)
        assert len(key) <= MAX_BYTES
    assert node_id(graph, local).startswith("nodius_nodes/")


@given(any_keys, any_keys)
@example("%41", "A")
@example("a b", "a%20b")
def test_two_keys_are_never_written_alike(one: str, other: str) -> None:
    assert (encoded(one) == encoded(other)) == (one == other)
    assert (document_key("g", one) == document_key("g", other)) == (one == other)


@given(any_keys, any_keys)
def test_the_digest_of_a_long_key_is_no_other_key(long: str, short: str) -> None:
    written = encoded("é" * 100 + long)
    assert written.startswith("%%")
    assert encoded(written) != written
    assert encoded(short) != written


@given(
    st.text("abcdefgh0123456789_.", min_size=1, max_size=40),
    st.text("abc019_-.:@", min_size=1, max_size=40),
)
def test_what_nodius_writes_is_written_the_same(graph: str, local: str) -> None:
    assert is_plain(graph)
    assert document_key(graph, local) == f"{graph}-{local}"


@given(any_keys, any_keys, any_keys)
def test_documents_come_back_as_they_went_in(graph: str, key: str, other: str) -> None:
    node = a_node(key, graph, data={"a": 1})
    assert (
        read_document(Node, {**node_document(node, None), "_id": "x", "_rev": "y"}, graph) == node
    )
    edge = an_edge(key, other, key, graph, label="l")
    assert read_document(Edge, {**edge_document(edge), "_id": "x", "_rev": "y"}, graph) == edge


def test_an_edge_as_nodius_writes_it_is_read() -> None:
    stored = {
        "_key": "g-e1", "_id": "nodius_edges/g-e1", "_rev": "r", "graphKey": "g", "sheet": "0",
        "_from": "nodius_nodes/g-a-1", "_to": "nodius_nodes/g-b", "sourceHandle": "1", "targetHandle": "0",
    }  # fmt: skip
    edge = read_document(Edge, stored, "g")
    assert (edge.key, edge.source, edge.target, edge.source_handle) == ("e1", "a-1", "b", "1")
    written = edge_document(edge)
    assert {"source", "target", "localKey"} & written.keys() == set()
    assert (written["_from"], written["_to"]) == ("nodius_nodes/g-a-1", "nodius_nodes/g-b")


async def test_pages_of_threads_hold_those_of_the_editor_in_their_places(
    arango_address: str,
) -> None:
    async with ArangoDatabase(parse_address(arango_address)) as database:
        records = database.records(WORKSPACE)
        for key in ("a", "c", "e"):
            await records.put(Record(kind="thread", key=key, data={}), expected_version=None)
        foreign = [{**editor_thread(PLAIN), "_key": key} for key in ("b", "d")]

        def put(server: StandardDatabase) -> None:
            server.collection(THREADS).insert_many(foreign)

        await database.state.connection.run(put)
        read = list[str]()
        while page := await records.get_page("thread", after=read[-1] if read else None, limit=2):
            read += [record.key for record in page]
        assert read == ["a", "b", "c", "d", "e"]
