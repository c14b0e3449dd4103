"""Stream transactions: all of some statements or none, tried again when others were first, never done twice.

The mark of a transaction is a document written by the transaction itself, under a key made before it
began. When the answer to a commit is lost, the transaction is ended and the mark is looked for: there,
it was done, and its result is read from the mark; not there, nothing was done and it may be tried
again. Each try writes the same mark, so of two that both come through the second is refused.

Everything here runs in a worker thread: a transaction takes one statement at a time.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

from arango.database import StandardDatabase, TransactionDatabase
from arango.exceptions import ArangoServerError
from requests import RequestException

from datasources.arango.connection import ArangoConnection
from datasources.arango.errors import CONFLICT, CURSOR_LOST, LOCK_TIMEOUT, LOCKED, UNIQUE
from datasources.arango.names import INTENTS
from datasources.arango.statements import Statement
from datasources.arango.statements_records import MARK_GET
from datasources.errors import SourceTimeout, SourceUnavailable

log = logging.getLogger(__name__)

MARKS_KEPT_S = 86_400
"""A mark is looked for within minutes; a day later the server removes it."""

ATTEMPTS = 12
LIMIT_S = 30.0
"""Nothing is begun anew after so long."""

LOCK_TIMEOUT_S = 10
_PAUSE_S, _LONGEST_PAUSE_S = 0.02, 1.0

_ENDED = frozenset({1653, 1654, 1655})
"""The transaction was committed or aborted before, or the server forgot it."""

_AGAIN = frozenset({CONFLICT, LOCK_TIMEOUT, LOCKED, CURSOR_LOST}) | _ENDED
"""Others were first, or the transaction or a cursor of it is gone: everything is done anew."""

NOT_REACHED = (RequestException, OSError, SourceTimeout, SourceUnavailable)
"""No answer came: what the server did is unknown."""


class Statements(Protocol):
    """Where AQL is run: a database, or a transaction in it."""

    def rows(self, statement: Statement, **values: Any) -> list[Any]: ...


@dataclass(frozen=True, slots=True)
class Running:
    """The statements of a database or of a transaction of it. Implements Statements."""

    connection: ArangoConnection
    database: StandardDatabase | TransactionDatabase

    def rows(self, statement: Statement, **values: Any) -> list[Any]:
        return self.connection.execute(cast(StandardDatabase, self.database), statement, values)


Mark = Callable[[int], dict[str, Any]]
"""Makes the mark's document from the work's result; the work inserts it into the intents."""

Work = Callable[[Statements, Mark], int]


class Guard(Protocol):
    """What makes a transaction whole where its commit is not: see `intents`."""

    def before(self) -> None:
        """Settle what others left half done."""
        ...

    def ready(self, transaction: str) -> None:
        """Note what is about to be committed."""
        ...

    def settle(self) -> None:
        """Complete or roll back a commit that may have been cut in half."""
        ...

    def done(self) -> None:
        """Forget what was committed whole."""
        ...


class CommitUnknown(SourceUnavailable):
    """A commit was sent, and then the server could not be reached any more: it was done or it was not."""

    def __init__(self, *, source: str) -> None:
        reason = "it went away while a change was committed; look whether it was made before you repeat it"
        super().__init__(source=source, reason=reason)


class _Again(Exception):
    """A try came to nothing; `cause` is why."""

    def __init__(self, cause: Exception) -> None:
        self.cause = cause
        super().__init__(str(cause))


class Patience:
    """How long to go on trying: a number of tries, longer and longer pauses, an end."""

    def __init__(self, attempts: int = ATTEMPTS, limit_s: float = LIMIT_S) -> None:
        self._left, self._end = attempts, time.monotonic() + limit_s
        self._pause_s = _PAUSE_S

    def lasts(self) -> bool:
        """Wait a little; False when it is over."""
        self._left -= 1
        pause = random.uniform(0, self._pause_s)
        if self._left <= 0 or time.monotonic() + pause > self._end:
            return False
        time.sleep(pause)
        self._pause_s = min(_LONGEST_PAUSE_S, self._pause_s * 2)
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Transactions:
    """Runs transactions on one database. `write` are the collections that they may change."""

    connection: ArangoConnection
    database: StandardDatabase
    write: Sequence[str]
    mark: str
    guard: Guard | None = None
    unended: list[TransactionDatabase] = field(default_factory=list["TransactionDatabase"])
    """Failed transactions that could not be ended: until they are, they keep others from their documents."""

    def do(self, work: Work) -> int:
        """Do the work in one transaction and return its result. The work may be done several times.

        Raises: what the work raises, then nothing was written; ArangoServerError 1200 when others were
        always first; SourceTimeout or SourceUnavailable when the server cannot be reached, of these
        CommitUnknown when it may have been done.
        """
        patience = Patience()
        while True:
            try:
                return self._once(work)
            except _Again as exc:
                log.info("transaction_again", extra={"error": type(exc.cause).__name__})
                if not patience.lasts():
                    raise exc.cause from exc

    def _once(self, work: Work) -> int:
        transaction = self._begun()
        try:
            result = work(Running(self.connection, transaction), self._mark_document)
            if self.guard is not None:
                self.guard.ready(transaction.transaction_id)
        except ArangoServerError as exc:
            self._end(transaction)
            if exc.error_code == UNIQUE:
                done = self._marked()
                if done is not None:  # an earlier try had come through after all
                    return done
            if exc.error_code in _AGAIN:
                raise _Again(exc) from exc
            raise
        except NOT_REACHED as exc:  # what the server did is unknown: end it, never go on
            self._end(transaction)
            raise _Again(exc) from exc
        except BaseException:
            self._end(transaction)
            raise
        if not self._committed(transaction):
            return self._settled(transaction)
        if self.guard is not None:
            with suppress(ArangoServerError, *NOT_REACHED):  # whoever finds it finds it carried out
                self.guard.done()
        return result

    def _mark_document(self, result: int) -> dict[str, Any]:
        return {"_key": self.mark, "result": result, "until": int(time.time()) + MARKS_KEPT_S}

    def _begun(self) -> TransactionDatabase:
        try:
            while self.unended:
                end_for_sure(self.unended[-1])
                self.unended.pop()
            if self.guard is not None:
                self.guard.before()
            return self.database.begin_transaction(
                write=[*self.write, INTENTS], allow_implicit=False, lock_timeout=LOCK_TIMEOUT_S
            )
        except ArangoServerError as exc:
            if exc.error_code in _AGAIN:
                raise _Again(exc) from exc
            raise
        except NOT_REACHED as exc:
            raise _Again(exc) from exc

    def _committed(self, transaction: TransactionDatabase) -> bool:
        """Commit; False when the answer does not tell whether it was done, or whether all of it was."""
        try:
            transaction.commit_transaction()
        except ArangoServerError as exc:
            if exc.error_code == CONFLICT and self.guard is None:
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

    def _settled(self, transaction: TransactionDatabase) -> int:
        """Find out what became of a commit whose answer was lost; return its result if it was done."""
        patience = Patience()
        while True:
            try:
                end_for_sure(transaction)
                if self.guard is not None:
                    self.guard.settle()
                done = self._marked()
            except (ArangoServerError, *NOT_REACHED) as exc:
                if not patience.lasts():
                    raise CommitUnknown(source=self.connection.source) from exc
                continue
            log.warning("commit_settled", extra={"done": done is not None})
            if done is None:
                lost = "the answer to a commit was lost; nothing was changed"
                raise _Again(SourceUnavailable(source=self.connection.source, reason=lost))
            return done

    def _marked(self) -> int | None:
        found = Running(self.connection, self.database).rows(MARK_GET, mark=self.mark)
        return int(found[0]["result"]) if found else None


def end_for_sure(transaction: TransactionDatabase) -> None:
    """See to it that a transaction is no longer running. Raises: what leaves that open."""
    try:
        transaction.abort_transaction()
    except ArangoServerError as exc:
        if exc.error_code not in _ENDED:
            raise
