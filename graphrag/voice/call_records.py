"""The records of telephone calls: who called when, how it went and ended.

What was said, the values of the call and its tools stand in the thread of the same key, as those
of a chat.

Decision: the key of a phone call follows from its workspace and CallSid: a webhook that comes
twice, also to two servers at one moment, meets one record. `next_time` is when something is due for
a call: its stream did not come, its process may be gone, its words have been kept long enough.
"""

from __future__ import annotations

import asyncio
import hashlib
import uuid
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal

from pydantic import BaseModel, Field

from datasources.base import Record, RecordStore
from datasources.types import Document, parse_document
from graphrag.agent.thread_agent import EndReason
from graphrag.agent.thread_store import Thread
from graphrag.agents.model_refusal import ModelRefusal
from graphrag.answer_body import AnswerBody
from graphrag.stored_records import change_record, delete_record, given, put_over, readable

KIND: Final = "call"
DUE_AT_ONCE: Final = 100
WATCHED_MS: Final = 20_000
"""So long after its last write it is looked whether the process of a call is still there."""
MOST_ALIKE: Final = 200
"""Calls of one millisecond that a list of several pages may meet."""

CallStatus = Literal["ringing", "active", "ending", "ended"]
CallChannel = Literal["phone", "browser", "simulated"]


class CallFields(BaseModel):
    """What of a call is stored and listed alike. Units: times in milliseconds since 1970.

    `model_error`: what the service of the model refused last. `dial_status`: how the last transfer
    ended, as the telephone service says it: completed, busy, no-answer, failed, canceled.
    """

    call_id: str
    agent_id: str
    agent_version: int
    workspace: str
    channel: CallChannel
    status: CallStatus = "ringing"
    caller_phone: str | None = None
    called_phone: str | None = None
    started_time: int
    answered_time: int | None = None
    ended_time: int | None = None
    end_reason: EndReason | None = None
    outcome: str | None = None
    model_error: ModelRefusal | None = None
    dial_status: str | None = None
    forgotten_time: int | None = None


class Call(CallFields, Document):
    """What is stored of a call beside its thread.

    `user_id`: who talks from the browser. `refusal`: what a check that blocked had said.
    `token_hashes`: of the tokens that may still open its stream, until `token_time`.
    """

    user_id: str | None = None
    call_sid: str | None = None
    stream_sid: str | None = None
    destination: str | None = None
    said_goodbye: bool = False
    refusal: str | None = None
    sources: list[dict[str, Any]] = Field(default_factory=list[dict[str, Any]])
    approvals: list[dict[str, Any]] = Field(default_factory=list[dict[str, Any]])
    usage: dict[str, Any] = Field(default_factory=dict[str, Any])
    latency: dict[str, Any] = Field(default_factory=dict[str, Any])
    token_hashes: list[str] = Field(default_factory=list[str])
    token_time: int = 0
    next_time: int | None = None

    @property
    def is_open(self) -> bool:
        return self.status != "ended"

    @property
    def owner(self) -> str:
        """Who its thread belongs to, and who asked for what it proposed: a number
        enters no audit.
        """
        return f"caller:{self.call_id}"

    @property
    def caller(self) -> str | None:
        """Whose share of the places it takes: the person in a browser, else the number;
        None if withheld.
        """
        return self.user_id or self.caller_phone

    @property
    def duration_sec(self) -> float | None:
        """From the answer to the end; None of a call that was not answered, or is open."""
        if self.answered_time is None or self.ended_time is None:
            return None
        # a clock may be set back
        return max(0.0, round((self.ended_time - self.answered_time) / 1000, 3))

    def to_listed(self) -> dict[str, Any]:
        """Return what lists of calls show."""
        hidden = {"token_hashes", "token_time", "next_time", "sources", "refusal", "said_goodbye"}
        shown = self.model_dump(mode="json", by_alias=True, exclude=hidden)
        return shown | {"durationSec": self.duration_sec}


class CallSummary(CallFields, AnswerBody):
    """A call. Units: times in milliseconds since 1970; `durationSec` from the answer to the end."""

    duration_sec: float | None = None


def call_document(call: Call, thread: Thread | None) -> dict[str, Any]:
    """Return a call whole: its record joined with what its thread knows."""
    part = thread.agent if thread is not None else None
    whole: dict[str, Any] = {
        "sources": call.sources,
        "transcript": [],
        "tools": [],
        "ctx": {},
        "flags": {},
    }
    whole |= call.to_listed()
    if part is None:
        return whole
    known = part.model_dump(mode="json", by_alias=True, include={"tools", "transcript", "ctx"})
    known["ctx"].pop("transcript", None)  # it stands beside
    flags = {name: value for name, value in part.ctx.items() if isinstance(value, bool)}
    return whole | known | {"flags": flags}


class CallRecords:
    """The records of one workspace's calls, in `stored`."""

    def __init__(self, stored: RecordStore, workspace: str) -> None:
        self.stored = stored
        self.workspace = workspace

    def call_id_of(self, call_sid: str | None) -> str:
        """Return the key of a call; of one without CallSid a new one."""
        if call_sid is None:
            return uuid.uuid4().hex
        return hashlib.sha256(f"{self.workspace}\n{call_sid}".encode()).hexdigest()[:32]

    async def get(self, call_id: str) -> Call | None:
        """Return a call, None where there is none. Raises: BadDocument, SourceError."""
        record = await self.stored.get(KIND, call_id)
        return None if record is None else _read(record)

    async def list(
        self,
        *,
        agent_id: str | None = None,
        status: CallStatus | None = None,
        outcome: str | None = None,
        since: int | None = None,
        cursor: str | None = None,
        limit: int = 100,
    ) -> tuple[list[Call], str | None]:
        """Return calls, the newest first, and what continues the list. `since`: ms since 1970."""
        before, last = _cursor(cursor)
        found = await self.stored.query(
            KIND,
            given(agentId=agent_id, status=status, outcome=outcome),
            order_by="startedTime",
            at_least=since,
            at_most=before,
            descending=True,
            limit=limit + 1 + (MOST_ALIKE if last else 0),
        )
        calls = await asyncio.to_thread(readable, found, _read)
        if last is not None:
            calls = [each for each in calls if each.started_time != before or each.call_id > last]
        more = len(calls) > limit
        calls = calls[:limit]
        return calls, f"{calls[-1].started_time}.{calls[-1].call_id}" if more else None

    async def open_calls(self, agent_id: str | None = None, *, limit: int = 2_000) -> list[Call]:
        """Return the calls that are not over, of one agent or all. Raises: SourceError."""
        found = await self.stored.query(KIND, given(open=True, agentId=agent_id), limit=limit)
        return await asyncio.to_thread(readable, found, _read)

    async def due(self, now: int) -> Sequence[Call]:
        """Return calls for which something may be due. Raises: SourceError."""
        found = await self.stored.query(KIND, order_by="nextTime", at_most=now, limit=DUE_AT_ONCE)
        return readable(found, _read)

    async def add(self, call: Call) -> bool:
        """Store a new call; False: it was there already. Raises: SourceError."""
        record = Record(kind=KIND, key=call.call_id, data=_data(call))
        return await put_over(self.stored, record, None) is not None

    async def change(
        self, call_id: str, change: Callable[[Call], Call], *, when_over: bool = False
    ) -> Call | None:
        """Store what `change` makes of a call, again where it was changed meanwhile;
        None: nothing was.

        A call that is over is changed only with `when_over`. Raises: BadDocument, SourceError.
        """
        made: Call | None = None

        def changed(record: Record | None) -> dict[str, Any] | None:
            nonlocal made
            call = None if record is None else _read(record)
            made = change(call) if call is not None and (call.is_open or when_over) else None
            made = None if made is call else made
            return None if made is None else _data(made)

        await change_record(self.stored, KIND, call_id, changed)
        return made

    async def remove(self, call: Call) -> None:
        """Take back a call that nobody knows of yet. Raises: SourceError."""
        if (found := await self.stored.get(KIND, call.call_id)) is not None:
            await delete_record(self.stored, found)


def _cursor(text: str | None) -> tuple[int | None, str | None]:
    """Return time and key after which a list goes on; what is no cursor of ours begins it again."""
    time, _, call_id = (text or "").partition(".")
    is_ours = time.isascii() and time.isdigit() and len(time) < 16 and call_id
    return (int(time), call_id) if is_ours else (None, None)


def _data(call: Call) -> dict[str, Any]:
    return call.model_dump(mode="json", by_alias=True, exclude_none=True) | {"open": call.is_open}


def _read(record: Record) -> Call:
    data = {name: value for name, value in record.data.items() if name != "open"}
    return parse_document(Call, data, KIND)
