"""The nodes and edges of a graph, by the names that a text may give them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import final

from datasources.links import Link
from datasources.text import label_in
from datasources.types import Edge, Node

Pair = tuple[str, str]

_MARKUP = re.compile(r"[`*\"'“”‘’«»\\]|\[\[|\]\]")
_REFERENCE = re.compile(r"\{\{node:([^{}]*)\}\}")
_SPACE = re.compile(r"\s+")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class NamedGraph:
    """A graph by its names. `names`: names and keys of nodes in the form of `plain_text`, with
    their spelling in the graph; `keys`: the nodes of each name; `onward`: the targets of each node.
    """

    names: Mapping[str, str]
    keys: Mapping[str, frozenset[str]]
    onward: Mapping[str, frozenset[str]]
    unread: frozenset[str] = frozenset()
    cut_off: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls,
        nodes: Iterable[Node],
        edges: Iterable[Edge | Link],
        *,
        unread: Iterable[str] = (),
        cut_off: Iterable[str] = (),
    ) -> NamedGraph:
        """Returns the names and edges of a graph, or of a part of it.

        `unread`: nodes whose names unread nodes may have, too. `cut_off`: nodes with more edges
        than were read. No claim about them is false.
        """
        names: dict[str, str] = {}
        keys: dict[str, set[str]] = {}
        for node in nodes:
            for written in (node.key, label_in(node.data)):
                if plain := plain_text(written):
                    name = plain.casefold() if " " in plain else plain
                    names.setdefault(name, written)
                    keys.setdefault(name, set()).add(node.key)
        onward: dict[str, set[str]] = {}
        for edge in edges:
            onward.setdefault(edge.source, set()).add(edge.target)
        return cls(
            names=names,
            keys={name: frozenset(nodes_of) for name, nodes_of in keys.items()},
            onward={key: frozenset(targets) for key, targets in onward.items()},
            unread=frozenset(unread),
            cut_off=frozenset(cut_off),
        )

    def named(self, plain: str) -> str | None:
        """Returns the entry of `names` for a plain text. A single word is case-sensitive."""
        return next((name for name in (plain, plain.casefold()) if name in self.names), None)

    def has_edge(self, source: str, target: str) -> bool:
        """Returns whether an edge leads, or may lead, from one name to the other."""
        starts = self.keys[source]
        ends = self.keys[target]
        if self.unread & (starts | ends) or (self.cut_off & starts and self.cut_off & ends):
            return True
        return any(
            self.onward.get(key, frozenset()) & self.keys[target] for key in self.keys[source]
        )

    def has_path(self, source: str, target: str) -> bool:
        """Returns whether a path leads, or may lead, from one name to the other."""
        if (
            self.unread & (self.keys[source] | self.keys[target])
            or self.cut_off & self.keys[source]
        ):
            return True
        waiting = list(self.keys[source])
        seen = set[str]()
        while waiting:
            for key in self.onward.get(waiting.pop(), ()):
                if key in self.keys[target]:
                    return True
                if key not in seen:
                    seen.add(key)
                    waiting.append(key)
        return False


def plain_text(text: str) -> str:
    """Returns a text in one line, without quotes, emphasis, escapes and braces of references."""
    return _SPACE.sub(" ", _MARKUP.sub("", _REFERENCE.sub(r"\1", text))).strip()
