"""The embedded database: opens a file, provides sources and records, and checks its health."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Self, final

from datasources.base import Finding, MutableGraphDataSource, RecordStore
from datasources.errors import SourceError, SourceUnavailable
from datasources.notices import SILENT, NoticeRouter
from datasources.sqlite import statements as sql
from datasources.sqlite.engine import Engine, Limits
from datasources.sqlite.records import SqliteRecords, is_comparable
from datasources.sqlite.schema import VERSION, prepare
from datasources.sqlite.source import SqliteSource
from datasources.sqlite.word_version import renew_words

CHECKED_BYTES = 512 << 20  # size up to which a health check reads the whole file


@final
class SqliteDatabase:
    """Implements Database with one file, which other processes may read and write."""

    def __init__(self, path: Path, *, limits: Limits | None = None) -> None:
        self._path = path
        self._limits = limits or Limits()
        self._engine: Engine | None = None

    @property
    def url(self) -> str:
        return f"sqlite:{self._path}"

    @property
    def _opened(self) -> Engine:
        if self._engine is None:
            raise SourceUnavailable(source=self.url, reason="the database is not open")
        return self._engine

    @property
    def notices(self) -> NoticeRouter:
        return SILENT

    def source(self, workspace: str) -> MutableGraphDataSource:
        return SqliteSource(self._opened, workspace)

    def records(self, workspace: str) -> RecordStore:
        return SqliteRecords(self._opened.pool, workspace)

    async def workspaces(self, kind: str | None = None) -> list[str]:
        statement, values = (
            (sql.WORKSPACES, {}) if kind is None else (sql.RECORD_WORKSPACES, {"kind": kind})
        )
        if kind is not None and not is_comparable(kind):
            return []
        return await self._opened.pool.read(
            lambda connection: [name for (name,) in connection.execute(statement, values)]
        )

    async def check(self) -> list[Finding]:
        try:
            graphs, nodes, edges, problems = await self._opened.pool.read(self._look)
        except SourceError as exc:
            return [Finding("database", "error", str(exc))]
        size = self._path.stat().st_size
        findings = [
            Finding(
                "database",
                "ok",
                f"{self.url}, schema {VERSION}, {size / 1e6:,.1f} MB: "
                f"{graphs:,} graphs, {nodes:,} nodes, {edges:,} edges",
            )
        ]
        if problems:
            fix = "stop writing to it and restore a copy, or export what can still be read"
            findings.append(Finding("integrity", "error", problems, fix))
        return findings

    def _look(self, connection: sqlite3.Connection) -> tuple[int, int, int, str]:
        graphs, nodes, edges = connection.execute(sql.TOTALS).fetchone()
        if self._path.stat().st_size > CHECKED_BYTES:
            return graphs, nodes, edges, ""
        rows = [text for (text,) in connection.execute("PRAGMA quick_check(5)")]
        return graphs, nodes, edges, "" if rows == ["ok"] else "; ".join(rows)

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(prepare, self._path)
        await asyncio.to_thread(renew_words, self._path)
        # in a thread, because it reads and removes files
        self._engine = await asyncio.to_thread(Engine, self._path, self._limits)
        return self

    async def __aexit__(self, *_: object) -> None:
        engine = self._engine
        self._engine = None
        if engine is not None:
            await asyncio.to_thread(engine.close)
