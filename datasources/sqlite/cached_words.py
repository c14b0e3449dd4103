"""The words of a small graph, held in memory: after a write only those of the nodes that changed are read.

The log of changed nodes stands in the file, and is read on the same moment, so it does not matter
which process wrote.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from datasources.lexical import LexicalIndex
from datasources.sqlite import statements as sql
from datasources.sqlite.change_log import TEXT_LOG
from datasources.sqlite.rows import GraphRow, array
from datasources.sqlite.words import content_tokens, name_tokens, stored_words
from datasources.types import SearchField

MAX_CHANGED = 0.1
"""The share of the nodes from which on all words are read again, unless they are few."""

FEW = 10

MAX_UNUSED = 0.5
"""The share of words that no node has any more, from which on the others are collected again."""

_TOKENS = {"content": content_tokens, "name": name_tokens}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CachedWords:
    """One field of a graph at one version of its text. `keys` gives the key of each node's row id."""

    number: int
    index: LexicalIndex
    keys: dict[int, str]

    @property
    def nbytes(self) -> int:
        return self.index.nbytes + 100 * len(self.keys)

    @staticmethod
    def of(
        connection: sqlite3.Connection, row: GraphRow, field: SearchField, older: CachedWords | None
    ) -> CachedWords:
        """Return the words of a graph: all read, or those of an older version with what changed since."""
        if older is not None and older.number < row.text_version:
            changed = TEXT_LOG.changed(connection, row, older.number)
            if changed is not None and older.is_worth_changing(len(changed)):
                return older.with_changes(connection, row, field, changed)
        tokens = _TOKENS[field]
        keys: dict[int, str] = {}
        documents: list[tuple[str, Sequence[str]]] = []
        for rid, key, *words in connection.execute(sql.WORDS_IN_ORDER, row.range):
            keys[rid] = key
            documents.append((key, tokens(words)))
        return CachedWords(number=row.text_version, index=LexicalIndex.build(documents), keys=keys)

    def is_worth_changing(self, changed: int) -> bool:
        """Tell whether to change so many nodes' words is less work than to read all."""
        is_few = changed <= max(FEW, MAX_CHANGED * len(self.keys))
        return is_few and self.index.unused <= MAX_UNUSED * len(self.index.vocabulary)

    def with_changes(
        self, connection: sqlite3.Connection, row: GraphRow, field: SearchField, changed: Sequence[int]
    ) -> CachedWords:
        tokens, words = _TOKENS[field], stored_words(connection, changed)
        found: dict[int, str] = dict(connection.execute(sql.NODE_KEYS, {"rids": array(changed)}).fetchall())
        keys = {**self.keys}
        documents: dict[str, Sequence[str] | None] = {}
        for rid in changed:
            if rid in keys:
                documents[keys.pop(rid)] = None
        for rid, key in found.items():  # after those that went: a node made again has its key
            keys[rid] = key
            documents[key] = tokens(words[rid])
        return CachedWords(number=row.text_version, index=self.index.changed(documents), keys=keys)
