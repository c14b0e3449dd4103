"""Folds what a person wrote so that patterns can read it, and gives back the parts as they were written."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

MAX_CHARS = 400
"""Longer messages are not read as a question or a command of a known form; they are searched for."""

READ_CHARS = 4_000
"""What follows in a message is not read at all."""

MAX_QUOTES = 40
_FIRST_MARK = 0xE000

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
_ARTICLES = re.compile(
    r"(?:the|this|that|my|our|an?|le|la|les|l'|un|une|des|du|de la|d'|de|ce|cet|cette|mon|notre|new"
    r"|nouveau|nouvelle|node|noeud|step|etape|block|bloc|called|named|nomme|nommee|appele|appelee)"
    r"(?:(?<=')|\s+)"
)
_NOUNS = re.compile(r"\s+(?:node|nodes|noeud|noeuds|step|etape|block|bloc|please|stp|svp)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mention:
    """A name as it was written, without article or noun before it. `quoted`: it stood in quotes."""

    text: str
    quoted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Wording:
    """A message, folded: lower case, no accents, one blank, each quoted part one private character.

    `places` holds, for each folded character, where it stood in `original`.
    """

    original: str
    folded: str
    places: tuple[tuple[int, int], ...]
    quotes: tuple[str, ...]

    def text(self, start: int, end: int) -> str:
        """Return the folded characters from `start` to `end` as they were written, quotes taken off."""
        while start < end and self.folded[start] in _EDGES:
            start += 1
        while end > start and self.folded[end - 1] in _EDGES:
            end -= 1
        if start >= end:
            return ""
        if end - start == 1 and (quote := self._quote(start)) is not None:
            return quote
        return self.original[self.places[start][0] : self.places[end - 1][1]]

    def group(self, match: re.Match[str], name: str) -> str:
        """Return a group of a match as it was written; nothing for a group that took no part."""
        start, end = match.span(name)
        return "" if start < 0 else self.text(start, end)

    def mention(self, match: re.Match[str], name: str) -> Mention | None:
        """Return a group of a match as a name, or None. A quoted part stands for the whole."""
        start, end = match.span(name)
        if start < 0:
            return None
        marks = [i for i in range(start, end) if self._quote(i) is not None]
        if len(marks) == 1:
            return Mention(text=self._quote(marks[0]) or "", quoted=True)
        while True:
            while start < end and self.folded[start] in _EDGES:
                start += 1
            article = _ARTICLES.match(self.folded, start, end)
            if article is None or article.end() >= end:
                break
            start = article.end()
        noun = _NOUNS.search(self.folded[start:end].rstrip(_EDGES))
        if noun is not None and noun.start() > 0:
            end = start + noun.start()
        text = self.text(start, end)
        return Mention(text=text) if text else None

    def _quote(self, index: int) -> str | None:
        number = ord(self.folded[index]) - _FIRST_MARK
        return self.quotes[number] if 0 <= number < len(self.quotes) else None


def read_wording(message: str) -> Wording:
    """Return the message ready to be matched."""
    original = _UNUSABLE.sub(" ", message[:READ_CHARS])
    folded: list[str] = []
    places: list[tuple[int, int]] = []
    quotes: list[str] = []
    position = 0
    while position < len(original):
        quoted = _QUOTED.match(original, position) if len(quotes) < MAX_QUOTES else None
        if quoted is not None and quoted.group(quoted.lastgroup or 0).strip():
            folded.append(chr(_FIRST_MARK + len(quotes)))
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
    return Wording(original=original, folded="".join(folded), places=tuple(places), quotes=tuple(quotes))


def fold(text: str) -> str:
    """Return a text in lower case, without accents, with single blanks."""
    return " ".join("".join(_fold_char(char) for char in text).split())


def letters(text: str) -> str:
    """Return only the letters and digits of a folded text: what two spellings of a name share."""
    return "".join(char for char in fold(text) if char.isalnum())


def _fold_char(char: str) -> str:
    if char in _LIGATURES:
        return _LIGATURES[char]
    if char.isspace():
        return " "
    low = char.casefold()
    if low in _LIGATURES:
        return _LIGATURES[low]
    if low.isascii():
        return low
    return "".join(c for c in unicodedata.normalize("NFKD", low) if not unicodedata.combining(c))


def words(text: str) -> frozenset[str]:
    """Return the words of a text that lists some."""
    return frozenset(text.split())
