"""Checks the connections with workflow servers: each is asked for its version and rights."""

from __future__ import annotations

import asyncio

from datasources.base import Database, Finding
from graphrag.app.connection_services import key_store_of
from graphrag.approvals import Approvals
from graphrag.config import Settings
from graphrag.connections import Connections, ServerConnection
from graphrag.connections.errors import WorkflowServerError
from graphrag.leases import now_ms

# A connection is late after so many of its intervals, at the least after LATE_MS.
LATE_INTERVALS = 5
LATE_MS = 300_000
_AT_ONCE = 8


async def examine_connections(
    settings: Settings, database: Database, patience_s: float
) -> list[Finding]:
    """Returns one finding for each connection. A server has `patience_s` seconds to answer; a key
    that was refused before is not tried again.
    """
    records = database.records(settings.workspace)
    approvals = Approvals(database.source(settings.workspace), records)
    connections = Connections(records, approvals, key_store_of(settings))
    places = asyncio.Semaphore(_AT_ONCE)

    async def one(connection: ServerConnection) -> Finding:
        async with places:
            return await _examined(connections, connection, patience_s)

    return await asyncio.gather(*map(one, await connections.list()))


async def _examined(
    connections: Connections, connection: ServerConnection, patience_s: float
) -> Finding:
    name = f"connection {connection.key}"
    again = f"nodius connect {connection.kind} {connection.address} --name {connection.key}"
    try:
        async with asyncio.timeout(patience_s):
            facts = await connections.discover(connection.key)
    except TimeoutError:
        detail = f"{connection.address} did not answer within {patience_s:g} s"
        return Finding(name, "warning", detail, "check the address, and that the server runs")
    except WorkflowServerError as exc:
        return Finding(name, "error", str(exc), again)
    version = f" {facts.version}" if facts.version else ""
    detail = f"{connection.kind}{version} at {connection.address}"
    missing = facts.missing_for(writes=connection.push != "never")
    if missing:
        detail = f"{detail}; the key lacks {', '.join(missing)}"
        return Finding(name, "warning", detail, again)
    if _is_late(connection):
        minutes = (now_ms() - (connection.last_synced_time or 0)) // 60_000
        ago = f"{minutes} minutes ago" if connection.last_synced_time else "never"
        detail = f"{detail}; synchronised {ago}, though every {connection.interval_s} s is set"
        return Finding(
            name, "warning", detail, f"run `nodius serve`, or nodius sync {connection.key}"
        )
    return Finding(name, "ok", detail)


def _is_late(connection: ServerConnection) -> bool:
    if not connection.interval_s:
        return False
    allowed_ms = max(LATE_MS, connection.interval_s * 1000 * LATE_INTERVALS)
    last = connection.last_synced_time or connection.created_time
    return now_ms() - last > allowed_ms
