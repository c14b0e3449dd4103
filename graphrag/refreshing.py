"""Brings the vectors of what an approved change touched up to date, and forgets what was retrieved before.

The change stands whatever comes of this: what fails is left to `embed-nodes`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from datasources.base import MutableGraphDataSource
from datasources.errors import SourceError
from graphrag.approvals import Approval
from graphrag.embed_nodes import embed_nodes, embed_some
from graphrag.embeddings import EmbeddingError, EmbeddingProvider

log = logging.getLogger(__name__)

AT_MOST_S = 10.0
"""So long a decision waits for an embedding service."""


class Refresher:
    """Hears of applied approvals of one workspace. `forget` drops what is cached of a graph."""

    def __init__(
        self,
        source: MutableGraphDataSource,
        embedder: EmbeddingProvider | None,
        *,
        forget: Callable[[str], object] = lambda _: None,
        at_most_s: float = AT_MOST_S,
    ) -> None:
        self._source, self._embedder, self._forget, self._at_most_s = source, embedder, forget, at_most_s

    async def applied(self, approval: Approval) -> None:
        """Embed again what an approval changed. Raises nothing."""
        keys = approval.result.keys if approval.result else {}
        nodes = [*keys.get("nodesCreated", []), *keys.get("nodesChanged", [])]
        types = any(keys.get(f"types{done}") for done in ("Created", "Changed", "Deleted"))
        if self._embedder is None or not (nodes or types):
            return
        graph_key = approval.graph_key
        try:
            async with asyncio.timeout(self._at_most_s):
                if types:  # what a node says is in part its type's
                    await embed_nodes(self._source, self._embedder, graph_keys=[graph_key])
                else:
                    await embed_some(self._source, self._embedder, graph_key, nodes)
        except (SourceError, EmbeddingError, TimeoutError) as exc:
            log.warning("not_embedded", extra={"nodes": len(nodes), "error": type(exc).__name__})
        finally:
            self._forget(graph_key)
