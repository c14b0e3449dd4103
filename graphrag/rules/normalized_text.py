"""Normalizes a message for matching, and returns parts of it as originally written."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

from datasources.text import fold

READ_CHARS = 4_000  # Maximum length that is read of a message.

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
_EDGES = " \t\r\n.,;:!?"


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityMention:
    """A name as written, without articles and nouns around it. `quoted`: it was in quotes."""

    text: str
    quoted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NormalizedText:
    """A message with single blanks, and each quoted part replaced by one private character.

    `folded`: `written` in lower case without accents, of the same length. Patterns match it.
    """

    written: str
    folded: str
    quotes: tuple[str, ...]

    def text(self, start: int, end: int) -> str:
        """Returns a part as written, without punctuation around it and without quotes."""
        part = self.written[start:end].strip(_EDGES)
        return re.sub(QUOTE, lambda match: self._quote(match[0]), part)

    def mention(
        self, start: int, end: int, articles: re.Pattern[str], nouns: re.Pattern[str]
    ) -> EntityMention | None:
        """Returns a part as a name, or None if it is empty. A quoted part replaces the whole."""
        quotes = re.findall(QUOTE, self.written[start:end])
        if len(quotes) == 1:
            return EntityMention(text=self._quote(quotes[0]), quoted=True)
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

    def _quote(self, char: str) -> str:
        number = ord(char) - _FIRST_QUOTE
        return self.quotes[number] if number < len(self.quotes) else ""


def read_wording(message: str) -> NormalizedText:
    """Returns the normalized message."""
    quotes: list[str] = []

    def as_one(match: re.Match[str]) -> str:
        inside = match.group(match.lastgroup or 0).strip()
        if not inside or len(quotes) == MAX_QUOTES:
            return match[0]
        quotes.append(inside)
        return chr(_FIRST_QUOTE + len(quotes) - 1)

    usable = _UNUSABLE.sub(" ", unicodedata.normalize("NFC", message[:READ_CHARS]))
    written = " ".join(_QUOTED.sub(as_one, usable).split())
    return NormalizedText(
        written=written, folded="".join(map(_folded_char, written)), quotes=tuple(quotes)
    )


@lru_cache(maxsize=4_096)
def _folded_char(char: str) -> str:
    """Returns exactly one character, so that both forms have the same positions; for œ
    that is o.
    """
    return char if char == " " else (fold(char) or ".")[0]
