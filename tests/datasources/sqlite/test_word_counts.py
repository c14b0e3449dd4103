"""Counting words of many documents at once gives what counting them one by one gives."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from datasources.sqlite.word_counts import Document, WordCounts

tokens = st.lists(st.sampled_from(["run", "call", "ete", "図", "7"]) | st.text("abc", min_size=1), max_size=6)
documents = st.lists(st.tuples(tokens, tokens), max_size=12)


def counted(found: list[Document]) -> dict[str, tuple[int, int]]:
    names = Counter(word for name, _ in found for word in set(name))
    contents = Counter(word for name, rest in found for word in {*name, *rest})
    return {word: (count, names[word]) for word, count in contents.items()}


@given(documents, st.integers(1, 5))
def test_counts_are_those_of_one_document_after_the_other(found: list[Document], step: int) -> None:
    counts = WordCounts()
    for start in range(0, len(found), step):
        counts.add(found[start : start + step])
    assert {word: (content, name) for word, content, name in counts.rows()} == counted(found)
    assert counts.name_words == sum(len(name) for name, _ in found)
    assert counts.content_words == sum(len(name) + len(rest) for name, rest in found)


@given(documents, documents)
def test_taking_documents_away_again_leaves_the_counts_of_the_others(
    kept: list[Document], gone: list[Document]
) -> None:
    counts = WordCounts()
    counts.add([*kept, *gone])
    counts.add(gone, sign=-1)
    assert {word: (content, name) for word, content, name in counts.rows()} == counted(kept)
    assert counts.name_words == sum(len(name) for name, _ in kept)
