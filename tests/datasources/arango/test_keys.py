"""Document keys: every local key has one that the server takes, and it can be read back."""

from __future__ import annotations

import re

from hypothesis import example, given
from hypothesis import strategies as st

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
from datasources.types import Edge, Node
from tests.contracts.samples import a_node, an_edge

TAKEN = re.compile(r"[A-Za-z0-9_\-.@()+,=;$!*'%:]{1,254}")
keys = st.one_of(
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=200),
    st.text("ab-%2F%é/", min_size=1, max_size=8),
    st.sampled_from(["a" * 200, "é" * 200, "%41", "%", "%%", "100%", "a b", "..", "-", "a-b"]),
)


@given(keys, keys)
@example("g" * 127, "l" * 126)
@example("g" * 127, "l" * 127)
def test_the_server_takes_every_key(graph: str, local: str) -> None:
    for key in (encoded(graph), document_key(graph, local)):
        assert TAKEN.fullmatch(key)
        assert len(key) <= MAX_BYTES
    assert node_id(graph, local).startswith("nodius_nodes/")


@given(keys, keys)
@example("%41", "A")
@example("a b", "a%20b")
def test_two_keys_are_never_written_alike(one: str, other: str) -> None:
    assert (encoded(one) == encoded(other)) == (one == other)
    assert (document_key("g", one) == document_key("g", other)) == (one == other)


@given(keys, keys)
def test_the_digest_of_a_long_key_is_no_other_key(long: str, short: str) -> None:
    written = encoded("é" * 100 + long)
    assert written.startswith("%%")
    assert encoded(written) != written
    assert encoded(short) != written


@given(
    st.text("abcdefgh0123456789_.", min_size=1, max_size=40), st.text("abc019_-.:@", min_size=1, max_size=40)
)
def test_what_nodius_writes_is_written_the_same(graph: str, local: str) -> None:
    assert is_plain(graph)
    assert document_key(graph, local) == f"{graph}-{local}"


@given(keys, keys, keys)
def test_documents_come_back_as_they_went_in(graph: str, key: str, other: str) -> None:
    node = a_node(key, graph, data={"a": 1})
    assert read_document(Node, {**node_document(node, None), "_id": "x", "_rev": "y"}, graph) == node
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
