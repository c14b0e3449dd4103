"""Somebody's API on a real socket of loopback: it answers as a test says and keeps the
bytes that arrived.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived:
    """One request. `line`: method, path and query as they were written."""

    line: str
    headers: dict[str, str]
    body: bytes

    @property
    def what(self) -> str:
        return self.line.partition("?")[0]


Answer = Any
"""A JSON value (200), bytes that are sent as they are, `(status, value)`, or a function of what
arrived that gives or awaits one of these.
"""


@dataclass
class LoopbackApi:
    """`answers`: by method and path, as `POST /api/calls`, given after `waits_s`; anything
    else is 404.
    """

    port: int
    answers: dict[str, Answer] = field(default_factory=dict[str, Answer])
    arrived: list[Arrived] = field(default_factory=list[Arrived])
    waits_s: float = 0.0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def of(self, what: str) -> list[Arrived]:
        return [each for each in self.arrived if each.what == what]

    def only(self, what: str) -> Arrived:
        found = self.of(what)
        assert len(found) == 1, [each.line for each in self.arrived]
        return found[0]

    async def __call__(
        self, scope: Any, receive: Callable[..., Any], send: Callable[..., Any]
    ) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":  # it broke off, as where its sender was killed
                return
            body += message.get("body", b"")
            more = message.get("more_body", False)
        query = scope["query_string"].decode()
        line = f"{scope['method']} {scope['raw_path'].decode()}{'?' if query else ''}{query}"
        headers = {name.decode().lower(): value.decode() for name, value in scope["headers"]}
        request = Arrived(line=line, headers=headers, body=body)
        self.arrived.append(request)
        await asyncio.sleep(self.waits_s)
        answer: Answer = self.answers.get(request.what, (404, {"error": "no such path"}))
        if callable(answer):
            answer = answer(request)
        if asyncio.iscoroutine(answer):
            answer = await answer
        status, value = answer if isinstance(answer, tuple) else (200, answer)
        content = b"" if value is None else value
        if not isinstance(content, bytes):
            content = json.dumps(value).encode()
        begin = {"type": "http.response.start", "status": status}
        await send({**begin, "headers": [(b"content-type", b"application/json")]})
        await send({"type": "http.response.body", "body": content})


@asynccontextmanager
async def loopback_api(port: int = 0) -> AsyncIterator[LoopbackApi]:
    """Yield an API that listens until the block ends, at a free port if none is given."""
    with socket.create_server(("127.0.0.1", port)) as listening:
        # Sockets that are accepted get it too. Without it each answer waits 40 ms for the
        # client's delayed acknowledgement.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        api = LoopbackApi(port=listening.getsockname()[1])
        config = uvicorn.Config(api, lifespan="off", log_level="error", access_log=False)
        server = uvicorn.Server(config)
        config.load()
        server.lifespan = config.lifespan_class(config)
        await server.startup([listening])
        try:
            yield api
        finally:
            server.should_exit = True
            await server.shutdown([listening])
