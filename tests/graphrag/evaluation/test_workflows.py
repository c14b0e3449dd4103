"""Scoring retrieval: the measures themselves, the file of questions, and a whole
run over workflows.
"""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasources.mock import MemoryDatabase
from datasources.types import Node
from graphrag.config import load_settings
from graphrag.embedding import LocalEmbedder
from graphrag.embedding.language import language_of
from graphrag.evaluation import workflows
from graphrag.evaluation.formats import read_knowledge
from graphrag.evaluation.formats.knowledge_graph import Fact, Knowledge, Passage, Question
from graphrag.evaluation.knowledge import (
    ABLATION,
    DENSE,
    HYBRID,
    HYBRID_PAGERANK,
    load_knowledge,
    score_knowledge,
)
from graphrag.evaluation.scoring import Cuts, QueryFileError, ScoredRow, interval, splits
from graphrag.retrieval.retrieval_result import RetrievalOptions
from graphrag.retrieval.retriever import Retriever
from tests.contracts.samples import a_graph
from tests.support.data_files import needs_published, published
from tests.support.opened import open_services


def workflow(*steps: str, notes: tuple[str, ...] = ()) -> dict[str, Any]:
    """An n8n export: the steps in a row, and sticky notes."""
    nodes = [
        {
            "id": str(i),
            "name": name,
            "type": "n8n-nodes-base.noOp",
            "typeVersion": 1,
            "position": [i * 200, 0],
        }
        for i, name in enumerate(steps)
    ]
    nodes += [
        {
            "id": f"note{i}",
            "name": f"Sticky Note{i}",
            "type": "n8n-nodes-base.stickyNote",
            "typeVersion": 1,
            "position": [0, 300],
            "parameters": {"content": text},
        }
        for i, text in enumerate(notes)
    ]
    joins = {
        one: {"main": [[{"node": other, "type": "main", "index": 0}]]}
        for one, other in pairwise(steps)
    }
    return {"name": "Flow", "nodes": nodes, "connections": joins}


TEXT = RetrievalOptions(mode="text")


def a_query(file: str, text: str, *relevant: str) -> workflows.AnnotatedQuery:
    return workflows.AnnotatedQuery(workflow=file, query=text, relevant=relevant)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    first = workflow(
        "Fetch invoices", "Sort customers", "Send mail", notes=("fetch the invoices first",)
    )
    second = workflow("Read sensor", "Average temperature", "Store reading")
    (tmp_path / "first.json").write_text(json.dumps(first))
    (tmp_path / "second.json").write_text(json.dumps(second))
    (tmp_path / "broken.json").write_text("{")
    return tmp_path


QUERIES = [
    a_query("first.json", "fetch invoices", "Fetch invoices"),
    a_query("first.json", "send a mail", "Send mail"),
    a_query("second.json", "average of the temperature", "Average temperature", "Read sensor"),
]


@pytest.mark.parametrize(
    ("data", "name"),
    [
        ({"name": "Fetch"}, "Fetch"),
        ({"name": ""}, ""),
        ({"name": 3}, "k"),
        ({}, "k"),
        (None, "k"),
        ([1], "k"),
    ],
)
def test_a_nodes_name_is_the_one_it_came_with_else_its_key(data: Any, name: str) -> None:
    assert workflows.node_name(Node(key="k", graph_key="g", type="t", data=data)) == name


# The file of questions


def test_questions_are_read_and_fields_nobody_needs_ignored(tmp_path: Path) -> None:
    file = tmp_path / "queries.json"
    rows = [{"workflow": "w.json", "query": "q", "relevant": ["a", "b"], "id": 7}]
    file.write_text(json.dumps(rows))
    assert workflows.read_queries(file) == [a_query("w.json", "q", "a", "b")]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "Invalid JSON"),
        (b"\xff", "Invalid JSON"),
        (b"{}", "valid array"),
        (b"[]", "it contains no question"),
        (b'[{"workflow": "w", "query": "q"}]', "0.relevant: Field required"),
        (b'[{"workflow": "w", "query": "q", "relevant": []}]', "0.relevant"),
        (b'[{"workflow": "w", "query": "", "relevant": ["a"]}]', "0.query"),
        (b'[{"workflow": "w", "query": "q", "relevant": "a"}]', "0.relevant"),
        (b'[{"workflow": "w", "query": "q", "relevant": ["a"]}, 5]', "1: "),
    ],
)
def test_a_bad_file_says_what_and_where(tmp_path: Path, content: bytes, reason: str) -> None:
    file = tmp_path / "queries.json"
    file.write_bytes(content)
    with pytest.raises(QueryFileError, match=reason) as caught:
        workflows.read_queries(file)
    assert caught.value.file == str(file)


# A whole run


async def test_workflows_are_imported_once_embedded_and_without_their_notes(folder: Path) -> None:
    source = MemoryDatabase().source("eval")
    seen = []
    graph_keys, left_out = await workflows.load_workflows(
        source, LocalEmbedder(), QUERIES, folder, seen.append
    )
    assert list(graph_keys) == ["first.json", "second.json"]
    assert left_out == []
    assert seen == ["first.json", "second.json"]
    for key in graph_keys.values():
        nodes = await source.get_nodes(key)
        assert len(nodes) == 3
        assert workflows.NOTE_TYPE not in {node.type for node in nodes}
        assert len(await source.get_vectors(key, [node.key for node in nodes])) == 3


async def test_a_graph_that_cannot_be_stored_is_left_out_and_the_others_are_scored(
    folder: Path,
) -> None:
    node = {"id": "1", "name": "A", "type": "n8n-nodes-base.noOp", "position": [0, 0]}
    (folder / "bad.json").write_text(json.dumps({"nodes": [node], "connections": {}}))
    note = {**node, "id": "2", "type": "n8n-nodes-base.stickyNote", "parameters": {"content": "B"}}
    to_a = [{"node": "A", "type": "main", "index": 0}]
    noted = {
        "nodes": [
            {**note, "name": "A"},
            node,
            {**node, "id": "3", "name": "C"},
            {**note, "name": "N"},
        ]
    }
    noted["connections"] = {"C": {"main": [to_a]}, "N": {"main": [to_a]}}  # type: ignore[assignment]
    (folder / "noted.json").write_text(json.dumps(noted))
    queries = [*QUERIES, a_query("bad.json", "q", "x"), a_query("noted.json", "C", "A")]
    source = MemoryDatabase().source("eval")
    await source.create_graph(a_graph("eval-2", "eval"))  # the key of the third
    graph_keys, left_out = await workflows.load_workflows(source, None, queries, folder)
    assert list(graph_keys) == ["first.json", "second.json", "noted.json"]
    assert [reason.partition(":")[0] for reason in left_out] == ["bad.json"]
    edges = await source.get_edges(graph_keys["noted.json"])
    assert [(edge.source, edge.target) for edge in edges] == [("c", "a")]


async def test_questions_about_nodes_that_do_not_exist_are_left_out_and_said(folder: Path) -> None:
    queries = [*QUERIES, a_query("first.json", "fetch invoices", "No such node")]
    source = MemoryDatabase().source("eval")
    graph_keys, _ = await workflows.load_workflows(source, None, queries, folder)
    evaluation = await workflows.evaluate(Retriever(source, None), queries, graph_keys, TEXT)
    assert evaluation.questions == 3
    assert evaluation.means["mrr"] == 1.0
    assert (evaluation.tokens or 0) > 20
    assert "No such node" in evaluation.left_out[0]


async def test_a_gold_node_missing_beside_others_counts_as_not_found(folder: Path) -> None:
    queries = [a_query("first.json", "fetch invoices", "Fetch invoices", "No such node")]
    source = MemoryDatabase().source("eval")
    graph_keys, _ = await workflows.load_workflows(source, None, queries, folder)
    evaluation = await workflows.evaluate(Retriever(source, None), queries, graph_keys, TEXT)
    assert (evaluation.means["recall@10"], evaluation.means["mrr"]) == (0.5, 1.0)
    assert evaluation.left_out == ()


def a_row(nodes: int = 10, relevant: int = 1, language: str = "en") -> ScoredRow:
    return ScoredRow(measures={"mrr": 1.0}, nodes=nodes, relevant=relevant, language=language)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40))
def test_an_interval_lies_among_the_scores(values: list[float]) -> None:
    low, high = interval(values)
    assert min(values) - 1e-9 <= low <= high <= max(values) + 1e-9


def test_more_questions_make_it_narrower_and_it_is_the_same_each_time() -> None:
    few = interval([0.0, 1.0] * 10)
    many = interval([0.0, 1.0] * 1_000)
    assert few[0] < many[0] < 0.5 < many[1] < few[1]
    assert interval([0.0, 1.0] * 10) == few


def test_splits_hold_every_question_once_and_leave_out_what_is_alike_everywhere() -> None:
    rows = [a_row(nodes=n, relevant=r) for n in (5, 60, 61, 20_000) for r in (1, 4, 9)]
    parts = splits(rows)
    assert list(parts) == [
        *("graph ≤ 20 nodes", "graph ≤ 60 nodes", "graph ≤ 1,000 nodes", "graph > 10,000 nodes"),
        *("relevant 1", "relevant 4+"),
    ]
    assert sum(len(part) for name, part in parts.items() if name.startswith("graph")) == len(rows)
    assert len(parts["relevant 4+"]) == 8


@pytest.mark.parametrize(
    ("question", "language"),
    [
        ("Which node sends the mail?", "en"),
        ("Quel nœud envoie le courriel ?", "fr"),
        ("Welcher Knoten schickt die Nachricht?", "de"),
        ("¿Qué nodo envía el correo?", "es"),
        ("xyzzy", "other"),
    ],
)
def test_a_language_is_known_by_its_usual_words(question: str, language: str) -> None:
    assert language_of(question) == language


CITIES = ("Arlon", "Brenta", "Calvi", "Dorset", "Eupen", "Fermo", "Gotha", "Hilva", "Iseo", "Jarna")
RIVERS = ("Aare", "Bode", "Cher", "Drina", "Eder", "Fulda", "Gail", "Havel", "Inn", "Jagst")
PAINTERS = tuple(f"Master {letter}orvin" for letter in "KLMNOPQRST")


def a_world() -> Knowledge:
    """A painter of each city, and a river through it whose passage never names the painter."""
    passages: list[Passage] = []
    facts: list[Fact] = []
    questions: list[Question] = []
    for city, river, painter in zip(CITIES, RIVERS, PAINTERS, strict=True):
        life = f"{painter} was a painter of still lifes who spent a whole life in {city}."
        flow = f"Flowing through {city}, the {river} is known for its floods."
        passages.append(Passage(id=painter, title=painter, text=life, mentions=(painter, city)))
        passages.append(Passage(id=river, title=f"The {river}", text=flow, mentions=(river, city)))
        facts.append(Fact(subject=painter, relation="lived in", object=city))
        facts.append(Fact(subject=river, relation="flows through", object=city))
        text = f"Which river flows through the place where {painter} painted?"
        questions.append(Question(text=text, passages=(painter, river)))
    return Knowledge(passages=tuple(passages), facts=tuple(facts), questions=tuple(questions))


async def a_retriever(knowledge: Knowledge) -> Retriever:
    source = MemoryDatabase().source("eval")
    embedder = LocalEmbedder()
    await load_knowledge(source, embedder, knowledge, "g")
    return Retriever(source, embedder)


@pytest.mark.parametrize(
    ("ranking", "gold", "scores"),
    [
        ("abc", "a", (1, 1, 1, 1, 1, 1, 1)),
        ("xab", "ab", (0.5, 1, 1, 0, 1, 1, 0.5)),
        ("xxxxxa", "ab", (0, 0, 0.5, 0, 0, 1, 1 / 6)),
        ("abc", "x", (0, 0, 0, 0, 0, 0, 0)),
        ("", "x", (0, 0, 0, 0, 0, 0, 0)),
    ],
)
def test_scores_are_those_counted_by_hand(
    ranking: str, gold: str, scores: tuple[float, ...]
) -> None:
    found = CUTS.measures(ranking, set(gold))
    assert tuple(found.values()) == pytest.approx(scores)


CUTS = Cuts(recall=(2, 5, 10), hits=(1, 5, 10))
names = st.sampled_from("abcdefghijklmnop")


@given(st.lists(names, unique=True, max_size=14), st.sets(names, min_size=1, max_size=5))
def test_more_places_never_score_less_and_hits_agree_with_recall(
    ranking: list[str], gold: set[str]
) -> None:
    found = CUTS.measures(ranking, gold)
    recall2, recall5, recall10, hit1, hit5, hit10, mrr = found.values()
    assert 0 <= recall2 <= recall5 <= recall10 <= 1
    assert 0 <= hit1 <= hit5 <= hit10 <= 1
    assert (hit5 == 1) == (recall5 > 0)
    assert (hit10 == 1) == (recall10 > 0)
    assert (mrr == 1) == (hit1 == 1)


async def test_a_fact_brings_the_passage_that_the_question_does_not_name() -> None:
    world = a_world()
    retriever = await a_retriever(world)
    walked, fused, dense = [
        await score_knowledge(retriever, "g", world.questions, ABLATION[way])
        for way in (HYBRID_PAGERANK, HYBRID, DENSE)
    ]
    assert walked.means["recall@2"] > fused.means["recall@2"]
    assert walked.means["recall@2"] > dense.means["recall@2"]
    assert walked.means["recall@5"] >= 0.9
    assert walked.questions == 10


async def test_entities_are_ranked_for_answers_and_a_topic_is_none() -> None:
    world = a_world()
    retriever = await a_retriever(world)
    asked = [
        Question(text=painter, answers=(city,), topics=(painter,))
        for city, painter in zip(CITIES, PAINTERS, strict=True)
    ]
    without = [Question(text=q.text, answers=q.answers) for q in asked]
    options = ABLATION[HYBRID_PAGERANK]
    given = await score_knowledge(retriever, "g", asked, options)
    not_given = await score_knowledge(retriever, "g", without, options)
    assert (
        given.means["hits@1"] > not_given.means["hits@1"] == 0.0
    )  # the painter, whom the question names, comes first
    assert given.means["hits@5"] == 1.0
    where = [Question(text=f"where did {q.text} live", answers=q.answers) for q in asked]
    assert (await score_knowledge(retriever, "g", where, options)).means[
        "hits@1"
    ] == 1.0  # over what "live" says


async def test_a_topic_that_answers_is_an_answer() -> None:
    world = a_world()
    retriever = await a_retriever(world)
    asked = [Question(text="Arlon", answers=("Arlon",), topics=("Arlon",))]
    assert (await score_knowledge(retriever, "g", asked, ABLATION[HYBRID])).means["hits@1"] == 1.0


async def test_questions_without_an_answer_in_the_graph_are_left_out_and_said() -> None:
    world = a_world()
    retriever = await a_retriever(world)
    lost = Question(text="who is the baker?", answers=("Nobody",))
    half = Question(text="Arlon", answers=("Arlon", "Nobody"))
    found = await score_knowledge(retriever, "g", [lost, half], ABLATION[HYBRID])
    assert found.questions == 1
    assert found.means["recall@10"] == 0.5
    assert found.left_out == ("'who is the baker?': none of its answers is in the graph",)
    with pytest.raises(QueryFileError, match="none of its answers"):
        await score_knowledge(retriever, "g", [lost], ABLATION[HYBRID])


@pytest.mark.slow
@needs_published
async def test_walking_the_graph_pays_on_musique(tmp_path: Path) -> None:
    facts = published("multihop", "openie*.json")[0]
    asked = published("multihop", "*questions.json")[0]
    read = read_knowledge("openie", facts.read_bytes(), "facts", asked.read_bytes(), "questions")
    settings = load_settings(db=f"sqlite:{tmp_path}/k.db", workspace="eval", embeddings="local")
    async with open_services(settings) as services:
        await load_knowledge(services.source, services.embedder, read, "g")
        walked, fused, dense = [
            await score_knowledge(services.retriever, "g", read.questions[:40], ABLATION[way])
            for way in (HYBRID_PAGERANK, HYBRID, DENSE)
        ]
    assert walked.means["recall@5"] > fused.means["recall@5"]
    assert walked.means["recall@5"] > dense.means["recall@5"]
