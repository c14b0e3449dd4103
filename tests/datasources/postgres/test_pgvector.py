"""PostgreSQL with pgvector: added and removed later, its indexes, and their recall."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import psycopg
import pytest

from datasources.base import Finding
from datasources.hits import NodeVector
from datasources.postgres import PostgresDatabase, parse_address
from datasources.postgres.source import HoldingLimits
from datasources.search import SearchRequest
from datasources.types import Mutation
from tests.contracts.samples import WORKSPACE, a_graph, a_node
from tests.support.postgres import PostgresServer
from tests.support.waiting import until

pytestmark = pytest.mark.slow

LARGE = HoldingLimits(held=-1)
NODES = [f"n{number:04}" for number in range(60)]


@pytest.fixture
def bare_url(pgvector_server: PostgresServer) -> Iterator[str]:
    """The address of a database without the extension, set up as by a role that may not add it."""
    name = pgvector_server.create_database()
    yield pgvector_server.url(name)
    pgvector_server.drop_database(name)


def administer(server: PostgresServer, url: str, *statements: str) -> None:
    server.execute(*statements, database=url.rpartition("/")[2])


def rows(url: str, statement: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url, options="-c nodius.all_workspaces=on") as connection:
        return connection.execute(statement.encode()).fetchall()


async def set_up(url: str) -> list[str]:
    async with PostgresDatabase(parse_address(url), prepared=False) as database:
        return await database.set_up()


async def vectors_finding(url: str) -> Finding:
    async with PostgresDatabase(parse_address(url), prepared=False) as database:
        [finding] = [each for each in await database.check() if each.name == "vectors"]
    return finding


def some_vectors(model: str, dim: int, keys: Sequence[str] = NODES) -> list[NodeVector]:
    numbers = np.random.default_rng(dim)
    values = numbers.normal(size=(len(keys), dim)).astype(np.float32)
    return [
        NodeVector(key=key, model=model, hash="h", content=value, name=value)
        for key, value in zip(keys, values, strict=True)
    ]


async def put_vectors(url: str, model: str, dim: int) -> None:
    async with PostgresDatabase(parse_address(url)) as database:
        source = database.source(WORKSPACE)
        if not await source.list_graphs():
            nodes = [a_node(key) for key in NODES]
            await source.create_graph(a_graph(), Mutation(graph_key="flow", put_nodes=nodes))
        await source.put_embeddings("flow", some_vectors(model, dim))


async def nearest(url: str, model: str, dim: int) -> list[tuple[str, float]]:
    request = SearchRequest(vector=(model, some_vectors(model, dim)[7].content), limit=10)
    async with PostgresDatabase(parse_address(url), limits=LARGE) as database:
        hits = await database.source(WORKSPACE).search("flow", request)
    assert hits.vector[0].key == NODES[7]
    return [(hit.key, round(hit.score, 5)) for hit in hits.vector]


async def test_the_extension_can_be_added_and_removed_while_the_service_runs(
    pgvector_server: PostgresServer, bare_url: str
) -> None:
    await set_up(bare_url)
    await put_vectors(bare_url, "m", 16)
    assert "exact cosine" in (await vectors_finding(bare_url)).detail
    before = await nearest(bare_url, "m", 16)
    request = SearchRequest(vector=("m", some_vectors("m", 16)[7].content), limit=10)
    changed = NodeVector(key=NODES[7], model="m", hash="h", content=np.ones(16, np.float32))
    async with PostgresDatabase(parse_address(bare_url), limits=LARGE) as service:
        source = service.source(WORKSPACE)

        async def found() -> list[tuple[str, float]]:
            hits = await source.search("flow", request)
            return [(hit.key, round(hit.score, 5)) for hit in hits.vector]

        administer(
            pgvector_server,
            bare_url,
            "CREATE SCHEMA extensions",
            "CREATE EXTENSION vector SCHEMA extensions",
            "GRANT USAGE ON SCHEMA extensions TO PUBLIC",
        )
        assert await found() == before
        assert await set_up(bare_url) == ["added the columns of pgvector"]
        filled = "SELECT count(content_half), count(name_half) FROM nodius.vectors"
        assert rows(bare_url, filled) == [(len(NODES), len(NODES))]
        assert await found() == before == await nearest(bare_url, "m", 16)
        # A server that began without the columns stores them too.
        await source.put_embeddings("flow", [changed])
        assert rows(bare_url, filled) == [(len(NODES), len(NODES) - 1)]
        [(text,)] = rows(
            bare_url, f"SELECT content_half::text FROM nodius.vectors WHERE key = '{NODES[7]}'"
        )
        assert text == str([0.25] * 16).replace(" ", "")
        administer(pgvector_server, bare_url, "DROP EXTENSION vector CASCADE")
        await source.put_embeddings("flow", some_vectors("m", 16))
        assert await found() == before
    assert "exact cosine" in (await vectors_finding(bare_url)).detail


async def test_an_older_pgvector_is_not_used_and_named(
    pgvector_server: PostgresServer, bare_url: str
) -> None:
    administer(
        pgvector_server,
        bare_url,
        "CREATE EXTENSION vector",
        "UPDATE pg_extension SET extversion = '0.7.4' WHERE extname = 'vector'",
    )
    await set_up(bare_url)
    await put_vectors(bare_url, "m", 16)
    assert "pgvector 0.7.4 is older" in (await vectors_finding(bare_url)).detail
    assert len(await nearest(bare_url, "m", 16)) == 10


# Rows as those of put_embeddings, of a graph that is not there.
FILL = """
INSERT INTO nodius.vectors
    (workspace, graph, key, model, hash, dim, version, content, content_half)
SELECT 'default', -1, '{model}-{dim}-' || i, '{model}', 'h', {dim}, 1, '', half
FROM generate_series(1, {count}) AS i, LATERAL (
    SELECT array_agg(random())::halfvec AS half FROM generate_series(1, {dim}) AS j WHERE i > 0
) AS made"""


async def test_each_model_of_many_vectors_gets_an_index_and_small_ones_none(
    pgvector_url: str,
) -> None:
    with psycopg.connect(pgvector_url, options="-c nodius.all_workspaces=on") as connection:
        for model, dim, count in (("one", 4, 20_000), ("one", 6, 20_000), ("two", 4, 19_999)):
            connection.execute(FILL.format(model=model, dim=dim, count=count).encode())
    finding = await vectors_finding(pgvector_url)
    assert finding.status == "warning"
    assert "one (20,000), one (20,000)" in finding.detail
    indexed = ["indexed the 20,000 vectors of one"] * 2
    async with PostgresDatabase(parse_address(pgvector_url), prepared=False) as database:
        would = await database.set_up(dry_run=True)
        assert would == [line.replace("indexed", "would index") for line in indexed]
        assert await database.set_up() == indexed
        assert await database.set_up() == []
    assert (await vectors_finding(pgvector_url)).status == "ok"
    made = "SELECT count(*) FROM pg_indexes WHERE schemaname = 'nodius' AND indexdef LIKE '%hnsw%'"
    assert rows(pgvector_url, made) == [(4,)]


async def test_one_process_builds_an_index_where_shared_memory_is_too_little_for_several(
    pgvector_server: PostgresServer, pgvector_url: str
) -> None:
    name = pgvector_url.rpartition("/")[2]
    administer(
        pgvector_server,
        pgvector_url,
        # More than any machine has, which is asked for at once where processes share it.
        f"ALTER DATABASE {name} SET maintenance_work_mem = '2000GB'",
        f"ALTER DATABASE {name} SET min_parallel_table_scan_size = 0",
    )
    with psycopg.connect(pgvector_url, options="-c nodius.all_workspaces=on") as connection:
        connection.execute(FILL.format(model="m", dim=4, count=20_000).encode())
        connection.execute("CREATE TABLE nodius.tried AS SELECT content_half FROM nodius.vectors")
    with (
        psycopg.connect(pgvector_url) as connection,
        pytest.raises(psycopg.errors.DiskFull, match="shared memory"),
    ):
        connection.execute(
            "CREATE INDEX ON nodius.tried USING hnsw ((content_half::halfvec(4)) halfvec_l2_ops)"
        )
    assert await set_up(pgvector_url) == ["indexed the 20,000 vectors of m"]


DIM, ALL, OWN = 256, 40_000, 2_000
COPY = """
COPY nodius.vectors (workspace, graph, key, model, hash, dim, version, content, content_half)
FROM STDIN"""


def clustered(count: int, seed: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Returns vectors around 200 centres, as those of texts are around their subjects."""
    centres = np.random.default_rng(1).normal(size=(200, DIM))
    numbers = np.random.default_rng(seed)
    chosen = centres[numbers.integers(0, len(centres), size=count)]
    values = (chosen + numbers.normal(scale=0.7, size=(count, DIM))).astype(np.float32)
    return values / np.linalg.norm(values, axis=1, keepdims=True)


async def test_a_graph_of_a_twentieth_of_an_index_is_found_with_a_recall_of_97_percent(
    pgvector_server: PostgresServer, pgvector_url: str
) -> None:
    keys = [f"n{number:04}" for number in range(OWN)]
    own = clustered(OWN, 2)
    address = parse_address(pgvector_url)
    async with PostgresDatabase(address) as database:
        source = database.source(WORKSPACE)
        mutation = Mutation(graph_key="flow", put_nodes=[a_node(key) for key in keys])
        await source.create_graph(a_graph(), mutation)
        vectors = zip(keys, own, strict=True)
        await source.put_embeddings(
            "flow", [NodeVector(key=key, model="m", hash="h", content=one) for key, one in vectors]
        )
    others = enumerate(clustered(ALL - OWN, 3).round(4).tolist())
    with (
        psycopg.connect(
            host=str(pgvector_server.folder),
            port=pgvector_server.port,
            user="postgres",  # COPY does not work behind row-level security
            dbname=pgvector_url.rpartition("/")[2],
        ) as connection,
        connection.cursor() as cursor,
        cursor.copy(COPY) as copy,
    ):
        for number, one in others:
            half = str(one).replace(" ", "")
            copy.write_row(
                (WORKSPACE, -1 - number % 200, f"o{number}", "m", "h", DIM, 1, b"", half)
            )
    assert await set_up(pgvector_url) == ["indexed the 40,000 vectors of m"]
    with psycopg.connect(pgvector_url, autocommit=True) as connection:
        connection.execute("ANALYZE nodius.vectors")  # as autovacuum does
    questions = clustered(50, 4)
    exact = np.argsort(-(questions @ own.T), axis=1)[:, :20]
    wanted: list[set[str]] = [{keys[int(place)] for place in best} for best in exact.tolist()]
    assert await recall(pgvector_url, questions, wanted) >= 0.97
    scans = (
        "SELECT sum(idx_scan) FROM pg_stat_user_indexes WHERE indexrelname ~ '^vectors_.*_content$'"
    )
    # Counted when a connection ends. A plan for any values expects a graph of the usual size, and
    # no index of the model: it would compare all vectors of this one.
    await until(lambda: rows(pgvector_url, scans)[0][0] >= len(questions))


async def recall(
    url: str, questions: np.ndarray[Any, np.dtype[np.float32]], wanted: Sequence[set[str]]
) -> float:
    """Returns the mean recall of the first 20."""
    shares: list[float] = []
    async with PostgresDatabase(parse_address(url), limits=LARGE) as database:
        for question, best in zip(questions, wanted, strict=True):
            request = SearchRequest(vector=("m", question), limit=20)
            hits = await database.source(WORKSPACE).search("flow", request)
            shares.append(len({hit.key for hit in hits.vector} & best) / 20)
    print(f"recall@20 {np.mean(shares):.3f}, worst {min(shares):.2f}")
    return float(np.mean(shares))
