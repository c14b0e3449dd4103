"""Ranks nodes higher that contain nearly all words of a question, for example a quoted text.

BM25 does not check whether a node contains all words, and it is only one of four searches: a
package whose description is the query would rank behind packages with two of its words in their
names. Therefore the texts of the few best word hits are compared with the question.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from datasources.hits import Hit
from datasources.text import flatten, tokenize
from datasources.types import Node, ScoredNode

NEAR_BEST = 0.75  # word hits with at least this share of the best score are compared
MOST = 8  # maximum number of word hits compared
LEAST_WORDS = 3  # too many nodes contain all words of a shorter question
LEAST_SHARE = 0.8  # smallest share of the question's words that a node must contain
SHARPNESS = 8.0  # exponent of that share: nine tenths of the words gain 0.43


def compared(hits: Sequence[Hit]) -> list[str]:
    """Returns the keys of the word hits whose texts are compared. `hits` are best first."""
    return [hit.key for hit in hits[:MOST] if hit.score >= NEAR_BEST * hits[0].score]


def lift(
    nodes: Sequence[ScoredNode], question: str, words: str, keys: Collection[str]
) -> list[ScoredNode]:
    """Returns nodes best first; nodes of `keys` that contain the question's `words` gain score.

    Scores are from 0 to 1, before and after. A node with all words gains 1. A node that contains
    the question literally gains 1 more, plus the question's share of its text, so that the shorter
    of two texts wins. A node with a value equal to the question gains 1 more.
    """
    stems = frozenset(tokenize(words))
    if len(stems) < LEAST_WORDS:
        return list(nodes)
    parts = [stem.removesuffix("i") for stem in stems]
    candidates = [
        n.node for n in nodes if n.node.key in keys and _may_hold(_text(n.node).lower(), parts)
    ]
    question_words = tokenize(question) if candidates else []
    gains = {node.key: gain for node in candidates if (gain := _gain(node, question_words, stems))}
    if not gains:
        return list(nodes)
    scores = {n.node.key: n.score + gains.get(n.node.key, 0.0) for n in nodes}
    best = max(scores.values())
    lifted = [replace(n, score=scores[n.node.key] / best) for n in nodes]
    return sorted(lifted, key=lambda n: -n.score)


def _text(node: Node) -> str:
    return f"{node.key} {flatten(node.data)}"


def _may_hold(text: str, parts: Sequence[str]) -> bool:
    """Returns True if a text contains enough of the parts; cheaper than splitting it into words."""
    left = len(parts)
    least = LEAST_SHARE * len(parts)
    for part in parts:
        left -= part not in text
        if left < least:
            return False
    return True


def _gain(node: Node, question_words: list[str], stems: frozenset[str]) -> float:
    tokens = tokenize(_text(node))
    covered = len(stems.intersection(tokens))
    gain = (covered / len(stems)) ** SHARPNESS if covered >= LEAST_SHARE * len(stems) else 0.0
    if f" {' '.join(question_words)} " not in f" {' '.join(tokens)} ":
        return gain
    values = (
        cast(Mapping[str, Any], node.data).values()
        if isinstance(node.data, Mapping)
        else (node.data,)
    )
    is_value = any(isinstance(value, str) and tokenize(value) == question_words for value in values)
    return gain + 1.0 + len(question_words) / len(tokens) + is_value
