"""Renews the embeddings of graphs: those that are missing, outdated or of another model."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from datasources.base import ForeignVectors, MutableGraphDataSource
from datasources.builtin_types import types_by_name
from datasources.errors import BadDocument, InvalidMutation
from datasources.hits import NodeVector, VectorInfo
from datasources.types import GraphStats, Node, NodeTypeConfig
from graphrag.embedding.embedder import (
    EmbeddingError,
    EmbeddingMalformed,
    EmbeddingProvider,
    EmbeddingRefused,
    EmbeddingUnreachable,
    content_text,
    embedding_hash,
    name_text,
)
from graphrag.embedding.workspace_embedder import WorkspaceEmbedder
from graphrag.llm.registry import RetryPolicy
from graphrag.llm.tokens import count_tokens
from graphrag.llm.usage_meter import UsageLimitReached

T = TypeVar("T")

PAGE = 1_000
# If this many nodes fail before one succeeds, the provider is at fault, not the texts.
GIVE_UP_AFTER = 10

# For each request, if the error is temporary.
PATIENT = RetryPolicy(attempts=5, max_wait_s=60.0)


class AdoptedOfOtherLength(EmbeddingError):
    """Raised when none of the first vectors to be adopted has the length of the model's vectors.

    `length` is the length of the model's vectors, `numbers` are the lengths of the stored ones.
    """

    def __init__(self, *, model: str, length: int, numbers: str) -> None:
        self.model = model
        self.length = length
        self.numbers = numbers
        self.says = f"makes vectors of {length:,} numbers; the stored ones have {numbers}"
        super().__init__(provider=model, reason="")


@dataclass(slots=True, kw_only=True)
class EmbedReport:
    """Counts of nodes. `failures` contain node and reason; `seconds` is the total duration.

    Left unchanged are nodes with a vector that names no model (`unmarked`), and those of graphs
    whose vectors are of other `models` (`other_model`). `tokens` is the number that a dry run would
    have sent.
    """

    embedded: int = 0
    adopted: int = 0
    skipped: int = 0
    unmarked: int = 0
    other_model: int = 0
    models: set[str] = field(default_factory=set[str])
    tokens: int = 0
    empty: int = 0
    failed: int = 0
    seconds: float = 0.0
    graphs: int = 0
    failures: list[str] = field(default_factory=list[str])

    def add(self, other: EmbedReport) -> None:
        """Adds the counts of another run."""
        for name in (part.name for part in fields(self)):
            mine = getattr(self, name)
            more = getattr(other, name)
            setattr(self, name, mine | more if isinstance(mine, set) else mine + more)

    def as_dict(self) -> dict[str, Any]:
        counts = {part.name: getattr(self, part.name) for part in fields(self)}
        counts["otherModel"] = counts.pop("other_model")
        return {**counts, "models": sorted(self.models), "seconds": round(self.seconds, 3)}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    node: Node
    content: str
    name: str
    hash: str


async def embed_nodes(
    source: MutableGraphDataSource,
    embedder: EmbeddingProvider,
    *,
    graph_keys: Sequence[str] | None = None,
    force: bool = False,
    adopt: bool = False,
    beside: bool = False,
    batch: int = 100,
    delay_ms: int = 0,
    dry_run: bool = False,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> EmbedReport:
    """Embeds the nodes whose vector is missing or outdated. May be cancelled and run again.

    Vectors that name no model, and graphs whose vectors are all of another model, stay unchanged.
    `force` renews both; without `graph_keys` it uses the model of the settings. `adopt` marks
    vectors that name no model and have the embedder's length as the embedder's own, without
    changing their numbers. `beside` allows storing the first vectors of a workspace although it has
    vectors that name no model.

    One request embeds up to `batch` nodes (their content and name). If it fails, the text at fault
    is found by bisection and counted as failed, and the others are embedded.
    Raises: GraphNotFound; UnnamedVectors; EmbeddingError if the provider does not work at all.
    """
    if isinstance(embedder, WorkspaceEmbedder) and (force or adopt or beside or dry_run):
        embedder.accept_unnamed()
    started = time.perf_counter()
    model, is_usable = await _model_of(
        embedder, renews_all=force and not graph_keys, dry_run=dry_run
    )
    keys = list(graph_keys) if graph_keys else [graph.key for graph in await source.list_graphs()]
    report = EmbedReport(graphs=len(keys))
    stats = {key: await source.get_stats(key) for key in keys}
    total = sum(of_graph.nodes for of_graph in stats.values())
    configs = types_by_name(await source.get_node_configs())
    run = _EmbeddingRun(source, embedder, configs, report, batch, delay_ms, dry_run, adopts=adopt)
    builder = source.abilities.index_builder
    done = 0
    for key in keys:
        if not is_usable or (not force and is_of_another_model(stats[key], model)):
            report.other_model += stats[key].nodes
            report.models.update(stats[key].vectors)
            done += stats[key].nodes
            continue
        after: str | None = None
        while page := await source.get_nodes(key, after=after, limit=PAGE):
            after = page[-1].key
            await run.nodes(key, page, force=force)
            done += len(page)
            progress(done, max(done, total))
        if builder is not None and not dry_run:
            await builder.build_indexes(key)
    report.seconds = time.perf_counter() - started
    return report


async def _model_of(
    embedder: EmbeddingProvider, *, renews_all: bool, dry_run: bool
) -> tuple[str, bool]:
    """Returns the model of new vectors, and whether it is available. Records the model if all
    vectors are renewed.
    """
    if not isinstance(embedder, WorkspaceEmbedder):
        return embedder.model, True
    await embedder.resolve()
    if embedder.unnamed is not None:
        raise embedder.unnamed
    if not renews_all:
        return embedder.model, embedder.is_usable
    if not dry_run:
        await embedder.change()
    return embedder.chosen.model, True


async def embed_some(
    source: MutableGraphDataSource,
    embedder: EmbeddingProvider,
    graph_key: str,
    node_keys: Sequence[str],
    *,
    request_s: float | None = None,
    answers: Callable[[], Awaitable[bool]] | None = None,
) -> EmbedReport:
    """Embeds the given nodes if their vectors are missing or outdated. Ignores deleted nodes.

    Makes one attempt for each request, of at most `request_s` seconds. `answers` returns whether
    the service is available: if it is, a node whose request fails alone counts as failed. A node
    that cannot be read counts as failed. Raises: GraphNotFound; EmbeddingError if the provider
    does not work.
    """
    configs = types_by_name(await source.get_node_configs())
    run = _EmbeddingRun(
        source,
        embedder,
        configs,
        EmbedReport(graphs=1),
        retry=RetryPolicy(attempts=1),
        request_s=request_s,
        answers=answers,
    )
    nodes: list[Node] = []
    left = [node_keys]
    while left:
        keys = left.pop(0)
        try:
            nodes += await source.get_nodes_by_key(graph_key, keys)
        except BadDocument as exc:
            left[:0] = await run.halves(keys, exc, keys[0])
    await run.nodes(graph_key, nodes, force=False)
    return run.report


def is_of_another_model(stats: GraphStats, model: str) -> bool:
    """Returns whether a graph has vectors, but none of this model.

    Vectors of two models must not be mixed: each search would find only a part of them.
    """
    return bool(stats.vectors) and model not in stats.vectors


@dataclass(slots=True)
class _EmbeddingRun:
    source: MutableGraphDataSource
    embedder: EmbeddingProvider
    configs: Mapping[str, NodeTypeConfig]
    report: EmbedReport
    batch: int = 100
    delay_ms: int = 0
    dry_run: bool = False
    retry: RetryPolicy = PATIENT
    adopts: bool = False
    request_s: float | None = None
    answers: Callable[[], Awaitable[bool]] | None = None
    requests: int = 0

    async def nodes(self, graph_key: str, nodes: Sequence[Node], *, force: bool) -> None:
        """Embeds nodes with missing or outdated vectors, in batches. A failing node is found by
        bisecting its batch.
        """
        stored = await self.source.get_vector_info(graph_key, [node.key for node in nodes])
        foreign = self.source.abilities.foreign_vectors
        if self.adopts and foreign is not None:
            unmarked = [node for node in nodes if node.key in stored and not stored[node.key].model]
            for start in range(0, len(unmarked), self.batch):
                await self._adopt(foreign, graph_key, unmarked[start : start + self.batch], stored)
        # In a thread, because hashing and cutting long code takes time.
        jobs = await asyncio.to_thread(self._jobs, nodes, stored, force=force)
        if self.dry_run:
            self.report.embedded += len(jobs)
            return
        starts = range(0, len(jobs), self.batch)
        left: list[Sequence[_Job]] = [jobs[start : start + self.batch] for start in starts]
        while left:
            batch = left.pop(0)
            try:
                await self._embed(graph_key, batch)
            except (EmbeddingError, InvalidMutation, BadDocument) as exc:
                left[:0] = await self.halves(batch, exc, batch[0].node.key)

    def _jobs(
        self, nodes: Sequence[Node], stored: Mapping[str, VectorInfo], *, force: bool
    ) -> list[_Job]:
        """Returns the nodes to be embedded with their texts, and counts the others."""
        jobs: list[_Job] = []
        for node in nodes:
            config = self.configs.get(node.type)
            digest = embedding_hash(node, config)
            info = stored.get(node.key)
            if (
                not force
                and info is not None
                and (not info.model or info == (self.embedder.model, digest))
            ):
                self.report.skipped += bool(info.model)
                self.report.unmarked += not info.model
                continue
            content = content_text(node, config)
            if not content.strip():
                self.report.empty += 1
                continue
            jobs.append(_Job(node=node, content=content, name=name_text(node, config), hash=digest))
        if self.dry_run:
            self.report.tokens += sum(
                count_tokens(job.content) + count_tokens(job.name) for job in jobs
            )
        return jobs

    async def _adopt(
        self,
        foreign: ForeignVectors,
        graph_key: str,
        nodes: Sequence[Node],
        stored: dict[str, VectorInfo],
    ) -> None:
        """Adopts the nodes' vectors that have the embedder's length, and embeds their names."""
        unmarked_vectors = await foreign.get_unmarked_vectors(
            graph_key, [node.key for node in nodes]
        )
        names = await self._request(
            [name_text(node, self.configs.get(node.type)) for node in nodes]
        )
        lengths = Counter(vector.size for vector in unmarked_vectors.values())
        if lengths and not self.report.adopted and names.shape[1] not in lengths:
            numbers = ", ".join(f"{length:,}" for length in sorted(lengths))
            raise AdoptedOfOtherLength(
                model=self.embedder.model, length=names.shape[1], numbers=numbers
            )
        vectors: list[NodeVector] = []
        for row, node in enumerate(nodes):
            content = unmarked_vectors.get(node.key)
            if (
                content is None
                or content.shape != names[row].shape
                or not np.isfinite(content).all()
            ):
                continue
            info = VectorInfo(
                self.embedder.model, embedding_hash(node, self.configs.get(node.type))
            )
            name = names[row] if names[row].any() else None
            vectors.append(
                NodeVector(
                    key=node.key, model=info.model, hash=info.hash, content=content, name=name
                )
            )
            stored[node.key] = info
        self.report.adopted += len(vectors)
        if vectors and not self.dry_run:
            await self._claim()
            await foreign.adopt_vectors(graph_key, vectors)

    async def halves(self, items: Sequence[T], exc: Exception, first: str) -> list[Sequence[T]]:
        """Returns the items to retry after `exc`, as two halves; [] for a single item, which is
        counted as failed. `first` is the key of the first item.

        Raises: `exc`, if the service is at fault and not an item.
        """
        # These statuses reject the content of a request, not the key or the load.
        is_content = isinstance(exc, EmbeddingRefused) and exc.status in (400, 413, 422)
        is_service = isinstance(exc, EmbeddingError) and not (
            is_content or isinstance(exc, EmbeddingMalformed)
        )
        if is_service and (self.answers is None or isinstance(exc, UsageLimitReached)):
            raise exc
        if len(items) > 1:
            middle = len(items) // 2
            return [items[:middle], items[middle:]]
        if is_service and self.answers is not None and not await self.answers():
            raise exc
        self.report.failed += 1
        self.report.failures.append(f"{first}: {exc}")
        fails_always = self.report.failed >= GIVE_UP_AFTER and not self.report.embedded
        if fails_always and isinstance(exc, EmbeddingError) and self.answers is None:
            raise exc
        return []

    async def _embed(self, graph_key: str, jobs: Sequence[_Job]) -> None:
        """Embeds and stores nodes. Raises: EmbeddingError, SourceError; then none is stored."""
        if self.requests and self.delay_ms:
            await asyncio.sleep(self.delay_ms / 1000)
        self.requests += 1
        results = await self._request([text for job in jobs for text in (job.content, job.name)])
        if not np.isfinite(results).all():
            raise EmbeddingMalformed(
                provider=self.embedder.model, reason="a vector that is not finite"
            )
        model = self.embedder.model
        vectors = [
            NodeVector(key=job.node.key, model=model, hash=job.hash, content=content, name=name)
            for job, content, name in zip(jobs, results[::2], results[1::2], strict=True)
            if content.any()
        ]
        if vectors:
            self.report.embedded += await self._put(graph_key, vectors)
        self.report.empty += len(jobs) - len(vectors)

    async def _request(self, texts: Sequence[str]) -> NDArray[np.float32]:
        attempt = 0
        while True:
            attempt += 1
            try:
                async with asyncio.timeout(self.request_s):
                    return await self.embedder.embed(texts)
            except TimeoutError as exc:
                reason = f"no answer within {self.request_s} s"
                raise EmbeddingUnreachable(provider=self.embedder.model, reason=reason) from exc
            except EmbeddingError as exc:
                pause_s = self.retry.pause_s(attempt, exc.retry_after_s) if exc.retryable else None
                if pause_s is None:
                    raise
                await asyncio.sleep(pause_s)

    async def _claim(self) -> None:
        if isinstance(self.embedder, WorkspaceEmbedder):
            await self.embedder.claim()

    async def _put(self, graph_key: str, vectors: Sequence[NodeVector]) -> int:
        """Records the model, stores vectors, and returns the number of nodes that still exist."""
        await self._claim()
        return await self.source.put_embeddings(graph_key, vectors)
