"""Runs of automations that are killed: a process has children work on one, each ended
at one write.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from pathlib import Path

from datasources.arango import ArangoDatabase, parse_address
from datasources.base import Database
from graphrag.approvals import Approve
from graphrag.leases import now_ms
from graphrag.llm.base import Chunk, Finished, Message, ToolCall, ToolMessage, UsageReport
from graphrag.llm.errors import ModelUnreachable
from graphrag.sessions.machine import SessionLimits
from tests.concurrency.turn_workers import MOVE, READ
from tests.support.agents import REVIEWER
from tests.support.automations import Night, night_on
from tests.support.chosen_database import database_in
from tests.support.clock import Clock
from tests.support.scripted_provider import FixedModel, calls_chunks

FINISH = ToolCall(
    id="f1", name="finish_automation", arguments='{"outcome":"findings","report":"Moved."}'
)
USED = UsageReport(prompt=100, completion=10)
ROUNDS = 50


class Worker(FixedModel):
    """A model that is away, reads, proposes and finishes; each time it is asked a file
    gets a letter.
    """

    def __init__(self, calls: Path) -> None:
        self._calls = calls

    async def answer(self, messages: Sequence[Message]) -> AsyncGenerator[Chunk]:
        with self._calls.open("a") as file:
            file.write("x")
        if self._calls.stat().st_size == 1:
            raise ModelUnreachable(provider=self.name, reason="refused")
        results = [m for m in messages if isinstance(m, ToolMessage)]
        answered = {m.name for m in results if not m.content.startswith("ERROR interrupted")}
        call = next((each for each in (READ, MOVE) if each.name not in answered), FINISH)
        call = replace(call, id=f"{call.id}-{len(messages)}")
        for piece in calls_chunks(call):
            yield piece
        yield USED
        yield Finished(reason="tool_calls")


class Now(Clock):
    """The clock of this computer; what waits does so in earnest."""

    def __call__(self) -> int:
        return now_ms()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def night(database: Database, path: Path) -> Night:
    provider = Worker(path.with_suffix(".calls"))
    limits = SessionLimits(confirm_ms=0, network_first_ms=1)
    return night_on(database, provider, clock=Now(), limits=limits)


async def live_through(path: Path) -> None:
    """Begin what is due, approve what is proposed, and go on until the run is over."""
    async with database_in(path) as database:
        here = night(database, path)
        for _ in range(ROUNDS):
            await here.scheduler.run_due()
            waiting = await here.approvals.list(status="pending", by=REVIEWER)
            for approval in waiting:
                await here.approvals.decide(approval.id, Approve(), REVIEWER)
                here.scheduler.wake("default")
            ended = await here.automations.sessions({"open": False})
            await asyncio.sleep(0.01)
            if not waiting and any(
                each.thread.session and each.thread.session.end_reason for each in ended
            ):
                return
        raise AssertionError("the run does not end")


class Finisher(Worker):
    """A model that finishes at once."""

    async def answer(self, messages: Sequence[Message]) -> AsyncGenerator[Chunk]:
        for piece in calls_chunks(replace(FINISH, id=f"f{len(messages)}")):
            yield piece
        yield Finished(reason="tool_calls")


class Shared(Clock):
    """A clock that several processes read from a file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __call__(self) -> int:
        with self._path.open("rb", buffering=0) as file:
            return int(file.read())


def store_at(address: str) -> Database:
    """Return the database at a file's path or at an address of ArangoDB, not yet opened."""
    if address.startswith("arango"):
        return ArangoDatabase(parse_address(address))
    return database_in(address)


def serve(address: str, clock_file: str) -> None:
    """Tick until killed, by the clock in a file."""

    async def work() -> None:
        async with store_at(address) as database:
            model = Finisher(Path(clock_file))
            clock = Shared(Path(clock_file))
            here = night_on(
                database, model, clock=clock, limits=SessionLimits(confirm_ms=0), at_once=4
            )
            while True:
                await here.scheduler.run_due()
                await asyncio.sleep(0.05)

    asyncio.run(work())
