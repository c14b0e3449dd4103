"""An answer of server-sent events, which ends when its client disconnects. Source: HTML standard,
9.2.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable

from starlette.requests import ClientDisconnect
from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from graphrag.workers import end_tasks

# Interval of comments, which keep proxies from closing a silent answer.
KEEP_ALIVE_S = 15.0
STALLED_S = 30.0  # until a client that reads nothing counts as gone


class EventStream(StreamingResponse):
    """Sends the frames of a generator, and closes the generator however the answer ends.

    `failed` returns the last frames of an answer that fails, so that no body is cut off. `first`:
    the frame that was produced already, so that earlier errors could still fail the request.
    """

    def __init__(
        self,
        frames: AsyncGenerator[str],
        *,
        failed: Callable[[Exception], Iterable[str]],
        first: str = "",
    ) -> None:
        whole = _guarded(first, frames, failed)
        super().__init__(whole, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})
        self._frames, self._writing = frames, asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Sends all frames. Raises: ClientDisconnect if the client does not read."""

        async def write(message: Message) -> None:
            try:
                async with self._writing, asyncio.timeout(STALLED_S):
                    await send(message)
            except TimeoutError:
                raise ClientDisconnect from None

        sending = asyncio.create_task(self.stream_response(write))
        gone = asyncio.create_task(self.listen_for_disconnect(receive))
        beside = (gone, asyncio.create_task(_alive(write)))
        try:
            await asyncio.wait({sending, *beside}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            pass  # the server ends: so does the answer, and that is no fault
        finally:
            await end_tasks(sending, *beside)
            await self._frames.aclose()
        if not sending.cancelled() and (failed := sending.exception()) is not None:
            raise failed


async def _guarded(
    first: str, frames: AsyncGenerator[str], failed: Callable[[Exception], Iterable[str]]
) -> AsyncGenerator[bytes]:
    """Yields the frames as bytes, and the frames of an error, also of one in encoding."""
    try:
        if first:
            yield first.encode()
        async for each in frames:
            yield each.encode()
    except Exception as exc:  # noqa: BLE001 - the answer has begun: the client learns it from a frame
        for each in failed(exc):
            yield each.encode("utf-8", "replace")


async def _alive(write: Send) -> None:
    while True:
        await asyncio.sleep(KEEP_ALIVE_S)
        await write({"type": "http.response.body", "body": b":\n\n", "more_body": True})


def frame(document: str) -> str:
    """Returns an event with this JSON document, which has no line breaks."""
    return f"data: {document}\n\n"
