"""What an answer claims and the graph does not have is found; what it denies, suggests or
quotes is not.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from datasources.types import Edge, Node
from graphrag.agent.claims import NotInGraph, false_edges, may_claim, not_in_graph
from graphrag.agent.named_graph import NamedGraph
from graphrag.evaluation.answer_cases import AskedQuestion, CaseGraph, read_cases, read_graph
from graphrag.evaluation.workflows import node_name

CASES = Path("tests/data/answers/cases.toml")
PUBLISHED = Path(__file__).parents[4] / "shared" / "data" / "workflows"


def graph_of(nodes: Iterable[str], *edges: tuple[str, str]) -> NamedGraph:
    made = [
        Node(key=name.split()[0].lower(), graph_key="g", type="t", data={"name": name})
        for name in nodes
    ]
    joined = [
        Edge(key=f"{source}-{target}", graph_key="g", source=source, target=target)
        for source, target in edges
    ]
    return NamedGraph.of(made, joined)


GRAPH = graph_of(
    ("Fetch it", "Sort it", "Mail it", "Note it", "If", "Order not found"),
    ("fetch", "sort"),
    ("sort", "mail"),
    ("if", "order"),
)
HELD = "Fetch it, Sort it, Mail it, Note it, If, Order not found, HTTP Request, data.maxItems, Open order"


@pytest.mark.parametrize(
    ("answer", "claims"),
    [
        ("Fetch it → Sort it → Mail it", []),
        ("Fetch it --success--> Sort it", []),
        ("1. Fetch it (t) → Mail it", [("Fetch it", "Mail it")]),
        ("{{node:mail}} --> {{node:fetch}}", [("mail", "fetch")]),
        ("Fetch it → … → Mail it", []),
        ("x => y, and {'a' => 'b'}", []),
        ("Fetch it leads to Mail it.", []),
        ("Mail it leads to Fetch it.", [("Mail it", "Fetch it")]),
        ("Mail it is connected to Sort it.", []),
        ("Note it is connected to Sort it.", [("Note it", "Sort it")]),
        ("Yes, **Note it** is connected to the node `Sort it`.", [("Note it", "Sort it")]),
        ("« Note it » est relié à « Sort it ».", [("Note it", "Sort it")]),
        ("If → Order not found", []),
        ("Order not found → If", [("Order not found", "If")]),
        ("Note it is not connected to Sort it. No, whether Note it leads to Sort it is open.", []),
        ("Is Note it connected to Sort it? No.", []),
        ("You could connect Note it → Sort it.", []),
        ("There is no edge Note it → Sort it.", []),
        ("I suggest this flow:\n\n- Fetch it → Note it\n- Note it → Mail it", []),
        ("This flow exists:\n\n- Fetch it → Note it", [("Fetch it", "Note it")]),
        ("Il manque une arête : Note it → Sort it", []),
        ("the note leads to sort it", []),
    ],
)
def test_claimed_edges_that_the_graph_lacks_are_found(
    answer: str, claims: list[tuple[str, str]]
) -> None:
    assert false_edges(answer, GRAPH) == claims


@pytest.mark.parametrize(
    ("answer", "nodes"),
    [
        ("The node `Cache players` stores them.", ["Cache players"]),
        ("They pass the **Cache players** node.", ["Cache players"]),
        ("Le nœud « Cache players » les garde.", ["Cache players"]),
        (
            "The node named “Cache players” and the node `cache_players_2` store them.",
            ["Cache players", "cache_players_2"],
        ),
        ("The node `Sort it` and the **Mail it** node.", []),
        ("The `HTTP Request` node reads `data.maxItems`.", []),
        ("It sends **Open order** to `https://a.example`.", []),
        ("The **first** node, the **Second** node and the **Main Loop** node type.", []),
        ("There is no node `Cache players`.", []),
        ("Is there a node `Cache players`?", []),
        ("You could add the node `Cache players`.", []),
        ("The node `status = 200` answers.", []),
        ("```\nthe `Cache players` node\n```", []),
        ("The node `Cache` stores them.", ["Cache"]),
        ("The `cache` node stores them.", ["cache"]),
        ("They pass the **Cache** node, and the node “Slack”.", ["Cache", "Slack"]),
        ("The node Cache stores them; le nœud Slack les envoie.", ["Cache", "Slack"]),
        ("Fetch it --> Cache --> Sort it", ["Cache"]),
        ("Fetch it --success--> **Cache** (code)", ["Cache"]),
        ("- `Cache` → Sort it", ["Cache"]),
        ("Fetch it --> Cache players", ["Cache players"]),
        ("The node Open is there; the node `Sort` and the **Request** node, too.", []),
        (
            "The **Next** node, the **start** node, the node **always** runs, the node HTTP "
            "and the node IDs.",
            [],
        ),
        ("Fetch it --> done; Fetch it --> Yes --> Sort it", []),
        ("Fetch it → Slack message, Cache → Database", []),
        ("There is no node Cache: Fetch it does not lead to it.", []),
        ("You could add Fetch it --> Cache --> Sort it", []),
        ("A[Fetch it] --> B[Cache]", []),
        ("Fetch it --> Cache?", []),
    ],
)
def test_named_nodes_that_the_graph_lacks_are_found(answer: str, nodes: list[str]) -> None:
    assert list(not_in_graph(answer, GRAPH, held=HELD).nodes) == nodes


def test_what_the_person_supposes_and_what_was_proposed_is_no_claim() -> None:
    answer = "The node `Cache players` stores them: Note it → Sort it."
    assert not_in_graph(answer, GRAPH, held=HELD, asked="What does Cache players do?").nodes
    assert not not_in_graph(
        answer, GRAPH, held=HELD, asked="What if I add a node Cache players?"
    ).nodes
    proposed = ['{"nodes": [{"name": "Cache players"}]}', '{"from": "note", "to": "Sort it"}']
    assert not not_in_graph(answer, GRAPH, held=HELD, proposed=proposed)
    assert not_in_graph("Fine.", GRAPH, held=HELD, linked=["ghost", "Sort it"]).nodes == ("ghost",)


def test_claims_are_said_in_the_language_of_the_person() -> None:
    found = NotInGraph(nodes=("Cache",), edges=(("A", "B"),))
    assert found.document("en")["note"] == "Not in the graph: “Cache”, A → B."
    assert found.document("fr")["note"].startswith("Absent du graphe")


def right_answers(asked: AskedQuestion) -> list[str]:
    """The expected facts as answers are written: in a sentence, in a list, in bold and as nodes."""
    facts = [fact if isinstance(fact, str) else fact[0] for fact in asked.facts]
    refused = " ".join(f"It is not {fact}: no node `{fact}` follows." for fact in asked.must_not)
    listed = "\n".join(f"- **{fact}**" for fact in facts)
    return [
        f"It is {' and '.join(f'`{fact}`' for fact in facts)}. {refused}",
        f"{asked.ask}\n\n{listed}\n\n{refused}",
        "\n".join(f"The value “{fact}” is what the workflow has." for fact in facts),
    ]


@pytest.mark.skipif(not PUBLISHED.is_dir(), reason="the published workflows are not here")
def test_no_right_answer_to_the_written_cases_is_marked() -> None:
    asked = [
        (case.file, case.asked)
        for case in read_cases(CASES)
        if isinstance(case.asked, AskedQuestion)
    ]
    assert len(asked) == 60
    for file, question in asked:
        graph = read_graph(file, PUBLISHED, workspace="w", graph_key="g")
        named = NamedGraph.of(graph.nodes.values(), graph.edges.values())
        documents = (*graph.nodes.values(), *graph.edges.values(), *graph.configs)
        held = "\n".join(one.to_json().decode() for one in documents)
        flow = [
            f"{node_name(graph.nodes[edge.source])} → **{node_name(graph.nodes[edge.target])}**"
            for edge in graph.edges.values()
        ]
        named_all = [f"The node `{node_name(node)}` is there." for node in graph.nodes.values()]
        for answer in (*right_answers(question), "\n".join(flow), "\n".join(named_all)):
            assert not not_in_graph(answer, named, held=held, asked=question.ask), (file, answer)


@pytest.mark.slow
@pytest.mark.skipif(not PUBLISHED.is_dir(), reason="the published workflows are not here")
def test_no_name_and_no_edge_of_the_published_workflows_is_marked() -> None:
    for file in sorted(each.name for each in PUBLISHED.iterdir() if each.suffix == ".json"):
        graph = read_graph(file, PUBLISHED, workspace="w", graph_key="g")
        named = NamedGraph.of(graph.nodes.values(), graph.edges.values())
        held = "\n".join(
            one.to_json().decode() for one in (*graph.nodes.values(), *graph.edges.values())
        )
        for answer in true_answers(graph):
            assert not not_in_graph(answer, named, held=held), (file, answer)


def true_answers(graph: CaseGraph) -> list[str]:
    """All names and all edges of a graph in each form that makes them a claim."""
    names = [node_name(node) for node in graph.nodes.values()]
    ends = [
        [node_name(graph.nodes[key]) for key in (edge.source, edge.target)]
        for edge in graph.edges.values()
    ]
    forms = (
        "The node `{}` is there.",
        "The **{}** node is there.",
        "The node {} runs.",
        "The node “{}” runs.",
    )
    arrows = ("{} --> {}", "- `{}` → `{}`", "**{}** --main--> **{}**", "{} leads to {}.")
    return [
        *("\n".join(form.format(name) for name in names) for form in forms),
        *("\n".join(form.format(*each) for each in ends) for form in arrows),
    ]


def test_texts_without_arrows_and_nodes_are_not_compared_at_all() -> None:
    assert not may_claim("The workflow reads the players and writes a table.")
    assert may_claim("Note it is connected to Sort it.")


def test_an_answer_of_hostile_size_is_read_within_bounds() -> None:
    many = graph_of([f"Step{n} it" for n in range(2_000)])
    answer = "Step1 it is connected to Step2 it. → " * 5_000
    assert not_in_graph(answer, many, held="x" * 1_000_000).edges == (("Step1 it", "Step2 it"),)
