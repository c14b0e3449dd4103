"""Notes when people were last seen and under what name, in whose name automations run, and that a
server runs automations.
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
_REMEMBERED: Final = 10_000
MOST_PEOPLE: Final = 10_000
_NAMED: Final = 500
"""People whose names are read at once: those who were seen last."""


class Members:
    """The people of one workspace. `clock` gives milliseconds since 1970."""

    def __init__(self, records: RecordStore, *, clock: Callable[[], int] = now_ms) -> None:
        self._records = records
        self._clock = clock
        self._noted = OrderedDict[str, tuple[Role, str, int]]()

    def is_noted(self, person: Person) -> bool:
        """Whether `note` has nothing to store: it did so today, in the same role and under
        the same name.
        """
        role, name, at = self._noted.get(person.user_id, (None, "", 0))
        return (role, name) == (person.role, person.name) and self._clock() - at < DAY_MS

    async def note(self, person: Person) -> None:
        """Store that a person was seen now. Raises nothing: it is noted again tomorrow."""
        now = self._clock()
        self._noted[person.user_id] = (person.role, person.name, now)
        self._noted.move_to_end(person.user_id)
        if len(self._noted) > _REMEMBERED:
            self._noted.popitem(last=False)
        seen = {
            "role": person.role,
            "seenTime": now,
            **({"name": person.name} if person.name else {}),
        }
        await _note(self._records, person.user_id, seen)

    async def names(self) -> dict[str, str]:
        """Returns the last known names of the people who were seen last, by user
        id. Raises: SourceError.
        """
        found = await self._records.query(KIND, order_by="seenTime", descending=True, limit=_NAMED)
        return {one.key: name for one in found if isinstance(name := one.data.get("name"), str)}

    async def role_of(self, user_id: str, stored: Role) -> Role:
        """Return the lower of the role stored with something and the role its owner was
        seen in last.
        """
        found = await self._records.get(KIND, user_id)
        seen: list[Role] = [role for role in ROLE_ORDER if found and role == found.data.get("role")]
        return min([stored, *seen], key=ROLE_ORDER.index)

    async def is_gone(self, user_id: str) -> bool:
        """Whether a person was seen once, and not for 90 days."""
        found = await self._records.get(KIND, user_id)
        at = found.data.get("seenTime") if found else None
        return isinstance(at, int) and self._clock() - at > UNSEEN_MS


async def forget_unseen(
    records: RecordStore, *, now: int, days: int, most: int = MOST_PEOPLE
) -> int:
    """Deletes the records of people who were not seen for `days`, or beyond `most` of those
    seen longest ago.

    A person is known for at least the 90 days after which their automations pause. The owners of
    automations are kept: without their record a run would have its stored role again. Of the
    servers' records the latest is kept, and those of the last day. Returns how many were deleted.
    Units: `now` in milliseconds since 1970. Raises: SourceError.
    """
    people = 0
    has_tick = False
    unseen = list[Record]()
    async with aclosing(newest_first(records, KIND, "seenTime")) as found:
        async for record in found:
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
_LOOKED_AT: Final = 200


async def mark_tick(records: RecordStore, server: str, now: int) -> None:
    """Store that a server is at work. Raises nothing: it is marked again in a minute."""
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
    """Return when a server was last at work, None: none ever was. Units:
    milliseconds since 1970.
    """
    found = await records.query(KIND, order_by="seenTime", descending=True, limit=_LOOKED_AT)
    times = [record.data.get("seenTime") for record in found if record.key.startswith(_PREFIX)]
    return max((at for at in times if isinstance(at, int)), default=None)
