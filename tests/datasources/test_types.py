"""Documents and types: nothing that was stored is lost, what is wrong is named, a
field is declared once.
"""

from typing import Annotated, Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from datasources.builtin_types import BUILTIN_TYPES, types_by_name, visible_types
from datasources.errors import BadDocument
from datasources.memory_overlay import has_same_words
from datasources.text import node_text
from datasources.types import (
    ROOT_WORKSPACE,
    Document,
    Edge,
    Graph,
    Node,
    NodeTypeConfig,
    ScoredNode,
    Size,
    Used,
    node_fields,
    parse_document,
)
from graphrag.embedding.embedder import content_text, embedding_hash
from graphrag.retrieval.context import ContextOptions, build_context
from graphrag.retrieval.retrieval_result import Retrieval
from tests.contracts.samples import WORKSPACE, a_type
from tools.actions.field_changes import fault_of_change

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
    optional={
        "accept": texts,
        "display": texts,
        "offset": numbers,
        "linkedHtmlId": texts,
        "theirs": values,
    },
)
groups = st.fixed_dictionaries(
    {},
    optional={
        "position": st.sampled_from(["separate", "fix"]),
        "point": st.lists(points, max_size=2),
    },
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
def test_a_document_comes_back_as_it_was_unknown_fields_included(
    raw: dict[str, Any], as_bytes: bool
) -> None:
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
def test_replacing_a_field_leaves_all_others_alone(
    raw: dict[str, Any], graph: str, width: float
) -> None:
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
    assert (node.sheet, node.pos_x, node.handles, node.process, node.data) == (
        "0",
        0,
        {},
        None,
        None,
    )
    edge = parse_document(
        Edge, {"_key": "e", "graphKey": "g", "source": "a", "target": "b"}, "edges"
    )
    assert (edge.source_handle, edge.target_handle, edge.label) == ("0", "0", None)
    graph = parse_document(Graph, {"_key": "g", "name": "G", "workspace": "w"}, "graphs")
    assert (graph.sheets_list, graph.revision) == ({"0": "main"}, 0)


@pytest.mark.parametrize(
    ("model", "raw", "key", "field"),
    [
        (Node, {"_key": "a", "graphKey": "g"}, "a", "type"),
        (Node, {"graphKey": "g", "type": "t"}, "?", "_key"),
        (Node, {"key": "a", "graphKey": "g", "type": "t"}, "?", "_key"),
        (Node, {"_key": "", "graphKey": "g", "type": "t"}, "", "_key"),
        (Node, {"_key": "x" * 201, "graphKey": "g", "type": "t"}, "x" * 201, "_key"),
        (Node, {"_key": "a\n", "graphKey": "g", "type": "t"}, "a\n", "_key"),
        (Node, {"_key": "a\x00", "graphKey": "g", "type": "t"}, "a\x00", "_key"),
        (Node, {"_key": 7, "graphKey": "g", "type": "t"}, "7", "_key"),
        (Node, {"_key": "a", "graphKey": "g", "type": None}, "a", "type"),
        (
            Node,
            {"_key": "a", "graphKey": "g", "type": "t", "handles": {"X": {}}},
            "a",
            "handles.X.[key]",
        ),
        (
            Node,
            {"_key": "a", "graphKey": "g", "type": "t", "handles": {"L": {"point": [{"id": "0"}]}}},
            "a",
            "handles.L.point.0.type",
        ),
        (Edge, {"_key": "e", "graphKey": "g", "source": "a"}, "e", "target"),
        (
            Graph,
            {"_key": "g", "workspace": "w", "name": "n", "sheetsList": ["main"]},
            "g",
            "sheetsList",
        ),
        (NodeTypeConfig, {"_key": "t", "workspace": "w", "displayName": "T"}, "t", "node"),
        (
            NodeTypeConfig,
            {"_key": "t", "workspace": "w", "displayName": "T", "node": {}},
            "t",
            "node.type",
        ),
    ],
)
def test_a_bad_document_names_collection_key_and_field(
    model: type[Document], raw: dict[str, Any], key: str, field: str
) -> None:
    for form in (raw, orjson.dumps(raw)):
        with pytest.raises(BadDocument) as caught:
            parse_document(model, form, "things")
        assert (caught.value.collection, caught.value.key, caught.value.field) == (
            "things",
            key,
            field,
        )
        assert caught.value.reason
        assert f"things/{key}: field '{field}'" in str(caught.value)


@pytest.mark.parametrize("raw", [b"", b"\xff\xfe", b"{", b"[]", b"null", "7", b"[" * 100_000])
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


configs = st.lists(
    st.tuples(st.sampled_from("kxyz"), st.sampled_from(["task", "html", "log"])), max_size=5
)


def types(pairs: list[tuple[str, str]], workspace: str) -> list[NodeTypeConfig]:
    return [a_type(name, workspace, key=key) for key, name in dict(pairs).items()]


@given(configs, configs)
def test_one_type_a_name_ours_first_then_by_key(
    own_pairs: list[tuple[str, str]], root_pairs: list[tuple[str, str]]
) -> None:
    own = types(own_pairs, WORKSPACE)
    root = types(root_pairs, ROOT_WORKSPACE)
    seen = visible_types(own, root)
    assert [c.key for c in seen] == sorted(c.key for c in seen)
    assert {c.type for c in seen} == {c.type for c in own + root}
    assert len({c.type for c in seen}) == len(seen)
    for config in seen:
        rivals = [c for c in own if c.type == config.type] or [
            c for c in root if c.type == config.type
        ]
        assert config == min(rivals, key=lambda c: c.key)


def test_a_stored_type_wins_over_the_built_in_of_its_name() -> None:
    mine = a_type("html")
    meant = types_by_name([mine])
    assert meant["html"] is mine
    assert meant["starter"] is BUILTIN_TYPES["starter"]


def test_the_built_in_types_are_complete_documents_that_cannot_be_changed() -> None:
    assert set(BUILTIN_TYPES) == {"starter", "return", "html", "entryType"}
    for name, config in BUILTIN_TYPES.items():
        assert config.type == config.key == name
        assert config.description
        assert config.display_name
        assert parse_document(NodeTypeConfig, config.to_json(), "node_configs") == config
    with pytest.raises(TypeError):
        BUILTIN_TYPES["starter"] = BUILTIN_TYPES["html"]  # type: ignore[index]


class NotedNode(Node):
    note: Annotated[str | None, Used("searched", "embedded", "shown", "proposable")] = None
    checked_by: str | None = None


NOTED = NotedNode(
    key="a", graph_key="g", type="api", data={"name": "Fetch"}, note="ask Zoe", checked_by="Max"
)
PLAIN = Node(key="a", graph_key="g", type="api", data={"name": "Fetch"})


def test_a_field_is_searched_embedded_and_compared_where_it_says_so() -> None:
    assert "ask Zoe" in node_text(NOTED).content
    assert "ask Zoe" in content_text(NOTED, None)
    assert "Max" not in node_text(NOTED).content
    assert embedding_hash(NOTED, None) != embedding_hash(NOTED.replace(note="ask Kim"), None)
    assert embedding_hash(NOTED, None) == embedding_hash(NOTED.replace(checkedBy="Kim"), None)
    assert not has_same_words(NOTED, NOTED.replace(note="ask Kim"), {})


def test_a_node_without_the_new_field_keeps_its_words_and_its_hash() -> None:
    without = NotedNode.model_validate(PLAIN.to_document())
    assert node_text(without) == node_text(PLAIN)
    assert embedding_hash(without, None) == embedding_hash(PLAIN, None)


def test_a_field_is_shown_to_the_model_where_it_says_so() -> None:
    graph = Graph(key="g", name="G", workspace="w")
    nodes = (ScoredNode(node=NOTED, score=1),)
    found = Retrieval(graph=graph, question="", mode="text", nodes=nodes, edges=(), configs={})
    context = build_context(found, ContextOptions(), len)
    assert context.tables["nodes"][0]["note"] == "ask Zoe"
    assert "ask Zoe" in context.text
    assert "Max" not in context.text


def test_a_field_is_proposable_where_it_says_so() -> None:
    assert fault_of_change(NOTED.replace(note=None), "note") is None
    assert fault_of_change(PLAIN, "note") is not None
    assert node_fields("proposable").items() >= {"pos_x": "posX", "process": "process"}.items()
    assert "sheet" not in node_fields("proposable")
