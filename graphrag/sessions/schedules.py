"""When an automation runs: a cron expression or a list of instants, in a time zone; pure,
reads no clock.

Clocks that change: a fixed hour that does not exist runs once, at the first minute after the
gap; one that comes twice runs the first time; `*` and `*/n` in minutes or hours follow real
time. An occurrence is its instant, in milliseconds since 1970 (UTC). Source of the rules:
Debian's cron, through `cronsim`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from itertools import islice, pairwise
from typing import Final, Literal
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim, CronSimError

from graphrag.i18n import LocalizedError

MAX_CRON_CHARS: Final = 100
MAX_DATES: Final = 50
MAX_COUNTED: Final = 1_000
"""Missed occurrences are counted up to this many: a walk over more would take longer than 50 ms."""
MAX_CAUGHT_UP: Final = 10
_GAPS_LOOKED_AT: Final = 400
_LATEST_MS: Final = int(datetime(9000, 1, 1, tzinfo=UTC).timestamp() * 1000)

Missed = Literal["last", "skip", "all"]
Fault = Literal["form", "seconds", "words", "never", "too_many", "past", "zone", "both", "often"]


class ScheduleError(LocalizedError):
    """A schedule is not one.

    Args:
        field: which part is wrong: cron, dates or timezone.
        value: what was given, cut.
        near: names that may have been meant.
        least_s: seconds that runs must be apart.
    """

    def __init__(
        self, *, field: str, reason: Fault, value: str, near: Sequence[str] = (), least_s: int = 0
    ) -> None:
        self.field, self.reason, self.value, self.near = field, reason, value, tuple(near)
        self.least_s = least_s
        self.code = f"schedule_wrong_{'dates' if (field, reason) == ('dates', 'form') else reason}"
        meant = f" ({', '.join(self.near)}?)" if self.near else ""
        super().__init__(value=value, near=meant, most=MAX_DATES, least=least_s)


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule that was checked; neither `cron` nor `dates`: it runs when a person starts it."""

    zone: ZoneInfo
    cron: str | None = None
    dates: tuple[int, ...] = ()

    def after(self, instant: int) -> Iterator[int]:
        """Yield the occurrences later than an instant, soonest first; a cron expression has
        no last one.
        """
        if self.cron is None:
            yield from self.dates[bisect_right(self.dates, instant) :]
            return
        if not 0 <= instant < _LATEST_MS:
            return
        last = instant
        # Without its zone a wall clock that is set back would be read as the first of the two
        # hours: what lies before the instant is passed over.
        for found in CronSim(self.cron, datetime.fromtimestamp(instant / 1000, self.zone)):
            at = round(found.timestamp() * 1000)
            if at > last:
                last = at
                yield at

    def next(self, instant: int) -> int | None:
        """Return the first occurrence later than an instant, None: there is none."""
        return next(self.after(instant), None)

    def latest(self, first: int, now: int) -> int | None:
        """Return the last occurrence from `first` to `now`, both included."""
        low = first - 1
        high = now
        found = self.next(low)
        if found is None or found > now:
            return None
        while low < high:
            middle = (low + high) // 2
            at = self.next(middle)
            if at is None or at > now:
                high = middle
            else:
                found = at
                low = at
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """What of a schedule is to be run now, and what is not any more."""

    run: tuple[int, ...]
    """Occurrences to run, oldest first."""
    dropped: int
    """Occurrences that were missed and will not run, counted up to `MAX_COUNTED`."""
    next: int | None


def schedule(*, cron: str | None, dates: Sequence[int] = (), timezone: str = "UTC") -> Schedule:
    """Return a checked schedule. Raises: ScheduleError."""
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
    """Return a time zone by its IANA name. Raises: ScheduleError, with names that are near."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:  # not found, not a name, a folder
        near = get_close_matches(name[:60], available_timezones(), 3, 0.6)
        raise ScheduleError(field="timezone", reason="zone", value=name[:60], near=near) from error


def shortest_distance_s(when: Schedule, now: int) -> int | None:
    """Return the shortest time between two of the next occurrences, None: there are
    less than two.
    """
    gaps = [two - one for one, two in pairwise(islice(when.after(now), _GAPS_LOOKED_AT))]
    return min(gaps) // 1000 if gaps else None


def check_distance(when: Schedule, now: int, least_s: int) -> None:
    """Refuses a schedule that runs more often than every `least_s` seconds, or whose dates
    are all past.

    Raises: ScheduleError.
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
    """Decide what to run when `next_time`, the occurrence that was awaited, has come.

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


def _until(when: Schedule, first: int, now: int) -> Iterator[int]:
    for at in when.after(first - 1):
        if at > now:
            return
        yield at


def _latest(when: Schedule, first: int, now: int, most: int) -> tuple[int, ...]:
    found: list[int] = []
    while len(found) < most and (at := when.latest(first, now)) is not None:
        found.append(at)
        now = at - 1
    return tuple(reversed(found))


def _cron(text: str) -> str:
    parts = text.split()
    shown = text.strip()[:MAX_CRON_CHARS]
    if text.strip().startswith("@"):
        raise ScheduleError(field="cron", reason="words", value=shown)
    if len(parts) == 6:
        raise ScheduleError(field="cron", reason="seconds", value=shown)
    if len(text) > MAX_CRON_CHARS or len(parts) != 5:
        raise ScheduleError(field="cron", reason="form", value=shown)
    cron = " ".join(parts).upper()
    try:
        next(CronSim(cron, datetime(2024, 1, 1, tzinfo=UTC)))
    except StopIteration:
        raise ScheduleError(field="cron", reason="never", value=shown) from None
    except CronSimError as error:
        # The package knows that no month is long enough, and calls it a bad day.
        never = "day-of-month" in str(error) and all(c.isdigit() or c in " */,-" for c in cron)
        raise ScheduleError(
            field="cron", reason="never" if never else "form", value=shown
        ) from error
    return cron
