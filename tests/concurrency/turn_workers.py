"""A process that runs a turn and dies in the middle of it: at a numbered write, or where
it says so.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from typing import Any

from graphrag.llm.base import (
    Chunk,
    Finished,
    Message,
    TextDelta,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from tests.concurrency.workers import Mortal
from tests.support.agents import EDITOR, GRAPH, collected, setting_on
from tests.support.chosen_database import database_in
from tests.support.scripted_provider import FixedModel, calls_chunks
from tools.base import Tool, ToolContext, ToolResult
from tools.read_tools import READ_TOOLS
from tools.read_tools.search_nodes import SearchNodes
from tools.session_tools import QUESTIONS
from tools.write_tools import WRITE_TOOLS

READ = ToolCall(id="r1", name="search_nodes", arguments='{"query":"players"}')
MOVE = ToolCall(
    id="m1",
    name="propose_move_node",
    arguments='{"nodeKey":"root","posX":5,"posY":6,"reason":"tidy"}',
)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Reader(FixedModel):
    """A model that reads, proposes, and answers; which of them it does next
    stands in the conversation.
    """

    def __init__(self, dies: str = "") -> None:
        self.dies = dies

    async def answer(self, messages: Sequence[Message]) -> AsyncGenerator[Chunk]:
        last = max(i for i, m in enumerate(messages) if isinstance(m, UserMessage))
        results = [m for m in messages[last:] if isinstance(m, ToolMessage)]
        answered = {m.name for m in results if not m.content.startswith("ERROR interrupted")}
        yield TextDelta(text="Well, ")
        if self.dies == "stream" and READ.name in answered:
            die()
        calls = [READ] if READ.name not in answered else [MOVE] if MOVE.name not in answered else []
        calls = [
            replace(call, id=f"{call.id}-{len(messages)}") for call in calls
        ]  # an id is used once
        for piece in calls_chunks(*calls):
            yield piece
        yield Finished(reason="tool_calls" if calls else "stop")


async def _deadly(arguments: SearchNodes, context: ToolContext) -> ToolResult:
    die()
    raise AssertionError("it lives")


DEADLY_TOOLS: tuple[Tool[Any], ...] = tuple(
    replace(tool, run=_deadly) if tool.name == READ.name else tool
    for tool in (*READ_TOOLS, *WRITE_TOOLS)
)


class Counted:
    """A database whose writes of records are numbered."""

    def __init__(self, inner: Any, count: list[int]) -> None:
        self._inner = inner
        self._count = count

    def source(self, workspace: str) -> Any:
        return self._inner.source(workspace)

    def records(self, workspace: str) -> Any:
        return Mortal(self._inner.records(workspace), self._count)


async def run_turn_and_die(path: str, where: str, writes: str) -> None:
    """Run one turn; die in the model's stream, in a tool, or when so many records are written."""
    async with database_in(path) as database:
        count = [int(writes) if where == "write" else 1 << 30]
        tools = {"tools": DEADLY_TOOLS} if where == "tool" else {}
        setting = setting_on(Counted(database, count), Reader(where), **tools)  # type: ignore[arg-type]
        await collected(setting.agent.run(None, GRAPH, "Move the start", EDITOR))
        print("unharmed", count[0], flush=True)
        die()


ASKED = ToolCall(
    id="q1",
    name="ask_person",
    arguments='{"type":"MultipleChoice","data":{"question":"Which?","options":["Amount","Date"]}}',
)


class Asking(Reader):
    """A model that asks once and answers when it has an answer."""

    async def answer(self, messages: Sequence[Message]) -> AsyncGenerator[Chunk]:
        yield TextDelta(text="Well. ")
        if not any(isinstance(m, ToolMessage) and m.name == ASKED.name for m in messages):
            for piece in calls_chunks(ASKED):
                yield piece
        yield Finished(reason="stop")


async def answer_and_die(path: str, writes: str) -> None:
    """Ask a person, then take their answer; die when so many records are written
    after the question.
    """
    shown = frozenset({QUESTIONS})
    async with database_in(path) as database:
        count = [1 << 30]
        setting = setting_on(Counted(database, count), Asking())  # type: ignore[arg-type]
        events = await collected(setting.agent.run(None, GRAPH, "Tidy up", EDITOR, features=shown))
        count[0] = int(writes)
        thread_id = events[-1].thread_id  # type: ignore[union-attr]
        await collected(setting.agent.resume(thread_id, EDITOR, response="Date", features=shown))
        die()


async def hold_a_turn(path: str) -> None:
    """Run a turn whose model never ends, and say the thread; the parent kills or stops it."""
    async with database_in(path) as database:
        setting = setting_on(database, Endless())
        async for event in setting.agent.run(None, GRAPH, "Tell me", EDITOR):
            thread_id = getattr(event, "thread_id", None)
            print(type(event).__name__, thread_id or "", getattr(event, "stopped", ""), flush=True)


class Endless(Reader):
    """A model that begins to speak and then says nothing more."""

    async def answer(self, messages: Sequence[Message]) -> AsyncGenerator[Chunk]:
        yield TextDelta(text="Once ")
        await asyncio.Event().wait()
