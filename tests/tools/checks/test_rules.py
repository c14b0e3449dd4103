"""Each rule finds what it is for, and nothing in a graph that is in order."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from datasources.builtin_types import BUILTIN_TYPES
from datasources.mock import open_nba
from datasources.types import (
    Edge,
    Graph,
    HandleGroup,
    HandlePoint,
    Node,
    NodeTypeConfig,
    TypeTemplate,
)
from languages import LANGUAGES
from languages.reading import read_tables
from tools.checks import CheckedGraph, Checks, GraphFinding, check, checking
from tools.checks.checking import RULES, SEVERITIES
from tools.checks.code_syntax import first_error, without_comments
from tools.read_tools.check import findings

N8N = {"origin": {"format": "n8n"}}


def node(
    key: str,
    kind: str = "step",
    *,
    ins: str = "0",
    outs: str = "0",
    process: str | None = None,
    **data: Any,
) -> Node:
    """Make a node; `ins` and `outs` are handle ids, each with `=display` or `:accepted
    type` after it.
    """

    def point(text: str, direction: Any) -> HandlePoint:
        rest, _, display = text.partition("=")
        ident, _, accept = rest.partition(":")
        return HandlePoint(
            id=ident, type=direction, accept=accept or "any", display=display or None
        )

    return Node(
        key=key,
        graph_key="g",
        type=kind,
        process=process,
        data={"name": key, **data},
        handles={
            "L": HandleGroup(point=tuple(point(text, "in") for text in ins.split())),
            "R": HandleGroup(point=tuple(point(text, "out") for text in outs.split())),
        },
    )


def edge(source: str, target: str) -> Edge:
    """Make an edge between `node` or `node.handle`."""
    one, _, out = source.partition(".")
    two, _, into = target.partition(".")
    return Edge(
        key=f"{source}-{target}",
        graph_key="g",
        source=one,
        source_handle=out or "0",
        target=two,
        target_handle=into or "0",
    )


def kind(name: str) -> NodeTypeConfig:
    return NodeTypeConfig(
        key=name, workspace="w", display_name=name.title(), node=TypeTemplate(type=name)
    )


def run(
    nodes: list[Node], *edges: tuple[str, str], metadata: Any = None, **view: Any
) -> list[GraphFinding]:
    types = {**BUILTIN_TYPES, **{name: kind(name) for name in ("step", "note", "merge", "filter")}}
    return check(
        CheckedGraph(
            graph=Graph(key="g", name="G", workspace="w", metadata=metadata),
            nodes={one.key: one for one in nodes},
            edges=[edge(*ends) for ends in edges],
            types=types,
            **view,
        )
    )


def found(findings: list[GraphFinding]) -> list[tuple[str, tuple[str, ...]]]:
    return [(one.rule, one.violation.nodes) for one in findings]


def ends_of(edges: str) -> list[tuple[str, str]]:
    """Read `start>a a.1>b`: edges with a space between."""
    return [(source, target) for source, _, target in (one.partition(">") for one in edges.split())]


START = node("start", ins="")
A = node("a")
B = node("b")
ORDERLY = [("start", "a"), ("a", "b")]


def test_a_graph_in_order_has_no_finding() -> None:
    assert run([START, A, B], *ORDERLY) == []
    assert run([]) == []


@pytest.mark.parametrize(
    ("expected", "nodes", "edges"),
    [
        ("no_start:a,b", [A, B], "a>b"),
        ("unreachable:b,c", [START, A, B, node("c")], "start>a b>c"),
        ("dead_end:if", [START, node("if", outs="0=true 1=false")], "start>if"),
        ("open_error_output:get", [START, node("get", outs="0 1=error"), A], "start>get get>a"),
        ("unjoined_branch:m", [START, node("m", "merge", ins="0 1")], "start>m.0"),
        (
            "open_loop:each",
            [START, node("each", outs="0=done 1=loop"), A, B],
            "start>each each.0>b each.1>a",
        ),
        ("endless_cycle:a,b", [START, A, B], "start>a a>b b>a"),
        ("missing_end:a", [START, A], "start>a a>gone"),
        ("missing_handle:start", [START, A], "start>a start.9>a"),
        ("unknown_type:x", [START, node("x", "nothing")], "start>x"),
        ("broken_code:c", [START, node("c", process="return {;\n")], "start>c"),
        ("disabled_in_flow:off", [START, node("off", disabled=True), B], "start>off off>b"),
        (
            "secret:s secret:t",
            [
                START,
                node("s", options={"apiKey": "abc-123"}),
                node("t", process="x = 'sk-" + "a1" * 12 + "'"),
            ],
            "start>s s>t",
        ),
        (
            "note_about_missing:n",
            [START, node("n", "note", ins="", outs="", text="See the **Fetch all orders** node.")],
            "",
        ),
        ("duplicate_edge:start,a", [START, A], "start>a start>a"),
    ],
)
def test_a_rule_finds_what_it_is_for(expected: str, nodes: list[Node], edges: str) -> None:
    findings = run(nodes, *ends_of(edges))
    assert " ".join(f"{rule}:{','.join(keys)}" for rule, keys in found(findings)) == expected


@pytest.mark.parametrize(
    ("why", "nodes", "edges"),
    [
        (
            "loop that comes back",
            [START, node("each", outs="0=done 1=loop"), A],
            "start>each each.1>a a>each",
        ),
        ("cycle with an open way out", [START, node("if", outs="0 1"), A], "start>if if.0>a a>if"),
        ("cycle that a filter stops", [START, node("f", "filter")], "start>f f>f"),
        ("part of a step", [START, A, node("model", ins="", outs="m:ai")], "start>a model.m>a.m"),
        ("disabled at the end", [START, node("off", disabled=True)], "start>off"),
        (
            "reference to a secret",
            [
                START,
                node(
                    "s",
                    apiKey="={{ $env.KEY }}",
                    token="(secret left out)",
                    url="https://x/?page=2",
                ),
            ],
            "start>s",
        ),
        (
            "note about nodes that are there",
            [START, A, node("n", "note", ins="", outs="", text="the **A** node, the `Merge` node")],
            "start>a",
        ),
        (
            "note about a node to come",
            [
                START,
                A,
                node("n", "note", ins="", outs="", text="Then add an **Extract from File** node."),
            ],
            "start>a",
        ),
        (
            "way of a choice that is called ERROR",
            [START, node("switch", outs="0=SUCCESS 1=ERROR"), A],
            "start>switch switch.0>a",
        ),
        (
            "server of tools, which begins by itself",
            [
                START,
                node("a"),
                node("server", ins="t:ai_tool", outs=""),
                node("tool", ins="", outs="t:ai_tool"),
            ],
            "start>a tool.t>server.t",
        ),
    ],
)
def test_what_is_in_order_is_not_found(why: str, nodes: list[Node], edges: str) -> None:
    served = [one if one.key != "a" else node("a", ins="0 m:ai") for one in nodes]
    assert run(served, *ends_of(edges)) == [], why


def test_references_by_name_are_checked_in_expressions_and_code_alone() -> None:
    nodes = [
        START,
        node("expression", url="={{ $('start').item + $('Gone').item }}"),
        node("text", url="write $('Gone') into a cell"),
        node("code", process="// $('Gone')\nreturn $('Gone too').all()"),
    ]
    edges = [("start", "expression"), ("expression", "text"), ("text", "code")]
    assert [
        (one.violation.nodes, one.violation.facts["target"])
        for one in run(nodes, *edges, metadata=N8N)
    ] == [
        (("code",), "Gone too"),
        (("expression",), "Gone"),
    ]
    assert run(nodes, *edges) == [], "where nodes are not called by name"


def test_a_name_that_two_steps_have_is_found_where_nodes_are_called_by_name() -> None:
    nodes = [START, A, node("b", name="a")]
    assert found(run(nodes, *ORDERLY, metadata=N8N)) == [("duplicate_name", ("a", "b"))]


def test_unused_types_are_found_where_it_was_looked_up() -> None:
    nodes = [START, A, B]
    assert run(nodes, *ORDERLY) == []
    unused = run(nodes, *ORDERLY, used_types=frozenset({"step", "note"}))
    assert [one.violation.facts["type"] for one in unused] == ["merge", "filter"]


def test_an_edge_that_leads_nowhere_comes_with_the_proposal_that_deletes_it() -> None:
    (one,) = run([START, A], ("start", "a"), ("a", "gone"))
    assert one.violation.repair == {
        "tool": "propose_delete_edge",
        "arguments": {"edgeKey": "a-gone"},
    }


def test_of_two_equal_edges_the_second_is_to_go() -> None:
    (one,) = run([START, A], ("start", "a"), ("start", "a"))
    assert one.repair == {"tool": "propose_delete_edge", "arguments": {"edgeKey": "start-a"}}


def test_later_nodes_of_one_name_get_a_free_one() -> None:
    nodes = [START, A, node("b", name="a"), node("c", name="a 2"), node("d", name="a")]
    edges = [("start", "a"), ("a", "b"), ("b", "c"), ("c", "d")]
    (one,) = run(nodes, *edges, metadata=N8N)
    updates = [action["payload"] for action in one.repair["arguments"]["actions"]]
    assert updates == [
        {"nodeKey": "b", "changes": {"data.name": "a 3"}},
        {"nodeKey": "d", "changes": {"data.name": "a 4"}},
    ]


def test_a_name_written_otherwise_is_corrected_where_one_node_is_meant() -> None:
    wrong = node("b", url="={{ $('fetch ORDERS').item }}", body={"x": "={{ $('fetch ORDERS').a }}"})
    nodes = [START, node("a", name="Fetch orders"), wrong]
    edges = ORDERLY
    (one,) = run(nodes, *edges, metadata=N8N)
    changes = {
        "data.body.x": "={{ $('Fetch orders').a }}",
        "data.url": "={{ $('Fetch orders').item }}",
    }
    assert one.repair == {
        "tool": "propose_update_node",
        "arguments": {"nodeKey": "b", "changes": changes},
    }
    two = [*nodes, node("c", name="fetch  orders")]
    assert [one.repair for one in run(two, *edges, ("b", "c"), metadata=N8N)] == [None], (
        "two could be meant"
    )


def test_no_finding_repeats_a_secret() -> None:
    token = "sk-" + "a1" * 12
    nodes = [
        START,
        node("a", name=token),
        node("b", name=token),
        node("c", url="={{ $('" + token + "!') }}"),
    ]
    found_ = run(nodes, ("start", "a"), ("a", "b"), ("b", "c"), metadata=N8N)
    assert {one.rule for one in found_} == {"secret", "duplicate_name", "missing_reference"}
    for one in found_:
        assert token not in f"{one.sentence('en')} {one.sentence('fr')} {one.repair}"


def test_a_graph_weighs_rules_and_accepts_findings_with_a_reason() -> None:
    nodes = [START, A, B]
    edges = [*ORDERLY, ("b", "a"), ("b", "gone")]
    settings = {
        "rules": {
            "missing_end": "info",
            "endless_cycle": "off",
            "strange": "off",
            "unreachable": 7,
        },
        "allow": [{"rule": "missing_end", "node": "b", "reason": "in work"}, "strange"],
    }
    assert found(run(nodes, *edges, metadata={"checks": settings})) == []
    settings["allow"] = []
    (one,) = run(nodes, *edges, metadata={"checks": settings})
    assert (one.rule, one.severity) == ("missing_end", "info")
    assert Checks.of({"checks": {"rules": [1], "allow": "x"}}) == Checks()


def test_every_rule_has_a_severity_and_a_sentence_in_each_language() -> None:
    file = Path(checking.__file__).with_name("rules.toml")
    severities = tomllib.loads(file.read_text(encoding="utf-8"))
    assert RULES.keys() == severities.keys()
    assert set(severities.values()) <= {*SEVERITIES}
    for language in LANGUAGES:
        assert RULES.keys() == read_tables(language, "checks.toml").keys()


@pytest.mark.parametrize(
    ("code", "language", "line"),
    [
        ("return await x;", "javascript", None),
        ("import a from 'b';\nexport default a", "javascript", None),
        ("const a = 1;\nif (a {\n}", "javascript", 2),
        ("for await (const x of y) yield x", "javascript", None),
        ("return [i for i in items]", "python", None),
        ("x = 1\nreturn (", "python", 2),
        ("SELECT ((", "sql", None),
        ("(" * 300_000, "javascript", None),
        ("", "javascript", None),
        ("", "python", None),
    ],
)
def test_code_is_parsed_as_the_body_of_a_function(
    code: str, language: str, line: int | None
) -> None:
    assert first_error(code, language) == line


def test_comments_are_blanked_and_nothing_else() -> None:
    code = "a('//é') // $('x')\n/* $('y') */ b"
    assert without_comments(code, "javascript").split() == ["a('//é')", "b"]


@pytest.mark.slow
def test_the_rules_end_on_a_graph_of_one_hub_and_on_a_long_chain() -> None:
    hub = [START, *(node(f"n{i}") for i in range(3000))]
    assert run(hub, *[("start", f"n{i}") for i in range(3000)]) == []
    chain = [("start", "n0"), *((f"n{i}", f"n{i + 1}") for i in range(2999))]
    assert run(hub, *chain) == []


async def test_an_output_of_any_kind_leads_on_into_an_input_of_one_kind() -> None:
    async with open_nba("default") as database:
        found = await findings(database.source("default"), "testgraph001", ["unreachable"])
    assert [finding.violation.nodes for finding in found] == [
        ("disconnected-note",),
        ("sort-stats",),
    ]
