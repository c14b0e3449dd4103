"""Shortens what servers, event loops and looks at what others stored wait for in tests."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from types import ModuleType
from typing import Any

import pytest
import uvicorn.server

from graphrag.agent.turn_lease import TurnLeases

STEP_S = 0.002
LOOKS_S = {
    "datasources.arango.connection.LONGEST_PAUSE_S": 0.02,
    "graphrag.agents.deliveries.POLL_S": 0.02,
    "graphrag.agents.life.STOP_S": 0.05,
    "graphrag.automations.session_control.POLL_S": 0.01,
    "graphrag.voice.call_feed.LOOK_S": 0.05,
    "graphrag.voice.call_service.POLL_S": 0.01,
    "server.change_feed.StoreWatch.look_s": 0.1,
}
"""What is looked at again and again, after so long."""
FURTHER_LOOKS = (
    "graphrag.app.api_keys.HELD_S",
    "graphrag.automations.runner.CONFIRMATION_POLL_S",
    "graphrag.automations.scheduler.TICK_S",
    "graphrag.connections.server_connections.LOOK_S",
    "graphrag.voice.active_call.DECISIONS_S",
    "graphrag.workspace_ticker.TICK_S",
)
"""What is looked at again and again, and waits in tests as long as in the service."""
HOURS_S = 36_000.0
_threads = ThreadPoolExecutor(32, thread_name_prefix="tests")


class _ThreadsOfALoop(ThreadPoolExecutor):
    """Runs the work of one event loop in threads that all loops share: no test starts its own."""

    def __init__(self) -> None:
        super().__init__(1)  # never starts one
        self.work: set[Future[Any]] = set()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future = _threads.submit(fn, *args, **kwargs)
        self.work.add(future)
        future.add_done_callback(self.work.discard)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        if wait:
            concurrent.futures.wait(tuple(self.work))


class _StepwiseAsyncio(ModuleType):
    """`asyncio`, as a module sees it that waits in steps: they are short."""

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    async def sleep(self, delay: float) -> None:
        await asyncio.sleep(min(delay, STEP_S))


@pytest.fixture(scope="session", autouse=True)
def short_ends_of_servers() -> Iterator[None]:
    """Uvicorn waits 100 ms when it ends, and looks every 100 ms whether it is to end
    and has ended.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(uvicorn.server, "asyncio", _StepwiseAsyncio("asyncio"))
        yield


@pytest.fixture(scope="session", autouse=True)
def short_looks() -> Iterator[None]:
    """What no event says is looked for up to twice a second; here it is seen at once."""
    with pytest.MonkeyPatch.context() as patch:
        for name, seconds in LOOKS_S.items():
            patch.setattr(name, seconds)
        patch.setitem(TurnLeases.__init__.__kwdefaults__, "look_s", 0.05)
        yield


@pytest.fixture
def no_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was not told is seen in hours: a test ends only where a notice is heard."""
    for name in (*LOOKS_S, *FURTHER_LOOKS):
        if not name.startswith("datasources."):
            monkeypatch.setattr(name, HOURS_S)
    monkeypatch.setitem(TurnLeases.__init__.__kwdefaults__, "look_s", HOURS_S)


@pytest.fixture(scope="session", autouse=True)
def threads_of_all_loops() -> Iterator[None]:
    """An event loop starts threads of its own and waits for them; here it waits for
    its work alone.
    """
    run = asyncio.BaseEventLoop.run_in_executor
    end = asyncio.BaseEventLoop.shutdown_default_executor

    def run_in_executor(self: Any, executor: Any, func: Any, *args: Any) -> Any:
        if executor is None and self._default_executor is None:
            self._default_executor = _ThreadsOfALoop()
        return run(self, executor, func, *args)

    async def shutdown_default_executor(self: Any, *timeout: Any) -> None:
        threads = self._default_executor
        if not isinstance(threads, _ThreadsOfALoop) or threads.work:
            await end(self, *timeout)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asyncio.BaseEventLoop, "run_in_executor", run_in_executor)
        patch.setattr(asyncio.BaseEventLoop, "shutdown_default_executor", shutdown_default_executor)
        yield
