"""The best of many scores are those of ordering them all."""

from __future__ import annotations

import numpy as np

from datasources.sqlite.rows import MAX_TIES, SAMPLE, best_rows
from tests.support.each_row import each_row


@each_row("size", 0, 1, 50, 4 * SAMPLE + 1, 30_000)
@each_row("digits", 1, 7)
@each_row("share", 0.02, 1.0)
def test_the_best_scores_are_found(size: int, digits: int, share: float) -> None:
    chance = np.random.default_rng(size + digits)
    scores = np.round(chance.random(size), digits).astype(np.float32)
    scores[chance.random(size) > share] = 0
    for count in (1, 7, 330):
        rows = best_rows(scores, count)
        assert (np.diff(rows) > 0).all()
        assert len(rows) <= count + MAX_TIES
        assert np.sort(scores[rows])[::-1][:count].tolist() == np.sort(scores)[::-1][:count].tolist()


def test_what_is_better_is_not_lost_among_many_that_tie() -> None:
    scores = np.ones(5 * MAX_TIES)
    scores[-3:] = 2
    rows = best_rows(scores, 10)
    assert len(rows) == 10 + MAX_TIES
    assert rows[-3:].tolist() == [len(scores) - 3, len(scores) - 2, len(scores) - 1]


def test_a_guess_from_scores_that_lie_unevenly_is_only_a_guess() -> None:
    scores = np.zeros(8 * SAMPLE)
    scores[::8] = 1.0  # each score that is looked at, and no other
    assert len(best_rows(scores, 3 * SAMPLE)) == 3 * SAMPLE + MAX_TIES


def test_rows_left_out_are_never_among_the_best() -> None:
    for size in (20, 8 * SAMPLE):
        scores = np.full(size, -np.inf, dtype=np.float32)
        scores[[3, 9]] = 0.5, -0.5
        assert best_rows(scores, 30).tolist() == [3, 9]
        assert best_rows(scores, 5).tolist() == [3, 9]
