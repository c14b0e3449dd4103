"""Answers are read aloud as they come, without what cannot be said."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag.relay.spoken_text import SpokenText, cut_texts, spoken

NOTICE = "No model: set SOME_SETTING."


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("It is **open** until `six`.", "It is open until six."),
        ("See {{node:fetch-api}} and {{ node: log | Logger }}.", "See fetch-api and log."),
        ("# Hours\n- nine\n- six\n2. and so on", "Hours\nnine\nsix\nand so on"),
        ("Run this:\n```sh\nrm -rf x\n```\nThen call.", "Run this:\n\nThen call."),
        ("At 3 - 4 it is 5 * 6.", "At 3 - 4 it is 5  6."),
        ("A year like 1990. And more.", "A year like 1990. And more."),
        ("{{ not a link", "{{ not a link"),
    ],
)
def test_marks_links_and_code_are_not_said(written: str, said: str) -> None:
    assert spoken(written) == said


@given(
    st.lists(
        st.sampled_from(
            ["a", "b ", "* ", "`", "```", "{{node:", "}}", "{{", "|", "\n", "# ", "- ", "1. "]
        ),
        max_size=30,
    ).map("".join),
    st.lists(st.integers(1, 7), min_size=1, max_size=20),
)
def test_the_same_is_said_however_the_words_come(written: str, sizes: list[int]) -> None:
    words = SpokenText()
    said, at = "", 0
    for size in sizes * 80:
        said += words.feed(written[at : at + size])
        at += size
    assert said + words.end() == spoken(written)


def test_words_are_passed_on_before_the_answer_is_complete() -> None:
    words = SpokenText()
    assert words.feed("We are op") == "We are "
    assert words.feed("en. See {{node:fe") == "open. See "
    assert words.feed("tch}} now") == "fetch "
    assert words.end() == "now"


@pytest.mark.parametrize(
    "pieces", [[f"{NOTICE}\n\nHello."], ["No model: set SOME", "_SETTING.\n\nHello."]]
)
def test_a_first_paragraph_that_is_not_for_callers_is_left_out(pieces: list[str]) -> None:
    words = SpokenText(skips_until="SOME_SETTING")
    said = "".join(words.feed(piece) for piece in pieces) + words.end()
    assert said == "Hello."


def test_an_answer_without_such_a_paragraph_is_said_whole() -> None:
    words = SpokenText(skips_until="SOME_SETTING")
    assert words.feed("Hello ") + words.end() == "Hello"


def test_texts_of_one_answer_are_cut_to_the_words_that_were_heard() -> None:
    texts = ["Let me **look**.", "It is open until six."]
    assert cut_texts(texts, "Let me look. It is open") == ["Let me **look**.", "It is open"]
    assert cut_texts(texts, "Let me") == ["Let me", ""]
    assert cut_texts(texts, "Let me look. It is open until six.") == texts
