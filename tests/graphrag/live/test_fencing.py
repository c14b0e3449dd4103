"""A hold on a live graph is checked where it counts: in the transaction that saves."""

from __future__ import annotations

import pytest

from datasources.mock import MemoryDatabase
from graphrag.live import LiveElsewhere
from tests.contracts.samples import WORKSPACE
from tests.graphrag.live.helpers import a_bench, put

LONG = 3_600_000


async def test_a_late_owner_saves_nothing_whatever_its_clock_says() -> None:
    database = MemoryDatabase()
    async with a_bench(database) as late:
        await late.rename("b", "late")
        async with a_bench(database, later_ms=LONG) as owner:  # its journal had the edit, and it has it now
            before = (await owner.stored.get_graph("flow")).revision
            with pytest.raises(LiveElsewhere):
                await late.live.save()  # by its own clock it still holds the graph
            assert late.live.is_closed
            assert (await owner.stored.get_graph("flow")).revision == before
            await owner.live.save()
            assert (await owner.stored_node("b")).data == {"name": "late"}


async def test_a_renewal_at_the_same_time_stops_no_save() -> None:
    async with a_bench() as bench:
        await bench.rename("b", "once")
        (lease,) = await bench.database.records(WORKSPACE).query("lease")
        await bench.database.records(WORKSPACE).put(lease, expected_version=lease.version)
        await bench.live.save()
        assert (await bench.stored_node("b")).data == {"name": "once"}
        await bench.rename("b", "twice")
        bench.clock.now += 10_000
        await bench.graphs.tick()  # renews what a save has written
        await bench.live.save()
        assert (await bench.stored_node("b")).data == {"name": "twice"}


async def test_a_save_whose_answer_was_lost_is_made_up_for() -> None:
    async with a_bench() as bench:
        await bench.rename("b", "kept")
        (journalled,) = await bench.journal()
        node = next(node for node in bench.live.nodes if node.key == "b")
        await bench.stored.apply(put(node))
        await bench.database.records(WORKSPACE).delete(
            "journal", journalled.key, expected_version=str(journalled.version)
        )
        await bench.live.save()
        assert not bench.live.is_closed
        assert (await bench.stored_node("b")).data == {"name": "kept"}
        assert not bench.live.has_unsaved
