"""Translates errors of PostgreSQL and of the connection into errors of `datasources`.

Messages of the server can quote data, so they are logged for debugging and never shown.

Source: "PostgreSQL Error Codes", appendix A of the PostgreSQL manual.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

import psycopg

from datasources.errors import (
    DatabaseUnprepared,
    SourceBusy,
    SourceError,
    SourceRefused,
    SourceTimeout,
    SourceUnavailable,
)

log = logging.getLogger(__name__)

UNIQUE = "23505"
READ_ONLY = "25006"
SERIALIZATION, DEADLOCK, LOCK_TIMEOUT = "40001", "40P01", "55P03"
CANCELLED = "57014"
NO_DATABASE, NO_SCHEMA, NO_TABLE, NO_COLUMN = "3D000", "3F000", "42P01", "42703"

_UNPREPARED = frozenset({NO_SCHEMA, NO_TABLE, NO_COLUMN})
_BUSY = frozenset({SERIALIZATION, DEADLOCK, LOCK_TIMEOUT})
# The server ends the connection, starts, is a replica, or has no place for another connection.
_ELSEWHERE = frozenset({READ_ONLY, "25P03", "57P01", "57P02", "57P03", "57P05", "53300"})
_REASONS: Mapping[str, str] = {
    **dict.fromkeys(
        ("28P01", "28000"), "it refuses the sign-in; check the user, the password and pg_hba.conf"
    ),
    NO_DATABASE: "there is no such database; create it with `createdb`",
    "42501": "the role may not do this; `nodius db init --print-user-script` prints what it needs",
    READ_ONLY: "it accepts no writes: it is a replica",
    "53100": "its disk is full",
    "53200": "it has no memory left",
    "53300": "it has no place for another connection; lower `pool=` or raise max_connections",
    "54000": "a key or a field to query by is too long for an index",
}
UNREACHABLE = "it cannot be reached, or the connection was lost"


def is_elsewhere(exc: psycopg.Error) -> bool:
    """Returns True if a new connection, perhaps to another host, may succeed."""
    if exc.sqlstate is None:  # the connection could not be made, or was lost
        return isinstance(exc, psycopg.OperationalError | psycopg.InterfaceError)
    return exc.sqlstate in _ELSEWHERE or exc.sqlstate.startswith("08")


def may_be_repeated(exc: psycopg.Error) -> bool:
    """Returns True if others were in the way, so that the transaction may be run again."""
    return exc.sqlstate in {SERIALIZATION, DEADLOCK}


def translated(exc: psycopg.Error, source: str, timeout_s: float) -> SourceError:
    """Returns the error of `datasources` for one of the driver. `source` is the shown address."""
    code = exc.sqlstate
    log.debug("database_error", extra={"code": code, "reason": str(exc)})
    if code == CANCELLED:
        return SourceTimeout(source=source, seconds=timeout_s)
    if code in _BUSY:
        reason = "others are changing the same; nothing was changed"
        return SourceBusy(source=source, reason=reason)
    if code in _UNPREPARED:
        return DatabaseUnprepared(source=source)
    if code is None or code.startswith(("08", "57P")):
        return _unreachable(exc, source)
    return SourceRefused(source=source, reason=_REASONS.get(code, f"error {code}"))


# libpq's messages of a refused connection carry no code of the server.
_REFUSALS: Mapping[str, str] = {
    "password authentication failed": _REASONS["28P01"],
    "no pg_hba.conf entry": _REASONS["28P01"],
    "no password supplied": _REASONS["28P01"],
    'role "': _REASONS["28P01"],  # it does not exist, or is not permitted to log in
    "permission denied": _REASONS["42501"],
    "does not exist": _REASONS[NO_DATABASE],
    "certificate": "its certificate is not accepted; see sslmode and sslrootcert",
    "too many clients": _REASONS["53300"],
    "remaining connection slots": _REASONS["53300"],
}

# What is said of an address where no server answers.
_ADDRESSES: Mapping[str, str] = {
    "resolve host": "its host name is unknown; check the address",
    "translate host name": "its host name is unknown; check the address",
    "Connection refused": "nothing answers there; check host and port, and whether it runs",
}


def _unreachable(exc: psycopg.Error, source: str) -> SourceUnavailable:
    """Returns the error for a connection that was refused, could not be made, or was lost."""
    text = str(exc)
    for part, reason in _REFUSALS.items():
        if part in text:
            return SourceRefused(source=source, reason=reason)
    for part, reason in _ADDRESSES.items():
        if part in text:
            return SourceUnavailable(source=source, reason=reason)
    return SourceUnavailable(source=source, reason=UNREACHABLE)
