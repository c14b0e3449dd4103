"""Copies of a database file: made while others write to it, checked, and put in its place again.

Index files are not copied: they are built again from the file.
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

PAGES = 2_000
"""Pages copied between two reports of progress: 16 MB."""

Progress = Callable[[int, int], None]
"""Receives how many pages are copied, of how many."""

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
    """Write a copy of the database as it is at one moment; return what it holds.

    `target` appears whole and checked, or not at all. Raises: SourceError, FileExistsError.
    """
    if target.exists() and not force:
        raise FileExistsError(target)
    with _replacing(target) as part:
        _copy(path, part, on_progress)
        return inspect(part)


@contextmanager
def _replacing(target: Path) -> Generator[Path]:
    """Yield an empty file, which takes the place of the target when the block has ended
    without an error.
    """
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
            source.execute("SELECT count(*) FROM meta").fetchone()  # from here on it is one moment
            source.backup(
                copy, pages=PAGES, progress=lambda _, left, all_: on_progress(all_ - left, all_)
            )
    except sqlite3.Error as exc:
        raise translate(exc, path) from exc


def inspect(path: Path) -> dict[str, int]:
    """Check a whole database file and return what it holds, by what it is called.

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
    """Return the workspaces that have something in a database file. Raises: SourceError."""
    try:
        with closing(_opened(path, "ro")) as connection:
            return sorted(name for (name,) in connection.execute(_WORKSPACES))
    except sqlite3.Error as exc:
        raise translate(exc, path) from exc


def restore(copy: Path, path: Path, *, force: bool = False) -> dict[str, int]:
    """Put a copy in the place of the database; return what it holds.

    The database that was there is kept beside it as `NAME.before-restore`.
    Raises: SourceError, FileExistsError (there is a database, without `force`),
    DatabaseBusy (in use).
    """
    if path.exists() and not force:
        raise FileExistsError(path)
    with _replacing(path) as part:
        shutil.copyfile(copy, part)
        held = inspect(part)
        if path.exists():
            _close_for_all(path)
            path.replace(path.with_name(path.name + ".before-restore"))
        # What indexes know of a version may be another history's.
        shutil.rmtree(path.with_name(path.name + "-indexes"), ignore_errors=True)
        return held


def _close_for_all(path: Path) -> None:
    """Move the log into the file, which SQLite does only where nobody else has it open."""
    try:
        with closing(sqlite3.connect(path, timeout=0.5, isolation_level=None)) as connection:
            connection.execute("PRAGMA journal_mode = DELETE")
    except sqlite3.OperationalError as exc:
        if (exc.sqlite_errorcode & 0xFF) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise DatabaseBusy(path=str(path), seconds=0.5) from exc
        raise translate(exc, path) from exc
    except sqlite3.DatabaseError:
        return  # damaged: that is why it is replaced


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
