"""Folds a message so that patterns can match it, and returns the parts of it as they were written."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

READ_CHARS = 4_000
"""What follows in a message is not read at all."""

MAX_QUOTES = 40
QUOTE = "[\ue000-\uf8ff]"
_FIRST_QUOTE = 0xE000
_QUOTED = re.compile(
    r"\{\{(?:node|nodeConfig|sheet):(?P<link>[^{}]{1,300})\}\}"
    r"|`(?P<tick>[^`]{1,300})`"
    r'|"(?P<double>[^"]{1,300})"'
    r"|[“„](?P<curly>[^“”„]{1,300})[”“]"
    r"|«\s?(?P<angle>[^«»]{1,300}?)\s?»"
    r"|(?<![\w’'])'(?P<single>[^']{1,300})'(?!\w)"
)
_UNUSABLE = re.compile("[\ue000-\uf8ff\x00-\x08\x0b-\x1f\x7f]")
_LIGATURES = {"œ": "oe", "æ": "ae", "ß": "ss", "’": "'", "ʼ": "'", "–": "-", "—": "-", "…": "."}
_EDGES = " \t\r\n.,;:!?"


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityMention:
    """A name as it was written, without an article or noun around it. `quoted`: it stood in quotes."""

    text: str
    quoted: bool = False

    @property
    def is_short(self) -> bool:
        """Whether it can be a name rather than a clause."""
        return self.quoted or len(self.text.split()) <= 4


@dataclass(frozen=True, slots=True, kw_only=True)
class NormalizedText:
    """A message, folded: lower case, no accents, single blanks, each quoted part one private character.

    `places` holds, for each folded character, where it stood in `original`.
    """

    original: str
    folded: str
    places: tuple[tuple[int, int], ...]
    quotes: tuple[str, ...]

    def text(self, start: int, end: int) -> str:
        """Return the folded characters from `start` to `end` as they were written, without quotes."""
        while start < end and self.folded[start] in _EDGES:
            start += 1
        while end > start and self.folded[end - 1] in _EDGES:
            end -= 1
        if start >= end:
            return ""
        if end - start == 1 and (quote := self._quote(start)) is not None:
            return quote
        return self.original[self.places[start][0] : self.places[end - 1][1]]

    def mention(
        self, start: int, end: int, articles: re.Pattern[str], nouns: re.Pattern[str]
    ) -> EntityMention | None:
        """Return the characters as a name, or None where none is left. A quoted part stands for the whole."""
        quotes = [quote for i in range(start, end) if (quote := self._quote(i)) is not None]
        if len(quotes) == 1:
            return EntityMention(text=quotes[0], quoted=True)
        while True:
            while start < end and self.folded[start] in _EDGES:
                start += 1
            article = articles.match(self.folded, start, end)
            if article is None or not article.group() or article.end() >= end:
                break
            start = article.end()
        noun = nouns.search(self.folded[start:end].rstrip(_EDGES))
        if noun is not None and noun.start() > 0:
            end = start + noun.start()
        text = self.text(start, end)
        return EntityMention(text=text) if text else None

    def _quote(self, index: int) -> str | None:
        number = ord(self.folded[index]) - _FIRST_QUOTE
        return self.quotes[number] if 0 <= number < len(self.quotes) else None


def read_wording(message: str) -> NormalizedText:
    """Return a message ready to be matched."""
    original = _UNUSABLE.sub(" ", message[:READ_CHARS])
    folded: list[str] = []
    places: list[tuple[int, int]] = []
    quotes: list[str] = []
    position = 0
    while position < len(original):
        quoted = _QUOTED.match(original, position) if len(quotes) < MAX_QUOTES else None
        if quoted is not None and quoted.group(quoted.lastgroup or 0).strip():
            folded.append(chr(_FIRST_QUOTE + len(quotes)))
            places.append(quoted.span())
            quotes.append(quoted.group(quoted.lastgroup or 0).strip())
            position = quoted.end()
            continue
        for char in _fold_char(original[position]):
            if char == " " and (not folded or folded[-1] == " "):
                continue
            folded.append(char)
            places.append((position, position + 1))
        position += 1
    return NormalizedText(
        original=original, folded="".join(folded), places=tuple(places), quotes=tuple(quotes)
    )


def fold(text: str) -> str:
    """Return a text in lower case, without accents, with single blanks."""
    return " ".join("".join(_fold_char(char) for char in text).split())


def letters(text: str) -> str:
    """Return only the letters and digits of a folded text: what two spellings of a name share."""
    return "".join(char for char in fold(text) if char.isalnum())


def _fold_char(char: str) -> str:
    low = char if char in _LIGATURES else char.casefold()
    if low in _LIGATURES:
        return _LIGATURES[low]
    if char.isspace():
        return " "
    if low.isascii():
        return low
    return "".join(c for c in unicodedata.normalize("NFKD", low) if not unicodedata.combining(c))
