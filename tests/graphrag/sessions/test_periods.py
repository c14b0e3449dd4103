"""Periods: calendar units of a wall clock, resolved against a reference."""

from __future__ import annotations

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag.sessions.periods import Calendar, PeriodError, Span, is_relative, resolve
from tests.support.each_row import each_row

PARIS = Calendar(timezone="Europe/Paris")


def ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


REFERENCE = ms("2026-11-18T14:20:00+01:00")  # a Wednesday


@each_row(
    "start, end, first, last",
    [
        ("-1_DAY", "-1_DAY", "2026-11-17T00:00+01:00", "2026-11-18T00:00+01:00"),
        ("-7_DAY", "NOW", "2026-11-11T00:00+01:00", "2026-11-18T14:20+01:00"),
        ("0_DAY", "0_DAY", "2026-11-18T00:00+01:00", "2026-11-18T14:20+01:00"),
        ("-1_WEEK", "-1_WEEK", "2026-11-09T00:00+01:00", "2026-11-16T00:00+01:00"),
        ("-1_MONTH", "-1_MONTH", "2026-10-01T00:00+02:00", "2026-11-01T00:00+01:00"),
        ("-1_YEAR", "-1_YEAR", "2025-01-01T00:00+01:00", "2026-01-01T00:00+01:00"),
        ("-2_HOUR", "-1_HOUR", "2026-11-18T12:00+01:00", "2026-11-18T14:00+01:00"),
        ("2026-11-01T00:00+01:00", "NOW", "2026-11-01T00:00+01:00", "2026-11-18T14:20+01:00"),
    ],
)
def test_a_period_is_whole_units_never_later_than_the_reference(
    start: str, end: str, first: str, last: str
) -> None:
    assert resolve(start, end, REFERENCE, PARIS) == Span(ms(first), ms(last))


@each_row("reference, hours", [("2026-03-30T10:00+02:00", 23), ("2026-10-26T10:00+01:00", 25)])
def test_a_day_on_which_the_clock_changes_is_shorter_or_longer(reference: str, hours: int) -> None:
    day = resolve("-1_DAY", "-1_DAY", ms(reference), PARIS)
    assert day.end - day.start == hours * 3_600_000


def test_a_day_may_begin_at_six_and_a_week_on_sunday() -> None:
    calendar = Calendar(timezone="Europe/Paris", day_start_hour=6, first_day="sunday")
    early = ms("2026-11-18T05:00+01:00")
    assert resolve("0_DAY", "NOW", early, calendar).start == ms("2026-11-17T06:00+01:00")
    assert resolve("0_WEEK", "NOW", early, calendar).start == ms("2026-11-15T06:00+01:00")


def test_a_day_whose_first_hour_does_not_exist_begins_after_the_gap() -> None:
    calendar = Calendar(timezone="Africa/Cairo")
    noon = ms("2026-04-24T12:00+03:00")
    assert resolve("0_DAY", "NOW", noon, calendar).start == ms("2026-04-24T01:00+03:00")


@each_row(
    "start, end, part, reason",
    [
        ("yesterday", "NOW", "from", "form"),
        ("-1_DAYS", "NOW", "from", "form"),
        ("-12345_DAY", "NOW", "from", "form"),
        ("2026-11-01T00:00", "NOW", "from", "form"),
        ("NOW", "2027-01-01T00:00+00:00", "to", "future"),
        ("1_DAY", "NOW", "from", "future"),
        ("NOW", "-1_DAY", "to", "order"),
        ("-9999_YEAR", "NOW", "from", "range"),
        ("-1_DAY", "9999_YEAR", "to", "range"),
    ],
)
def test_what_is_no_period_is_refused_by_its_part(start: str, end: str, part: str, reason: str) -> None:
    with pytest.raises(PeriodError) as error:
        resolve(start, end, REFERENCE, PARIS)
    assert (error.value.part, error.value.reason) == (part, reason)


UNITS = st.builds(
    "{}_{}".format, st.integers(-9999, 9999), st.sampled_from(["HOUR", "DAY", "WEEK", "MONTH", "YEAR"])
)


@given(UNITS, UNITS, st.integers(0, 4 * 10**12), st.integers(0, 23), st.sampled_from(["sunday", "monday"]))
def test_any_period_is_in_order_and_past_or_refused(
    start: str, end: str, reference: int, hour: int, first: str
) -> None:
    assert is_relative(start)
    calendar = Calendar(timezone="Australia/Lord_Howe", day_start_hour=hour, first_day=first)
    try:
        span = resolve(start, end, reference, calendar)
    except PeriodError:
        return
    assert span.start <= span.end <= reference
