"""Updates stored words that were computed by an older version of `datasources.text`."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from datasources.builtin_types import types_by_name
from datasources.sqlite import statements as sql
from datasources.sqlite.schema import WORDS, connect, translate
from datasources.sqlite.visible_types import read_configs
from datasources.sqlite.words import reindex_types
from datasources.text import PLAIN_LETTERS, WORDS_VERSION

# A pattern for texts with a letter whose words changed in version 2.
_LETTERS = "*[" + "".join(map(chr, PLAIN_LETTERS)) + "ς]*"


def renew_words(path: Path) -> None:
    """Updates the words of every graph that needs it; does nothing if the file is up to date.

    Raises: DatabaseBusy, DatabaseDamaged, SourceUnavailable.
    """
    connection = connect(path)
    try:
        _renew(connection)
    except sqlite3.Error as exc:
        raise translate(exc, path) from exc
    finally:
        connection.close()


def _renew(connection: sqlite3.Connection) -> None:
    if _is_current(connection.execute(sql.WORDS_MADE, {"name": WORDS}).fetchone()):
        return
    connection.execute("BEGIN IMMEDIATE")
    for graph, workspace in connection.execute(
        sql.GRAPHS_WITH_TEXT, {"letters": _LETTERS}
    ).fetchall():
        types = dict(connection.execute(sql.TYPE_COUNTS, {"graph": graph}).fetchall())
        reindex_types(connection, graph, types, types_by_name(read_configs(connection, workspace)))
    connection.execute(sql.WORDS_ARE_MADE, {"name": WORDS, "value": str(WORDS_VERSION)})
    connection.execute("COMMIT")


def _is_current(row: tuple[str] | None) -> bool:
    return row is not None and int(row[0]) >= WORDS_VERSION
