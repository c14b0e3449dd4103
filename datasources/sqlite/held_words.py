"""The words of a held graph in memory.

After a write only the words of changed nodes are read again: at 24,000 nodes and edges this takes
30 ms, reading all words 180 ms. The log of changed nodes is read in the same transaction as the
words, so it does not matter which process wrote.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from datasources.hits import SearchField
from datasources.lexical import LexicalIndex
from datasources.sqlite import statements as sql
from datasources.sqlite.change_log import TEXT_LOG
from datasources.sqlite.rows import GraphRow, keys_of
from datasources.sqlite.words import content_tokens, name_tokens, stored_words

# All words are read again when more than this share of the nodes changed, unless they are few.
MAX_CHANGED = 0.1
FEW = 10  # nodes

# All words are read again when this share of the vocabulary occurs in no node any more.
MAX_UNUSED = 0.5

_TOKENS = {"content": content_tokens, "name": name_tokens}


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HeldWords:
    """The words of one field of all nodes. `keys` maps row ids to keys."""

    number: int
    index: LexicalIndex
    keys: dict[int, str]

    @property
    def nbytes(self) -> int:
        return self.index.nbytes + 100 * len(self.keys)

    @staticmethod
    def load(
        connection: sqlite3.Connection, row: GraphRow, field: SearchField, older: HeldWords | None
    ) -> HeldWords:
        """Reads the words of a graph: all, or only those that changed since an older version."""
        if older is not None and older.number < row.text_version:
            changed = TEXT_LOG.changed(connection, row, older.number)
            if changed is not None and older._is_worth_changing(len(changed)):
                return older._with_changes(connection, row, field, changed)
        tokens = _TOKENS[field]
        keys: dict[int, str] = {}
        documents: list[tuple[str, Sequence[str]]] = []
        for rid, key, *words in connection.execute(sql.WORDS_IN_ORDER, row.range):
            keys[rid] = key
            documents.append((key, tokens(words)))
        return HeldWords(number=row.text_version, index=LexicalIndex.build(documents), keys=keys)

    def _is_worth_changing(self, changed: int) -> bool:
        """Returns True if updating so many nodes takes less time than reading all words."""
        is_few = changed <= max(FEW, MAX_CHANGED * len(self.keys))
        return is_few and self.index.unused <= MAX_UNUSED * len(self.index.vocabulary)

    def _with_changes(
        self,
        connection: sqlite3.Connection,
        row: GraphRow,
        field: SearchField,
        changed: Sequence[int],
    ) -> HeldWords:
        tokens = _TOKENS[field]
        words = stored_words(connection, changed)
        keys = {**self.keys}
        documents: dict[str, Sequence[str] | None] = {}
        for rid in changed:
            if rid in keys:
                documents[keys.pop(rid)] = None
        for rid, key in keys_of(connection, changed).items():  # last: a key may be used again
            keys[rid] = key
            documents[key] = tokens(words[rid])
        return HeldWords(number=row.text_version, index=self.index.changed(documents), keys=keys)
