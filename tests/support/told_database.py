"""A database that tells its changes in this process, as one that several servers share does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Self, final

from datasources.base import (
    Database,
    Finding,
    MutableGraphDataSource,
    Record,
    RecordStore,
    RecordWrite,
)
from datasources.notices import (
    Listener,
    NoticeRouter,
    StoreNotice,
    notice_payloads,
    read_notice,
)
from datasources.types import Graph, Mutation
from graphrag.workers import end_tasks
from tests.support.waiting import until


@final
class Channel:
    """Carries the notices between the servers of one database."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []
        self._is_lost = False

    async def listen(self, listener: Listener) -> None:
        """Implements NoticeSource."""
        self._listeners.append(listener)
        listener.notices_connected(True)
        try:
            await asyncio.Event().wait()
        finally:
            self._listeners.remove(listener)

    @property
    def listeners(self) -> int:
        return len(self._listeners)

    def tell(self, payloads: Sequence[str]) -> None:
        for payload in payloads:
            notice = read_notice(payload)
            assert notice is not None
            for listener in () if self._is_lost else self._listeners:
                listener.notice_told(notice)

    def lose(self) -> None:
        """Loses the connections: nothing is told."""
        self._is_lost = True
        for listener in self._listeners:
            listener.notices_connected(False)

    def regain(self) -> None:
        self._is_lost = False
        for listener in self._listeners:
            listener.notices_connected(True)


@final
class ToldDatabase:
    """Implements Database: another one, as one server has it open, whose changes are told.

    `is_shared`: the other stays open, for further servers.
    """

    def __init__(self, inner: Database, channel: Channel, *, is_shared: bool = False) -> None:
        self._inner = inner
        self._channel = channel
        self._is_shared = is_shared
        self._notices = NoticeRouter(channel)

    @property
    def url(self) -> str:
        return self._inner.url

    @property
    def notices(self) -> NoticeRouter:
        return self._notices

    def source(self, workspace: str) -> MutableGraphDataSource:
        told: Any = _ToldSource(self._inner.source(workspace), self._channel)
        return told

    def records(self, workspace: str) -> RecordStore:
        return _ToldRecords(self._inner.records(workspace), self._channel, workspace, self._notices)

    async def workspaces(self, kind: str | None = None) -> list[str]:
        return await self._inner.workspaces(kind)

    async def check(self) -> list[Finding]:
        return await self._inner.check()

    async def __aenter__(self) -> Self:
        if not self._is_shared:
            await self._inner.__aenter__()
        return self

    async def __aexit__(self, *why: object) -> None:
        if not self._is_shared:
            await self._inner.__aexit__(*why)


class Unobserved:
    """Counts nothing of what is told."""

    def notice_told(self, notice: StoreNotice) -> None:
        """Ignores it."""

    def notices_connected(self, is_connected: bool) -> None:
        """Ignores it."""


@asynccontextmanager
async def told_servers(inner: Database, count: int = 2) -> AsyncGenerator[list[ToldDatabase]]:
    """Yields an open database as several servers have it, which listen to each other."""
    channel = Channel()
    servers = [ToldDatabase(inner, channel, is_shared=True) for _ in range(count)]
    listening = [asyncio.create_task(one.notices.listen(Unobserved())) for one in servers]
    await until(lambda: channel.listeners == count)
    try:
        yield servers
    finally:
        await end_tasks(*listening)


@final
class _ToldRecords(RecordStore):
    def __init__(
        self, inner: RecordStore, channel: Channel, workspace: str, router: NoticeRouter
    ) -> None:
        self._inner = inner
        self._channel = channel
        self._workspace = workspace
        self.notices = router.of(workspace)

    async def get(self, kind: str, key: str) -> Record | None:
        return await self._inner.get(kind, key)

    async def get_page(self, kind: str, *, after: str | None = None, limit: int) -> list[Record]:
        return await self._inner.get_page(kind, after=after, limit=limit)

    async def write(self, writes: Sequence[RecordWrite]) -> list[Record | None]:
        stored = await self._inner.write(writes)
        self._channel.tell(notice_payloads(self._workspace, writes))
        return stored

    async def query(self, kind: str, where: Any = None, **how: Any) -> list[Record]:
        return await self._inner.query(kind, where, **how)


class _ToldSource:
    """A source that tells writes; it reads as the other one."""

    def __init__(self, inner: MutableGraphDataSource, channel: Channel) -> None:
        self._inner = inner
        self._channel = channel

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def _tell(self, graph_key: str, records: Sequence[RecordWrite]) -> None:
        self._channel.tell(notice_payloads(self._inner.workspace, records, graph_key))

    async def create_graph(
        self, graph: Graph, mutation: Mutation | None = None, records: Sequence[RecordWrite] = ()
    ) -> Graph:
        created = await self._inner.create_graph(graph, mutation, records)
        self._tell(graph.key, records)
        return created

    async def delete_graph(self, graph_key: str) -> None:
        await self._inner.delete_graph(graph_key)
        self._tell(graph_key, ())

    async def apply(
        self,
        mutation: Mutation,
        *,
        expected_revision: int | None = None,
        records: Sequence[RecordWrite] = (),
    ) -> int:
        revision = await self._inner.apply(
            mutation, expected_revision=expected_revision, records=records
        )
        self._tell(mutation.graph_key, records)
        return revision
