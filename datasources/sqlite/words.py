"""The words of nodes: the full-text index, kept in step inside a write, and those of a small
graph in memory.

After a write only the words in memory of nodes that changed are read. The log of changed nodes
stands in the file, and is read on the same moment, so it does not matter which process wrote.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from datasources.errors import BadDocument
from datasources.hits import SearchField
from datasources.lexical import LexicalIndex
from datasources.sqlite import statements as sql
from datasources.sqlite.change_log import TEXT_LOG
from datasources.sqlite.rows import GraphRow, array
from datasources.text import node_text, tokenize
from datasources.types import Node, NodeTypeConfig, parse_document

Words = tuple[str, str, str, str, str, str, str]
"""The columns of `words`: tokens of one part of a node's text each, joined by spaces."""

NAME_COLUMNS = 4
CHUNK = 1_000
"""Nodes that are held in memory, with their words, before they are written."""


def words_of(node: Node, config: NodeTypeConfig | None, language: str | None) -> Words:
    """Return a node's words column by column; `language` is that of its graph."""
    text = node_text(node, config, language)
    join = " ".join
    return (
        join(tokenize(text.key)),
        join(tokenize(text.name)),
        join(tokenize(text.type)),
        join(tokenize(text.type_name)),
        join(tokenize(text.description)),
        join(tokenize(text.data)),
        join(tokenize(text.process)) if text.process else "",
    )


def name_tokens(words: Sequence[str]) -> list[str]:
    """Return the tokens of the name field."""
    return " ".join(words[:NAME_COLUMNS]).split()


def content_tokens(words: Sequence[str]) -> list[str]:
    """Return the tokens of the content field."""
    return " ".join(words).split()


class WordChanges:
    """Stores what a write does to the words of one graph.

    `content_words` and `name_words` say by how many words the fields of all nodes have grown.
    """

    def __init__(self, connection: sqlite3.Connection, graph: int) -> None:
        self._connection = connection
        self._graph = graph
        (self._language,) = connection.execute(sql.GRAPH_LANGUAGE, {"graph": graph}).fetchone()
        self._rids: list[int] = []
        self._removed: list[int] = []
        self._added: list[tuple[int, *Words]] = []
        self.content_words = 0
        self.name_words = 0

    @property
    def changed(self) -> bool:
        """Whether any word was, or is now, other."""
        return bool(self._rids)

    def replace(
        self, rid: int, old: Words | None, node: Node | None, config: NodeTypeConfig | None
    ) -> None:
        """Note that a node's words were `old`, and are now those of `node` (None: not there).
        Once a node.
        """
        new = words_of(node, config, self._language) if node is not None else None
        if old == new:
            return
        self._rids.append(rid)
        if old is not None:
            self._removed.append(rid)
            self._count(old, -1)
        if new is not None:
            self._added.append((rid, *new))
            self._count(new, 1)
        if len(self._removed) + len(self._added) >= CHUNK:
            self._flush()

    def _count(self, words: Words, sign: int) -> None:
        # Tokens are joined by one space each, so that counting spaces counts them.
        counts = [words_in.count(" ") + 1 if words_in else 0 for words_in in words]
        self.content_words += sign * sum(counts)
        self.name_words += sign * sum(counts[:NAME_COLUMNS])

    def _flush(self) -> None:
        connection = self._connection
        connection.executemany(sql.WORDS_DELETE, ((rid,) for rid in self._removed))
        connection.executemany(sql.WORDS_INSERT, self._added)
        self._removed.clear()
        self._added.clear()

    def store(self) -> None:
        """Write the rest, and note which nodes' words have changed."""
        self._flush()
        (version,) = self._connection.execute(
            sql.GRAPH_TEXT_VERSION, {"graph": self._graph}
        ).fetchone()
        TEXT_LOG.note(self._connection, self._graph, sorted(self._rids), version + 1)


def stored_words(connection: sqlite3.Connection, rids: Iterable[int]) -> dict[int, Words]:
    """Read the words of nodes."""
    return {row[0]: row[1:] for row in connection.execute(sql.WORDS_OF, {"rids": array(rids)})}


def reindex_types(
    connection: sqlite3.Connection,
    graph: int,
    types: Iterable[str],
    configs: Mapping[str, NodeTypeConfig],
) -> None:
    """Store the new words of every node of these types; one that cannot be read keeps
    those it has.
    """
    changes = WordChanges(connection, graph)
    found = connection.execute(
        sql.NODES_OF_TYPES, {"graph": graph, "types": array(sorted(set(types)))}
    )
    while rows := found.fetchmany(CHUNK):
        nodes: dict[int, Node] = {}
        for rid, body in rows:
            with suppress(BadDocument):
                nodes[rid] = parse_document(Node, body, "nodes")
        old = stored_words(connection, nodes)
        for rid, node in nodes.items():
            changes.replace(rid, old.get(rid), node, configs.get(node.type))
    if changes.changed:
        changes.store()
        values = {"content_words": changes.content_words, "name_words": changes.name_words}
        connection.execute(sql.GRAPH_TEXT_UPDATE, {"graph": graph, **values})


MAX_CHANGED = 0.1
"""The share of the nodes from which on all words are read again, unless they are few."""

FEW = 10

MAX_UNUSED = 0.5
"""The share of words that no node has any more, from which on the others are collected again."""

_TOKENS = {"content": content_tokens, "name": name_tokens}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HeldWords:
    """One field of a graph at one version of its text. `keys` gives the key of each
    node's row id.
    """

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
        """Return the words of a graph: all read, or those of an older version with
        what changed since.
        """
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
        return HeldWords(number=row.text_version, index=LexicalIndex.build(documents), keys=keys)

    def is_worth_changing(self, changed: int) -> bool:
        """Tell whether to change so many nodes' words is less work than to read all."""
        is_few = changed <= max(FEW, MAX_CHANGED * len(self.keys))
        return is_few and self.index.unused <= MAX_UNUSED * len(self.index.vocabulary)

    def with_changes(
        self,
        connection: sqlite3.Connection,
        row: GraphRow,
        field: SearchField,
        changed: Sequence[int],
    ) -> HeldWords:
        tokens = _TOKENS[field]
        words = stored_words(connection, changed)
        found: dict[int, str] = dict(
            connection.execute(sql.NODE_KEYS, {"rids": array(changed)}).fetchall()
        )
        keys = {**self.keys}
        documents: dict[str, Sequence[str] | None] = {}
        for rid in changed:
            if rid in keys:
                documents[keys.pop(rid)] = None
        for rid, key in found.items():  # after those that went: a node made again has its key
            keys[rid] = key
            documents[key] = tokens(words[rid])
        return HeldWords(number=row.text_version, index=self.index.changed(documents), keys=keys)
