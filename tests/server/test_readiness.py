"""`/readyz`: whether the database takes writes, tried seldom."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from datasources.base import RecordStore
from server.health import WriteProbe
from tests.support.service import service


@contextmanager
def full_disk(file: Path) -> Iterator[None]:
    """Let no file grow beyond what this one has."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (file.stat().st_size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


async def test_a_server_whose_disk_is_full_is_not_ready_and_is_again_when_there_is_room(
    tmp_path: Path,
) -> None:
    path = tmp_path / "n.db"
    async with service(db=f"sqlite:{path}") as running, running.client() as monitor:
        running.app.state.write_probe = WriteProbe(every_s=0)
        assert (await monitor.get("/readyz")).status_code == 200
        with full_disk(path.with_name("n.db-wal")):
            answer = await monitor.get("/readyz")
            assert answer.status_code == 503
            assert answer.json() == {"status": "unavailable"}
            assert (await monitor.get("/healthz")).status_code == 200
        assert (await monitor.get("/readyz")).status_code == 200


async def test_however_often_it_is_asked_the_database_is_written_to_seldom() -> None:
    now = 0.0
    async with service() as running:
        records = running.state.shared.database.records("default")
        probe = WriteProbe(every_s=5, clock=lambda: now)

        async def version(store: RecordStore) -> str | None:
            assert await probe.failure(records) == ""
            stored = await store.get("lease", "readyz")
            return stored.version if stored else None

        first = await version(records)
        assert {await version(records) for _ in range(20)} == {first}
        now = 5.0
        assert await version(records) != first
