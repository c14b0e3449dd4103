"""Counts the tokens of a text word by word, and remembers words: the same number as of the whole text.

A byte-pair tokenizer without a pre-tokenizer looks at a whole text at once, which takes some
milliseconds for a page. But it only ever joins what stands in its vocabulary: where no piece of that
holds a blank behind anything else, nor a line end, each word with the blanks before it is by itself;
so are, in a word not met before, letters, signs and every digit, where no piece holds two of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain

from tokenizers import Tokenizer

BLANK = "\u2581"
"""What stands for a blank in the vocabulary, after SentencePiece."""

LINE_END = "<0x0A>"
MAX_WORDS = 50_000
MAX_WORD_CHARS = 80
"""Longer words are seldom met again."""

PART_CHARS = 1_000
_WORD = re.compile(r" *[^ \n]+| +")
_BYTE = re.compile("<0x[0-9A-F]{2}>")

# Letters, or signs with those that printers use; a digit is in no part of a word.
_SIGNS = "\x00-\x09\x0b-\x1f!-/:-@\\[-`{-\xbf\u2000-\u206f"
_PART = re.compile(f"( *(?:[^ \n0-9{_SIGNS}]+|[{_SIGNS}]+)| +)")


class WordTokenCounts:
    """Counts with one tokenizer that puts a blank before each text. For any thread.

    Bounded: when `MAX_WORDS` are known they are forgotten.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        vocabulary = tokenizer.get_vocab()
        self._tokenizer = tokenizer
        self._line_end = vocabulary.get(LINE_END)
        # Before what the tokenizer takes for a command a text is cut, and a blank put behind the cut.
        self._commands = tuple(added.content for added in tokenizer.get_added_tokens_decoder().values())
        pieces = [piece for piece in vocabulary if not _BYTE.fullmatch(piece) and piece not in self._commands]
        self._apart = self._line_end is not None and _stand_apart(pieces)
        self._known: dict[str, int] = {}

    def count(self, text: str) -> int:
        """Return the number of tokens. What is no character is counted as a question mark."""
        clean = text.encode("utf-8", errors="replace").decode()
        if not clean:
            return 0
        if not self._apart or BLANK in clean or any(command in clean for command in self._commands):
            return len(self._ids(clean))
        words, known = _WORD.findall(f" {clean}"), self._known
        try:
            found = sum(map(known.__getitem__, words))
        except KeyError:
            learnt = self._learn(words, known)
            found = sum(learnt[word] if word in learnt else known[word] for word in words)
        return found + clean.count("\n")

    def _learn(self, words: Sequence[str], known: dict[str, int]) -> dict[str, int]:
        """Return the counts of the words that are not known, and remember them."""
        parts = {word: _PART.findall(word) for word in words if word not in known}
        learnt: dict[str, int] = {}
        missing = [part for part in dict.fromkeys(chain.from_iterable(parts.values())) if part not in known]
        for some in _together(missing):
            learnt.update(zip(some, self._counts(some), strict=True))
        for word, found in parts.items():
            digits = len(word) - len("".join(found))
            learnt[word] = digits + sum(learnt[part] if part in learnt else known[part] for part in found)
        if len(known) + len(learnt) > MAX_WORDS:
            self._known = {}  # a new one: who counts meanwhile still finds all words in the old one
        self._known.update((word, count) for word, count in learnt.items() if len(word) <= MAX_WORD_CHARS)
        return learnt

    def _counts(self, words: Sequence[str]) -> Iterator[int]:
        """Count words of which each is put on a line of its own."""
        ids = self._ids("\n" + "\n".join(words))
        ends = [place for place, token in enumerate(ids) if token == self._line_end]
        for start, end in zip(ends, [*ends[1:], len(ids)], strict=True):
            yield end - start - 1

    def _ids(self, text: str) -> list[int]:
        return self._tokenizer.encode(text, add_special_tokens=False).ids


def _stand_apart(pieces: Sequence[str]) -> bool:
    """Return whether each piece of a vocabulary is one digit or lies in one part of one word."""
    plain = {piece.replace(BLANK, " ") for piece in pieces}
    return plain - set(_PART.findall("\n".join(plain))) <= set("0123456789")


def _together(words: Sequence[str]) -> Iterator[list[str]]:
    """Cut a list of words to be counted together: it takes more than twice as long for twice the text."""
    part: list[str] = []
    size = 0
    for word in words:
        if part and size + len(word) > PART_CHARS:
            yield part
            part, size = [], 0
        part.append(word)
        size += len(word) + 1
    if part:
        yield part
