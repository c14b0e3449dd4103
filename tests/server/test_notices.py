"""Notices to an operator: that proposals of a run wait, tried three times, with nothing of the graph."""

from __future__ import annotations

import asyncio
import hmac
import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

from graphrag.agent.thread_store import Thread
from graphrag.automations.automation import Automation
from graphrag.sessions.agent_session import AgentSession
from graphrag.sessions.machine import EndReason, Phase, SessionKind
from server.metrics import Metrics
from server.notices import Notices
from tests.graphrag.approvals.helpers import a_bench


@contextmanager
def listening(*answers: int) -> Generator[tuple[str, list[dict[str, Any]]]]:
    """A server that answers with these statuses; yields its address and what it was sent."""
    left, seen = list(answers), list[dict[str, Any]]()

    class Listener(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            signature = self.headers.get("X-Nodius-Signature", "")
            seen.append({**json.loads(body), "raw": body.decode(), "signature": signature})
            self.send_response(left.pop(0))
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Listener)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/notices", seen
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def run(**session: Any) -> Thread:
    made = AgentSession(kind=SessionKind.AUTOMATION, automation_id="au_1", **session)
    history = [{"role": "user", "content": "a secret of the graph"}]
    return Thread(
        key="auto/au_1/5",
        graph_key="g",
        workspace="w",
        user_id="ed",
        title="Nightly",
        conversation_history=history,
        session=made,
    )


WAITS = {"type": "validation", "approvalIds": ["a", "b"], "reasons": {"a": ["secret"]}}


async def until(seen: list[Any], count: int) -> None:
    async with asyncio.timeout(5):
        while len(seen) < count:  # noqa: ASYNC110 - another thread fills it
            await asyncio.sleep(0.01)


async def test_waiting_proposals_are_sent_until_they_are_taken() -> None:
    with listening(500, 503, 200) as (url, seen):
        notices = Notices(url, pause_s=0.01)
        notices.run_left("w", run(phase=Phase.WAITING_VALIDATION, waiting=WAITS))
        notices.run_left("w", run(phase=Phase.COMPLETED, end_reason=EndReason.COMPLETED))
        await until(seen, 3)
        await asyncio.sleep(0.05)
        await notices.aclose()
    assert seen[0] == seen[1] == seen[2]
    assert (seen[0]["event"], seen[0]["waiting"], seen[0]["sessionId"]) == (
        "proposals_wait",
        2,
        "auto/au_1/5",
    )
    assert seen[0]["automation"] == {"id": "au_1", "name": "Nightly"}
    assert "secret" not in json.dumps(seen)


async def test_what_an_answer_proposed_is_sent_once_and_signed() -> None:
    key = "0123456789abcdef"
    bench = await a_bench()
    with listening(200, 200) as (url, seen):
        notices = Notices(url, secret=key, gather_s=0.05)
        for node, thread in (("a", "t1"), ("b", "t1"), ("c", "t2")):
            notices.proposed(
                await bench.propose("update_node", thread=thread, nodeKey=node, changes={"data.name": "N"})
            )
        await until(seen, 2)
        await notices.aclose()
    assert sorted((one["threadId"], one["waiting"]) for one in seen) == [("t1", 2), ("t2", 1)]
    assert (seen[0]["event"], seen[0]["asker"]) == ("proposals_wait", "ed")
    digest = hmac.digest(key.encode(), seen[0]["raw"].encode(), "sha256").hex()
    assert seen[0]["signature"] == f"sha256={digest}"


async def test_it_is_given_up_after_three_tries_and_nothing_is_sent_without_an_address() -> None:
    automation = Automation(
        key="au_1", workspace="w", graph_key="g", name="N", user_id="ed", role="editor", seed_id="s"
    )
    with listening(500, 500, 500) as (url, seen):
        notices = Notices(url, pause_s=0.01)
        notices.paused(automation, "graph_gone")
        await until(seen, 3)
        await asyncio.sleep(0.05)
        await notices.aclose()
        Notices(None).paused(automation, "graph_gone")
    assert len(seen) == 3
    assert (seen[0]["event"], seen[0]["reason"]) == ("automation_paused", "graph_gone")


def test_ended_runs_and_times_are_counted() -> None:
    metrics = Metrics()
    metrics.run_left(run(phase=Phase.WAITING_VALIDATION, waiting=WAITS))
    ended = {"started_time": 4_000, "scheduled_time": 1_000, "ended_time": 9_000}
    metrics.run_left(run(phase=Phase.COMPLETED, end_reason=EndReason.ERROR, **ended))
    metrics.occurrence("unchanged")
    text = metrics.text().decode()
    assert 'nodius_sessions_total{kind="automation",reason="ERROR"} 1.0' in text
    assert "nodius_session_start_delay_seconds_sum 3.0" in text
    assert 'nodius_occurrences_total{result="unchanged"} 1.0' in text
