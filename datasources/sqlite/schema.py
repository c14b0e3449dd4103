"""The tables of the embedded database; opens, creates or refuses a file.

Every node and edge has a row id `graph_id << 32 | number`: the rows of a graph are one range in
every table and in the full-text index, so a search within a graph is a range constraint.

Decision: text is stored tokenised by `datasources.text`, and FTS5 only splits it at spaces. All
sources then agree on what a word is, and exact scoring needs no second tokenisation.

Decision: vectors are kept as float32, not halved to float16, because an undo must restore
them byte for byte. The index beside the file has codes of 8 bits in addition.

Decision: `text_log` and `vector_log` keep one row a node, with the graph's text or vector version
at which it last changed, so they stay as small as the graph. Changes up to the floor are not in
the log: an index that is older than the floor is not used.
"""

from __future__ import annotations

import os
import sqlite3
import uuid
from importlib import resources
from pathlib import Path

from datasources.errors import (
    DatabaseBusy,
    DatabaseDamaged,
    DatabaseOutdated,
    DatabaseVersion,
    SourceError,
    SourceUnavailable,
)
from datasources.record_kinds import RECORD_INDEXES
from datasources.text import WORDS_VERSION

APPLICATION_ID = 0x4E6F6475  # "Nodu"
VERSION = 5
BUSY_S = 10.0
# Files hold conversations and code. Existing ones keep their permissions.
FILE_MODE = 0o600
FOLDER_MODE = 0o700

PAGE_BYTES = 8192  # holds three nodes' vectors of 256 dimensions; the default page holds one
MMAP_BYTES = 8 << 30
CACHE_KIB = 64 << 10
ONCE_CACHE_KIB = 4 << 10
# Pages of the log (64 MB) before it is moved to the file: an import changes pages many times.
CHECKPOINT_PAGES = 8_000

# The statements that create a new file.
TABLES = tuple(
    filter(
        str.strip,
        resources.files(__package__ or "").joinpath("schema.sql").read_text("utf-8").split(";"),
    )
)

# The indexes of the record fields that may be queried, by name. Opening a file makes those that it
# lacks. They have no version: programs that do not know them are not disturbed.
RECORD_INDEX_STATEMENTS = {
    f"records_{kind}_{name}": f"CREATE INDEX IF NOT EXISTS records_{kind}_{name} "
    f"ON records (workspace, json_extract(data, '$.{name}'), key) WHERE kind = '{kind}'"
    for kind, names in RECORD_INDEXES.items()
    for name in names
}

# The name in `meta` of the version of `datasources.text` that computed the words of all graphs.
WORDS = "words"

# The name in `meta` of a number that changes with any graph or node type, so that parsed types
# are known to be current. Triggers count, because programs of before do not; such programs also
# rely on the count for graphs.
GRAPH_CHANGES = "graph_changes"
TRIGGER_STATEMENTS = {
    f"{table}_{change.lower()}_counted": f"CREATE TRIGGER IF NOT EXISTS {table}_{change.lower()}_counted "
    f"AFTER {change} ON {table} BEGIN "
    f"UPDATE meta SET value = CAST(value AS INTEGER) + 1 WHERE name = '{GRAPH_CHANGES}'; END"
    for table in ("graphs", "configs")
    for change in ("INSERT", "UPDATE", "DELETE")
}


def make_folder(path: Path) -> None:
    """Creates a folder for its owner alone if missing; its parents get the usual permissions.

    Raises: OSError.
    """
    path.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)


def make_file(path: Path) -> None:
    """Creates an empty file for its owner alone if missing. Raises: OSError.

    SQLite gives the files beside a database (its write-ahead log) the permissions of the database.
    """
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, FILE_MODE))


def connect(path: Path, *, once_through: bool = False) -> sqlite3.Connection:
    """Opens one connection with our settings; the file must be prepared.

    One that reads much of the file `once_through` caches few pages and maps nothing.
    """
    connection = sqlite3.connect(
        path, timeout=BUSY_S, isolation_level=None, check_same_thread=False, cached_statements=256
    )
    try:
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(f"PRAGMA mmap_size = {0 if once_through else MMAP_BYTES:d}")
        cache_kib = ONCE_CACHE_KIB if once_through else CACHE_KIB
        connection.execute(f"PRAGMA cache_size = -{cache_kib:d}")
        connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES:d}")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def prepare(path: Path) -> None:
    """Creates the file, or adds the indexes and triggers that it lacks.

    Raises: SourceUnavailable (cannot be opened), DatabaseDamaged (no database, not ours),
    DatabaseOutdated, DatabaseVersion (made by a newer program), DatabaseBusy. A refused file is
    not changed.
    """
    if path.is_dir():
        raise SourceUnavailable(source=str(path), reason="it is a directory")
    try:
        make_folder(path.parent)
        if not path.exists():
            make_file(path)
        connection = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None)
    except OSError as exc:
        raise SourceUnavailable(source=str(path), reason=exc.strerror or str(exc)) from exc
    except sqlite3.OperationalError as exc:
        raise SourceUnavailable(source=str(path), reason=str(exc)) from exc
    try:
        _prepare(connection, path)
    except sqlite3.Error as exc:
        raise translate(exc, path) from exc
    finally:
        connection.close()


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    version = file_version(connection, path)
    if version == VERSION and _is_complete(connection):
        return
    if version == 0:
        connection.execute(f"PRAGMA page_size = {PAGE_BYTES:d}")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("BEGIN IMMEDIATE")
    try:
        # another process may have created them meanwhile
        tables = TABLES if file_version(connection, path) == 0 else ()
        for statement in (*tables, *RECORD_INDEX_STATEMENTS.values(), *TRIGGER_STATEMENTS.values()):
            connection.execute(statement)
        connection.executemany(
            "INSERT OR IGNORE INTO meta (name, value) VALUES (?, ?)",
            [
                ("identity", uuid.uuid4().hex),
                (GRAPH_CHANGES, "0"),
                *((WORDS, str(WORDS_VERSION)),) * bool(tables),
            ],
        )
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID:d}")
        connection.execute(f"PRAGMA user_version = {VERSION:d}")
        connection.execute("COMMIT")
    except sqlite3.OperationalError as exc:
        if "fts5" in str(exc):
            reason = "this Python's SQLite has no FTS5; use a Python built with it"
            raise SourceUnavailable(source=str(path), reason=reason) from exc
        raise
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _is_complete(connection: sqlite3.Connection) -> bool:
    rows = connection.execute("SELECT name FROM sqlite_master WHERE type IN ('index', 'trigger')")
    return RECORD_INDEX_STATEMENTS.keys() | TRIGGER_STATEMENTS.keys() <= {name for (name,) in rows}


def file_version(connection: sqlite3.Connection, path: Path) -> int:
    """Returns the version of our tables in a file, 0 if it is empty.

    Raises: DatabaseDamaged (not ours), DatabaseOutdated, DatabaseVersion (of a newer program).
    """
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if tables == 0 and version == 0 and application in (0, APPLICATION_ID):
        return 0
    if application != APPLICATION_ID:
        raise DatabaseDamaged(path=str(path), reason="it is a database of another program")
    if version > VERSION:
        raise DatabaseVersion(path=str(path), found=version, supported=VERSION)
    if version < VERSION:
        raise DatabaseOutdated(path=str(path), found=version, supported=VERSION)
    return version


def translate(exc: sqlite3.Error, path: Path) -> SourceError:
    """Returns the SourceError for an error of SQLite."""
    code = getattr(exc, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return DatabaseBusy(path=str(path), seconds=BUSY_S)
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return DatabaseDamaged(path=str(path), reason=str(exc))
    return SourceUnavailable(source=str(path), reason=str(exc))
