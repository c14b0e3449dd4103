"""Embeds through any server that speaks OpenAI's embeddings API."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator, Sequence

import numpy as np
import openai
from numpy.typing import NDArray

from graphrag.embeddings import (
    EmbeddingError,
    EmbeddingMalformed,
    EmbeddingRefused,
    EmbeddingUnauthorized,
    EmbeddingUnreachable,
)
from graphrag.tokens import count_tokens

MAX_TEXTS = 512
MAX_TOKENS_A_TEXT = 8_000
"""Just under the 8,192 tokens that OpenAI's models take of one input."""

MAX_TOKENS_A_REQUEST = 250_000
TIMEOUT_S = 60.0
ATTEMPTS = 5
MAX_WAIT_S = 30.0


class OpenAICompatibleEmbedder:
    """One HTTP request for each batch, bounded by texts and by tokens.

    Attempts are repeated with growing, jittered pauses on 429, 5xx and lost connections; a
    server's `retry-after` is honoured up to 30 s.
    """

    def __init__(
        self,
        *,
        model: str,
        base_url: str | None = None,
        api_key: str | None = None,
        first_wait_s: float = 0.5,
    ) -> None:
        self._model = model
        self._first_wait_s = first_wait_s
        self._dim: int | None = None
        # A local server needs no key, but the client insists on one.
        self._client = openai.AsyncOpenAI(
            api_key=api_key or "no-key", base_url=base_url, timeout=TIMEOUT_S, max_retries=0
        )

    @property
    def model(self) -> str:
        return self._model

    @property
    def dim(self) -> int | None:
        return self._dim

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        rows = [i for i, text in enumerate(texts) if text.strip()]
        made: list[tuple[list[int], NDArray[np.float32]]] = []
        for batch in _batches(rows, texts):
            made.append((batch, await self._request([_bounded(texts[i]) for i in batch])))
        vectors = np.zeros((len(texts), self._dim or 0), dtype=np.float32)
        for batch, found in made:
            vectors[batch] = found
        return vectors

    async def aclose(self) -> None:
        await self._client.close()

    async def _request(self, texts: list[str]) -> NDArray[np.float32]:
        wait_s = self._first_wait_s
        for attempt in range(1, ATTEMPTS + 1):
            try:
                answer = await self._client.embeddings.create(
                    model=self._model, input=texts, encoding_format="float"
                )
            except openai.OpenAIError as exc:
                error, retry_after_s = self._translate(exc)
                if not _retryable(error) or attempt == ATTEMPTS:
                    raise error from exc
                await asyncio.sleep(min(retry_after_s or wait_s * (1 + random.random()), MAX_WAIT_S))  # noqa: S311
                wait_s *= 2
            else:
                return self._checked([(item.index, item.embedding) for item in answer.data], len(texts))
        raise AssertionError("unreachable")

    def _translate(self, exc: openai.OpenAIError) -> tuple[EmbeddingError, float | None]:
        name = f"{self._model} at {self._client.base_url.host}"
        if isinstance(exc, openai.AuthenticationError | openai.PermissionDeniedError):
            return EmbeddingUnauthorized(provider=name, variable="OPENAI_API_KEY"), None
        if isinstance(exc, openai.APIStatusError):
            retryable = exc.status_code in (408, 409, 429) or exc.status_code >= 500
            refused = EmbeddingRefused(
                provider=name, status=exc.status_code, reason=exc.message[:300], retryable=retryable
            )
            return refused, _seconds(exc.response.headers.get("retry-after"))
        if isinstance(exc, openai.APIConnectionError):
            return EmbeddingUnreachable(provider=name, reason=str(exc.__cause__ or exc)), None
        return EmbeddingMalformed(provider=name, reason=str(exc)[:300]), None

    def _checked(self, items: list[tuple[int, list[float]]], count: int) -> NDArray[np.float32]:
        def bad(reason: str) -> EmbeddingMalformed:
            return EmbeddingMalformed(provider=self._model, reason=reason)

        if sorted(index for index, _ in items) != list(range(count)):
            raise bad(f"{len(items)} vectors with other indexes than 0 to {count - 1}")
        lengths = {len(vector) for _, vector in items}
        if len(lengths) != 1 or lengths == {0}:
            raise bad(f"vectors of lengths {sorted(lengths)} in one answer")
        if self._dim is not None and lengths != {self._dim}:
            raise bad(f"vectors of length {lengths.pop()} where it sent {self._dim} before")
        vectors = np.array([vector for _, vector in sorted(items)], dtype=np.float32)
        if not np.isfinite(vectors).all():
            raise bad("a vector that is not finite")
        self._dim = vectors.shape[1]
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors / np.where(norms > 0, norms, 1)


def _retryable(error: EmbeddingError) -> bool:
    return isinstance(error, EmbeddingUnreachable) or (
        isinstance(error, EmbeddingRefused) and error.retryable
    )


def _seconds(header: str | None) -> float | None:
    try:
        return max(0.0, float(header)) if header is not None else None
    except ValueError:
        return None  # an HTTP date: the growing pause serves as well


def _bounded(text: str) -> str:
    """Cut a text that is too long for the model; a character is never less than a quarter token."""
    while len(text) > MAX_TOKENS_A_TEXT and (tokens := count_tokens(text)) > MAX_TOKENS_A_TEXT:
        text = text[: int(len(text) * 0.95 * MAX_TOKENS_A_TEXT / tokens)]
    return text


def _batches(rows: Sequence[int], texts: Sequence[str]) -> Iterator[list[int]]:
    batch: list[int] = []
    tokens = 0
    for row in rows:
        size = min(len(texts[row]), MAX_TOKENS_A_TEXT)  # a token holds at least one character
        if batch and (len(batch) == MAX_TEXTS or tokens + size > MAX_TOKENS_A_REQUEST):
            yield batch
            batch, tokens = [], 0
        batch.append(row)
        tokens += size
    if batch:
        yield batch
