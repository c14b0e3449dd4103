"""Recognises languages by their function words, and takes these words out of a query."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain, islice
from typing import Final

from datasources.text import STEMMERS
from datasources.types import Graph, Node
from datasources.uses import node_texts

_WORD: Final = re.compile(r"([^\W\d_]+)")
_FUNCTION_WORDS: Final[dict[str, frozenset[str]]] = {
    language: frozenset(words.split())
    for language, words in {
        "en": "the of and to in is are was for on with that this it by from as at be what which who how "
        "when where why does do did can if after before or not there any all my our your me you we "
        "i no a an or but have has been its",
        "fr": "le la les un une des du de et est sont dans pour sur avec que qui quoi quel quelle quels "
        "quelles par au aux ce cette ces comment quand où pourquoi il elle nous vous je si après "
        "avant pas ne plus mon ma mes notre votre leur y en à d l qu s",
        "de": "der die das den dem ein eine einen und ist sind in im für auf mit dass was wer wie wann wo "
        "warum welche welcher welches von zu zum zur bei nach vor wenn nicht kein keine ich wir sie "
        "es mein unser wird werden",
        "es": "el la los las un una unos de del y es son en para por con que qué quién cómo cuándo dónde "
        "cuál cuáles al se si después antes no mi nuestro su lo le",
        "it": "il lo la gli le un una di del della dei e è sono in per con che chi cosa come quando dove "
        "quale quali al alla da dal se dopo prima non mio nostro",
        "pt": "o a os as um uma de do da dos das e é são em no na para por com que quem como quando onde "
        "qual quais ao se depois antes não meu nosso",
        "nl": "de het een en is zijn in voor op met dat wat wie hoe wanneer waar waarom welke van naar "
        "bij na als niet geen ik wij ze mijn ons wordt worden",
    }.items()
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


@lru_cache(maxsize=100)
def _pieces(text: str) -> Sequence[str]:
    """Return what stands before the first word of a text, and each word with what
    stands after it.
    """
    return _WORD.split(text)


@lru_cache(maxsize=100)
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
