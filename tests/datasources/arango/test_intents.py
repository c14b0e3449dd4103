"""A commit that a cluster cut in half is completed or rolled back by whoever finds it."""

from __future__ import annotations

from typing import Any

import pytest
from arango.database import StandardDatabase

from datasources.arango import ArangoDatabase
from datasources.arango.applying import Change, Declared
from datasources.arango.intents import Intents, recover
from datasources.arango.names import COLLECTIONS, EDGES, GRAPHS, INTENTS, NODES
from datasources.arango.records import prepared as step_of
from datasources.arango.transactions import Running
from datasources.base import RecordWrite
from datasources.types import Mutation
from tests.contracts.samples import FLOW, WORKSPACE, a_node, a_vector, an_edge, snapshot
from tests.datasources.arango.kit import a_change, hit, opened, revision, with_flow
from tests.support.arango import ArangoServer


@pytest.fixture
def address(arango_address: str) -> str:
    return with_flow(arango_address)


def the_change() -> Change:
    """A change of every kind of document: put, replaced, deleted, an edge that goes with its node."""
    mutation = Mutation(
        graph_key=FLOW,
        put_nodes=[a_node("new"), a_node("b", data={"name": "Changed"})],
        put_edges=[an_edge("to new", "b", "new")],
        put_vectors=[a_vector("new", 1, 0)],
        delete_nodes=["d"],
    )
    write = RecordWrite(kind="approval", key="k", data={"status": "applied"}, expected_version=None)
    return Change(WORKSPACE, mutation, 1, [step_of(WORKSPACE, write)])


async def died_before_commit(database: ArangoDatabase) -> list[dict[str, Any]]:
    """Leave an open intent behind, as a process does that dies while it commits; return its changes."""
    connection = database.engine.connection

    def work(server: StandardDatabase) -> list[dict[str, Any]]:
        declared = Declared(the_change(), Intents(connection, server), "mark")
        transaction = server.begin_transaction(write=[*declared.change.collections(), INTENTS])
        marked = {"_key": "mark", "result": 2}
        declared.carry_out(Running(connection, transaction), lambda _: marked)
        declared.ready(transaction.transaction_id)
        return declared.done_to

    return await connection.run(work)


async def write_part(database: ArangoDatabase, changes: list[dict[str, Any]], collections: set[str]) -> None:
    """Commit what the servers of these collections had to commit."""

    def work(server: StandardDatabase) -> None:
        for transaction in server.list_transactions():  # type: ignore[union-attr]
            server.fetch_transaction(transaction["id"]).abort_transaction()
        for change in changes:
            if change["collection"] not in collections:
                continue
            collection = server.collection(change["collection"])
            if change["after"] is None:
                collection.delete(change["key"])
            else:
                collection.insert(change["after"], overwrite_mode="replace")

    await database.engine.connection.run(work)


async def whole(database: ArangoDatabase) -> dict[str, Any]:
    found = await snapshot(database.source(WORKSPACE))
    record = await database.records(WORKSPACE).get("approval", "k")
    return {**found, "record": None if record is None else record.data}


async def open_intents(database: ArangoDatabase) -> int:
    def work(server: StandardDatabase) -> int:
        return server.collection(INTENTS).find({"state": "open"}).count()  # type: ignore[union-attr, return-value]

    return await database.engine.connection.run(work)


PARTS = [{GRAPHS}, {NODES}, {EDGES}, {COLLECTIONS["approvals"]}, {INTENTS}, {GRAPHS, NODES}, {NODES, EDGES}]


@pytest.mark.parametrize("part", PARTS, ids=lambda part: "+".join(sorted(part)))
async def test_a_half_done_commit_is_completed_at_the_next_start(address: str, part: set[str]) -> None:
    async with opened(address) as database:
        await write_part(database, await died_before_commit(database), part)
    async with opened(address) as database:
        found = await whole(database)
        assert await open_intents(database) == 0
    assert found["graph"]["revision"] == 2
    assert found["record"] == {"status": "applied"}
    assert [node["_key"] for node in found["nodes"]] == ["a", "apart", "b", "c", "new"]
    assert [edge["_key"] for edge in found["edges"]] == ["ab", "bc1", "bc2", "cc", "to new"]
    assert list(found["vectors"]) == ["new"]


async def test_a_commit_of_which_nothing_shows_is_rolled_back(address: str) -> None:
    async with opened(address) as database:
        before = await whole(database)
        await died_before_commit(database)
        assert await open_intents(database) == 1
    async with opened(address) as database:
        assert await whole(database) == before
        assert await open_intents(database) == 0


async def test_the_next_change_of_the_graph_completes_it_first(address: str) -> None:
    async with opened(address, in_parts=True) as database:
        await write_part(database, await died_before_commit(database), {NODES})
        mutation, records = a_change("after")
        assert await database.source(WORKSPACE).apply(mutation, records=records) == 3
        found = await whole(database)
        assert found["record"] == {"status": "applied"}
        assert "after" in [node["_key"] for node in found["nodes"]]


async def test_what_somebody_else_wrote_since_is_left_alone(address: str) -> None:
    async with opened(address) as database:
        await write_part(database, await died_before_commit(database), {GRAPHS})

        def edit(server: StandardDatabase) -> None:
            server.collection(NODES).update({"_key": f"{FLOW}-b", "data": {"name": "By another"}})

        await database.engine.connection.run(edit)
    async with opened(address) as database:
        (node,) = await database.source(WORKSPACE).get_nodes_by_key(FLOW, ["b"])
        assert node.data == {"name": "By another"}
        assert await revision(database) == 2


@pytest.mark.slow
@pytest.mark.parametrize("action", ["drop", "drop-after", "status:503", "error:1200"])
async def test_a_change_in_parts_is_applied_once_whichever_request_fails(
    address: str, arango_faults: ArangoServer, action: str
) -> None:
    async with opened(address, in_parts=True) as database:
        for number in range(8):
            mutation, records = a_change(f"n{number}")
            hit(arango_faults, 2 * number, action)
            applied = await database.source(WORKSPACE).apply(
                mutation, expected_revision=number + 1, records=records
            )
            arango_faults.heal()
            assert applied == number + 2 == await revision(database)
        await recover(database.engine.connection)  # an intent that could not be withdrawn was carried out
        assert await open_intents(database) == 0
        assert await revision(database) == 9
