"""Sends to the address of `notify_url` what happens: proposals wait, expire or are decided, automations end
or are paused, graphs change.

One POST each, with keys and names and nothing of a graph. Each is stored first and sent until it is taken,
for a day, whichever server does it and whatever is killed meanwhile: at least once, each time with the same
`webhook-id`. Of a conversation one says all that an answer proposed, of a graph all that changed in a while;
what is collected in these seconds is lost with the process. With a secret each is signed as Standard
Webhooks 1.0 says.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import logging
import secrets
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Literal
from urllib.parse import urlencode

import httpx2
import orjson

from datasources.base import Record, RecordStore
from datasources.errors import RecordConflict, SourceError
from graphrag.agent.thread_store import Thread
from graphrag.agents.deliveries import CLAIMED_MS, DELAYS_MS, KEPT_MS, LATER_MS, OWED_MS
from graphrag.approvals import Approval
from graphrag.automations.automation import Automation
from graphrag.config import SettingsError
from graphrag.leases import now_ms
from graphrag.sessions.machine import Phase
from server.errors import WebhookBusy, WebhookNotFound
from tools.trace_context import TRACED

log = logging.getLogger(__name__)

KIND: Final = "webhook"
TIMEOUT_S: Final = 10.0
GATHER_S: Final = 2.0
"""So long it is waited whether an answer proposes more, or a graph changes again."""
LOOK_S: Final = 5.0
MAX_WAITING: Final = 1_000
"""More that wait to be stored or sent here are dropped, and that is logged: the address does not answer."""
DUE: Final = 50
AT_ONCE: Final = 8
CHANGES_KEPT_MS: Final = 86_400_000
"""So long it is kept that a graph changed: there are many of these."""
_LATER_STATUS: Final = frozenset((408, 409, 425, 429))

WebhookEvent = Literal[
    "proposals_wait",
    "proposals_expire",
    "proposal_decided",
    "automation_ended",
    "automation_paused",
    "graph_changed",
]


class Webhooks:
    """Stores and sends in the background; without an address it does nothing.

    `records` are those of the root workspace, once the database is open. `clock`: milliseconds since 1970.
    Raises: SettingsError for a secret that is none.
    """

    def __init__(
        self,
        url: str | None,
        *,
        secret: str | None = None,
        gather_s: float = GATHER_S,
        clock: Callable[[], int] = now_ms,
    ) -> None:
        self._url, self._gather_s, self._clock = url, gather_s, clock
        self._secret = None if secret is None else _key(secret)
        self._records: RecordStore | None = None
        self._working: set[asyncio.Task[None]] = set()
        self._proposed: dict[tuple[str, int], int] = {}
        self._changed: dict[tuple[str, str], int] = {}

    def open(self, records: RecordStore) -> None:
        """Begin to send what is due, what other servers left too."""
        self._records = records
        if self._url is not None:
            self._start(self._look())

    def proposed(self, approval: Approval) -> None:
        """Send, once no more come, how many proposals of an answer wait for a person."""
        answer = (approval.thread_id, approval.turn)
        if self._url is None or approval.automation_id is not None:  # a run says so when it is left
            return
        if answer in self._proposed:
            self._proposed[answer] += 1
        elif self._start(self._gathered(approval)):
            self._proposed[answer] = 1

    async def _gathered(self, approval: Approval) -> None:
        await asyncio.sleep(self._gather_s)
        waiting = self._proposed.pop((approval.thread_id, approval.turn))
        facts = {"asker": approval.asker, "threadId": approval.thread_id, "waiting": waiting}
        panel = {"panel": "review"}
        self._send("proposals_wait", approval.workspace, approval.graph_key, facts, **panel)

    def decided(self, approval: Approval) -> None:
        """Send what became of a proposal."""
        facts = {"approvalId": approval.id, "status": approval.status, "threadId": approval.thread_id}
        panel = {"panel": "review", "approval": approval.id}
        self._send("proposal_decided", approval.workspace, approval.graph_key, facts, **panel)

    def run_left(self, workspace: str, thread: Thread) -> None:
        """Send that proposals of a run wait, or that it ended."""
        session = thread.session
        if session is None:
            return
        if session.phase is Phase.WAITING_VALIDATION:
            waiting = session.waiting or {}
            facts = {"waiting": len(waiting.get("approvalIds", ()))}
            self._of_run("proposals_wait", workspace, thread, facts)
        elif session.end_reason is not None:
            self._of_run("automation_ended", workspace, thread, {"endReason": session.end_reason.value})

    def expiring(self, workspace: str, thread: Thread, waiting: int) -> None:
        """Send that so many proposals of a run have a day left."""
        self._of_run("proposals_expire", workspace, thread, {"waiting": waiting})

    def _of_run(self, event: WebhookEvent, workspace: str, thread: Thread, more: Mapping[str, Any]) -> None:
        automation_id = thread.session.automation_id if thread.session else ""
        automation = {"id": automation_id, "name": thread.title}
        facts = {"automation": automation, "sessionId": thread.key, **more}
        self._send(event, workspace, thread.graph_key, facts, panel="automations")

    def paused(self, automation: Automation, reason: str) -> None:
        """Send that the service paused an automation."""
        named = {"id": automation.key, "name": automation.name}
        facts = {"automation": named, "reason": reason}
        self._send(
            "automation_paused", automation.workspace, automation.graph_key, facts, panel="automations"
        )

    def graph_changed(self, workspace: str, graph_key: str, nodes: int) -> None:
        """Send, once for a while, that a graph was saved, and how many nodes were."""
        if self._url is None:
            return
        graph = (workspace, graph_key)
        if graph in self._changed:
            self._changed[graph] += nodes
        elif self._start(self._collected(workspace, graph_key)):
            self._changed[graph] = nodes

    async def _collected(self, workspace: str, graph_key: str) -> None:
        await asyncio.sleep(self._gather_s)
        nodes = self._changed.pop((workspace, graph_key))
        self._send("graph_changed", workspace, graph_key, {"nodesSaved": nodes})

    def _send(
        self, event: WebhookEvent, workspace: str, graph_key: str, facts: Mapping[str, Any], **link: str
    ) -> None:
        if self._url is None or self._records is None:
            return
        body = {
            "event": event,
            "workspace": workspace,
            "graphKey": graph_key,
            **facts,
            "link": "/#" + urlencode({"graph": graph_key, **link}),
            "time": self._clock(),
        }
        self._start(self._stored(self._records, body))

    def _start(self, work: Coroutine[Any, Any, None]) -> bool:
        if len(self._working) >= MAX_WAITING:
            work.close()
            log.warning("webhook_dropped", extra={"waiting": MAX_WAITING})
            return False
        task = asyncio.create_task(work)
        self._working.add(task)
        task.add_done_callback(self._working.discard)
        return True

    async def _stored(self, records: RecordStore, body: Mapping[str, Any]) -> None:
        now = self._clock()
        key = f"msg_{secrets.token_hex(12)}"
        data = {
            "event": body["event"],
            "inWorkspace": body["workspace"],
            "body": dict(body),
            "status": "waiting",
            "attempts": 0,
            "createdTime": now,
            "nextTime": now,
        }
        try:
            stored = await records.put(Record(kind=KIND, key=key, data=data), expected_version=None)
            await self._tried(records, stored)
        except SourceError as exc:
            log.warning("webhook_not_stored", extra={"event": body["event"], "error": type(exc).__name__})

    @property
    def is_enabled(self) -> bool:
        return self._url is not None

    async def stored(self, workspaces: Sequence[str], *, limit: int) -> list[dict[str, Any]]:
        """Return the requests of these workspaces with their ids, the latest first. Raises: SourceError."""
        found: list[Record] = []
        for workspace in workspaces if self._records is not None else ():
            found += await self._opened.query(
                KIND, {"inWorkspace": workspace}, order_by="createdTime", descending=True, limit=limit
            )
        found.sort(key=lambda record: record.data["createdTime"], reverse=True)
        return [_shown(record) for record in found[:limit]]

    async def retry(self, key: str, workspaces: Sequence[str]) -> dict[str, Any]:
        """Have one tried at once, for a day again. Raises: WebhookNotFound, WebhookBusy, SourceError."""
        record = await self._opened.get(KIND, key)
        if record is None or record.data["inWorkspace"] not in workspaces:
            raise WebhookNotFound
        now = self._clock()
        again = {"status": "waiting", "attempts": 0, "createdTime": now, "nextTime": now}
        try:
            made = Record(kind=KIND, key=key, data={**record.data, **again})
            stored = await self._opened.put(made, expected_version=record.version)
        except RecordConflict:
            raise WebhookBusy from None
        if self._url is not None:
            self._start(self._sent_again(stored))
        return _shown(stored)

    async def _sent_again(self, record: Record) -> None:
        with suppress(SourceError):  # it is found when it is due
            await self._tried(self._opened, record)

    @property
    def _opened(self) -> RecordStore:
        if self._records is None:
            raise RuntimeError("the server is not started")
        return self._records

    async def _look(self) -> None:
        """Send what is due, again and again."""
        while True:
            try:
                await self.send_due(self._opened)
            except SourceError as exc:
                log.info("webhooks_not_read", extra={"error": type(exc).__name__})
            except Exception:
                log.exception("webhooks_failed")
            await asyncio.sleep(LOOK_S)

    async def send_due(self, records: RecordStore) -> int:
        """Send what is due, some at once, and remove what was kept long enough; return how many."""
        now = self._clock()
        found = await records.query(KIND, order_by="nextTime", at_most=now, limit=DUE)
        places = asyncio.Semaphore(AT_ONCE)

        async def take(record: Record) -> None:
            async with places:
                if record.data["status"] == "waiting":
                    await self._tried(records, record)
                    return
                with suppress(RecordConflict):
                    await records.delete(KIND, record.key, expected_version=record.version or "")

        await asyncio.gather(*map(take, found))
        return len(found)

    async def _tried(self, records: RecordStore, record: Record) -> None:
        """Try one once, where no other server does."""
        now, attempts = self._clock(), int(record.data["attempts"]) + 1
        claim: dict[str, Any] = {
            **record.data,
            "attempts": attempts,
            "lastTime": now,
            "nextTime": now + CLAIMED_MS,
        }
        with suppress(RecordConflict):
            claimed = await records.put(
                Record(kind=KIND, key=record.key, data=claim), expected_version=record.version
            )
            outcome = await self._posted(record.key, claim["body"])
            after = {**claim, **self._after(claim, outcome)}
            await records.put(Record(kind=KIND, key=record.key, data=after), expected_version=claimed.version)

    def _after(self, claim: Mapping[str, Any], outcome: int | str) -> dict[str, Any]:
        """Return how a delivery stands after an attempt that ended with a status or an error's name."""
        now, number = self._clock(), int(claim["attempts"]) - 1
        answered = {"httpStatus": outcome} if isinstance(outcome, int) else {"error": outcome}
        if isinstance(outcome, int) and outcome < 300:
            kept = CHANGES_KEPT_MS if claim["event"] == "graph_changed" else KEPT_MS
            return {**answered, "error": None, "status": "done", "nextTime": now + kept}
        if isinstance(outcome, int) and 300 <= outcome < 500 and outcome not in _LATER_STATUS:
            log.warning("webhook_refused", extra={"event": claim["event"], "http": outcome})
            return {**answered, "status": "refused", "nextTime": now + KEPT_MS}
        later = now + (DELAYS_MS[number] if number < len(DELAYS_MS) else LATER_MS)
        if later <= int(claim["createdTime"]) + OWED_MS:
            return {**answered, "nextTime": later}
        log.warning("webhook_given_up", extra={"event": claim["event"]})
        return {**answered, "status": "expired", "nextTime": now + KEPT_MS}

    async def _posted(self, key: str, body: Mapping[str, Any]) -> int | str:
        content, sent_s = orjson.dumps(dict(body)), str(self._clock() // 1000)
        headers = {"Content-Type": "application/json", "webhook-id": key, "webhook-timestamp": sent_s}
        if self._secret is not None:
            signed = b".".join((key.encode(), sent_s.encode(), content))
            digest = hmac.digest(self._secret, signed, "sha256")
            headers["webhook-signature"] = f"v1,{base64.b64encode(digest).decode()}"
        try:
            async with (
                asyncio.timeout(2 * TIMEOUT_S),
                httpx2.AsyncClient(timeout=TIMEOUT_S, trust_env=False, **TRACED) as client,
                client.stream("POST", str(self._url), content=content, headers=headers) as answer,
            ):
                return answer.status_code  # its body is not read, however long it is
        except (httpx2.HTTPError, httpx2.InvalidURL, TimeoutError) as exc:
            return type(exc).__name__

    async def aclose(self) -> None:
        """Leave what is being sent; it is found again when it is due."""
        for task in self._working:
            task.cancel()
        await asyncio.gather(*self._working, return_exceptions=True)


def _shown(record: Record) -> dict[str, Any]:
    return {"id": record.key, "workspace": record.data["inWorkspace"], **record.data}


def _key(secret: str) -> bytes:
    """Return the bytes of a secret: those that `whsec_` and base64 stand for, or its own."""
    if not secret.startswith("whsec_"):
        return secret.encode()
    try:
        return base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except ValueError:
        reason = "it begins with whsec_, but no base64 follows"
        raise SettingsError(name="notify_secret", origin="settings", reason=reason) from None
