"""Schedules in words for `--every`, such as `weekday 02:00`."""

from __future__ import annotations

import re

_DAYS = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
_TIME = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)")
_DAY_OF_MONTH = re.compile(r"month(?:-([1-9]|[12]\d|3[01]|last))?")

FORMS = "day 02:00, weekday 02:00, monday,thursday 02:00, month 02:00, month-15 02:00 or month-last 02:00"


def cron_of(words: str) -> str:
    """Returns the five fields of cron for a schedule in words.

    Raises: ValueError if it has none of the FORMS.
    """
    days, _, time = words.strip().lower().rpartition(" ")
    at = _TIME.fullmatch(time)
    if at is None:
        raise ValueError(f"{words!r}: write {FORMS}")
    hour, minute = int(at[1]), int(at[2])
    return f"{minute} {hour} {_days(days.replace(' ', ''), words)}"


def _days(days: str, words: str) -> str:
    """Returns the fields of cron for the day of the month, the month and the weekday."""
    if days == "day":
        return "* * *"
    if days == "weekday":
        return "* * 1-5"
    if (month := _DAY_OF_MONTH.fullmatch(days)) is not None:
        return f"{'L' if month[1] == 'last' else month[1] or 1} * *"
    names = days.split(",")
    if not set(names) <= set(_DAYS):
        raise ValueError(f"{words!r}: write {FORMS}")
    return f"* * {','.join(str(number) for number, name in enumerate(_DAYS) if name in names)}"
