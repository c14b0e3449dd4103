"""Tests the leases by which several servers coordinate, in a database opened by two connections."""

from __future__ import annotations

from datasources.base import Database
from graphrag.leases import Lease, new_owner

KEY = "rehearsal"


class LeaseRefused(Exception):
    """Another connection holds the lease."""

    def __init__(self, *, reason: str = "another connection holds the lease") -> None:
        super().__init__(reason)


class LeasesFailed(Exception):
    """A lease was given where it should have been refused, or the reverse."""

    def __init__(self, *, reason: str = "another connection holds the lease") -> None:
        super().__init__(reason)


async def check_leases(first: Database, second: Database) -> str:
    """Takes a lease on each of two connections in turn; returns a summary.

    Raises: LeasesFailed, SourceError.
    """
    first_lease = _lease(first)
    second_lease = _lease(second)
    await first_lease.hold()
    try:
        await second_lease.hold()
    except LeaseRefused:
        pass
    else:
        raise LeasesFailed(reason="two connections hold one lease")
    await first_lease.hold()
    await first_lease.give_back()
    try:
        await second_lease.hold()
    except LeaseRefused as exc:
        raise LeasesFailed(reason="a lease that was given back is refused to the next") from exc
    await second_lease.give_back()
    return "held by one connection at a time, renewed, given back, taken by the other"


def _lease(database: Database) -> Lease:
    return Lease(database.records("rehearsal"), KEY, new_owner(), refused=LeaseRefused, facts={})
