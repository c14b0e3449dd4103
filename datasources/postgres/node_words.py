"""The words of a node as they are stored, and the numbers by which an index finds them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

from datasources.hits import SearchField
from datasources.text import node_text, tokenize
from datasources.types import Node, NodeTypeConfig


class StoredWords(NamedTuple):
    """The tokens of a node's names and of its other text, joined by spaces."""

    names: str
    others: str

    def tokens(self, search_field: SearchField) -> list[str]:
        """Returns the tokens of a field; `content` has those of the names too."""
        return self.names.split() + (self.others.split() if search_field == "content" else [])

    def terms(self) -> set[int]:
        """Returns the numbers of the distinct words of both fields."""
        names = set(self.names.split())
        return {term("name", word) for word in names} | {
            term("content", word) for word in names.union(self.others.split())
        }


NO_WORDS = StoredWords("", "")


def words_of(node: Node, config: NodeTypeConfig | None, language: str | None) -> StoredWords:
    """Returns a node's words; `language` is that of its graph."""
    text = node_text(node, config, language)
    names = (text.key, text.name, text.type, text.type_name)
    others = (text.description, text.data, text.process or "")
    return StoredWords(*(" ".join(_tokens(part)) for part in (names, others)))


def _tokens(texts: Iterable[str]) -> list[str]:
    return [token for text in texts for token in tokenize(text)]


@lru_cache(100_000)
def term(search_field: SearchField, word: str) -> int:
    """Returns the number of a word of a field, of 64 bits with a sign.

    The index holds it combined (XOR) with the id of the graph, so that the words of one graph are
    apart from those of others. Two words of one number only make a candidate more.
    """
    digest = blake2b(f"{search_field}:{word}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


@dataclass(slots=True)
class WordTotals:
    """How a write changes the totals of a graph: its words, and the nodes that have each term."""

    content_words: int = 0
    name_words: int = 0
    nodes: Counter[int] = field(default_factory=Counter[int])

    def replace(self, old: StoredWords | None, new: StoredWords | None) -> bool:
        """Counts the change of one node; None stands for no node. Returns True if it is one."""
        if old == new:
            return False
        for words, sign in ((old, -1), (new, 1)):
            if words is not None:
                names = len(words.names.split())
                self.name_words += sign * names
                self.content_words += sign * (names + len(words.others.split()))
                for number in words.terms():
                    self.nodes[number] += sign
        return True

    def changed_terms(self) -> dict[int, int]:
        """Returns the terms with another number of nodes than before, and the difference."""
        return {number: count for number, count in self.nodes.items() if count}
