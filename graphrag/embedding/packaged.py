"""The embedders that need no service: their weights ship in packages, and texts stay in this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from graphrag.embedding import local, multilingual
from graphrag.embedding.base import EmbeddingProvider

PACKAGED: Final[Mapping[str, Callable[[], EmbeddingProvider]]] = {
    local.MODEL: local.LocalEmbedder,
    multilingual.MODEL: multilingual.MultilingualEmbedder,
}
"""By the name of the model, which is stored with its vectors."""
