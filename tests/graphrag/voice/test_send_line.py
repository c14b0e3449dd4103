"""What waits to be sent to a side of a call: bounded, and behind an interruption nothing."""

from __future__ import annotations

import asyncio

from graphrag.voice.model_messages import clear_frame, mark_frame, media_frame
from graphrag.voice.send_line import MOST_CHARS, SendLine


async def test_an_interruption_passes_what_waits_and_what_waits_is_bounded() -> None:
    may, sent, full = asyncio.Event(), list[str](), list[str]()

    async def send(text: str) -> None:
        await may.wait()
        sent.append(text)

    line = SendLine(send, lambda: full.append("full"))
    running = asyncio.create_task(line.run())
    for number in range(5):
        line.put(media_frame("MZ1", "A" * 8))
        line.put(mark_frame("MZ1", f"0.{number}"))
        await asyncio.sleep(0)  # the first is under way
    line.put(clear_frame("MZ1"))
    line.put(mark_frame("MZ1", "1.0"))
    may.set()
    while len(sent) < 3:  # noqa: ASYNC110 - it goes on by itself
        await asyncio.sleep(0)
    assert sent == [media_frame("MZ1", "A" * 8), clear_frame("MZ1"), mark_frame("MZ1", "1.0")]
    may.clear()
    for _ in range(6):
        line.put("x" * (MOST_CHARS // 4))
    assert full == ["full"], "said once"
    may.set()
    await asyncio.wait_for(running, 1)
