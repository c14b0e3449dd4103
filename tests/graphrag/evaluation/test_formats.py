"""Reading knowledge graphs: the three formats, the graph they make, and where a bad
file is wrong.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasources.mock import MemoryDatabase
from graphrag.embedding import LocalEmbedder
from graphrag.evaluation.formats import FORMATS, read_knowledge
from graphrag.evaluation.formats.knowledge_graph import (
    ENTITY,
    PASSAGE,
    Entity,
    Fact,
    Knowledge,
    Passage,
    Question,
    UnreadableKnowledge,
    build_mutation,
    entity_key,
    passage_key,
)
from graphrag.evaluation.knowledge import load_knowledge, score_knowledge
from graphrag.retrieval.retrieval_result import RetrievalOptions
from graphrag.retrieval.retriever import Retriever
from tests.contracts.samples import WORKSPACE
from tests.support.made_up_knowledge import HOPS, write

FACTS = b"Orvin|lived in|Arlon\nAare|flows through|Arlon\n\nOrvin|taught|Pelt\n"


def raw(document: Any) -> bytes:
    return json.dumps(document).encode()


def openie(*docs: dict[str, Any], gold: list[Any] | None = None) -> Knowledge:
    asked = raw([{"question": "q", "gold_passages": gold or [0]}])
    return read_knowledge("openie", raw({"docs": docs}), "o.json", asked, "q.json")


def triples(facts: bytes, questions: bytes) -> Knowledge:
    return read_knowledge("triples", facts, "kb.txt", questions, "q.txt")


# The graph


def test_passages_and_entities_are_nodes_and_facts_are_edges() -> None:
    knowledge = Knowledge(
        passages=(
            Passage(id="p", title="Orvin", text="A painter of Arlon.", mentions=("Orvin", "Arlon")),
        ),
        facts=(Fact(subject="Orvin", relation="lived in", object="Arlon"),) * 2,
        entities=(Entity(name="Arlon", text="a town"), Entity(name="Pelt")),
    )
    made = build_mutation(knowledge, "g")
    assert {(n.key, n.type) for n in made.put_nodes} == {
        (passage_key("p"), PASSAGE),
        *((entity_key(name), ENTITY) for name in ("Arlon", "Orvin", "Pelt")),
    }
    assert {(e.source, e.target, e.label) for e in made.put_edges} == {
        (passage_key("p"), entity_key("Orvin"), "mentions"),
        (passage_key("p"), entity_key("Arlon"), "mentions"),
        (entity_key("Orvin"), entity_key("Arlon"), "lived in"),
    }
    assert len(made.put_edges) == 3
    arlon = next(node for node in made.put_nodes if node.key == entity_key("Arlon"))
    assert arlon.data == {"name": "Arlon", "text": "a town"}


def test_a_passage_is_joined_to_the_passage_whose_title_it_mentions() -> None:
    passages = [
        Passage(
            id="film",
            title="The Sea (1957 film)",
            text="",
            mentions=("The sea, 1957 film", "E. Vale"),
        ),
        Passage(id="man", title="E. Vale", text="", mentions=("E. Vale",)),
        *(Passage(id=f"part {i}", title="Long", text="", mentions=("Long",)) for i in range(6)),
    ]
    edges = build_mutation(Knowledge(passages=tuple(passages)), "g").put_edges
    between = [(e.source, e.target) for e in edges if e.target.startswith(PASSAGE)]
    assert between == [(passage_key("film"), passage_key("man"))]


names = st.sampled_from(["a", "b", "c", "d e", "\ud800", "é"])
facts = st.builds(Fact, subject=names, relation=names, object=names)


@given(st.lists(facts, max_size=12), st.lists(names, max_size=5, unique=True))
def test_every_edge_has_both_ends_and_no_node_comes_twice(
    named: list[Fact], mentioned: list[str]
) -> None:
    passage = Passage(id="1", title="t", text="", mentions=tuple(mentioned))
    made = build_mutation(Knowledge(passages=(passage,), facts=tuple(named)), "g")
    keys = [node.key for node in made.put_nodes]
    assert len(keys) == len(set(keys))
    assert all(edge.source in keys and edge.target in keys for edge in made.put_edges)
    assert {entity_key(n) for f in named for n in (f.subject, f.object)} <= set(keys)
    distinct = {(f.subject, f.relation, f.object) for f in named if f.subject != f.object}
    assert len(made.put_edges) == len(distinct) + len(mentioned)


# OpenIE


def test_openie_spellings_of_one_name_are_one_entity_and_broken_triples_are_said() -> None:
    read = openie(
        {
            "title": "T",
            "text": "t",
            "extracted_entities": ["St. Mary's", 1963, "..."],
            "extracted_triples": [
                ["st mary s", "r", "F"],
                ["E", "r"],
                ["E", "r", "F", "G"],
                [],
                "x",
                ["a", {}, "b"],
            ],
        }
    )
    assert read.passages == (
        Passage(id="0", title="T", text="t", mentions=("T", "St. Mary's", "1963", "F")),
    )
    assert read.facts == (Fact(subject="St. Mary's", relation="r", object="F"),)
    assert read.left_out == ("o.json: 5 triples that have not three parts",)


def test_openie_passages_may_be_one_text_and_be_asked_for_by_title() -> None:
    read = openie(
        {"passage": "Aare\nA river."}, {"title": "Bode", "text": "Another."}, gold=["Bode", 0]
    )
    assert [(p.title, p.text) for p in read.passages] == [
        ("Aare", "A river."),
        ("Bode", "Another."),
    ]
    assert read.questions == (Question(text="q", passages=("1", "0")),)


@pytest.mark.parametrize("gold", [[1], [-1], ["Bode"]])
def test_a_gold_passage_that_does_not_exist_is_refused(gold: list[Any]) -> None:
    with pytest.raises(
        UnreadableKnowledge, match=r"q\.json: 0\.gold_passages: there is no passage"
    ):
        openie({"passage": "Aare\nA river."}, gold=gold)


# Triples


def test_triples_are_split_at_bars_or_tabs_and_named_in_their_subject() -> None:
    read = triples(FACTS + b"Pelt\t\tborn in\tArlon, at|home\r\n", b"who taught [Pelt]\tOrvin\n")
    assert read.facts[-1] == Fact(subject="Pelt", relation="born in", object="Arlon, at|home")
    assert Entity(name="Orvin", text="lived in Arlon\ntaught Pelt") in read.entities
    assert Entity(name="Arlon") in read.entities


@pytest.mark.parametrize(
    ("line", "asked"),
    [
        (
            "where did [Orvin] live\tArlon|Pelt",
            ("where did Orvin live", ("Arlon", "Pelt"), ("Orvin",)),
        ),
        ("[Orvin] lived where\tArlon", ("Orvin lived where", ("Arlon",), ("Orvin",))),
        (
            "where did orvin live ?\tArlon(Arlon/Pelt/)\tOrvin#lived in#Arlon#<end>#Arlon",
            ("where did orvin live ?", ("Arlon", "Pelt"), ("Orvin",)),
        ),
        ("x ?\ta (b)(a (b)/)\tOrvin#r#a (b)", ("x ?", ("a (b)",), ("Orvin",))),
        ('{"question": "q", "answers": ["Arlon"], "id": 7}', ("q", ("Arlon",), ())),
        (
            '{"question": "q", "answers": [{"kb_id": "Arlon", "text": "A town"}, '
            '{"kb_id": "m.1", "text": "Pelt"}], "entities": [{"kb_id": "Orvin", "text": null}]}',
            ("q", ("Arlon", "Pelt"), ("Orvin",)),
        ),
    ],
)
def test_questions_are_read_in_every_way_of_writing_them(line: str, asked: tuple[Any, ...]) -> None:
    question = triples(FACTS, line.encode()).questions[0]
    assert (question.text, question.answers, question.topics) == asked


def test_a_json_list_of_questions_is_read_too() -> None:
    asked = raw([{"question": "q", "answers": ["Arlon"]}, {"question": "r", "answers": ["Pelt"]}])
    assert [question.text for question in triples(FACTS, asked).questions] == ["q", "r"]


# Our own format

DOCUMENT: dict[str, Any] = {
    "passages": [{"id": "p1", "title": "Orvin", "text": "A painter.", "mentions": ["Orvin"]}],
    "entities": [{"name": "Arlon", "text": "a town"}],
    "facts": [["Orvin", "lived in", "Arlon"]],
    "questions": [{"question": "who painted", "passages": ["p1"]}],
}


def test_our_format_takes_questions_inside_and_beside() -> None:
    more = raw([{"question": "where", "answers": ["Arlon"], "topics": ["Orvin"]}])
    read = read_knowledge("knowledge", raw(DOCUMENT), "k.json", more, "q.json")
    assert read == Knowledge(
        passages=(Passage(id="p1", title="Orvin", text="A painter.", mentions=("Orvin",)),),
        entities=(Entity(name="Arlon", text="a town"),),
        facts=(Fact(subject="Orvin", relation="lived in", object="Arlon"),),
        questions=(
            Question(text="who painted", passages=("p1",)),
            Question(text="where", answers=("Arlon",), topics=("Orvin",)),
        ),
    )


# Bad files say where


@pytest.mark.parametrize(
    ("facts", "questions", "named"),
    [
        (b"a|b|c\na|b\n", b"q\ta", "kb.txt: line 2: expected subject|relation|object, found 'a|b'"),
        (b"a|b|c|d\n", b"q\ta", "kb.txt: line 1"),
        (b"a||c\n", b"q\ta", "kb.txt: line 1"),
        (b"a\tb\n", b"q\ta", "kb.txt: line 1"),
        (b"a|b|c\n\n\xff|b|c\n", b"q\ta", "kb.txt: line 3: it is not UTF-8"),
        (b"\n \n", b"q\ta", "kb.txt: it contains no subject"),
        (FACTS, b"q\tArlon\nno tab here\n", "q.txt: line 2: expected a question, a tab"),
        (FACTS, b"q\t|\n", "q.txt: line 1: it names no answer"),
        (FACTS, b'{"question": "q", "answers": []}', "q.txt: line 1, answers"),
        (FACTS, b'q\tArlon\n{"question": "q"', "q.txt: line 2: Invalid JSON"),
        (
            FACTS,
            b'[{"question": "q", "answers": ["Arlon"]},\n {"answers": ["Arlon"]}]',
            "q.txt: 1.question",
        ),
        (FACTS, b"", "q.txt: it contains no question"),
    ],
)
def test_a_bad_line_is_named(facts: bytes, questions: bytes, named: str) -> None:
    with pytest.raises(UnreadableKnowledge) as caught:
        triples(facts, questions)
    assert str(caught.value).startswith(named)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"facts": [["a", "b"]]}, "k.json: facts.0"),
        ({"passages": [{"id": "p", "title": " "}]}, "k.json: passages.0.title"),
        ({"relations": []}, "k.json: relations"),
        ({"questions": [{"question": "q"}]}, "k.json: questions.0"),
        (
            {"questions": [{"question": "q", "passages": ["p1"], "answers": ["Arlon"]}]},
            "k.json: questions.0",
        ),
        ({"questions": []}, "k.json: it contains no question"),
        (
            {"passages": DOCUMENT["passages"] * 2},
            "k.json: passages.1: the id 'p1' is already used by passages.0",
        ),
        ({"entities": DOCUMENT["entities"] * 2}, "k.json: entities.1: the name 'Arlon'"),
    ],
)
def test_a_document_that_is_wrong_is_refused_with_the_place(
    change: dict[str, Any], named: str
) -> None:
    with pytest.raises(UnreadableKnowledge) as caught:
        read_knowledge("knowledge", raw({**DOCUMENT, **change}), "k.json")
    assert str(caught.value).startswith(named)


def test_json_that_is_none_names_its_line_and_column() -> None:
    with pytest.raises(UnreadableKnowledge, match=r"k\.json: Invalid JSON: .* line 2 column 0"):
        read_knowledge("knowledge", b'{"passages":\n', "k.json")


def test_json_nested_too_deep_is_refused() -> None:
    with pytest.raises(UnreadableKnowledge, match="Invalid JSON"):
        read_knowledge("knowledge", b"[" * 100_000, "k.json")


@pytest.mark.parametrize("form", ["openie", "triples"])
def test_formats_without_questions_of_their_own_need_some(form: Any) -> None:
    with pytest.raises(UnreadableKnowledge, match="needs a separate file of questions"):
        read_knowledge(form, FACTS, "kb.txt")


@given(st.binary(max_size=200), st.binary(max_size=200), st.sampled_from(sorted(FORMATS)))
def test_no_bytes_are_met_with_anything_but_a_clear_error(
    one: bytes, other: bytes, form: Any
) -> None:
    reason = None
    try:
        read_knowledge(form, one, "k", other, "q")
    except UnreadableKnowledge as exc:
        reason = exc.reason
    assert reason != ""


async def _means(knowledge: Knowledge) -> dict[str, float]:
    async with MemoryDatabase() as database:
        source = database.source(WORKSPACE)
        embedder = LocalEmbedder()
        await load_knowledge(source, embedder, knowledge, "made-up")
        retriever = Retriever(source, embedder)
        scores = await score_knowledge(
            retriever, "made-up", knowledge.questions, RetrievalOptions()
        )
        return {name: one["mean"] for name, one in scores.certainty()["intervals"].items()}


async def test_both_forms_are_read_and_their_steps_are_walked(tmp_path: Path) -> None:
    write(tmp_path, films=24, questions=12)
    found = await _means(
        read_knowledge("knowledge", (tmp_path / "passages.json").read_bytes(), "passages")
    )
    assert found["all@8"] == 1.0
    facts = (tmp_path / "triples.txt").read_bytes()
    for hops in HOPS:
        lines = (tmp_path / f"questions-{hops}.txt").read_bytes()
        found = await _means(read_knowledge("triples", facts, "facts", lines, "lines"))
        assert found["hits@1"] >= 0.75, hops
        assert found["recall@200"] == 1.0, hops
