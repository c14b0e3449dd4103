"""Sends to the address of `notify_url` what happens: proposals wait, expire or are decided,
automations end or are paused, graphs change.

One POST each, with keys and names and nothing of a graph. Each is stored first and sent until it is
taken, for a day, whichever server does it and whatever is killed meanwhile: at least once, each
time with the same `webhook-id`. Of a conversation one says all that an answer proposed, of a graph
all that changed in a while: the first is stored at once, and what comes until it is sent is added
to what is stored. With a secret each is signed as Standard Webhooks 1.0 says.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal, final
from urllib.parse import urlencode

import httpx2
import orjson

from datasources.base import Record, RecordStore
from datasources.errors import RecordConflict, SourceError
from graphrag.agent.thread_store import Thread
from graphrag.approvals import Approval
from graphrag.automations.automation import Automation
from graphrag.config import Settings, SettingsError
from graphrag.delivery_queue import DUE, DeliveryQueue
from graphrag.leases import now_ms
from graphrag.sessions.phases import Phase
from graphrag.workers import repeat
from server.errors import WebhookBusy, WebhookNotFound
from tools.http.interim_answers import BoundedTransport
from tools.trace_context import TRACED

log = logging.getLogger(__name__)

KIND: Final = "webhook"
TIMEOUT_S: Final = 10.0
GATHER_S: Final = 2.0
"""So long it is waited whether an answer proposes more, or a graph changes again."""
LOOK_S: Final = 5.0
MAX_RETRIED: Final = 20_000
"""Requests of a workspace that one call has tried again."""
STORED_S: Final = 5.0
"""So long it is waited at most until something is stored."""
STORING: Final = "store "
MAX_TRIED: Final = 1_000
"""While so many are sent here, what comes is stored and sent when it is looked next: the
address is slow.
"""
MAX_STORING: Final = 10_000
"""More that wait to be stored here are dropped, and that is logged: the database
does not answer.
"""
CHANGES_KEPT_MS: Final = 86_400_000
"""So long it is kept that a graph changed: there are many of these."""
REFUSALS: Final = frozenset((400, 411, 413, 414, 415, 422, 431))
"""Answers after which nothing is tried again: the request itself is wrong. Any other may be
another answer once somebody has set up the receiver: its path (404, 410), its key (401, 403),
its address (3xx).
"""

WebhookEvent = Literal[
    "proposals_wait",
    "proposals_expire",
    "proposal_decided",
    "automation_ended",
    "automation_paused",
    "graph_changed",
]


@dataclass(slots=True)
class _Gathering:
    """What is added to a stored request. `count`: of this, what is not stored yet."""

    key: str
    count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookTarget:
    """The receiver of the requests. `page_url`: the beginning of links to the page.

    Each request is signed with all `keys`: a receiver that knows one of them accepts it.
    """

    url: str | None
    keys: tuple[bytes, ...] = ()
    page_url: str = ""

    @classmethod
    def of(cls, settings: Settings) -> WebhookTarget:
        """Returns the receiver of the settings. Raises: SettingsError for an unusable secret."""
        secrets_by_name = {
            "notify_secret": settings.notify.secret,
            "notify_secret_before": settings.notify.secret_before,
        }
        keys = tuple(
            _key(name, secret.get_secret_value())
            for name, secret in secrets_by_name.items()
            if secret is not None
        )
        return cls(url=settings.notify.url, keys=keys, page_url=page_url(settings))


@final
class Webhooks:
    """Stores requests and sends them in the background; without an address it does nothing.

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
        self._url = target.url
        self._page_url = target.page_url
        self._keys = target.keys
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
        """Send, once no more come, how many proposals of an answer wait for a person."""
        if self._url is None or approval.automation_id is not None:  # a run says so when it is left
            return
        facts = {"asker": approval.asker, "threadId": approval.thread_id, "waiting": 1}
        body = self._body(
            "proposals_wait", approval.workspace, approval.graph_key, facts, panel="review"
        )
        self._gather(body, "waiting", approval.thread_id, approval.turn)

    def decided(self, approval: Approval) -> None:
        """Send what became of a proposal."""
        facts = {
            "approvalId": approval.id,
            "status": approval.status,
            "threadId": approval.thread_id,
        }
        place = approval.workspace, approval.graph_key
        self._send("proposal_decided", *place, facts, panel="review", approval=approval.id)

    def run_left(self, workspace: str, thread: Thread) -> asyncio.Future[bool]:
        """Send that proposals of a run wait, or that it ended; the same again is sent once.

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
        """Send that so many proposals of a run have a day left."""
        self._of_run("proposals_expire", workspace, thread, {"waiting": waiting})

    def _of_run(
        self, event: WebhookEvent, workspace: str, thread: Thread, more: Mapping[str, Any]
    ) -> asyncio.Future[bool]:
        session = thread.session
        named = {"id": session.automation_id if session else "", "name": thread.title}
        facts = {"automation": named, "sessionId": thread.key, **more}
        moment = [event, workspace, thread.key, session and session.last_event_time]
        key = f"msg_{hashlib.sha256(orjson.dumps(moment)).hexdigest()[:24]}"
        return self._send(event, workspace, thread.graph_key, facts, key=key, panel="automations")

    def paused(self, automation: Automation, reason: str) -> None:
        """Send that the service paused an automation."""
        named = {"id": automation.key, "name": automation.name}
        place = automation.workspace, automation.graph_key
        self._send(
            "automation_paused",
            *place,
            {"automation": named, "reason": reason},
            panel="automations",
        )

    def graph_changed(self, workspace: str, graph_key: str, nodes: int) -> None:
        """Send, once for a while, that a graph was saved, and how many nodes were."""
        if self._url is not None:
            body = self._body("graph_changed", workspace, graph_key, {"nodesSaved": nodes})
            self._gather(body, "nodesSaved", workspace, graph_key)

    def _send(
        self,
        event: WebhookEvent,
        workspace: str,
        graph_key: str,
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
        graph_key: str,
        facts: Mapping[str, Any],
        **link: str,
    ) -> dict[str, Any]:
        link = {"link": f"{self._page_url}/#" + urlencode({"graph": graph_key, **link})}
        named = {"event": event, "workspace": workspace, "graphKey": graph_key}
        return {**named, **facts, **link, "time": self._clock()}

    def _begin(
        self, key: str, body: Mapping[str, Any], *, wait_ms: int = 0
    ) -> asyncio.Future[bool]:
        """Store a request and, unless it waits, send it. Returns whether it is stored."""
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
        """Send one for all that comes of the same in a while; its `counted` is the sum."""
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
        """Add what came to what is stored; where that was tried already, send it as another one."""
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
        """Return the requests of these workspaces with their ids, the latest
        first. Raises: SourceError.
        """
        found: list[Record] = []
        for workspace in workspaces:
            found += await self._queue.records.query(
                KIND,
                {"inWorkspace": workspace},
                order_by="createdTime",
                descending=True,
                limit=limit,
            )
        found.sort(key=lambda record: record.data["createdTime"], reverse=True)
        return [_shown(record) for record in found[:limit]]

    async def retry(self, key: str, workspaces: Sequence[str]) -> dict[str, Any]:
        """Have one tried at once, for a day again. Raises:
        WebhookNotFound, WebhookBusy, SourceError.
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
        """Have all of these workspaces that did not arrive tried at once, for a day again;
        return how many.

        Raises: SourceError.
        """
        count = 0
        for workspace in workspaces:
            found = await self._queue.records.query(
                KIND, {"inWorkspace": workspace}, limit=MAX_RETRIED
            )
            for record in found:
                if record.data["status"] != "done" and await self._queue.retry(record) is not None:
                    count += 1
        if count and self._url is not None:
            self._queue.begin("again", partial(self._send_pages, count // DUE + 1))
        return count

    async def _send_pages(self, most: int) -> None:
        """Send what is due, without waiting for the next look."""
        for _ in range(most):
            if await self.send_due() < DUE:
                return

    async def _look(self) -> None:
        """Send what is due, where the store can be read."""
        try:
            await self.send_due()
        except SourceError as exc:
            log.info("webhooks_not_read", extra={"error": type(exc).__name__})

    async def send_due(self) -> int:
        """Send what is due and remove what was kept long enough; return how
        many. Raises: SourceError.
        """
        return await self._queue.send_due(self._try)

    async def _try(self, records: Sequence[Record]) -> None:
        for record in records:
            await self._queue.attempt(record, partial(self._outcome, record))

    async def _outcome(self, record: Record) -> dict[str, Any]:
        """Send one, and return what changes of it."""
        event = record.data["event"]
        outcome = await self._posted(record.key, record.data["body"])
        if isinstance(outcome, str):
            return {"error": outcome}
        if outcome < 300:
            kept = {"nextTime": self._clock() + CHANGES_KEPT_MS} if event == "graph_changed" else {}
            return {"httpStatus": outcome, "error": None, "status": "done", **kept}
        if outcome in REFUSALS:
            log.warning("webhook_refused", extra={"event": event, "http": outcome})
            return {"httpStatus": outcome, "status": "refused"}
        return {"httpStatus": outcome}

    async def _posted(self, key: str, body: Mapping[str, Any]) -> int | str:
        content = orjson.dumps(dict(body))
        sent_s = str(self._clock() // 1000)
        headers = {
            "Content-Type": "application/json",
            "webhook-id": key,
            "webhook-timestamp": sent_s,
        }
        if self._keys:
            signed = b".".join((key.encode(), sent_s.encode(), content))
            digests = (hmac.digest(each, signed, "sha256") for each in self._keys)
            headers["webhook-signature"] = " ".join(
                f"v1,{base64.b64encode(each).decode()}" for each in digests
            )
        try:
            async with (
                asyncio.timeout(2 * TIMEOUT_S),
                httpx2.AsyncClient(
                    timeout=TIMEOUT_S, trust_env=False, transport=BoundedTransport(), **TRACED
                ) as client,
                client.stream("POST", str(self._url), content=content, headers=headers) as answer,
            ):
                return answer.status_code  # its body is not read, however long it is
        except (httpx2.HTTPError, httpx2.InvalidURL, TimeoutError) as exc:
            return type(exc).__name__

    async def aclose(self) -> None:
        """Store what is not stored yet, and leave what is being sent; it is found again when
        it is due.
        """
        storing = [group for group in self._queue.sending if group.startswith(STORING)]
        await self._queue.wait_until_sent(storing, timeout_s=STORED_S)
        await self._queue.close()


def _shown(record: Record) -> dict[str, Any]:
    return {"id": record.key, "workspace": record.data["inWorkspace"], **record.data}


def _new_key() -> str:
    return f"msg_{secrets.token_hex(12)}"


def _at_once(result: bool) -> asyncio.Future[bool]:
    """Return a future that has its result."""
    future = asyncio.get_running_loop().create_future()
    future.set_result(result)
    return future


def _key(name: str, secret: str) -> bytes:
    """Return the bytes of a secret: those that `whsec_` and base64 stand for, or its own."""
    if not secret.startswith("whsec_"):
        return secret.encode()
    try:
        return base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except ValueError:
        reason = "it begins with whsec_, but no base64 follows"
        raise SettingsError(name=name, origin="settings", reason=reason) from None


def page_url(settings: Settings) -> str:
    """Return the address of the page, as other programs are given it; without a slash
    at its end.
    """
    return (settings.public_url or f"http://{settings.host}:{settings.port}").rstrip("/")
