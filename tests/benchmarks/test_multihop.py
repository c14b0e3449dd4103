"""The multi-hop benchmark: its graph, its scoring, and that walking the graph pays."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from datasources.mock import MemoryDatabase
from graphrag.embedders import LocalEmbedder
from graphrag.retriever import RetrievalOptions, Retriever
from tests.benchmarks import multihop
from tests.benchmarks.multihop import (
    DENSE,
    ENTITY,
    GRAPH,
    HYBRID,
    PASSAGE,
    WAYS,
    Passage,
    Question,
    build_graph,
    entity_key,
    measure,
    only_file,
    passage_key,
    read_passages,
    read_questions,
    score,
    store,
    without_facts,
)

DATA = Path(__file__).parents[2] / "../shared/data/multihop"

CITIES = ("Arlon", "Brenta", "Calvi", "Dorset", "Eupen", "Fermo", "Gotha", "Hilva", "Iseo", "Jarna")
RIVERS = ("Aare", "Bode", "Cher", "Drina", "Eder", "Fulda", "Gail", "Havel", "Inn", "Jagst")


def a_world() -> tuple[list[Passage], list[Question]]:
    """Twenty passages: a painter of each city, and a river through it that never names the painter."""
    passages: list[Passage] = []
    for i, (city, river) in enumerate(zip(CITIES, RIVERS, strict=True)):
        painter = f"Master {chr(ord('K') + i)}orvin"
        passages.append(
            Passage(
                title=painter,
                text=f"{painter} was a painter of still lifes who spent a whole life in {city}.",
                entities=(painter, city),
                triples=((painter, "lived in", city),),
            )
        )
        passages.append(
            Passage(
                title=f"The {river}",
                text=f"Flowing through {city}, the {river} is known for its floods.",
                entities=(river, city),
                triples=((river, "flows through", city),),
            )
        )
    questions = [
        Question(
            text=f"Which river flows through the place where {passages[2 * i].title} painted?",
            gold=(2 * i, 2 * i + 1),
        )
        for i in range(len(CITIES))
    ]
    return passages, questions


def test_passages_and_entities_are_nodes_and_facts_are_edges() -> None:
    passages, _ = a_world()
    made = build_graph(passages)
    assert sum(node.type == PASSAGE for node in made.put_nodes) == 20
    assert (
        sum(node.type == ENTITY for node in made.put_nodes) == 40
    )  # painters, cities, rivers, two titles each
    keys = {node.key for node in made.put_nodes}
    assert all(edge.source in keys and edge.target in keys for edge in made.put_edges)
    assert {edge.label for edge in made.put_edges} == {"mentions", "lived in", "flows through"}
    city = entity_key("Arlon")
    assert {edge.source for edge in made.put_edges if edge.target == city and edge.label == "mentions"} == {
        passage_key(0),
        passage_key(1),
    }


def test_spellings_of_one_name_are_one_entity() -> None:
    assert entity_key("St. Mary's") == entity_key("st mary s") != entity_key("St. Marys")
    made = build_graph([Passage(title="A", text="a", entities=("B.", "b", "...", " "))])
    assert len(made.put_nodes) == 3


def test_without_facts_only_passages_are_left() -> None:
    passages, _ = a_world()
    made = build_graph(without_facts(passages))
    assert (len(made.put_nodes), len(made.put_edges)) == (20, 0)


async def test_a_fact_brings_the_passage_that_the_question_does_not_name() -> None:
    passages, questions = a_world()
    source, embedder = MemoryDatabase().source("bench"), LocalEmbedder()
    await store(source, embedder, passages)
    retriever = Retriever(source, embedder)
    hybrid, dense = [await score(retriever, questions, WAYS[way]) for way in (HYBRID, DENSE)]
    assert hybrid[2] > dense[2]
    assert hybrid[5] >= 0.9
    assert list(hybrid) == [2, 5, 10]
    assert hybrid[2] <= hybrid[5] <= hybrid[10]


async def test_only_passages_are_ranked() -> None:
    passages, questions = a_world()
    source, embedder = MemoryDatabase().source("bench"), LocalEmbedder()
    await store(source, embedder, passages)
    options = RetrievalOptions(max_nodes=20, exclude_types=(ENTITY,))
    found = await Retriever(source, embedder).retrieve(GRAPH, questions[0].text, options)
    assert {scored.node.type for scored in found.nodes} == {PASSAGE}


def test_files_are_read_and_broken_facts_left_out(tmp_path: Path) -> None:
    document = {
        "title": "T",
        "text": "t",
        "extracted_entities": ["E", 1963],
        "extracted_triples": [["E", "r", "F"], ["E", "r"], ["E", "r", "F", "G"], []],
    }
    (tmp_path / "openie_x.json").write_text(json.dumps({"docs": [document]}))
    (tmp_path / "my_questions.json").write_text(json.dumps([{"question": "q", "gold_passages": [0]}]))
    assert read_passages(only_file(tmp_path, multihop.TRIPLES)) == [
        Passage(title="T", text="t", entities=("E", "1963"), triples=(("E", "r", "F"),))
    ]
    assert read_questions(only_file(tmp_path, multihop.QUESTIONS)) == [Question(text="q", gold=(0,))]
    with pytest.raises(SystemExit, match="expected one file"):
        only_file(tmp_path, "absent*.json")


@pytest.mark.slow
@pytest.mark.skipif(not DATA.is_dir(), reason="the MuSiQue sample is not beside this repository")
async def test_the_default_options_beat_dense_retrieval_on_musique() -> None:
    questions = read_questions(only_file(DATA, multihop.QUESTIONS))[:30]
    passages = read_passages(only_file(DATA, multihop.TRIPLES))
    last = max(number for question in questions for number in question.gold)
    found = await measure(passages[: last + 1], questions)
    assert found[HYBRID][5] > found[DENSE][5]
