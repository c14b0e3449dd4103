"""Receives the notices of a database on a connection of its own.

Decision: a notice is sent by a transaction of its own, right after the one that wrote. If the
process is killed in between, others see the change at their next look; in exchange writers do not
wait for each other (see `Session.commit`).
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from typing import Any, Final, final

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from datasources.base import Finding
from datasources.notices import Listener, read_notice
from datasources.postgres.address import PostgresAddress

log = logging.getLogger(__name__)

LISTEN: Final = "LISTEN nodius"
# Sends a payload once the transaction is committed.
NOTIFY: Final = "SELECT pg_notify('nodius', %s)"
# Pauses between attempts to connect, doubled after each one that fails.
FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 10.0
CHECK_S: Final = 2.0  # in which a notice arrives, where notices arrive at all
_CHECKED: Final = "check"  # payload of a check, which servers ignore

_PAUSES: Final = random.Random()


@final
class PostgresNotices:
    """Implements NoticeSource."""

    def __init__(self, address: PostgresAddress) -> None:
        self._address = address

    async def listen(self, listener: Listener) -> None:
        pause_s = FIRST_PAUSE_S
        lost_time = None
        while True:
            connected = False
            try:
                async with await _connection(self._address) as connection:
                    await connection.execute(LISTEN)
                    connected = True
                    pause_s = FIRST_PAUSE_S
                    after_s = 0.0 if lost_time is None else time.monotonic() - lost_time
                    log.info("notices_connected", extra={"after_s": round(after_s, 1)})
                    listener.notices_connected(True)
                    async for notification in connection.notifies():
                        if (notice := read_notice(notification.payload)) is not None:
                            listener.notice_told(notice)
            except (psycopg.Error, OSError) as exc:
                log.warning("notices_lost", extra={"error": type(exc).__name__})
            if connected:
                lost_time = time.monotonic()
                listener.notices_connected(False)
            await asyncio.sleep(pause_s * _PAUSES.uniform(0.5, 1.0))
            pause_s = min(LONGEST_PAUSE_S, 2 * pause_s)


async def _connection(address: PostgresAddress) -> psycopg.AsyncConnection[Any]:
    """Opens a connection to the server that accepts writes: others tell no changes."""
    options = conninfo_to_dict(address.conninfo)
    conninfo = make_conninfo("", **{**options, "target_session_attrs": "read-write"})
    return await psycopg.AsyncConnection.connect(conninfo, autocommit=True)


async def check_notices(address: PostgresAddress) -> Finding:
    """Returns whether a notice arrives. A pooler that shares connections between transactions
    accepts LISTEN, but passes no notices on.
    """
    try:
        async with await _connection(address) as listening, await _connection(address) as sending:
            await listening.execute(LISTEN)
            await sending.execute(NOTIFY, (_CHECKED,))
            async for notification in listening.notifies(timeout=CHECK_S):
                if notification.payload == _CHECKED:
                    return Finding("notices", "ok", "changes by other servers arrive at once")
    except (psycopg.Error, OSError) as exc:
        return Finding("notices", "warning", f"LISTEN failed: {type(exc).__name__}", _FIX)
    return Finding("notices", "warning", "LISTEN is accepted, but no notice arrives", _FIX)


_FIX: Final = (
    "connect to the server itself, or by a pooler in session mode; until then changes by other "
    "servers are seen at intervals of up to 5 s"
)
