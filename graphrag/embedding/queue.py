"""Embeds changed nodes in the background, batch by batch, with one queue for the process.

Workspaces take turns, and so do the graphs of a workspace, so a failing or very large graph delays
another one by at most one batch. The queue is in memory: nodes that still wait when the process
ends, or that failed too often, are found later by `nodius embed-nodes`.
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
    """Options of the queue. Durations are in seconds. `batch` nodes are embedded at once.

    If more than `max_keys` nodes of a graph are queued, the whole graph is scanned instead. At most
    `max_graphs` graphs are queued. A failing graph is retried after `retry_s`, doubled for each
    further failure up to `longest_s`; after `attempts` failures in a row, nodes that fail alone are
    given up. `batch_s` and `probe_s` are the timeouts of a request and of the check whether the
    service is available; `close_s` is the maximum time for finishing the queue on close.
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
    """The queued nodes of one graph. `keys` wait; `in_progress` is the number being embedded.

    `whole` is set during a scan of the whole graph: `after` is the last key that was read, and
    `unseen` the number of nodes after it. `again` requests another scan.
    """

    keys: dict[str, None] = field(default_factory=dict[str, None])
    in_progress: int = 0
    whole: bool = False
    again: bool = False
    after: str | None = None
    unseen: int = 0
    failures: int = 0
    due: float = 0.0
    is_checked: bool = False

    @property
    def pending(self) -> int:
        return len(self.keys) + self.in_progress + (max(self.unseen, 1) if self.whole else 0)


class EmbeddingQueue:
    """The queue of nodes to be embedded. An async context manager.

    `sources` returns the stored graphs of a workspace. Without an embedder nothing is queued. A
    graph with vectors of another model is skipped; `embed-nodes --force` renews it. `on_batch` is
    called with the report of each batch and must not raise. `embedder_of` returns the embedder of
    a workspace; by default all use `embedder`.
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
        """Number of nodes given up since the start. An unreadable graph counts at least one."""

    def of(self, workspace: str) -> WorkspaceQueue:
        return WorkspaceQueue(self, workspace)

    def add(self, workspace: str, graph_key: str, node_keys: Sequence[str] | None) -> None:
        """Queues nodes for embedding if their vectors are missing or outdated.

        None queues all nodes of the graph. Never raises or blocks.
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
        """Returns the number of queued nodes of the process, a workspace, or one of its graphs."""
        if workspace is None:
            graphs_by_workspace = list(self._waiting.values())
        else:
            graphs_by_workspace = [self._waiting.get(workspace, {})]
        return sum(
            graph.pending
            for graphs in graphs_by_workspace
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
            next_graph = self._next()
            if next_graph is None:
                self._wake.clear()
                dues = [graph.due for graphs in self._waiting.values() for graph in graphs.values()]
                with suppress(TimeoutError):
                    async with asyncio.timeout(
                        max(0.0, min(dues) - self._clock()) if dues else None
                    ):
                        await self._wake.wait()
                continue
            workspace, graph_key, graph = next_graph
            try:
                await self._batch(workspace, graph_key, graph)
            except GraphNotFound:
                self._drop(workspace, graph_key, graph)
            except Exception as exc:  # noqa: BLE001 - the other graphs must go on
                await self._failed(graph, exc)
            else:
                self._failing = graph.failures = 0
            if not graph.keys and not graph.whole:
                self._drop(workspace, graph_key, graph)

    def _next(self) -> tuple[str, str, _WaitingGraph] | None:
        """Returns the next graph that is due, and moves it and its workspace to the end."""
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
        """Embeds one batch of a graph. On an error all its nodes stay queued.

        Raises: EmbeddingError, SourceError.
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
        batch = list(graph.keys)[: self._options.batch]
        for key in batch:
            del graph.keys[key]
        graph.in_progress = len(batch)
        answers = self._answers if graph.failures + 1 >= self._options.attempts else None
        try:
            report = await embed_some(
                source, embedder, graph_key, batch, request_s=self._options.batch_s, answers=answers
            )
        except BaseException:
            graph.keys = dict.fromkeys((*batch, *graph.keys))
            raise
        finally:
            graph.in_progress = 0
        if report.failed:
            self._give_up(report.failed, reason=report.failures[0].partition(": ")[2])
        if self._on_batch is not None:
            self._on_batch(report)
        if report.embedded:
            log.info("embedded", extra={"nodes": report.embedded, "skipped": report.skipped})

    async def _read_on(
        self, source: MutableGraphDataSource, graph_key: str, graph: _WaitingGraph
    ) -> None:
        """Queues the next nodes of a graph that is scanned as a whole."""
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
        """Delays the retry of a failed graph; delays all graphs if the service is unavailable."""
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
        if not may_wait and graph.failures >= self._options.attempts:  # it cannot be read
            self._give_up(max(1, len(graph.keys)), reason=type(exc).__name__)
            graph.keys = {}
            graph.whole = False
            graph.again = False
        graph.due = self._clock() + self._wait_s(graph.failures)

    async def _answers(self) -> bool:
        """Embeds one word, to tell a failing service from a failing text."""
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
    """The queue of one workspace."""

    queue: EmbeddingQueue
    workspace: str

    def add(self, graph_key: str, node_keys: Sequence[str] | None) -> None:
        """Queues nodes for embedding, None: all nodes of the graph. Never raises or blocks."""
        self.queue.add(self.workspace, graph_key, node_keys)

    def pending(self, graph_key: str | None = None) -> int:
        """Returns the number of queued nodes of a graph, or of the workspace."""
        return self.queue.pending(self.workspace, graph_key)

    async def renew(self, graph_key: str) -> dict[str, Any]:
        """Queues the missing and outdated vectors of a graph.

        Returns the number of `nodes`, the number of `missing` vectors, whether the graph was
        `queued`, and the `model`. A graph with vectors of another model is not queued.
        Raises: SourceError.
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
        """Queues the nodes changed by an approval; the whole graph if it changed a node type, whose
        name is part of the texts.
        """
        keys = approval.result.keys if approval.result else {}
        if any(keys.get(f"types{change}") for change in ("Created", "Changed", "Deleted")):
            self.add(approval.graph_key, None)
        else:
            self.add(
                approval.graph_key, [*keys.get("nodesCreated", ()), *keys.get("nodesChanged", ())]
            )
