"""The words of node types, which their nodes inherit, and the types last read of each workspace.

A node is stored with its own words only. The words of its type are counted in by each search, so
that a type may change without a write to its nodes.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

from datasources.text import MAX_FIELD_CHARS, letters, tokenize
from datasources.types import ROOT_WORKSPACE, NodeTypeConfig

TYPES_FRESH_S = 2.0  # maximum age of types that a search uses; own changes are seen at once
MAX_WORKSPACES = 1_000  # whose types are remembered

Texts = tuple[str, str, str]
PARTS = ("name", "description", "process")


@final
@dataclass(frozen=True, slots=True)
class TypeWords:
    """The words of a type: of its `name`, `description` and `process`.

    `letters` are those of the name; `texts` are the texts that the words were counted in.
    """

    texts: Texts
    letters: str
    parts: Mapping[str, Counter[str]]

    @staticmethod
    def of(texts: Texts) -> TypeWords:
        counted = {name: Counter(tokenize(text)) for name, text in zip(PARTS, texts, strict=True)}
        return TypeWords(texts, letters(texts[0]), counted)

    def inherited(self, terms: Sequence[str]) -> dict[str, Any]:
        """Returns the values that statements bind for a type: the counts of the terms in each part,
        and its length.
        """
        counted = {
            name: {"counts": [part[term] for term in terms], "length": part.total()}
            for name, part in self.parts.items()
        }
        return {"letters": self.letters, **counted}


NO_WORDS = TypeWords.of(("", "", ""))  # those of an unknown type


def texts_of(config: NodeTypeConfig) -> Texts:
    """Returns the texts of a type that are searched."""
    return config.display_name, config.description, (config.node.process or "")[:MAX_FIELD_CHARS]


@final
class SeenTypes:
    """The types of each workspace as they were last read. Belongs to one opened database."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[float, Mapping[str, TypeWords]]] = {}

    def fresh(self, workspace: str) -> Mapping[str, TypeWords] | None:
        """Returns the words of the types by name, None if they are too old."""
        at, words = self._seen.get(workspace, (float("-inf"), {}))
        return words if time.monotonic() - at < TYPES_FRESH_S else None

    def see(self, workspace: str, types: Mapping[str, NodeTypeConfig]) -> Mapping[str, TypeWords]:
        """Keeps the types that were just read. Words of unchanged types are not counted again."""
        _, old = self._seen.pop(workspace, (0.0, {}))
        words: dict[str, TypeWords] = {}
        for name, config in types.items():
            texts = texts_of(config)
            known = old.get(name)
            if known is None or known.texts != texts:
                known = TypeWords.of(texts)
            words[name] = known
        while len(self._seen) >= MAX_WORKSPACES:
            del self._seen[next(iter(self._seen))]
        self._seen[workspace] = time.monotonic(), words
        return words

    def outdate(self, workspace: str) -> None:
        """Makes the next search read the types again, after a type of the workspace changed."""
        for name in list(self._seen) if workspace == ROOT_WORKSPACE else [workspace]:
            if name in self._seen:
                self._seen[name] = float("-inf"), self._seen[name][1]
