"""Lifecycle requests to an agent's API: stored with their cause, and sent until they arrive.

Decision: every attempt has the same `Idempotency-Key`, the key of its record. The ctx values of a
response stay with the delivery, because a turn under way would overwrite those of its thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, Final, Literal, final

from pydantic import BaseModel, Field

from datasources.base import Record, RecordStore, RecordWrite
from datasources.errors import BadDocument
from datasources.types import Document, parse_document
from graphrag.agent.thread_store import Thread, ThreadError, ThreadNotFound, Threads
from graphrag.agent.turn_lease import TurnLeases
from graphrag.agents.chat_values import Locale, agent_part, taken, values_of
from graphrag.agents.compiled_agent import CompiledAgent
from graphrag.agents.document import StartRequest
from graphrag.agents.errors import AgentError, AgentNotFound, DeliveryNotFound, DeliveryRefused
from graphrag.agents.manager import AgentManager
from graphrag.answer_body import AnswerBody
from graphrag.delivery_queue import (
    LATER_MS,
    LATER_STATUS,
    DeliveryQueue,
    DeliveryStatus,
    is_claimed,
)
from graphrag.leases import now_ms
from graphrag.stored_records import given, readable
from tools.http.fetch import HttpAnswer, RequestFailed
from tools.http.model import RequestFields
from tools.http.scope import Scope

log = logging.getLogger(__name__)

KIND: Final = "delivery"
EARLIER_MS: Final = 60_000  # that `on_end` waits for earlier requests after the end
LOOK_MS: Final = 1_000
POLL_S: Final = 0.2
_CONFLICT: Final = 409

LifecycleEvent = Literal["on_start", "on_transfer", "on_no_action", "on_end"]
EVENTS: Final[tuple[LifecycleEvent, ...]] = ("on_start", "on_transfer", "on_no_action", "on_end")
MAX_OF_CALL: Final = 20  # deliveries that are read of one call: a few more than there can be


class DeliveryFields(BaseModel):
    """What of a delivery is stored and sent to clients alike. Units: times in
    milliseconds since 1970.

    `number`: of several deliveries of one event, as a call may be transferred more than once.
    `http_status` and `error` are of the last attempt.
    """

    call_id: str
    agent_id: str
    version: int
    event: LifecycleEvent
    number: int = 1
    status: DeliveryStatus = "waiting"
    attempts: int = 0
    created_time: int
    next_time: int
    last_time: int | None = None
    http_status: int | None = None
    error: str | None = None


@final
class Delivery(DeliveryFields, Document):
    """A request to send. `stored`: the ctx values of its response."""

    owed_time: int
    """Time of the first attempt, or since a person had it sent again."""
    stored: dict[str, Any] = Field(default_factory=dict[str, Any])

    @property
    def id(self) -> str:
        return delivery_id(self.call_id, self.event, self.number)


def delivery_id(call_id: str, event: LifecycleEvent, number: int = 1) -> str:
    """Returns the id of a delivery, which is also the `Idempotency-Key` of its request."""
    return f"{call_id}:{event}" + ("" if number == 1 else f":{number}")


@final
class DeliveryDocument(DeliveryFields, AnswerBody):
    """A request that an agent's API is owed. Units: times in milliseconds since 1970."""

    id: str


def owed(thread: Thread, event: LifecycleEvent, now: int, number: int = 1) -> RecordWrite:
    """Returns the write of a new delivery, to join the transaction of its cause."""
    part = agent_part(thread)
    made = Delivery(
        call_id=thread.key,
        agent_id=part.agent_id,
        version=part.version,
        event=event,
        number=number,
        created_time=now,
        owed_time=now,
        next_time=now,
    )
    return RecordWrite(kind=KIND, key=made.id, data=_data(made), expected_version=None)


@final
@dataclass(frozen=True, slots=True)
class LifeParts:
    """The services for conversations with the agents of one workspace. `leases`: those of turns.

    Units: `clock` in milliseconds since 1970.
    """

    records: RecordStore
    threads: Threads
    agents: AgentManager
    _: KW_ONLY
    workspace: str
    locale: Locale
    leases: TurnLeases
    clock: Callable[[], int] = now_ms
    on_delivery_tried: Callable[[str], None] | None = None
    """Called with the status after each attempt; may not raise."""


@final
class Deliveries:
    """The deliveries of one workspace."""

    def __init__(self, parts: LifeParts) -> None:
        self._parts = parts
        self._clock = parts.clock
        self._queue = DeliveryQueue(parts.records, KIND, since="owedTime", clock=parts.clock)
        self.wait_until_sent = self._queue.wait_until_sent
        self.close = self._queue.close

    async def list(
        self,
        *,
        agent_id: str | None = None,
        call_id: str | None = None,
        status: DeliveryStatus | None = None,
        limit: int = 100,
    ) -> list[Delivery]:
        """Returns deliveries by the time of their next attempt. Raises: SourceError."""
        where = given(agentId=agent_id, callId=call_id, status=status)
        found = await self._queue.records.query(KIND, where, order_by="nextTime", limit=limit)
        return readable(found, _read)

    async def retry(self, delivery_id: str) -> Delivery:
        """Sends a refused, given-up or waiting delivery now.

        Raises: DeliveryNotFound; DeliveryRefused if it is done, or being changed.
        """
        record, delivery = await self._get(delivery_id)
        if delivery is None or record is None:
            raise DeliveryNotFound(delivery_id=delivery_id)
        again = None if delivery.status == "done" else await self._queue.retry(record)
        if again is None:
            raise DeliveryRefused(delivery_id=delivery_id, status=delivery.status)
        self.send_soon(delivery.call_id, delivery.event, number=delivery.number)
        return parse_document(Delivery, again.data, KIND)

    def send_soon(self, call_id: str, *events: LifecycleEvent, number: int = 1) -> None:
        """Sends new deliveries concurrently, after those that are being sent for the
        conversation.
        """
        ids = [delivery_id(call_id, event, number) for event in events]
        self._queue.begin(call_id, partial(self._send_each, ids))

    async def _send_each(self, ids: Iterable[str]) -> None:
        for delivery_id in ids:
            await self.send(delivery_id)

    async def send_due(self) -> int:
        """Sends due deliveries, in order within a conversation, and removes old ones.

        Returns the number of due ones. Raises: SourceError.
        """
        return await self._queue.send_due(self._send_in_order, together="callId")

    async def _send_in_order(self, records: Sequence[Record]) -> None:
        """Sends the deliveries of one conversation."""
        found: list[Delivery] = []
        for record in records:
            if read := readable([record], _read):
                found += read
            else:  # of another program: others behind it come first
                await self._queue.change(record, {"nextTime": self._clock() + LATER_MS})
        await self._send_each(each.id for each in sorted(found, key=_order))

    async def send(self, delivery_id: str) -> Delivery | None:
        """Makes one attempt if the delivery is due and no other process makes one. Returns it as
        stored.
        """
        record, delivery = await self._get(delivery_id)
        now = self._clock()
        if (
            record is None
            or delivery is None
            or delivery.status != "waiting"
            or delivery.next_time > now
        ):
            return delivery
        earlier = await self._earlier(delivery)
        times = [each.next_time for each in earlier if each.status == "waiting"]
        until = min(max(*times, now + LOOK_MS), delivery.created_time + EARLIER_MS) if times else 0
        if until > now:  # look again when those before it may be over; at last go without them
            if not any(
                is_claimed(_data(each)) for each in earlier
            ):  # else who sends that sends this next
                await self._queue.change(record, {"nextTime": until})
            return delivery
        after = await self._queue.attempt(record, lambda: self._attempt(delivery, earlier))
        if after is None:
            return None  # another server was faster
        tried = parse_document(Delivery, after, KIND)
        facts = {"agent_id": tried.agent_id, "call_id": tried.call_id, "delivery": tried.event}
        log.info("delivery", extra=facts | {"status": tried.status, "http": tried.http_status})
        if self._parts.on_delivery_tried is not None:
            self._parts.on_delivery_tried(tried.status)
        return tried

    async def _earlier(self, delivery: Delivery) -> Sequence[Delivery]:
        """Returns the deliveries before a later one, whose request may name their results."""
        if delivery.event == "on_start":
            return ()
        rows = await self._queue.records.query(
            KIND, {"callId": delivery.call_id}, limit=MAX_OF_CALL
        )
        found = [each for each in readable(rows, _read) if _order(each) < _order(delivery)]
        return sorted(found, key=_order)

    async def _attempt(self, delivery: Delivery, earlier: Sequence[Delivery]) -> dict[str, Any]:
        """Sends the request. Returns the changes of the delivery; `error` alone: it may be
        retried.
        """
        try:
            thread = (
                await self._parts.threads.get_of(delivery.call_id, self._parts.workspace)
            ).thread
            agent = await self._parts.agents.compiled(delivery.agent_id, delivery.version)
        except (ThreadNotFound, AgentNotFound):  # nothing is left that says what is owed
            return {"status": "refused", "error": "gone"}
        except (ThreadError, AgentError, BadDocument) as exc:  # another program may read it
            return {"error": type(exc).__name__, "httpStatus": None}
        request: RequestFields | None = getattr(agent.document.lifecycle, delivery.event)
        if request is None or thread.agent is None:
            return {"status": "refused", "error": "no_request"}
        values = values_of(agent, thread, self._parts.locale)
        for each in earlier:
            if each.event != "on_start" or not thread.agent.start_taken:
                values.ctx.update(each.stored)
        executor = self._parts.agents.executor(agent.agent_id)
        try:
            answer = await executor.request(request, values, delivery.id)
        except (
            RequestFailed
        ) as exc:  # also where a value is missing: it may come with an earlier request
            return {"error": exc.code, "httpStatus": None}
        scope = values.scope(self._clock(), response=answer.value)
        meaning = await asyncio.to_thread(_meaning, request, answer, scope)
        return {"httpStatus": answer.status, "error": None} | meaning

    async def first_values(self, call_id: str, wait_ms: int = 0) -> dict[str, Any] | None:
        """Returns the ctx values of the response to `on_start`, {} if none will come.

        None: they may still come. `wait_ms`: maximum time since the delivery was stored.
        """
        loop = asyncio.get_running_loop()
        begun = self._clock()
        began = loop.time()
        key = f"{call_id}:on_start"
        with self._parts.records.notices.subscribed(KIND, key=key) as inbox:
            while True:
                _, delivery = await self._get(key)
                if delivery is None or delivery.status != "waiting":
                    return delivery.stored if delivery else {}
                left_ms = delivery.created_time + wait_ms - begun - (loop.time() - began) * 1000
                if left_ms <= 0:
                    return None
                sending = self._queue.sending.get(call_id)
                await (asyncio.wait({sending}, timeout=POLL_S) if sending else inbox.wait(POLL_S))

    async def awaited(
        self, agent: CompiledAgent, thread: Thread, wait_ms: int | None = None
    ) -> dict[str, Any] | None:
        """Returns the ctx values of the response to `on_start`, once.

        None: there is no such request, they were returned before, or they did not come in time. The
        default of `wait_ms` is the timeout of the request.
        """
        begun = agent.document.lifecycle.on_start
        if begun is None or agent_part(thread).start_taken:
            return None
        wait_ms = round(begun.timeout_s * 1000) if wait_ms is None else wait_ms
        return await self.first_values(thread.key, wait_ms)

    async def _get(self, delivery_id: str) -> tuple[Record | None, Delivery | None]:
        record = await self._queue.records.get(KIND, delivery_id)
        return record, next(iter(readable([record] if record else [], _read)), None)


def _meaning(request: RequestFields, answer: HttpAnswer, scope: Scope) -> dict[str, Any]:
    """Returns the changes of a delivery after a response."""
    if answer.ok:
        store = request.store_in_ctx if isinstance(request, StartRequest) else {}
        return {"status": "done", "stored": taken(store, answer.value, scope)}
    if answer.status == _CONFLICT:  # the key makes it the same request: it had arrived
        return {"status": "done"}
    if 400 <= answer.status < 500 and answer.status not in LATER_STATUS:
        return {"status": "refused", "error": "refused_by_server"}
    return {"error": "refused_by_server"}


def _order(delivery: Delivery) -> tuple[int, int]:
    return EVENTS.index(delivery.event), delivery.number


def _data(delivery: Delivery) -> dict[str, Any]:
    return delivery.model_dump(mode="json", by_alias=True)


def _read(record: Record) -> Delivery:
    return parse_document(Delivery, {**record.data}, KIND)
