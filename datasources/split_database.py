"""A database that has the graphs of one database and the records of another."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Self, final

from datasources.base import Database, Finding, MutableGraphDataSource, RecordStore
from datasources.notices import NoticeRouter


@final
class SplitDatabase:
    """Implements Database. With records in memory, a trial reads stored graphs and leaves no
    records behind.
    """

    def __init__(self, *, graphs: Database, records: Database) -> None:
        self._graphs = graphs
        self._records = records
        self._opened = AsyncExitStack()

    @property
    def url(self) -> str:
        return self._graphs.url

    @property
    def notices(self) -> NoticeRouter:
        return self._graphs.notices

    def source(self, workspace: str) -> MutableGraphDataSource:
        return self._graphs.source(workspace)

    def records(self, workspace: str) -> RecordStore:
        return self._records.records(workspace)

    async def workspaces(self, kind: str | None = None) -> list[str]:
        owner = self._graphs if kind is None else self._records
        return await owner.workspaces(kind)

    async def check(self) -> list[Finding]:
        return await self._graphs.check()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as opening:
            await opening.enter_async_context(self._graphs)
            await opening.enter_async_context(self._records)
            self._opened = opening.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._opened.aclose()
