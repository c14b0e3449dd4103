"""Documents: nothing of what was stored is lost or renamed, and what is wrong is named."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from datasources.errors import BadDocument
from datasources.types import Document, Edge, Graph, Node, NodeTypeConfig, Size, parse_document
from tests.support.each_row import each_row

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
keys = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20)
numbers = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
points = st.fixed_dictionaries(
    {"id": texts, "type": st.sampled_from(["in", "out"])},
    optional={"accept": texts, "display": texts, "offset": numbers, "linkedHtmlId": texts, "theirs": values},
)
groups = st.fixed_dictionaries(
    {}, optional={"position": st.sampled_from(["separate", "fix"]), "point": st.lists(points, max_size=2)}
)
NODE: dict[str, st.SearchStrategy[Any]] = {
    "sheet": texts,
    "posX": numbers,
    "posY": numbers,
    "size": st.fixed_dictionaries(
        {"width": numbers, "height": numbers}, optional={"dynamic": st.booleans(), "unit": values}
    ),
    "handles": st.dictionaries(st.sampled_from(["T", "D", "R", "L", "0"]), groups, max_size=2),
    "typeVersion": numbers,
    "data": values,
    "process": st.none() | texts,
}
REQUIRED = {"_key": keys, "graphKey": keys, "type": texts}
foreign_names = texts.filter(lambda name: name not in {*NODE, *REQUIRED}) | st.sampled_from(
    ["key", "graph_key", "pos_x", "_id", "_rev", "replace", "points", "model_config", "__class__"]
)


@st.composite
def node_documents(draw: st.DrawFn) -> dict[str, Any]:
    known = draw(st.fixed_dictionaries(REQUIRED, optional=NODE))
    theirs = draw(st.dictionaries(foreign_names, values, max_size=3))
    return {**theirs, **known}


@given(node_documents(), st.booleans())
def test_a_document_comes_back_as_it_was_unknown_fields_included(raw: dict[str, Any], as_bytes: bool) -> None:
    node = parse_document(Node, orjson.dumps(raw) if as_bytes else raw, "nodes")
    again = node.to_document()
    # A foreign `pos_x` makes ours appear with its default beside it; nothing else is added.
    added = {"posX"} if "pos_x" in raw else set()
    assert again.keys() - raw.keys() <= added
    assert {name: again[name] for name in raw} == _listed(raw)
    assert orjson.loads(node.to_json()) == orjson.loads(orjson.dumps(again))
    assert parse_document(Node, node.to_json(), "nodes").to_document() == again


def _listed(raw: dict[str, Any]) -> dict[str, Any]:
    """The document as it comes out: handle points in a tuple."""
    if "handles" not in raw:
        return raw
    groups = {
        side: {**group, "point": tuple(group["point"])} if "point" in group else group
        for side, group in raw["handles"].items()
    }
    return {**raw, "handles": groups}


@given(node_documents(), keys, numbers)
def test_replacing_a_field_leaves_all_others_alone(raw: dict[str, Any], graph: str, width: float) -> None:
    node = parse_document(Node, raw, "nodes")
    before = node.to_document()
    changed = node.replace(graph_key=graph, size=Size(width=width, height=2))
    assert changed.graph_key == graph
    assert changed.size.width == width
    after = changed.to_document()
    assert after.pop("size") == {"width": width, "height": 2}
    before.pop("size", None)
    assert after == {**before, "graphKey": graph}
    assert node.to_document().get("size") == raw.get("size")


def test_whole_numbers_stay_whole() -> None:
    raw = b'{"_key":"a","graphKey":"g","type":"t","posX":3,"posY":3.0,"data":{"n":1,"f":1.0}}'
    node = parse_document(Node, raw, "nodes")
    assert (type(node.pos_x), type(node.pos_y)) == (int, float)
    assert b'"posX":3,"posY":3.0' in node.to_json()
    assert b'"n":1,"f":1.0' in node.to_json()


def test_absent_fields_stay_absent_and_have_their_defaults() -> None:
    raw = {"_key": "a", "graphKey": "g", "type": "t"}
    node = parse_document(Node, raw, "nodes")
    assert node.to_document() == raw
    assert (node.sheet, node.pos_x, node.handles, node.process, node.data) == ("0", 0, {}, None, None)
    edge = parse_document(Edge, {"_key": "e", "graphKey": "g", "source": "a", "target": "b"}, "edges")
    assert (edge.source_handle, edge.target_handle, edge.label) == ("0", "0", None)
    graph = parse_document(Graph, {"_key": "g", "name": "G", "workspace": "w"}, "graphs")
    assert (graph.sheets_list, graph.revision) == ({"0": "main"}, 0)


@each_row(
    "model, raw, key, field",
    (Node, {"_key": "a", "graphKey": "g"}, "a", "type"),
    (Node, {"graphKey": "g", "type": "t"}, "?", "_key"),
    (Node, {"key": "a", "graphKey": "g", "type": "t"}, "?", "_key"),
    (Node, {"_key": "", "graphKey": "g", "type": "t"}, "", "_key"),
    (Node, {"_key": "x" * 201, "graphKey": "g", "type": "t"}, "x" * 201, "_key"),
    (Node, {"_key": "a\n", "graphKey": "g", "type": "t"}, "a\n", "_key"),
    (Node, {"_key": "a\x00", "graphKey": "g", "type": "t"}, "a\x00", "_key"),
    (Node, {"_key": 7, "graphKey": "g", "type": "t"}, "7", "_key"),
    (Node, {"_key": "a", "graphKey": "g", "type": None}, "a", "type"),
    (Node, {"_key": "a", "graphKey": "g", "type": "t", "handles": {"X": {}}}, "a", "handles.X.[key]"),
    (
        Node,
        {"_key": "a", "graphKey": "g", "type": "t", "handles": {"L": {"point": [{"id": "0"}]}}},
        "a",
        "handles.L.point.0.type",
    ),
    (Edge, {"_key": "e", "graphKey": "g", "source": "a"}, "e", "target"),
    (Graph, {"_key": "g", "workspace": "w", "name": "n", "sheetsList": ["main"]}, "g", "sheetsList"),
    (NodeTypeConfig, {"_key": "t", "workspace": "w", "displayName": "T"}, "t", "node"),
    (NodeTypeConfig, {"_key": "t", "workspace": "w", "displayName": "T", "node": {}}, "t", "node.type"),
)
def test_a_bad_document_names_collection_key_and_field(
    model: type[Document], raw: dict[str, Any], key: str, field: str
) -> None:
    for form in (raw, orjson.dumps(raw)):
        with pytest.raises(BadDocument) as caught:
            parse_document(model, form, "things")
        assert (caught.value.collection, caught.value.key, caught.value.field) == ("things", key, field)
        assert caught.value.reason
        assert f"things/{key}: field '{field}'" in str(caught.value)


@each_row("raw", b"", b"\xff\xfe", b"{", b"[]", b"null", "7", b"[" * 100_000)
def test_what_is_no_document_is_refused(raw: bytes | str) -> None:
    with pytest.raises(BadDocument) as caught:
        parse_document(Node, raw, "nodes")
    assert (caught.value.key, caught.value.field) == ("?", "(document)")


def test_a_document_cannot_be_changed() -> None:
    node = Node(key="a", graph_key="g", type="t")
    with pytest.raises(ValidationError, match="frozen"):
        node.key = "b"
    with pytest.raises(ValidationError):
        node.replace(key="")
