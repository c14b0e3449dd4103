"""Copies a database file while others write to it, checks copies, and restores them.

Index files are not copied: they are built again from the database.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from pathlib import Path

from datasources.errors import DatabaseBusy, DatabaseDamaged, SourceUnavailable
from datasources.sqlite.schema import BUSY_S, file_version, make_file, make_folder, translate

PAGES = 2_000  # copied between two progress reports: 16 MB

# Receives the number of copied pages, and of all pages.
Progress = Callable[[int, int], None]

_COUNTS = {
    "graphs": "SELECT count(*) FROM graphs",
    "nodes": "SELECT count(*) FROM nodes",
    "edges": "SELECT count(*) FROM edges",
    "records": "SELECT count(*) FROM records",
    "audit entries": "SELECT count(*) FROM records WHERE kind = 'audit' AND data ->> '$.hash' NOTNULL",
}
_WORKSPACES = "SELECT workspace FROM graphs UNION SELECT workspace FROM records"


def back_up(
    path: Path, target: Path, on_progress: Progress, *, force: bool = False
) -> dict[str, int]:
    """Writes a consistent copy of the database and returns its counts by name.

    `target` appears complete and checked, or not at all. Raises: SourceError, FileExistsError.
    """
    if target.exists() and not force:
        raise FileExistsError(target)
    with _replacing(target) as part:
        _copy(path, part, on_progress)
        return inspect(part)


@contextmanager
def _replacing(target: Path) -> Generator[Path]:
    """Yields an empty file, which replaces the target when the block ends without an error."""
    part = target.with_name(target.name + ".part")
    try:
        make_folder(target.parent)
        part.unlink(missing_ok=True)
        make_file(part)
        yield part
        _into_place(part, target)
    except OSError as exc:
        raise SourceUnavailable(source=str(target), reason=exc.strerror or str(exc)) from exc
    finally:
        _remove(part)


def _copy(path: Path, part: Path, on_progress: Progress) -> None:
    try:
        with (
            closing(_opened(path, "ro")) as source,
            closing(sqlite3.connect(part, isolation_level=None)) as copy,
        ):
            source.execute("BEGIN")
            source.execute("SELECT count(*) FROM meta").fetchone()  # begins the snapshot
            source.backup(
                copy, pages=PAGES, progress=lambda _, left, all_: on_progress(all_ - left, all_)
            )
    except sqlite3.Error as exc:
        raise translate(exc, path) from exc


def inspect(path: Path) -> dict[str, int]:
    """Checks a whole database file and returns its counts by name.

    Raises: DatabaseDamaged, DatabaseVersion, SourceUnavailable.
    """
    if not path.is_file():
        raise SourceUnavailable(source=str(path), reason="there is no such file")
    try:
        with closing(_opened(path, "rw")) as connection:
            if not file_version(connection, path):
                raise DatabaseDamaged(path=str(path), reason="there is nothing in it")
            problems = [text for (text,) in connection.execute("PRAGMA integrity_check(5)")]
            if problems != ["ok"]:
                raise DatabaseDamaged(path=str(path), reason="; ".join(problems))
            return {
                name: connection.execute(count).fetchone()[0] for name, count in _COUNTS.items()
            }
    except sqlite3.Error as exc:
        raise translate(exc, path) from exc


def workspaces_of(path: Path) -> list[str]:
    """Returns the workspaces that have graphs or records in a file. Raises: SourceError."""
    try:
        with closing(_opened(path, "ro")) as connection:
            return sorted(name for (name,) in connection.execute(_WORKSPACES))
    except sqlite3.Error as exc:
        raise translate(exc, path) from exc


def restore(copy: Path, path: Path, *, force: bool = False) -> dict[str, int]:
    """Replaces the database by a copy and returns the counts of the copy by name.

    The previous database is kept beside it as `NAME.before-restore`.
    Raises: SourceError, FileExistsError (a database exists, without `force`),
    DatabaseBusy (in use).
    """
    if path.exists() and not force:
        raise FileExistsError(path)
    with _replacing(path) as part:
        shutil.copyfile(copy, part)
        counts = inspect(part)
        if path.exists():
            _close_for_all(path)
            path.replace(path.with_name(path.name + ".before-restore"))
        # Indexes of the previous database may have the same versions with other content.
        shutil.rmtree(path.with_name(path.name + "-indexes"), ignore_errors=True)
        return counts


def _close_for_all(path: Path) -> None:
    """Moves the log into the file, which SQLite does only if no other connection is open."""
    try:
        with closing(sqlite3.connect(path, timeout=0.5, isolation_level=None)) as connection:
            connection.execute("PRAGMA journal_mode = DELETE")
    except sqlite3.OperationalError as exc:
        if (exc.sqlite_errorcode & 0xFF) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise DatabaseBusy(path=str(path), seconds=0.5) from exc
        raise translate(exc, path) from exc
    except sqlite3.DatabaseError:
        return  # a damaged database may be replaced


def _opened(path: Path, mode: str) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    return sqlite3.connect(uri, uri=True, timeout=BUSY_S, isolation_level=None)


def _into_place(part: Path, target: Path) -> None:
    with part.open("r+b") as file:
        os.fsync(file.fileno())
    part.replace(target)
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _remove(part: Path) -> None:
    for ending in ("", "-wal", "-shm", "-journal"):
        part.with_name(part.name + ending).unlink(missing_ok=True)
