"""Describes schedules in both languages: common ones in words, others by their cron expression."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from itertools import islice
from typing import Final
from zoneinfo import ZoneInfo

from graphrag.i18n import Language, text
from graphrag.sessions.schedules import Schedule

NEXT_SHOWN: Final = 5
_DAYS: Final = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_NUMBER = re.compile(r"\d{1,2}")


def in_words(schedule: Schedule, language: Language, event: str | None = None) -> str:
    """Returns a description of a schedule, without its time zone. `event`: also starts the runs."""
    if event is not None:
        on_event = text("schedule_on_event", language, event=event)
        is_timed = schedule.dates or schedule.cron is not None
        return f"{in_words(schedule, language)}; {on_event}" if is_timed else on_event
    if schedule.dates:
        return text("schedule_on_dates", language, n=len(schedule.dates))
    if schedule.cron is None:
        return text("schedule_by_hand", language)
    return _preset(schedule.cron, language) or text(
        "schedule_by_cron", language, cron=schedule.cron
    )


def next_times(schedule: Schedule, now: int, count: int = NEXT_SHOWN) -> list[int]:
    """Returns the next occurrences after an instant. Units: milliseconds since 1970."""
    return list(islice(schedule.after(now), count))


def day_and_time(at: int, zone: ZoneInfo, language: Language) -> str:
    """Returns an instant in local time, as “Mon 23 Nov 02:00”."""
    local = datetime.fromtimestamp(at / 1000, zone)
    day = text(f"weekday_short_{local.isoweekday() % 7}", language)
    return f"{day} {local.day} {text(f'month_short_{local.month}', language)} {local:%H:%M}"


def _preset(cron: str, language: Language) -> str | None:
    minute, hour, day, month, weekday = cron.split()
    if month != "*":
        return None
    every = re.fullmatch(r"\*/(\d{1,2})", minute)
    if every and (hour, day, weekday) == ("*", "*", "*"):
        return text("schedule_every_minutes", language, minutes=int(every[1]))
    if not _NUMBER.fullmatch(minute):
        return None
    if (hour, day, weekday) == ("*", "*", "*"):
        return text("schedule_hourly", language, minute=int(minute))
    if not _NUMBER.fullmatch(hour):
        return None
    time = f"{int(hour):02}:{int(minute):02}"
    if weekday == "*":
        if day == "*":
            return text("schedule_daily", language, time=time)
        if day == "L":
            return text("schedule_month_end", language, time=time)
        return (
            text("schedule_monthly", language, time=time, day=int(day))
            if _NUMBER.fullmatch(day)
            else None
        )
    if day != "*":
        return None
    if weekday in ("1-5", "MON-FRI"):
        return text("schedule_weekdays", language, time=time)
    days = _weekdays(weekday.split(","))
    if days is None:
        return None
    names = [text(f"weekday_{number}", language) for number in days]
    return text("schedule_weekly", language, time=time, days=", ".join(names))


def _weekdays(parts: Sequence[str]) -> list[int] | None:
    """Returns the numbers of days of the week (Sunday: 0); None if a part is not a single day."""
    days: set[int] = set()
    for part in parts:
        if part in _DAYS:
            days.add(_DAYS.index(part))
        elif part.isdigit() and int(part) <= 7:
            days.add(int(part) % 7)
        else:
            return None
    return sorted(days, key=lambda number: number or 7)
