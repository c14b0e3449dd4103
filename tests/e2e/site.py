"""The service on a real server on loopback, in a thread of its own, as a browser meets it."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import httpx2
import uvicorn
from fastapi import FastAPI

from graphrag.config import Settings
from graphrag.llm.base import LLMProvider
from mock_data import load_text
from server.app import create_app
from server.server_state import ServerState
from tests.support.scripted_provider import ScriptedProvider

R = TypeVar("R")
GRAPH = "testgraph001"
PATIENCE_S = 30.0


@dataclass(slots=True, kw_only=True)
class Site:
    """A service that can be stopped and started again on the same port and database.

    `script` answers in place of a model; a Site made with `script=None` answers offline. A setting
    that is None is not given at all.
    """

    database: Path
    script: ScriptedProvider | None
    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    port: int = 0
    _loop: asyncio.AbstractEventLoop | None = None
    _server: uvicorn.Server | None = None
    _thread: threading.Thread | None = None
    _app: FastAPI | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    @property
    def state(self) -> ServerState:
        assert self._app is not None, "the site is stopped"
        return self._app.state.server

    def start(self) -> None:
        listening = socket.create_server(("127.0.0.1", self.port))
        self.port = listening.getsockname()[1]
        provider: LLMProvider | None = self.script
        given = {
            "db": f"sqlite:{self.database}",
            "embeddings": "none",
            "provider": "offline",
            **self.settings,
        }
        named = {name: value for name, value in given.items() if value is not None}
        app = create_app(Settings(**named), provider=provider)
        self._app = app
        config = uvicorn.Config(
            app,
            log_level="error",
            ws="websockets-sansio",
            timeout_graceful_shutdown=1,
            lifespan="on",
        )
        self._server = uvicorn.Server(config)
        ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(listening, ready), daemon=True)
        self._thread.start()
        assert ready.wait(PATIENCE_S), "the server did not start"

    def _run(self, listening: socket.socket, ready: threading.Event) -> None:
        server = self._server
        assert server is not None
        begin = server.startup

        async def startup(sockets: list[socket.socket] | None = None) -> None:
            await begin(sockets)
            ready.set()

        server.startup = startup  # type: ignore[method-assign]
        with asyncio.Runner() as runner:
            self._loop = runner.get_loop()
            runner.run(server.serve(sockets=[listening]))
        listening.close()

    def stop(self) -> None:
        """End it, as a server that is asked to stop does: what is running is stored."""
        if self._server is None or self._thread is None:
            return
        self._server.should_exit = True
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), "the server did not end"
        self._server = self._thread = self._app = None

    def run(self, work: Callable[[], Awaitable[R]]) -> R:
        """Do something in the server's own loop, and return what it returns."""

        async def awaited() -> R:
            return await work()

        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(awaited(), self._loop).result(PATIENCE_S)

    def rest(self, method: str, path: str, *, token: str | None = None, **options: Any) -> Any:
        """Call the service past the browser; return the body of a good answer."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        answer = httpx2.request(
            method, f"{self.url}{path.lstrip('/')}", headers=headers, timeout=PATIENCE_S, **options
        )
        assert answer.status_code < 400, answer.text
        return answer.json()

    def import_graph(
        self, document: Mapping[str, Any] | None = None, key: str = GRAPH, token: str | None = None
    ) -> None:
        """Store a graph; by default the NBA pipeline."""
        text = load_text("nba.json") if document is None else json.dumps(document)
        path = f"/api/graphs/import?graphKey={key}&fileName=graph.json"
        self.rest("POST", path, token=token, content=text.encode())

    def node(self, key: str, graph: str = GRAPH) -> dict[str, Any]:
        """Return a node as the service has it now, unsaved edits included."""
        view = self.rest("GET", f"/api/graphs/{graph}/view")
        return next(node for node in view["nodes"] if node["_key"] == key)


@contextmanager
def running_site(
    folder: Path, *, script: ScriptedProvider | None = None, graph: bool = True, **settings: Any
) -> Iterator[Site]:
    """Run a service over the NBA graph in a database of its own until the block ends."""
    site = Site(database=folder / "e2e.db", script=script, settings=settings)
    site.start()
    try:
        if graph:
            site.import_graph()
        yield site
    finally:
        site.stop()
