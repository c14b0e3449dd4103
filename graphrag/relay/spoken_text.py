"""Takes out of an answer what cannot be read aloud: links, marks of Markdown, code.

The words pass on as they come. Only the last word, and what may become a link or code, is held
back until it is complete.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, final

HELD_CHARS: Final = 4_000  # a longer link or piece of code is passed on without waiting for its end
_LINK: Final = re.compile(r"\{\{\s*\w+\s*:\s*([^{}|]+?)\s*(?:\|[^{}]*)?\}\}")
_CODE: Final = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_LINE_MARK: Final = re.compile(r"^[^\S\n]*(?:[-*>]|#+|\d+\.)[^\S\n]+", re.MULTILINE)
_MARK: Final = re.compile(r"[*`]+")
_LAST_WORD: Final = re.compile(r"\S*\Z")
# what is passed on as a whole, with its end if that has come
_WHOLE: Final = re.compile(r"```.*?(?:(```)|\Z)|\{\{.*?(?:(\}\})|\Z)", re.DOTALL)


@final
class SpokenText:
    """The words of one answer for reading aloud.

    `skips_until`: the first paragraph is left out if it contains this text; the answer is then held
    back until that paragraph is complete.
    """

    def __init__(self, *, skips_until: str | None = None) -> None:
        self._held = ""
        self._begins_line = True
        self._skips = skips_until

    def feed(self, text: str) -> str:
        """Returns the words that can be spoken now."""
        self._held += text
        if self._skips is not None and not self._skipped():
            return ""
        return self._taken(self._cut())

    def end(self) -> str:
        """Returns the words that were held back."""
        self._skips = None
        return self._taken(len(self._held)).rstrip()

    def _skipped(self) -> bool:
        """Leaves out the first paragraph once it is complete. Returns whether it is."""
        head, gap, rest = self._held.partition("\n\n")
        if not gap and len(self._held) < HELD_CHARS:
            return False
        if gap and self._skips is not None and self._skips in head:
            self._held = rest
        self._skips = None
        return True

    def _cut(self) -> int:
        """Returns the length of what is complete."""
        held = self._held
        last_word = _LAST_WORD.search(held)
        cut = last_word.start() if last_word else len(held)
        parts = [(*part.span(), part.lastindex is None) for part in _WHOLE.finditer(held)]
        for start, end, is_open in reversed(parts):
            if start < cut and (is_open or end > cut):
                cut = start
        line = held.rfind("\n", 0, cut) + 1
        if not held[line:cut].strip(" \t#*>-.0123456789"):  # it may become the mark of a line
            cut = min(cut, line)
        return len(held) if len(held) > HELD_CHARS else cut

    def _taken(self, length: int) -> str:
        taken, self._held = self._held[:length], self._held[length:]
        if not taken:
            return ""
        # a mark at the beginning of `taken` is one of a line only if a line begins there
        lead = "" if self._begins_line else "\0"
        self._begins_line = taken.endswith("\n")
        plain = _LINK.sub(r"\1", _CODE.sub("", lead + taken))
        return _MARK.sub("", _LINE_MARK.sub("", plain)).replace("\0", "")


def spoken(text: str) -> str:
    """Returns a whole answer for reading aloud."""
    words = SpokenText()
    return words.feed(text) + words.end()


def cut_texts(texts: Sequence[str], heard: str) -> list[str]:
    """Returns the texts of one answer, cut to the words that were heard of them.

    The words were spoken without marks and links, and their spaces may differ.
    """
    left = len("".join(heard.split()))
    kept: list[str] = []
    for text in texts:
        plain = spoken(text)
        length = len("".join(plain.split()))
        if left >= length:
            kept.append(text)
        else:
            kept.append(_first(plain, left))
        left = max(0, left - length)
    return kept


def _first(text: str, letters: int) -> str:
    """Returns the beginning of a text with so many characters that are no spaces."""
    for place, char in enumerate(text):
        if letters == 0:
            return text[:place].rstrip()
        letters -= not char.isspace()
    return text
