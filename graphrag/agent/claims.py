"""Finds nodes and edges that an answer claims and the graph does not have. Pure; asks no model.

Only claims that leave no doubt count: an arrow or "A leads to B" between two nodes of the
graph, and a marked-up name beside the word "node". Sentences that deny, suggest or suppose
something claim nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from datasources.text import fold, label_in, letters
from datasources.types import Edge, Node
from graphrag.i18n import Language
from graphrag.i18n import text as text_of

Pair = tuple[str, str]

MAX_CLAIMS = 10
"""The most nodes, and the most edges, that are listed."""
MAX_CHARS = 40_000
"""What an answer says beyond is not checked."""

_MARKUP = re.compile(r"[`*\"'“”‘’«»\\]|\[\[|\]\]")
_REFERENCE = re.compile(r"\{\{node:([^{}]*)\}\}")
_SPACE = re.compile(r"\s+")
_ARROW = re.compile(r"\s*(?:--+[^-\n>]{1,60}--*>|--*>|=+>|→|⟶|➔|➜)\s*")
_BULLET = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s+")
_LEADS = (
    r"(?:directly )?(?:leads to|goes to|flows (?:in)?to|feeds(?: into)?|connects to|is followed by"
    r"|m[eè]ne (?:à|a|au|vers)|est suivi(?:e)? (?:de|par))"
)
_JOINED = (
    r"(?:is |are |est )?(?:directly |directement )?(?:connected|linked|links|wired|reli[eé]e?|connect[eé]e?)"
    r" (?:to|with|à|a|au)"
)
_CLAIM = re.compile(rf" (?:(?P<leads>{_LEADS})|{_JOINED}) ", re.IGNORECASE)
_ARTICLE = re.compile(r"^(?:the |le |la |l')?(?:node |n(?:œ|oe)ud )?", re.IGNORECASE)
_HEDGES = re.compile(
    r"\b(?:not|no|non|never|neither|nor|none|cannot|without|missing|lacks?|absent|false|wrong|incorrect|untrue"
    r"|if|whether|unless|would|could|should|might|may|suppose|imagine|suggest\w*|propos\w*|recommend\w*|instead"
    r"|for example|add|adds|adding|added|insert\w*|creat(?:e|es|ing|ed)|new|remov\w*|delet\w*|renam\w*"
    r"|was|were|pas|aucune?|jamais|ni|sans|manqu\w*|faux|si|pourrai\w*|devrai\w*|serai\w*|sugger\w*|conseil\w*"
    r"|recommand\w*|par exemple|ajout\w*|inser\w*|cree[rzs]?|nouve\w*|supprim\w*|retir\w*"
    r"|renomm\w*|etait\w*)\b"
    r"|n't\b"
)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n")
_FENCED = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_MARKED = (
    r"(?:`([^`\n]{2,80})`|\*\*([^*\n]{2,80})\*\*|[\"“]([^\"“”\n]{2,80})[\"”]"
    r"|«[ \u00a0\u202f]*([^«»\n]{2,80}?)[ \u00a0\u202f]*»)"
)
_NODE = r"(?:nodes?|n(?:œ|oe)uds?)"
_NAMED_NODE = re.compile(
    rf"\b{_NODE}(?: (?:named|called|nommé|appelé))? {_MARKED}"
    rf"|\b(?:the|its|this|le|du|ce|au) {_MARKED} {_NODE}\b(?! (?:type|parameter|field|key|id|class|version))",
    re.IGNORECASE,
)
_NO_NAME = re.compile(r"[{}()\[\]=<>/\\:$@#;,.|!?%+]|^\d+$")
_LIKE_A_KEY = re.compile(r"[a-z][A-Z]|_|[A-Za-z]-?\d")


@dataclass(frozen=True, slots=True, kw_only=True)
class NotInGraph:
    """What an answer claims that the graph does not have: names of nodes, and
    pairs of existing nodes.
    """

    nodes: tuple[str, ...] = ()
    edges: tuple[Pair, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.nodes or self.edges)

    def document(self, language: Language) -> dict[str, Any]:
        """Returns it for a client and for the store, with a sentence for people in `note`."""
        claims = [f"“{name}”" for name in self.nodes] + [" → ".join(pair) for pair in self.edges]
        return {
            "nodes": list(self.nodes),
            "edges": [list(pair) for pair in self.edges],
            "note": text_of("not_in_graph", language, claims=", ".join(claims)),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedGraph:
    """A graph as text refers to it. `names`: names and keys of nodes as `_plain` writes them,
    with the name as the graph has it; `keys`: the nodes of each; `onward`: where the edges of
    each node lead.
    """

    names: Mapping[str, str]
    keys: Mapping[str, frozenset[str]]
    onward: Mapping[str, frozenset[str]]

    @classmethod
    def of(cls, nodes: Iterable[Node], edges: Iterable[Edge]) -> NamedGraph:
        """Returns the names and edges of a graph; a node may be named by its name or its key."""
        names: dict[str, str] = {}
        keys: dict[str, set[str]] = {}
        for node in nodes:
            for written in (node.key, label_in(node.data)):
                if plain := _plain(written):
                    name = plain.casefold() if " " in plain else plain
                    names.setdefault(name, written)
                    keys.setdefault(name, set()).add(node.key)
        onward: dict[str, set[str]] = {}
        for edge in edges:
            onward.setdefault(edge.source, set()).add(edge.target)
        return cls(
            names=names,
            keys={name: frozenset(found) for name, found in keys.items()},
            onward={key: frozenset(targets) for key, targets in onward.items()},
        )

    def named(self, plain: str) -> str | None:
        """Returns the entry of `names` that a plain text is; one word counts only as
        it is spelt.
        """
        return next((name for name in (plain, plain.casefold()) if name in self.names), None)

    def has_edge(self, source: str, target: str) -> bool:
        """Returns whether an edge leads from a node of the first name to one of the second."""
        return any(
            self.onward.get(key, frozenset()) & self.keys[target] for key in self.keys[source]
        )

    def has_path(self, source: str, target: str) -> bool:
        """Returns whether edges lead from a node of the first name to one of the second."""
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


def may_claim(answer: str) -> bool:
    """Returns whether a text has anything that is worth reading the graph for."""
    return bool(
        _ARROW.search(answer) or _NAMED_NODE.search(answer) or _CLAIM.search(_plain(answer))
    )


def not_in_graph(
    answer: str,
    graph: NamedGraph,
    *,
    held: str,
    asked: str = "",
    proposed: Sequence[str] = (),
    linked: Sequence[str] = (),
) -> NotInGraph:
    """Returns what an answer claims and the graph does not have.

    `held` is all text that names may come from: the graph's and what tools read. `asked` is what
    the person wrote; `proposed` are the arguments of the changes that were proposed, whose nodes
    and edges may come; `linked` are targets of its links to nodes that do not exist.
    """
    answer = answer[:MAX_CHARS]
    plans = [letters(arguments) for arguments in proposed]
    edges = [
        (graph.names[source], graph.names[target])
        for source, target in _false_pairs(answer, graph)
        if not any(
            _mentions(plan, graph, source) and _mentions(plan, graph, target) for plan in plans
        )
    ]
    known = letters("\n".join((held, *proposed, asked if _HEDGES.search(fold(asked)) else "")))
    nodes = (name for name in (*_named_nodes(answer), *linked) if letters(name) not in known)
    return NotInGraph(
        nodes=tuple(dict.fromkeys(nodes))[:MAX_CLAIMS],
        edges=tuple(dict.fromkeys(edges))[:MAX_CLAIMS],
    )


def false_edges(answer: str, graph: NamedGraph) -> list[Pair]:
    """Returns the connections between nodes of the graph that an answer claims
    and the graph lacks.
    """
    pairs = _false_pairs(answer, graph)
    return list(
        dict.fromkeys((graph.names[source], graph.names[target]) for source, target in pairs)
    )


def _mentions(plan: str, graph: NamedGraph, name: str) -> bool:
    return any(letters(text) in plan for text in (graph.names[name], *graph.keys[name]))


def _false_pairs(answer: str, graph: NamedGraph) -> Iterator[Pair]:
    if not graph.names:
        return
    yield from (pair for pair in arrows(answer, graph) if not graph.has_edge(*pair))
    yield from _false_sentences(answer, graph)


def arrows(answer: str, graph: NamedGraph) -> Iterator[Pair]:
    """Yields the entries of `names` that arrows join; an end that is no node's name claims nothing.

    Arrows below a sentence that denies or suggests something are what it denies or suggests.
    """
    above = ""
    for line in answer.splitlines():
        if _ARROW.search(line) is None:
            if line.strip() and not _BULLET.match(line) and not line.strip().startswith("```"):
                above = line
            continue
        ends = [_plain(_BULLET.sub("", end)) for end in _ARROW.split(line)]
        around = " ".join(end for end in ends if graph.named(end) is None)
        if _is_hedged(f"{above} {around}", graph):
            continue
        for before, after in pairwise(ends):
            source = _last_name(before, graph)
            target = _first_name(after, graph)
            if source is not None and target is not None:
                yield source, target


def _last_name(text: str, graph: NamedGraph) -> str | None:
    """Returns the name that a text before an arrow ends with; a remark in
    brackets may follow it.
    """
    bare = re.sub(r"\s*\([^()]*\)$", "", text)
    starts = [0, *(found.end() for found in re.finditer(r"[\s:,;(]", bare))]
    return next((name for start in starts if (name := graph.named(bare[start:])) is not None), None)


def _first_name(text: str, graph: NamedGraph) -> str | None:
    """Returns the name that a text after an arrow begins with, the longest."""
    ends = [len(text), *(found.start() for found in re.finditer(r"[\s:,;.()]", text))]
    found = (graph.named(text[:end]) for end in sorted(ends, reverse=True))
    return next((name for name in found if name is not None), None)


def _false_sentences(answer: str, graph: NamedGraph) -> Iterator[Pair]:
    """Yields what sentences say is connected though no path is."""
    for sentence in _SENTENCE_END.split(answer):
        plain = _plain(sentence)
        for claim in _CLAIM.finditer(plain):
            source = _last_name(plain[: claim.start()].removesuffix(" node"), graph)
            target = _first_name(_ARTICLE.sub("", plain[claim.end() :]), graph)
            if source is None or target is None or _is_word(source) or _is_word(target):
                continue
            if plain.endswith("?") or _is_hedged(sentence, graph):
                break
            is_back = claim["leads"] is None and graph.has_path(target, source)
            if not is_back and not graph.has_path(source, target):
                yield source, target


def _is_word(name: str) -> bool:
    """Returns whether a name, mostly a key, may as well be an ordinary word: "the note
    leads to …".
    """
    return name.isalpha() and name.islower()


def _is_hedged(sentence: str, graph: NamedGraph) -> bool:
    """Returns whether a sentence denies, suggests or supposes; a node may be called
    "Order not found".
    """
    plain = _plain(sentence).casefold()
    for name in graph.names:
        if " " in name and name in plain:
            plain = plain.replace(name, " ")
    return _HEDGES.search(fold(plain)) is not None


def _named_nodes(answer: str) -> Iterator[str]:
    """Yields the marked-up texts that an answer calls a node and that can be nothing
    but its name.
    """
    for sentence in _SENTENCE_END.split(_FENCED.sub("\n", answer)):
        if sentence.rstrip().endswith("?"):
            continue
        for found in _NAMED_NODE.finditer(sentence):
            name = next(group for group in found.groups() if group is not None).strip()
            around = sentence[: found.start()] + " " + sentence[found.end() :]
            if _is_name(name) and not _HEDGES.search(fold(around)):
                yield name


def _is_name(text: str) -> bool:
    if _NO_NAME.search(text):
        return False
    return bool(_LIKE_A_KEY.search(text)) or (len(text.split()) > 1 and text[0].isupper())


def _plain(text: str) -> str:
    """Returns a text in one line, without quotes, emphasis, escapes and the
    braces of references.
    """
    return _SPACE.sub(" ", _MARKUP.sub("", _REFERENCE.sub(r"\1", text))).strip()
