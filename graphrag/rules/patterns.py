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
from graphrag.rules.normalized_text import QUOTE, EntityMention, NormalizedText, read_wording

MAX_CHARS = 400
"""Longer messages are searched for, not matched."""

MAX_PARTS = 3
_NUMBER = r"[-+]?\d{1,8}(?:\.\d{1,4})?"
_SLOTS = {
    "x": _NUMBER,
    "y": _NUMBER,
    "distance": r"\d{1,6}",
    "side": "(?:{sides})",
    "field": rf"(?:{QUOTE}|[\w$][\w$.-]*(?: [\w$.-]+){{0,2}}?)",
    "word": r"[\w$][\w$.-]*",
    "quote": QUOTE,
}
_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}|(?<!\?P)<(\w+)>|\((?!\?)|\\.|\[[^]]*\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class UserRequest:
    """What a message asks for: an intent, where each slot stands, and what the pattern adds."""

    intent: str
    wording: NormalizedText
    grammar: Grammar
    spans: Mapping[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    options: Mapping[str, str] = field(default_factory=dict[str, str])

    def text(self, slot: str) -> str:
        """Return a slot as it was written; empty where it took no part."""
        return self.wording.text(*self.spans[slot]) if slot in self.spans else ""

    def folded(self, slot: str) -> str:
        """Return a slot folded; empty where it took no part."""
        start, end = self.spans.get(slot, (0, 0))
        return self.wording.folded[start:end].strip()

    def mention(self, slot: str) -> EntityMention | None:
        """Return a slot as a name, or None where it took no part or holds no name."""
        return self.mention_at(self.spans[slot]) if slot in self.spans else None

    def mention_at(self, span: tuple[int, int]) -> EntityMention | None:
        """Return a part of the message as a name."""
        return self.wording.mention(*span, self.grammar.word("articles"), self.grammar.word("nouns"))

    def is_quoted(self, slot: str) -> bool:
        return re.fullmatch(QUOTE, self.folded(slot)) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Grammar:
    """A language file, compiled."""

    words: Mapping[str, str]
    texts: Mapping[str, str]
    sides: Mapping[str, str]
    english: Mapping[str, str]
    patterns: tuple[tuple[str, Mapping[str, str], re.Pattern[str]], ...]

    def word(self, name: str) -> re.Pattern[str]:
        """Return an entry of `[words]` as a pattern."""
        return _compiled(self.words[name])

    def listed(self, name: str) -> frozenset[str]:
        """Return the words of an entry that lists some."""
        return frozenset(self.words[name].split())


@cache
def grammar(language: Language) -> Grammar:
    """Return the grammar of a language. Raises: ValueError for a faulty file."""
    raw: dict[str, Any] = tomllib.loads(
        resources.files("graphrag.rules").joinpath(f"{language}.toml").read_text("utf-8")
    )
    words = {"quote": QUOTE, "sides": "|".join(raw["sides"])}
    for name, text in raw["words"].items():
        words[name] = text if name.endswith("_list") else _expanded(text, words)
    lines = [line for line in raw["patterns"].splitlines() if line and not line.startswith("#")]
    return Grammar(
        words=words,
        texts=raw["texts"],
        sides=raw["sides"],
        english=raw.get("english", {}),
        patterns=tuple(_pattern(line, words) for line in lines),
    )


def _pattern(line: str, words: Mapping[str, str]) -> tuple[str, Mapping[str, str], re.Pattern[str]]:
    head, separator, text = line.partition(": ")
    if not separator:
        raise ValueError(f"a pattern needs `intent: pattern`, not {line!r}")
    intent, *options = head.split()
    return intent, dict(option.split("=", 1) for option in options), _compiled(_expanded(text, words))


def _expanded(text: str, words: Mapping[str, str]) -> str:
    """Return a pattern as a regular expression."""

    def replaced(found: re.Match[str]) -> str:
        if found[1]:
            return f"(?:{words[found[1]]})"
        if found[2]:
            slot = _SLOTS.get(found[2], ".+?")
            return f"(?P<{found[2]}>{slot.replace('{sides}', words['sides'])})"
        return "(?:" if found[0] == "(" else found[0]

    return _PLACEHOLDER.sub(replaced, text)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def understand(message: str, languages: tuple[Language, ...]) -> list[UserRequest]:
    """Return what a message asks for, in order: one request, or several where it asks in several parts.

    What fits no pattern is a `search`. Of several commands in one message none is carried out.
    """
    wording = read_wording(message)
    if len(wording.folded) > MAX_CHARS:
        return [_search(wording, languages)]
    asked = [_matter(wording, grammar(languages[0]))]
    for language in languages:
        parts = _parts(wording, *asked[0], grammar(language))
        found = [_first(wording, part, languages) for part in parts]
        if len(parts) > 1 and all(found):
            requests = [request for request in found if request is not None]
            if any(is_command(request) for request in requests):
                return [
                    UserRequest(intent="one_change_at_a_time", wording=wording, grammar=grammar(language))
                ]
            return requests
    return [_first(wording, asked[0], languages) or _search(wording, languages)]


def is_command(request: UserRequest) -> bool:
    """Return whether a request asks for a change."""
    return request.intent in COMMANDS or request.intent.startswith("incomplete_")


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


def _search(wording: NormalizedText, languages: tuple[Language, ...]) -> UserRequest:
    """Return the request of a message that fits no pattern: a name alone asks what it is."""
    rules, whole = grammar(languages[0]), (0, len(wording.folded))
    is_name = rules.word("bare_name").fullmatch(wording.folded)
    return UserRequest(
        intent="describe_node" if is_name else "search", wording=wording, grammar=rules, spans={"node": whole}
    )


def _matter(wording: NormalizedText, rules: Grammar) -> tuple[int, int]:
    return _without_politeness(wording, 0, len(wording.folded), rules)


def _without_politeness(wording: NormalizedText, start: int, end: int, rules: Grammar) -> tuple[int, int]:
    """Return where a part of a message begins and ends without polite words and marks around it."""
    polite = rules.word("polite").match(wording.folded, start, end)
    start = polite.end() if polite else start
    tail = re.search(f"(?:{rules.words['tail']})$", wording.folded[start:end])
    return start, (start + tail.start() if tail else end)


def _parts(wording: NormalizedText, start: int, end: int, rules: Grammar) -> list[tuple[int, int]]:
    """Return where the parts of a message stand, if joints divide it into a few."""
    stops = list(rules.word("joint").finditer(wording.folded, start, end))
    if not 0 < len(stops) < MAX_PARTS:
        return [(start, end)]
    starts = [start, *(stop.end() for stop in stops)]
    ends = [*(stop.start() for stop in stops), end]
    return list(zip(starts, ends, strict=True))


def _first(
    wording: NormalizedText, part: tuple[int, int], languages: tuple[Language, ...]
) -> UserRequest | None:
    for language in languages:
        rules = grammar(language)
        start, end = _without_politeness(wording, *part, rules)
        for intent, options, pattern in rules.patterns:
            found = pattern.fullmatch(wording.folded, start, end)
            if found is not None:
                spans = {
                    name: found.span(name) for name, text in found.groupdict().items() if text is not None
                }
                return UserRequest(
                    intent=intent, wording=wording, grammar=rules, spans=spans, options=options
                )
    return None
