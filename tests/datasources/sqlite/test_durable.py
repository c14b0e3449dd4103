"""What survives a power cut: a durable write returns once the log was synced after its commit."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from datasources.base import Record
from datasources.errors import SourceUnavailable
from datasources.sqlite import SqliteDatabase


def a_record(kind: str, key: str) -> Record:
    return Record(kind=kind, key=key, data={"n": key})


@pytest.fixture
def syncs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How large the log was at each sync."""
    seen: list[int] = []
    sync = os.fsync

    def counted(number: int) -> None:
        seen.append(os.fstat(number).st_size)
        sync(number)

    monkeypatch.setattr(os, "fsync", counted)
    return seen


async def test_decisions_audit_and_journal_are_synced_and_leases_are_not(
    tmp_path: Path, syncs: list[int]
) -> None:
    async with SqliteDatabase(tmp_path / "n.db") as database:
        records = database.records("w")
        await records.put(a_record("lease", "a"), expected_version=None)
        assert syncs == []
        for count, kind in enumerate(("approval", "audit", "journal", "history"), start=1):
            await records.put(a_record(kind, "a"), expected_version=None)
            assert len(syncs) == count
            assert syncs[-1] == (tmp_path / "n.db-wal").stat().st_size


async def test_writes_at_once_share_a_sync_that_begins_after_the_last_of_them(
    tmp_path: Path, syncs: list[int]
) -> None:
    async with SqliteDatabase(tmp_path / "n.db") as database:
        records = database.records("w")
        put = (records.put(a_record("audit", str(i)), expected_version=None) for i in range(64))
        await asyncio.gather(*put)
        assert len(syncs) < 64
        assert syncs[-1] == (tmp_path / "n.db-wal").stat().st_size


async def test_a_log_that_cannot_be_synced_is_an_error_of_the_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(_: int) -> None:
        raise OSError(5, "Input/output error")

    async with SqliteDatabase(tmp_path / "n.db") as database:
        records = database.records("w")
        monkeypatch.setattr(os, "fsync", failing)
        with pytest.raises(SourceUnavailable):
            await records.put(a_record("audit", "a"), expected_version=None)
        monkeypatch.undo()
        await records.put(a_record("audit", "b"), expected_version=None)
