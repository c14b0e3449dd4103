"""Schedules of automations: a cron expression or a list of instants, in a time zone.

Pure functions; the caller passes the time.

When clocks change: a fixed time that does not exist runs once, at the first minute after the gap; a
time that exists twice runs the first time; `*` and `*/n` in minutes or hours follow elapsed time:
each minute that the clock shows, once or twice. Occurrences are in milliseconds since 1970 (UTC).
Source of these rules: Debian's cron.

`cronsim` reads the expressions, without a time zone: with one it steps whole hours, and misses
times where clocks change by half an hour.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from heapq import merge
from itertools import islice, pairwise
from typing import Final, Literal
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim, CronSimError

from graphrag.i18n import LocalizedError

MAX_CRON_CHARS: Final = 100
MAX_DATES: Final = 50
# Maximum number of missed occurrences that are counted. Counting more would take over 50 ms.
MAX_COUNTED: Final = 1_000
MAX_CAUGHT_UP: Final = 10
# Number of next occurrences that are compared to find the shortest distance.
_DISTANCES_CHECKED: Final = 400
_LATEST_MS: Final = int(datetime(9000, 1, 1, tzinfo=UTC).timestamp() * 1000)

Missed = Literal["last", "skip", "all"]
Fault = Literal["form", "seconds", "words", "never", "too_many", "past", "zone", "both", "often"]


class ScheduleError(LocalizedError):
    """Raised for an invalid schedule.

    Args:
        field: the invalid part: cron, dates or timezone.
        value: the invalid value, shortened.
        near: similar valid names.
        least_s: minimum distance of runs, in seconds.
    """

    def __init__(
        self, *, field: str, reason: Fault, value: str, near: Sequence[str] = (), least_s: int = 0
    ) -> None:
        self.field = field
        self.reason = reason
        self.value = value
        self.near = tuple(near)
        self.least_s = least_s
        self.code = f"schedule_wrong_{'dates' if (field, reason) == ('dates', 'form') else reason}"
        suggestions = f" ({', '.join(self.near)}?)" if self.near else ""
        super().__init__(value=value, near=suggestions, most=MAX_DATES, least=least_s)


@dataclass(frozen=True, slots=True)
class Schedule:
    """A valid schedule. Without `cron` and `dates`, runs are only started by people."""

    zone: ZoneInfo
    cron: str | None = None
    dates: tuple[int, ...] = ()

    def after(self, instant: int) -> Iterator[int]:
        """Yields the occurrences after an instant, in order. Endless for a cron expression."""
        if self.cron is None:
            yield from self.dates[bisect_right(self.dates, instant) :]
            return
        if not 0 <= instant < _LATEST_MS:
            return
        last = instant
        for at in self._candidates(self.cron, _earliest_clock_time(instant, self.zone)):
            if at > last:
                last = at
                yield at

    def _candidates(self, cron: str, start: datetime) -> Iterator[int]:
        """Yields the instants of the clock times after `start`, in order, some of them twice."""
        minute, hour, *_ = cron.split()
        if minute.startswith("*") or hour.startswith("*"):
            yield from merge(*(_instants(cron, start, self.zone, fold) for fold in (0, 1)))
        else:
            yield from (_first_instant(local, self.zone) for local in CronSim(cron, start))

    def next(self, instant: int) -> int | None:
        """Returns the first occurrence after an instant, or None."""
        return next(self.after(instant), None)

    def latest(self, first: int, now: int) -> int | None:
        """Returns the last occurrence from `first` to `now`, both included, or None."""
        low = first - 1
        high = now
        occurrence = self.next(low)
        if occurrence is None or occurrence > now:
            return None
        while low < high:
            middle = (low + high) // 2
            at = self.next(middle)
            if at is None or at > now:
                high = middle
            else:
                occurrence = at
                low = at
        return occurrence


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """The occurrences of a schedule to run now, and the number of those that are skipped."""

    run: tuple[int, ...]
    """Occurrences to run, oldest first."""
    dropped: int
    """Number of missed occurrences that will not run, at most `MAX_COUNTED`."""
    next: int | None


def schedule(*, cron: str | None, dates: Sequence[int] = (), timezone: str = "UTC") -> Schedule:
    """Returns a validated schedule. Raises: ScheduleError."""
    zone = zone_of(timezone)
    if cron is not None and dates:
        raise ScheduleError(field="cron", reason="both", value=cron[:MAX_CRON_CHARS])
    if len(dates) > MAX_DATES:
        raise ScheduleError(field="dates", reason="too_many", value=str(len(dates)))
    wrong = next((at for at in dates if not 0 <= at < _LATEST_MS), None)
    if wrong is not None:
        raise ScheduleError(field="dates", reason="form", value=str(wrong)[:40])
    return Schedule(zone, None if cron is None else _cron(cron), tuple(sorted(set(dates))))


def zone_of(name: str) -> ZoneInfo:
    """Returns a time zone by its IANA name. Raises: ScheduleError with similar names."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:  # unknown, malformed, or a folder
        near = get_close_matches(name[:60], available_timezones(), 3, 0.6)
        raise ScheduleError(field="timezone", reason="zone", value=name[:60], near=near) from error


def shortest_distance_s(when: Schedule, now: int) -> int | None:
    """Returns the shortest time between two of the next occurrences, None if there are not two.

    Units: seconds.
    """
    gaps = [two - one for one, two in pairwise(islice(when.after(now), _DISTANCES_CHECKED))]
    return min(gaps) // 1000 if gaps else None


def check_distance(when: Schedule, now: int, least_s: int) -> None:
    """Raises: ScheduleError if a schedule runs more often than every `least_s` seconds, or all its
    dates are past.
    """
    if when.dates and when.next(now) is None:
        raise ScheduleError(field="dates", reason="past", value=str(len(when.dates)))
    shortest = shortest_distance_s(when, now)
    if shortest is not None and shortest < least_s:
        field = "cron" if when.cron else "dates"
        raise ScheduleError(field=field, reason="often", value=str(shortest), least_s=least_s)


def due(
    when: Schedule, next_time: int, now: int, *, missed: Missed, catch_up_s: int, grace_s: int
) -> Due:
    """Returns the occurrences to run now. `next_time`: the occurrence that was expected next.

    An occurrence within `grace_s` before `now` is on time. Older ones were missed: `last` runs the
    latest of them if it is younger than `catch_up_s`, `skip` none, `all` the latest ten.
    """
    latest = when.latest(next_time, now)
    if latest is None:
        return Due(run=(), dropped=0, next=when.next(now) if next_time <= now else next_time)
    count = sum(1 for _ in islice(_until(when, next_time, now), MAX_COUNTED))
    on_time = latest > now - grace_s * 1000
    if missed == "all":
        run = _latest(when, next_time, now, MAX_CAUGHT_UP)
    elif on_time or (missed == "last" and latest > now - catch_up_s * 1000):
        run = (latest,)
    else:
        run = ()
    return Due(run=run, dropped=max(0, count - len(run)), next=when.next(now))


def _earliest_clock_time(instant: int, zone: ZoneInfo) -> datetime:
    """Returns a clock time that no later instant is before.

    A clock that is set back within a day shows times again that are before the present one.
    """
    now = datetime.fromtimestamp(instant / 1000, zone)
    tomorrow = (now.astimezone(UTC) + timedelta(days=1)).astimezone(zone)
    offsets = (now.utcoffset() or timedelta(), tomorrow.utcoffset() or timedelta())
    return now.astimezone(UTC).replace(tzinfo=None) + min(offsets)


def _instants(cron: str, start: datetime, zone: ZoneInfo, fold: int) -> Iterator[int]:
    for local in CronSim(cron, start):
        if (at := _instant(local, zone, fold)) is not None:
            yield at


def _instant(local: datetime, zone: ZoneInfo, fold: int) -> int | None:
    """Returns when the clock shows a time: first, or with `fold` 1 last. None: it never does."""
    at = local.replace(tzinfo=zone, fold=fold).astimezone(UTC)
    if at.astimezone(zone).replace(tzinfo=None, fold=0) != local:
        return None
    return round(at.timestamp() * 1000)


def _first_instant(local: datetime, zone: ZoneInfo) -> int:
    """Returns when the clock first shows a time, or the first whole minute after the gap."""
    while (at := _instant(local, zone, 0)) is None:
        local += timedelta(minutes=1)
    return at


def _until(when: Schedule, first: int, now: int) -> Iterator[int]:
    for at in when.after(first - 1):
        if at > now:
            return
        yield at


def _latest(when: Schedule, first: int, now: int, limit: int) -> tuple[int, ...]:
    occurrences: list[int] = []
    while len(occurrences) < limit and (at := when.latest(first, now)) is not None:
        occurrences.append(at)
        now = at - 1
    return tuple(reversed(occurrences))


def _cron(text: str) -> str:
    parts = text.split()
    shown = text.strip()[:MAX_CRON_CHARS]
    if text.strip().startswith("@"):
        raise ScheduleError(field="cron", reason="words", value=shown)
    if len(parts) == 6:
        raise ScheduleError(field="cron", reason="seconds", value=shown)
    if len(text) > MAX_CRON_CHARS or len(parts) != 5:
        raise ScheduleError(field="cron", reason="form", value=shown)
    minute, hour, day, month, weekday = (part.upper() for part in parts)
    # As in Quartz, "?" leaves a day field open.
    day, weekday = ("*" if part == "?" else part for part in (day, weekday))
    cron = " ".join((minute, hour, day, month, weekday))
    try:
        next(CronSim(cron, datetime(2024, 1, 1, tzinfo=UTC)))
    except StopIteration:
        raise ScheduleError(field="cron", reason="never", value=shown) from None
    except CronSimError as error:
        # CronSim reports a day that no month has as a malformed day.
        never = "day-of-month" in str(error) and all(c.isdigit() or c in " */,-" for c in cron)
        raise ScheduleError(
            field="cron", reason="never" if never else "form", value=shown
        ) from error
    return cron
