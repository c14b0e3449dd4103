"""OpenAI's ranks from the extra `tokens`, and what is refused in their place."""

import inspect
import struct
from importlib.util import find_spec
from pathlib import Path

import pytest
from tiktoken_ext import openai_public

from graphrag.llm.packaged_ranks import (
    PACKAGE,
    RANKS_SHA256,
    SPLIT,
    packaged_encoding,
    published_form,
    read_ranks,
)


def _file(ranks: dict[bytes, int]) -> bytes:
    rows = (struct.pack("<H", len(t)) + t + struct.pack("<I", rank) for t, rank in ranks.items())
    return struct.pack("<I", len(ranks)) + b"".join(rows)


def test_ranks_are_read_and_written_as_openai_publishes_them() -> None:
    ranks = {b"b": 1, b"a": 0, b"ab": 2}
    assert read_ranks(_file(ranks)) == ranks
    assert published_form(ranks) == b"YQ== 0\nYg== 1\nYWI= 2\n"


def test_a_damaged_file_has_no_ranks() -> None:
    whole = _file({b"a": 0, b"b": 1})
    assert [read_ranks(whole[:cut]) for cut in range(len(whole))] == [{}] * len(whole)


def test_checksum_and_splitting_are_those_of_tiktoken() -> None:
    source = inspect.getsource(openai_public.o200k_base)
    assert RANKS_SHA256 in source
    assert all(part in source for part in SPLIT)


def test_ranks_that_are_not_openais_are_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / PACKAGE / "data"
    data.mkdir(parents=True)
    (tmp_path / PACKAGE / "__init__.py").touch()
    (data / "o200k.vocab").write_bytes(_file({bytes([i]): i for i in range(256)}))
    monkeypatch.syspath_prepend(tmp_path)
    assert packaged_encoding() is None


@pytest.mark.skipif(find_spec(PACKAGE) is None, reason="the extra tokens is not installed")
def test_the_extra_counts_as_openai_does() -> None:
    encoding = packaged_encoding()
    assert encoding is not None
    # Source: OpenAI's cookbook, "How to count tokens with tiktoken"
    assert encoding.encode_ordinary("2 + 2 = 4") == [17, 659, 220, 17, 314, 220, 19]
    assert len(encoding.encode_ordinary("antidisestablishmentarianism")) == 6
