"""The words of nodes in the full-text index, which a write keeps up to date."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import final

from datasources.errors import BadDocument
from datasources.sqlite import statements as sql
from datasources.sqlite.change_log import TEXT_LOG
from datasources.sqlite.rows import array
from datasources.text import node_text, tokenize
from datasources.types import Node, NodeTypeConfig, parse_document

# The columns of the table `words`: the tokens of one part of a node's text, joined by spaces.
Words = tuple[str, str, str, str, str, str, str]

NAME_COLUMNS = 4  # the first columns, which make up the name field
CHUNK = 1_000  # nodes written at once


def words_of(node: Node, config: NodeTypeConfig | None, language: str | None) -> Words:
    """Returns a node's words column by column; `language` is that of its graph."""
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
    """Returns the tokens of the name field."""
    return " ".join(words[:NAME_COLUMNS]).split()


def content_tokens(words: Sequence[str]) -> list[str]:
    """Returns the tokens of the content field."""
    return " ".join(words).split()


@final
class WordChanges:
    """Collects the changes of a write to the words of one graph, and stores them.

    `content_words` and `name_words` count how many words the two fields of all nodes have gained.
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
        """True if the words of any node differ from those stored."""
        return bool(self._rids)

    def replace(
        self, rid: int, old: Words | None, node: Node | None, config: NodeTypeConfig | None
    ) -> None:
        """Records the `old` words of a node and its new state; None stands for no node.

        At most once for each node.
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
        # Tokens are joined by single spaces, so counting spaces counts tokens.
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
        """Writes the remaining words and logs the nodes whose words changed."""
        self._flush()
        (version,) = self._connection.execute(
            sql.GRAPH_TEXT_VERSION, {"graph": self._graph}
        ).fetchone()
        TEXT_LOG.note(self._connection, self._graph, sorted(self._rids), version + 1)


def stored_words(connection: sqlite3.Connection, rids: Iterable[int]) -> dict[int, Words]:
    """Reads the words of nodes."""
    return {row[0]: row[1:] for row in connection.execute(sql.WORDS_OF, {"rids": array(rids)})}


def reindex_types(
    connection: sqlite3.Connection,
    graph: int,
    types: Iterable[str],
    configs: Mapping[str, NodeTypeConfig],
) -> None:
    """Stores the new words of every node of these types. A node that cannot be parsed keeps its
    words.
    """
    changes = WordChanges(connection, graph)
    cursor = connection.execute(
        sql.NODES_OF_TYPES, {"graph": graph, "types": array(sorted(set(types)))}
    )
    while rows := cursor.fetchmany(CHUNK):
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
