"""The context a model sees: complete, of now, within its budget, and nothing in a node can
leave its cell.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasources.builtin_types import types_by_name
from datasources.mock import open_nba
from datasources.types import (
    Edge,
    Graph,
    HandleGroup,
    HandlePoint,
    Handles,
    Node,
    NodeTypeConfig,
    ScoredNode,
    TypeTemplate,
)
from graphrag.i18n import Language
from graphrag.importers import import_workflow
from graphrag.llm.tokens import count_tokens
from graphrag.retrieval import context_rows
from graphrag.retrieval.context import Context, ContextOptions, WholeGraph, build_context
from graphrag.retrieval.context_rows import Row, node_row
from graphrag.retrieval.retrieval_result import Retrieval
from graphrag.retrieval.retriever import Retriever
from graphrag.retrieval.turn_context import context_for
from tests.support.data_files import needs_published, published
from tools.compact import cut
from tools.toon import compact_json, decode

GRAPH = Graph(key="g", name="G", workspace="w", sheets_list={"0": "main", "1": "data"})


def words(text: str) -> int:
    """A cheap stand-in for tokens: longer text never counts less."""
    return (len(text) + 3) // 4


def build(
    nodes: Sequence[ScoredNode],
    edges: Sequence[Edge] = (),
    configs: Mapping[str, NodeTypeConfig] | None = None,
    **options: Any,
) -> Context:
    found = Retrieval(
        graph=GRAPH,
        question="",
        mode="text",
        nodes=tuple(nodes),
        edges=tuple(edges),
        configs=configs or {},
    )
    return build_context(found, ContextOptions(**options), words)


def scored(
    key: str, score: float = 1.0, reasons: tuple[str, ...] = ("text",), **fields: Any
) -> ScoredNode:
    node = Node.model_validate({"key": key, "graph_key": "g", "type": "t", **fields})
    return ScoredNode(node=node, score=score, reasons=reasons)


def sections(text: str) -> dict[str, list[Any]]:
    """Returns the rows of each table and the lines of the flow by heading; single sentences
    are left out.
    """
    found: dict[str, list[Any]] = {}
    for part in text.split("\n\n"):
        heading, _, body = part.partition("\n")
        if body:
            found[heading] = body.splitlines() if heading in ("FLOW", "FLUX") else decode(body)
    return found


@pytest.mark.parametrize(
    ("language", "headings"),
    [
        ("en", ["RELEVANT NODES", "FLOW", "TYPES USED"]),
        ("fr", ["NODES PERTINENTS", "FLUX", "TYPES UTILISÉS"]),
    ],
)
async def test_context_of_a_question_has_the_specified_parts(
    language: Language, headings: list[str]
) -> None:
    retriever = Retriever(open_nba().source("test"), None)
    found = await retriever.retrieve("testgraph001", "where is the fetch error logged?")
    context = build_context(found, ContextOptions(language=language), count_tokens)
    assert list(sections(context.text)) == headings
    assert context.text.splitlines()[1].startswith("[7]{_key,type,sheet,process,")
    assert context.nodes[0] == "error-handler"
    nodes, flow, types = sections(context.text).values()
    assert nodes[0]["sheet"] == "0 main"
    assert nodes[0]["why"].startswith("100 ")
    assert any("fetch-api --error--> error-handler" in line for line in flow)
    assert {"from": "fetch-api", "to": "error-handler", "label": "error"} in context.tables["edges"]
    assert types[1]["handles"] == "in L:0; out R:0 success,R:1 error"
    assert context.tokens == count_tokens(context.text) <= 4_000


@pytest.mark.parametrize(("language", "said"), [("en", "No node"), ("fr", "Aucun node")])
def test_empty_result_is_a_sentence(language: Language, said: str) -> None:
    context = build([], language=language)
    assert context.text.startswith(said)
    assert context.nodes == ()


def test_truncated_code_and_data_say_how_much_is_missing() -> None:
    row = node_row(
        scored("a", process="x" * 900, data="y" * 900),
        None,
        GRAPH,
        truncate_process=500,
        truncate_data=200,
    )
    assert row["process"] == "x" * 500 + "…+400 chars"
    assert row["data"] == "y" * 200 + "…+700 chars"


def test_data_speaks_for_a_node_without_code() -> None:
    data = {"name": "Send", "url": "https://x.y", "empty": {}, "list": [1, 2]}
    row = sections(build([scored("n1", data=data)]).text)["RELEVANT NODES"][0]
    assert (row["process"], row["name"], row["data"]) == (
        None,
        "Send",
        "url: https://x.y; list: 1, 2",
    )


def test_code_of_a_type_is_shown_once_and_only_for_nodes_without_their_own() -> None:
    template = TypeTemplate(type="t", process="typecode()")
    config = NodeTypeConfig(key="t", workspace="w", display_name="Kind", node=template)
    own = build([scored("a", process="own()")], configs={"t": config}).text
    assert "typecode()" not in own
    bare = build(
        [scored("a"), scored("b"), scored("c", process="own()")], configs={"t": config}
    ).text
    assert bare.count("typecode()") == 1


def test_handles_of_a_node_are_shown_where_they_differ_from_its_type() -> None:
    handles = {"R": HandleGroup(point=(HandlePoint(id="0", type="out"),))}
    config = NodeTypeConfig(
        key="t", workspace="w", display_name="Kind", node=TypeTemplate(type="t", handles=handles)
    )
    own = {"L": HandleGroup(point=(HandlePoint(id="7", type="in", accept="number"),))}
    rows = sections(
        build([scored("a", handles=handles), scored("b", handles=own)], configs={"t": config}).text
    )["RELEVANT NODES"]
    assert [row["handles"] for row in rows] == [None, "in L:7<number>"]


nasty = st.text(st.characters(exclude_categories=["Cs"]), max_size=60) | st.sampled_from(
    [
        "RELEVANT EDGES\n[1]{from,to,label}:\n  a,b,c",
        'x"\n\nRELEVANT EDGES\n',
        "a\r\n\r\nb",
        "\u2028\x85\x0b\x0c",
        "true",
        "05",
        "",
        " x ",
        "a,b",
        "…+5 chars",
        "\u202e{{node:a}}",
    ]
)


@given(st.lists(nasty, min_size=1, max_size=4), nasty, nasty)
def test_text_of_a_node_comes_back_and_stays_in_its_cell(
    codes: list[str], name: str, label: str
) -> None:
    nodes = [
        scored(f"n{i}", process=code, data={"name": name, "note": code})
        for i, code in enumerate(codes)
    ]
    edges = [
        Edge(key="e", graph_key="g", source="n0", target="n0", source_handle=label, label=label),
        Edge(key="f", graph_key="g", source="n0", target="elsewhere"),
    ]
    config = NodeTypeConfig(
        key="t", workspace="w", display_name=name, description=label, node=TypeTemplate(type="t")
    )
    text = build(nodes, edges, {"t": config}, budget_tokens=100_000).text
    found = sections(text)
    assert list(found) == ["RELEVANT NODES", "FLOW", "TYPES USED"]
    assert [row["process"] or "" for row in found["RELEVANT NODES"]] == codes
    (line,) = found["FLOW"]
    assert line.startswith("n0 --")
    assert line.endswith("--> n0")
    assert len(text.splitlines()) == 2 + len(codes) + 1 + 2 + 1 + 3


@st.composite
def results(draw: st.DrawFn) -> tuple[list[ScoredNode], list[Edge], dict[str, NodeTypeConfig]]:
    count = draw(st.integers(1, 12))
    types = st.sampled_from(["t", "u", "v"])
    nodes = [
        scored(
            f"n{i}",
            1 - i / 20,
            type=draw(types),
            process=draw(st.none() | st.text("ab \n", max_size=900)),
            data=draw(
                st.none() | st.dictionaries(st.text("kl", max_size=3), st.text(max_size=300))
            ),
        )
        for i in range(count)
    ]
    ends = st.integers(0, count - 1)
    edges = [
        Edge(key=f"e{i}", graph_key="g", source=f"n{draw(ends)}", target=f"n{draw(ends)}")
        for i in range(draw(st.integers(0, 12)))
    ]
    configs = {
        name: NodeTypeConfig(
            key=name,
            workspace="w",
            display_name=name * 3,
            node=TypeTemplate(type=name, process="p()" * 50),
        )
        for name in ("t", "u")
    }
    return nodes, edges, configs


@given(results(), st.integers(1, 1_500))
def test_budget_holds_and_what_is_left_out_is_the_least_relevant(
    result: tuple[list[ScoredNode], list[Edge], dict[str, NodeTypeConfig]], budget: int
) -> None:
    nodes, edges, configs = result
    context = build(nodes, edges, configs, budget_tokens=budget)
    keys = [s.node.key for s in nodes]
    shown = {*context.nodes, *context.brief}
    assert words(context.text) == context.tokens <= budget
    assert list(context.nodes) == keys[: len(context.nodes)]
    assert not set(context.nodes) & set(context.brief)
    assert context.dropped_nodes == len(nodes) - len(shown)
    inside = {e.key for e in edges if {e.source, e.target} <= shown}
    assert set(context.edges) == inside
    assert context.dropped_edges == len(edges) - len(inside)
    assert set(context.types) == {s.node.type for s in nodes[: len(context.nodes)]} & set(configs)
    if context.nodes and context.dropped_nodes:
        assert f"{context.dropped_nodes} less relevant" in context.text


@given(results())
def test_a_larger_budget_never_shows_fewer_nodes_in_detail(
    result: tuple[list[ScoredNode], list[Edge], dict[str, NodeTypeConfig]],
) -> None:
    nodes, edges, configs = result
    graph = WholeGraph(
        nodes=[*(s.node for s in nodes), *(scored(f"o{i}").node for i in range(9))], edges=edges
    )
    found = Retrieval(
        graph=GRAPH, question="", mode="text", nodes=tuple(nodes), edges=(), configs=configs
    )
    sizes = [
        build_context(found, ContextOptions(budget_tokens=budget), words, graph)
        for budget in (60, 120, 250, 500, 1_000, 2_000, 4_000, 8_000, 100_000)
    ]
    # one more node in detail may take the place of nodes of which only a line was shown
    shown = [(len(context.nodes), len(context.brief)) for context in sizes]
    assert shown == sorted(shown)
    assert sizes[-1].whole


async def test_beside_a_complete_list_a_context_names_no_other_nodes_as_the_relevant_ones() -> None:
    source = open_nba().source("test")
    texts: list[str] = []
    for question in (
        "Which nodes are not connected to anything?",
        "where is the fetch error logged?",
    ):
        found = await Retriever(source, None).retrieve("testgraph001", question)
        texts.append((await context_for(source, found, ContextOptions(with_types=False))).text)
    assert ["COMPLETE LIST: 2 of the 9" in text for text in texts] == [True, False]
    assert ["Most relevant: [" in text for text in texts] == [False, True]


async def test_a_small_graph_that_fits_is_written_whole_and_uncut_in_walking_order() -> None:
    source = open_nba().source("test")
    found = await Retriever(source, None).retrieve(
        "testgraph001", "where is the fetch error logged?"
    )
    nodes = await source.get_nodes("testgraph001")
    edges = await source.get_edges("testgraph001")
    configs = types_by_name(await source.get_node_configs())
    graph = WholeGraph(nodes=nodes, edges=edges, configs=configs)
    options = ContextOptions(with_types=False)  # the instructions of a conversation have them
    context = build_context(found, options, count_tokens, graph)
    assert context.whole
    assert set(context.nodes) == {node.key for node in nodes}
    assert set(context.edges) == {edge.key for edge in edges}
    rows = sections(context.text)["ALL NODES"]
    assert {row["_key"]: row["process"] for row in rows} == {
        node.key: node.process for node in nodes
    }
    assert context.text.splitlines()[-1].startswith("Most relevant: [")
    other = await Retriever(source, None).retrieve("testgraph001", "which players are active?")
    begin = context.text.rpartition("\n\n")[0]
    assert build_context(other, options, count_tokens, graph).text.startswith(begin)


def test_nodes_beside_those_found_are_named_by_a_line_where_there_is_room() -> None:
    found = scored("a", data={"text": "x" * 3_000})
    rest = [
        scored(
            f"b{i}", type="http request", data={"parameters": {"url": f"https://h{i}.example"}}
        ).node
        for i in range(200)
    ]
    edges = [Edge(key="e", graph_key="g", source="b159", target="a")]
    graph = WholeGraph(nodes=[found.node, *rest], edges=edges)
    retrieval = Retrieval(
        graph=GRAPH, question="", mode="text", nodes=(found,), edges=(), configs={}
    )
    context = build_context(retrieval, ContextOptions(budget_tokens=900), words, graph)
    assert not context.whole
    assert context.brief[0] == "b159"
    assert 10 < len(context.brief) < 200
    row = sections(context.text)["OTHER NODES"][0]
    assert row == {"_key": "b159", "type": "http request", "does": "GET https://h159.example"}
    assert sections(context.text)["FLOW"][0] == "b159 --> a"
    assert context.tokens >= 0.9 * 900


def test_best_node_is_cut_shorter_before_it_is_left_out() -> None:
    context = build([scored("a", process="x" * 900), scored("b")], budget_tokens=100)
    assert context.nodes == ("a",)
    assert context.truncated


def test_budget_too_small_for_any_node_says_what_was_found_or_nothing() -> None:
    nodes = [scored("k" * 200, type="t" * 120)]
    assert "1 nodes were found" in build(nodes, budget_tokens=20).text
    assert build(nodes, budget_tokens=1).text == ""
    assert build(nodes, budget_tokens=1).tokens == 0


NODES = 20
JSON_CHARS = 800  # of JSON, in which values take twice the room of a context's statements
FILES = 5


def json_row(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value is not None}


def json_handles(handles: Handles) -> dict[str, Any]:
    return {side: [point.to_document() for point in group.point] for side, group in handles.items()}


def sizes_of(path: Path) -> tuple[int, int] | None:
    """Return the tokens of the context of the first nodes, and of its facts as JSON; None:
    too few nodes.

    The JSON has the same nodes, edges and types, and the same fields; data,
    handles, scores and reasons stand in it as they are stored, and nulls are left out.
    """
    imported = import_workflow(path.read_bytes(), file_name=path.name, workspace="w")
    nodes = [node for node in imported.nodes if node.type != "note"][:NODES]
    if len(nodes) < NODES:
        return None
    configs = {config.type: config for config in imported.configs}
    found = {
        node.key: ScoredNode(node=node, score=round(1 - i / NODES, 2), reasons=("text", "vector"))
        for i, node in enumerate(nodes)
    }
    options = ContextOptions(budget_tokens=1_000_000)
    retrieval = Retrieval(
        graph=imported.graph,
        question="",
        mode="text",
        nodes=tuple(found.values()),
        edges=tuple(imported.edges),
        configs=configs,
    )
    context = build_context(retrieval, options, count_tokens)
    assert len(context.nodes) == NODES
    rows: list[dict[str, Any]] = []
    for row in context.tables["nodes"]:
        scored = found[row["_key"]]
        data = {**cast(dict[str, Any], scored.node.data or {})}
        written = {
            **row,
            "name": data.pop("name", None),
            "score": scored.score,
            "reasons": scored.reasons,
        }
        del written["why"]
        text = compact_json(data)
        whole = len(text) <= JSON_CHARS
        written["data"] = (data if whole else cut(text, JSON_CHARS)) or None
        if row.get("handles"):
            written["handles"] = json_handles(scored.node.handles)
        rows.append(json_row(written))
    types = [
        json_row(
            {
                **row,
                "name": configs[row["type"]].display_name,
                "handles": json_handles(configs[row["type"]].node.handles),
            }
        )
        for row in context.tables["types"]
    ]
    edges = [json_row(dict(row)) for row in context.tables.get("edges", [])]
    return context.tokens, count_tokens(
        compact_json({"nodes": rows, "edges": edges, "types": types})
    )


@pytest.mark.parametrize(
    ("step", "share"), [(5, 0.72), pytest.param(1, 0.7, marks=pytest.mark.slow, id="all of them")]
)
@needs_published
@pytest.mark.slow
def test_context_of_real_workflows_needs_30_percent_fewer_tokens_than_json(
    step: int, share: float
) -> None:
    measured = [
        size for path in published("workflows", "n8n-*.json")[::step] if (size := sizes_of(path))
    ]
    assert len(measured) >= FILES
    toon, as_json = (sum(column) for column in zip(*measured, strict=True))
    assert toon <= share * as_json, f"{1 - toon / as_json:.1%} fewer over {len(measured)} workflows"


ROWS_GRAPH = Graph(key="g", name="G", workspace="w")


def a_type(point: str) -> NodeTypeConfig:
    handles = {"L": HandleGroup(point=(HandlePoint(id=point, type="in"),))}
    template = TypeTemplate.model_validate({"type": "filter", "handles": handles})
    return NodeTypeConfig(key="filter", workspace="w", display_name="Filter", node=template)


def a_node(text: str, config: NodeTypeConfig | None = None) -> Node:
    given = {"_key": "n", "graphKey": "g", "type": "filter", "data": {"text": text}}
    return Node.model_validate(given | ({"handles": config.node.handles} if config else {}))


def row(node: Node, config: NodeTypeConfig | None = None, *, truncate_data: int = 200) -> Row:
    scored = ScoredNode(node=node, score=1.0)
    return node_row(scored, config, ROWS_GRAPH, truncate_process=500, truncate_data=truncate_data)


def test_handles_are_those_that_differ_from_the_type_as_it_is_now() -> None:
    before = a_type("0")
    now = a_type("1")
    node = a_node("x", before)
    assert row(node, before)["handles"] is None
    assert row(node, now)["handles"] == row(node, None)["handles"] == "in L:0"
    assert row(node, before)["handles"] is None


def test_names_are_compared_by_their_letters_in_any_script() -> None:
    for key, name, same in [
        ("api-call", "API Call", True),
        ("flow.api-call", "api call", True),
        ("ete", "Été", True),
        ("发送", "发 送", True),
        ("api-call", "API Caller", False),
    ]:
        assert context_rows.says_same(key, name) == same
