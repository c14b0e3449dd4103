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
from collections.abc import Callable
from pathlib import Path

import tiktoken

from graphrag.embedders.local import packaged_tokenizer

_RANKS = "https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken"
_lock = threading.Lock()
_counter: tuple[str, Callable[[str], int]] | None = None


def count_tokens(text: str) -> int:
    """Return the number of tokens of a text."""
    return _load()[1](text)


def tokenizer_name() -> str:
    """Return which tokenizer counts."""
    return _load()[0]


def fits(text: str, budget_tokens: int) -> bool:
    """Return whether a text has at most `budget_tokens`, without counting where that is plain."""
    if len(text.encode(errors="replace")) <= budget_tokens:  # a token is at least one byte
        return True
    return count_tokens(text) <= budget_tokens


def _load() -> tuple[str, Callable[[str], int]]:
    global _counter
    with _lock:
        if _counter is None:
            _counter = _openai_counter() if _ranks_file().is_file() else _packaged_counter()
        return _counter


def _ranks_file() -> Path:
    """Return where tiktoken keeps the ranks it has downloaded (see tiktoken.load.read_file_cached)."""
    folder = os.environ.get("TIKTOKEN_CACHE_DIR") or os.environ.get("DATA_GYM_CACHE_DIR")
    cache = Path(folder) if folder else Path(tempfile.gettempdir(), "data-gym-cache")
    return cache / hashlib.sha1(_RANKS.encode()).hexdigest()  # noqa: S324


def _openai_counter() -> tuple[str, Callable[[str], int]]:
    encoding = tiktoken.get_encoding("o200k_base")
    return "o200k_base (tiktoken)", lambda text: len(encoding.encode_ordinary(text))


def _packaged_counter() -> tuple[str, Callable[[str], int]]:
    tokenizer = packaged_tokenizer()

    def count(text: str) -> int:
        clean = text.encode("utf-8", errors="replace").decode()
        return len(tokenizer.encode(clean, add_special_tokens=False).ids)

    return "llama-2 (packaged, offline)", count
