"""Embeds questions: waits a short while, and does without a service that failed lately."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from graphrag.embedding.base import (
    EmbeddingError,
    EmbeddingProvider,
    EmbeddingUnauthorized,
    EmbeddingUnreachable,
)

WAIT_S = 2.0
REST_S = 30.0


class QueryEmbedder:
    """Implements EmbeddingProvider for texts that a person waits for.

    One attempt of at most `wait_s`. A failure of the service is remembered: further texts fail at once,
    and after `rest_s` the service is tried again beside the question, until it answers.
    """

    def __init__(
        self,
        inner: EmbeddingProvider,
        *,
        wait_s: float = WAIT_S,
        rest_s: float = REST_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._inner, self._wait_s, self._rest_s, self._clock = inner, wait_s, rest_s, clock
        self._failure = ""
        self._rests_until = 0.0
        self._trial: asyncio.Task[None] | None = None

    @property
    def model(self) -> str:
        return self._inner.model

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one vector a text. Raises: EmbeddingError."""
        if not self._failure:
            return await self._attempt(texts)
        if self._clock() >= self._rests_until and (self._trial is None or self._trial.done()):
            self._trial = asyncio.create_task(self._try_again(texts))
        raise EmbeddingUnreachable(provider=self.model, reason=self._failure)

    async def aclose(self) -> None:
        """Stop what is tried beside questions; the embedder inside is closed by its owner."""
        if self._trial is not None:
            self._trial.cancel()
            with suppress(asyncio.CancelledError):
                await self._trial

    async def _attempt(self, texts: Sequence[str]) -> NDArray[np.float32]:
        try:
            async with asyncio.timeout(self._wait_s):
                vectors = await self._inner.embed(texts)
        except TimeoutError as exc:
            late = EmbeddingUnreachable(provider=self.model, reason=f"no answer within {self._wait_s:g} s")
            self._remember(late)
            raise late from exc
        except EmbeddingError as exc:
            if exc.retryable or isinstance(exc, EmbeddingUnauthorized):
                self._remember(exc)
            raise
        self._failure = ""
        return vectors

    async def _try_again(self, texts: Sequence[str]) -> None:
        with suppress(EmbeddingError):
            await self._attempt(texts)

    def _remember(self, exc: EmbeddingError) -> None:
        self._failure = f"it failed lately ({exc})"
        self._rests_until = self._clock() + self._rest_s
