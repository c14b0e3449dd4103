"""Resolves periods of time: instants, or calendar units relative to a reference. Pure functions.

`-1_WEEK` to `-1_WEEK` is the whole last week; `-7_DAY` to `NOW` is the last seven days and today
until now. A day begins at a configured hour of local time and has 23, 24 or 25 hours.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from graphrag.i18n import LocalizedError
from graphrag.sessions.schedules import zone_of

NOW: Final = "NOW"
_UNIT = re.compile(r"(-?\d{1,4})_(HOUR|DAY|WEEK|MONTH|YEAR)")
_MIN_DATE = datetime(1971, 1, 1)
_MAX_DATE = datetime(8999, 1, 1)
WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


class PeriodError(LocalizedError, ValueError):
    """Raised for an invalid period.

    Args:
        part: `from` or `to`.
        reason: `form`, `range` (outside the supported years), `future` or `order`.
        value: the invalid part, shortened.
    """

    def __init__(self, *, part: str, reason: str, value: str) -> None:
        super().__init__(part=part, reason=reason, value=value)
        self.part = part
        self.reason = reason
        self.value = value


@dataclass(frozen=True, slots=True, kw_only=True)
class Calendar:
    """The time zone, the first hour of a day and the first day of a week."""

    timezone: str = "UTC"
    day_start_hour: int = 0
    first_day: str = "monday"


@dataclass(frozen=True, slots=True)
class Span:
    """A period. Units: milliseconds since 1970; `end` is exclusive."""

    start: int
    end: int


def is_relative(part: str) -> bool:
    """Returns whether one end of a period is relative to the reference."""
    return part == NOW or _UNIT.fullmatch(part) is not None


def resolve(start: str, end: str, reference: int, calendar: Calendar) -> Span:
    """Returns the start and end of a period. The end is never later than the reference.

    Args:
        start, end: `NOW`, an instant in ISO 8601 with its offset, or `n_UNIT`.
        reference: milliseconds since 1970.

    Raises:
        PeriodError: an end is malformed, lies in the future, or the period ends before it begins.
        ScheduleError: the time zone is unknown.
    """
    zone = zone_of(calendar.timezone)
    first = _end("from", start, reference, zone, calendar)[0]
    last = min(_end("to", end, reference, zone, calendar)[1], reference)
    if first > reference:
        raise PeriodError(part="from", reason="future", value=start[:40])
    if last < first:
        raise PeriodError(part="to", reason="order", value=end[:40])
    return Span(first, last)


def _end(
    part: str, text: str, reference: int, zone: ZoneInfo, calendar: Calendar
) -> tuple[int, int]:
    if text == NOW:
        return reference, reference
    unit = _UNIT.fullmatch(text)
    if unit is None:
        at = _instant(part, text)
        if at > reference:
            raise PeriodError(part=part, reason="future", value=text[:40])
        return at, at
    try:
        return _unit(int(unit[1]), unit[2], reference, zone, calendar)
    except OverflowError as error:
        raise PeriodError(part=part, reason="range", value=text[:40]) from error


def _instant(part: str, text: str) -> int:
    try:
        at = datetime.fromisoformat(text[:40])
    except ValueError as error:
        raise PeriodError(part=part, reason="form", value=text[:40]) from error
    if at.tzinfo is None or len(text) > 40:
        raise PeriodError(part=part, reason="form", value=text[:40])
    return round(at.timestamp() * 1000)


def _unit(
    count: int, unit: str, reference: int, zone: ZoneInfo, calendar: Calendar
) -> tuple[int, int]:
    if unit == "HOUR":
        local = datetime.fromtimestamp(reference / 1000, zone)
        past = timedelta(minutes=local.minute, seconds=local.second, microseconds=local.microsecond)
        start = local.astimezone(UTC) - past + timedelta(hours=count)
        return _ms(start), _ms(start + timedelta(hours=1))
    # Computed in local time, shifted so that days begin at midnight, then converted to instants.
    shift = timedelta(hours=calendar.day_start_hour)
    local = datetime.fromtimestamp(reference / 1000, zone).replace(tzinfo=None) - shift
    day = local.replace(hour=0, minute=0, second=0, microsecond=0)
    if unit == "DAY":
        start = day + timedelta(days=count)
        end = day + timedelta(days=count + 1)
    elif unit == "WEEK":
        days_since_first = (day.weekday() - WEEKDAYS.index(calendar.first_day)) % 7
        start = day + timedelta(days=7 * count - days_since_first)
        end = start + timedelta(days=7)
    else:
        months = count * (12 if unit == "YEAR" else 1)
        first = day.replace(day=1, month=1) if unit == "YEAR" else day.replace(day=1)
        start = _months(first, months)
        end = _months(first, months + (12 if unit == "YEAR" else 1))
    return _wall(start + shift, zone), _wall(end + shift, zone)


def _months(first: datetime, count: int) -> datetime:
    year, month = divmod(first.year * 12 + first.month - 1 + count, 12)
    if not _MIN_DATE.year <= year <= _MAX_DATE.year:
        raise OverflowError
    return first.replace(year=year, month=month + 1)


def _wall(local: datetime, zone: ZoneInfo) -> int:
    """Returns the first instant of a local time, or the end of the gap that contains it."""
    if not _MIN_DATE <= local <= _MAX_DATE:
        raise OverflowError
    at = local.replace(tzinfo=zone, fold=0)
    there = at.astimezone(UTC).astimezone(zone)
    if there.replace(tzinfo=None, fold=0) != local:  # inside a gap
        return _gap_end(at.astimezone(UTC), zone)
    return _ms(at)


def _gap_end(near: datetime, zone: ZoneInfo) -> int:
    """Returns the time at which the clock is changed, less than a day from `near`."""
    low = near - timedelta(days=1)
    high = near + timedelta(days=1)
    before = low.astimezone(zone).utcoffset()
    while high - low > timedelta(seconds=1):
        middle = low + (high - low) / 2
        if middle.astimezone(zone).utcoffset() == before:
            low = middle
        else:
            high = middle
    return round(high.timestamp()) * 1000


def _ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)
