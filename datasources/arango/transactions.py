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
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from arango.exceptions import ArangoError, ArangoServerError
from requests import RequestException

from datasources.arango import statements_records as aql
from datasources.errors import DatabaseBusy, SourceError, SourceTimeout, SourceUnavailable

T = TypeVar("T")
log = logging.getLogger(__name__)

MARKS = "nodius_ai_marks"
MARKS_KEPT_S = 86_400
"""A mark is looked for within seconds; a day later the server removes it."""

ATTEMPTS = 12
LIMIT_S = 30.0
"""No transaction is begun anew after so long."""

LOCK_TIMEOUT_S = 10
_PAUSE_S, _LONGEST_PAUSE_S = 0.02, 1.0

CONFLICT, UNIQUE = 1200, 1210
_AGAIN = frozenset({CONFLICT, 18, 28, 503, 1600, 1653, 1654, 1655})
"""Others were first, or the transaction or a cursor of it is gone: everything is done anew."""

_ENDED = frozenset({1653, 1654, 1655})
"""It was committed or aborted before, or the server forgot it."""

NOT_REACHED = (RequestException, OSError, SourceTimeout, SourceUnavailable)


class Statements(Protocol):
    """Where AQL is run: a database, or a transaction in it."""

    def rows(self, text: str, binds: Mapping[str, Any]) -> list[Any]: ...


class Session(Protocol):
    """What is needed of a connection in its worker thread."""

    @property
    def url(self) -> str: ...

    @property
    def db(self) -> Any: ...

    def translated(self, exc: Exception) -> SourceError: ...


class Connection(Protocol):
    """Runs work in a worker thread."""

    async def run(self, work: Callable[[Session], T]) -> T: ...


@dataclass(frozen=True, slots=True)
class Running:
    """The statements of a database or of a transaction. Implements Statements."""

    db: Any

    def rows(self, text: str, binds: Mapping[str, Any]) -> list[Any]:
        cursor = self.db.aql.execute(text, bind_vars=dict(binds), memory_limit=None)
        return list(cursor)


class _Again(Exception):
    """This try came to nothing; `cause` is why."""

    def __init__(self, cause: Exception) -> None:
        self.cause = cause
        super().__init__(str(cause))


def transact(session: Session, work: Callable[[Statements], int], *, mark: str, write: Sequence[str]) -> int:
    """Do the work in one transaction and return its result. The work may be done several times.

    Raises: what the work raises, then nothing was written; DatabaseBusy when others were always
    first; SourceTimeout or SourceUnavailable when the server cannot be reached.
    """
    began = time.monotonic()
    cause: Exception | None = None
    for attempt in range(ATTEMPTS):
        try:
            return _once(session, work, mark, write)
        except _Again as exc:
            cause = exc.cause
            log.info("transaction_again", extra={"attempt": attempt, "error": type(cause).__name__})
        pause = random.uniform(0, min(_LONGEST_PAUSE_S, _PAUSE_S * 2**attempt))
        if time.monotonic() - began + pause > LIMIT_S:
            break
        time.sleep(pause)
    assert cause is not None
    if isinstance(cause, ArangoServerError) and cause.error_code in _AGAIN - {503}:
        raise DatabaseBusy(path=session.url, seconds=time.monotonic() - began) from cause
    raise session.translated(cause) from cause


def _once(session: Session, work: Callable[[Statements], int], mark: str, write: Sequence[str]) -> int:
    transaction = _begun(session, write)
    try:
        running = Running(transaction)
        result = work(running)
        running.rows(aql.MARK_INSERT, {"@marks": MARKS, "mark": _mark(mark, result)})
    except ArangoServerError as exc:
        _end(transaction)
        done = _marked(session, mark) if exc.error_code == UNIQUE else None
        if done is not None:
            return done
        if exc.error_code in _AGAIN:
            raise _Again(exc) from exc
        raise session.translated(exc) from exc
    except NOT_REACHED as exc:  # what the server did is unknown: end it, never go on
        _end(transaction)
        raise _Again(exc) from exc
    except BaseException:
        _end(transaction)
        raise
    return result if _commit(transaction) else _settled(session, transaction, mark)


def _begun(session: Session, write: Sequence[str]) -> Any:
    try:
        return session.db.begin_transaction(
            write=[*write, MARKS], allow_implicit=False, lock_timeout=LOCK_TIMEOUT_S
        )
    except ArangoServerError as exc:
        if exc.error_code in _AGAIN:
            raise _Again(exc) from exc
        raise session.translated(exc) from exc
    except NOT_REACHED as exc:
        raise _Again(exc) from exc


def _commit(transaction: Any) -> bool:
    """Commit; False when the answer does not tell whether it was done."""
    try:
        transaction.commit_transaction()
    except ArangoServerError as exc:
        if exc.error_code == CONFLICT:
            _end(transaction)
            raise _Again(exc) from exc
        return False
    except NOT_REACHED:
        return False
    return True


def _settled(session: Session, transaction: Any, mark: str) -> int:
    """Find out what became of a commit whose answer was lost; return its result if it was done."""
    cause: Exception = SourceUnavailable(source=session.url, reason="the answer to a commit was lost")
    for attempt in range(ATTEMPTS):
        try:
            _end_for_sure(transaction)
            done = _marked(session, mark)
        except (ArangoError, *NOT_REACHED) as exc:
            cause = exc
            time.sleep(random.uniform(0, min(_LONGEST_PAUSE_S, _PAUSE_S * 2**attempt)))
            continue
        log.warning("commit_settled", extra={"done": done is not None})
        if done is None:
            raise _Again(cause)
        return done
    raise session.translated(cause) from cause


def _end_for_sure(transaction: Any) -> None:
    """See to it that a transaction is no longer running. Raises: what leaves that open."""
    try:
        transaction.abort_transaction()
    except ArangoServerError as exc:
        if exc.error_code not in _ENDED:
            raise


def _marked(session: Session, mark: str) -> int | None:
    found = Running(session.db).rows(aql.MARK_GET, {"@marks": MARKS, "mark": mark})
    return int(found[0]) if found else None


def _end(transaction: Any) -> None:
    """End a transaction; one that cannot be reached ends by itself within a minute."""
    with suppress(ArangoError, *NOT_REACHED):
        transaction.abort_transaction()


def _mark(mark: str, result: int) -> dict[str, Any]:
    return {"_key": mark, "result": result, "until": int(time.time()) + MARKS_KEPT_S}
