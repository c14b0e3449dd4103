"""Fields before and after as a person sees them: nothing that runs otherwise looks the same."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cli.diff import preview_lines
from graphrag.approvals.preview import document_change
from graphrag.changes.field_diff import field_changes
from tests.support.each_row import each_row

ODD_BREAKS = ("\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029", "\r")
code = st.text(st.sampled_from(["a", "b", " ", "+", "-", "\n", *ODD_BREAKS]), max_size=30)


def diff_of(before: str, after: str) -> str:
    fields = field_changes({"process": before}, {"process": after})
    [field] = document_change("a", "a", fields)["fields"]
    return field["diff"]


@each_row("mark", ODD_BREAKS)
def test_a_line_drawn_into_the_comment_before_it_is_a_change_that_is_seen(mark: str) -> None:
    diff = diff_of("// look\ncheck()\nrun()", f"// look{mark}check()\nrun()")
    assert f"+// look{mark}check()" in diff.split("\n")
    assert "-check()" in diff.split("\n")


@given(code, code)
def test_the_diff_of_two_texts_holds_all_that_is_new(before: str, after: str) -> None:
    if before == after:
        return
    rows = diff_of(before, after).split("\n")[2:]
    old = set(before.split("\n"))
    for line in after.split("\n") if after else ():
        assert line in old or f"+{line}" in rows
    assert all(row[:1] in ("+", "-", " ", "@") for row in rows)


def test_a_carriage_return_cannot_pass_an_added_line_off_as_a_removed_one() -> None:
    [field] = field_changes({"process": "run()"}, {"process": "run() //\r-check()"})
    change = document_change("a", "a", [field])
    shown = [text.strip() for text, _ in preview_lines({"nodesChanged": [change]})]
    assert "+run() //\r-check()" in shown
    assert "-check()" not in shown
