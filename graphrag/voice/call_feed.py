"""What happens in one call, for those who follow it: from its beginning on, however
late they come.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, Final

from datasources.errors import SourceTimeout, SourceUnavailable
from graphrag.agent.thread_store import Thread
from graphrag.voice.call_records import Call

MOST_KEPT: Final = 3_000
MOST_BEHIND: Final = 500
"""A follower that is so many messages late is let go; it may follow again."""
_NAMES: Final = {"call:said": "itemId", "call:tool": "toolCallId", "call:proposal": "approvalId"}


class CallFeed:
    """The messages of a call. Of what changes (an entry of the transcript, a tool) the last
    form is kept.
    """

    def __init__(self, call_id: str) -> None:
        self._call_id = call_id
        self._kept: dict[tuple[str, Any], dict[str, Any]] = {}
        self._latest = deque[dict[str, Any]](maxlen=MOST_BEHIND)
        self._count = 0
        self._is_closed = False
        self._changed = asyncio.Event()

    def add(self, message: dict[str, Any]) -> None:
        """Keep a message, in place of the earlier one about the same, and send it to
        all who follow.
        """
        message = {**message, "callId": self._call_id}
        kind = str(message["type"])
        key = (
            kind,
            message.get(_NAMES.get(kind, ""), "" if kind == "call:state" else len(self._kept)),
        )
        if key in self._kept or len(self._kept) < MOST_KEPT or kind in ("call:state", "call:ended"):
            self._kept[key] = message
        self._latest.append(message)
        self._count += 1
        self._wake()

    def close(self) -> None:
        """Let all who follow go, once they have read what there is."""
        self._is_closed = True
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def follow(self) -> AsyncGenerator[dict[str, Any]]:
        """Yield what happened, then what happens, until the call is over."""
        read = self._count
        happened = list(self._kept.values())
        for message in happened:
            yield message
        while (behind := self._count - read) <= len(self._latest):
            if behind:
                read += 1
                yield self._latest[-behind]
            elif self._is_closed:
                return
            else:
                await self._changed.wait()


LOOK_S: Final = 1.0


async def stored_feed(
    call_id: str, read: Callable[[], Awaitable[tuple[Call, Thread | None]]]
) -> AsyncGenerator[dict[str, Any]]:
    """Yield what is stored of a call from its beginning on, then what changes, until its end."""
    sent: dict[tuple[str, str], dict[str, Any]] = {}
    while True:
        try:
            call, thread = await read()
        except (SourceTimeout, SourceUnavailable):  # the store is away for a moment
            await asyncio.sleep(LOOK_S)
            continue
        for key, message in _messages(call, thread):
            if sent.get(key) != message:
                sent[key] = message
                yield {**message, "callId": call_id}
        if not call.is_open:
            return
        await asyncio.sleep(LOOK_S)


def _messages(call: Call, thread: Thread | None) -> list[tuple[tuple[str, str], dict[str, Any]]]:
    """Return what a follower is shown of a call as it is stored, each under what it replaces."""
    found: list[tuple[tuple[str, str], dict[str, Any]]] = []

    def add(kind: str, name: str, /, **fields: Any) -> None:
        found.append(((kind, name), {"type": kind, **fields}))

    refused = {} if call.model_error is None else {"modelError": call.model_error.to_document()}
    add("call:state", "", status=call.status, **refused)
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
