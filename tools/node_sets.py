"""Selects all nodes of a graph that have something in common: a type, what they use, a
setting, no edges.

`select` takes what is asked for by name and is exact; `sets_in` finds what a question
names. Values come from `datasources.uses` (credentials, hosts, tables…) and from the
facts of `tools.node_meaning`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from datasources.text import fold, letters, tokenize
from datasources.types import Edge, Node
from datasources.uses import uses_of
from languages.reading import all_words, alternatives
from tools.checks.checked_graph import NO_STEPS, data_of
from tools.node_meaning import facts_of
from tools.node_meaning.fact import words_of
from tools.secret_texts import redacted
from tools.toon import compact_json

MAX_SHOWN_CHARS = 120  # of the value by which a node belongs to a set

FLAGS: Final[Mapping[str, frozenset[str]]] = {
    "disabled": all_words("sets", "disabled"),
    "unconnected": all_words("sets", "unconnected"),
    "no_error_path": frozenset(),
    "code": all_words("sets", "code"),
}
"""Properties of a whole node, and the words by which a question asks for them."""

_LACKED: Final[Mapping[str, frozenset[str]]] = {
    "unconnected": all_words("sets", "connected"),
    "no_error_path": all_words("sets", "error"),
}
"""Words that name a flag only together with a negation."""
_NEGATIONS: Final = all_words("sets", "negations")
_GENERIC: Final = all_words("sets", "generic")
_OF_ERROR_PATHS: Final = all_words("sets", "error_paths")
_ASKS_FOR_SET: Final = re.compile(rf"\b{alternatives('sets', 'asks')}\b")
_WORD: Final = re.compile(r"[^\W_]+")
_SHORT: Final = 4  # a word of fewer letters must match a whole word
MAX_SETS: Final = 3  # sets for one question
MAX_RUN: Final = 3  # maximum number of adjacent words matched together


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSet:
    """Nodes with a common property. `members` maps each node key to the node's matching value.

    `kind` is `type`, a kind of `datasources.uses`, `setting` or a flag; `value` is the text that
    was searched for.
    """

    kind: str
    value: str
    members: Mapping[str, str]

    @property
    def name(self) -> str:
        """The common property, as `type "slack"` or `unconnected`."""
        return f"{self.kind} {compact_json(self.value)}" if self.value else self.kind


def asks_for_set(question: str) -> bool:
    """Returns whether a question asks for all nodes with a common property."""
    return _ASKS_FOR_SET.search(fold(question[:500])) is not None


def distinct(sets: Sequence[NodeSet]) -> list[NodeSet]:
    """Returns the first `MAX_SETS` sets, without repetitions of the same nodes.

    A service may be named both by its type and by its host.
    """
    kept: list[NodeSet] = []
    for node_set in sets:
        if all(node_set.members.keys() != other.members.keys() for other in kept):
            kept.append(node_set)
    return kept[:MAX_SETS]


def select(nodes: Iterable[Node], edges: Sequence[Edge], kind: str, value: str = "") -> NodeSet:
    """Returns the set of nodes with a value of `kind` that contains `value`.

    Ignores case and accents. An empty `value` matches all values.
    """
    wanted = fold(value)
    members: dict[str, str] = {}
    for node in nodes:
        matches = [text for text in _values(node, edges, kind) if wanted in fold(text)]
        if matches:
            members[node.key] = "; ".join(dict.fromkeys(matches))[:MAX_SHOWN_CHARS]
    return NodeSet(kind=kind, value=value, members=members)


def _values(node: Node, edges: Sequence[Edge], kind: str) -> list[str]:
    """Returns the values of a kind in a node; [""] for a flag that applies to the node."""
    if kind == "type":
        return [node.type]
    if kind in FLAGS:
        return [""] if _has_flag(node, edges, kind) else []
    if kind == "setting":
        return [fact.text for fact in facts_of(node)]
    return [value for used, value in _used(node) if used == kind]


def _used(node: Node) -> Iterator[tuple[str, str]]:
    """Yields the external resources that a node uses as (kind, value); for a URL also its host."""
    for use in uses_of(node):
        value = redacted(use.value).text
        yield use.kind, value
        if use.kind == "url" and "://" in value:
            yield "host", value.partition("://")[2].partition("/")[0]


def _has_flag(node: Node, edges: Sequence[Edge], flag: str) -> bool:
    if node.type in NO_STEPS:
        return False
    if flag == "disabled":
        return data_of(node).get("disabled") is True or data_of(node).get("d") is True
    if flag == "code":
        return bool(node.process)
    own = [edge for edge in edges if node.key in (edge.source, edge.target)]
    if flag == "unconnected":
        return not own
    errors = {
        point.id
        for _, point in node.points("out")
        if point.display == "error" or point.id == "onError"
    }
    return not any(edge.source == node.key and edge.source_handle in errors for edge in own)


def sets_in(
    question: str, nodes: Sequence[Node], edges: Sequence[Edge], *, also_all: bool = False
) -> list[NodeSet]:
    """Returns the sets of nodes that a question names, those named by most words first.

    That all nodes or none are or lack something is an answer; another set of all nodes says nothing
    and is left out, but for one graph of several (`also_all`).
    """
    words = _WORD.findall(fold(question))
    steps = [node for node in nodes if node.type not in NO_STEPS]
    flags = _flags_in(words)
    sets = [select(nodes, edges, flag) for flag in flags]
    if "no_error_path" in flags:
        words = [word for word in words if word not in _OF_ERROR_PATHS]
    sets += _named_by(words, [(node.key, _identity(node)) for node in steps])
    sets = sets or _set_by(frozenset(tokenize(question)), steps)
    most = len(nodes) if also_all else len(nodes) - 1
    return [
        node_set for node_set in sets if node_set.kind in FLAGS or 0 < len(node_set.members) <= most
    ]


def _flags_in(words: Sequence[str]) -> list[str]:
    """Returns the flags that a question asks for."""
    question_words = set(words)
    lacked = _LACKED if question_words & _NEGATIONS else {}
    return [
        flag
        for flag, names in FLAGS.items()
        if question_words & (names | lacked.get(flag, frozenset()))
    ]


def _identity(node: Node) -> list[tuple[str, str]]:
    """Returns the (kind, value) pairs that can identify a node: its type and the values it uses."""
    return [("type", node.type), *_used(node)]


def _named_by(
    words: Sequence[str], steps: Sequence[tuple[str, list[tuple[str, str]]]]
) -> list[NodeSet]:
    """Returns a set for each run of words in a question that a type or a used value contains."""
    sets_by_length: list[tuple[int, NodeSet]] = []
    named_kinds: dict[int, set[str]] = {}  # by index of a word: the kinds it has matched already
    for length in range(MAX_RUN, 0, -1):
        for start in range(len(words) - length + 1):
            run = words[start : start + length]
            places = set(range(start, start + length))
            beside = words[start + length : start + length + 1]
            if any(word in _GENERIC for word in run):
                continue
            done_kinds = set[str]().union(*(named_kinds.get(place, ()) for place in places))
            members: dict[str, str] = {}
            kinds: dict[str, None] = {}
            for key, identity in steps:
                matches = [
                    (kind, value)
                    for kind, value in identity
                    if kind not in done_kinds and _holds(value, run, beside)
                ]
                if matches:
                    values = dict.fromkeys(value for _, value in matches)
                    members[key] = "; ".join(values)[:MAX_SHOWN_CHARS]
                    kinds |= dict.fromkeys(kind for kind, _ in matches)
            if members:
                for place in places:
                    named_kinds.setdefault(place, set()).update(kinds)
                node_set = NodeSet(kind=", ".join(kinds), value=" ".join(run), members=members)
                sets_by_length.append((length, node_set))
    return [node_set for _, node_set in sorted(sets_by_length, key=lambda pair: -pair[0])]


def _holds(value: str, run: Sequence[str], beside: Sequence[str]) -> bool:
    """Returns whether a value contains the words of a run.

    A run of short words must be the whole type, and be followed by a word such as "nodes": `if`
    in "if nodes".
    """
    if all(len(word) >= _SHORT for word in run):
        value_letters = letters(value)
        joined = "".join(run)
        return joined in value_letters or (
            len(joined) > _SHORT and joined.removesuffix("s") in value_letters
        )
    is_type = (
        bool(beside) and beside[0] in _GENERIC and value.rpartition(".")[2].lower() == "".join(run)
    )
    return is_type or (len("".join(run)) >= _SHORT and "".join(run) in letters(value))


def _set_by(stems: frozenset[str], steps: Sequence[Node]) -> list[NodeSet]:
    """Returns a set for each setting whose name consists of words (stems) of the question."""
    members_by_name: dict[str, dict[str, str]] = {}
    for node in steps:
        for fact in facts_of(node):
            name = (
                fact.label or fact.value.partition(" = ")[0]
                if " = " in fact.text or fact.label
                else ""
            )
            label = set(tokenize(words_of(name))) if name else set[str]()
            if label and label <= stems and any(len(stem) >= _SHORT for stem in label):
                members_by_name.setdefault(name, {})[node.key] = fact.text[:MAX_SHOWN_CHARS]
    return [
        NodeSet(kind="setting", value=name, members=members)
        for name, members in members_by_name.items()
    ]
