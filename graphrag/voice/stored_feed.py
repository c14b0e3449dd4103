"""Follows a call that another process serves, by looking at what is stored of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, Final

from datasources.errors import SourceTimeout, SourceUnavailable
from graphrag.agent.thread_store import Thread
from graphrag.voice.call_records import Call

LOOK_S: Final = 1.0


async def stored_feed(
    call_id: str,
    read: Callable[[], Awaitable[tuple[Call, Thread | None]]],
    *,
    look_s: float = LOOK_S,
) -> AsyncGenerator[dict[str, Any]]:
    """Yield what is stored of a call from its beginning on, then what changes, until its end."""
    sent: dict[tuple[str, str], dict[str, Any]] = {}
    while True:
        try:
            call, thread = await read()
        except (SourceTimeout, SourceUnavailable):  # the store is away for a moment
            await asyncio.sleep(look_s)
            continue
        for key, message in _messages(call, thread):
            if sent.get(key) != message:
                sent[key] = message
                yield {**message, "callId": call_id}
        if not call.is_open:
            return
        await asyncio.sleep(look_s)


def _messages(call: Call, thread: Thread | None) -> list[tuple[tuple[str, str], dict[str, Any]]]:
    """Return what a follower is shown of a call as it is stored, each under what it replaces."""
    found: list[tuple[tuple[str, str], dict[str, Any]]] = []

    def add(kind: str, name: str, /, **fields: Any) -> None:
        found.append(((kind, name), {"type": kind, **fields}))

    add("call:state", "", status=call.status)
    part = thread.agent if thread else None
    for number, entry in enumerate(part.transcript if part else ()):
        shown = {("text" if name == "content" else name): value for name, value in entry.items()}
        add("call:said", str(entry.get("itemId", number)), **{"final": True, **shown})
    for tool in part.tools if part else ():
        known = tool.model_dump(by_alias=True, exclude_none=True, exclude={"arguments", "result"})
        add("call:tool", tool.tool_call_id, phase="finished", **known)
    for source in call.sources:
        add("call:sources", f"{source.get('turn')}/{source.get('graph')}", **source)
    for approval in call.approvals:
        shown = {name: approval.get(name) for name in ("approvalId", "spokenCode")}
        add("call:proposal", str(approval.get("approvalId")), **shown)
    if not call.is_open:
        add("call:ended", "", outcome=call.outcome, reason=call.end_reason)
    return found
