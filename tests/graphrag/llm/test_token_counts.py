"""Counting word by word: the same number as of the whole text, whatever was counted before."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models

from graphrag.embedding.local import packaged_tokenizer
from graphrag.llm import tokens
from graphrag.llm.tokens import WordTokenCounts

pieces = st.sampled_from(
    [" ", "  ", "\n", "\r\n", "\t", "a", "node", ",api-call,", '"x', "\u2581", "</s>", "<s", "s>", "<0x0A>"]
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


def test_what_is_remembered_is_bounded_and_long_words_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "MAX_WORDS", 50)
    few = WordTokenCounts(tokenizer())
    for start in range(0, 400, 10):
        text = " ".join([f"word{i}" for i in range(start, start + 40)] + ["x" * 500])
        assert few.count(text) == of_the_whole(text)
        assert len(few._known) <= 50
        assert max(map(len, few._known)) <= tokens.MAX_WORD_CHARS


def test_a_tokenizer_that_joins_words_counts_whole_texts() -> None:
    vocabulary = {"a": 0, "b": 1, "\u2581": 2, "a\u2581": 3, "a\u2581b": 4, "<0x0A>": 5}
    joining = Tokenizer(models.BPE(vocabulary, [("a", "\u2581"), ("a\u2581", "b")]))
    text = "a\u2581b"
    assert WordTokenCounts(joining).count(text) == 1
    assert WordTokenCounts(joining).count(text.replace("\u2581", " ")) == len(joining.encode("a b").ids)
