"""Intents: what a mutation in a sharded cluster is about to do, so that a commit cut in half is completed.

Within one server, and in a database that one server leads (`sharding: "single"`), a stream transaction
commits whole. In a sharded cluster each server commits its part by itself, and a crash may leave some
of them behind. There, before the commit, an intent is stored: every document that changes, with its
revision before and its form after. Who finds an intent open ends its transaction and looks:

    nothing of it is visible     rolled back: the intent is removed
    something of it is visible   completed: each document that is still as before gets its form after

A document that is neither was written by somebody else since, and is left alone. Every step may be
done twice, and by several at once. No mutation of a graph begins while an intent of it is open.

Source: ArangoDB documentation, "Stream Transactions", limitations in clusters.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from arango.database import StandardDatabase
from arango.exceptions import ArangoServerError

from datasources.arango import statements_intents as aql
from datasources.arango.connection import ArangoConnection
from datasources.arango.transactions import Running, Statements, end_for_sure

log = logging.getLogger(__name__)

Touched = Mapping[str, Sequence[str]]
"""Document keys by collection."""


def is_sharded(database: StandardDatabase) -> bool:
    """Say whether a transaction may commit in parts: a cluster whose database no single server leads.

    Where the server does not tell us, it may.
    """
    try:
        if str(database.cluster.server_role()) != "COORDINATOR":
            return False
        properties: Any = database.properties()
    except ArangoServerError:
        return True
    return properties.get("sharding") != "single"


def revisions(at: Statements, touched: Touched) -> dict[tuple[str, str], str]:
    """Return the revisions of the documents that exist, by collection and key."""
    return {
        (collection, row["key"]): row["rev"]
        for collection, keys in touched.items()
        for row in at.rows(aql.REVISIONS, collection=collection, keys=list(keys))
    }


def changes(at: Statements, touched: Touched, before: Mapping[tuple[str, str], str]) -> list[dict[str, Any]]:
    """Return what a transaction did to documents, as an intent keeps it; `before` was read at its start."""
    after = {
        (collection, row["_key"]): row
        for collection, keys in touched.items()
        for row in at.rows(aql.DOCUMENTS, collection=collection, keys=list(keys))
    }
    found = [(collection, key) for collection, keys in touched.items() for key in dict.fromkeys(keys)]
    return [
        {
            "collection": name[0],
            "key": name[1],
            "before": before.get(name),
            "after": None if name not in after else _document(after[name]),
        }
        for name in found
        if name in after or name in before
    ]


def _document(stored: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in stored.items() if name not in ("_id", "_rev")}


async def recover(connection: ArangoConnection) -> int:
    """Settle what a dead process left half done; return how many mutations that were. Raises: SourceError."""
    return await connection.run(lambda database: Intents(connection, database).settle_open())


@dataclass(frozen=True, slots=True)
class Intents:
    """The open intents of a database."""

    connection: ArangoConnection
    database: StandardDatabase

    def declare(
        self,
        mark: str,
        *,
        workspace: str,
        graph_key: str,
        transaction: str,
        done: Sequence[Mapping[str, Any]],
    ) -> None:
        """Store what a transaction is about to commit."""
        intent = {
            "_key": _key(mark),
            "state": "open",
            "workspace": workspace,
            "graphKey": graph_key,
            "transaction": transaction,
            "changes": list(done),
            "began": time.time_ns() // 1_000_000,
        }
        self._at.rows(aql.INTENT_PUT, intent=intent)

    def withdraw(self, mark: str) -> None:
        """Remove an intent that was carried out whole, or not at all."""
        self._at.rows(aql.INTENT_REMOVE, key=_key(mark))

    def settle(self, mark: str) -> None:
        """Complete or roll back the intent of a mark, if it is open."""
        for intent in self._at.rows(aql.INTENT_GET, key=_key(mark)):
            self._settle(intent)

    def settle_open(self, workspace: str | None = None, graph_key: str | None = None) -> int:
        """Complete or roll back what is open: of one graph, or all. Return how many there were."""
        found = self._at.rows(aql.OPEN_INTENTS, workspace=workspace, graphKey=graph_key)
        for intent in found:
            self._settle(intent)
        return len(found)

    @property
    def _at(self) -> Running:
        return Running(self.connection, self.database)

    def _settle(self, intent: Mapping[str, Any]) -> None:
        end_for_sure(self.database.fetch_transaction(intent["transaction"]))
        wanted: list[Mapping[str, Any]] = intent["changes"]
        touched: dict[str, list[str]] = {}
        for change in wanted:
            touched.setdefault(change["collection"], []).append(change["key"])
        now = revisions(self._at, touched)
        is_visible = any(now.get((c["collection"], c["key"])) != c["before"] for c in wanted)
        if is_visible:
            for collection in touched:
                self._complete(collection, [c for c in wanted if c["collection"] == collection])
        log.warning("intent_settled", extra={"completed": is_visible, "documents": len(wanted)})
        self._at.rows(aql.INTENT_REMOVE, key=intent["_key"])

    def _complete(self, collection: str, wanted: Sequence[Mapping[str, Any]]) -> None:
        puts = [change for change in wanted if change["after"] is not None]
        removals = [change for change in wanted if change["after"] is None]
        if puts:
            self._at.rows(aql.COMPLETE_PUTS, collection=collection, writes=puts)
        if removals:
            self._at.rows(aql.COMPLETE_REMOVALS, collection=collection, writes=removals)


def _key(mark: str) -> str:
    return f"{mark}.open"
