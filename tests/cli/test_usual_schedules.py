"""Schedules in words for `--every`."""

import pytest

from cli.usual_schedules import cron_of
from graphrag.sessions.schedules import schedule


@pytest.mark.parametrize(
    ("words", "cron"),
    [
        ("day 02:00", "0 2 * * *"),
        ("Weekday 23:59", "59 23 * * 1-5"),
        ("monday 8:05", "5 8 * * 1"),
        ("Thursday, monday 08:00", "0 8 * * 1,4"),
        ("sunday 00:00", "0 0 * * 0"),
        ("month 02:00", "0 2 1 * *"),
        ("month-31 02:00", "0 2 31 * *"),
        ("month-last 02:00", "0 2 L * *"),
    ],
)
def test_usual_schedules_become_fields_of_cron(words: str, cron: str) -> None:
    assert cron_of(words) == cron
    schedule(cron=cron, dates=(), timezone="UTC")


@pytest.mark.parametrize(
    "words",
    ["", "02:00", "day", "day 24:00", "day 2", "montag 02:00", "month-32 02:00", "monday, 02:00"],
)
def test_other_words_are_refused_with_the_forms(words: str) -> None:
    with pytest.raises(ValueError, match="write day 02:00, weekday 02:00"):
        cron_of(words)
