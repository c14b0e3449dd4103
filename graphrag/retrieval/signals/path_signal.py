"""Signal: the ends of typed paths described by a question.

Reads the labels of the edges near the hits, then the edges with labels that match the question.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from datasources.hits import Vector
from datasources.links import LinkWalk, TypedLink
from graphrag.embedding.embedder import EmbeddingError, EmbeddingProvider
from graphrag.retrieval.asked_words import AskedWords, label_text, strengths
from graphrag.retrieval.hit_edges import HitEdges
from graphrag.retrieval.typed_paths import path_scores, possible_steps

FEW_LABELS = 20
MAX_LINKS = 5_000
MAX_DEGREE = 200  # paths do not pass nodes with more edges
MAX_VECTORS = 20_000


class LabelVectors:
    """Vectors of labels and single words, cached: they are few, and every question needs some."""

    def __init__(self, embedder: EmbeddingProvider | None) -> None:
        self._embedder = embedder
        self._known: dict[str, Vector] = {}
        self._model = ""

    async def of(self, texts: Iterable[str]) -> Mapping[str, Vector]:
        """Returns the vectors of texts. If the embedder fails, only those that are cached."""
        if self._embedder is None:
            return {}
        if self._model != self._embedder.model or len(self._known) > MAX_VECTORS:
            self._known = {}
            self._model = self._embedder.model
        cached = self._known
        missing = [text for text in dict.fromkeys(texts) if text and text not in cached]
        if missing:
            try:
                vectors = await self._embedder.embed(missing)
            except EmbeddingError:
                return cached
            cached.update(zip(missing, vectors, strict=True))
        return cached


async def find_paths(
    edges: HitEdges,
    asked: AskedWords,
    near: Sequence[str],
    vectors: LabelVectors | None,
) -> dict[str, float]:
    """Returns the ends of typed paths that match the question, with scores from 0 to 1, best first.

    `near` are the nodes whose edges are read to learn the labels.
    """
    if not asked.named:
        return {}
    starts = list(chain.from_iterable(named.keys for named in asked.named))
    first = LinkWalk(
        keys=list(dict.fromkeys((*starts, *near))), limit=MAX_LINKS, max_degree=MAX_DEGREE
    )
    around = await edges.typed(first)
    labels = {link.label for link in around}
    texts = chain((word.text for word in asked.words), map(label_text, labels))
    word_vectors: Mapping[str, Vector] = (
        await vectors.of(texts) if vectors and is_schema(around) else {}
    )
    matches = strengths(asked, labels, word_vectors)
    steps = possible_steps(asked, matches) if matches else 0
    if not steps:
        return {}
    asked_labels = sorted({relation.label for relation in matches})
    walk = replace(first, keys=starts, labels=asked_labels, steps=steps)
    links = await edges.typed(walk)
    return path_scores(
        asked, matches, links, len({*near, *chain.from_iterable(link[:2] for link in links)})
    )


def is_schema(links: Sequence[TypedLink]) -> bool:
    """Returns True if the labels are relations: few, and on most edges."""
    labelled = [link.label for link in links if link.label]
    few = max(FEW_LABELS, math.sqrt(len(labelled)))
    return 2 * len(labelled) > len(links) and len(set(labelled)) <= few
