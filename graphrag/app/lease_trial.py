"""Rehearses what several servers agree by: leases in a database that two of them have opened."""

from __future__ import annotations

from datasources.base import Database
from graphrag.leases import Lease, new_owner

KEY = "rehearsal"


class LeaseRefused(Exception):
    """Another connection holds the lease."""

    def __init__(self, *, reason: str = "another connection holds the lease") -> None:
        super().__init__(reason)


class LeasesFailed(Exception):
    """A lease was let through where it should not have been, or the other way round."""

    def __init__(self, *, reason: str = "another connection holds the lease") -> None:
        super().__init__(reason)


async def check_leases(first: Database, second: Database) -> str:
    """Takes a lease on each of two connections, one after the other; returns what was seen.

    Raises: LeasesFailed, SourceError.
    """
    one = _lease(first)
    other = _lease(second)
    await one.hold()
    try:
        await other.hold()
    except LeaseRefused:
        pass
    else:
        raise LeasesFailed(reason="two connections hold one lease")
    await one.hold()
    await one.give_back()
    try:
        await other.hold()
    except LeaseRefused as exc:
        raise LeasesFailed(reason="a lease that was given back is refused to the next") from exc
    await other.give_back()
    return "held by one connection at a time, renewed, given back, taken by the other"


def _lease(database: Database) -> Lease:
    return Lease(database.records("rehearsal"), KEY, new_owner(), refused=LeaseRefused, facts={})
