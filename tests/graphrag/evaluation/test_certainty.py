"""How sure mean scores are: intervals hold the mean and narrow, splits lose no question."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from graphrag.embedding.language import language_of
from graphrag.evaluation.scoring import ScoredRow, interval, splits
from tests.support.each_row import each_row


def a_row(nodes: int = 10, relevant: int = 1, language: str = "en") -> ScoredRow:
    return ScoredRow(measures={"mrr": 1.0}, nodes=nodes, relevant=relevant, language=language)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40))
def test_an_interval_lies_among_the_scores(values: list[float]) -> None:
    low, high = interval(values)
    assert min(values) - 1e-9 <= low <= high <= max(values) + 1e-9


def test_more_questions_make_it_narrower_and_it_is_the_same_each_time() -> None:
    few, many = interval([0.0, 1.0] * 10), interval([0.0, 1.0] * 1_000)
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


@each_row(
    "question, language",
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
