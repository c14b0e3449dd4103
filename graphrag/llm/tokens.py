"""Counts tokens as exactly as possible without a network, and names the tokenizer used.

OpenAI's ranks (`o200k_base`) are used if their file is on this machine or the extra `tokens` is
installed. They are never downloaded, unlike by tiktoken. Otherwise the tokenizer in the wordllama
package is used (Llama 2, 32,000 pieces). It counts somewhat more for English and code, so a budget
also holds for newer tokenizers.
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

BLANK = "\u2581"  # Represents a blank in the vocabulary, as in SentencePiece.

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

# A part of a word consists of letters or of signs, including typographic ones. Digits are not part
# of it.
_SIGNS = "\x00-\x09\x0b-\x1f!-/:-@\\[-`{-\xbf\u2000-\u206f"
_PART = re.compile(f"( *(?:[^ \n0-9{_SIGNS}]+|[{_SIGNS}]+)| +)")


class WordTokenCounts:
    """Counts with a tokenizer that puts a blank before each text. Thread-safe.

    Caches the counts of words. The cache is emptied when it has `TOKENIZER_LIMITS.max_words`.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        vocabulary = tokenizer.get_vocab()
        self._tokenizer = tokenizer
        self._line_end = vocabulary.get(LINE_END)
        # The tokenizer splits a text at a special token and puts a blank after it.
        self._special_tokens = tuple(
            added.content for added in tokenizer.get_added_tokens_decoder().values()
        )
        pieces = [
            piece
            for piece in vocabulary
            if not _BYTE.fullmatch(piece) and piece not in self._special_tokens
        ]
        # Whether each piece is one digit or part of one word, so that words can be counted alone.
        plain = {piece.replace(BLANK, " ") for piece in pieces}
        others = plain - set(_PART.findall("\n".join(plain)))
        self._counts_by_word = self._line_end is not None and others <= set("0123456789")
        self._cache: dict[str, int] = {}

    def count(self, text: str) -> int:
        """Returns the number of tokens. Invalid characters are counted as question marks."""
        clean = text.encode("utf-8", errors="replace").decode()
        if not clean:
            return 0
        if (
            not self._counts_by_word
            or BLANK in clean
            or any(special in clean for special in self._special_tokens)
        ):
            return len(self._ids(clean))
        words = _WORD.findall(f" {clean}")
        cache = self._cache
        try:
            total = sum(map(cache.__getitem__, words))
        except KeyError:
            counted = self._counted_words(words, cache)
            total = sum(counted[word] if word in counted else cache[word] for word in words)
        return total + clean.count("\n")

    def _counted_words(self, words: Sequence[str], cache: dict[str, int]) -> dict[str, int]:
        """Returns the counts of the words that are not in the cache, and adds them to it."""
        parts = {word: _PART.findall(word) for word in words if word not in cache}
        counts: dict[str, int] = {}
        missing = [
            part for part in dict.fromkeys(chain.from_iterable(parts.values())) if part not in cache
        ]
        for batch in _batches(missing):
            counts.update(zip(batch, self._counts(batch), strict=True))
        for word, word_parts in parts.items():
            digits = len(word) - len("".join(word_parts))
            counts[word] = digits + sum(
                counts[part] if part in counts else cache[part] for part in word_parts
            )
        if len(cache) + len(counts) > TOKENIZER_LIMITS.max_words:
            self._cache = {}  # a new object: other threads still use the old one
        self._cache.update(
            (word, count)
            for word, count in counts.items()
            if len(word) <= TOKENIZER_LIMITS.max_word_chars
        )
        return counts

    def _counts(self, words: Sequence[str]) -> Iterator[int]:
        """Yields the token counts of words, from one text with each word on its own line."""
        ids = self._ids("\n" + "\n".join(words))
        ends = [index for index, token in enumerate(ids) if token == self._line_end]
        for start, end in zip(ends, [*ends[1:], len(ids)], strict=True):
            yield end - start - 1

    def _ids(self, text: str) -> list[int]:
        return self._tokenizer.encode(text, add_special_tokens=False).ids


def _batches(words: Sequence[str]) -> Iterator[list[str]]:
    """Yields batches of words that are tokenized together. The tokenizer's time grows faster than
    the length of its text, so batches are limited.
    """
    batch: list[str] = []
    size = 0
    for word in words:
        if batch and size + len(word) > TOKENIZER_LIMITS.batch_chars:
            yield batch
            batch = []
            size = 0
        batch.append(word)
        size += len(word) + 1
    if batch:
        yield batch


_RANKS = "https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken"

_lock = threading.Lock()
_counter: tuple[str, Callable[[str], int]] | None = None


def count_tokens(text: str) -> int:
    """Returns the number of tokens of a text. A long text is counted in parts, which may give a few
    more.

    Tokenizers take more than linear time: one megabyte would block for seconds.
    """
    count = _load()[1]
    if len(text) <= TOKENIZER_LIMITS.whole_chars:
        return count(text)
    return sum(count(part) for part in _parts(text))


def _parts(text: str) -> Iterator[str]:
    """Yields the parts of a text, split at spaces if possible."""
    start = 0
    while start < len(text):
        end = start + TOKENIZER_LIMITS.part_chars
        if end < len(text):
            space = text.rfind(" ", start + TOKENIZER_LIMITS.part_chars // 2, end)
            end = space if space > start else end
        yield text[start:end]
        start = end


def tokenizer_name() -> str:
    """Returns the name of the tokenizer in use."""
    return _load()[0]


def fits(text: str, budget_tokens: int) -> bool:
    """Returns whether a text has at most `budget_tokens`. Does not count if its length decides."""
    # A token has at least one byte, except one that Llama's tokenizer may add in front.
    if len(text.encode(errors="replace")) < budget_tokens:
        return True
    return count_tokens(text) <= budget_tokens


def _load() -> tuple[str, Callable[[str], int]]:
    global _counter
    with _lock:
        if _counter is None:
            if _has_cached_ranks():
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


def _has_cached_ranks() -> bool:
    """Returns whether tiktoken's cache has the intact ranks; otherwise tiktoken would download
    them.

    Source: tiktoken.load.read_file_cached, for the location.
    """
    folder = os.environ.get("TIKTOKEN_CACHE_DIR", os.environ.get("DATA_GYM_CACHE_DIR"))
    if folder == "":  # caching is switched off
        return False
    cache = Path(tempfile.gettempdir(), "data-gym-cache") if folder is None else Path(folder)
    try:
        ranks = (cache / hashlib.sha1(_RANKS.encode()).hexdigest()).read_bytes()
    except OSError:
        return False
    return hashlib.sha256(ranks).hexdigest() == RANKS_SHA256


# Overhead of a message in the formats. Source: OpenAI's cookbook on counting tokens.
TOKENS_A_MESSAGE = 4


def prompt_tokens(messages: Sequence[Message], tools: Sequence[ToolSchema] = ()) -> int:
    """Returns the approximate number of tokens of a request."""
    tokens = sum(count_tokens(compact_json(dict(tool))) for tool in tools)
    return tokens + sum(count_tokens(text_of(message)) + TOKENS_A_MESSAGE for message in messages)


def text_of(message: Message) -> str:
    """Returns all parts of a message that are sent, as one text."""
    if isinstance(message, AssistantMessage) and (message.tool_calls or message.extra):
        extra = [
            *_texts(message.extra),
            *(text for call in message.tool_calls for text in _texts(call.extra)),
        ]
        calls = "".join(call.name + call.arguments for call in message.tool_calls)
        return message.content + calls + "".join(extra)
    return message.content


def _texts(value: Any) -> Iterator[str]:
    """Yields the texts in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in cast(Mapping[str, Any], value).values():
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in cast(Sequence[Any], value):
            yield from _texts(item)
