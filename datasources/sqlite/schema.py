"""Tables of the embedded database, and how a file is opened, created or refused.

Every node and edge has a row id `graph_id << 32 | number`: the rows of a graph are one range in
every table and in the full-text index, so a search within a graph is a range constraint.

Decision: text is stored tokenised by `datasources.text`, and FTS5 only splits it at spaces. Every
source then agrees on what a word is, and exact re-scoring needs no second tokenisation.

Decision: vectors are kept as float32, not halved to float16, because an undo must give back what
was there byte for byte. The approximate index beside the file is quantised instead.

Decision: `text_log` and `vector_log` keep one row a node, with the graph's text or vector version
at which it last changed, so they stay as small as the graph. Changes up to the floor are not in
the log: an index file that is older than the floor is of no use any more.
"""

from __future__ import annotations

import os
import sqlite3
import uuid
from pathlib import Path

from datasources.errors import DatabaseBusy, DatabaseDamaged, DatabaseVersion, SourceError, SourceUnavailable
from datasources.record_kinds import RECORD_INDEXES

APPLICATION_ID = 0x4E6F6475  # "Nodu"
VERSION = 5
BUSY_S = 10.0
FILE_MODE, FOLDER_MODE = 0o600, 0o700
"""Conversations and code lie in them. What exists already keeps the permissions that somebody gave it."""

PAGE_BYTES = 8192  # holds three nodes' vectors of 256 dimensions; the default page holds one
MMAP_BYTES = 8 << 30
CACHE_KIB = 64 << 10
PASSING_CACHE_KIB = 4 << 10
CHECKPOINT_PAGES = 8_000
"""64 MB of changes are gathered before they go to the file: an import changes many pages many times."""

TABLES = (
    """CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID""",
    """CREATE TABLE graphs (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        key TEXT NOT NULL UNIQUE,
        workspace TEXT NOT NULL,
        revision INTEGER NOT NULL DEFAULT 0,
        text_version INTEGER NOT NULL DEFAULT 0,
        vector_version INTEGER NOT NULL DEFAULT 0,
        text_log_floor INTEGER NOT NULL DEFAULT 0,
        vector_log_floor INTEGER NOT NULL DEFAULT 0,
        next_number INTEGER NOT NULL DEFAULT 1,
        nodes INTEGER NOT NULL DEFAULT 0,
        edges INTEGER NOT NULL DEFAULT 0,
        content_words INTEGER NOT NULL DEFAULT 0,
        name_words INTEGER NOT NULL DEFAULT 0,
        body BLOB NOT NULL
    )""",
    """CREATE INDEX graphs_workspace ON graphs (workspace, key)""",
    """CREATE TABLE nodes (
        rid INTEGER PRIMARY KEY,
        graph INTEGER NOT NULL REFERENCES graphs (id) ON DELETE CASCADE,
        key TEXT NOT NULL,
        sheet TEXT NOT NULL,
        type TEXT NOT NULL,
        body BLOB NOT NULL
    )""",
    """CREATE UNIQUE INDEX nodes_key ON nodes (graph, key)""",
    """CREATE INDEX nodes_type ON nodes (graph, type)""",
    """CREATE TABLE edges (
        rid INTEGER PRIMARY KEY,
        graph INTEGER NOT NULL REFERENCES graphs (id) ON DELETE CASCADE,
        key TEXT NOT NULL,
        sheet TEXT NOT NULL,
        source INTEGER NOT NULL REFERENCES nodes (rid) ON DELETE CASCADE,
        target INTEGER NOT NULL REFERENCES nodes (rid) ON DELETE CASCADE,
        body BLOB NOT NULL
    )""",
    """CREATE UNIQUE INDEX edges_key ON edges (graph, key)""",
    """CREATE INDEX edges_source ON edges (source, target)""",
    """CREATE INDEX edges_target ON edges (target, source)""",
    """CREATE TABLE configs (
        workspace TEXT NOT NULL,
        key TEXT NOT NULL,
        type TEXT NOT NULL,
        body BLOB NOT NULL,
        PRIMARY KEY (workspace, key)
    ) WITHOUT ROWID""",
    """CREATE VIRTUAL TABLE words USING fts5 (
        key, name, type, type_name, description, data, process, tokenize = 'ascii'
    )""",
    """CREATE TABLE vectors (
        rid INTEGER PRIMARY KEY REFERENCES nodes (rid) ON DELETE CASCADE,
        model TEXT NOT NULL,
        hash TEXT NOT NULL,
        dim INTEGER NOT NULL,
        content BLOB NOT NULL,
        name BLOB
    )""",
    """CREATE TABLE vector_counts (
        graph INTEGER NOT NULL REFERENCES graphs (id) ON DELETE CASCADE,
        model TEXT NOT NULL,
        dim INTEGER NOT NULL,
        count INTEGER NOT NULL,
        PRIMARY KEY (graph, model, dim)
    ) WITHOUT ROWID""",
    """CREATE TABLE text_log (
        rid INTEGER PRIMARY KEY,
        graph INTEGER NOT NULL REFERENCES graphs (id) ON DELETE CASCADE,
        number INTEGER NOT NULL
    )""",
    """CREATE INDEX text_log_number ON text_log (graph, number)""",
    """CREATE TABLE vector_log (
        rid INTEGER PRIMARY KEY,
        graph INTEGER NOT NULL REFERENCES graphs (id) ON DELETE CASCADE,
        number INTEGER NOT NULL
    )""",
    """CREATE INDEX vector_log_number ON vector_log (graph, number)""",
    """CREATE TABLE records (
        workspace TEXT NOT NULL,
        kind TEXT NOT NULL,
        key TEXT NOT NULL,
        version INTEGER NOT NULL,
        data TEXT NOT NULL,
        PRIMARY KEY (workspace, kind, key)
    ) WITHOUT ROWID""",
    """CREATE TABLE uses (
        entry TEXT NOT NULL,
        rid INTEGER NOT NULL REFERENCES nodes (rid) ON DELETE CASCADE,
        PRIMARY KEY (entry, rid)
    ) WITHOUT ROWID""",
    """CREATE INDEX uses_rid ON uses (rid)""",
    # Less merging than at FTS5's own setting, and more parts to search.
    """INSERT INTO words (words, rank) VALUES ('automerge', 8)""",
)
"""What a new file is made with."""

RECORD_INDEX_STATEMENTS = {
    f"records_{kind}_{name}": f"CREATE INDEX IF NOT EXISTS records_{kind}_{name} "
    f"ON records (workspace, json_extract(data, '$.{name}'), key) WHERE kind = '{kind}'"
    for kind, names in RECORD_INDEXES.items()
    for name in names
}
"""The indexes of the record fields that may be queried, by name (names come from RECORD_INDEXES alone).

Any opening makes those that a file lacks. They are of no version: to a program without them they do no harm.
"""

GRAPH_CHANGES = "graph_changes"
"""The name in `meta` of a number that is another after any change of a graph or of the types of nodes.

Any change of nodes, edges or vectors changes the row of their graph. Triggers count, so that programs which
do not know of the number count too; they are made as the indexes of records are.
"""
TRIGGER_STATEMENTS = {
    f"{table}_{change.lower()}_counted": f"CREATE TRIGGER IF NOT EXISTS {table}_{change.lower()}_counted "
    f"AFTER {change} ON {table} BEGIN "
    f"UPDATE meta SET value = CAST(value AS INTEGER) + 1 WHERE name = '{GRAPH_CHANGES}'; END"
    for table in ("graphs", "configs")
    for change in ("INSERT", "UPDATE", "DELETE")
}


def make_folder(path: Path) -> None:
    """Make a folder for its owner alone where there is none; those above it are made as others are.

    Raises: OSError.
    """
    path.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)


def make_file(path: Path) -> None:
    """Make an empty file for its owner alone where there is none. Raises: OSError.

    SQLite gives the files beside a database (its write-ahead log) the permissions of the database.
    """
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, FILE_MODE))


def connect(path: Path, *, once_through: bool = False) -> sqlite3.Connection:
    """Open one connection with our settings; the file must be ours already.

    One that reads much of it `once_through` holds nothing of what it has read: neither pages nor a mapping.
    """
    connection = sqlite3.connect(
        path, timeout=BUSY_S, isolation_level=None, check_same_thread=False, cached_statements=256
    )
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute(f"PRAGMA mmap_size = {0 if once_through else MMAP_BYTES:d}")
    connection.execute(f"PRAGMA cache_size = -{PASSING_CACHE_KIB if once_through else CACHE_KIB:d}")
    connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES:d}")
    return connection


def prepare(path: Path) -> None:
    """Make the file ready: create it, or give it the indexes of records that it lacks.

    Raises: SourceUnavailable (cannot be opened), DatabaseDamaged (no database, not ours, or of before the
    first release), DatabaseVersion (made by a newer program), DatabaseBusy. A refused file is left as it was.
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
    found = file_version(connection, path)
    if found == VERSION and _is_complete(connection):
        return
    if found == 0:
        connection.execute(f"PRAGMA page_size = {PAGE_BYTES:d}")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("BEGIN IMMEDIATE")
    try:
        tables = TABLES if file_version(connection, path) == 0 else ()  # another process may have been first
        for statement in (*tables, *RECORD_INDEX_STATEMENTS.values(), *TRIGGER_STATEMENTS.values()):
            connection.execute(statement)
        connection.executemany(
            "INSERT OR IGNORE INTO meta (name, value) VALUES (?, ?)",
            [("identity", uuid.uuid4().hex), (GRAPH_CHANGES, "0")],
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
    found = connection.execute("SELECT name FROM sqlite_master WHERE type IN ('index', 'trigger')")
    return RECORD_INDEX_STATEMENTS.keys() | TRIGGER_STATEMENTS.keys() <= {name for (name,) in found}


def file_version(connection: sqlite3.Connection, path: Path) -> int:
    """Return the version of our tables in a file, 0 where it is empty.

    Raises: DatabaseDamaged (not ours, or of before the first release), DatabaseVersion (of a newer program).
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
        raise DatabaseDamaged(path=str(path), reason="it was made before the first release of this program")
    return version


def translate(exc: sqlite3.Error, path: Path) -> SourceError:
    """Return what an SQLite error means to a caller."""
    code = getattr(exc, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return DatabaseBusy(path=str(path), seconds=BUSY_S)
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return DatabaseDamaged(path=str(path), reason=str(exc))
    return SourceUnavailable(source=str(path), reason=str(exc))
