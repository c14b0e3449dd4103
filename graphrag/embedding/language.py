"""Recognises languages by their function words, and takes these words out of a query."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, islice
from typing import Final

from datasources.text import STEMMERS
from datasources.types import Graph, Node
from datasources.uses import node_texts
from languages.reading import entry, folders

_WORD: Final = re.compile(r"([^\W\d_]+)")
_FUNCTION_WORDS: Final = {
    language: frozenset(entry(language, "language", "function_words").split())
    for language in folders()
}
"""The most frequent words of languages that do not say what a text is about."""
_LANGUAGES: Final = {
    word: [language for language, known in _FUNCTION_WORDS.items() if word in known]
    for word in chain.from_iterable(_FUNCTION_WORDS.values())
}

_SENTENCE_WORD: Final = re.compile(r"(?<!\S)[\"(«]?([^\W\d_]+)[.,;:!?)»\"]?(?!\S)")
MAX_TEXTS: Final = 5_000
LEAST: Final = 5
"""A graph with fewer function words of a language is not known to be written in it."""
KEYWORDS: Final = 3
"""A query of so many words is no sentence."""


def sought(query: str) -> str:
    """Return a query without the function words of its language, which are common in every text.

    A small graph does not show how common they are. Words written in capitals are kept (`If`,
    `IT`), but for the first, and so is a query without any other word.
    """
    pieces = [*_pieces(query)]
    words = pieces[1::2]
    common = _FUNCTION_WORDS.get(language_of(query), frozenset())
    kept = [
        " " if w.lower() in common and (not i or w.islower()) else w for i, w in enumerate(words)
    ]
    if len(words) <= KEYWORDS or kept == words or kept.count(" ") == len(words):
        return query
    pieces[1::2] = kept
    return "".join(pieces)


def is_english(text: str) -> bool:
    """Return whether a text may be English: so is one without any function word
    of another language.
    """
    if not text.isascii():
        words = _WORD.findall(text[:2_000])
        if 2 * sum(word[0] < "\u0250" for word in words) < len(words):
            return False
    counts = _counted(text[:2_000])
    return counts["en"] == max(counts.values())


def language_of(text: str) -> str:
    """Return the language of a text by its function words; `other` without any, English where
    it is even.
    """
    counts = _counted(text[:2_000])
    best = max(counts, key=lambda language: (counts[language], language == "en"))
    return best if counts[best] else "other"


def _pieces(text: str) -> Sequence[str]:
    """Return what stands before the first word of a text, and each word with what
    stands after it.
    """
    return _WORD.split(text)


def _counted(text: str) -> Mapping[str, int]:
    """Return how many words of a text are function words of each language."""
    counts = dict.fromkeys(_FUNCTION_WORDS, 0)
    for word in _pieces(text)[1::2]:
        for language in _LANGUAGES.get(word.lower(), ()):
            counts[language] += 1
    return counts


def written_in(graph: Graph, nodes: Iterable[Node] = ()) -> str | None:
    """Return the language of a graph's prose, where it is one that has stems of its own; None else.

    Read are its name, its description and those texts of its nodes that are sentences:
    words between blanks.
    """
    own = (text for node in nodes for _, text in node_texts(node))
    texts = islice(chain((graph.name, graph.description or ""), own), MAX_TEXTS)
    sentences = (
        words for text in texts if len(words := _SENTENCE_WORD.findall(text[:2_000])) > KEYWORDS
    )
    words = Counter(word.lower() for sentence in sentences for word in sentence)
    counts = {
        language: sum(words[word] for word in known) for language, known in _FUNCTION_WORDS.items()
    }
    best = max(counts, key=lambda language: counts[language])
    return best if best in STEMMERS and counts[best] >= max(LEAST, counts["en"] + 1) else None
