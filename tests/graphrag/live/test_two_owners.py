"""Two servers edit one graph, with any clocks and pauses: whatever one acknowledged is there
at the end.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datasources.errors import SourceError, SourceUnavailable
from datasources.mock import MemoryDatabase
from graphrag.live import LiveGraphs
from graphrag.live.edits import create_elements
from graphrag.live.errors import LiveError
from tests.contracts.samples import FLOW, WORKSPACE, make_flow
from tests.graphrag.live.helpers import NEVER, a_raw_node
from tests.support.chosen_database import CHOSEN, fresh_database, new_database
from tests.support.clock import MONDAY, Clock

MINUTE = 60_000


class Pause:
    """Whether a server is paused, and whether one of its reads and writes waits until
    it goes on.
    """

    def __init__(self) -> None:
        self._running, self.has_stopped = asyncio.Event(), asyncio.Event()
        self._is_dead = False
        self._running.set()

    def begin(self) -> None:
        self._running.clear()

    def end(self) -> None:
        self.has_stopped.clear()
        self._running.set()

    async def passed(self) -> None:
        if not self._running.is_set():
            self.has_stopped.set()
        await self._running.wait()
        if self._is_dead:
            raise SourceUnavailable(source="test", reason="its server was killed")

    def kill(self) -> None:
        """End the server: nothing of it reaches the store any more."""
        self._is_dead = True
        self._running.set()


class Pausable:
    """A source or record store of a server that can be paused before any of its
    reads and writes.
    """

    def __init__(self, inner: Any, pause: Pause) -> None:
        self._inner = inner
        self._pause = pause

    def __getattr__(self, name: str) -> Any:
        if not callable(getattr(self._inner, name)):
            return getattr(self._inner, name)

        async def called(*args: Any, **more: Any) -> Any:
            await self._pause.passed()
            return await getattr(self._inner, name)(*args, **more)

        return called


@dataclass
class Server:
    """A server on the shared database, with its own clock, that can be paused."""

    graphs: LiveGraphs
    clock: Clock
    pause: Pause
    acknowledged: set[str]
    tasks: list[asyncio.Task[None]] = field(default_factory=list[asyncio.Task[None]])

    def begin(self, work: Any) -> None:
        async def done() -> None:
            with suppress(LiveError, SourceError):
                await work

        self.tasks.append(asyncio.create_task(done()))

    async def quiet(self) -> None:
        """Wait until all that was begun is done, or waits for the end of the pause."""
        if left := [task for task in self.tasks if not task.done()]:
            stopped = asyncio.create_task(self.pause.has_stopped.wait())
            await asyncio.wait(
                {stopped, asyncio.gather(*left)}, return_when=asyncio.FIRST_COMPLETED
            )
            stopped.cancel()

    async def edit(self, key: str) -> None:
        live = await self.graphs.open(WORKSPACE, FLOW)
        await live.edit("ann", None, create_elements, "0", [a_raw_node(key)], [])
        self.acknowledged.add(key)

    async def save(self) -> None:
        await (await self.graphs.open(WORKSPACE, FLOW)).save()


@asynccontextmanager
async def servers(database: MemoryDatabase, skews: tuple[int, int]) -> AsyncGenerator[list[Server]]:
    """Yield two servers; at the end both are as killed: nothing more of them is stored."""
    await make_flow(database)
    acknowledged = set[str]()
    made = list[Server]()
    for skew in skews:
        pause = Pause()
        clock = Clock(MONDAY + skew)
        graphs = LiveGraphs(
            lambda name, pause=pause: Pausable(database.source(name), pause),  # type: ignore[misc]
            lambda name, pause=pause: Pausable(database.records(name), pause),  # type: ignore[misc]
            options=NEVER,
            clock=clock,
        )
        made.append(Server(graphs, clock, pause, acknowledged))
    async with made[0].graphs, made[1].graphs:
        yield made
        for server in made:
            server.pause.kill()
            await server.quiet()


async def as_stored(database: MemoryDatabase) -> set[str]:
    """Return the nodes after a server that starts has recovered what was journalled."""
    async with LiveGraphs(
        database.source, database.records, options=NEVER, clock=Clock(10**15)
    ) as graphs:
        await graphs.recover(WORKSPACE)
        return {node.key for node in await database.source(WORKSPACE).get_nodes(FLOW)}


STEP = st.tuples(
    st.integers(0, 1),
    st.sampled_from(["edit", "edit", "edit", "save", "tick", "pause", "go on", "later"]),
)


async def lost_after(skews: tuple[int, int], steps: list[tuple[int, str]]) -> set[str]:
    """Return what was acknowledged and is not there after these steps."""
    async with new_database() as database:
        async with servers(database, skews) as both:
            for number, (which, what) in enumerate(steps):
                server = both[which]
                match what:
                    case "edit":
                        server.begin(server.edit(f"n{number}"))
                    case "save":
                        server.begin(server.save())
                    case "tick":
                        server.begin(server.graphs.tick())
                    case "pause":
                        server.pause.begin()
                    case "go on":
                        server.pause.end()
                    case _:
                        for each in both:
                            each.clock.now += 10_000
                await server.quiet()
        return both[0].acknowledged - await as_stored(database)


SKEWS = st.tuples(st.sampled_from([0, MINUTE, -MINUTE]), st.sampled_from([0, MINUTE]))
STEPS = st.lists(STEP, min_size=4, max_size=40)


@settings(max_examples=40)
@given(skews=SKEWS, steps=STEPS)
async def test_what_either_of_two_servers_acknowledged_is_there_whatever_their_clocks_say(
    skews: tuple[int, int], steps: list[tuple[int, str]]
) -> None:
    assert await lost_after(skews, steps) == set()


@pytest.mark.slow
@settings(max_examples=100 if CHOSEN else 1_000)  # a database of a server for each takes longer
@given(skews=SKEWS, steps=STEPS)
async def test_so_it_is_in_a_thousand_orders_of_steps(
    skews: tuple[int, int], steps: list[tuple[int, str]]
) -> None:
    assert await lost_after(skews, steps) == set()


async def test_a_server_paused_within_a_write_of_the_journal_adds_nothing_to_that_of_its_successor() -> (
    None
):
    database = await fresh_database()
    async with servers(database, (0, MINUTE)) as (first, second):
        await first.edit("before")
        first.pause.begin()
        first.begin(first.edit("late"))
        await first.quiet()
        await second.edit("after")
        first.pause.end()
        await first.quiet()
        assert second.acknowledged == {"before", "after"}
    stored = await as_stored(database)
    assert {"before", "after"} <= stored
    assert "late" not in stored


async def test_a_graph_that_was_made_again_keeps_what_is_journalled_of_it() -> None:
    database = await fresh_database()
    async with servers(database, (0, 0)) as (first, second):
        await first.graphs.open(WORKSPACE, FLOW)
        await database.source(WORKSPACE).delete_graph(FLOW)
        first.pause.begin()
        first.begin(first.graphs.forget(WORKSPACE, FLOW))
        await first.quiet()
        await database.records(WORKSPACE).delete(
            "lease", f"live/{FLOW}", expected_version=await version(database)
        )
        await make_flow(database)
        await second.edit("new")
        first.pause.end()
        await first.quiet()
    assert "new" in await as_stored(database)


async def version(database: MemoryDatabase) -> str:
    found = await database.records(WORKSPACE).get("lease", f"live/{FLOW}")
    assert found is not None
    return str(found.version)
