"""Brings the embeddings of graphs up to date: only what is missing, changed or of another model."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from datasources.base import MutableGraphDataSource, UnmarkedVectors
from datasources.builtin_types import types_by_name
from datasources.errors import BadDocument, InvalidMutation
from datasources.types import GraphStats, Node, NodeTypeConfig, NodeVector, VectorInfo
from datasources.vectors import normalize
from graphrag.embedding.base import (
    EmbeddingError,
    EmbeddingMalformed,
    EmbeddingProvider,
    EmbeddingRefused,
    content_text,
    embedding_hash,
    name_text,
)
from graphrag.embedding.workspace_model import WorkspaceEmbedder
from graphrag.llm.tokens import count_tokens

PAGE = 1_000
GIVE_UP_AFTER = 10
"""So many nodes refused before any was embedded: it is the provider that does not work, not the texts."""


ATTEMPTS = 5
"""Of one request, where waiting may help."""

FIRST_WAIT_S = 0.5
MAX_WAIT_S = 30.0


@runtime_checkable
class IndexBuilder(Protocol):
    """Optional ability of a source: to build its approximate indexes now rather than at a first search."""

    async def build_indexes(self, graph_key: str) -> None: ...


@dataclass(slots=True, kw_only=True)
class EmbedReport:
    """Counts of nodes. `failures` name node and reason; `seconds` is the time it all took.

    `unmarked` have a vector that names no model, `other_model` are of graphs whose vectors are of
    `models`: both are left as they are. `tokens` is what a dry run would have sent.
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
        """Add what another run did."""
        for name in (part.name for part in fields(self)):
            mine, more = getattr(self, name), getattr(other, name)
            setattr(self, name, mine | more if isinstance(mine, set) else mine + more)

    def as_dict(self) -> dict[str, Any]:
        return {
            "embedded": self.embedded,
            "adopted": self.adopted,
            "skipped": self.skipped,
            "unmarked": self.unmarked,
            "otherModel": self.other_model,
            "models": sorted(self.models),
            "tokens": self.tokens,
            "empty": self.empty,
            "failed": self.failed,
            "graphs": self.graphs,
            "seconds": round(self.seconds, 3),
            "failures": self.failures,
        }


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
    batch: int = 100,
    delay_ms: int = 0,
    dry_run: bool = False,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> EmbedReport:
    """Embed the nodes whose vector is missing or of an older text; safe to cancel and run again.

    A vector that names no model stays as it is, and so does a graph whose vectors are all of another
    model: `force` renews both, and without `graph_keys` with the model of the settings. `adopt` takes
    vectors without a model, of the length of the embedder's, as the embedder's own.

    One request embeds up to `batch` nodes (their content and their name). A text that makes a
    request fail is found by halving and counted as failed; the others go on.
    Raises: GraphNotFound; EmbeddingError when the provider does not work at all.
    """
    started = time.perf_counter()
    model, is_usable = await _model_of(embedder, renews_all=force and not graph_keys, dry_run=dry_run)
    keys = list(graph_keys) if graph_keys else [graph.key for graph in await source.list_graphs()]
    report = EmbedReport(graphs=len(keys))
    stats = {key: await source.get_stats(key) for key in keys}
    total = sum(of_graph.nodes for of_graph in stats.values())
    configs = types_by_name(await source.get_node_configs())
    run = _Run(source, embedder, configs, report, batch, delay_ms, dry_run, adopts=adopt)
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
        if not dry_run and isinstance(source, IndexBuilder):
            await source.build_indexes(key)
    report.seconds = time.perf_counter() - started
    return report


async def _model_of(embedder: EmbeddingProvider, *, renews_all: bool, dry_run: bool) -> tuple[str, bool]:
    """Return of which model new vectors are, and whether it can be asked; record it where all are renewed."""
    if not isinstance(embedder, WorkspaceEmbedder):
        return embedder.model, True
    await embedder.resolve()
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
    batch: int = 100,
) -> EmbedReport:
    """Embed those of some nodes that need it, with one attempt a request; nodes that are gone are left out.

    A node that cannot be read counts as failed. Raises: GraphNotFound; EmbeddingError when the provider
    does not work.
    """
    report = EmbedReport(graphs=1)
    configs = types_by_name(await source.get_node_configs())
    run = _Run(source, embedder, configs, report, batch, delay_ms=0, dry_run=False, attempts=1)
    await run.keys(graph_key, node_keys)
    return report


def is_of_another_model(stats: GraphStats, model: str) -> bool:
    """Say whether a graph has vectors, and none of this model: one of both would be found half."""
    return bool(stats.vectors) and model not in stats.vectors


async def node_keys_after(
    source: MutableGraphDataSource, graph_key: str, after: str | None, *, limit: int
) -> list[str]:
    """Return the keys of the nodes that follow a key, in order; none after the last.

    Raises: GraphNotFound; BadDocument where a node cannot be read.
    """
    return [node.key for node in await source.get_nodes(graph_key, after=after, limit=limit)]


@dataclass(slots=True)
class _Run:
    source: MutableGraphDataSource
    embedder: EmbeddingProvider
    configs: Mapping[str, NodeTypeConfig]
    report: EmbedReport
    batch: int
    delay_ms: int
    dry_run: bool
    attempts: int = ATTEMPTS
    adopts: bool = False
    requests: int = 0

    async def keys(self, graph_key: str, node_keys: Sequence[str]) -> None:
        """Embed the nodes of these keys; one that cannot be read is found by halving."""
        try:
            nodes = await self.source.get_nodes_by_key(graph_key, node_keys)
        except BadDocument as exc:
            if len(node_keys) == 1:
                self._fail(node_keys[0], exc)
                return
            middle = len(node_keys) // 2
            await self.keys(graph_key, node_keys[:middle])
            await self.keys(graph_key, node_keys[middle:])
            return
        await self.nodes(graph_key, nodes, force=False)

    async def nodes(self, graph_key: str, nodes: Sequence[Node], *, force: bool) -> None:
        """Embed those of some nodes that need it, in batches."""
        stored = await self.source.get_vector_info(graph_key, [node.key for node in nodes])
        if self.adopts:
            unmarked = [node for node in nodes if node.key in stored and not stored[node.key].model]
            for start in range(0, len(unmarked), self.batch):
                await self._adopt(graph_key, unmarked[start : start + self.batch], stored)
        # Long code takes long to hash and to cut: not in the event loop.
        jobs = await asyncio.to_thread(self._jobs, nodes, stored, force=force)
        for start in range(0, len(jobs), self.batch):
            await self.embed(graph_key, jobs[start : start + self.batch])

    def _jobs(self, nodes: Sequence[Node], stored: Mapping[str, VectorInfo], *, force: bool) -> list[_Job]:
        """Return what must be embedded of some nodes, counting the rest."""
        jobs: list[_Job] = []
        for node in nodes:
            config = self.configs.get(node.type)
            digest = embedding_hash(node, config)
            info = stored.get(node.key)
            if not force and info is not None and (not info.model or info == (self.embedder.model, digest)):
                self.report.skipped += bool(info.model)
                self.report.unmarked += not info.model
                continue
            content = content_text(node, config)
            if not content.strip():
                self.report.empty += 1
                continue
            jobs.append(_Job(node=node, content=content, name=name_text(node, config), hash=digest))
        if self.dry_run:
            self.report.tokens += sum(count_tokens(job.content) + count_tokens(job.name) for job in jobs)
        return jobs

    async def _adopt(self, graph_key: str, nodes: Sequence[Node], stored: dict[str, VectorInfo]) -> None:
        """Take over the vectors of some nodes that are of the embedder's length; names are embedded."""
        if not isinstance(self.source, UnmarkedVectors):
            return
        found = await self.source.get_unmarked_vectors(graph_key, [node.key for node in nodes])
        names = await self._request([name_text(node, self.configs.get(node.type)) for node in nodes])
        vectors: list[NodeVector] = []
        for row, node in enumerate(nodes):
            content = found.get(node.key)
            if content is None or content.shape != names[row].shape or not np.isfinite(content).all():
                continue
            info = VectorInfo(self.embedder.model, embedding_hash(node, self.configs.get(node.type)))
            name = names[row] if names[row].any() else None
            vectors.append(
                NodeVector(
                    key=node.key,
                    model=info.model,
                    hash=info.hash,
                    content=normalize(content[None])[0],
                    name=name,
                )
            )
            stored[node.key] = info
        self.report.adopted += len(vectors)
        if vectors and not self.dry_run:
            if isinstance(self.embedder, WorkspaceEmbedder):
                await self.embedder.claim()
            await self.source.put_embeddings(graph_key, vectors)

    async def embed(self, graph_key: str, jobs: Sequence[_Job]) -> None:
        """Embed and store some nodes; on a failure that one text may cause, halve and try again."""
        if self.dry_run:
            self.report.embedded += len(jobs)
            return
        if not jobs:
            return
        if self.requests and self.delay_ms:
            await asyncio.sleep(self.delay_ms / 1000)
        self.requests += 1
        try:
            texts = [text for job in jobs for text in (job.content, job.name)]
            vectors = await self._request(texts)
            if not np.isfinite(vectors).all():
                raise EmbeddingMalformed(provider=self.embedder.model, reason="a vector that is not finite")
        except EmbeddingError as exc:
            if not _may_be_one_text(exc):
                raise
            if len(jobs) == 1:
                self._fail(jobs[0].node.key, exc)
                if self.report.failed >= GIVE_UP_AFTER and not self.report.embedded:
                    raise
                return
            middle = len(jobs) // 2
            await self.embed(graph_key, jobs[:middle])
            await self.embed(graph_key, jobs[middle:])
            return
        await self._store(
            graph_key,
            [
                NodeVector(
                    key=job.node.key,
                    model=self.embedder.model,
                    hash=job.hash,
                    content=vectors[2 * i],
                    name=vectors[2 * i + 1],
                )
                for i, job in enumerate(jobs)
                if vectors[2 * i].any()
            ],
        )
        self.report.empty += sum(1 for i in range(len(jobs)) if not vectors[2 * i].any())

    async def _request(self, texts: Sequence[str]) -> NDArray[np.float32]:
        for attempt in range(1, self.attempts + 1):
            try:
                return await self.embedder.embed(texts)
            except EmbeddingError as exc:
                if attempt == self.attempts or not exc.retryable:
                    raise
                await asyncio.sleep(pause_s(FIRST_WAIT_S * 2 ** (attempt - 1), exc.retry_after_s))
        raise AssertionError("unreachable")

    async def _store(self, graph_key: str, vectors: Sequence[NodeVector]) -> None:
        if not vectors:
            return
        if isinstance(self.embedder, WorkspaceEmbedder):
            await self.embedder.claim()
        try:
            self.report.embedded += await self.source.put_embeddings(graph_key, vectors)
        except (InvalidMutation, BadDocument) as exc:  # the vectors' fault; a store that is busy ends the run
            if len(vectors) == 1:
                self._fail(vectors[0].key, exc)
                return
            for vector in vectors:
                await self._store(graph_key, [vector])

    def _fail(self, node_key: str, exc: Exception) -> None:
        self.report.failed += 1
        self.report.failures.append(f"{node_key}: {exc}")


def pause_s(wait_s: float, retry_after_s: float | None) -> float:
    """Return how long to wait: what the service asks for, else `wait_s` up to twice; at most MAX_WAIT_S."""
    return min(retry_after_s or wait_s * (1 + random.random()), MAX_WAIT_S)


def _may_be_one_text(exc: EmbeddingError) -> bool:
    """A refusal of the request's content, not of who asks or of the moment."""
    return isinstance(exc, EmbeddingMalformed) or (
        isinstance(exc, EmbeddingRefused) and exc.status in (400, 413, 422)
    )
