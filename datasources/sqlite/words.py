"""Keeps the full-text index and its term counts in step with the nodes, inside a write."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain

from datasources.sqlite import statements as sql
from datasources.sqlite.change_log import TEXT_LOG
from datasources.sqlite.rows import array
from datasources.text import node_text, tokenize
from datasources.types import Node, NodeTypeConfig, parse_document

Words = tuple[str, str, str, str, str, str, str]
"""The columns of `words`: tokens of one part of a node's text each, joined by spaces."""

NAME_COLUMNS = 4


def words_of(node: Node, config: NodeTypeConfig | None) -> Words:
    """Return a node's words, column by column."""
    text = node_text(node, config)
    return (
        " ".join(tokenize(text.key)),
        " ".join(tokenize(text.name)),
        _words_of_type(text.type),
        _words_of_type(text.type_name),
        _words_of_type(text.description),
        " ".join(tokenize(text.data)),
        " ".join(tokenize(text.process)) if text.process else "",
    )


@lru_cache(maxsize=2_000)
def _words_of_type(text: str) -> str:
    """Return the words of what all nodes of a type share."""
    return " ".join(tokenize(text))


def name_tokens(words: Sequence[str]) -> list[str]:
    """Return the tokens of the name field."""
    return " ".join(words[:NAME_COLUMNS]).split()


def content_tokens(words: Sequence[str]) -> list[str]:
    """Return the tokens of the content field."""
    return " ".join(words).split()


@dataclass(slots=True)
class WordChanges:
    """Gathers what a write does to the words of one graph, and stores it at once at the end."""

    graph: int
    added: list[tuple[int, Words]] = field(default_factory=list[tuple[int, Words]])
    removed: list[tuple[int, Words]] = field(default_factory=list[tuple[int, Words]])

    def replace(self, rid: int, old: Words | None, new: Words | None) -> None:
        """Note that a node's words were `old` and are `new` (None: it was, or is, not there)."""
        if old == new:
            return
        if old is not None:
            self.removed.append((rid, old))
        if new is not None:
            self.added.append((rid, new))

    def store(self, connection: sqlite3.Connection) -> tuple[int, int]:
        """Write the index and the counts; return by how many words the two fields have grown."""
        connection.executemany(sql.WORDS_DELETE, ((rid,) for rid, _ in self.removed))
        connection.executemany(sql.WORDS_INSERT, ((rid, *words) for rid, words in self.added))
        content, name, grown = _counted(words for _, words in self.added)
        if self.removed:
            fewer_content, fewer_name, shrunk = _counted(words for _, words in self.removed)
            content.subtract(fewer_content)
            name.subtract(fewer_name)
            grown = (grown[0] - shrunk[0], grown[1] - shrunk[1])
        (version,) = connection.execute(sql.GRAPH_TEXT_VERSION, {"graph": self.graph}).fetchone()
        rids = {rid for rid, _ in chain(self.added, self.removed)}
        TEXT_LOG.note(connection, self.graph, sorted(rids), version + 1)
        rows = [
            (self.graph, term, count, name[term]) for term, count in content.items() if count or name[term]
        ]
        rows.sort()
        connection.executemany(sql.TERM_ADD, rows)
        connection.executemany(sql.TERM_CLEAN, ((self.graph, row[1]) for row in rows if row[2] < 0))
        return grown


def _counted(documents: Iterable[Words]) -> tuple[Counter[str], Counter[str], tuple[int, int]]:
    """Count the nodes that have each word, in content and in names, and all words of both fields."""
    names: list[set[str]] = []
    contents: list[set[str]] = []
    lengths = [0, 0]
    for words in documents:
        in_name = name_tokens(words)
        others = " ".join(words[NAME_COLUMNS:]).split()
        lengths[0] += len(in_name) + len(others)
        lengths[1] += len(in_name)
        distinct = set(in_name)
        names.append(distinct)
        contents.append(distinct.union(others))
    return (
        Counter(chain.from_iterable(contents)),
        Counter(chain.from_iterable(names)),
        (lengths[0], lengths[1]),
    )


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
        changes.replace(rid, old.get(rid), words_of(node, configs.get(node.type)))
