"""Scoring knowledge graphs: the measures, what is ranked, and that walking the graph pays."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasources.mock import MemoryDatabase
from graphrag.app.wiring import open_services
from graphrag.config import load_settings
from graphrag.embedding import LocalEmbedder
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
from graphrag.evaluation.scoring import Cuts, QueryFileError
from graphrag.retrieval.retriever import Retriever
from tests.support.each_row import each_row

DATA = Path(__file__).parents[3] / "../shared/data/multihop"

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
    source, embedder = MemoryDatabase().source("eval"), LocalEmbedder()
    await load_knowledge(source, embedder, knowledge, "g")
    return Retriever(source, embedder)


@each_row(
    "ranking, gold, scores",
    [
        ("abc", "a", (1, 1, 1, 1, 1, 1, 1)),
        ("xab", "ab", (0.5, 1, 1, 0, 1, 1, 0.5)),
        ("xxxxxa", "ab", (0, 0, 0.5, 0, 0, 1, 1 / 6)),
        ("abc", "x", (0, 0, 0, 0, 0, 0, 0)),
        ("", "x", (0, 0, 0, 0, 0, 0, 0)),
    ],
)
def test_scores_are_those_counted_by_hand(ranking: str, gold: str, scores: tuple[float, ...]) -> None:
    found = CUTS.measures(ranking, set(gold))
    assert tuple(found.values()) == pytest.approx(scores)


CUTS = Cuts(recall=(2, 5, 10), hits=(1, 5, 10))
names = st.sampled_from("abcdefghijklmnop")


@given(st.lists(names, unique=True, max_size=14), st.sets(names, min_size=1, max_size=5))
def test_more_places_never_score_less_and_hits_agree_with_recall(ranking: list[str], gold: set[str]) -> None:
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
@pytest.mark.skipif(not DATA.is_dir(), reason="the MuSiQue sample is not beside this repository")
async def test_walking_the_graph_pays_on_musique(tmp_path: Path) -> None:
    facts = next(DATA.glob("openie*.json"))
    asked = next(DATA.glob("*questions.json"))
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
