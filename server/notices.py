"""Tells the address of `notify_url` that proposals of a run wait or expire, or that an automation was paused.

One POST each, tried three times; it holds keys and names, and nothing of a graph.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode

import httpx2

from graphrag.agent.thread_store import Thread
from graphrag.automations.automation import Automation
from graphrag.leases import now_ms
from graphrag.sessions.machine import Phase

log = logging.getLogger(__name__)

TRIES: Final = 3
PAUSE_S: Final = 2.0
TIMEOUT_S: Final = 10.0
MAX_UNDER_WAY: Final = 100
"""More notices than these under way are dropped: the address does not answer."""


class Notices:
    """Sends notices in the background; without an address nothing is sent."""

    def __init__(self, url: str | None, *, pause_s: float = PAUSE_S) -> None:
        self._url, self._pause_s = url, pause_s
        self._sending: set[asyncio.Task[None]] = set()

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
        facts = {"sessionId": thread.key, "waiting": waiting}
        self._send(event, workspace, thread.graph_key, automation, facts)

    def paused(self, automation: Automation, reason: str) -> None:
        """Send that the service paused an automation."""
        named = {"id": automation.key, "name": automation.name}
        self._send("automation_paused", automation.workspace, automation.graph_key, named, {"reason": reason})

    def _send(
        self,
        event: str,
        workspace: str,
        graph_key: str,
        automation: Mapping[str, str],
        facts: Mapping[str, Any],
    ) -> None:
        if self._url is None or len(self._sending) >= MAX_UNDER_WAY:
            return
        body = {
            "event": event,
            "workspace": workspace,
            "graphKey": graph_key,
            "automation": dict(automation),
            **facts,
            "link": "/#" + urlencode({"graph": graph_key, "panel": "automations"}),
            "time": now_ms(),
        }
        task = asyncio.create_task(self._post(self._url, body))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _post(self, url: str, body: Mapping[str, Any]) -> None:
        for attempt in range(TRIES):
            if attempt:
                await asyncio.sleep(self._pause_s * attempt)
            try:
                async with httpx2.AsyncClient(timeout=TIMEOUT_S, trust_env=False) as client:
                    answer = await client.post(url, json=dict(body))
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
