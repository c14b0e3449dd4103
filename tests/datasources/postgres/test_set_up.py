"""Setting a database up: once, by many at a time, again after damage, and by an older program."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import psycopg
import pytest

from datasources.base import Finding, Record
from datasources.errors import DatabaseDamaged, SourceUnavailable, UpgradeNeeded
from datasources.postgres import PostgresDatabase, parse_address
from datasources.search import SearchRequest
from datasources.types import Mutation
from tests.contracts.samples import OTHER, WORKSPACE, a_node, make_flow
from tests.support.postgres import PostgresServer

pytestmark = pytest.mark.slow

TABLES = "SELECT count(*) FROM pg_class WHERE relnamespace = to_regnamespace('nodius')"


@pytest.fixture
def empty_url(postgres_server: PostgresServer) -> Iterator[str]:
    """The address of a database that is not set up."""
    name = postgres_server.create_database()
    yield postgres_server.url(name)
    postgres_server.drop_database(name)


def run(url: str, *statements: str) -> list[tuple[object, ...]]:
    """Runs statements as the owner of the tables, for all workspaces."""
    rows: list[tuple[object, ...]] = []
    with psycopg.connect(url, options="-c nodius.all_workspaces=on") as connection:
        for statement in statements:
            cursor = connection.execute(statement.encode())
            rows = cursor.fetchall() if cursor.description else []
    return rows


async def set_up(url: str, *, dry_run: bool = False) -> list[str]:
    async with PostgresDatabase(parse_address(url), prepared=False) as database:
        return await database.set_up(dry_run=dry_run)


async def problems(url: str) -> list[Finding]:
    async with PostgresDatabase(parse_address(url), prepared=False) as database:
        return [finding for finding in await database.check() if finding.status != "ok"]


async def opened(url: str) -> None:
    async with PostgresDatabase(parse_address(url)):
        pass


async def found(url: str, words: str, graph: str = "flow", workspace: str = WORKSPACE) -> list[str]:
    """Returns the nodes that a search for words finds."""
    async with PostgresDatabase(parse_address(url)) as database:
        hits = await database.source(workspace).search(graph, SearchRequest(query=words, limit=9))
    return sorted(hit.key for hit in hits.text)


async def test_a_dry_run_tells_what_a_set_up_does_and_creates_nothing(empty_url: str) -> None:
    planned = await set_up(empty_url, dry_run=True)
    assert run(empty_url, TABLES) == [(0,)]
    done = await set_up(empty_url)
    assert planned == ["would create the schema nodius with its tables"]
    assert done == ["created the schema nodius with its tables"]
    assert await set_up(empty_url, dry_run=True) == await set_up(empty_url) == []


async def test_ten_set_ups_at_a_time_create_the_schema_once(empty_url: str) -> None:
    done = await asyncio.gather(*(set_up(empty_url) for _ in range(10)))
    assert sorted(map(len, done)) == [0] * 9 + [1]
    assert await problems(empty_url) == []


async def test_a_role_without_rights_is_told_which_it_needs(
    postgres_server: PostgresServer, empty_url: str
) -> None:
    database = empty_url.rpartition("/")[2]
    postgres_server.execute("CREATE ROLE reader LOGIN PASSWORD 'secret'")
    try:
        with pytest.raises(SourceUnavailable, match=r"'reader'.* GRANT CREATE ON DATABASE"):
            await set_up(postgres_server.url(database, role="reader"))
        assert run(empty_url, TABLES) == [(0,)]
    finally:
        postgres_server.execute("DROP ROLE reader")


async def test_a_missing_database_is_said(postgres_server: PostgresServer) -> None:
    with pytest.raises(SourceUnavailable, match="there is no such database"):
        await set_up(postgres_server.url("nowhere"))


async def test_a_database_of_an_older_schema_is_upgraded(postgres_url: str) -> None:
    run(postgres_url, "UPDATE nodius.meta SET value = '0' WHERE name = 'version'")
    with pytest.raises(UpgradeNeeded, match="`nodius db upgrade`"):
        await opened(postgres_url)
    assert [finding.name for finding in await problems(postgres_url)] == ["schema"]
    assert len(await set_up(postgres_url, dry_run=True)) == 1
    assert len(await set_up(postgres_url)) == 1
    assert await problems(postgres_url) == []


async def test_the_words_of_an_older_program_are_stored_again(postgres_url: str) -> None:
    async with PostgresDatabase(parse_address(postgres_url)) as database:
        for workspace, graph in ((WORKSPACE, "flow"), (OTHER, "theirs")):
            await make_flow(database, workspace, graph)
            nodes = [
                a_node("tea", graph, data={"drink": "Ceylon"}),
                a_node("one", graph, data={"drink": "Coffee"}),
            ]
            await database.source(workspace).apply(Mutation(graph_key=graph, put_nodes=nodes))
    # As a program would have stored them that has other words for the same text.
    run(
        postgres_url,
        "UPDATE nodius.nodes SET name_words = 'older', other_words = ''",
        "UPDATE nodius.node_terms SET terms = '{}'",
        "DELETE FROM nodius.term_counts",
        "UPDATE nodius.graphs SET content_words = nodes, name_words = nodes",
        "UPDATE nodius.meta SET value = '0' WHERE name = 'words'",
    )
    steps: list[tuple[int, int]] = []
    async with PostgresDatabase(parse_address(postgres_url), prepared=False) as database:
        await database.set_up(progress=lambda done, total: steps.append((done, total)))
    total = steps[-1][1]
    assert steps[-1] == (total, total)
    assert total >= 4
    assert await found(postgres_url, "ceylon") == ["tea"]
    assert await found(postgres_url, "ceylon", "theirs", OTHER) == ["tea"]
    assert await found(postgres_url, "older") == []
    counts = "SELECT count(*) FROM nodius.term_counts WHERE nodes <= 0"
    assert run(postgres_url, counts) == [(0,)]
    assert await problems(postgres_url) == []


async def test_the_fields_of_records_are_stored_again(postgres_url: str) -> None:
    async with PostgresDatabase(parse_address(postgres_url)) as database:
        for workspace in (WORKSPACE, OTHER):
            for number in range(3):
                data = {"status": "pending", "graphKey": f"flow{number}"}
                record = Record(kind="approval", key=f"a{number}", data=data)
                await database.records(workspace).put(record, expected_version=None)
    stored = run(postgres_url, "SELECT * FROM nodius.record_fields ORDER BY 1, 2, 3, 4")
    run(
        postgres_url,
        "UPDATE nodius.record_fields SET name = 'former' WHERE name = 'status'",
        "UPDATE nodius.record_fields SET value = '2other' WHERE name = 'graphKey'",
        "INSERT INTO nodius.record_fields VALUES ('default', 'policy', 'former', 'p', '2x')",
        "UPDATE nodius.records SET fields = '{}'",
        "UPDATE nodius.meta SET value = 'older' WHERE name = 'record_fields'",
    )
    await set_up(postgres_url)
    assert run(postgres_url, "SELECT * FROM nodius.record_fields ORDER BY 1, 2, 3, 4") == stored
    async with PostgresDatabase(parse_address(postgres_url)) as database:
        where = {"status": "pending", "graphKey": "flow1"}
        records = await database.records(OTHER).query("approval", where)
    assert [record.key for record in records] == ["a1"]


@pytest.mark.parametrize(
    ("damage", "name"),
    [
        ("ALTER TABLE nodius.nodes DISABLE ROW LEVEL SECURITY", "row-level security of nodes"),
        ("ALTER TABLE nodius.edges NO FORCE ROW LEVEL SECURITY", "row-level security of edges"),
        ("DROP POLICY own ON nodius.records", "row-level security of records"),
        ("CREATE POLICY more ON nodius.uses USING (true)", "row-level security of uses"),
        ("DROP INDEX nodius.edges_source", "index edges_source"),
    ],
)
async def test_what_was_changed_by_hand_is_named_and_set_up_again(
    postgres_url: str, damage: str, name: str
) -> None:
    run(postgres_url, damage)
    [problem] = await problems(postgres_url)
    assert name in problem.detail
    assert "nodius db init" in (problem.fix or "")
    if name.startswith("row-level"):
        with pytest.raises(SourceUnavailable, match=f"{name}.*nodius db init"):
            await opened(postgres_url)
    assert await set_up(postgres_url, dry_run=True) == [f"would restore: {name}"]
    assert await set_up(postgres_url) == [f"restored: {name}"]
    assert await problems(postgres_url) == []
    await opened(postgres_url)


async def test_a_lost_table_is_named_and_not_replaced_by_an_empty_one(postgres_url: str) -> None:
    run(postgres_url, "DROP TABLE nodius.records")
    [problem] = await problems(postgres_url)
    assert "table records" in problem.detail
    assert "nodius restore" in (problem.fix or "")
    with pytest.raises(DatabaseDamaged, match="table records"):
        await opened(postgres_url)
    with pytest.raises(DatabaseDamaged, match="table records"):
        await set_up(postgres_url)


async def test_a_superuser_is_warned_of(postgres_server: PostgresServer, postgres_url: str) -> None:
    postgres_server.execute("CREATE ROLE boss LOGIN SUPERUSER PASSWORD 'secret'")
    try:
        database = postgres_url.rpartition("/")[2]
        [problem] = await problems(postgres_server.url(database, role="boss"))
        assert (problem.name, problem.status) == ("role", "warning")
    finally:
        postgres_server.execute("DROP ROLE boss")
