"""Tables as lines of text, and when progress is shown."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from cli import render
from cli.render import GAP, MIN_FOLDED, layout
from tests.cli.conftest import invoke, n8n, printed

words = st.text(st.characters(codec="utf-8", categories=("L", "N")), min_size=1, max_size=12)
cells = st.lists(words, max_size=12).map(" ".join)
rows = st.lists(st.tuples(words, cells, words), max_size=6)


def test_columns_align_and_numbers_stand_right() -> None:
    assert layout(["key", "n"], [["a", "1"], ["bcd", "20"]], numbers=[1]) == [
        "key   n",
        "a     1",
        "bcd  20",
    ]


def test_an_empty_table_is_its_heading() -> None:
    assert layout(["key", "name"], []) == ["key  name"]


def test_only_the_folded_column_gives_way() -> None:
    lines = layout(
        ["key", "text"], [["a-long-key-to-copy", "some words that do not fit"]], folded=1, width=44
    )
    assert lines == [
        "key                 text",
        "a-long-key-to-copy  some words that do not",
        "                    fit",
    ]


@given(rows, st.integers(min_value=1, max_value=120))
@pytest.mark.slow
def test_nothing_is_lost_and_keys_stay_whole(table: list[tuple[str, str, str]], width: int) -> None:
    lines = layout(["key", "text", "end"], table, folded=1, width=width)
    joined = " ".join(lines[1:])
    for key, text, end in table:
        assert key in joined
        assert end in joined
        assert all(word in joined for word in text.split() if cell_len(word) <= MIN_FOLDED)
    others = [max(cell_len(row[i]) for row in [("key", "text", "end"), *table]) for i in (0, 2)]
    limit = max(width, sum(others) + 2 * len(GAP) + 2 * MIN_FOLDED)
    assert all(cell_len(line) <= limit for line in lines)


@given(rows)
def test_without_a_width_a_row_is_a_line(table: list[tuple[str, str, str]]) -> None:
    assert len(layout(["key", "text", "end"], table, folded=1)) == len(table) + 1


def test_short_work_shows_no_progress(capsys: pytest.CaptureFixture[str]) -> None:
    with render.progress("working", after_s=3600.0) as update:
        for done in range(101):
            update(done, 100)
    assert capsys.readouterr() == ("", "")


def test_long_work_shows_a_line_per_tenth_on_standard_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with render.progress("working", after_s=0.0) as update:
        for done in range(1, 1001):
            update(done, 1000)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.splitlines()[-1] == "working: 1000/1000"
    assert len(shown.err.splitlines()) == 11


def test_work_of_nothing_can_be_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with render.progress("working", after_s=0.0) as update:
        update(0, 0)
    assert capsys.readouterr().err == "working: 0/0\n"
    with render.progress("working", quiet=True, after_s=0.0) as update:
        update(1, 1)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("mark", ["\u202e", "\u2066", "\u200b", "\u2028", "\ufeff", "\U000e0041"])
def test_what_hides_or_reorders_text_is_shown_by_its_number(
    mark: str, capsys: pytest.CaptureFixture[str]
) -> None:
    render.line(f"if (admin{mark}) run()")
    assert f"admin⟨U+{ord(mark):04X}⟩) run()" in capsys.readouterr().out


def test_what_ordinary_writing_needs_is_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    written = "می\u200cخواهم, שלום\u200f, 👩\u200d👩, naïve"
    render.line(written)
    assert written in capsys.readouterr().out


def test_carriage_returns_and_escapes_move_no_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    render.line("good\r\x1b[2Kevil")
    assert "good␍\N{REPLACEMENT CHARACTER}[2Kevil" in capsys.readouterr().out


def test_a_workflow_comes_by_a_pipe_and_goes_back_as_it_came(folder: Path) -> None:
    workflow = n8n("Begin", "Fetch", "Send")
    db = ("--db", "sqlite:g.db")
    taken = invoke("import", "-", "--no-embed", "--json", *db, typed=json.dumps(workflow))
    (outcome,) = printed(taken)
    assert (outcome["action"], outcome["nodes"]) == ("created", 3)
    graph = outcome["graph"]
    back = printed(invoke("export", graph, "--format", "n8n", "--json", *db))
    assert back == workflow
    assert "not of node-red" in invoke("export", graph, "--format", "node-red", *db, exits=1).stderr
    invoke("export", graph, "--format", "xml", *db, exits=2)
