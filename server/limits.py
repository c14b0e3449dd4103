"""Bounds on what callers may ask: bytes of a request, messages to models a minute."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.errors import RequestTooLarge, TooManyRequests
from server.faults import respond

MAX_CALLERS = 10_000
IMPORT_PATH = "/api/graphs/import"
IMPORT_FACTOR = 16
"""A workflow's file may be so many times larger than other requests."""


class RateLimiter:
    """A bucket of tokens for each caller: full at first, refilled evenly. Units: calls a minute.

    Of more than MAX_CALLERS the one that called longest ago is forgotten, and so has a full bucket.
    """

    def __init__(self, per_minute: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_minute, self._clock = per_minute, clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def spend(self, caller: str) -> None:
        """Count a call. Raises: TooManyRequests; then it is not counted."""
        if self._per_minute == 0:
            return
        now = self._clock()
        left, since = self._buckets.pop(caller, (float(self._per_minute), now))
        left = min(float(self._per_minute), left + (now - since) * self._per_minute / 60)
        self._buckets[caller] = (left - 1 if left >= 1 else left, now)
        if len(self._buckets) > MAX_CALLERS:
            self._buckets.popitem(last=False)
        if left < 1:
            raise TooManyRequests(retry_after_s=(1 - left) * 60 / self._per_minute)


class BodyLimit:
    """Middleware: reads a request's body whole before anything else does, or refuses it.

    Whoever reads it later never meets a body that is too large half way.
    """

    def __init__(self, app: ASGIApp, *, max_bytes: int) -> None:
        self._app, self._max_bytes = app, max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD", "OPTIONS"):
            await self._app(scope, receive, send)
            return
        limit = self._max_bytes * (IMPORT_FACTOR if scope["path"] == IMPORT_PATH else 1)
        body = None if _declared(scope) > limit else await _read(receive, limit)
        if body is None:
            await respond(Request(scope), RequestTooLarge(limit=limit))(scope, receive, send)
            return
        await self._app(scope, _replayed(body, receive), send)


def _declared(scope: Scope) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value[:20])
    return 0


async def _read(receive: Receive, limit: int) -> list[Message] | None:
    """Return the pieces of the body, None when they are too many bytes."""
    pieces: list[Message] = []
    size = 0
    while True:
        piece = await receive()
        pieces.append(piece)
        size += len(piece.get("body", b""))
        if size > limit:
            return None
        if piece["type"] != "http.request" or not piece.get("more_body", False):
            return pieces


def _replayed(pieces: list[Message], receive: Receive) -> Receive:
    waiting = iter(pieces)

    async def replay() -> Message:
        for piece in waiting:
            return piece
        return await receive()

    return replay
