"""The words of nodes as they are stored and counted: a node's own, and the terms it inherits from its type.

A node is stored with its own words; those of its type are counted in when a question is asked, so
a type may change without a write to its nodes. `of` is a digest of the fields that `Node` declares
as searched: where it no longer fits, somebody else wrote the node, which is searched by its text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from datasources.text import MAX_FIELD_CHARS, letters, node_label, node_text, tokenize
from datasources.types import Node, NodeTypeConfig, TypeTemplate

MAX_TERMS = 512
"""So many distinct words of a question are looked for."""

_PROBE = NodeTypeConfig(key="probe", workspace="", display_name="\0probe", node=TypeTemplate(type="probe"))


def own_words(node: Node) -> dict[str, Any]:
    """Return what is stored of a node's own words; the server adds the digest `of`."""
    text = node_text(node)
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

    def variant(self, terms: Sequence[str], *, inherits_name: bool, inherits_code: bool) -> dict[str, Any]:
        """Return how often a node inherits the terms that has no name, or no code, of its own."""
        times = 2 if inherits_name else 1
        name = [times * self.name[term] for term in terms]
        parts = [self.description, self.process] if inherits_code else [self.description]
        content = [count + sum(part[term] for part in parts) for count, term in zip(name, terms, strict=True)]
        name_length = times * self.name.total()
        return {
            "content": content,
            "name": name,
            "contentLength": name_length + sum(part.total() for part in parts),
            "nameLength": name_length,
        }

    def inherited(self, terms: Sequence[str]) -> dict[str, Any]:
        """Return what statements bind for a type: variants by name (2) and code (1) inherited."""
        variants = [
            self.variant(terms, inherits_name=name, inherits_code=code)
            for name in (False, True)
            for code in (False, True)
        ]
        return {"letters": self.letters, "variants": variants}


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


def inherited_terms(types: Mapping[str, NodeTypeConfig], terms: Sequence[str]) -> dict[str, Any]:
    """Return what nodes inherit from each type, by type name, for the terms of a question."""
    return {name: TypeWords.of(config).inherited(terms) for name, config in types.items()} if terms else {}
