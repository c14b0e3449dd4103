"""Stores when each person was last seen, with name and role, and when each server last ticked.

Automations run in the name of their owners, so the role seen last limits them.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import aclosing
from typing import Any, Final

from datasources.base import Record, RecordStore
from datasources.errors import SourceError
from graphrag.automations.automation import KIND as AUTOMATION
from graphrag.leases import now_ms
from graphrag.roles import ROLE_ORDER, Person
from graphrag.stored_records import change_record, delete_record, newest_first
from tools.base import Role

log = logging.getLogger(__name__)

KIND: Final = "member"
DAY_MS: Final = 86_400_000
UNSEEN_MS: Final = 90 * DAY_MS
_MAX_CACHED: Final = 10_000
MOST_PEOPLE: Final = 10_000
# Maximum number of people whose names are read at once, the last seen first.
_MAX_NAMES: Final = 500


class Members:
    """The people of one workspace. `clock` returns milliseconds since 1970."""

    def __init__(self, records: RecordStore, *, clock: Callable[[], int] = now_ms) -> None:
        self._records = records
        self._clock = clock
        self._cached = OrderedDict[str, tuple[Role, str, int]]()

    def is_noted(self, person: Person) -> bool:
        """Returns whether the person was already stored today with the same role and name."""
        role, name, at = self._cached.get(person.user_id, (None, "", 0))
        return (role, name) == (person.role, person.name) and self._clock() - at < DAY_MS

    async def note(self, person: Person) -> None:
        """Stores that a person was seen now. Does not raise; the next request tries
        again tomorrow.
        """
        now = self._clock()
        self._cached[person.user_id] = (person.role, person.name, now)
        self._cached.move_to_end(person.user_id)
        if len(self._cached) > _MAX_CACHED:
            self._cached.popitem(last=False)
        seen = {
            "role": person.role,
            "seenTime": now,
            **({"name": person.name} if person.name else {}),
        }
        await _note(self._records, person.user_id, seen)

    async def names(self) -> dict[str, str]:
        """Returns the last names of the people who were seen last, by user id. Raises:
        SourceError.
        """
        records = await self._records.query(
            KIND, order_by="seenTime", descending=True, limit=_MAX_NAMES
        )
        return {one.key: name for one in records if isinstance(name := one.data.get("name"), str)}

    async def role_of(self, user_id: str, stored: Role) -> Role:
        """Returns the lower of the `stored` role and the role that the person had when
        seen last.
        """
        record = await self._records.get(KIND, user_id)
        seen: list[Role] = [
            role for role in ROLE_ORDER if record and role == record.data.get("role")
        ]
        return min([stored, *seen], key=ROLE_ORDER.index)

    async def looked(self, user_id: str) -> int | None:
        """Returns the time up to which a person has seen what happened; None: never."""
        record = await self._records.get(KIND, user_id)
        at = record.data.get("lookedTime") if record else None
        return at if isinstance(at, int) else None

    async def note_look(self, person: Person, time: int) -> None:
        """Stores that a person has seen what happened up to a time. Raises: SourceError."""

        def looked(earlier: Record | None) -> dict[str, Any]:
            data = dict(earlier.data) if earlier else {"role": person.role, "seenTime": time}
            return {**data, "lookedTime": max(time, data.get("lookedTime", 0))}

        await change_record(self._records, KIND, person.user_id, looked)

    async def is_gone(self, user_id: str) -> bool:
        """Returns whether a person was seen before, but not for 90 days."""
        record = await self._records.get(KIND, user_id)
        at = record.data.get("seenTime") if record else None
        return isinstance(at, int) and self._clock() - at > UNSEEN_MS


async def forget_unseen(
    records: RecordStore, *, now: int, days: int, most: int = MOST_PEOPLE
) -> int:
    """Deletes the records of people not seen for `days`, and those seen longest ago beyond the
    limit `most`. Returns their number.

    Records are kept for at least the 90 days after which automations pause. Owners of automations
    are kept: without the record a run would get its stored role again. Of servers, the latest
    record and those of the last day are kept. Units: `now` in milliseconds since 1970. Raises:
    SourceError.
    """
    people = 0
    has_tick = False
    unseen = list[Record]()
    async with aclosing(newest_first(records, KIND, "seenTime")) as records_by_age:
        async for record in records_by_age:
            age = now - int(record.data["seenTime"])
            if record.key.startswith(_PREFIX):
                is_old = has_tick and age > DAY_MS
                has_tick = True
            else:
                people += 1
                is_old = age > max(UNSEEN_MS, days * DAY_MS) or people > most
                is_old = is_old and not await records.query(
                    AUTOMATION, {"userId": record.key}, limit=1
                )
            if is_old:
                unseen.append(record)
    return sum([await delete_record(records, record) for record in unseen])


_PREFIX: Final = "tick/"
_MAX_READ: Final = 200


async def mark_tick(records: RecordStore, server: str, now: int) -> None:
    """Stores that a server is running. Does not raise; it is stored again in a minute."""
    await _note(records, f"{_PREFIX}{server}", {"seenTime": now})


async def _note(records: RecordStore, key: str, data: Mapping[str, Any]) -> None:
    try:
        await change_record(
            records,
            KIND,
            key,
            lambda earlier: {**(earlier.data if earlier else {}), **data},
            tries=1,
        )
    except SourceError as exc:
        log.warning("last_seen_not_noted", extra={"error": type(exc).__name__})


async def last_tick(records: RecordStore) -> int | None:
    """Returns when a server last ticked; None: never. Units: milliseconds since 1970."""
    ticks = await records.query(KIND, order_by="seenTime", descending=True, limit=_MAX_READ)
    times = [record.data.get("seenTime") for record in ticks if record.key.startswith(_PREFIX)]
    return max((at for at in times if isinstance(at, int)), default=None)
