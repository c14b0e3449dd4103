"""What is held in memory is not mixed with a database that went back in time."""

from collections.abc import Callable

import psycopg
import pytest

from datasources.postgres import PostgresDatabase, parse_address
from datasources.postgres.server_pool import ServerPool
from datasources.types import Mutation
from tests.contracts.samples import FLOW, WORKSPACE, a_node, make_flow
from tests.contracts.searches import search_text
from tests.support.postgres import PostgresServer

pytestmark = pytest.mark.slow

_END = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()"""


async def test_a_server_that_took_over_without_the_last_changes_is_read_again(
    postgres_url: str,
) -> None:
    """An asynchronous replica may take over: the version that was held comes again, for another
    change.
    """
    address = parse_address(f"{postgres_url}{'&' if '?' in postgres_url else '?'}pool=2")
    async with PostgresDatabase(address) as database:
        source = await make_flow(database)
        lost, kept = (a_node("a", data={"name": name}) for name in ("lost zebra", "kept walrus"))
        await source.apply(Mutation(graph_key=FLOW, put_nodes=[lost]))
        assert await source.get_nodes_by_key(FLOW, ["a"]) == [lost]
        assert await search_text(source, FLOW, "zebra", limit=2)
        with psycopg.connect(address.conninfo, autocommit=True) as replica:
            replica.execute("SET search_path = nodius")
            replica.execute("SET nodius.workspace = 'acme'")
            replica.execute(_END.encode())
            replica.execute("UPDATE graphs SET version = version - 1, revision = revision - 1")
            replica.execute("UPDATE nodes SET version = 1 WHERE key = 'a'")
        async with PostgresDatabase(address) as other:
            await other.source(WORKSPACE).apply(Mutation(graph_key=FLOW, put_nodes=[kept]))
        assert await source.get_nodes_by_key(FLOW, ["a"]) == [kept]
        assert not await search_text(source, FLOW, "zebra", limit=2)
        assert await search_text(source, FLOW, "walrus", limit=2)


async def test_a_first_connection_to_another_server_counts_as_a_loss(
    postgres_servers: Callable[..., PostgresServer],
) -> None:
    """A thread without a connection may reach the server that took over before others notice."""
    server = postgres_servers()
    address = parse_address(server.url(server.create_database()))
    async with PostgresDatabase(address, prepared=False) as database:
        await database.set_up()
    pool = ServerPool(address)
    try:
        await pool.read(WORKSPACE, lambda s: s.rows("SELECT 1", {}))
        assert pool.losses == 0
        server.stop()
        server.start()
        # The writer's thread connects for the first time.
        await pool.write(WORKSPACE, lambda s: s.rows("SELECT 1", {}))
        assert pool.losses == 1
    finally:
        pool.close()
