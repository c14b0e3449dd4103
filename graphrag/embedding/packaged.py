"""The embedders whose weights are part of packages, by setting and by model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from graphrag.embedding.embedder import EmbeddingProvider
from graphrag.embedding.local import MODEL, MULTILINGUAL_MODEL, LocalEmbedder, MultilingualEmbedder
from graphrag.embedding.minilm import MINILM_MODEL, MiniLmEmbedder

BY_SETTING: Final[Mapping[str, Callable[[], EmbeddingProvider]]] = {
    "local": LocalEmbedder,
    "minilm": MiniLmEmbedder,
    "multilingual": MultilingualEmbedder,
}
PACKAGED: Final[Mapping[str, Callable[[], EmbeddingProvider]]] = {
    MODEL: LocalEmbedder,
    MINILM_MODEL: MiniLmEmbedder,
    MULTILINGUAL_MODEL: MultilingualEmbedder,
}
"""By the name of the model, which is stored with its vectors."""
ENGLISH_MODELS: Final = frozenset((MODEL, MINILM_MODEL))
