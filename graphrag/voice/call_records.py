"""The records of telephone calls: caller, times, status and outcome.

The transcript, values and tools of a call are in the thread with the same key, as those of a chat.

Decision: the key of a phone call is derived from its workspace and CallSid, so that a repeated
webhook finds the same record, on another server as well. `next_time` is the time of the next check
of a call: for an unopened stream, a killed process or the end of retention.
"""

from __future__ import annotations

import asyncio
import hashlib
import uuid
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, TypedDict, Unpack, final

from pydantic import BaseModel, Field

from datasources.base import Record, RecordStore
from datasources.types import Document, parse_document
from graphrag.agent.thread_agent import EndReason
from graphrag.agent.thread_store import Thread
from graphrag.agents.model_refusal import ModelRefusal
from graphrag.agents.voice_fields import VoiceEngine
from graphrag.answer_body import AnswerBody
from graphrag.stored_records import change_record, delete_record, given, put_over, readable

KIND: Final = "call"
MAX_DUE: Final = 100  # calls checked at once
WATCHED_MS: Final = 20_000  # interval between checks whether the process of a call still runs
SEARCH_PAGE: Final = 200
MAX_SEARCHED: Final = 2_000  # calls that one search for a number reads
MAX_SAME_TIME: Final = 200  # calls of one millisecond that paging can tell apart

# transferring: the agent's part is over, and somebody else is called or speaks with the caller
CallStatus = Literal["ringing", "active", "ending", "transferring", "ended"]
CallChannel = Literal["phone", "browser", "simulated"]


@final
class TransferAttempt(Document):
    """One attempt to reach a destination of the agent document.

    `destination`: its name. `answered_time`: when somebody picked up. `status`: as reported by the
    telephone service; None until the attempt is over. Units: times in milliseconds since 1970;
    `seconds` of the conversation.
    """

    destination: str
    time: int
    answered_time: int | None = None
    status: str | None = None
    seconds: int | None = None


@final
class Recording(Document):
    """A recording that the telephone service keeps. `sid`: its id there.

    `status`: in-progress, completed, absent or failed. Units: `time` in milliseconds since 1970.
    """

    sid: str
    time: int
    status: str = "in-progress"
    seconds: int | None = None


class CallFields(BaseModel):
    """Fields of a call that are both stored and listed. Units: times in milliseconds since 1970.

    `engine`: of the agent's document when the call began. `model_error`: the last refusal of the
    model's service. `dial_status`: the result of the last transfer, as reported by the telephone
    service: completed, busy, no-answer, failed, canceled.
    """

    call_id: str
    agent_id: str
    agent_version: int
    workspace: str
    channel: CallChannel
    engine: VoiceEngine = "realtime"
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
    """The stored record of a call.

    `user_id`: the person who calls from the browser. `refusal`: the message of a check that blocked
    the call. `token_hashes`: of the tokens that may open its stream until `token_time`.
    `destination`: the name of the last destination that the agent chose. `transferred_time`: when
    the agent's part ended by the last transfer. `returns`: how often the caller came back to the
    agent. `return_to`: what the agent does then. `taken_time`: when the last stream was opened.
    """

    user_id: str | None = None
    call_sid: str | None = None
    stream_sid: str | None = None
    destination: str | None = None
    said_goodbye: bool = False
    transfers: list[TransferAttempt] = Field(default_factory=list[TransferAttempt])
    recordings: list[Recording] = Field(default_factory=list[Recording])
    transferred_time: int | None = None
    returns: int = 0
    return_to: Literal["agent", "message"] | None = None
    taken_time: int | None = None
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
        """Owner of the thread and of its proposals, without the telephone number."""
        return f"caller:{self.call_id}"

    @property
    def caller(self) -> str | None:
        """Whose share of the slots it uses: the person in a browser, else the number.

        None if the number is withheld.
        """
        return self.user_id or self.caller_phone

    @property
    def duration_sec(self) -> float | None:
        """Seconds from the answer to the end, None for an unanswered or open call."""
        if self.answered_time is None or self.ended_time is None:
            return None
        # a clock may be set back
        return max(0.0, round((self.ended_time - self.answered_time) / 1000, 3))

    def to_listed(self) -> dict[str, Any]:
        """Returns the fields shown in lists."""
        hidden = {"token_hashes", "token_time", "next_time", "sources", "refusal", "said_goodbye"}
        hidden |= {"transferred_time", "taken_time", "return_to"}
        shown = self.model_dump(mode="json", by_alias=True, exclude=hidden)
        return shown | {"durationSec": self.duration_sec}


class CallSummary(CallFields, AnswerBody):
    """A call. Units: times in milliseconds since 1970; `durationSec` from the answer to the end."""

    duration_sec: float | None = None


def call_document(call: Call, thread: Thread | None) -> dict[str, Any]:
    """Returns the record of a call joined with its thread."""
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
    of_thread = part.model_dump(mode="json", by_alias=True, include={"tools", "transcript", "ctx"})
    of_thread["ctx"].pop("transcript", None)  # a field of its own
    flags = {name: value for name, value in part.ctx.items() if isinstance(value, bool)}
    return whole | of_thread | {"flags": flags}


class Filters(TypedDict, total=False):
    """Which calls a list has. `since`: milliseconds since 1970."""

    agent_id: str | None
    status: CallStatus | None
    outcome: str | None
    since: int | None


def position_of(call: Call) -> str:
    """Returns the cursor of the calls after this one."""
    return f"{call.started_time}.{call.call_id}"


def order_of(cursor: str) -> tuple[int, str]:
    """Returns the sort key of a cursor that `position_of` made."""
    time, _, call_id = cursor.partition(".")
    return -int(time), call_id


@final
class CallRecords:
    """The call records of one workspace."""

    def __init__(self, stored: RecordStore, workspace: str) -> None:
        self.stored = stored
        self.workspace = workspace

    def call_id_of(self, call_sid: str | None) -> str:
        """Returns the key of a call, a new one without a CallSid."""
        if call_sid is None:
            return uuid.uuid4().hex
        return hashlib.sha256(f"{self.workspace}\n{call_sid}".encode()).hexdigest()[:32]

    async def get(self, call_id: str) -> Call | None:
        """Returns a call or None. Raises: BadDocument, SourceError."""
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
        """Returns calls, newest first, and the cursor of the next page. `since`: ms since 1970."""
        before, last = _cursor(cursor)
        records = await self.stored.query(
            KIND,
            given(agentId=agent_id, status=status, outcome=outcome),
            order_by="startedTime",
            at_least=since,
            at_most=before,
            descending=True,
            limit=limit + 1 + (MAX_SAME_TIME if last else 0),
        )
        calls = await asyncio.to_thread(readable, records, _read)
        if last is not None:
            calls = [call for call in calls if call.started_time != before or call.call_id > last]
        more = len(calls) > limit
        calls = calls[:limit]
        return calls, position_of(calls[-1]) if more else None

    async def find(
        self,
        number: str,
        *,
        cursor: str | None = None,
        limit: int = 100,
        **filters: Unpack[Filters],
    ) -> tuple[list[Call], str | None]:
        """Returns calls from or to a telephone number, as `list` does.

        Reads at most MAX_SEARCHED calls. The page may therefore be short, even empty, although
        there is a cursor.
        """
        found: list[Call] = []
        for _ in range(MAX_SEARCHED // SEARCH_PAGE):
            page, cursor = await self.list(cursor=cursor, limit=SEARCH_PAGE, **filters)
            found += [call for call in page if number in (call.caller_phone, call.called_phone)]
            if len(found) > limit:
                return found[:limit], position_of(found[limit - 1])
            if cursor is None:
                break
        return found, cursor

    async def open_calls(self, agent_id: str | None = None, *, limit: int = 2_000) -> list[Call]:
        """Returns the open calls of one agent or all. Raises: SourceError."""
        records = await self.stored.query(KIND, given(open=True, agentId=agent_id), limit=limit)
        return await asyncio.to_thread(readable, records, _read)

    async def due(self, now: int) -> Sequence[Call]:
        """Returns calls whose `next_time` has passed. Raises: SourceError."""
        records = await self.stored.query(KIND, order_by="nextTime", at_most=now, limit=MAX_DUE)
        return readable(records, _read)

    async def add(self, call: Call) -> bool:
        """Stores a new call. Returns False if it exists already. Raises: SourceError."""
        record = Record(kind=KIND, key=call.call_id, data=_data(call))
        return await put_over(self.stored, record, None) is not None

    async def change(
        self, call_id: str, change: Callable[[Call], Call], *, when_over: bool = False
    ) -> Call | None:
        """Stores the result of `change`, which is called again after a concurrent change.

        Returns the changed call, None if nothing changed. An ended call is changed only with
        `when_over`. Raises: BadDocument, SourceError.
        """
        result: Call | None = None

        def changed(record: Record | None) -> dict[str, Any] | None:
            nonlocal result
            call = None if record is None else _read(record)
            result = change(call) if call is not None and (call.is_open or when_over) else None
            result = None if result is call else result
            return None if result is None else _data(result)

        await change_record(self.stored, KIND, call_id, changed)
        return result

    async def remove(self, call: Call) -> None:
        """Deletes a call that was just stored. Raises: SourceError."""
        if (record := await self.stored.get(KIND, call.call_id)) is not None:
            await delete_record(self.stored, record)


def _cursor(text: str | None) -> tuple[int | None, str | None]:
    """Returns the time and key of a cursor; an invalid cursor starts from the beginning."""
    time, _, call_id = (text or "").partition(".")
    is_ours = time.isascii() and time.isdigit() and len(time) < 16 and call_id
    return (int(time), call_id) if is_ours else (None, None)


def _data(call: Call) -> dict[str, Any]:
    return call.model_dump(mode="json", by_alias=True, exclude_none=True) | {"open": call.is_open}


def _read(record: Record) -> Call:
    data = {name: value for name, value in record.data.items() if name != "open"}
    return parse_document(Call, data, KIND)
