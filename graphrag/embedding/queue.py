"""Embeds changed nodes in the background: one queue for a process, batch by batch, in turns.

Workspaces take turns, and so do the graphs of a workspace: a graph that fails or is huge delays
another one by a single batch. The queue lives in memory. What still waits when the process ends,
and what failed too often, is found by `nodius embed-nodes`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self

from datasources.base import MutableGraphDataSource
from datasources.errors import DatabaseBusy, GraphNotFound, SourceTimeout, SourceUnavailable
from graphrag.approvals import Approval
from graphrag.embedding.embedder import EmbeddingError, EmbeddingProvider
from graphrag.embedding.refresh import EmbedReport, embed_some, is_of_another_model
from graphrag.embedding.workspace_embedder import WorkspaceEmbedder
from graphrag.llm.usage_meter import UsageLimitReached
from graphrag.workers import end_tasks

log = logging.getLogger(__name__)

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueOptions:
    """Units: seconds. `batch` nodes are embedded at once.

    A graph of which more than `max_keys` nodes wait is looked at whole; more than `max_graphs` do
    not wait. A failing graph waits `retry_s`, then twice as long each time up to `longest_s`. After
    `attempts` in a row the nodes that fail by themselves are given up. `batch_s` and `probe_s`
    bound a request and the question whether the service answers at all; `close_s` is what closing
    waits for the rest.
    """

    batch: int = 100
    max_keys: int = 2_000
    max_graphs: int = 10_000
    attempts: int = 4
    retry_s: float = 1.0
    longest_s: float = 300.0
    batch_s: float = 120.0
    probe_s: float = 10.0
    close_s: float = 3.0


DEFAULT_OPTIONS = QueueOptions()


@dataclass(slots=True)
class _WaitingGraph:
    """What waits of one graph. `keys` are nodes; `taken` are being embedded.

    `whole` is set while the graph's nodes are gone through, `after` the last one looked at and
    `unseen` how many follow it; `again` asks for another pass.
    """

    keys: dict[str, None] = field(default_factory=dict[str, None])
    taken: int = 0
    whole: bool = False
    again: bool = False
    after: str | None = None
    unseen: int = 0
    failures: int = 0
    due: float = 0.0
    is_checked: bool = False

    @property
    def pending(self) -> int:
        return len(self.keys) + self.taken + (max(self.unseen, 1) if self.whole else 0)


class EmbeddingQueue:
    """Use it as `async with`; `sources` gives the stored graphs of a workspace. Without an embedder
    nothing waits; a graph whose vectors are of another model is left to `embed-nodes --force`.

    `on_batch` is called with the report of each batch; it may not raise. `embedder_of` returns the
    embedder for a workspace, if it is not the same for all.
    """

    def __init__(
        self,
        sources: Callable[[str], MutableGraphDataSource],
        embedder: EmbeddingProvider | None,
        *,
        options: QueueOptions = DEFAULT_OPTIONS,
        clock: Clock = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        on_batch: Callable[[EmbedReport], None] | None = None,
        embedder_of: Callable[[str], EmbeddingProvider | None] | None = None,
    ) -> None:
        self.sources = sources
        self._embedder = embedder
        self._options = options
        self._clock = clock
        self._sleep = sleep
        self._on_batch = on_batch
        self.embedder_of: Callable[[str], EmbeddingProvider | None] = embedder_of or (
            lambda _: embedder
        )
        self._waiting: dict[str, dict[str, _WaitingGraph]] = {}
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._failing = 0
        self.given_up = 0
        """Nodes (for an unreadable graph: one) that failed too often, since the start."""

    def of(self, workspace: str) -> WorkspaceQueue:
        return WorkspaceQueue(self, workspace)

    def add(self, workspace: str, graph_key: str, node_keys: Sequence[str] | None) -> None:
        """Embed these nodes soon, None: all of the graph, as far as their vectors are
        missing or old.

        Raises nothing and waits for nothing.
        """
        if self._embedder is None or (node_keys is not None and not node_keys):
            return
        graphs = self._waiting.get(workspace, {})
        graph = graphs.get(graph_key)
        if graph is None:
            if sum(map(len, self._waiting.values())) >= self._options.max_graphs:
                self._give_up(1, reason="too many graphs wait")
                return
            graph = _WaitingGraph()
            self._waiting.setdefault(workspace, graphs)[graph_key] = graph
        if node_keys is not None and len(graph.keys) + len(node_keys) <= self._options.max_keys:
            graph.keys.update(dict.fromkeys(node_keys))
        elif graph.whole:
            graph.again = True
        else:
            graph.whole, graph.after = True, None
        self._wake.set()

    def pending(self, workspace: str | None = None, graph_key: str | None = None) -> int:
        """Return how many nodes wait: of the process, of a workspace, or of a graph of it."""
        rooms = self._waiting.values() if workspace is None else [self._waiting.get(workspace, {})]
        return sum(
            graph.pending
            for graphs in rooms
            for key, graph in list(graphs.items())
            if graph_key is None or key == graph_key
        )

    async def __aenter__(self) -> Self:
        if self._embedder is not None:
            self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, _: object, exc: BaseException | None, *_traceback: object) -> None:
        task = self._task
        self._task = None
        if task is None:
            return
        closing = asyncio.get_running_loop().time() + self._options.close_s
        while exc is None and self._waiting and not self._failing and not task.done():
            left_s = closing - asyncio.get_running_loop().time()
            if left_s <= 0:
                break
            await asyncio.wait([task], timeout=min(left_s, 0.02))
        await end_tasks(task)
        if self._waiting:
            log.warning("embedding_left", extra={"nodes": self.pending()})

    # The worker

    async def _run(self) -> None:
        while True:
            found = self._next()
            if found is None:
                self._wake.clear()
                dues = [graph.due for graphs in self._waiting.values() for graph in graphs.values()]
                with suppress(TimeoutError):
                    async with asyncio.timeout(
                        max(0.0, min(dues) - self._clock()) if dues else None
                    ):
                        await self._wake.wait()
                continue
            workspace, graph_key, graph = found
            try:
                await self._batch(workspace, graph_key, graph)
            except GraphNotFound:
                self._drop(workspace, graph_key, graph)
            except Exception as exc:  # noqa: BLE001 - whatever it is, the other graphs go on
                await self._failed(graph, exc)
            else:
                self._failing = graph.failures = 0
            if not graph.keys and not graph.whole:
                self._drop(workspace, graph_key, graph)

    def _next(self) -> tuple[str, str, _WaitingGraph] | None:
        """Return the graph whose turn it is, and put it and its workspace last."""
        now = self._clock()
        for workspace in list(self._waiting):
            graphs = self._waiting[workspace]
            for key, graph in graphs.items():
                if graph.due <= now:
                    graphs[key] = graphs.pop(key)
                    self._waiting[workspace] = self._waiting.pop(workspace)
                    return workspace, key, graph
        return None

    async def _batch(self, workspace: str, graph_key: str, graph: _WaitingGraph) -> None:
        """Embed one batch of a graph. Raises: EmbeddingError, SourceError; then
        nothing is forgotten.
        """
        source = self.sources(workspace)
        embedder = self.embedder_of(workspace)
        assert embedder is not None
        if not graph.is_checked:
            is_usable = True
            if isinstance(embedder, WorkspaceEmbedder):
                await embedder.resolve()
                is_usable = embedder.is_usable
            if not is_usable or is_of_another_model(
                await source.get_stats(graph_key), embedder.model
            ):
                log.info(
                    "embedding_left", extra={"nodes": graph.pending, "reason": "another model"}
                )
                graph.keys = {}
                graph.whole = False
                graph.again = False
                return
            graph.is_checked = True
        if not graph.keys:
            await self._read_on(source, graph_key, graph)
        taken = list(graph.keys)[: self._options.batch]
        for key in taken:
            del graph.keys[key]
        graph.taken = len(taken)
        answers = self._answers if graph.failures + 1 >= self._options.attempts else None
        try:
            report = await embed_some(
                source, embedder, graph_key, taken, request_s=self._options.batch_s, answers=answers
            )
        except BaseException:
            graph.keys = dict.fromkeys((*taken, *graph.keys))
            raise
        finally:
            graph.taken = 0
        if report.failed:
            self._give_up(report.failed, reason=report.failures[0].partition(": ")[2])
        if self._on_batch is not None:
            self._on_batch(report)
        if report.embedded:
            log.info("embedded", extra={"nodes": report.embedded, "skipped": report.skipped})

    async def _read_on(
        self, source: MutableGraphDataSource, graph_key: str, graph: _WaitingGraph
    ) -> None:
        """Fetch the keys of the next nodes of a graph that is gone through whole."""
        if graph.after is None:
            graph.unseen = (await source.get_stats(graph_key)).nodes
        nodes = await source.get_nodes(graph_key, after=graph.after, limit=self._options.batch)
        keys = [node.key for node in nodes]
        if keys:
            graph.after, graph.unseen = keys[-1], max(0, graph.unseen - len(keys))
            graph.keys.update(dict.fromkeys(keys))
        else:
            graph.whole = graph.again
            graph.again = False
            graph.after = None
            graph.unseen = 0

    async def _failed(self, graph: _WaitingGraph, exc: Exception) -> None:
        """Let a graph wait; let all wait while the service does not answer."""
        log.warning(
            "embedding_failed", extra={"error": type(exc).__name__, "failures": graph.failures + 1}
        )
        may_wait = isinstance(
            exc, UsageLimitReached | SourceUnavailable | SourceTimeout | DatabaseBusy
        )
        if isinstance(exc, EmbeddingError) and not may_wait and not await self._answers():
            self._failing += 1
            await self._sleep(self._wait_s(self._failing))
            return
        graph.failures += 1
        if not may_wait and graph.failures >= self._options.attempts:  # it cannot even be read
            self._give_up(max(1, len(graph.keys)), reason=type(exc).__name__)
            graph.keys = {}
            graph.whole = False
            graph.again = False
        graph.due = self._clock() + self._wait_s(graph.failures)

    async def _answers(self) -> bool:
        """Ask the service for one word: does it fail, or a text of a node?"""
        assert self._embedder is not None
        try:
            async with asyncio.timeout(self._options.probe_s):
                await self._embedder.embed(["word"])
        except (EmbeddingError, TimeoutError):
            return False
        return True

    def _wait_s(self, failures: int) -> float:
        return min(self._options.longest_s, self._options.retry_s * 2 ** min(failures - 1, 30))

    def _give_up(self, nodes: int, *, reason: str) -> None:
        self.given_up += nodes
        log.warning("embedding_given_up", extra={"nodes": nodes, "reason": reason[:200]})

    def _drop(self, workspace: str, graph_key: str, graph: _WaitingGraph) -> None:
        graphs = self._waiting.get(workspace, {})
        if graphs.get(graph_key) is graph:
            del graphs[graph_key]
        if not graphs:
            self._waiting.pop(workspace, None)


@dataclass(frozen=True, slots=True)
class WorkspaceQueue:
    """The queue as the services of one workspace use it."""

    queue: EmbeddingQueue
    workspace: str

    def add(self, graph_key: str, node_keys: Sequence[str] | None) -> None:
        """Embed these nodes soon, None: all of the graph. Raises nothing and waits for nothing."""
        self.queue.add(self.workspace, graph_key, node_keys)

    def pending(self, graph_key: str | None = None) -> int:
        """Return how many nodes of a graph, or of the workspace, wait."""
        return self.queue.pending(self.workspace, graph_key)

    async def renew(self, graph_key: str) -> dict[str, Any]:
        """Embed what is missing or of an older text of a graph soon; return how many nodes
        have no vector.

        Facts: `nodes`, `missing`, `queued`, `model`. A graph of another model is not queued, and
        nothing is without an embedder. Raises: SourceError.
        """
        stats = await self.queue.sources(self.workspace).get_stats(graph_key)
        embedder = self.queue.embedder_of(self.workspace)
        if isinstance(embedder, WorkspaceEmbedder):
            await embedder.resolve()
        model = embedder.model if embedder else None
        queued = model is not None and not is_of_another_model(stats, model)
        if queued:
            self.add(graph_key, None)
        missing = max(0, stats.nodes - stats.vectors.get(model or "", 0))
        return {"nodes": stats.nodes, "missing": missing, "queued": queued, "model": model}

    async def applied(self, approval: Approval) -> None:
        """Embed what an approval changed; of a changed type the whole graph, whose
        texts name it.
        """
        keys = approval.result.keys if approval.result else {}
        if any(keys.get(f"types{done}") for done in ("Created", "Changed", "Deleted")):
            self.add(approval.graph_key, None)
        else:
            self.add(
                approval.graph_key, [*keys.get("nodesCreated", ()), *keys.get("nodesChanged", ())]
            )
