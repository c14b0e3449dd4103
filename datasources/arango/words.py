"""The words of nodes as they are stored and counted: a node's own, and the terms it inherits from its type.

A node is stored with its own words; those of its type are counted in when a question is asked, so
a type may change without a write to its nodes. `of` is a digest of the fields that `Node` declares
as searched: where it no longer fits, somebody else wrote the node, which is searched by its text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from datasources.text import MAX_FIELD_CHARS, letters, node_label, node_text, tokenize
from datasources.types import Node, NodeTypeConfig, TypeTemplate
from datasources.uses import entries_of

MAX_TERMS = 512
"""So many distinct words of a question are looked for."""

_PROBE = NodeTypeConfig(key="probe", workspace="", display_name="\0probe", node=TypeTemplate(type="probe"))


def own_words(node: Node, language: str | None) -> dict[str, Any]:
    """Return what is stored of a node's own words and references; the server adds the digest `of`.

    `language` is that of its graph.
    """
    text = node_text(node, language=language)
    names = tokenize(f"{node.key} {text.name} {node.type}")
    rest = tokenize(f"{text.data} {text.process}")
    content = Counter([*names, *rest])
    by_name = Counter(names)
    return {
        "content": dict(content),
        "name": dict(by_name),
        "words": list(content),
        "nameWords": list(by_name),
        "contentLength": len(names) + len(rest),
        "nameLength": len(names),
        # A node without a name of its own is called after its type, unless its key says so already.
        "uses": entries_of(node),
        "unnamed": letters(node.key) if node_label(node, _PROBE) == _PROBE.display_name else None,
    }


@dataclass(frozen=True, slots=True)
class TypeWords:
    """The words of a type, part by part; `letters` are those of its name."""

    letters: str
    name: Counter[str]
    description: Counter[str]
    process: Counter[str]

    @staticmethod
    def of(config: NodeTypeConfig) -> TypeWords:
        return _type_words(config.display_name, config.description, config.node.process or "")

    def inherited(self, terms: Sequence[str]) -> dict[str, Any]:
        """Return what statements bind for a type: how often each part has the terms, and its length."""
        parts = {"name": self.name, "description": self.description, "process": self.process}
        counted = {
            name: {"counts": [part[term] for term in terms], "length": part.total()}
            for name, part in parts.items()
        }
        return {"letters": self.letters, **counted}


NO_WORDS = TypeWords("", Counter(), Counter(), Counter())
"""Those of a type that is not known."""


@lru_cache(maxsize=2_000)
def _type_words(display_name: str, description: str, process: str) -> TypeWords:
    return TypeWords(
        letters(display_name),
        Counter(tokenize(display_name)),
        Counter(tokenize(description)),
        Counter(tokenize(process[:MAX_FIELD_CHARS])),
    )


def terms_of(query: str) -> list[str]:
    """Return the distinct words of a question."""
    return list(dict.fromkeys(tokenize(query)))[:MAX_TERMS]
