"""How the server finds records: what a query looks at."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from datasources.base import Record
from datasources.postgres import PostgresDatabase, parse_address
from datasources.postgres.records import query_statement
from datasources.record_kinds import RecordQuery

RECORDS = 300


def steps(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for part in plan.get("Plans", ()):
        yield from steps(part)


@pytest.mark.slow
@pytest.mark.parametrize(
    "asked",
    [
        {"where": {"status": "pending"}},
        {"where": {"status": "pending", "graphKey": "flow"}},
        {"where": {"status": "pending", "graphKey": "flow", "threadId": "t7"}},
    ],
)
async def test_in_a_new_database_a_query_looks_at_each_record_a_few_times_at_most(
    postgres_url: str, asked: dict[str, Any]
) -> None:
    async with PostgresDatabase(parse_address(postgres_url)) as database:
        records = database.records("acme")
        for number in range(RECORDS):
            data = {
                "status": "pending",
                "graphKey": "flow",
                "threadId": f"t{number}",
                "createdTime": number,
            }
            record = Record(kind="approval", key=f"a{number}", data=data)
            await records.put(record, expected_version=None)
        query = RecordQuery(kind="approval", order_by="createdTime", descending=True, **asked)
        statement, values = query_statement("acme", query)
    with psycopg.connect(postgres_url) as connection:
        connection.execute(
            "SELECT set_config('nodius.workspace', 'acme', true),"
            " set_config('search_path', 'nodius', true)"
        )
        explained = f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}".encode()
        ((plan,),) = connection.execute(explained, values).fetchall()
    looked_at = sum(
        step["Actual Loops"]
        * (
            step["Actual Rows"]
            + step.get("Rows Removed by Filter", 0)
            + step.get("Rows Removed by Join Filter", 0)
        )
        for step in steps(plan[0]["Plan"])
    )
    assert looked_at <= 30 * RECORDS
