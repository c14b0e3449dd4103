"""Keys of programs: a person's right to read and propose from elsewhere, with an end, that can
be taken away.

A key is `nodius_key_ID_SECRET`. Of the secret, 256 random bits, only a hash is stored, which needs
no slow function: nobody guesses it. What a key allows is looked up for each use, so a key that is
revoked at one server is refused at all of them HELD_S later at the latest.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict

from datasources.base import Record, RecordStore
from graphrag.app.access_tokens import is_name
from graphrag.i18n import LocalizedError
from graphrag.leases import now_ms
from graphrag.retrieval.result_cache import ResultCache
from graphrag.roles import CALLER, ROLE_ORDER, Channel
from graphrag.stored_records import change_record, put_over
from tools.base import Role

KIND: Final = "api_key"
BEGINNING: Final = "nodius_"
KEY_DAYS: Final = 365
PROPOSING: Final[tuple[Channel, ...]] = ("mcp", "openai")
"""Channels that read and propose, by which nothing is decided or changed: those of a key
that names none.
"""
MAX_KEYS: Final = 50
"""Keys of one person that are neither revoked nor over."""
HELD_S, MAX_HELD = 3.0, 1_000
USED_MS: Final = 60_000
DAY_MS: Final = 86_400_000
_SECRET_CHARS: Final = 43


def is_api_key(text: str | None) -> bool:
    """Say whether a bearer's text is meant as a key."""
    return text is not None and text.startswith(BEGINNING)


class ApiKey(BaseModel):
    """What a key allows, never the key: to act as `user` with a role in workspaces, by these
    `channels` (none: by all). Units: times in milliseconds since 1970; `used` is right to a minute.
    """

    model_config = ConfigDict(frozen=True)

    id: str
    user: str
    role: Annotated[Role, BeforeValidator(lambda role: role if role in ROLE_ORDER else "viewer")]
    """A stored one that is none reads only."""
    workspaces: tuple[str, ...]
    name: str = ""
    channels: tuple[str, ...] = ()
    created: int = 0
    expires: int = 0
    used: int | None = None
    revoked: int | None = None

    @classmethod
    def of(cls, record: Record) -> ApiKey:
        """Read a stored key."""
        return cls.model_validate({**record.data, "id": record.key})

    def is_good(self, now: int) -> bool:
        return self.revoked is None and now < self.expires


class TooManyKeys(LocalizedError):
    """A person has as many keys as anybody may have."""

    def __init__(self, *, user: str) -> None:
        super().__init__(user=user, most=MAX_KEYS)


class ApiKeys:
    """Makes, finds and revokes keys; `records` are those of the root workspace."""

    def __init__(
        self,
        records: RecordStore,
        *,
        clock: Callable[[], int] = now_ms,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._records = records
        self._clock = clock
        self._held = ResultCache[Record | None](ttl_s=HELD_S, max_entries=MAX_HELD, clock=monotonic)

    async def create(
        self,
        *,
        user: str,
        role: Role,
        workspaces: Sequence[str],
        name: str = "",
        channels: Sequence[str] = PROPOSING,
        days: float = 90.0,
    ) -> tuple[ApiKey, str]:
        """Store a key; return it with its text, which is never shown again. No `channels`:
        good for all.

        Raises: ValueError for names, days or channels that no key may
        have, TooManyKeys, SourceError.
        """
        if (
            not is_name(user)
            or user.startswith(CALLER)
            or not workspaces
            or not all(map(is_name, workspaces))
        ):
            raise ValueError(
                "a key needs a user and workspaces, each of 1 to 200 printable characters"
            )
        if not 0 < days <= KEY_DAYS:
            raise ValueError(f"a key is good for {KEY_DAYS} days at most, and for more than none")
        if len(name) > 100 or not (name.isprintable() or not name):
            raise ValueError("the name of a key has at most 100 printable characters")
        if unknown := [one for one in channels if one not in get_args(Channel)]:
            raise ValueError(
                f"there is no channel {unknown[0]!r}; there are {', '.join(get_args(Channel))}"
            )
        now = self._clock()
        if sum(key.is_good(now) for key in await self.list(user=user)) >= MAX_KEYS:
            raise TooManyKeys(user=user)
        secret = secrets.token_urlsafe(32)
        key = ApiKey(
            id=f"key_{secrets.token_hex(8)}",
            user=user,
            role=role,
            workspaces=tuple(workspaces),
            name=name,
            channels=tuple(channels),
            created=now,
            expires=now + int(days * DAY_MS),
        )
        data = {
            **key.model_dump(mode="json", exclude={"id"}, exclude_none=True),
            "hash": _hash(secret),
        }
        await self._records.put(Record(kind=KIND, key=key.id, data=data), expected_version=None)
        return key, f"{BEGINNING}{key.id}_{secret}"

    async def find(self, text: str, channel: Channel) -> ApiKey | None:
        """Return the key of a text if it is good and may come by this
        channel. Raises: SourceError.
        """
        parts = text.removeprefix(BEGINNING).split("_", 2)
        if not text.startswith(BEGINNING) or len(parts) != 3 or len(parts[2]) != _SECRET_CHARS:
            return None
        key_id = f"{parts[0]}_{parts[1]}"[:100]
        record, _ = await self._held.get(key_id, lambda: self._records.get(KIND, key_id))
        known = str(record.data.get("hash", "")) if record else ""
        if not hmac.compare_digest(known, _hash(parts[2])) or record is None:
            return None
        key = ApiKey.of(record)
        now = self._clock()
        if not key.is_good(now) or (key.channels and channel not in key.channels):
            return None
        if key.used is None or now - key.used >= USED_MS:
            await self._note_use(key.id, now)
        return key

    async def list(self, *, user: str | None = None) -> list[ApiKey]:
        """Return the keys, newest first; revoked ones too. Raises: SourceError."""
        where = {} if user is None else {"user": user}
        found = await self._records.query(
            KIND, where, order_by="created", descending=True, limit=1_000
        )
        return [ApiKey.of(record) for record in found]

    async def revoke(
        self, key_id: str, *, workspaces: Sequence[str] | None = None
    ) -> ApiKey | None:
        """End a key at once; return it, or None where there is none (in these workspaces).

        Raises: SourceError.
        """

        def is_of(key: ApiKey) -> bool:
            return workspaces is None or set(key.workspaces) <= set(workspaces)

        def ended(record: Record | None) -> dict[str, Any] | None:
            key = None if record is None else ApiKey.of(record)
            if record is None or key is None or key.revoked is not None or not is_of(key):
                return None
            return {**record.data, "revoked": self._clock()}

        found = await change_record(self._records, KIND, key_id, ended)
        self._held.drop(key_id)
        key = None if found is None else ApiKey.of(found)
        return key if key is not None and is_of(key) else None

    async def _note_use(self, key_id: str, now: int) -> None:
        """Store when a key was last used; that it was revoked meanwhile is never overwritten."""
        record = await self._records.get(KIND, key_id)
        if record is None or record.data.get("revoked") is not None:
            return
        noted = Record(kind=KIND, key=key_id, data={**record.data, "used": now})
        if await put_over(self._records, noted, record.version) is not None:
            self._held.drop(key_id)


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()
