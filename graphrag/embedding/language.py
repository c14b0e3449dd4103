"""Detects languages by their function words, and removes these words from queries."""

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
"""The most frequent words of each language that do not indicate the topic of a text."""
_LANGUAGES: Final = {
    word: [language for language, words in _FUNCTION_WORDS.items() if word in words]
    for word in chain.from_iterable(_FUNCTION_WORDS.values())
}

_SENTENCE_WORD: Final = re.compile(r"(?<!\S)[\"(«]?([^\W\d_]+)[.,;:!?)»\"]?(?!\S)")
MAX_TEXTS: Final = 5_000  # read of one graph
LEAST: Final = 5  # minimum number of function words that identify the language of a graph
KEYWORDS: Final = 3  # a text with at most this many words is not a sentence


def sought(query: str) -> str:
    """Returns a query without the function words of its language.

    In a small graph, word statistics do not show that these words are common. Capitalized words
    (`If`, `IT`) are kept, except for the first word. A query that has only function words, or at
    most KEYWORDS words, is returned unchanged.
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
    """Returns whether a text may be English, which includes texts without any function word."""
    if not text.isascii():
        words = _WORD.findall(text[:2_000])
        if 2 * sum(word[0] < "\u0250" for word in words) < len(words):
            return False
    counts = _counted(text[:2_000])
    return counts["en"] == max(counts.values())


def language_of(text: str) -> str:
    """Returns the language of a text by its function words: "other" without any, "en" if several
    languages have the same number.
    """
    counts = _counted(text[:2_000])
    best = max(counts, key=lambda language: (counts[language], language == "en"))
    return best if counts[best] else "other"


def _pieces(text: str) -> Sequence[str]:
    """Splits a text into the part before its first word, then each word and the part after it."""
    return _WORD.split(text)


def _counted(text: str) -> Mapping[str, int]:
    """Returns the number of function words of each language in a text."""
    counts = dict.fromkeys(_FUNCTION_WORDS, 0)
    for word in _pieces(text)[1::2]:
        for language in _LANGUAGES.get(word.lower(), ()):
            counts[language] += 1
    return counts


def written_in(graph: Graph, nodes: Iterable[Node] = ()) -> str | None:
    """Returns the language of a graph if there is a stemmer for it; None otherwise and for English.

    Only sentences are counted, in the graph's name and description and in the texts of its nodes.
    """
    text_of_nodes = (text for node in nodes for _, text in node_texts(node))
    texts = islice(chain((graph.name, graph.description or ""), text_of_nodes), MAX_TEXTS)
    sentences = (
        words for text in texts if len(words := _SENTENCE_WORD.findall(text[:2_000])) > KEYWORDS
    )
    words = Counter(word.lower() for sentence in sentences for word in sentence)
    counts = {
        language: sum(words[word] for word in function_words)
        for language, function_words in _FUNCTION_WORDS.items()
    }
    best = max(counts, key=lambda language: counts[language])
    return best if best in STEMMERS and counts[best] >= max(LEAST, counts["en"] + 1) else None
