"""The words of nodes as they are stored and counted: a node's own, and those its type lends it.

A node is stored with its own words; those of its type are counted in when a question is asked, so
a type may change without a write to its nodes. `of` is a digest of the fields that `Node`
declares as searched: where it no longer fits, somebody else wrote the node, which is searched by its text.
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
    """The words a type lends its nodes, part by part."""

    letters: str
    name: Counter[str]
    description: Counter[str]
    process: Counter[str]

    @staticmethod
    def of(config: NodeTypeConfig) -> TypeWords:
        return _type_words(config.display_name, config.description, config.node.process or "")

    def variant(self, terms: Sequence[str], *, unnamed: bool, bare: bool) -> dict[str, Any]:
        """Return how often the terms occur in what a node gains that has no name, or no code, of its own."""
        times = 2 if unnamed else 1
        name = [times * self.name[term] for term in terms]
        parts = [self.description, self.process] if bare else [self.description]
        content = [count + sum(part[term] for part in parts) for count, term in zip(name, terms, strict=True)]
        name_length = times * self.name.total()
        return {
            "content": content,
            "name": name,
            "contentLength": name_length + sum(part.total() for part in parts),
            "nameLength": name_length,
        }

    def lent(self, terms: Sequence[str]) -> dict[str, Any]:
        """Return what statements bind for a type: variants by (unnamed ? 2 : 0) + (bare ? 1 : 0)."""
        variants = [
            self.variant(terms, unnamed=unnamed, bare=bare)
            for unnamed in (False, True)
            for bare in (False, True)
        ]
        return {"letters": self.letters, "variants": variants}


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


def lent_by(types: Mapping[str, NodeTypeConfig], terms: Sequence[str]) -> dict[str, Any]:
    """Return what each type lends, by type name, for the terms of a question."""
    return {name: TypeWords.of(config).lent(terms) for name, config in types.items()}


def lent_by_none(terms: Sequence[str]) -> dict[str, Any]:
    """Return what a node gains whose type is not known."""
    nothing = TypeWords("", Counter(), Counter(), Counter())
    return nothing.lent(terms)
