"""The messages of a call for its followers, from its beginning however late they join."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, Final, final

from datasources.errors import SourceTimeout, SourceUnavailable
from datasources.notices import NoticeInbox
from graphrag.agent.thread_store import Thread
from graphrag.voice.call_records import Call

MAX_KEPT: Final = 3_000
MAX_BEHIND: Final = 500  # messages; a slower follower is dropped and may follow again
_IDS: Final = {"call:said": "itemId", "call:tool": "toolCallId", "call:proposal": "approvalId"}


@final
class CallFeed:
    """The messages of a call. Of messages about the same entry or tool only the last is kept."""

    def __init__(self, call_id: str) -> None:
        self._call_id = call_id
        self._kept: dict[tuple[str, Any], dict[str, Any]] = {}
        self._latest = deque[dict[str, Any]](maxlen=MAX_BEHIND)
        self._count = 0
        self._is_closed = False
        self._changed = asyncio.Event()

    def add(self, message: dict[str, Any]) -> None:
        """Keeps a message, in place of an earlier one about the same thing, and sends it."""
        message = {**message, "callId": self._call_id}
        kind = str(message["type"])
        key = (
            kind,
            message.get(_IDS.get(kind, ""), "" if kind == "call:state" else len(self._kept)),
        )
        if key in self._kept or len(self._kept) < MAX_KEPT or kind in ("call:state", "call:ended"):
            self._kept[key] = message
        self._latest.append(message)
        self._count += 1
        self._wake()

    def close(self) -> None:
        """Ends the feed after its last message."""
        self._is_closed = True
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def follow(self) -> AsyncGenerator[dict[str, Any]]:
        """Yields the messages until now, then new ones, until the feed is closed."""
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


LOOK_S: Final = 1.0  # interval between reads of a stored call


async def stored_feed(
    call_id: str, read: Callable[[], Awaitable[tuple[Call, Thread | None]]], inbox: NoticeInbox
) -> AsyncGenerator[dict[str, Any]]:
    """Yields the messages of a stored call, then of its changes, until it is over.

    `inbox`: of the notices about the call and its thread.
    """
    sent: dict[tuple[str, str], dict[str, Any]] = {}
    while True:
        try:
            call, thread = await read()
        except (SourceTimeout, SourceUnavailable):  # the store may come back
            await inbox.wait(LOOK_S)
            continue
        for key, message in _messages(call, thread):
            if sent.get(key) != message:
                sent[key] = message
                yield {**message, "callId": call_id}
        if not call.is_open:
            return
        await inbox.wait(LOOK_S)


def stored_messages(call: Call, thread: Thread | None) -> list[dict[str, Any]]:
    """Returns the messages of a stored call."""
    return [message for _, message in _messages(call, thread)]


def _messages(call: Call, thread: Thread | None) -> list[tuple[tuple[str, str], dict[str, Any]]]:
    """Returns the messages of a stored call, each with a key that identifies its subject."""
    messages: list[tuple[tuple[str, str], dict[str, Any]]] = []

    def add(kind: str, name: str, /, **fields: Any) -> None:
        messages.append(((kind, name), {"type": kind, **fields}))

    refused = {} if call.model_error is None else {"modelError": call.model_error.to_document()}
    add("call:state", "", status=call.status, **refused)
    part = thread.agent if thread else None
    for number, entry in enumerate(part.transcript if part else ()):
        shown = {("text" if name == "content" else name): value for name, value in entry.items()}
        add("call:said", str(entry.get("itemId", number)), **{"final": True, **shown})
    for tool in part.tools if part else ():
        facts = tool.model_dump(by_alias=True, exclude_none=True, exclude={"arguments", "result"})
        add("call:tool", tool.tool_call_id, phase="finished", **facts)
    for source in call.sources:
        add("call:sources", f"{source.get('turn')}/{source.get('graph')}", **source)
    for approval in call.approvals:
        shown = {name: approval.get(name) for name in ("approvalId", "spokenCode")}
        add("call:proposal", str(approval.get("approvalId")), **shown)
    if not call.is_open:
        add("call:ended", "", outcome=call.outcome, reason=call.end_reason)
    return messages
