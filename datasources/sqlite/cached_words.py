"""The words of a small graph, held in memory: after a write only those of the nodes that changed are read.

Who wrote does not matter: the log of changed nodes stands in the file, and is read on the same moment.
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
"""The share of the nodes from which on all words are read anew, unless they are few."""

FEW = 10

MAX_UNUSED = 0.5
"""The share of words that no node has any more, from which on the others are collected anew."""

_TOKENS = {"content": content_tokens, "name": name_tokens}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HeldWords:
    """One field of a graph at one version of its text. `keys` gives the key of each node's row id."""

    number: int
    index: LexicalIndex
    keys: dict[int, str]

    @property
    def nbytes(self) -> int:
        return self.index.nbytes + 100 * len(self.keys)

    @staticmethod
    def load(connection: sqlite3.Connection, row: GraphRow, field: SearchField) -> HeldWords:
        """Read all words of a graph."""
        tokens = _TOKENS[field]
        keys: dict[int, str] = {}
        documents: list[tuple[str, Sequence[str]]] = []
        for rid, key, *words in connection.execute(sql.WORDS_IN_ORDER, row.range):
            keys[rid] = key
            documents.append((key, tokens(words)))
        return HeldWords(number=row.text_version, index=LexicalIndex.build(documents), keys=keys)

    def refreshed(self, connection: sqlite3.Connection, row: GraphRow, field: SearchField) -> HeldWords:
        """Return the words of the graph as it is now. They may be of a newer version already."""
        changed = TEXT_LOG.changed(connection, row, self.number) if self.number < row.text_version else None
        index = self.index
        if (
            changed is None
            or len(changed) > max(FEW, MAX_CHANGED * len(self.keys))
            or index.unused > MAX_UNUSED * len(index.vocabulary)
        ):
            return HeldWords.load(connection, row, field)
        tokens, words = _TOKENS[field], stored_words(connection, changed)
        found: dict[int, str] = dict(connection.execute(sql.NODE_KEYS, {"rids": array(changed)}).fetchall())
        keys = {**self.keys}
        documents: dict[str, Sequence[str] | None] = {}
        for rid in changed:
            if rid in keys:
                documents[keys.pop(rid)] = None
        for rid, key in found.items():  # after those that went: a node made anew has its key
            keys[rid] = key
            documents[key] = tokens(words[rid])
        return HeldWords(number=row.text_version, index=index.changed(documents), keys=keys)
