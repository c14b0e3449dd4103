"""Tables put together of remembered cells: the same text as of the table encoded as a whole."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.tools.test_toon import cells, names
from tools import toon_table
from tools.toon import ToonError, encode, encode_table
from tools.toon_table import Cells

mixed = cells | st.sampled_from(
    [1, 1.0, True, "1", 0, 0.0, -0.0, False, "0", "true", None, "null", float("nan")]
)
mixed |= st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=12)
mixed |= st.text("true nul1e+-.,:_", max_size=6)
tables = st.integers(1, 4).flatmap(
    lambda width: st.lists(st.lists(mixed, min_size=width, max_size=width), max_size=6)
)


@given(tables, st.none() | names, st.lists(names, min_size=4, max_size=4, unique=True))
@example([["a", "b\u2028", "\ud800"]], "[1]{a}:", ["a", "_key", "x[1]", "d"])
def test_a_table_is_written_as_if_encoded_whole(
    rows: list[list[Any]], name: str | None, columns: list[str]
) -> None:
    columns = columns[: len(rows[0]) if rows else 2]
    table = [dict(zip(columns, row, strict=True)) for row in rows]
    whole = encode(table if name is None else {name: table})
    assert encode_table(name, table, columns) == whole
    assert encode_table(name, table, columns) == whole


def test_cells_that_equal_each_other_are_written_each_in_its_way() -> None:
    assert Cells(encode).written([True, 1, "1", 1.5, False, 0, None]) == [
        "true",
        "1",
        '"1"',
        "1.5",
        "false",
        "0",
        "null",
    ]


def test_what_is_remembered_is_bounded_and_long_cells_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toon_table, "MAX_CELLS", 20)
    few = Cells(encode)
    for start in range(0, 100, 5):
        wanted = [f"cell {i}" for i in range(start, start + 15)] + ["x" * 2_000]
        assert few.written(wanted) == wanted
        assert len(few._known) <= 20
        assert max(map(len, few._known.values())) <= toon_table.MAX_CELL_CHARS


def test_threads_that_write_and_forget_at_once_lose_no_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toon_table, "MAX_CELLS", 10)
    shared = Cells(encode)
    rows = [[f"cell {i % 40}", f"cell {i % 17}", f"a,{i}"] for i in range(400)]
    with ThreadPoolExecutor(4) as pool:
        written = list(pool.map(shared.written, rows))
    assert written == [[a, b, f'"{c}"'] for a, b, c in rows]


def test_a_cell_that_is_no_json_is_refused() -> None:
    with pytest.raises(ToonError):
        encode_table(None, [{"a": object()}], ["a"])
