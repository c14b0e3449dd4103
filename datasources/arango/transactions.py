"""Stream transactions: atomic, retried after conflicts, and never executed twice.

On one server, and in a database led by one server of a cluster (OneShard), a commit is atomic;
other databases are rejected (see `setup`).

Each transaction writes a mark: a document whose key is chosen before it begins. If the answer to a
commit is lost, the transaction is ended and the mark is read. If the mark exists, the transaction
was committed, and its result is read from the mark. Otherwise nothing was written, and it may be
repeated. All attempts write the same mark, so if two of them succeed the second is rejected.

Everything here runs in a worker thread; a transaction executes one statement at a time.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from arango.database import StandardDatabase, TransactionDatabase
from arango.exceptions import ArangoServerError
from requests import RequestException

from datasources.arango.connection import ArangoConnection, RetryBudget
from datasources.arango.errors import CONFLICT, CURSOR_LOST, DEADLOCK, LOCK_TIMEOUT, LOCKED, UNIQUE
from datasources.arango.layout import MARKS
from datasources.arango.statements_read import MARK_GET
from datasources.errors import SourceTimeout, SourceUnavailable

log = logging.getLogger(__name__)

MARKS_KEPT_S = 86_400
"""A mark is looked for within minutes; a day later the server removes it."""

ATTEMPTS = 12
LOCK_TIMEOUT_S = 10

_ENDED = frozenset({1653, 1654, 1655})
"""The transaction was already committed or aborted, or is unknown to the server."""

_AGAIN = frozenset({CONFLICT, LOCK_TIMEOUT, LOCKED, DEADLOCK, CURSOR_LOST}) | _ENDED
"""Another writer was first, or the transaction or its cursor is gone: everything is repeated."""

NOT_REACHED = (RequestException, OSError, SourceTimeout, SourceUnavailable)
"""There was no answer, so the result on the server is unknown."""


Rows = Callable[..., list[Any]]
"""Runs a statement with values by name, on a database or in a transaction of it, and
returns its rows.
"""

Mark = Callable[[int], dict[str, Any]]
"""Creates the document of the mark from the result of the work, which inserts it."""

Work = Callable[[Rows, Mark], int]


class CommitUnknown(SourceUnavailable):
    """Raised when the server became unreachable after a commit was sent, so its result is
    unknown.
    """

    def __init__(self, *, source: str) -> None:
        reason = "it went away while a change was committed; look whether it was made before you repeat it"
        super().__init__(source=source, reason=reason)


def may_pass(exc: Exception) -> bool:
    """Returns whether the work may be repeated from the beginning after this error."""
    if isinstance(exc, ArangoServerError):
        return exc.error_code in _AGAIN
    return isinstance(exc, NOT_REACHED) and not isinstance(exc, CommitUnknown)


async def in_transaction(connection: ArangoConnection, write: Sequence[str], work: Work) -> int:
    """Runs the work in one transaction that may write to the collections `write`. Returns its
    result.

    The work may be repeated. Raises: errors of the work, and nothing is written; SourceError after
    too many conflicts or if the server is unreachable, and CommitUnknown if the commit may have
    succeeded.
    """
    mark = uuid.uuid4().hex
    return await connection.run(
        lambda database: _Transactions(connection, database, [*write, MARKS], mark).do(work)
    )


@dataclass(frozen=True, slots=True)
class _Transactions:
    """The attempts of one transaction."""

    connection: ArangoConnection
    database: StandardDatabase
    write: Sequence[str]
    mark: str
    unended: list[TransactionDatabase] = field(default_factory=list["TransactionDatabase"])
    """Failed transactions that could not be ended yet. Until then they lock their documents."""

    def do(self, work: Work) -> int:
        budget = RetryBudget(ATTEMPTS)
        while True:
            try:
                return self._once(work)
            except (ArangoServerError, *NOT_REACHED) as exc:
                if not may_pass(exc) or not budget.wait():
                    raise
                log.info("transaction_again", extra={"error": type(exc).__name__})

    def _once(self, work: Work) -> int:
        transaction = self._begun()
        is_committing = False
        try:
            result = work(partial(self.connection.execute, transaction), self._mark_document)
            is_committing = True
            transaction.commit_transaction()
        except BaseException as exc:  # what the server did may be unknown: end it, never go on
            code = exc.error_code if isinstance(exc, ArangoServerError) else None
            if (
                is_committing
                and code != CONFLICT
                and isinstance(exc, (ArangoServerError, *NOT_REACHED))
            ):
                return self._outcome(transaction)
            self._end(transaction)
            # Its own mark is there where an earlier attempt had come through after all.
            done = self._marked() if code == UNIQUE else None
            if done is None:
                raise
            return done
        return result

    def _mark_document(self, result: int) -> dict[str, Any]:
        return {"_key": self.mark, "result": result, "until": int(time.time()) + MARKS_KEPT_S}

    def _begun(self) -> TransactionDatabase:
        while self.unended:
            end_for_sure(self.unended[-1])
            self.unended.pop()
        return self.database.begin_transaction(
            write=self.write, allow_implicit=False, lock_timeout=LOCK_TIMEOUT_S
        )

    def _end(self, transaction: TransactionDatabase) -> None:
        """Ends a transaction. If the server is unreachable, it is ended later, or by the server
        within a minute.
        """
        try:
            end_for_sure(transaction)
        except (ArangoServerError, *NOT_REACHED):
            self.unended.append(transaction)

    def _outcome(self, transaction: TransactionDatabase) -> int:
        """Returns the result of a commit whose answer was lost.

        Raises: SourceUnavailable if it was not committed.
        """
        budget = RetryBudget(ATTEMPTS)
        while True:
            try:
                end_for_sure(transaction)
                done = self._marked()
                break
            except (ArangoServerError, *NOT_REACHED) as exc:
                if not budget.wait():
                    raise CommitUnknown(source=self.connection.source) from exc
        log.warning("commit_settled", extra={"done": done is not None})
        if done is None:
            lost = "the answer to a commit was lost; nothing was changed"
            raise SourceUnavailable(source=self.connection.source, reason=lost)
        return done

    def _marked(self) -> int | None:
        found = self.connection.execute(self.database, MARK_GET, mark=self.mark)
        return int(found[0]["result"]) if found else None


def end_for_sure(transaction: TransactionDatabase) -> None:
    """Makes sure that a transaction is no longer running. Raises errors if this is unknown."""
    try:
        transaction.abort_transaction()
    except ArangoServerError as exc:
        if exc.error_code not in _ENDED:
            raise
