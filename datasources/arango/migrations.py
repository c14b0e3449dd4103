"""Brings a database to the present version, step by step; a step that was cut short is done again.

Every step may run twice. The version is stored after each.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from datasources.arango import statements_setup as aql
from datasources.arango.connection import ArangoConnection
from datasources.arango.documents import read_node
from datasources.arango.words import own_words
from datasources.errors import BadDocument, DatabaseVersion

PAGE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """One step: what the version is after it, and what it does; it returns what was done."""

    version: int
    run: Callable[[ArangoConnection], Awaitable[list[str]]]


async def stored_version(connection: ArangoConnection) -> int:
    """Return the version that a database was brought to, 0 where none was. Raises: DatabaseVersion."""
    rows = await connection.query(aql.VERSION)
    version = int(rows[0]) if rows else 0
    if version > VERSION:
        raise DatabaseVersion(path=connection.source, found=version, supported=VERSION)
    return version


async def migrate(connection: ArangoConnection) -> list[str]:
    """Run the steps that are due; return what was done. Raises: DatabaseVersion."""
    version = await stored_version(connection)
    done: list[str] = []
    for step in MIGRATIONS:
        if step.version > version:
            done += await step.run(connection)
            await connection.query(aql.SET_VERSION, version=step.version)
            done.append(f"brought the database to version {step.version}")
    return done


async def fill_words(connection: ArangoConnection) -> list[str]:
    """Give words to the nodes that another program wrote, so that they are found by BM25."""
    after, filled, unreadable = "", 0, 0
    while page := await connection.query(aql.WITHOUT_WORDS, after=after, limit=PAGE):
        docs: list[dict[str, Any]] = []
        for stored in page:
            try:
                node = read_node(stored, stored["graphKey"])
            except (BadDocument, KeyError):
                unreadable += 1
                continue
            docs.append({"key": stored["_key"], "rev": stored["_rev"], "words": own_words(node)})
        filled += len(await connection.query(aql.PUT_WORDS, docs=docs))
        after = page[-1]["_key"]
    done = [f"gave words to {filled:,} nodes"] if filled else []
    return [*done, f"left out {unreadable:,} nodes that are not readable"] if unreadable else done


MIGRATIONS = (Migration(version=1, run=fill_words),)
VERSION = MIGRATIONS[-1].version
