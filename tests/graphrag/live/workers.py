"""What another process does to a live graph during a test: each function is one process."""

import asyncio

from graphrag.live import LiveGraph, LiveGraphs, LiveOptions
from graphrag.live.edits import create_elements
from graphrag.live.instruction_batch import apply_instructions
from tests.contracts.samples import FLOW, WORKSPACE
from tests.graphrag.live.helpers import a_raw_node, rename
from tests.support.chosen_database import database_in


async def edit_until_killed(path: str, save_every: str) -> None:
    """Edit as eight editors do, and print each acknowledged edit after it was acknowledged."""
    options = LiveOptions(tick_ms=20, autosave_ms=int(save_every))
    async with (
        database_in(path) as database,
        LiveGraphs(database.source, database.records, options=options) as graphs,
    ):
        live = await graphs.open(WORKSPACE, FLOW)
        await asyncio.gather(*(_editor(live, number) for number in range(8)))


async def _editor(live: LiveGraph, number: int) -> None:
    node = f"node-{number}"
    await live.edit(
        f"user-{number}", None, create_elements, "0", [a_raw_node(node, data={"name": "0"})], []
    )
    for count in range(1, 1_000_000):
        await live.edit(f"user-{number}", None, apply_instructions, [rename(node, str(count))])
        print(f"{number} {count}", flush=True)
        if count % 10 == 0:
            await live.edit(
                f"user-{number}", None, create_elements, "0", [a_raw_node(f"{node}-{count}")], []
            )
            print(f"{number} +{count}", flush=True)
