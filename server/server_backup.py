"""The backup that an admin makes from the page: one at a time, a file in a temporary folder."""

from __future__ import annotations

import asyncio
import logging
import tempfile
from pathlib import Path
from typing import Any, Literal, final

from graphrag.app.database_copies import (
    DatabaseKind,
    back_up_database,
    database_kind,
    has_file_copy,
)
from graphrag.config import Settings
from graphrag.errors import describe
from graphrag.leases import now_ms
from graphrag.workers import end_tasks
from server.bodies import AnswerBody

log = logging.getLogger(__name__)


StateOfBackup = Literal["none", "running", "done", "failed", "unsupported"]
_SUFFIXES = {"postgres": "dump"}


class BackupState(AnswerBody):
    """Units: `time` in milliseconds since 1970. `holds`: what the copy contains, by name.

    `state` unsupported: no copy in one file can be made of this database here.
    """

    state: StateOfBackup
    database: DatabaseKind
    progress: str = ""
    time: int | None = None
    size: int | None = None
    holds: dict[str, int] | None = None


@final
class ServerBackup:
    """Copies the database to a file that is deleted with the server, or by the next backup."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._task: asyncio.Task[None] | None = None
        self._kind: DatabaseKind = database_kind(settings.db)
        self._state = self._in("none" if has_file_copy(settings.db) else "unsupported")
        self._file: Path | None = None

    def _in(self, state: StateOfBackup, **facts: Any) -> BackupState:
        return BackupState(state=state, database=self._kind, **facts)

    @property
    def state(self) -> BackupState:
        return self._state

    @property
    def file(self) -> Path | None:
        """The latest finished copy."""
        return self._file

    def begin(self) -> BackupState:
        """Begins a backup unless one is under way; returns the state."""
        if self._state.state not in ("running", "unsupported"):
            self._state = self._in("running")
            self._task = asyncio.create_task(self._copy())
        return self._state

    async def aclose(self) -> None:
        await end_tasks(self._task)
        self._drop()

    def _drop(self) -> None:
        self._file = None
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    async def _copy(self) -> None:
        await asyncio.to_thread(self._drop)
        self._folder = await asyncio.to_thread(tempfile.TemporaryDirectory, prefix="nodius-backup-")
        began = now_ms()
        target = Path(self._folder.name) / f"nodius-{began}.{_SUFFIXES.get(self._kind, 'db')}"

        def report(text: str) -> None:
            self._state = self._in("running", progress=text)

        try:
            holds = await back_up_database(self._settings, target, report)
        except Exception as exc:  # an unexpected one is logged, and the state says that it failed
            log.exception("backup_failed")
            told = describe(exc, self._settings.language)
            self._state = self._in("failed", progress=told.message if told else "")
            return
        size = (await asyncio.to_thread(target.stat)).st_size
        self._file = target
        self._state = self._in("done", time=began, size=size, holds=holds)
