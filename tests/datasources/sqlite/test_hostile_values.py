"""Values that SQLite could not compare or bind: nothing is found by them, and
nothing else breaks.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from datasources.base import Database, MutableGraphDataSource
from datasources.errors import BadDocument
from datasources.hits import VectorQuery
from datasources.sqlite import SqliteDatabase
from tests.contracts.records import a_record
from tests.contracts.samples import FLOW, MODEL, WORKSPACE, a_vector, floats, make_flow
from tests.contracts.searches import search_text, search_vectors
from tests.datasources.sqlite.helpers import NOTHING_IS_SMALL

LONE = "\ud800"
HUGE = 2**70


@pytest.fixture(params=[None, NOTHING_IS_SMALL], ids=["held", "large"])
async def database(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Database]:
    async with SqliteDatabase(tmp_path / "graphs.db", limits=request.param) as database:
        await make_flow(database)
        yield database


@pytest.mark.parametrize("text", ["ann\0x", "ann\0", LONE])
@pytest.mark.parametrize("field", ["_key", "userId"])
async def test_a_name_that_would_read_as_another_is_refused(
    database: Database, text: str, field: str
) -> None:
    """A user called "ann", a zero and more must not own what is shown to "ann"."""
    records = database.records(WORKSPACE)
    record = a_record(text) if field == "_key" else a_record("k", userId=text)
    with pytest.raises(BadDocument) as refused:
        await records.put(record, expected_version=None)
    assert refused.value.field == field
    assert await records.query("approval") == []
    assert await records.query("approval", {"userId": "ann"}) == []


async def test_other_text_of_a_record_may_hold_anything_that_json_can(database: Database) -> None:
    records = database.records(WORKSPACE)
    stored = await records.put(a_record("k", note="a\0b"), expected_version=None)
    assert stored.data == {"note": "a\0b"}


@pytest.mark.parametrize("value", ["ann\0x", LONE, HUGE, -HUGE, 2**63, -(2**63) - 1])
async def test_what_cannot_be_stored_finds_no_record(database: Database, value: Any) -> None:
    records = database.records(WORKSPACE)
    await records.put(a_record("k", userId="ann"), expected_version=None)
    assert await records.query("approval", {"userId": value}) == []
    if isinstance(value, str):
        assert await records.get("approval", value) is None
        assert await records.get(value, "k") is None
        assert await records.query(value) == []


async def test_a_limit_may_be_as_great_as_one_likes(database: Database) -> None:
    source = database.source(WORKSPACE)
    records = database.records(WORKSPACE)
    await records.put(a_record("k"), expected_version=None)
    await source.put_embeddings(FLOW, [a_vector("a", 1.0, 0.0)])
    assert len(await records.query("approval", limit=HUGE)) == 1
    assert len(await source.get_nodes(FLOW, limit=HUGE)) == 5
    assert len(await source.get_links(FLOW, ["b"], limit=HUGE)) == 4
    around = await source.get_neighborhood(FLOW, ["a"], max_depth=HUGE, limit=HUGE)
    assert len(around.nodes) == 4
    assert len(await search_text(source, FLOW, "invoices", limit=HUGE)) == 2
    assert (
        len(
            await search_vectors(
                source, FLOW, VectorQuery(vector=floats(1, 0), model=MODEL, limit=HUGE)
            )
        )
        == 1
    )


UNWRITABLE: dict[str, Callable[[MutableGraphDataSource], Awaitable[Any]]] = {
    "sheet of nodes": lambda source: source.get_nodes(FLOW, sheet=LONE),
    "sheet of edges": lambda source: source.get_edges(FLOW, sheet=LONE),
    "page after": lambda source: source.get_nodes(FLOW, after=LONE),
    "model": lambda source: search_vectors(
        source, FLOW, VectorQuery(vector=floats(1, 0), model=LONE, limit=5)
    ),
}


@pytest.mark.parametrize("case", UNWRITABLE)
async def test_text_that_cannot_be_written_finds_nothing(tmp_path: Path, case: str) -> None:
    async with SqliteDatabase(tmp_path / "graphs.db", limits=NOTHING_IS_SMALL) as database:
        source = await make_flow(database)
        await source.put_embeddings(FLOW, [a_vector("a", 1.0, 0.0)])
        assert await UNWRITABLE[case](source) == []
