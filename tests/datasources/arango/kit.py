"""A prepared database on the double, and faults that hit one request of its work."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from datasources.arango import ArangoDatabase, parse_address
from datasources.base import Record, RecordWrite
from datasources.types import Mutation
from tests.contracts.samples import FLOW, WORKSPACE, a_node, make_flow
from tests.support.arango import ArangoServer

TIMEOUT_S = 1
TOO_LONG_MS = 1300
"""What is too late for that time-out; only the tests that wait for it have so short a one."""


def with_flow(address: str) -> str:
    """Store the sample graph at revision 1; return the address."""

    async def work() -> None:
        async with ArangoDatabase(parse_address(address)) as database:
            await make_flow(database)

    asyncio.run(work())
    return address


@asynccontextmanager
async def opened(address: str, *, impatient: bool = False) -> AsyncIterator[ArangoDatabase]:
    options = f"?timeout={TIMEOUT_S}" if impatient else ""
    async with ArangoDatabase(parse_address(address + options)) as database:
        yield database


def hit(server: ArangoServer, number: int, action: str, times: int = 1) -> None:
    """Let so many requests pass, then do this to the next ones."""
    server.heal()
    if number:
        server.inject("", "delay:0", number)
    server.inject("", action, times)


def a_change(key: str) -> tuple[Mutation, list[RecordWrite]]:
    """Return a mutation that puts a node and deletes an edge, and a record that joins it."""
    mutation = Mutation(graph_key=FLOW, put_nodes=[a_node(key)])
    return mutation, [
        RecordWrite(kind="approval", key=key, data={"status": "applied"}, expected_version=None)
    ]


async def revision(database: ArangoDatabase) -> int:
    return (await database.source(WORKSPACE).get_graph(FLOW)).revision


async def applied(database: ArangoDatabase, key: str) -> bool:
    """Say whether a change is there; what is there of it must be all of it."""
    nodes = await database.source(WORKSPACE).get_nodes_by_key(FLOW, [key])
    record = await database.records(WORKSPACE).get("approval", key)
    assert bool(nodes) == (record is not None)
    return bool(nodes)


def a_record(key: str, **data: object) -> Record:
    return Record(kind="lease", key=key, data=data)
