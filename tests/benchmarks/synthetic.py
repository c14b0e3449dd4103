"""Makes large graphs with text and vectors that look like real ones, the same for the same seed.

Words are the whole words of the packaged tokenizer and follow Zipf's law; nodes come in topics, so
that vectors (the local embedder's, of the same text) cluster as those of real graphs do instead of
being noise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from datasources.types import (
    Edge,
    Graph,
    HandleGroup,
    HandlePoint,
    Node,
    NodeTypeConfig,
    TypeTemplate,
)
from graphrag.embedding.local import packaged_tokenizer

WORKSPACE = "bench"
TOPIC_SHARE = 0.7
WORD_MARK = "\u2581"
"""What the tokenizer writes before a piece that begins a word."""

EDGES_PER_NODE = 3
HANDLES = {
    "L": HandleGroup(point=(HandlePoint(id="0", type="in"),)),
    "R": HandleGroup(point=(HandlePoint(id="0", type="out"),)),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """Words in order of frequency and, for each topic, the words it prefers."""

    words: list[str]
    topics: np.ndarray
    frequency: np.ndarray

    @staticmethod
    def make(seed: int, *, topics: int = 1_000) -> Vocabulary:
        random = np.random.default_rng(seed)
        pieces = packaged_tokenizer().get_vocab()
        words = sorted(
            piece[1:].lower()
            for piece in pieces
            if piece.startswith(WORD_MARK)
            and len(piece) > 3
            and piece[1:].isascii()
            and piece[1:].isalpha()
        )
        chosen = list(dict.fromkeys(words))
        random.shuffle(chosen)
        frequency = 1.0 / np.arange(1, len(chosen) + 1) ** 1.05
        preferred = random.integers(50, len(chosen), size=(topics, 40))
        return Vocabulary(
            words=chosen, topics=preferred, frequency=np.cumsum(frequency / frequency.sum())
        )

    def text(self, random: np.random.Generator, topic: int, length: int) -> str:
        """Return words, most of the topic and the rest of the language."""
        common = np.searchsorted(self.frequency, random.random(length))
        own = self.topics[topic][random.integers(0, self.topics.shape[1], size=length)]
        picked = np.where(
            random.random(length) < TOPIC_SHARE, own, np.minimum(common, len(self.words) - 1)
        )
        return " ".join(self.words[i] for i in picked)


def type_configs() -> list[NodeTypeConfig]:
    names = ("Fetch", "Filter", "Merge", "Store", "Notify")
    return [
        NodeTypeConfig(
            key=name.lower(),
            workspace=WORKSPACE,
            display_name=name,
            node=TypeTemplate(type=name.lower(), handles=HANDLES),
        )
        for name in names
    ]


def graph(key: str) -> Graph:
    return Graph(key=key, name=key, workspace=WORKSPACE)


def nodes(key: str, count: int, vocabulary: Vocabulary, seed: int) -> Iterator[Node]:
    """Yield nodes of about 30 words; neighbours in number share a topic."""
    random = np.random.default_rng(seed)
    types = [config.type for config in type_configs()]
    for i in range(count):
        topic = (i // 25) % len(vocabulary.topics)
        yield Node(
            key=f"n{i:07d}",
            graph_key=key,
            type=types[i % len(types)],
            pos_x=(i % 1000) * 240,
            pos_y=(i // 1000) * 160,
            handles=HANDLES,
            data={
                "name": vocabulary.text(random, topic, 4),
                "notes": vocabulary.text(random, topic, 24),
            },
        )


def edges(key: str, count: int, seed: int) -> Iterator[Edge]:
    """Yield three edges a node, most of them to near nodes, some far."""
    random = np.random.default_rng(seed + 1)
    near = random.integers(1, 20, size=(count, EDGES_PER_NODE))
    far = random.integers(0, count, size=(count, EDGES_PER_NODE))
    is_far = random.random((count, EDGES_PER_NODE)) < 0.1
    for i in range(count):
        for j in range(EDGES_PER_NODE):
            target = int(far[i, j]) if is_far[i, j] else (i + int(near[i, j])) % count
            yield Edge(
                key=f"e{i:07d}-{j}",
                graph_key=key,
                source=f"n{i:07d}",
                source_handle="0",
                target=f"n{target:07d}",
                target_handle="0",
            )


def questions(vocabulary: Vocabulary, count: int, seed: int) -> list[str]:
    """Return questions of 6 to 12 words, each about one topic."""
    random = np.random.default_rng(seed + 2)
    topics = len(vocabulary.topics)
    return [
        vocabulary.text(random, int(random.integers(topics)), int(random.integers(6, 13)))
        for _ in range(count)
    ]
