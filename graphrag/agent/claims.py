"""Finds nodes and edges that an answer claims and the graph does not have. Pure: asks no model.

Only certain claims count: an arrow or "A leads to B" between two nodes of the graph, a name beside
the word "node", and an unknown end of an arrow whose other end is a node. Sentences that deny,
suggest or suppose claim nothing. A single word counts only if it cannot be an ordinary word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, final

from datasources.text import fold, letters
from graphrag.agent.named_graph import NamedGraph, Pair, plain_text
from graphrag.i18n import Language
from graphrag.i18n import text as text_of
from languages.reading import all_words, alternatives

MAX_CLAIMS = 10  # nodes, and edges, that are listed
MAX_LOOKED_UP = 40  # texts of an answer that are searched for in a large graph
NAME_WORDS = 8
MAX_CHARS = 40_000  # of an answer that are checked

_ARROW = re.compile(r"\s*(?:--+[^-\n>]{1,60}--*>|--*>|=+>|→|⟶|➔|➜)\s*")
_DRAWN = re.compile(r"--+(?:[^-\n>]{1,60}--*)?>")
"""The arrow of a drawn graph; `→` also occurs in sentences, for "becomes" or "goes to"."""
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


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class NotInGraph:
    """Claims that are not in the graph: names of nodes, and pairs of existing nodes."""

    nodes: tuple[str, ...] = ()
    edges: tuple[Pair, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.nodes or self.edges)

    def document(self, language: Language) -> dict[str, Any]:
        """Returns its form for clients and the store, with a sentence for people in `note`."""
        claims = [f"“{name}”" for name in self.nodes] + [" → ".join(pair) for pair in self.edges]
        return {
            "nodes": list(self.nodes),
            "edges": [list(pair) for pair in self.edges],
            "note": text_of("not_in_graph", language, claims=", ".join(claims)),
        }


def may_claim(answer: str) -> bool:
    """Returns whether a text may contain claims."""
    return bool(
        _ARROW.search(answer)
        or _NAMED_NODE.search(answer)
        or _BARE_NODE.search(answer)
        or _CLAIM.search(plain_text(answer))
    )


def looked_up_part(answer: str) -> tuple[str, list[str]]:
    """Returns the first lines of an answer, and the texts in which they may name nodes.

    Lines after MAX_LOOKED_UP such texts are left out, as claims that are not looked up are not
    judged.
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
        plain_text(end)
        for line in answer.splitlines()
        if _ARROW.search(line)
        for end in _ends(line)
    ]
    for sentence in _SENTENCE_END.split(answer):
        plain = plain_text(sentence)
        for claim in _CLAIM.finditer(plain):
            found += [plain[: claim.start()], plain[claim.end() :]]
    found += _named_nodes(answer)
    return [text for each in found for text in _at_its_ends(each.split()) if letters(text)]


def sentence_pairs(answer: str, graph: NamedGraph) -> list[Pair]:
    """Returns the pairs of `names` between which sentences claim a path."""
    nothing = replace(graph, onward={}, unread=frozenset(), cut_off=frozenset())
    return list(dict.fromkeys(_false_sentences(answer, nothing)))


def _at_its_ends(words: Sequence[str]) -> list[str]:
    """Returns the first and the last words of a text, where names stand beside arrows and verbs."""
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
    """Returns the claims of an answer that are not in the graph.

    `held`: all text that names may come from, of the graph and of tools. `asked`: the person's
    message. `proposed`: arguments of proposed changes, whose nodes and edges are not claims about
    the graph. `linked`: targets of its links to nodes that do not exist.
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


@final
class _KnownText:
    """Text that names may come from."""

    def __init__(self, text: str) -> None:
        self._text, self._letters = text, letters(text)

    @cached_property
    def _words(self) -> frozenset[str]:
        """The words of the text; `camelCase` counts as its parts and as a whole."""
        words = {
            word
            for token in re.findall(r"\w+", self._text)
            for word in (token, *_NAME_WORDS.findall(token))
        }
        return frozenset(fold(word).removesuffix("s") for word in words)

    def has(self, name: str) -> bool:
        """Returns whether the text contains a name: its letters in a row, or a single word as a
        word.
        """
        if name.isalpha() and name[1:].islower():
            return fold(name).removesuffix("s") in self._words
        return letters(name) in self._letters


def false_edges(answer: str, graph: NamedGraph) -> list[Pair]:
    """Returns the edges between nodes of the graph that an answer claims and the graph lacks."""
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
    """Yields the pairs of `names` that arrows join. An end that is no node's name claims nothing.

    Arrows below a sentence that denies or suggests are not claims.
    """
    for line in _arrow_lines(answer, graph):
        for before, after in pairwise(plain_text(end) for end in _ends(line)):
            source = _last_name(before, graph)
            target = _first_name(after, graph)
            if source is not None and target is not None:
                yield source, target


def _unknown_ends(answer: str, graph: NamedGraph) -> Iterator[str]:
    """Yields the ends of arrows that must be names of nodes, but are not in the graph.

    The other end must be a node, and the arrow drawn as one or the name marked up.
    """
    for line in _arrow_lines(answer, graph):
        ends = _ends(line)
        for one, other in (*pairwise(ends), *((after, before) for before, after in pairwise(ends))):
            plain = plain_text(one)
            is_marked = _MARKED_WHOLE.fullmatch(one.strip()) is not None
            is_node = any(
                name(plain_text(other), graph) is not None for name in (_first_name, _last_name)
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
        around = " ".join(end for end in map(plain_text, _ends(line)) if graph.named(end) is None)
        if not _is_hedged(f"{above} {around}", graph):
            yield line


def _ends(line: str) -> list[str]:
    return [_BULLET.sub("", end) for end in _ARROW.split(line)]


def _last_name(text: str, graph: NamedGraph) -> str | None:
    """Returns the name at the end of a text before an arrow; a remark in brackets may follow."""
    bare = re.sub(r"\s*\([^()]*\)$", "", text)
    parts = [
        whole[start:]
        for whole in (text, bare)  # a name may have brackets, too
        for start in (0, *(found.end() for found in re.finditer(r"[\s:,;(]", whole)))
    ]
    return next((name for part in parts if (name := graph.named(part)) is not None), None)


def _first_name(text: str, graph: NamedGraph) -> str | None:
    """Returns the longest name at the start of a text after an arrow."""
    ends = [len(text), *(found.start() for found in re.finditer(r"[\s:,;.()]", text))]
    found = (graph.named(text[:end]) for end in sorted(ends, reverse=True))
    return next((name for name in found if name is not None), None)


def _false_sentences(answer: str, graph: NamedGraph) -> Iterator[Pair]:
    """Yields the pairs that sentences connect and no path does."""
    for sentence in _SENTENCE_END.split(answer):
        plain = plain_text(sentence)
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
    """Returns whether a name may be an ordinary word: "the note leads to …"."""
    return name.isalpha() and name.islower()


def _is_hedged(sentence: str, graph: NamedGraph) -> bool:
    """Returns whether a sentence denies, suggests or supposes; node names are ignored."""
    plain = plain_text(sentence).casefold()
    for name in graph.names:
        if " " in name and name in plain:
            plain = plain.replace(name, " ")
    return _HEDGES.search(fold(plain)) is not None


def _named_nodes(answer: str) -> Iterator[str]:
    """Yields the marked-up texts that an answer calls a node and that must be names."""
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
    """Returns whether a word is a name: written as code, or capitalised, and no ordinary word."""
    if len(text) < 3 or not text.isalpha() or text.casefold() in _ORDINARY:
        return False
    return is_code or (text[0].isupper() and not text.isupper())
