"""API keys: a person's right to read and propose from other programs, which expires and can be
revoked.

A key is `nodius_key_ID_SECRET`. Only a hash of the secret is stored; its 256 random bits cannot be
guessed, so no slow hash function is needed. The rights of a key are looked up at each use, so a key
revoked at one server is refused by all of them after at most HELD_S, and at once where the database
tells changes.
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
# Channels that read and propose, but do not decide or change anything: the default of a new key.
PROPOSING: Final[tuple[Channel, ...]] = ("mcp", "openai")
# Maximum number of valid keys of one person.
MAX_KEYS: Final = 50
# Time for which looked-up keys are cached, and their maximum number.
HELD_S, MAX_HELD = 3.0, 1_000
# The time of the last use is stored at most this often.
USED_MS: Final = 60_000
DAY_MS: Final = 86_400_000
# Interval in which `follow` forgets all keys, also without a notice.
FORGET_S: Final = 3_600.0
_SECRET_CHARS: Final = 43


def is_api_key(text: str | None) -> bool:
    """Returns whether a bearer token has the form of a key."""
    return text is not None and text.startswith(BEGINNING)


class ApiKey(BaseModel):
    """The rights of a key, without its text: to act as `user` with a role in workspaces, over these
    `channels` (all, if empty). Units: times in milliseconds since 1970; `used` is exact to a
    minute.
    """

    model_config = ConfigDict(frozen=True)

    id: str
    user: str
    # An unknown stored role counts as viewer.
    role: Annotated[Role, BeforeValidator(lambda role: role if role in ROLE_ORDER else "viewer")]
    workspaces: tuple[str, ...]
    name: str = ""
    channels: tuple[str, ...] = ()
    created: int = 0
    expires: int = 0
    used: int | None = None
    revoked: int | None = None

    @classmethod
    def of(cls, record: Record) -> ApiKey:
        """Returns the key in a record."""
        return cls.model_validate({**record.data, "id": record.key})

    def is_good(self, now: int) -> bool:
        return self.revoked is None and now < self.expires


class TooManyKeys(LocalizedError):
    """The person has the maximum number of keys."""

    def __init__(self, *, user: str) -> None:
        super().__init__(user=user, most=MAX_KEYS)


class ApiKeys:
    """Creates, finds and revokes keys. `records` are those of the root workspace."""

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

    async def follow(self) -> None:
        """Forgets looked-up keys that changed, here or at another server, until it is cancelled."""
        with self._records.notices.subscribed(KIND) as inbox:
            while True:
                told = await inbox.wait(FORGET_S)
                if told is None or any(notice.key is None for notice in told):
                    self._held.clear()
                else:
                    for notice in told:
                        self._held.drop(notice.key)

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
        """Creates a key; returns it with its text, which is not stored. Without `channels` all are
        allowed.

        Raises: ValueError for invalid names, days or channels; TooManyKeys, SourceError.
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
            raise ValueError(f"a key is valid for more than 0 and at most {KEY_DAYS} days")
        if len(name) > 100 or not (name.isprintable() or not name):
            raise ValueError("the name of a key has at most 100 printable characters")
        if unknown := [name for name in channels if name not in get_args(Channel)]:
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
        """Returns the key with this text if it is valid and allows the channel, otherwise None.

        Raises: SourceError.
        """
        parts = text.removeprefix(BEGINNING).split("_", 2)
        if not text.startswith(BEGINNING) or len(parts) != 3 or len(parts[2]) != _SECRET_CHARS:
            return None
        key_id = f"{parts[0]}_{parts[1]}"[:100]
        record, _ = await self._held.get(key_id, lambda: self._records.get(KIND, key_id))
        stored_hash = str(record.data.get("hash", "")) if record else ""
        if not hmac.compare_digest(stored_hash, _hash(parts[2])) or record is None:
            return None
        key = ApiKey.of(record)
        now = self._clock()
        if not key.is_good(now) or (key.channels and channel not in key.channels):
            return None
        if key.used is None or now - key.used >= USED_MS:
            await self._note_use(key.id, now)
        return key

    async def list(self, *, user: str | None = None) -> list[ApiKey]:
        """Returns the keys, newest first, including revoked ones. Raises: SourceError."""
        where = {} if user is None else {"user": user}
        records = await self._records.query(
            KIND, where, order_by="created", descending=True, limit=1_000
        )
        return [ApiKey.of(record) for record in records]

    async def revoke(
        self, key_id: str, *, workspaces: Sequence[str] | None = None
    ) -> ApiKey | None:
        """Revokes a key at once and returns it; None if there is none (in these workspaces).

        Raises: SourceError.
        """

        def is_in_workspaces(key: ApiKey) -> bool:
            return workspaces is None or set(key.workspaces) <= set(workspaces)

        def revoked_data(record: Record | None) -> dict[str, Any] | None:
            key = None if record is None else ApiKey.of(record)
            if (
                record is None
                or key is None
                or key.revoked is not None
                or not is_in_workspaces(key)
            ):
                return None
            return {**record.data, "revoked": self._clock()}

        changed = await change_record(self._records, KIND, key_id, revoked_data)
        self._held.drop(key_id)
        key = None if changed is None else ApiKey.of(changed)
        return key if key is not None and is_in_workspaces(key) else None

    async def _note_use(self, key_id: str, now: int) -> None:
        """Stores the time of the last use. Never overwrites a revocation."""
        record = await self._records.get(KIND, key_id)
        if record is None or record.data.get("revoked") is not None:
            return
        updated = Record(kind=KIND, key=key_id, data={**record.data, "used": now})
        if await put_over(self._records, updated, record.version) is not None:
            self._held.drop(key_id)


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()
