"""Limits of callers: bytes and seconds of a request, messages to models a minute."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import final

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from graphrag.config import Settings
from server.auth import bearer_token, sign_in
from server.error_responses import respond
from server.errors import RequestTooLarge, RequestTooSlow, ServerError, ServerFull, TooManyRequests

MAX_CALLERS = 10_000
EDIT_BYTES_A_MINUTE = 240_000_000
EDIT_BURST_BYTES = 16_000_000
TRIALS_A_MINUTE = 6  # keys that an admin may try
# Paths whose endpoints check a signature or a cookie instead of a token.
OTHER_PATHS = ("/voice/", "/auth/")
OTHER_BYTES = 64 * 1024
IMPORT_PATH = "/api/graphs/import"
IMPORT_FACTOR = 16  # a workflow file may be larger than other requests by this factor

OF_ONE, OF_ALL = 2, 6  # largest imports at once: of one person, and of all

BODY_S = 10.0
# A body must arrive in these seconds, plus one second for each LEAST_RATE bytes received.
LEAST_RATE = 32 * 1024

# After a refusal the rest of a body is read for these seconds, of so many senders at once.
LINGER_S, LINGERING = 2.0, 4


@final
class RateLimiter:
    """A token bucket for each caller: full at first, refilled evenly. Units: calls, or bytes, a
    minute.

    A call may cost more than is left; the caller then waits until it is paid. `burst` is the size
    of a bucket. Of more than MAX_CALLERS the one that called longest ago is removed, whose bucket
    is full again.
    """

    def __init__(
        self,
        per_minute: int,
        *,
        burst: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._per_minute = per_minute
        self._clock = clock
        self._burst = float(per_minute if burst is None else burst)
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def spend(self, caller: str, cost: int = 1) -> None:
        """Counts a call. Raises: TooManyRequests; then the call is not counted."""
        if self._per_minute == 0:
            return
        left = self._left(caller)
        if left < 1:
            raise TooManyRequests(retry_after_s=(1 - left) * 60 / self._per_minute)
        self.owe(caller, cost)

    def owe(self, caller: str, cost: int) -> None:
        """Counts an additional cost of a call that was made."""
        self._buckets[caller] = (self._left(caller) - cost, self._clock())
        self._buckets.move_to_end(caller)
        if len(self._buckets) > MAX_CALLERS:
            self._buckets.popitem(last=False)

    def _left(self, caller: str) -> float:
        now = self._clock()
        left, since = self._buckets.get(caller, (self._burst, now))
        return min(self._burst, left + (now - since) * self._per_minute / 60)


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimits:
    """The limits of a person: messages to models, trials of a model's key, bytes of edits."""

    messages: RateLimiter
    key_trials: RateLimiter
    edit_bytes: RateLimiter

    @classmethod
    def of(cls, settings: Settings) -> RateLimits:
        return cls(
            messages=RateLimiter(settings.rate_limit),
            key_trials=RateLimiter(min(settings.rate_limit, TRIALS_A_MINUTE)),
            edit_bytes=RateLimiter(EDIT_BYTES_A_MINUTE, burst=EDIT_BURST_BYTES),
        )


@final
class BodyLimit:
    """Middleware that identifies the sender of a body, then reads the whole body or refuses it.

    Bodies below OTHER_PATHS are small, and are read before the sender is known.

    Endpoints never see a part of a body that is too large. A body must arrive at LEAST_RATE after
    some seconds. The bodies in memory are bounded, in all and for each person.
    """

    def __init__(self, app: ASGIApp, *, max_bytes: int) -> None:
        self._app = app
        self._max_bytes = max_bytes
        self._held: Counter[str] = Counter()
        self._lingering = asyncio.Semaphore(LINGERING)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD", "OPTIONS"):
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        limit = self._max_bytes * (IMPORT_FACTOR if scope["path"] == IMPORT_PATH else 1)
        is_other = scope["path"].startswith(OTHER_PATHS)
        limit = OTHER_BYTES if is_other else limit
        user_id = ""
        pieces = list[Message]()
        try:
            try:
                if not is_other:
                    user_id = (await sign_in(request, bearer_token(request))).user_id
                await self._read(receive, limit, user_id, pieces)
            except ServerError as exc:
                await self._refuse(respond(request, exc), scope, receive, send)
                return
            await self._app(scope, _replayed(pieces, receive), send)
        finally:
            self._held[user_id] -= sum(len(piece.get("body", b"")) for piece in pieces)
            if not self._held[user_id]:
                del self._held[user_id]

    async def _read(
        self, receive: Receive, limit: int, user_id: str, pieces: list[Message]
    ) -> None:
        """Adds the pieces of a body.

        Raises: RequestTooLarge, RequestTooSlow, ServerFull, ClientDisconnect.
        """
        began = time.monotonic()
        size = 0
        more = True
        most = self._max_bytes * IMPORT_FACTOR
        while more:
            try:
                async with asyncio.timeout(began + BODY_S + size / LEAST_RATE - time.monotonic()):
                    piece = await receive()
            except TimeoutError as exc:
                raise RequestTooSlow(seconds=round(time.monotonic() - began)) from exc
            if piece["type"] == "http.disconnect":
                raise ClientDisconnect
            pieces.append(piece)
            size += len(piece.get("body", b""))
            self._held[user_id] += len(piece.get("body", b""))
            if size > limit:
                raise RequestTooLarge(limit=limit)
            if self._held[user_id] > OF_ONE * most or self._held.total() > OF_ALL * most:
                raise ServerFull
            more = piece.get("more_body", False)

    async def _refuse(self, answer: Response, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers before the body has arrived, then closes the connection. The rest of the body is
        read and dropped for a moment: closing with unread bytes may lose the answer.
        """
        answer.headers["Connection"] = "close"

        async def lingering(message: Message) -> None:
            if message["type"] == "http.response.body":
                await send({**message, "more_body": True})
                with suppress(TimeoutError):
                    async with asyncio.timeout(LINGER_S), self._lingering:
                        while (await receive()).get("more_body", False):
                            pass
                message = {"type": "http.response.body"}
            await send(message)

        await answer(scope, receive, lingering)


def _replayed(pieces: list[Message], receive: Receive) -> Receive:
    waiting = iter(pieces)

    async def replay() -> Message:
        for piece in waiting:
            return piece
        return await receive()

    return replay
