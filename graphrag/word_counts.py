"""Counts the tokens of a text word by word, and remembers words: the same number as of the whole text.

A byte-pair tokenizer without a pre-tokenizer looks at a whole text at once, which takes some
milliseconds for a page. But it only ever joins what stands in its vocabulary: where no piece of that
holds a blank behind anything else, nor a line end, each word with the blanks before it is by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tokenizers import Tokenizer

BLANK = "\u2581"
"""What stands for a blank in the vocabulary, after SentencePiece."""

LINE_END = "<0x0A>"
MAX_WORDS = 50_000
MAX_WORD_CHARS = 80
"""Longer words are seldom met again."""

PART_CHARS = 1_000
_WORD = re.compile(r" *[^ \n]+| +")


class WordCounts:
    """Counts with one tokenizer that puts a blank before each text. For any thread.

    Bounded: when `MAX_WORDS` are known they are forgotten.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        vocabulary = tokenizer.get_vocab()
        self._tokenizer = tokenizer
        self._line_end = vocabulary.get(LINE_END)
        self._apart = self._line_end is not None and not any(map(_joins_words, vocabulary))
        # Before what the tokenizer takes for a command a text is cut, and a blank put behind the cut.
        self._commands = tuple(added.content for added in tokenizer.get_added_tokens_decoder().values())
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
        learnt: dict[str, int] = {}
        for part in _parts(list(dict.fromkeys(word for word in words if word not in known))):
            learnt.update(zip(part, self._counts(part), strict=True))
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


def _joins_words(piece: str) -> bool:
    return BLANK in piece.lstrip(BLANK) or "\n" in piece


def _parts(words: Sequence[str]) -> Iterator[list[str]]:
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
