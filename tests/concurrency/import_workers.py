"""Imports that are killed: a process that imports a file in children of its own, each ended at one write."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sqlite3
from itertools import pairwise
from pathlib import Path
from typing import Any

import orjson

from datasources.sqlite import SqliteDatabase, pool
from graphrag.approvals import Approvals, Person, Policy
from graphrag.importers.exchange import import_bytes
from tests.graphrag.importers.helpers import n8n, n8n_node, to

WORKSPACE = "team"
_WRITES = ("INSERT", "UPDATE", "DELETE", "REPLACE", "COMMIT")


def document(version: int) -> bytes:
    """Return a file; the second version has more nodes, other settings, and another name of the first."""
    names = [f"Step {i}" for i in range(12 * version)]
    nodes = [n8n_node(name, parameters={"version": version}) for name in names]
    nodes[0] = n8n_node(f"First {version}", id="id-of-first")
    names[0] = f"First {version}"
    return orjson.dumps(n8n(nodes, {a: {"main": [[to(b)]]} for a, b in pairwise(names)}))


async def import_version(path: Path, version: int) -> None:
    async with SqliteDatabase(path) as database:
        approvals = Approvals(
            database.source(WORKSPACE), database.records(WORKSPACE), policy=Policy.of("asker")
        )
        person = Person("eve", "editor", WORKSPACE)
        await import_bytes(approvals, document(version), person, file_name="flow.json", graph_key="flow")


def die_at(write: int) -> None:
    """End this process before its write of that number begins. Each SQL statement is one."""
    counted, connect = [0], pool.connect

    def watched(statement: str) -> None:
        if statement.lstrip().upper().startswith(_WRITES):
            counted[0] += 1
            if counted[0] == write:
                os.kill(os.getpid(), signal.SIGKILL)

    def watching(*args: Any, **more: Any) -> sqlite3.Connection:
        connection = connect(*args, **more)
        connection.set_trace_callback(watched)
        return connection

    pool.connect = watching  # type: ignore[assignment]


def import_and_die(folder: str, version: str) -> None:
    """Import a copy of `start.db` for each line that comes in, the number of a write; print how it ended."""
    start = Path(folder) / "start.db"
    while line := input():
        path = Path(folder) / f"{line}.db"
        shutil.copy(start, path)
        child = os.fork()
        if not child:
            die_at(int(line))
            asyncio.run(import_version(path, int(version)))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)
