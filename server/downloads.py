"""Large JSON answers: written to a temporary file in steps, then sent as fast as the client reads.

Decision: an answer is complete before its first byte is sent. Until then it can become an error,
and all of it shows one moment; a slow client holds a file instead of a graph in memory.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from tempfile import SpooledTemporaryFile

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from datasources.errors import SourceUnavailable
from graphrag.workers import WorkersBusy, run_limited
from server.http_connections import HttpConnection

# Returns the next piece of an answer; called in a worker thread.
Step = Callable[[], bytes]
IN_MEMORY = 1 << 20  # bytes; a smaller answer needs no file and is not limited
AT_ONCE, OF_ONE = 12, 4  # large answers at once: of the server, and of one person
# Large answers that are written at the same time; more would only share the interpreter.
STEPS = 1
PIECE = 1 << 18
STALLED_S = 30.0  # until a client that reads nothing counts as gone


class Downloads:
    """The large answers of a server."""

    def __init__(self) -> None:
        self._held: Counter[str] = Counter()
        self._turn = asyncio.Semaphore(STEPS)

    async def answer(
        self, request: Request, steps: AsyncIterator[Step], headers: Mapping[str, str] | None = None
    ) -> Download:
        """Writes an answer, which the caller returns or closes.

        Raises: WorkersBusy, ClientDisconnect, SourceUnavailable if there is no room for the file,
        and errors of the steps.
        """
        made = Download(self, str(request.state.user_id), headers)
        try:
            while True:
                async with self._turn:
                    step = await anext(steps, None)
                    if step is None:
                        return made
                    await made.write(step)
                await _check_present(request)
        except BaseException:
            made.close()
            raise

    def take(self, user_id: str) -> None:
        """Counts a large answer. Raises: WorkersBusy."""
        if self._held[user_id] >= OF_ONE or self._held.total() >= AT_ONCE:
            raise WorkersBusy(waiting=self._held.total())
        self._held[user_id] += 1

    def give_back(self, user_id: str) -> None:
        self._held[user_id] -= 1
        if not self._held[user_id]:
            del self._held[user_id]


async def _check_present(request: Request) -> None:
    """Raises: ClientDisconnect."""
    if await request.is_disconnected():
        raise ClientDisconnect


class Download(Response):
    """One answer, in memory or in a file."""

    media_type = "application/json"

    def __init__(
        self, downloads: Downloads, user_id: str, headers: Mapping[str, str] | None
    ) -> None:
        super().__init__(headers=headers)
        self._downloads = downloads
        self._user_id = user_id
        self._file = SpooledTemporaryFile[bytes](IN_MEMORY)
        self._is_large, self._size = False, 0

    async def write(self, step: Step) -> None:
        """Appends the piece of a step."""
        self._size = await run_limited(self._append, step)
        if self._size > IN_MEMORY and not self._is_large:
            self._downloads.take(self._user_id)
            self._is_large = True

    def _append(self, step: Step) -> int:
        try:
            self._file.write(step())
        except OSError as exc:
            reason = f"no room to write a large answer ({exc.strerror})"
            raise SourceUnavailable(source="temporary files", reason=reason) from exc
        return self._file.tell()

    def close(self) -> None:
        self._file.close()
        if self._is_large:
            self._is_large = False
            self._downloads.give_back(self._user_id)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        self.headers["content-length"] = str(self._size)
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            self._file.seek(0)
            while piece := await asyncio.to_thread(self._file.read, PIECE):
                async with asyncio.timeout(STALLED_S):
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body"})
        except TimeoutError:
            held: HttpConnection | None = scope.get("state", {}).get("connection")
            if held is not None:
                held.abort()  # to close it would wait until the client takes what it was sent
            raise ClientDisconnect from None
        finally:
            self.close()
