"""Typed paths: what a question names and its words lead to the answer over edges
that say something.
"""

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pytest

from datasources.links import TypedLink
from datasources.mock import MemoryDatabase
from datasources.types import Edge, Graph, Mutation, Node
from graphrag.embedding import LocalEmbedder
from graphrag.embedding.refresh import embed_nodes
from graphrag.retrieval.asked_words import read_question, strengths
from graphrag.retrieval.context_rows import why
from graphrag.retrieval.retrieval_result import RetrievalOptions
from graphrag.retrieval.retriever import Retriever
from graphrag.retrieval.signals import reference_signal
from graphrag.retrieval.signals.path_signal import LabelVectors, is_schema
from graphrag.retrieval.signals.reference_signal import ReferenceIndex, nearest
from graphrag.retrieval.typed_paths import path_scores, possible_steps
from tests.contracts.samples import FLOW, WORKSPACE, a_graph, a_node, an_edge
from tests.graphrag.retrieval.test_retriever import Counting

Triple = tuple[str, str, str]
FILMS: list[Triple] = [
    ("Night Ferry", "directed_by", "Ada Quist"),
    ("Night Ferry", "written_by", "Bo Lindqvist"),
    ("Night Ferry", "starred_actors", "Cleo Marsh"),
    ("Night Ferry", "release_year", "1961"),
    ("Paper Harbour", "directed_by", "Ada Quist"),
    ("Paper Harbour", "written_by", "Dora Venn"),
    ("Paper Harbour", "has_genre", "Western"),
    ("Paper Harbour", "in_language", "Danish"),
    ("Cold Orchard", "directed_by", "Emil Tarr"),
    ("Cold Orchard", "written_by", "Ada Quist"),
    ("Cold Orchard", "has_genre", "Comedy"),
    ("Cold Orchard", "starred_actors", "Cleo Marsh"),
    ("Emil Tarr", "place_of_birth", "Aalborg"),
    ("Cleo Marsh", "spouse", "Emil Tarr"),
]
FLOWS: list[Triple] = [
    ("Webhook", "", "Check stock"),
    ("Check stock", "true", "Reserve"),
    ("Check stock", "false", "Tell buyer"),
    ("Reserve", "", "Charge card"),
    ("Charge card", "", "Send receipt"),
    ("Charge card", "error", "Alert finance"),
    ("Nightly timer", "", "Reserve"),
]


async def found(
    triples: Iterable[Triple],
    question: str,
    aliases: dict[str, list[str]] | None = None,
    mode: str = "hybrid",
) -> list[str]:
    """Return what is found for a question, best first, without what the question names."""
    names = sorted({name for source, _, target in triples for name in (source, target)})
    nodes: list[Node] = []
    for i, name in enumerate(names):
        more = {"aliases": aliases[name]} if aliases and name in aliases else {}
        nodes.append(a_node(f"k{i}", type="thing", data={"name": name, **more}))
    keys = {name: f"k{i}" for i, name in enumerate(names)}
    edges: list[Edge] = [
        an_edge(f"e{i}", keys[source], keys[target], **({"label": label} if label else {}))
        for i, (source, label, target) in enumerate(triples)
    ]
    source = MemoryDatabase().source(WORKSPACE)
    await source.create_graph(a_graph(), Mutation(graph_key=FLOW, put_nodes=nodes, put_edges=edges))
    embedder = LocalEmbedder()
    await embed_nodes(source, embedder, graph_keys=[FLOW])
    options = RetrievalOptions(mode=mode)
    result = await Retriever(source, embedder).retrieve(FLOW, question, options)
    shown = [str(scored.node.data["name"]) for scored in result.nodes]
    said = question.casefold()
    return [name for name in shown if name.casefold() not in said]


@pytest.mark.parametrize(
    ("question", "answers"),
    [
        ("who wrote the films directed by Ada Quist", ["Bo Lindqvist", "Dora Venn"]),
        ("which films share a director with Night Ferry?", ["Paper Harbour"]),
        ("in what languages are the films that share a director with Night Ferry?", ["Danish"]),
        ("where was the spouse of Cleo Marsh born?", ["Aalborg"]),
        ("the genre of the movies that Ada Quist wrote", ["Comedy"]),
        ("which movies are starred by the actors of Night Ferry", ["Cold Orchard"]),
        ("when did the movies starring Cleo Marsh come out", ["1961"]),
        ("what types are the films directed by Emil Tarr", ["Comedy"]),
    ],
)
async def test_the_end_of_the_path_is_above_the_way(question: str, answers: Sequence[str]) -> None:
    assert set((await found(FILMS, question))[: len(answers)]) == set(answers)


async def test_without_vectors_the_stems_of_labels_lead_and_aliases_name() -> None:
    aliases = {"Ada Quist": ["A. Q. Hansen"], "Cold Orchard": []}
    first = (await found(FILMS, "what was directed by a q hansen", aliases, mode="text"))[:3]
    assert {"Night Ferry", "Paper Harbour"} <= set(first)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Which node receives the error output of Charge card?", "Alert finance"),
        ("Quel nœud reçoit la sortie true de Check stock ?", "Reserve"),
        ("What comes next after Charge card?", "Send receipt"),
        ("what reaches Charge card through Reserve", "Check stock"),
    ],
)
async def test_words_of_flow_follow_the_edges_of_a_workflow(question: str, answer: str) -> None:
    assert answer in (await found(FLOWS, question))[:2]


def ends(question: str, links: Sequence[TypedLink]) -> list[str]:
    """Return the best ends of paths in a graph whose nodes are called by their
    keys, without vectors.
    """
    asked = read_question(question, {key: [key] for link in links for key in link[:2]})
    scores = path_scores(asked, strengths(asked, {link.label for link in links}, {}), links, 1_000)
    return [key for key, score in scores.items() if score == max(scores.values())]


def test_two_words_of_one_label_are_one_step_but_where_an_agent_stands_between() -> None:
    links = [TypedLink(f"Film {number}", "1961", "release_year") for number in range(40)]
    links += [
        TypedLink("Film 7", "Ada", "directed_by"),
        TypedLink("Film 7", "Cleo", "starred_actors"),
    ]
    links += [TypedLink("Film 9", "Cleo", "starred_actors")]
    assert ends("what years were the films directed by Ada released", links) == ["1961"]
    assert ends("the films directed by Ada were released in which years", links) == ["1961"]
    assert ends("which films are starred by the actors of Film 7", links) == ["Film 9"]
    assert ends("who are the starred actors of Film 7", links) == ["Cleo"]


async def test_a_word_for_sharing_leads_back_over_the_first_relation() -> None:
    films = [
        *FILMS,
        ("Glass Tide", "written_by", "Bo Lindqvist"),
        ("Glass Tide", "directed_by", "Ida Holm"),
    ]
    films += [("Old Signal", "directed_by", "Ida Holm"), ("Old Signal", "written_by", "Per Aske")]
    question = "the movies whose writers also wrote Night Ferry were directed by who"
    assert (await found(films, question))[0] == "Ida Holm"


def test_one_word_explains_the_way_to_a_node_and_back() -> None:
    links = [
        TypedLink("Dark Iron", "Ada", "director"),
        TypedLink("Old Signal", "Ada", "director"),
        TypedLink("Old Signal", "Cleo", "starred_actors"),
        TypedLink("Dark Iron", "1950", "release_year"),
        TypedLink("Old Signal", "1961", "release_year"),
    ]
    assert ends("who starred films for the director of Dark Iron", links) == ["Cleo"]
    assert ends("who is the director of Dark Iron", links) == [
        "Ada"
    ]  # and not the other films of Ada


def test_a_path_through_its_start_by_another_label_counts_in_full() -> None:
    links = [
        TypedLink("Ida", "Per", "children"),
        TypedLink("Per", "Ida", "parents"),
        TypedLink("Per", "Olaf", "parents"),
        TypedLink("Ida", "Ribe", "place_of_birth"),
        TypedLink("Olaf", "Skagen", "place_of_birth"),
    ]
    assert set(ends("the place of birth of the parents of the children of Ida", links)) == {
        "Ribe",
        "Skagen",
    }


def test_nodes_named_like_words_of_labels_do_not_hide_the_relation() -> None:
    links = [
        TypedLink("Old Signal", "Ada", "directed_by"),
        TypedLink("Glass Tide", "Ada", "directed_by"),
        *(
            TypedLink(f"Film {i}", tag, "has_tags")
            for i, tag in enumerate(("director", "movies", "share"))
        ),
    ]
    question = "the director of Old Signal also directed which movies and who can share them"
    assert ends(question, links) == ["Glass Tide"]


def test_the_longest_name_wins_and_stop_words_name_nothing() -> None:
    names = {"a": ["Night Ferry"], "b": ["Ferry"], "c": ["The"], "d": ["Night Ferry"]}
    asked = read_question("Who directed the Night Ferry?", names)
    assert [(named.keys, named.first, named.end) for named in asked.named] == [(("a", "d"), 3, 5)]
    assert [word.text for word in asked.words] == ["directed", "night", "ferry"]


def test_labels_that_are_phrases_or_exceptions_are_no_relations() -> None:
    assert is_schema([TypedLink("a", str(i), f"l{i % 9}") for i in range(90)])
    assert not is_schema([TypedLink("a", str(i), f"says {i}") for i in range(90)])
    assert not is_schema([TypedLink("a", str(i), "error" if i % 9 == 0 else "") for i in range(90)])


async def test_no_vectors_where_the_embedder_is_missing() -> None:
    assert await LabelVectors(None).of(["spouse"]) == {}


def test_edges_are_read_as_far_as_a_path_can_lead() -> None:
    names = {"k": ["Night Ferry"], "h": ["Paper Harbour"]}
    labels = ["directed_by", "written_by", "has_genre"]

    def steps(question: str, near: dict[str, list[float]] | None = None) -> int:
        asked = read_question(question, names)
        table = {text: np.array(row, dtype=np.float32) for text, row in (near or {}).items()}
        return possible_steps(asked, strengths(asked, labels, table))

    assert steps("who directed Night Ferry") == 1
    assert steps("which genre has what the one who directed Night Ferry has written") == 3
    assert steps("films that share who directed Night Ferry") == 2
    assert (
        steps("ferries that were directed at large ships across open seas: Night Ferry") == 0
    )  # one of many
    assert (
        steps("Night Ferry with Paper Harbour, directed and written") == 3
    )  # through the other name
    meanings = {"directed by": [1, 0, 0], "written by": [0, 1, 0], "has genre": [0, 0, 1]}
    likely = {
        **meanings,
        "penned": [0.3, 1, 0],
        "made": [1, 0.3, 0],
        "night": [1, 1, 1],
        "ferry": [1, 1, 1],
    }
    assert steps("who penned what was made by Night Ferry", likely) == 2
    assert (
        steps("penned and made Night Ferry", likely) == 1
    )  # nothing is asked, and no word is a label's


N8N = {"origin": {"format": "n8n"}}
CALL = "={{ $('Secret Vault').item.json.token }}"


def flow(steps: int = 40) -> tuple[list[Node], list[Edge]]:
    """A chain of steps of which one sends invoices; the vault is tied to it
    by a reference alone.
    """
    keys = [f"step-{i:02}" for i in range(steps)]
    nodes = [a_node(key, data={"name": key}) for key in keys]
    nodes[5] = a_node(keys[5], data={"name": "Send invoices", "auth": CALL})
    vault = a_node("vault", data={"name": "Secret Vault"})
    edges = [an_edge(f"{one}-{other}", one, other) for one, other in itertools.pairwise(keys)]
    return [*nodes, vault], edges


async def retriever_of(
    metadata: dict[str, Any] | None, source: Any = None
) -> tuple[Retriever, Any]:
    source = source or MemoryDatabase().source(WORKSPACE)
    nodes, edges = flow()
    graph: Graph = a_graph(FLOW, metadata=metadata)
    await source.create_graph(graph, Mutation(graph_key=FLOW, put_nodes=nodes, put_edges=edges))
    counting = Counting(source)
    return Retriever(counting, None, cache_ttl_s=0), counting


async def test_a_question_brings_the_node_that_only_a_reference_ties_to_the_answer() -> None:
    retriever, _ = await retriever_of(N8N)
    found = {
        scored.node.key: scored for scored in (await retriever.retrieve(FLOW, "invoices")).nodes
    }
    assert why(found["vault"]).endswith("referred to by step-05")
    back = {
        scored.node.key: scored for scored in (await retriever.retrieve(FLOW, "secret vault")).nodes
    }
    assert why(back["step-05"]).endswith("refers to vault")


async def test_names_mean_nothing_in_a_graph_whose_nodes_do_not_call_each_other_so() -> None:
    retriever, counting = await retriever_of(None)
    found = await retriever.retrieve(FLOW, "invoices")
    assert "vault" not in {scored.node.key for scored in found.nodes}
    assert counting.count("get_nodes") == 0


async def test_references_are_read_once_a_revision() -> None:
    retriever, counting = await retriever_of(N8N)
    for question in ("invoices", "secret vault", "step"):
        await retriever.retrieve(FLOW, question)
    assert counting.count("get_nodes") == 1
    node = a_node("vault", data={"name": "Renamed"})
    await counting.apply(Mutation(graph_key=FLOW, put_nodes=[node]))
    found = await retriever.retrieve(FLOW, "invoices")
    assert counting.count("get_nodes") == 2
    assert "vault" not in {scored.node.key for scored in found.nodes}


async def test_a_graph_of_very_many_nodes_is_not_read_for_references(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reference_signal, "MAX_NODES", 10)
    source = MemoryDatabase().source(WORKSPACE)
    nodes = [a_node(f"n{i}") for i in range(11)]
    graph = await source.create_graph(
        a_graph(FLOW, metadata=N8N), Mutation(graph_key=FLOW, put_nodes=nodes)
    )
    counting = Counting(source)
    index = ReferenceIndex(counting)
    assert not (await index.of(graph)).refers_to
    assert counting.count("get_nodes") == 0


async def test_a_node_that_stands_beside_the_answer_is_found_where_the_nodes_were_laid_out() -> (
    None
):
    nodes, edges = flow()
    placed = [node.replace(pos_x=100.0 * i, pos_y=0.0) for i, node in enumerate(nodes)]
    heap = [node.replace(pos_x=0.0, pos_y=0.0) for node in nodes]
    beside = a_node("aside", data={"name": "Nobody asks for it"}, pos_x=510.0, pos_y=40.0)
    for shown, expected in (([*placed, beside], "beside step-05"), ([*heap, beside], "")):
        source = MemoryDatabase().source(WORKSPACE)
        content = Mutation(graph_key=FLOW, put_nodes=shown, put_edges=edges)
        await source.create_graph(a_graph(FLOW, metadata=N8N), content)
        found = await Retriever(source, None).retrieve(FLOW, "invoices")
        reasons = {scored.node.key: why(scored) for scored in found.nodes}
        assert (reasons.get("aside") or "").endswith(expected)
        assert ("aside" in reasons) is bool(expected)


def test_nearness_is_that_of_a_sheet() -> None:
    at = {"a": (0, "0"), "b": (10, "0"), "c": (11, "1"), "d": (40, "0"), "e": (12, "1")}
    nodes = [a_node(key, pos_x=float(x), pos_y=0.0, sheet=sheet) for key, (x, sheet) in at.items()]
    assert nearest(nodes) == {"a": ["b", "d"], "b": ["a", "d"], "d": ["b", "a"]}
    assert nearest([]) == {}
