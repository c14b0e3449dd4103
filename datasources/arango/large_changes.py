"""Applies changes that are too large for one transaction: stores them first, then executes them in
steps of limited size.

The server limits the size of a stream transaction (error 32; 128 MiB by default before 3.12.4). So
a large change is first stored as steps, one document each. One small transaction then checks the
change, writes the records that belong to it, and replaces the graph's document by a marker. From
then on the change is committed; the graph is absent, or busy if it existed before. Each step runs
in its own transaction, and the last one replaces the marker by the graph's new document.

If the process dies before the marker is written, the server removes the steps after a day. If it
dies later, the marker remains: after its lease has expired, the next process that opens the
database or requests the graph continues. A process takes the lease by writing to the marker, and
renews it with each step, so only one process continues.

Source: ArangoDB 3.12 documentation, "Stream Transactions": size limit, write-write conflicts.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import orjson

from datasources.arango import statements_write as aql
from datasources.arango.connection import ArangoConnection
from datasources.arango.errors import CONFLICT, WriteConflict
from datasources.arango.graph_documents import encoded
from datasources.arango.layout import CONFIGS, EDGES, GRAPHS, META, NODES
from datasources.arango.statements import Statement
from datasources.arango.statements_read import CHANGE_STEP, LARGE_CHANGES
from datasources.arango.transactions import Mark, Rows, in_transaction
from datasources.errors import GraphNotFound, SourceBusy

log = logging.getLogger(__name__)

HELD_S = 120
"""A change that made no step for so long was given up by its process."""

KEPT_S = 86_400
"""Steps without a marker are removed by the server after a day."""

STEP_BYTES = 4 << 20
SWEPT = 5_000
"""Documents that one step of a deletion removes."""

STATEMENTS: Mapping[str, Statement] = {
    "delete": aql.APPLY_DELETE,
    "nodes": aql.APPLY_PUT_NODES,
    "edges": aql.APPLY_PUT_EDGES,
    "vectors": aql.APPLY_PUT_VECTORS,
}

Step = tuple[str, dict[str, Any]]
"""The name of a statement, and what it binds."""


def bounded(name: str, field: str, documents: Sequence[Any]) -> Iterator[Step]:
    """Yields steps that each bind a part of the documents as `field`, at most about STEP_BYTES."""
    part = list[Any]()
    size = 0
    for document in documents:
        weight = len(orjson.dumps(document))
        if part and size + weight > STEP_BYTES:
            yield name, {field: part}
            part = []
            size = 0
        part.append(document)
        size += weight
    if part:
        yield name, {field: part}


async def store_steps(connection: ArangoConnection, steps: Sequence[Step]) -> str:
    """Stores the steps of a change that is not committed yet. Returns its name."""
    change = uuid.uuid4().hex
    until = int(time.time()) + KEPT_S
    for number, (name, values) in enumerate(steps):
        step = {
            "_key": f"{change}-{number}",
            "change": change,
            "until": until,
            "name": name,
            "values": values,
        }
        await connection.query(aql.PUT_STEP, step=step)
    return change


def marker(
    change: str, *, steps: int, document: Mapping[str, Any] | None, replaces: bool = False
) -> dict[str, Any]:
    """Returns the marker that replaces a graph's document during a change.

    `document` is stored at the end; None deletes the graph. `replaces`: the graph existed before.
    """
    until = int(time.time()) + HELD_S
    facts = {"id": change, "steps": steps, "done": 0, "replaces": replaces}
    return {**facts, "document": document, "heldUntil": until}


async def carry_out(connection: ArangoConnection, graph: str, change: Mapping[str, Any]) -> bool:
    """Executes the remaining steps of a change. Returns False if another process does so.

    `graph` is the key of the graph's document, `change` its marker.
    """
    written = [GRAPHS, NODES, EDGES, CONFIGS]
    for number in range(change["done"], change["steps"]):
        (step,) = await connection.query(CHANGE_STEP, key=f"{change['id']}-{number}")
        work = partial(_do_step, graph=graph, change=change["id"], number=number, step=step)
        if not await in_transaction(connection, written, work):
            return False
    if change["document"] is None:
        work = partial(_sweep, graph=graph, change=change["id"])
        while (swept := await in_transaction(connection, written, work)) > 0:
            log.info("graph_swept", extra={"documents": swept})
        if swept < 0:
            return False
    work = partial(_end, graph=graph, change=change)
    ended = await in_transaction(connection, [GRAPHS, META], work)
    await connection.query(aql.REMOVE_STEPS, change=change["id"])
    return bool(ended)


def _claims(rows: Rows, graph: str, change: str, done: int | None) -> bool:
    until = int(time.time()) + HELD_S
    return bool(rows(aql.CLAIM_CHANGE, name=graph, change=change, done=done, until=until))


def _do_step(
    rows: Rows, mark: Mark, *, graph: str, change: str, number: int, step: Mapping[str, Any]
) -> int:
    if not _claims(rows, graph, change, number + 1):
        return 0
    rows(STATEMENTS[step["name"]], **step["values"])
    rows(aql.MARK_PUT, mark=mark(1))
    return 1


def _sweep(rows: Rows, mark: Mark, *, graph: str, change: str) -> int:
    """Removes some documents of a deleted graph. Returns their number, or -1 if another process
    does so.
    """
    if not _claims(rows, graph, change, None):
        return -1
    (row,) = rows(aql.SWEEP, name=graph, most=SWEPT)
    swept = len(row["edges"]) + len(row["nodes"])
    rows(aql.MARK_PUT, mark=mark(swept))
    return swept


def _end(rows: Rows, mark: Mark, *, graph: str, change: Mapping[str, Any]) -> int:
    if not _claims(rows, graph, change["id"], None):
        return 0
    if change["document"] is None:
        rows(aql.END_DELETION, name=graph)
    else:
        rows(aql.END_CHANGE, name=graph, document=change["document"])
    rows(aql.MARK_PUT, mark=mark(1))
    return 1


def refuse_replaced(found: Sequence[Mapping[str, Any]], workspace: str, *, source: str) -> None:
    """Raises: WriteConflict if the graph exists in the workspace but is being replaced."""
    for row in found:
        change = row["change"]
        if change["replaces"] and change["document"]["workspace"] == workspace:
            reason = "the graph is being replaced; try again in a moment"
            raise WriteConflict(source=source, code=CONFLICT, reason=reason)


async def finish_change(connection: ArangoConnection, workspace: str, graph_key: str) -> bool:
    """Finishes a large change of a graph whose process is gone. Returns whether there was one.

    Raises: WriteConflict while the graph is being replaced.
    """
    found = await connection.query(LARGE_CHANGES, name=encoded(graph_key))
    with suppress(SourceBusy):  # the transaction of a killed process stays open for a minute
        if await _finish(connection, found):
            return True
    refuse_replaced(found, workspace, source=connection.source)
    return False


async def finish_changes(connection: ArangoConnection) -> None:
    """Finishes all large changes whose process is gone."""
    with suppress(SourceBusy):
        await _finish(connection, await connection.query(LARGE_CHANGES, name=None))


async def _finish(connection: ArangoConnection, found: Sequence[Mapping[str, Any]]) -> int:
    finished = 0
    now = int(time.time())
    for row in found:
        change = row["change"]
        until = now + HELD_S
        if change["heldUntil"] >= now:
            continue
        held = {
            "name": row["name"],
            "change": change["id"],
            "seen": change["heldUntil"],
            "until": until,
        }
        if not await connection.query(aql.TAKE_CHANGE, **held):
            continue  # another process was first
        log.warning(
            "change_finished", extra={"steps": row["change"]["steps"] - row["change"]["done"]}
        )
        finished += await carry_out(connection, row["name"], row["change"])
    return finished


async def delete_large(connection: ArangoConnection, workspace: str, graph_key: str) -> None:
    """Deletes a large graph. It is absent at once. Raises: GraphNotFound."""
    graph = encoded(graph_key)
    change = marker(uuid.uuid4().hex, steps=0, document=None)

    def hide(rows: Rows, mark: Mark) -> int:
        names = {"graph": graph, "graphKey": graph_key, "workspace": workspace}
        return len(rows(aql.HIDE_GRAPH, **names, change=change, mark=mark(1)))

    if not await in_transaction(connection, [GRAPHS], hide):
        raise GraphNotFound(graph_key=graph_key)
    await carry_out(connection, graph, change)
