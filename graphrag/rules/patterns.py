"""Matches a message against the patterns of a language file; the first that fits the
whole message wins.

A line of a file is `intent key=value …: pattern`. A pattern is a regular expression over the folded
message in which `{word}` stands for an entry of `[words]`, `<slot>` for a part of the message, and
`(…)` groups without capturing. What a slot may hold is in `_SLOTS`; the others hold any text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache

from graphrag.i18n import Language
from graphrag.rules.normalized_text import QUOTE, EntityMention, NormalizedText, read_wording
from languages.reading import expanded, read_tables

MAX_CHARS = 400
"""Longer messages are searched for, not matched."""

MAX_PARTS, MAX_READINGS = 5, 4
_COMMAND = re.compile(
    r"create|connect|delete_\w+|rename|set_field|(no_sheet_)?move|tidy|incomplete_\w+"
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

Span = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grammar:
    """A language file, compiled. Pairs of `sides` and `english` say what a word means, of `periods`
    which one a pattern stands for, of `clock` how the English words of a schedule are written.
    """

    words: Mapping[str, str]
    texts: Mapping[str, str]
    sides: Mapping[str, str]
    english: Mapping[str, str]
    clock: Mapping[str, str]
    periods: Mapping[str, str]
    patterns: tuple[tuple[str, Mapping[str, str], re.Pattern[str]], ...]

    def word(self, name: str) -> re.Pattern[str]:
        """Return an entry of `[words]` as a pattern."""
        return _compiled(self.words[name])

    def listed(self, name: str) -> list[str]:
        """Return the words of an entry that lists some; none where there is no such entry."""
        return self.words.get(f"{name}_list", "").split()


@dataclass(frozen=True, slots=True, kw_only=True)
class UserRequest:
    """What a message asks for: an intent, where each slot stands, and what the pattern adds.

    `part` is the part of the message it was read from, as it was written. `otherwise` are other
    readings of it, tried in order where a name in it turns out to be none.
    """

    intent: str
    part: str = ""
    wording: NormalizedText
    grammar: Grammar
    spans: Mapping[str, Span] = field(default_factory=dict[str, Span])
    options: Mapping[str, str] = field(default_factory=dict[str, str])
    otherwise: tuple[UserRequest, ...] = ()

    @property
    def is_command(self) -> bool:
        """Whether it asks for a change."""
        return _COMMAND.fullmatch(self.intent) is not None

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
        return self.wording.mention(
            *span, self.grammar.word("articles"), self.grammar.word("nouns")
        )

    def is_quoted(self, slot: str) -> bool:
        return re.fullmatch(QUOTE, self.folded(slot)) is not None


@cache
def grammar(language: Language) -> Grammar:
    """Return the grammar of a language. Raises: ValueError for a faulty file."""
    raw = read_tables(language, "rules.toml")
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
    kept = {name: raw.get(name, {}) for name in ("texts", "sides", "english", "clock", "periods")}
    return Grammar(words=words, patterns=tuple(patterns), **kept)


def _expanded(text: str, words: Mapping[str, str]) -> str:
    """Returns a pattern as a regular expression."""
    return expanded(text, words.__getitem__, _SLOTS)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def understand(message: str, languages: tuple[Language, ...]) -> list[UserRequest]:
    """Return what a message asks for, in order: one request, or several where it
    asks in several parts.

    What fits no pattern is a `search`. Of several commands in one message none is carried out.
    """
    wording = read_wording(message)
    first = grammar(languages[0])
    whole = (0, len(wording.folded))
    if whole[1] <= MAX_CHARS:
        for language in languages:
            rules = grammar(language)
            parts = _parts(wording, _matter(wording, whole, rules), rules)
            found = [
                _first(wording, part, languages) or _sought(wording, part, rules) for part in parts
            ]
            known = [request for request in found if request is not None]
            if len(parts) > 1 and any(request.is_command for request in known):
                return [UserRequest(intent="one_change_at_a_time", wording=wording, grammar=rules)]
            if len(known) == len(parts) > 1:
                return known
        if request := _first(wording, whole, languages):
            return [request]
    intent = "describe_node" if first.word("bare_name").fullmatch(wording.folded) else "search"
    return [UserRequest(intent=intent, wording=wording, grammar=first, spans={"node": whole})]


def _sought(wording: NormalizedText, part: Span, rules: Grammar) -> UserRequest | None:
    """Return the search for a part that asks something no pattern knows; None for
    what asks nothing.
    """
    asks = rules.word("asking").match(wording.folded, *_matter(wording, part, rules))
    if asks is None:
        return None
    return UserRequest(intent="search", part=wording.text(*part), wording=wording, grammar=rules)


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
    stops = stops[: MAX_PARTS - 1]
    starts = [whole[0], *(end for _, end in stops)]
    ends = [*(start for start, _ in stops), whole[1]]
    return list(zip(starts, ends, strict=True))


def _first(
    wording: NormalizedText, part: Span, languages: tuple[Language, ...]
) -> UserRequest | None:
    """Return what a part asks for by the first pattern that fits; a question also by
    the next ones.
    """
    found: list[UserRequest] = []
    for rules in map(grammar, languages):
        matter = _matter(wording, part, rules)
        for intent, options, pattern in rules.patterns:
            match = pattern.fullmatch(wording.folded, *matter)
            if match is None:
                continue
            spans = {
                name: match.span(name)
                for name, text in match.groupdict().items()
                if text is not None
            }
            read = UserRequest(
                intent=intent, part=wording.text(*part), wording=wording, grammar=rules
            )
            found.append(replace(read, spans=spans, options=options))
            if found[0].is_command or len(found) == MAX_READINGS:
                break
    if not found:
        return None
    return replace(found[0], otherwise=tuple(one for one in found[1:] if not one.is_command))
