"""Counting tokens: which tokenizer counts, without a network, and the quick answer of `fits`."""

import base64
import hashlib
import inspect
import os
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tiktoken_ext import openai_public
from tokenizers import Tokenizer, models

from graphrag.embedding.local import packaged_tokenizer
from graphrag.llm import tokens
from graphrag.llm.tokens import WordTokenCounts, count_tokens, fits, tokenizer_name

TEXTS = [
    "",
    " ",
    "Fetch NBA players",
    "const x = items.map((i) => i.json);",
    "Équipe été",
    "发送邮件 🏀",
]


@pytest.fixture
def packaged(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No ranks on this machine: the packaged tokenizer counts."""
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(tokens, "_counter", None)


@pytest.mark.usefixtures("packaged")
def test_without_ranks_the_packaged_tokenizer_counts_and_is_named() -> None:
    assert tokenizer_name() == "llama-2 (packaged, offline)"
    tokenizer = packaged_tokenizer()
    for text in TEXTS:
        assert count_tokens(text) == len(tokenizer.encode(text, add_special_tokens=False).ids)


@pytest.mark.usefixtures("packaged")
@given(st.text())
def test_a_count_is_at_most_the_bytes_but_for_a_leading_piece(text: str) -> None:
    assert 0 <= count_tokens(text) <= len(text.encode(errors="replace")) + 1


@given(st.text(max_size=60), st.integers(-1, 60))
@example("0", 1)
@example("\n\n", 2)
@example("", 0)
def test_fits_says_what_counting_says(text: str, budget: int) -> None:
    assert fits(text, budget) == (count_tokens(text) <= budget)


def _ranks_of_single_bytes(folder: Path) -> Path:
    """Write a ranks file as tiktoken keeps it, of the 256 bytes alone."""
    lines = [base64.b64encode(bytes([i])) + f" {i}".encode() for i in range(256)]
    file = folder / hashlib.sha1(tokens._RANKS.encode()).hexdigest()
    file.write_bytes(b"\n".join(lines))
    return file


_COUNT = (
    "from graphrag.llm.tokens import *; print(count_tokens('hello'), tokenizer_name(), sep='|')"
)


def _count_in_new_process(cache: Path | str) -> str:
    # A proxy that nobody serves: a try of the network would fail rather than find it.
    env = {**os.environ, "TIKTOKEN_CACHE_DIR": str(cache), "HTTPS_PROXY": "http://127.0.0.1:9"}
    done = subprocess.run([sys.executable, "-c", _COUNT], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.strip()


@pytest.mark.slow
def test_no_ranks_means_no_try_of_the_network(tmp_path: Path) -> None:
    assert _count_in_new_process(tmp_path).endswith("|llama-2 (packaged, offline)")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_damaged_ranks_are_not_used(tmp_path: Path) -> None:
    _ranks_of_single_bytes(tmp_path)  # not what the checksum of tiktoken expects
    assert _count_in_new_process(tmp_path).endswith("|llama-2 (packaged, offline)")


def test_the_checksum_is_the_one_that_tiktoken_asks_for() -> None:
    assert tokens._RANKS in inspect.getsource(openai_public.o200k_base)


def test_ranks_that_are_here_count() -> None:
    if not tokens._has_cached_ranks():
        pytest.skip("the ranks of o200k_base are not on this machine, and tests do not download")
    name, count = tokens._load()
    assert "o200k_base" in name
    assert count("hello world") == 2
    assert count("<|endoftext|>") > 1  # text, not a command


@pytest.mark.parametrize(
    "text", ["a node waits for its input ", "const x = await fetch(url);\n", "a"]
)
def test_a_long_text_counts_nearly_as_it_does_in_one_piece(text: str) -> None:
    long = text * (20_000 // len(text))
    whole = tokens._load()[1](long)
    assert whole <= tokens.count_tokens(long) <= whole * 1.02


pieces = st.sampled_from(
    [
        " ",
        "  ",
        "\n",
        "\r\n",
        "\t",
        "a",
        "node",
        ",api-call,",
        '"x',
        "\u2581",
        "</s>",
        "<s",
        "s>",
        "<0x0A>",
    ]
)
texts = st.lists(pieces | st.text(max_size=5), max_size=30).map("".join)


@cache
def tokenizer() -> Tokenizer:
    return packaged_tokenizer()


@cache
def counts() -> WordTokenCounts:
    return WordTokenCounts(tokenizer())


def of_the_whole(text: str) -> int:
    readable = text.encode("utf-8", errors="replace").decode()
    return len(tokenizer().encode(readable, add_special_tokens=False).ids)


@given(texts)
@example("")
@example(" ")
@example("\n")
@example("a \u2581b")
@example("a</s> b")
@example("nodes[1]{_key,type}:\n  api-call,API Call\n\n  \n caf\udce9 发送邮件 🏀")
def test_words_count_as_much_as_the_whole_text(text: str) -> None:
    assert counts().count(text) == of_the_whole(text)
    assert counts().count(text) == of_the_whole(text)


def test_what_is_remembered_is_bounded_and_long_words_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tokens, "TOKENIZER_LIMITS", replace(tokens.TOKENIZER_LIMITS, max_words=50))
    few = WordTokenCounts(tokenizer())
    for start in range(0, 400, 10):
        text = " ".join([f"word{i}" for i in range(start, start + 40)] + ["x" * 500])
        assert few.count(text) == of_the_whole(text)
        assert len(few._cache) <= 50
        assert max(map(len, few._cache)) <= tokens.TOKENIZER_LIMITS.max_word_chars


def test_a_tokenizer_that_joins_words_counts_whole_texts() -> None:
    vocabulary = {"a": 0, "b": 1, "\u2581": 2, "a\u2581": 3, "a\u2581b": 4, "<0x0A>": 5}
    joining = Tokenizer(models.BPE(vocabulary, [("a", "\u2581"), ("a\u2581", "b")]))
    text = "a\u2581b"
    assert WordTokenCounts(joining).count(text) == 1
    assert WordTokenCounts(joining).count(text.replace("\u2581", " ")) == len(
        joining.encode("a b").ids
    )
