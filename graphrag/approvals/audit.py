"""The audit log of a workspace: a chain in which each entry contains the hash of the previous one.

The hash of an entry covers its facts, its number and the previous hash; a head record stores the
end of the chain. So edited, removed, added or exchanged entries are detected. If someone rewrites
all later entries and the head, only a head stored elsewhere reveals it: `verify` prints and accepts
one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

from datasources.base import Record, RecordStore, RecordWrite
from datasources.errors import BadDocument, RecordConflict
from graphrag.stored_records import given, put_over
from tools.proposals import hash_of

KIND = "audit"
HEAD = "head"
START = "0" * 64  # The previous hash of the first entry.

_ATTEMPTS = 100
_DAMAGED = "is not a number: the audit log was damaged; verify it"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry. `facts`: the recorded data. Units: `at` in milliseconds since 1970."""

    sequence: int
    previous: str
    hash: str
    at: int
    facts: Mapping[str, Any]

    def to_document(self) -> dict[str, Any]:
        chain_fields = {
            "sequence": self.sequence,
            "at": self.at,
            "previous": self.previous,
            "hash": self.hash,
        }
        return {**self.facts, **chain_fields}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """The result of verifying the whole chain. `head`: the hash to store elsewhere."""

    entries: int
    head: str
    faults: tuple[str, ...] = ()

    @property
    def is_sound(self) -> bool:
        return not self.faults


@final
class Audit:
    """Appends to the chain of one workspace and verifies it. `clock` returns milliseconds since
    1970.
    """

    def __init__(self, records: RecordStore, clock: Callable[[], int]) -> None:
        self._records = records
        self._clock = clock
        self._lock = asyncio.Lock()

    async def record(
        self, facts: Mapping[str, Any], write: Callable[[Sequence[RecordWrite]], Awaitable[object]]
    ) -> Entry:
        """Appends an entry in one transaction with the action that it records: `write` gets the
        writes of the entry.

        Entries of this process are appended one after another. If another process was first,
        `write` is called again. Raises: the errors of `write`; RecordConflict if other writers were
        first at every attempt.
        """
        async with self._lock:
            for attempt in range(1, _ATTEMPTS + 1):
                head = await self._records.get(KIND, HEAD)
                entry = self._next(facts, *_end_of(head))
                head_data = {"lastSequence": entry.sequence, "lastHash": entry.hash}
                document = entry.to_document()
                key = _key(entry.sequence)
                version = head.version if head else None
                writes = (
                    RecordWrite(kind=KIND, key=key, data=document, expected_version=None),
                    RecordWrite(kind=KIND, key=HEAD, data=head_data, expected_version=version),
                )
                try:
                    await write(writes)  # raises RecordConflict if another entry was first
                except RecordConflict as exc:
                    if exc.kind != KIND or attempt == _ATTEMPTS:
                        raise
                    await self._advance_head()
                else:
                    return entry
        raise AssertionError("unreachable")

    def _next(self, facts: Mapping[str, Any], sequence: int, previous: str) -> Entry:
        """Returns the entry that follows this number and hash."""
        covered: dict[str, Any] = {
            "sequence": sequence + 1,
            "at": self._clock(),
            "previous": previous,
        }
        return Entry(**covered, facts=facts, hash=hash_of({**facts, **covered}))

    async def entries(
        self,
        *,
        graph_key: str | None = None,
        approval_id: str | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> list[Entry]:
        """Returns the latest entries, newest first; with `before` only those with lower numbers."""
        where = given(graphKey=graph_key, approvalId=approval_id)
        last = None if before is None else before - 1
        records = await self._records.query(
            KIND, where, order_by="sequence", at_most=last, descending=True, limit=limit
        )
        return [_stored(record) for record in records if record.key != HEAD]

    async def length(self) -> int:
        """Returns the number of the last entry according to the head. Raises: BadDocument,
        SourceError.
        """
        return _end_of(await self._records.get(KIND, HEAD))[0]

    async def verify(self, *, noted: str | None = None) -> Verification:
        """Verifies every entry. `noted`: a head stored earlier, which must be in the chain."""
        head = await self._records.get(KIND, HEAD)
        claimed = _integer(head.data.get("lastSequence")) if head else 0
        # Reads more entries than the head claims, to detect entries that were added.
        records = await self._records.query(
            KIND, order_by="sequence", limit=max(claimed or 0, 0) + 10_000
        )
        entries = [record for record in records if record.key != HEAD]
        faults = list(_chain_faults(entries))
        faults += _head_faults(head, entries)
        hashes = [str(record.data.get("hash")) for record in entries]
        if noted is not None and noted not in (START, *hashes):
            faults.append(f"the noted hash {noted[:64]} is of no entry: the chain was written anew")
        return Verification(
            entries=len(entries), head=hashes[-1] if hashes else START, faults=tuple(faults)
        )

    async def _advance_head(self) -> None:
        """Advances the head if an entry follows it: a backup may contain an entry without its head.

        Raises: BadDocument, SourceError.
        """
        head = await self._records.get(KIND, HEAD)
        after = await self._records.get(KIND, _key(_end_of(head)[0] + 1))
        if after is not None:
            last = _stored(after)
            head_data = {"lastSequence": last.sequence, "lastHash": last.hash}
            version = head.version if head else None
            await put_over(self._records, Record(kind=KIND, key=HEAD, data=head_data), version)


def _key(sequence: int) -> str:
    return f"{sequence:012}"


def _stored(record: Record) -> Entry:
    """Returns a stored entry. Raises: BadDocument."""
    data = record.data
    chain_fields = ("sequence", "previous", "hash", "at")
    sequence = _integer(data.get("sequence"))
    at = _integer(data.get("at"))
    if sequence is None or at is None:
        raise BadDocument(collection=KIND, key=record.key, field="sequence", reason=_DAMAGED)
    return Entry(
        sequence=sequence,
        previous=str(data.get("previous")),
        hash=str(data.get("hash")),
        at=at,
        facts={name: value for name, value in data.items() if name not in chain_fields},
    )


def _end_of(head: Record | None) -> tuple[int, str]:
    """Returns the number and hash of the last entry of the chain. Raises: BadDocument."""
    if head is None:
        return 0, START
    sequence = _integer(head.data.get("lastSequence"))
    if sequence is None or sequence < 0:
        raise BadDocument(collection=KIND, key=HEAD, field="lastSequence", reason=_DAMAGED)
    return sequence, str(head.data.get("lastHash"))


def _integer(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _chain_faults(records: Sequence[Record]) -> list[str]:
    """Returns the deviations of the records from their places in the chain."""
    faults: list[str] = []
    previous = START
    expected = 1
    for record in sorted(records, key=lambda record: record.key):
        data = dict(record.data)
        stated = data.pop("hash", None)
        if record.key != _key(expected):
            faults.append(f"entry {expected} is missing; {record.key} stands in its place")
            expected = (
                int(record.key) if record.key.isascii() and record.key.isdigit() else expected
            )
        if _integer(data.get("sequence")) != expected:
            faults.append(f"entry {expected} says that it is number {data.get('sequence')!r}")
        if data.get("previous") != previous:
            faults.append(f"entry {expected} does not follow on the one before it")
        if hash_of(data) != stated:
            faults.append(f"entry {expected} was changed: its hash does not fit")
        previous = str(stated)
        expected = expected + 1
    return faults


def _head_faults(head: Record | None, records: Sequence[Record]) -> list[str]:
    """Compares the head with the end of the chain. One more entry is an append in progress."""
    ordered = sorted(records, key=lambda record: record.key)
    if head is None:
        return ["the head of the chain is missing"] if len(ordered) > 1 else []
    number = _integer(head.data.get("lastSequence"))
    digest = head.data.get("lastHash")
    if number is None or number < 0 or not len(ordered) - 1 <= number <= len(ordered):
        return [
            f"the head says {head.data.get('lastSequence')!r} entries, there are {len(ordered)}"
        ]
    last = ordered[number - 1].data.get("hash") if number else START
    return [] if last == digest else ["the head does not fit the last entry"]
