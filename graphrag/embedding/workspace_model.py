"""Keeps the vectors of a workspace of one model, whatever the settings choose.

Decision: the model of a workspace is recorded with its first vectors; of an older database it is the one
that most vectors name. Where the settings choose another, searches and new vectors go on with the recorded
model if this program has it (a packaged one), and words alone are searched if not; `embed-nodes --force`
of the whole workspace renews all vectors with the model of the settings, and records that.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from datasources.base import MutableGraphDataSource, Record, RecordStore
from datasources.errors import RecordConflict
from graphrag.embedding.base import EmbeddingError, EmbeddingProvider
from graphrag.embedding.packaged import PACKAGED

log = logging.getLogger(__name__)

KIND, KEY = "embedding", "model"
LOOK_S = 30.0
"""So often the record is read again, for another process may have renewed the vectors."""

MAX_GRAPHS = 500
"""Graphs of a database without a record that are looked at."""


class EmbeddingModelDiffers(EmbeddingError):
    """The workspace's vectors are of a model that this program cannot ask."""

    def __init__(self, *, stored: str, chosen: str) -> None:
        self.stored, self.chosen = stored, chosen
        super().__init__(
            f"the vectors are of {stored}, the settings choose {chosen}: choose {stored}, or renew all with "
            "`nodius embed-nodes --force`"
        )


class WorkspaceEmbedder:
    """Implements EmbeddingProvider with the model of a workspace's vectors.

    `chosen` is the settings' embedder. `model` is right after `resolve` or `embed`.
    """

    def __init__(
        self,
        chosen: EmbeddingProvider,
        source: MutableGraphDataSource,
        records: RecordStore,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.chosen = chosen
        self._source, self._records, self._clock = source, records, clock
        self._current: EmbeddingProvider = chosen
        self._record: Record | None = None
        self._differs: EmbeddingModelDiffers | None = None
        self._looked_at = float("-inf")
        self._counts: Counter[str] | None = None

    @property
    def model(self) -> str:
        return self._differs.stored if self._differs else self._current.model

    @property
    def is_usable(self) -> bool:
        """Whether this program can ask the model of the stored vectors."""
        return self._differs is None

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one vector a text. Raises: EmbeddingError, EmbeddingModelDiffers."""
        await self.resolve()
        if self._differs is not None:
            raise self._differs
        return await self._current.embed(texts)

    async def aclose(self) -> None:
        """Nothing is held open: the settings' embedder is closed by its owner."""

    async def resolve(self) -> None:
        """Find out which model the workspace's vectors are of. Raises: SourceError."""
        if self._clock() - self._looked_at < LOOK_S:
            return
        stored = await self._stored()
        self._looked_at = self._clock()
        before, self._differs, self._current = self.model, None, self.chosen
        if stored not in (None, self.chosen.model):
            if stored in PACKAGED:
                self._current = PACKAGED[stored]()
            else:
                self._differs = EmbeddingModelDiffers(stored=stored, chosen=self.chosen.model)
            if self.model != before:
                log.warning("embedding_model_kept", extra={"stored": stored, "chosen": self.chosen.model})

    async def claim(self) -> None:
        """Record the model before vectors of it are stored.

        Raises: EmbeddingModelDiffers where another process recorded another meanwhile.
        """
        claimed = self.model
        if self._record is None or self._record.data.get("model") != claimed:
            await self._write(claimed)
        self._looked_at = float("-inf")
        await self.resolve()
        if self._differs is not None or self.model != claimed:
            raise self._differs or EmbeddingModelDiffers(stored=self.model, chosen=claimed)

    async def change(self) -> None:
        """Record the settings' model: the caller renews every vector of the workspace."""
        await self.resolve()
        await self._write(self.chosen.model)
        self._differs, self._current = None, self.chosen

    async def _write(self, model: str) -> None:
        version = self._record.version if self._record else None
        try:
            record = Record(kind=KIND, key=KEY, data={"model": model})
            self._record = await self._records.put(record, expected_version=version)
        except RecordConflict:
            self._record = await self._records.get(KIND, KEY)

    async def _stored(self) -> str | None:
        """Return the recorded model, or the one that most stored vectors name; None: there are none.

        A record counts while vectors of its model are stored.
        """
        self._record = await self._records.get(KIND, KEY)
        recorded = str(self._record.data.get("model")) if self._record else None
        if recorded == self.chosen.model:
            return recorded
        if self._counts is None or (recorded is not None and recorded not in self._counts):
            self._counts = await vector_models(self._source)
        if recorded in self._counts:
            return recorded
        return self._counts.most_common(1)[0][0] if self._counts else None


async def vector_models(source: MutableGraphDataSource) -> Counter[str]:
    """Return how many nodes have a vector of each named model. Raises: SourceError."""
    counts: Counter[str] = Counter()
    for graph in (await source.list_graphs())[:MAX_GRAPHS]:
        counts.update((await source.get_stats(graph.key)).vectors)
    counts.pop("", None)
    return counts
