"""A trial reads stored graphs, sees no stored record, and leaves none."""

from datasources.base import Record
from datasources.mock import open_nba
from datasources.split_database import SplitDatabase

NOTE = Record(kind="thread", key="a", data={})


async def test_records_of_a_trial_are_its_own_and_graphs_those_of_the_database() -> None:
    stored = open_nba("default")
    await stored.records("default").put(NOTE, expected_version=None)
    async with SplitDatabase(graphs=stored, records=open_nba("default")) as trial:
        assert (
            await trial.source("default").list_graphs()
            == await stored.source("default").list_graphs()
        )
        records = trial.records("default")
        assert await records.get("thread", "a") is None
        assert await trial.workspaces("thread") == []
        await records.put(Record(kind="thread", key="b", data={}), expected_version=None)
        assert await trial.workspaces("thread") == await trial.workspaces() == ["default"]
    assert await stored.records("default").get("thread", "b") is None
