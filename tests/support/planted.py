"""A secret and a number that tests give to agents, and a guard that looks for them
in all that leaves.

The guard reads every log event of the suite, every record that a store writes, and every
answer of the server: none may hold the secret, and no event at info or above the number.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.responses import Response
from starlette.websockets import WebSocket

from datasources.arango.records import ArangoRecords
from datasources.mock.state import MemoryRecords
from datasources.sqlite.records import SqliteRecords
from tools.http.secret_values import Secrets

PLANTED_SECRET = "planted/secret+4711"
PLANTED_NUMBER = "+33612345678"
PLANTED = Secrets({"PLANTED": PLANTED_SECRET})
_ROOMS = (
    "tools.http",
    "graphrag.agents",
    "graphrag.voice",
    "graphrag.bridge",
    "graphrag.realtime",
    "graphrag.simulator",
    "server.voice",
)


class LeakGuard:
    """What was found where it may not stand: looked at after each test."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def look(self, where: str, text: str) -> None:
        if PLANTED.mask(text) != text:
            self.found.append(f"{where} holds the planted secret")

    def look_at_event(self, record: logging.LogRecord) -> None:
        facts = f"{record.getMessage()} {record.__dict__!r}"
        if record.name.partition(".")[0] in ("tools", "graphrag", "server", "cli", "datasources"):
            self.look(f"log event {record.msg}", facts)
            if record.levelno >= logging.INFO and PLANTED_NUMBER in facts:
                self.found.append(f"log event {record.msg} holds a caller's number")


@pytest.fixture(scope="session")
def leak_guard() -> Iterator[LeakGuard]:
    guard = LeakGuard()
    handle = logging.Logger.handle
    begin = Response.__init__
    send_text = WebSocket.send_text

    def handled(self: logging.Logger, record: logging.LogRecord) -> None:
        guard.look_at_event(record)
        handle(self, record)

    @functools.wraps(begin)  # FastAPI reads its signature
    def begun(self: Response, *args: Any, **more: Any) -> None:
        begin(self, *args, **more)
        guard.look("an answer", bytes(self.body).decode(errors="replace"))

    async def sent(self: WebSocket, data: str) -> None:
        guard.look("an event of a WebSocket", data)
        await send_text(self, data)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logging.Logger, "handle", handled)
        patch.setattr(Response, "__init__", begun)
        patch.setattr(WebSocket, "send_text", sent)
        for records in (MemoryRecords, SqliteRecords, ArangoRecords):
            patch.setattr(records, "write", _watched(records.write, guard))
        for room in _ROOMS:
            logging.getLogger(room).setLevel(logging.DEBUG)
        yield guard


def _watched(write: Any, guard: LeakGuard) -> Any:
    @functools.wraps(write)
    async def watched(self: Any, written: Any, **more: Any) -> Any:
        guard.look("a record", repr(written))
        return await write(self, written, **more)

    return watched


@pytest.fixture(autouse=True)
def nothing_planted_leaves(leak_guard: LeakGuard) -> Iterator[None]:
    yield
    found = leak_guard.found
    leak_guard.found = []
    assert found == [], "a secret or a number left the service"
