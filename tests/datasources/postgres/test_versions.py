"""Databases that an older or a newer program set up."""

from __future__ import annotations

import psycopg
import pytest

from datasources.errors import DatabaseVersion, UpgradeNeeded
from datasources.postgres import PostgresDatabase, parse_address
from tests.support.databases import put_sample
from tests.support.service import GRAPH

pytestmark = pytest.mark.slow


def note(url: str, **meta: str) -> None:
    """Changes what the database says of the program that set it up."""
    with psycopg.connect(url) as connection:
        for name, value in meta.items():
            connection.execute("UPDATE nodius.meta SET value = %s WHERE name = %s", (value, name))


async def findings(url: str) -> dict[str, str]:
    async with PostgresDatabase(parse_address(url), prepared=False) as database:
        return {f"{each.name} {each.status}": each.fix or "" for each in await database.check()}


@pytest.mark.parametrize("meta", [{"words": "0"}, {"record_fields": "others"}])
async def test_a_database_of_an_older_program_is_not_used_before_it_is_upgraded(
    postgres_url: str, meta: dict[str, str]
) -> None:
    address = parse_address(postgres_url)
    async with PostgresDatabase(address) as database:
        await put_sample(database)
    note(postgres_url, **meta)
    with pytest.raises(UpgradeNeeded, match="`nodius db upgrade`"):
        async with PostgresDatabase(address):
            pass
    assert "nodius db upgrade" in (await findings(postgres_url))["schema error"]
    async with PostgresDatabase(address, prepared=False) as database:
        assert len(await database.set_up(dry_run=True)) == 1
        assert len(await database.set_up()) == 1
        assert await database.set_up() == []
    async with PostgresDatabase(address) as database:
        assert await database.source("default").get_nodes(GRAPH)
    assert "schema error" not in await findings(postgres_url)


async def test_a_database_of_a_newer_program_is_left_alone(postgres_url: str) -> None:
    note(postgres_url, version="99")
    address = parse_address(postgres_url)
    with pytest.raises(DatabaseVersion, match=r"schema version 99.*upgrade the program"):
        async with PostgresDatabase(address):
            pass
    assert "upgrade the program" in (await findings(postgres_url))["schema error"]
    async with PostgresDatabase(address, prepared=False) as database:
        with pytest.raises(DatabaseVersion):
            await database.set_up()
    with psycopg.connect(postgres_url) as connection:
        rows = connection.execute("SELECT value FROM nodius.meta WHERE name = 'version'").fetchall()
    assert rows == [("99",)]
