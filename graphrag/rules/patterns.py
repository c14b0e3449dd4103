"""Matches a message against the patterns of a language file; the first that fits the whole message wins.

A line of a file is `intent key=value …: pattern`. A pattern is a regular expression over the folded message
in which `{word}` stands for an entry of `[words]`, `<slot>` for a part of the message, and `(…)` groups
without capturing. What a slot may hold is in `_SLOTS`; the others hold any text.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

from graphrag.i18n import Language
from graphrag.rules.normalized_text import QUOTE, EntityMention, NormalizedText, fold, read_wording

MAX_CHARS = 400
"""Longer messages are searched for, not matched."""

MAX_PARTS = 3
COMMANDS = frozenset(
    (
        "create",
        "connect",
        "delete_node",
        "delete_edge",
        "rename",
        "set_field",
        "move",
        "no_sheet_move",
        "tidy",
    )
)
_NUMBER = r"[-+]?\d{1,8}(?:\.\d{1,4})?"
_SLOTS = {
    "x": _NUMBER,
    "y": _NUMBER,
    "distance": r"\d{1,6}",
    "field": rf"(?:{QUOTE}|[\w$][\w$.-]*(?: [\w$.-]+){{0,2}}?)",
    "word": r"[\w$][\w$.-]*",
    "quote": QUOTE,
}
_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}|(?<!\?P)<(\w+)>|\((?!\?)|\\.|\[[^]]*\]")

_WORD = re.compile(r"[^\W_]+")

Span = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grammar:
    """A language file, compiled. Pairs of `sides` and `english` say what a word means."""

    words: Mapping[str, str]
    texts: Mapping[str, str]
    sides: Mapping[str, str]
    english: Mapping[str, str]
    patterns: tuple[tuple[str, Mapping[str, str], re.Pattern[str]], ...]

    def word(self, name: str) -> re.Pattern[str]:
        """Return an entry of `[words]` as a pattern."""
        return _compiled(self.words[name])

    def listed(self, name: str) -> list[str]:
        """Return the words of an entry that lists some; none where there is no such entry."""
        return self.words.get(f"{name}_list", "").split()


@dataclass(frozen=True, slots=True, kw_only=True)
class UserRequest:
    """What a message asks for: an intent, where each slot stands, and what the pattern adds."""

    intent: str
    wording: NormalizedText
    grammar: Grammar
    spans: Mapping[str, Span] = field(default_factory=dict[str, Span])
    options: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def is_command(self) -> bool:
        """Whether it asks for a change."""
        return self.intent in COMMANDS or self.intent.startswith("incomplete_")

    def text(self, slot: str) -> str:
        """Return a slot as it was written; empty where it took no part."""
        return self.wording.text(*self.spans.get(slot, (0, 0)))

    def folded(self, slot: str) -> str:
        """Return a slot folded; empty where it took no part."""
        return self.wording.folded[slice(*self.spans.get(slot, (0, 0)))].strip()

    def mention(self, slot: str) -> EntityMention | None:
        """Return a slot as a name, or None where it took no part or holds no name."""
        return self.mention_at(self.spans.get(slot, (0, 0)))

    def mention_at(self, span: Span) -> EntityMention | None:
        """Return a part of the message as a name."""
        return self.wording.mention(*span, self.grammar.word("articles"), self.grammar.word("nouns"))

    def is_quoted(self, slot: str) -> bool:
        return re.fullmatch(QUOTE, self.folded(slot)) is not None


@cache
def grammar(language: Language) -> Grammar:
    """Return the grammar of a language. Raises: ValueError for a faulty file."""
    file = resources.files("graphrag.rules").joinpath(f"{language}.toml")
    raw: dict[str, Any] = tomllib.loads(file.read_text("utf-8"))
    words = {"quote": QUOTE}
    for name, text in raw["words"].items():
        words[name] = text if name.endswith("_list") else _expanded(text, words)
    patterns: list[tuple[str, Mapping[str, str], re.Pattern[str]]] = []
    for line in raw["patterns"].splitlines():
        head, separator, text = line.partition(": ")
        if separator and not line.startswith("#"):
            intent, *options = head.split()
            made = _compiled(_expanded(text, words))
            patterns.append((intent, dict(option.split("=", 1) for option in options), made))
    kept = {name: raw.get(name, {}) for name in ("texts", "sides", "english")}
    return Grammar(words=words, patterns=tuple(patterns), **kept)


def _expanded(text: str, words: Mapping[str, str]) -> str:
    """Return a pattern as a regular expression."""

    def replaced(found: re.Match[str]) -> str:
        if found[1]:
            return f"(?:{words[found[1]]})"
        if found[2]:
            return f"(?P<{found[2]}>{_SLOTS.get(found[2], '.+?')})"
        return "(?:" if found[0] == "(" else found[0]

    return _PLACEHOLDER.sub(replaced, text)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def understand(message: str, languages: tuple[Language, ...], graph_name: str = "") -> list[UserRequest]:
    """Return what a message asks for, in order: one request, or several where it asks in several parts.

    What fits no pattern is a `search`. Of several commands in one message none is carried out.
    """
    wording = read_wording(message)
    first, whole = grammar(languages[0]), (0, len(wording.folded))
    if _is_about(message, graph_name, languages):
        return [UserRequest(intent="describe_graph", wording=wording, grammar=first)]
    if whole[1] <= MAX_CHARS:
        for language in languages:
            parts = _parts(wording, _matter(wording, whole, grammar(language)), grammar(language))
            found = [request for part in parts if (request := _first(wording, part, languages))]
            if len(found) == len(parts) > 1:
                several = UserRequest(
                    intent="one_change_at_a_time", wording=wording, grammar=grammar(language)
                )
                return [several] if any(request.is_command for request in found) else found
        if request := _first(wording, whole, languages):
            return [request]
    intent = "describe_node" if first.word("bare_name").fullmatch(wording.folded) else "search"
    return [UserRequest(intent=intent, wording=wording, grammar=first, spans={"node": whole})]


def _is_about(message: str, graph_name: str, languages: tuple[Language, ...]) -> bool:
    """Return whether a message holds a graph's name of several words, and else only common ones.

    A single word may be a node's name as well.
    """
    name, words = _WORD.findall(fold(graph_name)), _WORD.findall(fold(message[:MAX_CHARS]))
    starts = range(len(words) - len(name) + 1) if len(name) > 1 else ()
    start = next((at for at in starts if words[at : at + len(name)] == name), None)
    common = {word for language in languages for word in grammar(language).listed("common")}
    return start is not None and common.issuperset(words[:start] + words[start + len(name) :])


def _matter(wording: NormalizedText, part: Span, rules: Grammar) -> Span:
    """Return where a part of a message begins and ends without polite words and marks around it."""
    start, end = part
    polite = rules.word("polite").match(wording.folded, start, end)
    start = polite.end() if polite else start
    tail = re.search(f"(?:{rules.words['tail']})$", wording.folded[start:end])
    return start, start + tail.start() if tail else end


def _parts(wording: NormalizedText, whole: Span, rules: Grammar) -> list[Span]:
    """Return where the parts of a message stand, if joints divide it into a few."""
    stops = [found.span() for found in rules.word("joint").finditer(wording.folded, *whole)]
    stops = stops if len(stops) < MAX_PARTS else []
    starts, ends = [whole[0], *(end for _, end in stops)], [*(start for start, _ in stops), whole[1]]
    return list(zip(starts, ends, strict=True))


def _first(wording: NormalizedText, part: Span, languages: tuple[Language, ...]) -> UserRequest | None:
    for rules in map(grammar, languages):
        matter = _matter(wording, part, rules)
        for intent, options, pattern in rules.patterns:
            found = pattern.fullmatch(wording.folded, *matter)
            if found is not None:
                spans = {
                    name: found.span(name) for name, text in found.groupdict().items() if text is not None
                }
                return UserRequest(
                    intent=intent, wording=wording, grammar=rules, spans=spans, options=options
                )
    return None
