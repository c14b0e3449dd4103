"""The worker of agents does what is due in every workspace, and goes on where something fails."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from datasources.base import Database
from datasources.mock import MemoryDatabase, open_nba
from graphrag.agents.agent_worker import GRAPHS_MS, AgentWorker, WorkspaceAgents
from graphrag.agents.manager import AgentManager
from tests.support.agent_life import Api, Server, server_on
from tests.support.agents import EDITOR, GRAPH
from tools.http.fetch import HttpAnswer


class Ticks:
    """A manager that has nothing to do."""

    def __init__(self, error: Exception | None = None) -> None:
        self.count, self._error = 0, error

    async def tick(self, now: int) -> None:
        self.count += 1
        if self._error is not None:
            raise self._error


def work_of(server: Server, database: Database, manager: Any = None) -> WorkspaceAgents:
    return WorkspaceAgents(
        manager=cast(AgentManager, manager or Ticks()),
        life=server.life,
        source=database.source("default"),
        clock=server.clock,
    )


async def test_one_workspace_that_fails_does_not_hold_up_another() -> None:
    async with MemoryDatabase() as database:
        server = server_on(database, Api())
        stored = await server.begin()
        await server.quiet()
        manager = Ticks(error=RuntimeError("down"))
        good = work_of(server, database, manager)

        async def opened(name: str) -> WorkspaceAgents:
            if name == "bad":
                raise RuntimeError("no such key")
            return good

        async def names() -> list[str]:
            return ["bad", "default"]

        worker = AgentWorker(names, opened)
        server.clock.now += 1_800_000
        for _ in range(3):
            await worker.tick()
            await good.idle()
        await server.quiet()
        assert manager.count == 3
        assert (await server.part(stored)).end_reason == "idle"


async def test_an_api_that_hangs_holds_up_no_idle_end() -> None:
    async with MemoryDatabase() as database:
        api = Api(answers={"/calls": HttpAnswer(status=503)})
        server = server_on(database, api)
        first, second = await server.begin(), await server.begin()
        await server.quiet()
        api.held = {"/calls": asyncio.Event()}
        work = work_of(server, database)
        server.clock.now += 2_000
        await work.tick()  # sends what is owed, and gets no answer
        server.clock.now += 1_800_000
        async with asyncio.timeout(5):
            while (await server.part(first)).is_open or (await server.part(second)).is_open:
                await work.tick()
                await asyncio.sleep(0)
        await work.close()


async def test_conversations_about_a_graph_end_when_it_is_gone() -> None:
    async with open_nba("default") as database:
        server = server_on(database, Api())
        assert server.shop.agent is not None
        about = server.threads.begin(GRAPH, EDITOR, title="hello")
        about = await server.life.beginnings.begin(server.shop.agent, 1, about)
        other = await server.begin()
        lost = server.threads.begin("gone before", EDITOR, title="hello")
        lost = await server.life.beginnings.begin(server.shop.agent, 1, lost)
        await server.quiet()
        work = work_of(server, database)
        await work.tick()
        await work.idle()
        assert not (await server.part(lost)).is_open
        assert (await server.part(about)).is_open
        await database.source("default").delete_graph(GRAPH)
        server.clock.now += GRAPHS_MS
        await work.tick()
        await work.idle()
        assert (await server.part(about)).end_reason == "draining"
        assert (await server.part(other)).is_open
