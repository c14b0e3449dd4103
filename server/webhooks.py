"""Sends notifications to the address of `notify_url`: proposals wait, expire or are decided,
automations end, are paused or late, graphs change.

Each is one POST with keys and names, without content of a graph. It is stored first, then sent
until it is accepted, for a day, by any server and across restarts: at least once, each time with
the same `webhook-id`. Proposals of one answer are sent as one notification, and so are the changes
of a graph within a few seconds: the first is stored at once, and later ones are added to it until
it is sent.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal, final

import orjson

from datasources.base import Record, RecordStore
from datasources.errors import RecordConflict, SourceError
from graphrag.agent.thread_store import Thread
from graphrag.approvals import Approval
from graphrag.automations.automation import Automation
from graphrag.delivery_queue import DUE, DeliveryQueue
from graphrag.leases import now_ms
from graphrag.page_address import page_address
from graphrag.sessions.phases import Phase
from graphrag.workers import repeat
from server.errors import WebhookBusy, WebhookNotFound
from server.webhook_target import WebhookTarget

log = logging.getLogger(__name__)

KIND: Final = "webhook"
# Time in which further proposals of an answer, or changes of a graph, are added to a request.
GATHER_S: Final = 2.0
LOOK_S: Final = 5.0
MAX_RETRIED: Final = 20_000  # requests of a workspace that one call retries
STORED_S: Final = 5.0  # maximum wait until a request is stored
STORING: Final = "store "
# Requests that are sent at once. When the address is slow, further ones are only stored, and sent
# by the next look.
MAX_TRIED: Final = 1_000
# Requests that wait to be stored. Further ones are dropped and logged: the database does not
# answer.
MAX_STORING: Final = 10_000
# Time for which changes of graphs are kept; there are many of them.
CHANGES_KEPT_MS: Final = 86_400_000
# Answers after which a request is not retried: the request itself is wrong. Any other answer may
# change once the receiver is set up: its path (404, 410), its key (401, 403), its address (3xx).
REFUSALS: Final = frozenset((400, 411, 413, 414, 415, 422, 431))

WebhookEvent = Literal[
    "proposals_wait",
    "proposals_expire",
    "proposal_decided",
    "automation_ended",
    "automation_paused",
    "automation_late",
    "daily_digest",
    "graph_changed",
]


@dataclass(slots=True)
class _Gathering:
    """Notifications that are added to a stored request. `count`: of those not stored yet."""

    key: str
    count: int = 0


@final
class Webhooks:
    """Stores requests and sends them in the background. Does nothing without an address.

    `records`: of the root workspace. `clock`: milliseconds since 1970.
    """

    def __init__(
        self,
        target: WebhookTarget,
        records: RecordStore,
        *,
        gather_s: float = GATHER_S,
        clock: Callable[[], int] = now_ms,
    ) -> None:
        self._target = target
        self._url = target.url
        self._page_url = target.page_url
        self._gather_s = gather_s
        self._clock = clock
        self._storing = 0
        self._queue = DeliveryQueue(records, KIND, since="createdTime", clock=clock)
        self._gathering: dict[tuple[object, ...], _Gathering] = {}

    def start(self) -> None:
        """Begins to send due requests, also those that other servers left."""
        if self._url is not None:
            self._queue.begin("look", partial(repeat, self._look, LOOK_S, log, "webhooks_failed"))

    def proposed(self, approval: Approval) -> None:
        """Sends how many proposals of an answer wait for a person, once the answer makes
        no more.
        """
        if self._url is None or approval.automation_id is not None:  # a run says so when it is left
            return
        facts = {"asker": approval.asker, "threadId": approval.thread_id, "waiting": 1}
        body = self._body(
            "proposals_wait", approval.workspace, approval.graph_key, facts, panel="review"
        )
        self._gather(body, "waiting", approval.thread_id, approval.turn)

    def decided(self, approval: Approval) -> None:
        """Sends the outcome of a proposal."""
        facts = {
            "approvalId": approval.id,
            "status": approval.status,
            "threadId": approval.thread_id,
        }
        place = approval.workspace, approval.graph_key
        self._send("proposal_decided", *place, facts, panel="review", approval=approval.id)

    def run_left(self, workspace: str, thread: Thread) -> asyncio.Future[bool]:
        """Sends that proposals of a run wait, or that it ended; each state once.

        Returns whether it is stored.
        """
        session = thread.session
        if session is not None and session.phase is Phase.WAITING_VALIDATION:
            waiting = len((session.waiting or {}).get("approvalIds", ()))
            return self._of_run("proposals_wait", workspace, thread, {"waiting": waiting})
        if session is not None and session.end_reason is not None:
            return self._of_run(
                "automation_ended", workspace, thread, {"endReason": session.end_reason.value}
            )
        return _at_once(True)

    def expiring(self, workspace: str, thread: Thread, waiting: int) -> None:
        """Sends that proposals of a run expire within a day."""
        self._of_run("proposals_expire", workspace, thread, {"waiting": waiting})

    def _of_run(
        self, event: WebhookEvent, workspace: str, thread: Thread, more: Mapping[str, Any]
    ) -> asyncio.Future[bool]:
        session = thread.session
        named = {"id": session.automation_id if session else "", "name": thread.title}
        facts = {"automation": named, "sessionId": thread.key, **more}
        key = _key_of(event, workspace, thread.key, session and session.last_event_time)
        link = {"panel": "automations", "run": thread.key}
        return self._send(event, workspace, thread.graph_key, facts, key=key, **link)

    def paused(self, automation: Automation, reason: str) -> None:
        """Sends that the service paused an automation."""
        named = {"id": automation.key, "name": automation.name}
        place = automation.workspace, automation.graph_key
        self._send(
            "automation_paused",
            *place,
            {"automation": named, "reason": reason},
            panel="automations",
        )

    def late(self, automation: Automation, time: int) -> asyncio.Future[bool]:
        """Sends that an occurrence did not begin in time; each once. Returns whether it is
        stored.
        """
        named = {"id": automation.key, "name": automation.name}
        place = automation.workspace, automation.graph_key
        facts = {"automation": named, "scheduledTime": time}
        key = _key_of("automation_late", automation.workspace, automation.key, time)
        return self._send("automation_late", *place, facts, key=key, panel="automations")

    def digest(self, workspace: str, facts: Mapping[str, Any]) -> asyncio.Future[bool]:
        """Sends what happened on a day; once for each workspace and `date`. Returns whether it is
        stored.
        """
        key = _key_of("daily_digest", workspace, facts["date"])
        return self._send("daily_digest", workspace, None, facts, key=key, panel="today")

    def graph_changed(self, workspace: str, graph_key: str, nodes: int) -> None:
        """Sends that a graph was saved and how many nodes changed, gathered over a few seconds."""
        if self._url is not None:
            body = self._body("graph_changed", workspace, graph_key, {"nodesSaved": nodes})
            self._gather(body, "nodesSaved", workspace, graph_key)

    def _send(
        self,
        event: WebhookEvent,
        workspace: str,
        graph_key: str | None,
        facts: Mapping[str, Any],
        *,
        key: str | None = None,
        **link: str,
    ) -> asyncio.Future[bool]:
        if self._url is None:
            return _at_once(True)
        return self._begin(
            key or _new_key(), self._body(event, workspace, graph_key, facts, **link)
        )

    def _body(
        self,
        event: WebhookEvent,
        workspace: str,
        graph_key: str | None,
        facts: Mapping[str, Any],
        **link: str,
    ) -> dict[str, Any]:
        address = f"{self._page_url}/{page_address(graph_key, **link)}"
        named: dict[str, Any] = {"event": event, "workspace": workspace}
        if graph_key is not None:
            named["graphKey"] = graph_key
        return {**named, **facts, "link": address, "time": self._clock()}

    def _begin(
        self, key: str, body: Mapping[str, Any], *, wait_ms: int = 0
    ) -> asyncio.Future[bool]:
        """Stores a request and, unless it waits, sends it. Returns whether it is stored."""
        if self._storing >= MAX_STORING:
            log.warning("webhook_dropped", extra={"waiting": MAX_STORING})
            return _at_once(False)
        self._storing += 1
        return self._queue.begin(STORING + key, partial(self._store, key, body, wait_ms))

    async def _store(self, key: str, body: Mapping[str, Any], wait_ms: int) -> None:
        data = {"event": body["event"], "inWorkspace": body["workspace"], "body": dict(body)}
        try:
            record = await self._queue.add(key, data, wait_ms=wait_ms)
        except RecordConflict:  # it was stored before
            return
        finally:
            self._storing -= 1
        if not wait_ms and len(self._queue.sending) - self._storing < MAX_TRIED:
            self._queue.begin(key, partial(self._try, [record]))

    def _gather(self, body: dict[str, Any], counted: str, *of: object) -> None:
        """Sends one request for all notifications of the same kind in a while; `counted` is their
        sum.
        """
        group = (body["event"], *of)
        if (gathering := self._gathering.get(group)) is not None:
            if not gathering.count:
                self._queue.begin(
                    STORING + gathering.key, partial(self._add, gathering, counted, body)
                )
            gathering.count += body[counted]
        else:
            self._gathering[group] = _Gathering(key := _new_key())
            self._begin(key, body, wait_ms=round(self._gather_s * 1000))
            self._queue.begin(key, partial(self._gathered, group, key))

    async def _add(self, gathering: _Gathering, counted: str, body: Mapping[str, Any]) -> None:
        """Adds notifications to the stored request, or stores another one if that was tried
        already.
        """
        count = gathering.count
        gathering.count = 0
        while (
            found := await self._queue.records.get(KIND, gathering.key)
        ) and "lastTime" not in found.data:
            stored = found.data["body"]
            if await self._queue.change(
                found, {"body": {**stored, counted: stored[counted] + count}}
            ):
                return
        self._begin(_new_key(), {**body, counted: count})

    async def _gathered(self, group: tuple[object, ...], key: str) -> None:
        await asyncio.sleep(self._gather_s)
        del self._gathering[group]
        await self._queue.wait_until_sent([STORING + key], timeout_s=STORED_S)
        if (record := await self._queue.records.get(KIND, key)) is not None:
            await self._try([record])

    @property
    def is_enabled(self) -> bool:
        return self._url is not None

    async def stored(self, workspaces: Sequence[str], *, limit: int) -> list[dict[str, Any]]:
        """Returns the requests of these workspaces with their ids, the latest first. Raises:
        SourceError.
        """
        records: list[Record] = []
        for workspace in workspaces:
            records += await self._queue.records.query(
                KIND,
                {"inWorkspace": workspace},
                order_by="createdTime",
                descending=True,
                limit=limit,
            )
        records.sort(key=lambda record: record.data["createdTime"], reverse=True)
        return [_shown(record) for record in records[:limit]]

    async def retry(self, key: str, workspaces: Sequence[str]) -> dict[str, Any]:
        """Retries a request at once, for a day again. Raises: WebhookNotFound, WebhookBusy,
        SourceError.
        """
        record = await self._queue.records.get(KIND, key)
        if record is None or record.data["inWorkspace"] not in workspaces:
            raise WebhookNotFound
        again = await self._queue.retry(record)
        if again is None:
            raise WebhookBusy
        if self._url is not None:
            self._queue.begin(key, lambda: self._try([again]))
        return _shown(again)

    async def retry_all(self, workspaces: Sequence[str]) -> int:
        """Retries all requests of these workspaces that did not arrive, for a day again. Returns
        their number.

        Raises: SourceError.
        """
        count = 0
        for workspace in workspaces:
            records = await self._queue.records.query(
                KIND, {"inWorkspace": workspace}, limit=MAX_RETRIED
            )
            for record in records:
                if record.data["status"] != "done" and await self._queue.retry(record) is not None:
                    count += 1
        if count and self._url is not None:
            self._queue.begin("again", partial(self._send_pages, count // DUE + 1))
        return count

    async def _send_pages(self, most: int) -> None:
        """Sends due requests, without waiting for the next look."""
        for _ in range(most):
            if await self.send_due() < DUE:
                return

    async def _look(self) -> None:
        """Sends due requests if the store can be read."""
        try:
            await self.send_due()
        except SourceError as exc:
            log.info("webhooks_not_read", extra={"error": type(exc).__name__})

    async def send_due(self) -> int:
        """Sends due requests and removes old ones. Returns the number of requests sent.

        Raises: SourceError.
        """
        return await self._queue.send_due(self._try)

    async def _try(self, records: Sequence[Record]) -> None:
        for record in records:
            await self._queue.attempt(record, partial(self._outcome, record))

    async def _outcome(self, record: Record) -> dict[str, Any]:
        """Sends one request. Returns the changes of its record."""
        event = record.data["event"]
        outcome = await self._target.post(
            record.key, record.data["body"], sent_s=self._clock() // 1000
        )
        if isinstance(outcome, str):
            return {"error": outcome}
        if outcome < 300:
            kept = {"nextTime": self._clock() + CHANGES_KEPT_MS} if event == "graph_changed" else {}
            return {"httpStatus": outcome, "error": None, "status": "done", **kept}
        if outcome in REFUSALS:
            log.warning("webhook_refused", extra={"event": event, "http": outcome})
            return {"httpStatus": outcome, "status": "refused"}
        return {"httpStatus": outcome}

    async def aclose(self) -> None:
        """Stores the requests that are not stored yet. Those being sent are found again when they
        are due.
        """
        storing = [group for group in self._queue.sending if group.startswith(STORING)]
        await self._queue.wait_until_sent(storing, timeout_s=STORED_S)
        await self._queue.close()


def _shown(record: Record) -> dict[str, Any]:
    return {"id": record.key, "workspace": record.data["inWorkspace"], **record.data}


def _new_key() -> str:
    return f"msg_{secrets.token_hex(12)}"


def _key_of(*moment: object) -> str:
    """Returns the key of what is sent once, whichever server stores it."""
    return f"msg_{hashlib.sha256(orjson.dumps(moment)).hexdigest()[:24]}"


def _at_once(result: bool) -> asyncio.Future[bool]:
    """Returns a future with a result."""
    future = asyncio.get_running_loop().create_future()
    future.set_result(result)
    return future
