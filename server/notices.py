"""Tells the address of `notify_url` that proposals wait or expire, or that an automation was paused.

One POST each, tried three times; it holds keys and names, and nothing of a graph. Of a conversation one
tells of all that an answer proposed. With a secret each is signed: `X-Nodius-Signature: sha256=` and the
HMAC of the body, which holds the time.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections.abc import Coroutine, Mapping
from typing import Any, Final
from urllib.parse import urlencode

import httpx2
import orjson

from graphrag.agent.thread_store import Thread
from graphrag.approvals import Approval
from graphrag.automations.automation import Automation
from graphrag.leases import now_ms
from graphrag.sessions.machine import Phase

log = logging.getLogger(__name__)

TRIES: Final = 3
PAUSE_S: Final = 2.0
TIMEOUT_S: Final = 10.0
GATHER_S: Final = 2.0
"""So long it is waited whether an answer proposes more."""
MAX_UNDER_WAY: Final = 100
"""More notices than these under way are dropped: the address does not answer."""


class Notices:
    """Sends notices in the background; without an address nothing is sent."""

    def __init__(
        self,
        url: str | None,
        *,
        secret: str | None = None,
        pause_s: float = PAUSE_S,
        gather_s: float = GATHER_S,
    ) -> None:
        self._url, self._secret, self._pause_s, self._gather_s = url, secret, pause_s, gather_s
        self._sending: set[asyncio.Task[None]] = set()
        self._proposed: dict[tuple[str, int], int] = {}

    def proposed(self, approval: Approval) -> None:
        """Send, once no more come, how many proposals of an answer wait for a person."""
        answer = (approval.thread_id, approval.turn)
        if self._url is None or approval.automation_id is not None:  # a run tells when it is left
            return
        if answer in self._proposed:
            self._proposed[answer] += 1
        elif self._start(self._gathered(approval)):
            self._proposed[answer] = 1

    async def _gathered(self, approval: Approval) -> None:
        await asyncio.sleep(self._gather_s)
        waiting = self._proposed.pop((approval.thread_id, approval.turn))
        self._send(
            "proposals_wait",
            approval.workspace,
            approval.graph_key,
            {"asker": approval.asker, "threadId": approval.thread_id, "waiting": waiting},
            panel="review",
        )

    def run_left(self, workspace: str, thread: Thread) -> None:
        """Send that proposals wait, where a run was left because of them."""
        session = thread.session
        if session is None or session.phase is not Phase.WAITING_VALIDATION:
            return
        waiting = session.waiting or {}
        self._of_run("proposals_wait", workspace, thread, len(waiting.get("approvalIds", ())))

    def expiring(self, workspace: str, thread: Thread, waiting: int) -> None:
        """Send that so many proposals of a run have a day left."""
        self._of_run("proposals_expire", workspace, thread, waiting)

    def _of_run(self, event: str, workspace: str, thread: Thread, waiting: int) -> None:
        automation_id = thread.session.automation_id if thread.session else ""
        automation = {"id": automation_id, "name": thread.title}
        facts = {"automation": automation, "sessionId": thread.key, "waiting": waiting}
        self._send(event, workspace, thread.graph_key, facts)

    def paused(self, automation: Automation, reason: str) -> None:
        """Send that the service paused an automation."""
        named = {"id": automation.key, "name": automation.name}
        facts = {"automation": named, "reason": reason}
        self._send("automation_paused", automation.workspace, automation.graph_key, facts)

    def _send(
        self,
        event: str,
        workspace: str,
        graph_key: str,
        facts: Mapping[str, Any],
        *,
        panel: str = "automations",
    ) -> None:
        if self._url is None:
            return
        body = {
            "event": event,
            "workspace": workspace,
            "graphKey": graph_key,
            **facts,
            "link": "/#" + urlencode({"graph": graph_key, "panel": panel}),
            "time": now_ms(),
        }
        self._start(self._post(self._url, body))

    def _start(self, work: Coroutine[Any, Any, None]) -> bool:
        if len(self._sending) >= MAX_UNDER_WAY:
            work.close()
            return False
        task = asyncio.create_task(work)
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)
        return True

    async def _post(self, url: str, body: Mapping[str, Any]) -> None:
        content = orjson.dumps(dict(body))
        headers = {"Content-Type": "application/json"}
        if self._secret is not None:
            signature = hmac.digest(self._secret.encode(), content, "sha256").hex()
            headers["X-Nodius-Signature"] = f"sha256={signature}"
        for attempt in range(TRIES):
            if attempt:
                await asyncio.sleep(self._pause_s * attempt)
            try:
                async with httpx2.AsyncClient(timeout=TIMEOUT_S, trust_env=False) as client:
                    answer = await client.post(url, content=content, headers=headers)
                if answer.status_code < 300:
                    return
            except (httpx2.HTTPError, httpx2.InvalidURL) as exc:
                log.debug("notice_failed", extra={"error": type(exc).__name__})
        log.warning("notice_not_taken", extra={"event": body["event"]})

    async def aclose(self) -> None:
        """Send no more."""
        for task in self._sending:
            task.cancel()
        await asyncio.gather(*self._sending, return_exceptions=True)
