"""Counts tokens as a model would, or as nearly as can be without a network; says which it is.

OpenAI's own ranks (`o200k_base`) are used when their file is on this machine, or the extra `tokens`
with them; tiktoken would download it otherwise, which is never tried here. Else the tokenizer that
ships in the wordllama package counts (Llama 2's, 32,000 pieces): for English and code it counts
somewhat more, so a budget kept with it is kept with the newer tokenizers too.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Final, cast

import tiktoken
from tokenizers import Tokenizer

from graphrag.embedding.local import packaged_tokenizer
from graphrag.llm.base import AssistantMessage, Message, ToolSchema
from graphrag.llm.packaged_ranks import RANKS_SHA256, packaged_encoding
from tools.toon import compact_json

BLANK = "\u2581"
"""What stands for a blank in the vocabulary, after SentencePiece."""

LINE_END = "<0x0A>"


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerLimits:
    """Limits of counting tokens. Units: characters."""

    max_words: int = 50_000
    """Number of words whose counts are cached."""
    max_word_chars: int = 80
    """Longest word that is cached; longer ones seldom repeat."""
    batch_chars: int = 1_000
    """Length of the words that are tokenized together."""
    whole_chars: int = 16_000
    """Longest text that is counted in one piece."""
    part_chars: int = 2_000
    """Length of the parts of a longer text."""


TOKENIZER_LIMITS: Final = TokenizerLimits()


_WORD = re.compile(r" *[^ \n]+| +")
_BYTE = re.compile("<0x[0-9A-F]{2}>")

# Letters, or signs with those that printers use; a digit is in no part of a word.
_SIGNS = "\x00-\x09\x0b-\x1f!-/:-@\\[-`{-\xbf\u2000-\u206f"
_PART = re.compile(f"( *(?:[^ \n0-9{_SIGNS}]+|[{_SIGNS}]+)| +)")


class WordTokenCounts:
    """Counts with one tokenizer that puts a blank before each text. For any thread.

    Bounded: when `TOKENIZER_LIMITS.max_words` are known they are forgotten.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        vocabulary = tokenizer.get_vocab()
        self._tokenizer = tokenizer
        self._line_end = vocabulary.get(LINE_END)
        # Before what the tokenizer takes for a command a text is cut, and a blank put
        # behind the cut.
        self._commands = tuple(
            added.content for added in tokenizer.get_added_tokens_decoder().values()
        )
        pieces = [
            piece
            for piece in vocabulary
            if not _BYTE.fullmatch(piece) and piece not in self._commands
        ]
        # Whether each piece is one digit or lies in one part of one word.
        plain = {piece.replace(BLANK, " ") for piece in pieces}
        others = plain - set(_PART.findall("\n".join(plain)))
        self._apart = self._line_end is not None and others <= set("0123456789")
        self._known: dict[str, int] = {}

    def count(self, text: str) -> int:
        """Return the number of tokens. What is no character is counted as a question mark."""
        clean = text.encode("utf-8", errors="replace").decode()
        if not clean:
            return 0
        if not self._apart or BLANK in clean or any(command in clean for command in self._commands):
            return len(self._ids(clean))
        words = _WORD.findall(f" {clean}")
        known = self._known
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
        missing = [
            part for part in dict.fromkeys(chain.from_iterable(parts.values())) if part not in known
        ]
        for some in _together(missing):
            learnt.update(zip(some, self._counts(some), strict=True))
        for word, found in parts.items():
            digits = len(word) - len("".join(found))
            learnt[word] = digits + sum(
                learnt[part] if part in learnt else known[part] for part in found
            )
        if len(known) + len(learnt) > TOKENIZER_LIMITS.max_words:
            self._known = {}  # a new one: who counts meanwhile still finds all words in the old one
        self._known.update(
            (word, count)
            for word, count in learnt.items()
            if len(word) <= TOKENIZER_LIMITS.max_word_chars
        )
        return learnt

    def _counts(self, words: Sequence[str]) -> Iterator[int]:
        """Count words of which each is put on a line of its own."""
        ids = self._ids("\n" + "\n".join(words))
        ends = [place for place, token in enumerate(ids) if token == self._line_end]
        for start, end in zip(ends, [*ends[1:], len(ids)], strict=True):
            yield end - start - 1

    def _ids(self, text: str) -> list[int]:
        return self._tokenizer.encode(text, add_special_tokens=False).ids


def _together(words: Sequence[str]) -> Iterator[list[str]]:
    """Cut a list of words to be counted together: it takes more than twice as long for
    twice the text.
    """
    part: list[str] = []
    size = 0
    for word in words:
        if part and size + len(word) > TOKENIZER_LIMITS.batch_chars:
            yield part
            part = []
            size = 0
        part.append(word)
        size += len(word) + 1
    if part:
        yield part


_RANKS = "https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken"

_lock = threading.Lock()
_counter: tuple[str, Callable[[str], int]] | None = None


def count_tokens(text: str) -> int:
    """Return the number of tokens of a text; of a long one that of its parts, which may
    be a little more.

    Tokenizers take more than twice as long for twice the text: a megabyte stopped all
    else for seconds.
    """
    count = _load()[1]
    if len(text) <= TOKENIZER_LIMITS.whole_chars:
        return count(text)
    return sum(count(part) for part in _parts(text))


def _parts(text: str) -> Iterator[str]:
    """Cut a text, before a space where there is one near."""
    start = 0
    while start < len(text):
        end = start + TOKENIZER_LIMITS.part_chars
        if end < len(text):
            space = text.rfind(" ", start + TOKENIZER_LIMITS.part_chars // 2, end)
            end = space if space > start else end
        yield text[start:end]
        start = end


def tokenizer_name() -> str:
    """Return which tokenizer counts."""
    return _load()[0]


def fits(text: str, budget_tokens: int) -> bool:
    """Return whether a text has at most `budget_tokens`, without counting where that is plain."""
    # A token is at least one byte, but for one that Llama's tokenizer may put in front.
    if len(text.encode(errors="replace")) < budget_tokens:
        return True
    return count_tokens(text) <= budget_tokens


def _load() -> tuple[str, Callable[[str], int]]:
    global _counter
    with _lock:
        if _counter is None:
            if _ranks_are_here():
                encode = tiktoken.get_encoding("o200k_base").encode_ordinary
                _counter = "o200k_base (tiktoken)", lambda text: len(encode(text))
            elif (encoding := packaged_encoding()) is not None:
                encode = encoding.encode_ordinary
                _counter = "o200k_base (packaged)", lambda text: len(encode(text))
            else:
                _counter = (
                    "llama-2 (packaged, offline)",
                    WordTokenCounts(packaged_tokenizer()).count,
                )
        return _counter


def _ranks_are_here() -> bool:
    """Return whether tiktoken will find the ranks whole; it downloads them if they are
    missing or damaged.

    Source: tiktoken.load.read_file_cached, for where they are kept.
    """
    folder = os.environ.get("TIKTOKEN_CACHE_DIR", os.environ.get("DATA_GYM_CACHE_DIR"))
    if folder == "":  # it keeps none then
        return False
    cache = Path(tempfile.gettempdir(), "data-gym-cache") if folder is None else Path(folder)
    try:
        ranks = (cache / hashlib.sha1(_RANKS.encode()).hexdigest()).read_bytes()
    except OSError:
        return False
    return hashlib.sha256(ranks).hexdigest() == RANKS_SHA256


TOKENS_A_MESSAGE = 4
"""What the formats spend on a message beside its text. Source: OpenAI's cookbook
on counting tokens.
"""


def prompt_tokens(messages: Sequence[Message], tools: Sequence[ToolSchema] = ()) -> int:
    """Return about how many tokens a request has."""
    tokens = sum(count_tokens(compact_json(dict(tool))) for tool in tools)
    return tokens + sum(count_tokens(text_of(message)) + TOKENS_A_MESSAGE for message in messages)


def text_of(message: Message) -> str:
    """Return all of a message that is sent, in one text."""
    if isinstance(message, AssistantMessage) and (message.tool_calls or message.extra):
        extra = [
            *_texts(message.extra),
            *(text for call in message.tool_calls for text in _texts(call.extra)),
        ]
        calls = "".join(call.name + call.arguments for call in message.tool_calls)
        return message.content + calls + "".join(extra)
    return message.content


def _texts(value: Any) -> Iterator[str]:
    """Yield the texts in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in cast(Mapping[str, Any], value).values():
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in cast(Sequence[Any], value):
            yield from _texts(item)
