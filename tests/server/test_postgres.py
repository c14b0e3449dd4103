"""A server on PostgreSQL: the metrics of its database, and statements that take too long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import httpx2
import psycopg
import pytest
from prometheus_client.parser import text_string_to_metric_families

from datasources.base import Measured
from datasources.postgres import PostgresDatabase, parse_address
from tests.support.postgres import PostgresServer
from tests.support.served import served
from tests.support.waiting import until

pytestmark = pytest.mark.slow

LOCK = "LOCK TABLE nodius.graphs IN ACCESS EXCLUSIVE MODE"


async def scraped(client: httpx2.AsyncClient) -> dict[str, float]:
    """Returns the figures of the database by name and label, as a scrape gets them."""
    answer = await client.get("/metrics")
    assert answer.status_code == 200
    return figures_in(answer.text)


def figures_in(text: str) -> dict[str, float]:
    begin = "nodius_database_"
    return {
        " ".join((sample.name.removeprefix(begin), *sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith(begin)
    }


async def test_a_statement_that_takes_too_long_is_answered_as_a_time_out_and_counted(
    postgres_url: str,
) -> None:
    db = f"{postgres_url}?timeout=1&pool=2"
    async with (
        served(auth_secret=None, rate_limit=0, db=db) as running,
        httpx2.AsyncClient(base_url=f"http://127.0.0.1:{running.port}", timeout=30) as client,
    ):
        assert (await client.get("/api/graphs")).status_code == 200
        before = await scraped(client)
        assert 1 <= before["connections"] <= 2
        assert before["round_trips_total"] > 0
        assert "errors_total 57" not in before
        with psycopg.connect(postgres_url) as other:
            other.execute(LOCK)
            asked = [asyncio.create_task(client.get("/api/graphs")) for _ in range(3)]

            def busy() -> bool:
                now = figures_in(running.state.monitoring.metrics.text().decode())
                return now["busy read"] == 1 and now["waiting"] >= 2

            await until(busy)
            answers = await asyncio.gather(*asked)
        assert {answer.status_code for answer in answers} == {504}
        error = answers[0].json()["error"]
        assert error["code"] == "timeout"
        assert error["retryable"]
        assert "secret" not in answers[0].text
        after = await scraped(client)
        assert after["errors_total 57"] == 3
        assert after["busy read"] == after["waiting"] == 0
        assert (await client.get("/api/graphs")).status_code == 200


def values_of(database: Measured, name: str) -> Mapping[str, float]:
    [values] = [figure.values for figure in database.figures() if figure.name == name]
    return values


async def test_the_time_that_work_waits_for_a_server_is_counted(
    postgres_servers: Callable[..., PostgresServer],
) -> None:
    server = postgres_servers()
    url = server.url(server.create_database())
    async with PostgresDatabase(parse_address(url), prepared=False) as database:
        assert database.figures() == []
        await database.set_up()
        source = database.source("default")
        await source.list_graphs()
        server.kill()
        asked = asyncio.create_task(source.list_graphs())
        await until(lambda: values_of(database, "errors").get("connection", 0) > 0)
        assert values_of(database, "busy")["read"] == 1
        server.start()
        assert await asked == []
        assert values_of(database, "away_seconds")[""] > 0
