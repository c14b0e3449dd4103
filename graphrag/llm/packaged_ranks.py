"""Reads OpenAI's ranks (`o200k_base`) from the wheel of the extra `tokens`, without importing its
code.

The ranks are used only if their checksum is that of OpenAI's published file. Format of the file,
little-endian: the number of tokens; then the length, bytes and rank of each.
"""

from __future__ import annotations

import base64
import hashlib
import struct
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import tiktoken

PACKAGE: Final = "quicktok"
RANKS_SHA256: Final = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"
# How text is split before ranks apply. Source: tiktoken_ext.openai_public.o200k_base
SPLIT: Final = (
    r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?""",
    r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?""",
    r"""\p{N}{1,3}""",
    r""" ?[^\s\p{L}\p{N}]+[\r\n/]*""",
    r"""\s*[\r\n]+""",
    r"""\s+(?!\S)""",
    r"""\s+""",
)


def packaged_encoding() -> tiktoken.Encoding | None:
    """Returns the encoding, or None if the extra is not installed or its ranks differ."""
    spec = find_spec(PACKAGE)
    for folder in (spec.submodule_search_locations or []) if spec else []:
        path = Path(folder, "data", "o200k.vocab")
        ranks = read_ranks(path.read_bytes()) if path.is_file() else {}
        if hashlib.sha256(published_form(ranks)).hexdigest() == RANKS_SHA256:
            return tiktoken.Encoding(
                "o200k_base", pat_str="|".join(SPLIT), mergeable_ranks=ranks, special_tokens={}
            )
    return None


def read_ranks(raw: bytes) -> dict[bytes, int]:
    """Returns the rank of each token; empty if the file is damaged."""
    ranks: dict[bytes, int] = {}
    try:
        (number,) = struct.unpack_from("<I", raw)
        place = 4
        for _ in range(number):
            (length,) = struct.unpack_from("<H", raw, place)
            end = place + 2 + length
            (ranks[raw[place + 2 : end]],) = struct.unpack_from("<I", raw, end)
            place = end + 4
    except struct.error:
        return {}
    return ranks


def published_form(ranks: dict[bytes, int]) -> bytes:
    """Returns the ranks in OpenAI's file format: for each token a line with its base64 and its
    rank.
    """
    lines = (
        base64.b64encode(token) + b" %d\n" % rank
        for token, rank in sorted(ranks.items(), key=lambda i: i[1])
    )
    return b"".join(lines)
