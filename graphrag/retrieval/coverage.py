"""Lifts nodes that hold all words of a question: somebody asks for a text by the text itself.

BM25 does not ask whether a node has all words, and words are one of four searches: a package that
is asked for by its own description would stand behind those whose names have two words of it. So
the texts of the best hits of words, which are few, are compared with the question.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from datasources.hits import Hit
from datasources.text import flatten, tokenize
from datasources.types import Node, ScoredNode

NEAR_BEST, MOST = 0.75, 8
"""Hits of words are compared that have this share of the best score, so many at most."""

LEAST_WORDS = 3
"""A shorter question is held by too many nodes."""

LEAST_SHARE, SHARPNESS = 0.8, 8.0
"""What a node needs to hold of the question, and to what its share is raised: nine
tenths gain .43.
"""


def compared(hits: Sequence[Hit]) -> list[str]:
    """Return the nodes whose texts are compared with a question; `hits` of its words
    are best first.
    """
    return [hit.key for hit in hits[:MOST] if hit.score >= NEAR_BEST * hits[0].score]


def lift(
    nodes: Sequence[ScoredNode], question: str, words: str, keys: Collection[str]
) -> list[ScoredNode]:
    """Return nodes best first, those of `keys` that hold the question's `words` above
    what they were.

    Scores count from 0 to 1, before and after. All words are worth 1, the question as it is 1 more
    and the share of the text that it is, and 1 more where a value is nothing else: of two that
    quote it, the shorter.
    """
    sought = frozenset(tokenize(words))
    if len(sought) < LEAST_WORDS:
        return list(nodes)
    parts = [stem.removesuffix("i") for stem in sought]
    likely = [
        n.node for n in nodes if n.node.key in keys and _may_hold(_text(n.node).lower(), parts)
    ]
    said = tokenize(question) if likely else []
    held = {node.key: gain for node in likely if (gain := _gain(node, said, sought))}
    if not held:
        return list(nodes)
    scores = {n.node.key: n.score + held.get(n.node.key, 0.0) for n in nodes}
    best = max(scores.values())
    lifted = [replace(n, score=scores[n.node.key] / best) for n in nodes]
    return sorted(lifted, key=lambda n: -n.score)


def _text(node: Node) -> str:
    return f"{node.key} {flatten(node.data)}"


def _may_hold(text: str, parts: Sequence[str]) -> bool:
    """Return whether a text has enough of these parts of words: known sooner than its words are."""
    left = len(parts)
    least = LEAST_SHARE * len(parts)
    for part in parts:
        left -= part not in text
        if left < least:
            return False
    return True


def _gain(node: Node, said: list[str], sought: frozenset[str]) -> float:
    tokens = tokenize(_text(node))
    held = len(sought.intersection(tokens))
    gain = (held / len(sought)) ** SHARPNESS if held >= LEAST_SHARE * len(sought) else 0.0
    if f" {' '.join(said)} " not in f" {' '.join(tokens)} ":
        return gain
    values = (
        cast(Mapping[str, Any], node.data).values()
        if isinstance(node.data, Mapping)
        else (node.data,)
    )
    is_value = any(isinstance(value, str) and tokenize(value) == said for value in values)
    return gain + 1.0 + len(said) / len(tokens) + is_value
