"""Finds nodes and edges that an answer claims and the graph does not have. Pure; asks no model.

Only claims that leave no doubt count: an arrow or "A leads to B" between two nodes of the graph, a
name beside the word "node", and an unknown end of an arrow whose other end is a node. Sentences
that deny, suggest or suppose something claim nothing. A single word counts only where it cannot be
an ordinary word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

from datasources.links import Link
from datasources.text import fold, label_in, letters
from datasources.types import Edge, Node
from graphrag.i18n import Language
from graphrag.i18n import text as text_of
from languages.reading import all_words, alternatives

Pair = tuple[str, str]

MAX_CLAIMS = 10
"""The most nodes, and the most edges, that are listed."""
MAX_LOOKED_UP = 40  # texts of an answer that are searched for in a large graph
NAME_WORDS = 8
MAX_CHARS = 40_000
"""What an answer says beyond is not checked."""

_MARKUP = re.compile(r"[`*\"'“”‘’«»\\]|\[\[|\]\]")
_REFERENCE = re.compile(r"\{\{node:([^{}]*)\}\}")
_SPACE = re.compile(r"\s+")
_ARROW = re.compile(r"\s*(?:--+[^-\n>]{1,60}--*>|--*>|=+>|→|⟶|➔|➜)\s*")
_DRAWN = re.compile(r"--+(?:[^-\n>]{1,60}--*)?>")
"""The arrow of a drawn graph; `→` also stands in sentences, for "becomes" or "goes to"."""
_BULLET = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s+")


def _words(name: str) -> str:
    return alternatives("claims", name)


_CLAIM = re.compile(rf" (?:(?P<leads>{_words('leads')})|{_words('joined')}) ", re.IGNORECASE)
_ARTICLE = re.compile(rf"^{_words('article')}?(?:{_words('node')} )?", re.IGNORECASE)
_HEDGES = re.compile(_words("hedges"))
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n")
_FENCED = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_MARKED = (
    r"(?:`([^`\n]{2,80})`|\*\*([^*\n]{2,80})\*\*|[\"“]([^\"“”\n]{2,80})[\"”]"
    r"|«[ \u00a0\u202f]*([^«»\n]{2,80}?)[ \u00a0\u202f]*»)"
)
_NODE = rf"(?:{_words('node')}s?)"
_NAMED_NODE = re.compile(
    rf"\b{_NODE}(?: {_words('named')})? {_MARKED}"
    rf"|\b{_words('determiners')} {_MARKED} {_NODE}\b(?! {_words('parts_of_node')})",
    re.IGNORECASE,
)
_AS_CODE = (1, 3, 4, 5)
"""Groups of `_NAMED_NODE`: backticks and quotes after the word "node", and backticks before it.

Bold type also emphasises words: "the node **always** runs".
"""
_BARE_NODE = re.compile(
    rf"\b{_words('demonstratives')} {_words('node')} ([A-Z][a-z]\w*)\b(?!['’.-]\w| [A-Z])"
)
_MARKED_WHOLE = re.compile(rf"(?:[-*•]\s+|\d+[.)]\s+)?{_MARKED}(?:\s*\([^()]*\))?")
_ORDINARY = all_words("claims", "ordinary")
_NAME_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\w+")
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
        """Returns the names and edges of a graph, or of a part of it; a node may be named by its
        name or key.

        No claim is false about nodes in `unread`, whose name others may have that were not read,
        nor about what follows a node in `cut_off`, where there are more edges than were read.
        """
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
            unread=frozenset(unread),
            cut_off=frozenset(cut_off),
        )

    def named(self, plain: str) -> str | None:
        """Returns the entry of `names` that a plain text is; one word counts only as
        it is spelt.
        """
        return next((name for name in (plain, plain.casefold()) if name in self.names), None)

    def has_edge(self, source: str, target: str) -> bool:
        """Returns whether an edge leads from a node of the first name to one of the second,
        or may lead.
        """
        starts = self.keys[source]
        ends = self.keys[target]
        if self.unread & (starts | ends) or (self.cut_off & starts and self.cut_off & ends):
            return True
        return any(
            self.onward.get(key, frozenset()) & self.keys[target] for key in self.keys[source]
        )

    def has_path(self, source: str, target: str) -> bool:
        """Returns whether edges lead from a node of the first name to one of the second,
        or may lead.
        """
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


def may_claim(answer: str) -> bool:
    """Returns whether a text has anything that is worth reading the graph for."""
    return bool(
        _ARROW.search(answer)
        or _NAMED_NODE.search(answer)
        or _BARE_NODE.search(answer)
        or _CLAIM.search(_plain(answer))
    )


def looked_up_part(answer: str) -> tuple[str, list[str]]:
    """Returns the first lines of an answer, and the texts in them that claims name nodes
    in, each once.

    The rest of an answer with more than MAX_LOOKED_UP such texts is left out: what is not looked up
    is not judged.
    """
    texts = dict[str, None]()
    kept = list[str]()
    for line in answer[:MAX_CHARS].splitlines():
        more = dict.fromkeys(_claimed_texts(line))
        if len(texts | more) > MAX_LOOKED_UP:
            break
        texts |= more
        kept.append(line)
    return "\n".join(kept), list(texts)


def _claimed_texts(answer: str) -> list[str]:
    found = [
        _plain(end) for line in answer.splitlines() if _ARROW.search(line) for end in _ends(line)
    ]
    for sentence in _SENTENCE_END.split(answer):
        plain = _plain(sentence)
        for claim in _CLAIM.finditer(plain):
            found += [plain[: claim.start()], plain[claim.end() :]]
    found += _named_nodes(answer)
    return [text for each in found for text in _at_its_ends(each.split()) if letters(text)]


def sentence_pairs(answer: str, graph: NamedGraph) -> list[Pair]:
    """Returns the entries of `names` that sentences say edges lead between, from the first
    to the second.
    """
    nothing = replace(graph, onward={}, unread=frozenset(), cut_off=frozenset())
    return list(dict.fromkeys(_false_sentences(answer, nothing)))


def _at_its_ends(words: Sequence[str]) -> list[str]:
    """Returns the first and the last words of a text, where a name may stand beside an arrow
    or a verb.
    """
    if len(words) <= NAME_WORDS:
        return [" ".join(words)]
    return [" ".join(words[:NAME_WORDS]), " ".join(words[-NAME_WORDS:])]


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
    known = _KnownText("\n".join((held, *proposed, asked if _HEDGES.search(fold(asked)) else "")))
    named = (*_named_nodes(answer), *_unknown_ends(answer, graph), *linked)
    nodes = (name for name in named if not known.has(name))
    return NotInGraph(
        nodes=tuple(dict.fromkeys(nodes))[:MAX_CLAIMS],
        edges=tuple(dict.fromkeys(edges))[:MAX_CLAIMS],
    )


class _KnownText:
    """Text that names may come from."""

    def __init__(self, text: str) -> None:
        self._text, self._letters = text, letters(text)

    @cached_property
    def _words(self) -> frozenset[str]:
        """The words of the text, those of `camelCase` apart and together."""
        words = {
            word
            for token in re.findall(r"\w+", self._text)
            for word in (token, *_NAME_WORDS.findall(token))
        }
        return frozenset(fold(word).removesuffix("s") for word in words)

    def has(self, name: str) -> bool:
        """Returns whether the text has a name: its letters in a row, or a single word as a word."""
        if name.isalpha() and name[1:].islower():
            return fold(name).removesuffix("s") in self._words
        return letters(name) in self._letters


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
    for line in _arrow_lines(answer, graph):
        for before, after in pairwise(_plain(end) for end in _ends(line)):
            source = _last_name(before, graph)
            target = _first_name(after, graph)
            if source is not None and target is not None:
                yield source, target


def _unknown_ends(answer: str, graph: NamedGraph) -> Iterator[str]:
    """Yields the ends of arrows that can be nothing but a node's name, though no node has it.

    The other end must be a node, and the arrow drawn as one or the name marked up.
    """
    for line in _arrow_lines(answer, graph):
        ends = _ends(line)
        for one, other in (*pairwise(ends), *((after, before) for before, after in pairwise(ends))):
            plain = _plain(one)
            is_marked = _MARKED_WHOLE.fullmatch(one.strip()) is not None
            is_node = any(
                name(_plain(other), graph) is not None for name in (_first_name, _last_name)
            )
            is_unknown = all(name(plain, graph) is None for name in (_first_name, _last_name))
            name = re.sub(r"\s*\([^()]*\)$", "", plain)
            is_form = is_marked or _DRAWN.search(line) is not None
            is_name = _is_name(name) or _is_single_name(name, is_code=False)
            if is_node and is_unknown and is_form and is_name:
                yield name


def _arrow_lines(answer: str, graph: NamedGraph) -> Iterator[str]:
    """Yields the lines with arrows that are claims."""
    above = ""
    for line in answer.splitlines():
        if _ARROW.search(line) is None:
            if line.strip() and not _BULLET.match(line) and not line.strip().startswith("```"):
                above = line
            continue
        around = " ".join(end for end in map(_plain, _ends(line)) if graph.named(end) is None)
        if not _is_hedged(f"{above} {around}", graph):
            yield line


def _ends(line: str) -> list[str]:
    return [_BULLET.sub("", end) for end in _ARROW.split(line)]


def _last_name(text: str, graph: NamedGraph) -> str | None:
    """Returns the name that a text before an arrow ends with; a remark in
    brackets may follow it.
    """
    bare = re.sub(r"\s*\([^()]*\)$", "", text)
    parts = [
        whole[start:]
        for whole in (text, bare)  # a name may have brackets, too
        for start in (0, *(found.end() for found in re.finditer(r"[\s:,;(]", whole)))
    ]
    return next((name for part in parts if (name := graph.named(part)) is not None), None)


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
            is_code = any(found.group(group) is not None for group in _AS_CODE)
            is_name = _is_name(name) or _is_single_name(name, is_code=is_code)
            if is_name and not _HEDGES.search(fold(around)):
                yield name
        for found in _BARE_NODE.finditer(sentence):
            around = sentence[: found.start()] + " " + sentence[found.end() :]
            if _is_single_name(found[1], is_code=False) and not _HEDGES.search(fold(around)):
                yield found[1]


def _is_name(text: str) -> bool:
    if _NO_NAME.search(text):
        return False
    return bool(_LIKE_A_KEY.search(text)) or (len(text.split()) > 1 and text[0].isupper())


def _is_single_name(text: str, *, is_code: bool) -> bool:
    """Returns whether one word is a name: written as code, or with a capital, and
    no ordinary word.
    """
    if len(text) < 3 or not text.isalpha() or text.casefold() in _ORDINARY:
        return False
    return is_code or (text[0].isupper() and not text.isupper())


def _plain(text: str) -> str:
    """Returns a text in one line, without quotes, emphasis, escapes and the
    braces of references.
    """
    return _SPACE.sub(" ", _MARKUP.sub("", _REFERENCE.sub(r"\1", text))).strip()
