"""A table in one test runs all of its rows and names those that fail."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.each_row import each_row

ROWS = [(1, 1), (2, 3), (3, 3), (4, 5)]


@pytest.mark.parametrize("is_async", [False, True])
def test_every_row_runs_and_each_that_fails_is_named(is_async: bool) -> None:
    seen: list[int] = []

    def compared(left: int, right: int) -> None:
        seen.append(left)
        assert left == right

    async def compared_later(left: int, right: int) -> None:
        compared(left, right)

    rows = each_row("left, right", *ROWS)
    with pytest.raises(BaseExceptionGroup, match="2 rows fail") as failed:
        asyncio.run(rows(compared_later)()) if is_async else rows(compared)()
    assert seen == [1, 2, 3, 4]
    notes = [each.__notes__[-1] for each in failed.value.exceptions]
    assert notes == ["the row: {'left': 2, 'right': 3}", "the row: {'left': 4, 'right': 5}"]


def test_a_table_without_rows_and_a_row_of_another_length_are_refused() -> None:
    with pytest.raises(AssertionError, match="shows nothing"):
        each_row("left, right")(lambda left, right: None)()
    with pytest.raises(ValueError, match="argument"):
        each_row("left, right", (1, 2, 3))
