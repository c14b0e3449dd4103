"""Matches a message with the patterns of a language file. The first pattern that matches the whole
message applies.

A line of a file is `intent key=value …: pattern`. A pattern is a regular expression over the folded
message in which `{word}` stands for an entry of `[words]`, `<slot>` for a part of the message, and
`(…)` groups without capturing. `_SLOTS` defines the contents of some slots; the others hold any
text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache

from graphrag.i18n import Language
from graphrag.rules.normalized_text import QUOTE, EntityMention, NormalizedText, read_wording
from languages.reading import expanded, read_tables

MAX_CHARS = 400  # Longer messages are not matched, only searched for.

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
    """A compiled language file.

    `sides` and `english`: translations of words. `periods`: the period for each pattern. `clock`:
    the words for parts of an English schedule.
    """

    words: Mapping[str, str]
    texts: Mapping[str, str]
    sides: Mapping[str, str]
    english: Mapping[str, str]
    clock: Mapping[str, str]
    periods: Mapping[str, str]
    patterns: tuple[tuple[str, Mapping[str, str], re.Pattern[str]], ...]

    def word(self, name: str) -> re.Pattern[str]:
        """Returns an entry of `[words]` as a pattern."""
        return _compiled(self.words[name])

    def listed(self, name: str) -> list[str]:
        """Returns the words of an entry that is a list; empty if there is no such entry."""
        return self.words.get(f"{name}_list", "").split()


@dataclass(frozen=True, slots=True, kw_only=True)
class UserRequest:
    """A request in a message: its intent, the position of each slot, and the options of the
    pattern.

    `part`: the part of the message with the request, as written. `otherwise`: other
    interpretations, tried in this order if a name turns out not to exist.
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
        """Whether the request is for a change."""
        return _COMMAND.fullmatch(self.intent) is not None

    def text(self, slot: str) -> str:
        """Returns a slot as written; empty if the pattern did not use it."""
        return self.wording.text(*self.spans.get(slot, (0, 0)))

    def folded(self, slot: str) -> str:
        """Returns a slot folded; empty if the pattern did not use it."""
        return self.wording.folded[slice(*self.spans.get(slot, (0, 0)))].strip()

    def mention(self, slot: str) -> EntityMention | None:
        """Returns a slot as a name; None if the pattern did not use it or it contains no name."""
        return self.mention_at(self.spans.get(slot, (0, 0)))

    def mention_at(self, span: Span) -> EntityMention | None:
        """Returns a part of the message as a name."""
        return self.wording.mention(
            *span, self.grammar.word("articles"), self.grammar.word("nouns")
        )

    def is_quoted(self, slot: str) -> bool:
        return re.fullmatch(QUOTE, self.folded(slot)) is not None


@cache
def grammar(language: Language) -> Grammar:
    """Returns the grammar of a language. Raises: ValueError for an invalid file."""
    raw = read_tables(language, "rules.toml")
    words = {"quote": QUOTE}
    for name, text in raw["words"].items():
        words[name] = text if name.endswith("_list") else _expanded(text, words)
    patterns: list[tuple[str, Mapping[str, str], re.Pattern[str]]] = []
    for line in raw["patterns"].splitlines():
        head, separator, text = line.partition(": ")
        if separator and not line.startswith("#"):
            intent, *options = head.split()
            compiled = _compiled(_expanded(text, words))
            patterns.append((intent, dict(option.split("=", 1) for option in options), compiled))
    sections = {
        name: raw.get(name, {}) for name in ("texts", "sides", "english", "clock", "periods")
    }
    return Grammar(words=words, patterns=tuple(patterns), **sections)


def _expanded(text: str, words: Mapping[str, str]) -> str:
    """Returns a pattern as a regular expression."""
    return expanded(text, words.__getitem__, _SLOTS)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def understand(message: str, languages: tuple[Language, ...]) -> list[UserRequest]:
    """Returns the requests of a message in order: usually one, several if it has several parts.

    A part that matches no pattern is a `search`. If a message with several parts contains commands,
    none is executed.
    """
    wording = read_wording(message)
    first = grammar(languages[0])
    whole = (0, len(wording.folded))
    if whole[1] <= MAX_CHARS:
        for language in languages:
            rules = grammar(language)
            parts = _parts(wording, _core_span(wording, whole, rules), rules)
            readings = [
                _first_match(wording, part, languages) or _search_request(wording, part, rules)
                for part in parts
            ]
            requests = [request for request in readings if request is not None]
            if len(parts) > 1 and any(request.is_command for request in requests):
                return [UserRequest(intent="one_change_at_a_time", wording=wording, grammar=rules)]
            if len(requests) == len(parts) > 1:
                return requests
        if request := _first_match(wording, whole, languages):
            return [request]
    intent = "describe_node" if first.word("bare_name").fullmatch(wording.folded) else "search"
    return [UserRequest(intent=intent, wording=wording, grammar=first, spans={"node": whole})]


def _search_request(wording: NormalizedText, part: Span, rules: Grammar) -> UserRequest | None:
    """Returns a search for a part that is a question without a pattern; None if it is not a
    question.
    """
    asks = rules.word("asking").match(wording.folded, *_core_span(wording, part, rules))
    if asks is None:
        return None
    return UserRequest(intent="search", part=wording.text(*part), wording=wording, grammar=rules)


def _core_span(wording: NormalizedText, part: Span, rules: Grammar) -> Span:
    """Returns the span of a part without polite words and punctuation around it."""
    start, end = part
    polite = rules.word("polite").match(wording.folded, start, end)
    start = polite.end() if polite else start
    tail = re.search(f"(?:{rules.words['tail']})$", wording.folded[start:end])
    return start, start + tail.start() if tail else end


def _parts(wording: NormalizedText, whole: Span, rules: Grammar) -> list[Span]:
    """Returns the spans of the parts of a message, if conjunctions divide it into a few."""
    stops = [joint.span() for joint in rules.word("joint").finditer(wording.folded, *whole)]
    stops = stops[: MAX_PARTS - 1]
    starts = [whole[0], *(end for _, end in stops)]
    ends = [*(start for start, _ in stops), whole[1]]
    return list(zip(starts, ends, strict=True))


def _first_match(
    wording: NormalizedText, part: Span, languages: tuple[Language, ...]
) -> UserRequest | None:
    """Returns the request of the first pattern that matches; for questions with the next matches
    too.
    """
    requests: list[UserRequest] = []
    for rules in map(grammar, languages):
        core = _core_span(wording, part, rules)
        for intent, options, pattern in rules.patterns:
            match = pattern.fullmatch(wording.folded, *core)
            if match is None:
                continue
            spans = {
                name: match.span(name)
                for name, text in match.groupdict().items()
                if text is not None
            }
            request = UserRequest(
                intent=intent, part=wording.text(*part), wording=wording, grammar=rules
            )
            requests.append(replace(request, spans=spans, options=options))
            if requests[0].is_command or len(requests) == MAX_READINGS:
                break
    if not requests:
        return None
    return replace(requests[0], otherwise=tuple(one for one in requests[1:] if not one.is_command))
