"""Stream transactions: all of some statements or none, repeated when others were first, never done twice.

Within one server, and in a database that one server of a cluster leads (OneShard), a commit is whole; other
databases are refused (see `setup`).

The mark of a transaction is a document written by the transaction itself, under a key made before it
began. When the answer to a commit is lost, the transaction is ended and the mark is looked for: there,
it was done, and its result is read from the mark; not there, nothing was done and it may be repeated.
Each attempt writes the same mark, so of two that both come through the second is refused.

Everything here runs in a worker thread: a transaction takes one statement at a time.
"""

from __future__ import annotations

import logging
import random
import time
import uuid
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

from arango.database import StandardDatabase, TransactionDatabase
from arango.exceptions import ArangoServerError
from requests import RequestException

from datasources.arango.connection import ArangoConnection
from datasources.arango.errors import CONFLICT, CURSOR_LOST, LOCK_TIMEOUT, LOCKED, UNIQUE
from datasources.arango.names import MARKS
from datasources.arango.statements import Statement
from datasources.arango.statements_read import MARK_GET
from datasources.errors import SourceTimeout, SourceUnavailable

log = logging.getLogger(__name__)

MARKS_KEPT_S = 86_400
"""A mark is looked for within minutes; a day later the server removes it."""

ATTEMPTS = 12
LIMIT_S = 30.0
"""Nothing is repeated after so long."""

LOCK_TIMEOUT_S = 10
_PAUSE_S, _LONGEST_PAUSE_S = 0.02, 1.0

_ENDED = frozenset({1653, 1654, 1655})
"""The transaction was committed or aborted before, or the server forgot it."""

_AGAIN = frozenset({CONFLICT, LOCK_TIMEOUT, LOCKED, CURSOR_LOST}) | _ENDED
"""Others were first, or the transaction or a cursor of it is gone: everything is repeated."""

NOT_REACHED = (RequestException, OSError, SourceTimeout, SourceUnavailable)
"""No answer came: what the server did is unknown."""


@dataclass(frozen=True, slots=True)
class Statements:
    """Runs statements on a database or in a transaction of it."""

    connection: ArangoConnection
    database: StandardDatabase | TransactionDatabase

    def rows(self, statement: Statement, **values: Any) -> list[Any]:
        return self.connection.execute(cast(StandardDatabase, self.database), statement, values)


Mark = Callable[[int], dict[str, Any]]
"""Makes the mark's document from the work's result; the work inserts it."""

Work = Callable[[Statements, Mark], int]


class CommitUnknown(SourceUnavailable):
    """A commit was sent, and then the server could not be reached any more: it was done or it was not."""

    def __init__(self, *, source: str) -> None:
        reason = "it went away while a change was committed; look whether it was made before you repeat it"
        super().__init__(source=source, reason=reason)


class _Again(Exception):
    """An attempt came to nothing; `cause` is why."""

    def __init__(self, cause: Exception) -> None:
        self.cause = cause
        super().__init__(str(cause))


@contextmanager
def _repeating() -> Generator[None]:
    """Raise _Again for what is done again from the beginning."""
    try:
        yield
    except NOT_REACHED as exc:
        raise _Again(exc) from exc
    except ArangoServerError as exc:
        if exc.error_code not in _AGAIN:
            raise
        raise _Again(exc) from exc


class RetryBudget:
    """How long to repeat something: a number of attempts, longer and longer pauses, an end."""

    def __init__(self, attempts: int = ATTEMPTS, limit_s: float = LIMIT_S) -> None:
        self._left, self._end = attempts, time.monotonic() + limit_s
        self._pause_s = _PAUSE_S

    def wait(self) -> bool:
        """Pause before the next attempt; False when there is none left."""
        self._left -= 1
        pause = random.uniform(0, self._pause_s)
        if self._left <= 0 or time.monotonic() + pause > self._end:
            return False
        time.sleep(pause)
        self._pause_s = min(_LONGEST_PAUSE_S, self._pause_s * 2)
        return True


async def in_transaction(connection: ArangoConnection, write: Sequence[str], work: Work) -> int:
    """Do the work in one transaction that may change the collections `write`; return its result.

    The work may be done several times. Raises: what the work raises, then nothing was written; SourceError
    when others were always first or the server cannot be reached, of these CommitUnknown when it may have
    been done.
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
    """Failed transactions that could not be ended: until they are, they keep others from their documents."""

    def do(self, work: Work) -> int:
        budget = RetryBudget()
        while True:
            try:
                return self._once(work)
            except _Again as exc:
                log.info("transaction_again", extra={"error": type(exc.cause).__name__})
                if not budget.wait():
                    raise exc.cause from exc

    def _once(self, work: Work) -> int:
        with _repeating():
            transaction = self._begun()
            try:
                result = work(Statements(self.connection, transaction), self._mark_document)
            except BaseException as exc:  # what the server did may be unknown: end it, never go on
                self._end(transaction)
                if isinstance(exc, ArangoServerError) and exc.error_code == UNIQUE:
                    done = self._marked()
                    if done is not None:  # an earlier attempt had come through after all
                        return done
                raise
        return result if self._committed(transaction) else self._outcome(transaction)

    def _mark_document(self, result: int) -> dict[str, Any]:
        return {"_key": self.mark, "result": result, "until": int(time.time()) + MARKS_KEPT_S}

    def _begun(self) -> TransactionDatabase:
        while self.unended:
            end_for_sure(self.unended[-1])
            self.unended.pop()
        return self.database.begin_transaction(
            write=self.write, allow_implicit=False, lock_timeout=LOCK_TIMEOUT_S
        )

    def _committed(self, transaction: TransactionDatabase) -> bool:
        """Commit; False when the answer does not say whether it was done."""
        try:
            transaction.commit_transaction()
        except ArangoServerError as exc:
            if exc.error_code == CONFLICT:
                self._end(transaction)
                raise _Again(exc) from exc
            return False
        except NOT_REACHED:
            return False
        return True

    def _end(self, transaction: TransactionDatabase) -> None:
        """End a transaction; one that cannot be reached is ended later, or by the server within a minute."""
        try:
            end_for_sure(transaction)
        except (ArangoServerError, *NOT_REACHED):
            self.unended.append(transaction)

    def _outcome(self, transaction: TransactionDatabase) -> int:
        """Return the result of a commit whose answer was lost, if it was done."""
        budget = RetryBudget()
        while True:
            try:
                end_for_sure(transaction)
                done = self._marked()
            except (ArangoServerError, *NOT_REACHED) as exc:
                if not budget.wait():
                    raise CommitUnknown(source=self.connection.source) from exc
                continue
            log.warning("commit_settled", extra={"done": done is not None})
            if done is None:
                lost = "the answer to a commit was lost; nothing was changed"
                raise _Again(SourceUnavailable(source=self.connection.source, reason=lost))
            return done

    def _marked(self) -> int | None:
        found = Statements(self.connection, self.database).rows(MARK_GET, mark=self.mark)
        return int(found[0]["result"]) if found else None


def end_for_sure(transaction: TransactionDatabase) -> None:
    """See to it that a transaction is no longer running. Raises: what leaves that open."""
    try:
        transaction.abort_transaction()
    except ArangoServerError as exc:
        if exc.error_code not in _ENDED:
            raise
