"""Conversations with agents that are killed: each child of a process lives one, and ends
at one write.
"""

from __future__ import annotations

from pathlib import Path

from datasources.base import Database
from tests.support.agent_life import Api, Sent, Server, server_on
from tests.support.chosen_database import database_in
from tests.support.clock import Clock
from tools.http.fetch import HttpAnswer


class FiledApi(Api):
    """An API that notes in a file what it was sent: it outlives who sends."""

    def __init__(self, file: Path) -> None:
        super().__init__(answers={"/calls": self.made})
        self._file = file

    def made(self, sent: Sent) -> HttpAnswer:
        return HttpAnswer(status=200, value={"id": "c-7"})

    async def take(self, sent: Sent) -> HttpAnswer:
        known = sent.body.get("id") or sent.body.get("callId")
        with self._file.open("a") as file:
            file.write(f"{sent.key.partition(':')[2]} {known}\n")
        return await super().take(sent)


def server_at(database: Database, path: Path, *, hours: int = 0) -> Server:
    clock = Clock()
    clock.now += hours * 3_600_000
    return server_on(database, FiledApi(path.with_suffix(".api")), clock=clock)


async def live_through(path: Path) -> None:
    """Live a conversation from its first message to what is owed for its end."""
    async with database_in(path) as database:
        server = server_at(database, path)
        stored = await server.begin()
        await server.quiet()
        stored = await server.say(stored, "Hello.", "Good day.", order_placed=True)
        await server.life.endings.end(stored.thread.key, "ended_by_person")
        await server.quiet()
