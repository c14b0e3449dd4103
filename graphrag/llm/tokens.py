"""Counts tokens as a model would, or as nearly as can be without a network; says which it is.

OpenAI's own ranks (`o200k_base`) are used when their file is on this machine; tiktoken would
download it otherwise, which is never tried here. Else the tokenizer that ships in the wordllama
package counts (Llama 2's, 32,000 pieces): for English and code it counts somewhat more, so a
budget kept with it is kept with the newer tokenizers too.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import tiktoken

from graphrag.embedding.local import packaged_tokenizer
from graphrag.llm.token_counts import WordTokenCounts

_RANKS = "https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken"
_RANKS_SHA256 = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"
WHOLE_CHARS = 16_000
"""Longest text that is counted in one piece."""

PART_CHARS = 2_000
_lock = threading.Lock()
_counter: tuple[str, Callable[[str], int]] | None = None


def count_tokens(text: str) -> int:
    """Return the number of tokens of a text; of a long one that of its parts, which may be a little more.

    Tokenizers take more than twice as long for twice the text: a megabyte stopped all else for seconds.
    """
    count = _load()[1]
    if len(text) <= WHOLE_CHARS:
        return count(text)
    return sum(count(part) for part in _parts(text))


def _parts(text: str) -> Iterator[str]:
    """Cut a text, before a space where there is one near."""
    start = 0
    while start < len(text):
        end = start + PART_CHARS
        if end < len(text):
            space = text.rfind(" ", start + PART_CHARS // 2, end)
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
            _counter = _openai_counter() if _ranks_are_here() else _packaged_counter()
        return _counter


def _ranks_are_here() -> bool:
    """Return whether tiktoken will find the ranks whole; it downloads them if they are missing or damaged.

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
    return hashlib.sha256(ranks).hexdigest() == _RANKS_SHA256


def _openai_counter() -> tuple[str, Callable[[str], int]]:
    encoding = tiktoken.get_encoding("o200k_base")
    return "o200k_base (tiktoken)", lambda text: len(encoding.encode_ordinary(text))


def _packaged_counter() -> tuple[str, Callable[[str], int]]:
    return "llama-2 (packaged, offline)", WordTokenCounts(packaged_tokenizer()).count
