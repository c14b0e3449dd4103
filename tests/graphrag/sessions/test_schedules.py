"""Schedules: what is refused, clocks that change, missed occurrences."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import islice, takewhile
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphrag.sessions.periods import Calendar, PeriodError, Span, is_relative, resolve
from graphrag.sessions.schedule_words import day_and_time, in_words, next_times
from graphrag.sessions.schedules import (
    Due,
    ScheduleError,
    check_distance,
    due,
    schedule,
    shortest_distance_s,
)

MINUTE = 60_000
DAY = 86_400_000


def ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


@pytest.mark.parametrize(
    ("given", "field", "reason"),
    [
        ({"cron": "* * * *"}, "cron", "form"),
        ({"cron": "61 * * * *"}, "cron", "form"),
        ({"cron": "0 0 0 * * *"}, "cron", "seconds"),
        ({"cron": "@daily"}, "cron", "words"),
        ({"cron": "? 0 * * *"}, "cron", "form"),
        ({"cron": "0 ? * * *"}, "cron", "form"),
        ({"cron": "0 0 * ? *"}, "cron", "form"),
        ({"cron": "0 0 ?/2 * *"}, "cron", "form"),
        ({"cron": "0 0 31 2 *"}, "cron", "never"),
        ({"cron": "1," * 5000 + "1 * * * *"}, "cron", "form"),
        ({"cron": "0 0 * * *", "dates": [1]}, "cron", "both"),
        ({"cron": None, "dates": list(range(51))}, "dates", "too_many"),
        ({"cron": None, "dates": [10**20]}, "dates", "form"),
        ({"cron": None, "timezone": "Europe/Pariss"}, "timezone", "zone"),
        ({"cron": None, "timezone": "../../etc/passwd"}, "timezone", "zone"),
    ],
)
def test_what_is_no_schedule_is_refused_by_its_field(given: Any, field: str, reason: str) -> None:
    with pytest.raises(ScheduleError) as error:
        schedule(**given)
    assert (error.value.field, error.value.reason) == (field, reason)


def test_a_zone_that_is_misspelt_comes_with_near_names() -> None:
    with pytest.raises(ScheduleError) as error:
        schedule(cron=None, timezone="Europe/Pariss")
    assert "Europe/Paris" in error.value.near


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"cron": "*/4 * * * *"}, "often"),
        ({"cron": "0,2 3 * * *"}, "often"),
        ({"cron": None, "dates": [DAY, DAY + MINUTE]}, "often"),
        ({"cron": None, "dates": [1, 2]}, "past"),
        ({"cron": "*/5 * * * *"}, None),
        ({"cron": None, "dates": [1, DAY]}, None),
        ({"cron": None}, None),
    ],
)
def test_runs_keep_a_distance_and_dates_are_to_come(given: Any, reason: str | None) -> None:
    when = schedule(**given)
    if reason is None:
        check_distance(when, now=10, least_s=300)
        return
    with pytest.raises(ScheduleError) as error:
        check_distance(when, now=10, least_s=300)
    assert error.value.reason == reason


@pytest.mark.parametrize(
    ("given", "english", "french"),
    [
        (
            {"cron": "0 2 * * 1-5"},
            "at 02:00 on Monday through Friday",
            "à 02:00 du lundi au vendredi",
        ),
        ({"cron": "5 14 * * *"}, "at 14:05 every day", "à 14:05 chaque jour"),
        (
            {"cron": "0 9 * * sun,wed"},
            "at 09:00 on Wednesday, Sunday",
            "à 09:00 le mercredi, dimanche",
        ),
        ({"cron": "0 9 * * 7"}, "at 09:00 on Sunday", "à 09:00 le dimanche"),
        ({"cron": "0 9 1 * *"}, "at 09:00 on day 1 of the month", "à 09:00 le 1 du mois"),
        ({"cron": "0 9 l * *"}, "at 09:00 on the last day of the month", None),
        ({"cron": "*/15 * * * *"}, "every 15 minutes", "toutes les 15 minutes"),
        ({"cron": "7 * * * *"}, "every hour, at minute 7", None),
        ({"cron": "0 9 ? * 1-5"}, "at 09:00 on Monday through Friday", None),
        ({"cron": "0 9 1 * ?"}, "at 09:00 on day 1 of the month", None),
        ({"cron": "0 9 ? * ?"}, "at 09:00 every day", None),
        ({"cron": "0 9 1 * 1"}, "by “0 9 1 * 1”", "selon « 0 9 1 * 1 »"),
        ({"cron": "0 9 * * 1#2"}, "by “0 9 * * 1#2”", None),
        ({"cron": "0 9 1 2 *"}, "by “0 9 1 2 *”", None),
        ({"cron": None, "dates": [DAY]}, "on 1 date", "à 1 date"),
        ({"cron": None}, "when a person starts it", None),
    ],
)
def test_presets_are_said_in_words_and_the_rest_by_its_expression(
    given: Any, english: str, french: str | None
) -> None:
    assert in_words(schedule(**given), "en") == english
    assert french is None or in_words(schedule(**given), "fr") == french


def test_the_next_times_are_said_on_the_clock_of_the_zone() -> None:
    when = schedule(cron="0 2 * * 1-5", timezone="Europe/Paris")
    times = next_times(when, ms("2026-11-20T12:00+01:00"))
    assert len(times) == 5
    assert day_and_time(times[0], when.zone, "en") == "Mon 23 Nov 02:00"
    assert next_times(schedule(cron=None, dates=[DAY]), 10) == [DAY]


@pytest.mark.parametrize(
    ("cron", "after", "expected"),
    [
        # Forward on 29 March 2026 from 02:00 to 03:00: once, at the first minute after the gap.
        (
            "30 2 * * *",
            "2026-03-28T12:00+01:00",
            ["2026-03-29T03:00+02:00", "2026-03-30T02:30+02:00"],
        ),
        (
            "0 2,3 * * *",
            "2026-03-28T12:00+01:00",
            ["2026-03-29T03:00+02:00", "2026-03-30T02:00+02:00"],
        ),
        # Back on 25 October 2026 from 03:00 to 02:00: once, the first time.
        (
            "30 2 * * *",
            "2026-10-24T12:00+02:00",
            ["2026-10-25T02:30+02:00", "2026-10-26T02:30+01:00"],
        ),
        ("30 2 * * *", "2026-10-25T02:15+01:00", ["2026-10-26T02:30+01:00"]),
        # What follows real time runs in both hours.
        (
            "*/30 * * * *",
            "2026-10-25T02:01+02:00",
            ["2026-10-25T02:30+02:00", "2026-10-25T02:00+01:00", "2026-10-25T02:30+01:00"],
        ),
    ],
)
def test_a_clock_that_changes_neither_loses_nor_doubles_a_run(
    cron: str, after: str, expected: list[str]
) -> None:
    found = schedule(cron=cron, timezone="Europe/Paris").after(ms(after))
    assert list(islice(found, len(expected))) == [ms(text) for text in expected]


def test_the_shortest_distance_is_found_also_between_hours() -> None:
    assert shortest_distance_s(schedule(cron="59 1,2 * * *"), 0) == 3600
    assert shortest_distance_s(schedule(cron="0,59 1,2 * * *"), 0) == 60
    assert shortest_distance_s(schedule(cron=None, dates=[0, 300_000]), -1) == 300
    assert shortest_distance_s(schedule(cron=None), 0) is None


NIGHTLY = schedule(cron="0 2 * * *")
START = ms("2026-01-01T02:00+00:00")


@pytest.mark.parametrize(
    ("missed", "run", "dropped"), [("last", 1, 46), ("skip", 0, 47), ("all", 10, 37)]
)
def test_after_47_days_away_a_daily_run_is_caught_up_as_asked(
    missed: Any, run: int, dropped: int
) -> None:
    now = START + 46 * DAY + 10 * 3_600_000
    found = due(NIGHTLY, START, now, missed=missed, catch_up_s=86_400, grace_s=60)
    assert (len(found.run), found.dropped, found.next) == (run, dropped, START + 47 * DAY)
    assert found.run == tuple(START + day * DAY for day in range(47 - run, 47))


def test_what_is_on_time_runs_whatever_is_said_of_missed_ones() -> None:
    found = due(NIGHTLY, START, START + 5000, missed="skip", catch_up_s=0, grace_s=60)
    assert found == Due(run=(START,), dropped=0, next=START + DAY)


def test_a_clock_that_is_set_back_runs_nothing_again() -> None:
    assert due(
        NIGHTLY, START + DAY, START + DAY - 3_600_000, missed="last", catch_up_s=9, grace_s=9
    ) == Due(run=(), dropped=0, next=START + DAY)


def test_ten_years_of_missed_minutes_are_counted_up_to_a_bound() -> None:
    every = schedule(cron="*/5 * * * *")
    found = due(every, START, START + 3650 * DAY, missed="last", catch_up_s=86_400, grace_s=1)
    assert found.run == (START + 3650 * DAY,)
    assert found.dropped == 999


# A second way to the same instants: minutes are walked, one by one.

CRONS = (
    "30 2 * * *",
    "15 0 * * *",
    "0,45 1,2,3 * * *",
    "0 1-23/2 * * *",
    "*/30 * * * *",
    "0 */2 * * *",
    "15,50 */3 * * *",
    "*/7 1,2 * * *",
    "0 3 * * SUN",
    "30 1 L * *",
)
# Days on which clocks changed by other than an hour, or whose offset is not of whole hours.
ODD_CHANGES = {
    "America/Caracas": "2007-12-09",  # 30 minutes back
    "America/St_Johns": "1988-10-30",  # two hours back, at 00:01
    "Antarctica/Casey": "2010-03-05",  # three hours back
    "Antarctica/Troll": "2026-03-29",  # two hours forward
    "Asia/Kathmandu": "1986-01-01",  # 15 minutes forward
    "Asia/Pyongyang": "2018-05-05",  # 30 minutes forward
    "Australia/Eucla": "2009-03-28",  # an hour back to UTC+8:45
    "Australia/Lord_Howe": "2026-04-05",  # 30 minutes back
    "Pacific/Apia": "2011-12-30",  # a day forward
    "Pacific/Chatham": "2026-09-27",  # an hour forward to UTC+13:45
    "Pacific/Kwajalein": "1993-08-21",  # a day forward
}
HOURS = 3_600_000

Minutes = list[tuple[int, datetime]]


@cache
def wall_clock(name: str, start: int, end: int) -> Minutes:
    zone = ZoneInfo(name)
    return [
        (at, datetime.fromtimestamp(at / 1000, zone).replace(tzinfo=None, fold=0))
        for at in range(start, end, MINUTE)
    ]


def numbers(field: str, most: int) -> set[int]:
    """Return the numbers that a field of lists, ranges and steps stands for, at least 0."""
    found = set[int]()
    for part in field.split(","):
        span, _, step = part.partition("/")
        first, _, last = span.replace("*", f"0-{most}").partition("-")
        found |= set(range(int(first), int(last or first) + 1, int(step or 1)))
    return found


def walked(cron: str, minutes: Minutes) -> list[int]:
    minute, hour, day, _, weekday = cron.split()
    fitting_minutes, fitting_hours = numbers(minute, 59), numbers(hour, 23)

    def fits(local: datetime) -> bool:
        return (
            local.minute in fitting_minutes
            and local.hour in fitting_hours
            and (weekday != "SUN" or local.weekday() == 6)
            and (day != "L" or (local + timedelta(days=1)).day == 1)
        )

    if minute.startswith("*") or hour.startswith("*"):
        return [at for at, local in minutes if fits(local)]
    first = dict[datetime, int]()
    for at, local in minutes:
        first.setdefault(local, at)
    found = set[int]()
    wall, last = min(first), max(first)
    while wall <= last:
        if fits(wall):
            later = wall
            while later not in first:
                later += timedelta(minutes=1)
            found.add(first[later])
        wall += timedelta(minutes=1)
    return sorted(found)


def check(name: str, cron: str, start: int, end: int, margin: int) -> None:
    """Compare the occurrences of some time with a walk over its minutes.

    The walk also covers `margin` before and after, as a clock time may belong to a minute there.
    """
    minutes = wall_clock(name, start - margin, end + margin)
    expected = [at for at in walked(cron, minutes) if start < at < end]
    found = takewhile(end.__gt__, schedule(cron=cron, timezone=name).after(start))
    assert list(found) == expected, (name, cron, start)


def odd_span(name: str) -> tuple[int, int, int]:
    """Return the day of an odd change in UTC with some hours around it, and the longest gap."""
    day = ms(f"{ODD_CHANGES[name]}T00:00+00:00")
    gap = 24 if name in ("Pacific/Apia", "Pacific/Kwajalein") else 3
    return day - 6 * HOURS, day + 30 * HOURS, (gap + 1) * HOURS


@pytest.mark.parametrize("name", ODD_CHANGES)
def test_an_odd_change_of_the_clock_neither_loses_nor_doubles_a_run(name: str) -> None:
    for cron in CRONS:
        check(name, cron, *odd_span(name))


def fields(most: int) -> st.SearchStrategy[str]:
    """Any field of minutes or hours: numbers, ranges and steps."""
    number = st.integers(0, most)
    steps = st.builds("*/{}".format, st.integers(2, most))
    spans = st.builds(
        "{0[0]}-{0[1]}/{1}".format,
        st.tuples(st.integers(0, most // 2), st.integers(most // 2 + 1, most)),
        st.integers(1, most),
    )
    lists = st.lists(number, min_size=1, max_size=3).map(lambda few: ",".join(map(str, few)))
    return st.one_of(st.just("*"), steps, spans, lists)


@settings(max_examples=30)
@given(st.sampled_from(sorted(ODD_CHANGES)), fields(59), fields(23))
def test_any_minutes_and_hours_follow_an_odd_change(name: str, minute: str, hour: str) -> None:
    check(name, f"{minute} {hour} * * *", *odd_span(name))


def test_a_schedule_is_the_same_from_any_instant_on() -> None:
    for cron in ("*/10 * * * *", "45 1 * * *"):
        when = schedule(cron=cron, timezone="Australia/Lord_Howe")
        start, end, _ = odd_span("Australia/Lord_Howe")
        every = list(takewhile(end.__gt__, when.after(start)))
        for at in range(start, every[-1], 17 * MINUTE):
            assert when.next(at) == next(one for one in every if one > at), (cron, at)


def changes(name: str) -> Iterator[int]:
    """Yield the hours from 2020 to 2035 in which a zone's offset changes."""
    zone = ZoneInfo(name)
    hour = timedelta(hours=1)
    low = datetime(2020, 1, 1, tzinfo=UTC)
    while low < datetime(2036, 1, 1, tzinfo=UTC):
        high = low + timedelta(days=4)
        if low.astimezone(zone).utcoffset() != high.astimezone(zone).utcoffset():
            one = low
            two = high
            while two - one > hour:
                middle = one + (two - one) / 2
                same = middle.astimezone(zone).utcoffset() == low.astimezone(zone).utcoffset()
                one, two = (middle, two) if same else (one, middle)
            yield round(one.timestamp()) // 60 * MINUTE
        low = high


def rules() -> dict[tuple[tuple[int, ...], tuple[int, ...]], str]:
    """Return one zone of each set of changes: many names share one."""
    found = dict[tuple[tuple[int, ...], tuple[int, ...]], str]()
    for name in sorted(available_timezones()):
        key = tuple(changes(name))
        offsets = tuple(
            round(
                (
                    datetime.fromtimestamp(at / 1000, ZoneInfo(name)).utcoffset() or timedelta()
                ).total_seconds()
            )
            for at in key[:2]
        )
        if key:
            found.setdefault((offsets, key), name)
    return found


@pytest.mark.slow
def test_no_zone_of_2020_to_2035_loses_or_doubles_an_occurrence() -> None:
    checked = 0
    for (_, instants), name in rules().items():
        for at in instants:
            for cron in CRONS:
                check(name, cron, at - 13 * HOURS, at + 13 * HOURS, 4 * HOURS)
                checked += 1
    assert checked > 10_000


PARIS = Calendar(timezone="Europe/Paris")


REFERENCE = ms("2026-11-18T14:20:00+01:00")  # a Wednesday


@pytest.mark.parametrize(
    ("start", "end", "first", "last"),
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


@pytest.mark.parametrize(
    ("reference", "hours"), [("2026-03-30T10:00+02:00", 23), ("2026-10-26T10:00+01:00", 25)]
)
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


@pytest.mark.parametrize(
    ("start", "end", "part", "reason"),
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
def test_what_is_no_period_is_refused_by_its_part(
    start: str, end: str, part: str, reason: str
) -> None:
    with pytest.raises(PeriodError) as error:
        resolve(start, end, REFERENCE, PARIS)
    assert (error.value.part, error.value.reason) == (part, reason)


UNITS = st.builds(
    "{}_{}".format,
    st.integers(-9999, 9999),
    st.sampled_from(["HOUR", "DAY", "WEEK", "MONTH", "YEAR"]),
)


@given(
    UNITS,
    UNITS,
    st.integers(0, 4 * 10**12),
    st.integers(0, 23),
    st.sampled_from(["sunday", "monday"]),
)
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
