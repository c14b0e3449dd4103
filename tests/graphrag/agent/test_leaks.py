"""Tool calls that leak into text."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from graphrag.agent.leaked_calls import MARKERS, LeakFilter
from tests.support.each_row import each_row

BLOCKS = (
    '<｜DSML｜function_calls>\n<｜DSML｜invoke name="x">\n</｜DSML｜invoke>\n</｜DSML｜function_calls>',
    '<|DSML|function_calls><|DSML|invoke name="x"></|DSML|invoke></|DSML|function_calls>',
    '<function_calls><invoke name="read_node"></invoke></function_calls>',
    '<function_call>{"name": "read_node"}</function_call>',
    '<tool_call>{"name": "read_node", "arguments": {"key": "a"}}</tool_call>',
    "<TOOL_CALL>{}</Tool_Call>",
)
harmless = st.text(alphabet="ab <>/|｜_DSMLfunction tool_call{}\n", max_size=40)


def filtered(pieces: Iterable[str]) -> tuple[str, bool]:
    write_guard = LeakFilter()
    text = "".join(write_guard.feed(piece) for piece in pieces) + write_guard.finish()
    return text, write_guard.leaked


@each_row("block", BLOCKS)
def test_a_leaked_call_is_taken_out_letter_by_letter(block: str) -> None:
    assert filtered(f"Before. {block}{block} After.") == ("Before.  After.", True)


@each_row("block", BLOCKS)
@each_row("marker", MARKERS)
def test_a_call_that_never_closes_takes_the_rest_with_it(block: str, marker: str) -> None:
    assert filtered(["Said. ", marker, "anything ", "at all"]) == ("Said. ", True)
    assert filtered([f"Said. {block} More. {marker}"]) == ("Said.  More. ", True)


@each_row(
    "text", ["a < b", "<", "x <tool", "<function", "<｜DSM", "if (a<|b|>c)", "<tool_calls>", "<toolcall>", ""]
)
def test_text_that_only_begins_like_a_marker_is_shown(text: str) -> None:
    assert filtered([text]) == (text, False)
    assert filtered(text) == (text, False)


def test_text_is_shown_as_soon_as_it_cannot_be_a_marker() -> None:
    write_guard = LeakFilter()
    assert write_guard.feed("Hello <b") == "Hello <b"
    assert write_guard.feed(" and <tool") == " and "
    assert write_guard.feed("box>") == "<toolbox>"


def test_taking_a_call_out_joins_no_marker_of_what_stands_around_it() -> None:
    assert filtered(["<tool<tool_call>{}</tool_call>_call>x"]) == ("<tool _call>x", True)
    assert filtered("<tool<tool_call>{}</tool_call>_call>x") == ("<tool _call>x", True)


@given(text=harmless, pieces=st.lists(harmless, max_size=6), block=st.sampled_from(BLOCKS))
def test_pieces_never_change_what_is_shown(text: str, pieces: list[str], block: str) -> None:
    whole = text + block + "".join(pieces)
    once = filtered([whole])
    assert filtered(whole) == once
    assert filtered([text, block[:7], block[7:], *pieces]) == once
    assert not any(marker in once[0] for marker in MARKERS)
