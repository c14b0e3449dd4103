"""An embedding provider that knows the vectors of its questions, so that their embedding
is not timed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from datasources.hits import Vector
from graphrag.config import load_settings
from graphrag.embedding import make_embedder
from graphrag.embedding.embedder import EmbeddingProvider


def local_embedder() -> EmbeddingProvider:
    """Return the packaged embedder, which needs no network."""
    embedder = make_embedder(load_settings(embeddings="local"))
    assert embedder is not None
    return embedder


class KnownVectors:
    """Gives the vectors of `known` texts; others, such as labels of edges, are embedded
    when they come.
    """

    def __init__(self, model: str, known: Mapping[str, Vector]) -> None:
        self.model = model
        self.vectors = dict(known)
        self._local = local_embedder()

    async def embed(self, texts: Sequence[str]) -> Vector:
        missing = [text for text in dict.fromkeys(texts) if text not in self.vectors]
        if missing:
            self.vectors.update(zip(missing, await self._local.embed(missing), strict=True))
        return np.stack([self.vectors[text] for text in texts])

    async def aclose(self) -> None:
        return None
