"""Embeds what a save stored, in the background: batched, tried again, never in anybody's way."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress

from datasources.base import MutableGraphDataSource
from datasources.errors import GraphNotFound
from graphrag.embed_nodes import embed_some
from graphrag.embeddings import EmbeddingProvider
from graphrag.live.options import LiveOptions

log = logging.getLogger(__name__)


class Embedder:
    """Keeps the vectors of one workspace's saved nodes up to date. Only changed content is embedded."""

    def __init__(
        self, source: MutableGraphDataSource, provider: EmbeddingProvider, options: LiveOptions
    ) -> None:
        self._source, self._provider, self._options = source, provider, options
        self._pending: dict[str, dict[str, None]] = {}
        self._task: asyncio.Task[None] | None = None
        self._in_hand = 0
        self.failures = 0

    @property
    def pending(self) -> int:
        """How many nodes wait."""
        return self._in_hand + sum(map(len, self._pending.values()))

    def add(self, graph_key: str, keys: Sequence[str]) -> None:
        """Look at these nodes soon."""
        if not keys:
            return
        self._pending.setdefault(graph_key, {}).update(dict.fromkeys(keys))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work_off())

    async def drained(self) -> None:
        """Wait until nothing waits, however often it must be tried."""
        while self._task is not None and not self._task.done():
            await asyncio.wait([self._task])

    async def aclose(self) -> None:
        """Stop. What still waits is found by `embed-nodes`, which looks at every node."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _work_off(self) -> None:
        while self._pending:
            graph_key, keys = next(iter(self._pending.items()))
            batch = list(keys)[: self._options.embed_batch]
            for key in batch:
                del keys[key]
            if not keys:
                del self._pending[graph_key]
            self._in_hand = len(batch)
            try:
                report = await embed_some(self._source, self._provider, graph_key, batch)
            except GraphNotFound:
                continue
            except Exception as exc:  # noqa: BLE001 - a provider's own failures too are tried again
                self._pending.setdefault(graph_key, {}).update(dict.fromkeys(batch))
                self._in_hand = 0
                self.failures += 1
                log.warning(
                    "embedding_failed", extra={"error": type(exc).__name__, "failures": self.failures}
                )
                await asyncio.sleep(self._wait_ms() / 1000)
                continue
            finally:
                self._in_hand = 0
            self.failures = 0
            log.info(
                "embedded",
                extra={"nodes": report.embedded, "skipped": report.skipped, "failed": report.failed},
            )

    def _wait_ms(self) -> int:
        doubled = self._options.embed_retry_ms * 2 ** min(self.failures - 1, 20)
        return min(self._options.embed_longest_ms, doubled)
