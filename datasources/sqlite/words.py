"""Keeps the full-text index and its term counts in step with the nodes, inside a write."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from datasources.sqlite import statements as sql
from datasources.sqlite.bulk import BulkInsert
from datasources.sqlite.change_log import TEXT_LOG
from datasources.sqlite.rows import array
from datasources.sqlite.word_counts import Document, WordCounts
from datasources.text import node_text, tokenize, tokenize_prose
from datasources.types import Node, NodeTypeConfig, parse_document

Words = tuple[str, str, str, str, str, str, str]
"""The columns of `words`: tokens of one part of a node's text each, joined by spaces."""

NAME_COLUMNS = 4
CHUNK = 1_000
"""Nodes that are held in memory, with their words, before they are written."""

TERM_ADD = BulkInsert.of(sql.TERM_ADD)


def words_of(node: Node, config: NodeTypeConfig | None) -> tuple[Words, Document]:
    """Return a node's words column by column, and as they are counted."""
    text = node_text(node, config)
    key, name = tokenize(text.key), tokenize_prose(text.name)
    type_, type_name, about = _of_type(text.type), _of_type(text.type_name), _of_type(text.description)
    data = tokenize_prose(text.data)
    process = tokenize(text.process) if text.process else []
    document = (*key, *name, *type_, *type_name), (*about, *data, *process)
    join = " ".join
    columns = join(key), join(name), join(type_), join(type_name), join(about), join(data), join(process)
    return columns, document


@lru_cache(maxsize=2_000)
def _of_type(text: str) -> tuple[str, ...]:
    """Return the words of what all nodes of a type share."""
    return tuple(tokenize(text))


def name_tokens(words: Sequence[str]) -> list[str]:
    """Return the tokens of the name field."""
    return " ".join(words[:NAME_COLUMNS]).split()


def content_tokens(words: Sequence[str]) -> list[str]:
    """Return the tokens of the content field."""
    return " ".join(words).split()


class WordChanges:
    """Stores what a write does to the words of one graph, and counts it."""

    def __init__(self, connection: sqlite3.Connection, graph: int) -> None:
        self._connection = connection
        self._graph = graph
        self._counts = WordCounts()
        self._rids: list[int] = []
        self._removed: list[tuple[int, Words]] = []
        self._added: list[tuple[int, Words, Document]] = []

    @property
    def changed(self) -> bool:
        """Whether any word was, or is now, other."""
        return bool(self._rids)

    def replace(self, rid: int, old: Words | None, node: Node | None, config: NodeTypeConfig | None) -> None:
        """Note that a node's words were `old`, and are now those of `node` (None: not there). Once a node."""
        new, document = words_of(node, config) if node is not None else (None, None)
        if old == new:
            return
        self._rids.append(rid)
        if old is not None:
            self._removed.append((rid, old))
        if new is not None and document is not None:
            self._added.append((rid, new, document))
        if len(self._removed) + len(self._added) >= CHUNK:
            self._flush()

    def _flush(self) -> None:
        connection = self._connection
        connection.executemany(sql.WORDS_DELETE, ((rid,) for rid, _ in self._removed))
        connection.executemany(sql.WORDS_INSERT, ((rid, *words) for rid, words, _ in self._added))
        self._counts.add((document for _, _, document in self._added))
        removed = ((name_tokens(old), " ".join(old[NAME_COLUMNS:]).split()) for _, old in self._removed)
        self._counts.add(removed, sign=-1)
        self._removed.clear()
        self._added.clear()

    def store(self) -> tuple[int, int]:
        """Write the rest and the counts; return by how many words content and names have grown."""
        self._flush()
        connection, graph, counts = self._connection, self._graph, self._counts
        (version,) = connection.execute(sql.GRAPH_TEXT_VERSION, {"graph": graph}).fetchone()
        TEXT_LOG.note(connection, graph, sorted(self._rids), version + 1)
        rows = sorted((graph, *row) for row in counts.rows())
        TERM_ADD.put(connection, rows)
        connection.executemany(sql.TERM_CLEAN, ((graph, row[1]) for row in rows if row[2] < 0))
        return counts.content_words, counts.name_words


def stored_words(connection: sqlite3.Connection, rids: Iterable[int]) -> dict[int, Words]:
    """Read the words of nodes."""
    return {row[0]: row[1:] for row in connection.execute(sql.WORDS_OF, {"rids": array(rids)})}


def reindex_types(
    connection: sqlite3.Connection,
    graph: int,
    types: Iterable[str],
    configs: Mapping[str, NodeTypeConfig],
    changes: WordChanges,
    skip: frozenset[int] = frozenset(),
) -> None:
    """Note the new words of every node of these types, whose type's own text has changed."""
    found = connection.execute(sql.NODES_OF_TYPES, {"graph": graph, "types": array(sorted(set(types)))})
    nodes = [(rid, parse_document(Node, body, "nodes")) for rid, body in found if rid not in skip]
    old = stored_words(connection, (rid for rid, _ in nodes))
    for rid, node in nodes:
        changes.replace(rid, old.get(rid), node, configs.get(node.type))
