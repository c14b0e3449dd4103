"""Embeds with the model of a workspace's stored vectors, and embeds queries within a short time.

Decision: the model of a workspace is recorded with its first vectors; in an older database it is
the model that most vectors name. If the settings choose another model, searches and new vectors
still use the recorded model if it is a packaged one; otherwise only words are searched.
`embed-nodes --force` for the whole workspace renews all vectors with the model of the settings, and
records it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from datasources.base import MutableGraphDataSource, Record, RecordStore
from graphrag.embedding.embedder import (
    EmbeddingError,
    EmbeddingProvider,
    EmbeddingUnauthorized,
    EmbeddingUnreachable,
)
from graphrag.embedding.packaged import PACKAGED
from graphrag.stored_records import put_over
from graphrag.workers import end_tasks

log = logging.getLogger(__name__)

KIND, KEY = "embedding", "model"


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedderTimes:
    """Intervals of the embedder of a workspace. Units: seconds."""

    # Interval of reading the record: another process may have renewed the vectors.
    look_s: float = 30.0
    # Timeout of a query.
    wait_s: float = 2.0
    # Pause after a failure until the service is tried again.
    rest_s: float = 30.0


EMBEDDER_TIMES: Final = EmbedderTimes()


MAX_GRAPHS = 500  # graphs read to find the model if there is no record


class EmbeddingModelDiffers(EmbeddingError):
    """Raised when the workspace's vectors are of a model that is not available here."""

    def __init__(self, *, stored: str, chosen: str) -> None:
        self.stored = stored
        self.chosen = chosen
        self.says = (
            f"are of {stored}, the settings choose {chosen}: choose {stored}, or renew all with "
        )
        self.says += "`nodius embed-nodes --force`"
        super().__init__(provider="the vectors", reason="")


class UnnamedVectors(EmbeddingError):
    """Raised when the workspace has only vectors of another program that name no model.

    Storing the first vector of ours decides which vectors are searched, so a person must choose.
    `nodes`: number of these vectors; `numbers`: their lengths.
    """

    def __init__(self, *, nodes: int, numbers: str, chosen: str) -> None:
        self.nodes = nodes
        self.numbers = numbers
        self.chosen = chosen
        self.says = f"of {nodes:,} nodes name no model"
        super().__init__(provider="the vectors", reason="")


class WorkspaceEmbedder:
    """Implements EmbeddingProvider with the model of a workspace's vectors.

    `chosen` is the embedder of the settings. `model` is valid after `resolve` or `embed`.
    """

    def __init__(
        self, chosen: EmbeddingProvider, source: MutableGraphDataSource, records: RecordStore
    ) -> None:
        self.chosen = chosen
        self._source = source
        self._records = records
        self._current: EmbeddingProvider = chosen
        self._record: Record | None = None
        self._differs: EmbeddingModelDiffers | None = None
        self._unnamed: UnnamedVectors | None = None
        self._accepts_unnamed = False
        self._looked_at = float("-inf")
        self._counts: Counter[str] | None = None

    @property
    def model(self) -> str:
        return self._differs.stored if self._differs else self._current.model

    @property
    def is_usable(self) -> bool:
        """Whether the model of the stored vectors is available."""
        return self._differs is None and self._unnamed is None

    @property
    def unnamed(self) -> UnnamedVectors | None:
        """The reason why the first vectors must not be stored, as of the last `resolve`."""
        return self._unnamed

    def accept_unnamed(self) -> None:
        """Allows vectors beside those that name no model, after a person has decided so."""
        self._accepts_unnamed, self._unnamed = True, None

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Returns one vector for each text. Raises: EmbeddingError, EmbeddingModelDiffers."""
        await self.resolve()
        if refusal := self._differs or self._unnamed:
            raise refusal
        return await self._current.embed(texts)

    async def aclose(self) -> None:
        """Does nothing: the embedder of the settings is closed by its owner."""

    async def resolve(self) -> None:
        """Determines the model of the workspace's vectors.

        It is the recorded model if there are vectors of it, or else the model that most vectors
        name. Raises: SourceError.
        """
        if time.monotonic() - self._looked_at < EMBEDDER_TIMES.look_s:
            return
        self._record = await self._records.get(KIND, KEY)
        stored = str(self._record.data.get("model")) if self._record else None
        if stored != self.chosen.model:
            if self._counts is None or (stored is not None and stored not in self._counts):
                self._counts = await vector_models(self._source)
            if stored not in self._counts:
                stored = self._counts.most_common(1)[0][0] if self._counts else None
        self._unnamed = None if stored else await self._look_for_unnamed()
        self._looked_at = time.monotonic()
        before = self.model
        self._differs = None
        self._current = self.chosen
        if stored not in (None, self.chosen.model):
            if stored in PACKAGED:
                self._current = PACKAGED[stored]()
            else:
                self._differs = EmbeddingModelDiffers(stored=stored, chosen=self.chosen.model)
            if self.model != before:
                log.warning(
                    "embedding_model_kept", extra={"stored": stored, "chosen": self.chosen.model}
                )

    async def _look_for_unnamed(self) -> UnnamedVectors | None:
        foreign = self._source.abilities.foreign_vectors
        if self._accepts_unnamed or foreign is None:
            return None
        counts = await foreign.count_unmarked_vectors()
        if not counts:
            return None
        numbers = ", ".join(f"{length:,}" for length in sorted(counts))
        return UnnamedVectors(nodes=sum(counts.values()), numbers=numbers, chosen=self.chosen.model)

    async def claim(self) -> None:
        """Records the model before vectors of it are stored.

        Raises: EmbeddingModelDiffers if another process has recorded another model, UnnamedVectors.
        """
        if self._unnamed is not None:
            raise self._unnamed
        claimed = self.model
        if self._record is None or self._record.data.get("model") != claimed:
            await self._write(claimed)
        self._looked_at = float("-inf")
        await self.resolve()
        if self._differs is not None or self.model != claimed:
            raise self._differs or EmbeddingModelDiffers(stored=self.model, chosen=claimed)

    async def change(self) -> None:
        """Records the model of the settings. The caller must renew all vectors of the workspace."""
        await self.resolve()
        await self._write(self.chosen.model)
        self._differs = None
        self._current = self.chosen

    async def _write(self, model: str) -> None:
        version = self._record.version if self._record else None
        record = Record(kind=KIND, key=KEY, data={"model": model})
        self._record = await put_over(self._records, record, version) or await self._records.get(
            KIND, KEY
        )


async def vector_models(source: MutableGraphDataSource) -> Counter[str]:
    """Returns the number of nodes with a vector of each named model. Raises: SourceError."""
    counts: Counter[str] = Counter()
    for graph in (await source.list_graphs())[:MAX_GRAPHS]:
        counts.update((await source.get_stats(graph.key)).vectors)
    counts.pop("", None)
    return counts


class QueryEmbedder:
    """Implements EmbeddingProvider for queries, for which a person waits.

    Makes one attempt of at most `wait_s` seconds. After a failure of the service, further texts
    fail at once; after `rest_s` seconds the service is tried again in the background.
    """

    def __init__(
        self,
        inner: EmbeddingProvider,
        *,
        wait_s: float = EMBEDDER_TIMES.wait_s,
        rest_s: float = EMBEDDER_TIMES.rest_s,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._inner = inner
        self._wait_s = wait_s
        self._rest_s = rest_s
        self._clock = clock
        self._failure = ""
        self._rests_until = 0.0
        self._trial: asyncio.Task[None] | None = None

    @property
    def model(self) -> str:
        return self._inner.model

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Returns one vector for each text. Raises: EmbeddingError."""
        if self._failure and asyncio.current_task() is not self._trial:
            if self._clock() >= self._rests_until and (self._trial is None or self._trial.done()):
                self._trial = asyncio.create_task(self._try_again(texts))
            raise EmbeddingUnreachable(provider=self.model, reason=self._failure)
        try:
            async with asyncio.timeout(self._wait_s):
                vectors = await self._inner.embed(texts)
        except TimeoutError as exc:
            late = EmbeddingUnreachable(
                provider=self.model, reason=f"no answer within {self._wait_s:g} s"
            )
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
            await self.embed(texts)

    async def aclose(self) -> None:
        """Stops the background attempt. The inner embedder is closed by its owner."""
        await end_tasks(self._trial)

    def _remember(self, exc: EmbeddingError) -> None:
        self._failure = f"it failed lately ({exc})"
        self._rests_until = self._clock() + self._rest_s
