"""A statement that forgot its workspace sees, changes and deletes nothing of others."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import psycopg
import pytest

from datasources.base import Record
from datasources.errors import SourceError
from datasources.hits import NodeVector
from datasources.postgres import PostgresDatabase, parse_address
from datasources.postgres import statements as sql
from datasources.postgres.address import PostgresAddress
from datasources.postgres.schema import OTHER_TABLES, SEEN_BY_ALL, TABLES
from datasources.postgres.server_pool import ServerPool, Session
from datasources.types import ROOT_WORKSPACE, Mutation
from tests.contracts.samples import OTHER, WORKSPACE, a_node, a_type, a_vector, make_flow

pytestmark = pytest.mark.slow

THEIRS = "theirs"
Pool = ServerPool


@pytest.fixture
async def address(postgres_url: str) -> PostgresAddress:
    """The address of a database where two workspaces have a row in every table."""
    address = parse_address(postgres_url)
    async with PostgresDatabase(address) as database:
        for workspace, graph in ((WORKSPACE, "flow"), (OTHER, THEIRS)):
            source = await make_flow(database, workspace, graph)
            await source.put_node_config(a_type("task", workspace))
            uses = {"parameters": {"url": "https://api.example.com/orders"}}
            vectors: list[NodeVector] = [a_vector("a", 1, 0)]
            await source.apply(
                Mutation(
                    graph_key=graph,
                    put_nodes=[a_node("new", graph, data=uses)],
                    put_vectors=vectors,
                    delete_nodes=["d"],
                )
            )
            record = Record(kind="approval", key=graph, data={"status": "pending"})
            await database.records(workspace).put(record, expected_version=None)
        await database.source(ROOT_WORKSPACE).put_node_config(a_type("log", ROOT_WORKSPACE))
    return address


@pytest.fixture
async def pool(address: PostgresAddress) -> AsyncIterator[Pool]:
    pool = ServerPool(address)
    yield pool
    pool.close()


def rows_of(address: PostgresAddress, table: str) -> dict[str, int]:
    """Returns the number of rows of each workspace, as the owner of the tables counts them."""
    with psycopg.connect(address.conninfo) as connection:
        connection.execute("SET search_path = nodius")
        connection.execute("SET nodius.all_workspaces = 'on'")
        counted = f"SELECT workspace, count(*) FROM {table} GROUP BY workspace"
        return dict(connection.execute(counted.encode()).fetchall())


async def test_a_table_without_a_condition_has_the_rows_of_one_workspace(
    address: PostgresAddress, pool: Pool
) -> None:
    for table in TABLES:
        stored = rows_of(address, table)
        assert {WORKSPACE, OTHER} <= stored.keys(), table
        seen = await pool.read(
            WORKSPACE,
            lambda s, t=table: dict(s.rows(f"SELECT workspace, count(*) FROM {t} GROUP BY 1", {})),
        )
        visible = {WORKSPACE, ROOT_WORKSPACE} if table in SEEN_BY_ALL else {WORKSPACE}
        assert seen == {name: count for name, count in stored.items() if name in visible}, table


async def test_without_a_workspace_nothing_is_seen(address: PostgresAddress) -> None:
    with psycopg.connect(address.conninfo) as connection:
        connection.execute("SET search_path = nodius")
        for table in TABLES:
            counted = connection.execute(f"SELECT workspace FROM {table}".encode()).fetchall()
            expected = [(ROOT_WORKSPACE,)] if table in SEEN_BY_ALL else []
            assert counted == expected, table


async def test_an_update_or_delete_without_a_condition_leaves_others_alone(
    address: PostgresAddress, pool: Pool
) -> None:
    def change(session: Session, table: str) -> None:
        session.rows(f"UPDATE {table} SET workspace = workspace", {})
        session.rows(f"DELETE FROM {table}", {})

    for table in TABLES:
        before = rows_of(address, table)
        await pool.write(WORKSPACE, lambda s, t=table: change(s, t))
        after = {name: count for name, count in before.items() if name != WORKSPACE}
        assert rows_of(address, table) == after, table


async def test_no_row_can_be_given_to_another_workspace(pool: Pool) -> None:
    given: Mapping[str, str] = {"key": "forged", "workspace": OTHER}
    insert = "INSERT INTO graphs (workspace, key, body) VALUES (%(workspace)s, %(key)s, '{}')"
    for statement in (insert, "UPDATE graphs SET workspace = %(workspace)s"):
        with pytest.raises(SourceError, match="may not do this"):
            await pool.write(WORKSPACE, lambda s, text=statement: s.rows(text, given))


CONDITION = re.compile(
    r"(graphs\.|uses\.|records\.)?workspace = %\(workspace\)s(?: OR %\(root\)s)?( AND)?"
)


def forgetful(statement: str) -> str:
    """Returns a statement without its conditions on the workspace."""
    return CONDITION.sub(lambda found: "" if found[2] else "true", statement)


READS: Mapping[str, Callable[[], Mapping[str, Any]]] = {
    "GRAPH_ROW": lambda: {"graph": THEIRS},
    "GRAPH_LIST": dict,
    "OWN_CONFIGS": dict,
    "CONFIG_KEYS": dict,
    "NODES_NAMED": lambda: {"graph": THEIRS, "keys": ["a", "b"]},
    "EDGES_NAMED": lambda: {"graph": THEIRS, "keys": ["ab"]},
    "TERM_COUNTS": lambda: {"terms": list(range(9)), "graphs": list(range(9))},
    "WIDE_GRAPHS": lambda: {"graphs": [THEIRS]},
    "WIDE_NODES": lambda: {"graphs": [THEIRS], "keys": ["a"]},
    "USERS": lambda: {"entries": ["host:api.example.com"], "graphs": [THEIRS], "limit": 9},
    "RECORD_GET": lambda: {"kind": "approval", "key": THEIRS},
    "RECORD_PAGE": lambda: {"kind": "approval", "after": "flow", "limit": 9},
}


@pytest.mark.parametrize("name", READS)
async def test_a_statement_without_its_condition_finds_nothing_of_others(
    pool: Pool, name: str
) -> None:
    statement = getattr(sql, name)
    forgot = forgetful(statement)
    assert forgot != statement
    values = {**READS[name](), "workspace": OTHER}
    theirs = await pool.read(OTHER, lambda s: s.rows(forgot, values))
    assert theirs or name in ("TERM_COUNTS", "USERS", "OWN_CONFIGS")
    found = await pool.read(WORKSPACE, lambda s: s.rows(forgot, {**values, "workspace": WORKSPACE}))
    assert not [row for row in found if THEIRS in str(row)]


async def test_ids_of_another_workspace_lead_nowhere(pool: Pool, address: PostgresAddress) -> None:
    """Statements that read by the id of a graph see nothing where the id is another's."""
    async with PostgresDatabase(address) as database:
        assert await database.source(OTHER).get_nodes(THEIRS)
    rows = await pool.read(
        OTHER, lambda s: s.rows(sql.GRAPH_ROW, {"graph": THEIRS, "workspace": OTHER})
    )
    scope: dict[str, Any] = {"id": rows[0][0], "version": -1, "keys": ["a", "b", "ab"]}
    scope |= {"after": "", "sheet": None, "limit": 9, "model": "model-a", "dim": 2}
    by_id = ("NODES", "EDGES", "NODES_BY_KEY", "EDGES_BY_KEY", "NODES_SINCE", "EDGES_SINCE")
    by_id += ("WORDS_SINCE", "REMOVED_SINCE", "EDGES_AT", "LINKS_AT", "TYPED_LINKS_AT")
    by_id += ("EDGES_INSIDE", "TYPE_COUNTS", "VECTOR_COUNTS", "VECTOR_INFO", "VECTORS_BY_KEY")
    for name in by_id:
        statement = getattr(sql, name)
        assert await pool.read(OTHER, lambda s, t=statement: s.rows(t, scope)), name
        assert await pool.read(WORKSPACE, lambda s, t=statement: s.rows(t, scope)) == [], name


def test_every_table_with_a_workspace_is_protected(address: PostgresAddress) -> None:
    columns = """
        SELECT c.relname, c.relrowsecurity AND c.relforcerowsecurity FROM pg_class c
        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'workspace'
        WHERE c.relnamespace = 'nodius'::regnamespace AND c.relkind = 'r'"""
    every = (
        "SELECT relname FROM pg_class WHERE relnamespace = 'nodius'::regnamespace AND relkind = 'r'"
    )
    with psycopg.connect(address.conninfo) as connection:
        assert dict(connection.execute(columns).fetchall()) == dict.fromkeys(TABLES, True)
        names = {name for (name,) in connection.execute(every.encode())}
    assert names == {*TABLES, *OTHER_TABLES}
