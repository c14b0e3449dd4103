"""Webhooks: what happens is stored, signed and sent until it is taken, with
nothing of the graph.
"""

import asyncio
import base64
import hashlib
import hmac
import json
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from datasources.base import RecordStore
from datasources.mock import MemoryDatabase
from datasources.types import ROOT_WORKSPACE
from graphrag.agent.thread_store import Thread
from graphrag.app.databases import open_database
from graphrag.automations.automation import Automation
from graphrag.automations.automation_store import Automations
from graphrag.config import SettingsError
from graphrag.delivery_queue import DELAYS_MS, KEPT_MS
from graphrag.live.edits import rename_sheet
from graphrag.sessions.agent_session import AgentSession
from graphrag.sessions.phases import EndReason, Phase, SessionKind
from server import webhooks
from server.app import create_app
from server.metrics import Metrics
from server.webhook_target import WebhookTarget
from server.webhooks import GATHER_S, KIND, Webhooks
from tests.graphrag.approvals.helpers import a_bench
from tests.support.chosen_database import address_in
from tests.support.databases import nba_file
from tests.support.service import GRAPH, service, settings_of
from tests.support.waiting import until


@contextmanager
def listening(*answers: int) -> Generator[tuple[str, list[dict[str, Any]]]]:
    """A server that answers with these statuses; yields its address and what it was sent."""
    left = list(answers)
    seen = list[dict[str, Any]]()

    class Listener(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            signed = ("webhook-id", "webhook-timestamp", "webhook-signature")
            headers = {name: self.headers.get(name, "") for name in signed}
            seen.append({**json.loads(body), **headers, "raw": body.decode()})
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


class Sender:
    """Webhooks over records in memory, with a clock of its own: `again` moves it and sends
    what is due.
    """

    def __init__(self, url: str | None, records: RecordStore | None = None, **more: Any) -> None:
        self.now = 1_700_000_000_000
        self.records = records or MemoryDatabase().records(ROOT_WORKSPACE)
        gather_s = more.pop("gather_s", GATHER_S)
        target = WebhookTarget.of(settings_of(notify_url=url, **more))
        self.hooks = Webhooks(target, self.records, gather_s=gather_s, clock=lambda: self.now)
        self.hooks.start()

    async def again(self, ms: int) -> int:
        self.now += ms
        return await self.hooks.send_due()

    async def stored(self) -> list[dict[str, Any]]:
        return [
            dict(record.data) for record in await self.records.query(KIND, order_by="createdTime")
        ]


async def standing(sender: Sender, **facts: Any) -> dict[str, Any]:
    """Wait until the only delivery has these facts, and return it."""
    async with asyncio.timeout(20):
        while True:
            [found] = await sender.stored() or [{}]
            if facts.items() <= found.items():
                return found
            await asyncio.sleep(0.01)


async def test_what_waits_is_sent_until_it_is_taken_each_time_the_same() -> None:
    with listening(500, 503, 200) as (url, seen):
        sender = Sender(url)
        sender.hooks.run_left("w", run(phase=Phase.WAITING_VALIDATION, waiting=WAITS))
        await standing(sender, httpStatus=500)
        assert await sender.again(DELAYS_MS[0] - 1) == 0
        assert await sender.again(1) == 1
        assert await sender.again(DELAYS_MS[1]) == 1
        assert [one["status"] for one in await sender.stored()] == ["done"]
        assert await sender.again(KEPT_MS) == 1
        assert await sender.stored() == []
        await sender.hooks.aclose()
    assert len(seen) == 3
    assert {(one["webhook-id"], one["raw"]) for one in seen} == {
        (seen[0]["webhook-id"], seen[0]["raw"])
    }
    assert (seen[0]["event"], seen[0]["waiting"], seen[0]["sessionId"]) == (
        "proposals_wait",
        2,
        "auto/au_1/5",
    )
    assert seen[0]["automation"] == {"id": "au_1", "name": "Nightly"}
    assert seen[0]["link"].endswith("/#graph=g&panel=automations&run=auto%2Fau_1%2F5")
    assert "secret" not in json.dumps(seen)


@pytest.mark.parametrize(
    "secret", ["0123456789abcdef", "whsec_" + base64.b64encode(b"k" * 24).decode()]
)
async def test_what_an_answer_proposed_is_sent_once_and_signed(secret: str) -> None:
    bench = await a_bench()
    with listening(200, 200) as (url, seen):
        sender = Sender(url, notify_secret=secret, gather_s=0.05)
        made = [
            await bench.propose(
                "update_node", thread=thread, nodeKey=node, changes={"data.name": "N"}
            )
            for node, thread in (("a", "t1"), ("b", "t1"), ("c", "t2"))
        ]
        for each in made:
            sender.hooks.proposed(each)
        await until(lambda: len(seen) >= 2)
        await sender.hooks.aclose()
    assert sorted((one["threadId"], one["waiting"]) for one in seen) == [("t1", 2), ("t2", 1)]
    assert (seen[0]["event"], seen[0]["asker"]) == ("proposals_wait", "ed")
    key = b"k" * 24 if secret.startswith("whsec_") else secret.encode()
    document = (Path(__file__).parents[2] / "docs/webhooks.md").read_text(encoding="utf-8")
    lines = document.partition("```python\n")[2].partition("```")[0]
    if secret.startswith("whsec_"):
        for one in seen:
            names: dict[str, Any] = {"headers": one, "body": one["raw"].encode(), "secret": secret}
            exec(f"import base64, hashlib, hmac\n{lines}", names)
            assert names["is_ours"] is True
    for one in seen:  # as a receiver checks it
        text = f"{one['webhook-id']}.{one['webhook-timestamp']}.{one['raw']}".encode()
        expected = base64.b64encode(hmac.new(key, text, hashlib.sha256).digest()).decode()
        assert one["webhook-signature"] == f"v1,{expected}"


async def test_what_is_gathered_is_stored_at_once_and_sent_once_by_who_is_left() -> None:
    with listening(200, 200) as (url, seen):
        sender = Sender(url, gather_s=60)
        sender.hooks.graph_changed("w", "g", 1)
        first = await standing(sender, status="waiting", nextTime=sender.now + 60_000)
        assert first["body"]["nodesSaved"] == 1
        for total in (6, 11, 16):
            sender.hooks.graph_changed("w", "g", 2)
            sender.hooks.graph_changed("w", "g", 3)
            await standing(sender, body={**first["body"], "nodesSaved": total})
        assert (await sender.again(60_000), seen) == (
            1,
            [],
        )  # it is this server's, which still gathers
        sender.hooks.graph_changed("w", "g", 1)
        await sender.hooks.aclose()
        assert (await standing(sender))["body"]["nodesSaved"] == 17
        other = Sender(url, sender.records)
        assert (await other.again(59_999), await other.again(1)) == (0, 1)
        await other.hooks.aclose()
    assert [(one["event"], one["nodesSaved"]) for one in seen] == [("graph_changed", 17)]


async def test_what_comes_after_another_server_sent_what_was_gathered_is_sent_too() -> None:
    with listening(200, 200) as (url, seen):
        sender = Sender(url, gather_s=60)
        sender.hooks.graph_changed("w", "g", 1)
        await standing(sender, status="waiting")
        other = Sender(url, sender.records)
        assert await other.again(60_000) == 1
        sender.hooks.graph_changed("w", "g", 2)
        await until(lambda: len(seen) >= 2)
        await sender.hooks.aclose()
        await other.hooks.aclose()
    assert [one["nodesSaved"] for one in seen] == [1, 2]
    assert seen[0]["webhook-id"] != seen[1]["webhook-id"]


async def test_what_happens_at_the_end_of_a_server_is_stored(tmp_path: Path) -> None:
    sender = Sender("http://127.0.0.1:9/gone")
    sender.hooks.run_left("w", run(phase=Phase.COMPLETED, end_reason=EndReason.COMPLETED))
    sender.hooks.graph_changed("w", "g", 1)
    sender.hooks.graph_changed("w", "g", 1)
    await sender.hooks.aclose()
    left = {one["event"]: one["body"].get("nodesSaved") for one in await sender.stored()}
    assert left == {"automation_ended": None, "graph_changed": 2}
    given: dict[str, Any] = {
        "db": address_in(await nba_file(tmp_path)),
        "notify_url": "http://127.0.0.1:9",
    }
    async with service(**given, public_url="https://nodius.example.com/") as running:
        live = await running.state.backend.live.open("default", GRAPH)
        await live.edit("ed", None, rename_sheet, "0", "first")
    async with service(**given) as running, running.as_("al", "admin") as admin:
        [one] = (await admin.get("/api/webhooks")).json()["webhooks"]
    assert (one["event"], one["body"]["link"]) == (
        "graph_changed",
        f"https://nodius.example.com/#graph={GRAPH}",
    )


@pytest.mark.parametrize("status", [301, 401, 403, 404, 410])
async def test_a_receiver_that_is_not_set_up_yet_gets_it_later(status: int) -> None:
    with listening(status, 200) as (url, seen):
        sender = Sender(url)
        sender.hooks.run_left("w", run(phase=Phase.COMPLETED, end_reason=EndReason.COMPLETED))
        assert (await standing(sender, httpStatus=status))["status"] == "waiting"
        assert await sender.again(DELAYS_MS[0]) == 1
        assert [one["status"] for one in await sender.stored()] == ["done"]
        await sender.hooks.aclose()
    assert len(seen) == 2


async def test_during_a_change_of_secrets_a_receiver_that_knows_either_takes_it() -> None:
    with listening(200) as (url, seen):
        sender = Sender(url, notify_secret="the new secret", notify_secret_before="the old secret")
        sender.hooks.run_left("w", run(phase=Phase.COMPLETED, end_reason=EndReason.COMPLETED))
        await standing(sender, status="done")
        await sender.hooks.aclose()
    text = f"{seen[0]['webhook-id']}.{seen[0]['webhook-timestamp']}.{seen[0]['raw']}".encode()
    digests = [hmac.digest(key, text, "sha256") for key in (b"the new secret", b"the old secret")]
    assert seen[0]["webhook-signature"].split() == [
        f"v1,{base64.b64encode(each).decode()}" for each in digests
    ]


async def test_more_than_can_be_tried_at_once_is_stored_and_sent_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(webhooks, "MAX_TRIED", 2)
    with listening(*[200] * 9) as (url, seen):
        sender = Sender(url)
        ended = {"phase": Phase.COMPLETED, "end_reason": EndReason.COMPLETED}
        stored = (
            sender.hooks.run_left("w", run(**ended, last_event_time=number)) for number in range(9)
        )
        assert all(await asyncio.gather(*stored))
        await sender.again(0)
        await until(lambda: len(seen) >= 9)
        await sender.hooks.aclose()
    assert len({one["webhook-id"] for one in seen}) == 9


async def test_the_same_end_of_a_run_is_sent_once() -> None:
    with listening(200) as (url, seen):
        sender = Sender(url)
        ended = run(phase=Phase.COMPLETED, end_reason=EndReason.COMPLETED)
        assert await sender.hooks.run_left("w", ended)
        assert await sender.hooks.run_left("w", ended)
        await standing(sender, status="done")
        await sender.hooks.aclose()
    assert len(seen) == 1


async def test_a_refusal_ends_it_and_nobody_taking_it_for_a_day_does_too() -> None:
    automation = Automation(
        key="au_1", workspace="w", graph_key="g", name="N", user_id="ed", role="editor", seed_id="s"
    )
    with listening(422) as (url, seen):
        sender = Sender(url)
        sender.hooks.paused(automation, "graph_gone")
        refused = await standing(sender, status="refused")
        await sender.hooks.aclose()
    assert (refused["httpStatus"], refused["attempts"]) == (422, 1)
    assert (seen[0]["event"], seen[0]["reason"]) == ("automation_paused", "graph_gone")
    sender = Sender("http://127.0.0.1:9/gone")  # nobody listens there
    sender.hooks.paused(automation, "graph_gone")
    await standing(sender, error="ConnectError")
    for _ in range(6):
        await sender.again(5 * 3_600_000)
    [given_up] = await sender.stored()
    assert (given_up["status"], given_up["error"]) == ("expired", "ConnectError")
    await sender.hooks.aclose()
    Webhooks(WebhookTarget(url=None), sender.records).paused(automation, "graph_gone")


async def test_a_secret_that_is_none_is_refused_at_the_start() -> None:
    with pytest.raises(SettingsError, match="notify_secret"):
        create_app(settings_of(notify_url="http://127.0.0.1:9", notify_secret="whsec_not base64"))


async def test_an_endless_answer_is_not_read_and_an_unforeseen_fault_ends_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        with suppress(ConnectionError):
            while True:
                writer.write(b"10000\r\n" + b"x" * 65_536 + b"\r\n")
                await writer.drain()

    async with await asyncio.start_server(endless, "127.0.0.1", 0) as server:
        sender = Sender(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
        sender.hooks.run_left("w", run(phase=Phase.COMPLETED, end_reason=EndReason.COMPLETED))
        done = await standing(sender, status="done")
        assert done["httpStatus"] == 200
        await sender.hooks.aclose()
    monkeypatch.setattr(webhooks, "LOOK_S", 0.01)
    looked: list[int] = []

    async def fails(self: Webhooks) -> int:
        del self
        looked.append(1)
        raise ValueError("unforeseen")

    monkeypatch.setattr(Webhooks, "send_due", fails)
    sender = Sender("http://127.0.0.1:9/")
    await until(lambda: len(looked) >= 3)
    await sender.hooks.aclose()


async def test_two_servers_send_one_and_another_goes_on_after_a_kill() -> None:
    with listening(500, 200) as (url, seen):
        first = Sender(url)
        first.hooks.run_left("w", run(phase=Phase.COMPLETED, end_reason=EndReason.COMPLETED))
        await standing(first, httpStatus=500)
        await first.hooks.aclose()  # the first is gone
        second = Sender(url, first.records)
        third = Sender(url, first.records)
        for other in (second, third):
            other.now += DELAYS_MS[0]
        await asyncio.gather(*(other.hooks.send_due() for other in (second, third)))
        assert (await standing(first, status="done"))["attempts"] == 2
        await asyncio.gather(second.hooks.aclose(), third.hooks.aclose())
    assert [one["event"] for one in seen] == ["automation_ended"] * 2
    assert seen[0]["endReason"] == "COMPLETED"


async def test_decisions_and_changes_of_a_server_are_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(Webhooks.__init__.__kwdefaults__, "gather_s", 0.05)
    with listening(*[200] * 6) as (url, seen):
        given: dict[str, Any] = {"db": address_in(await nba_file(tmp_path)), "notify_url": url}
        async with service(**given) as running, running.as_() as ed:
            asked = {"graphKey": GRAPH, "message": 'rename error-handler to "Report error"'}
            made = (await ed.post("/api/ai/chat", json=asked)).json()["approvals"][0]
            await ed.post(f"/api/approvals/{made['id']}/decision", json={"verdict": "approve"})
            live = await running.state.backend.live.open("default", GRAPH)
            await live.edit("ed", None, rename_sheet, "0", "first")
            await live.save()
            wanted = {"proposal_decided", "proposals_wait", "graph_changed"}
            await until(lambda: wanted <= {one["event"] for one in seen})
    [decided] = [one for one in seen if one["event"] == "proposal_decided"]
    assert (decided["approvalId"], decided["status"]) == (made["id"], "applied")
    assert "Report error" not in json.dumps(seen)


async def test_admins_see_what_was_sent_and_have_it_sent_again() -> None:
    with listening(422, 200, 422, 200) as (url, seen):
        async with service(notify_url=url) as running, running.as_("al", "admin") as admin:
            hooks = running.state.monitoring.webhooks
            hooks.run_left("default", run(phase=Phase.COMPLETED, end_reason=EndReason.COMPLETED))

            async def shown(status: str) -> dict[str, Any]:
                async with asyncio.timeout(20):
                    while True:
                        answer = (await admin.get("/api/webhooks")).json()
                        if [one["status"] for one in answer["webhooks"]] == [status]:
                            return answer
                        await asyncio.sleep(0.01)

            answer = await shown("refused")
            [one] = answer["webhooks"]
            assert (answer["enabled"], one["httpStatus"], one["body"]["graphKey"]) == (
                True,
                422,
                "g",
            )
            async with running.as_("sam", "admin", "globex") as sam, running.as_() as ed:
                assert (await sam.get("/api/webhooks")).json()["webhooks"] == []
                assert (await sam.post(f"/api/webhooks/{one['id']}/retry")).status_code == 404
                assert (await ed.get("/api/webhooks")).status_code == 403
            again = (await admin.post(f"/api/webhooks/{one['id']}/retry")).json()
            assert again["status"] == "waiting"
            await shown("done")
    assert [each["webhook-id"] for each in seen] == [one["id"]] * 2


async def test_an_admin_has_all_that_did_not_arrive_sent_again_at_once() -> None:
    with listening(*[422] * 3, *[200] * 3) as (url, seen):
        async with service(notify_url=url) as running, running.as_("al", "admin") as admin:
            for number in range(3):
                ended = run(
                    phase=Phase.COMPLETED, end_reason=EndReason.COMPLETED, last_event_time=number
                )
                running.state.monitoring.webhooks.run_left("default", ended)

            async def all_are(status: str) -> None:
                async with asyncio.timeout(20):
                    while True:
                        listed = (await admin.get("/api/webhooks")).json()["webhooks"]
                        if [one["status"] for one in listed] == [status] * 3:
                            return
                        await asyncio.sleep(0.01)

            await all_are("refused")
            async with running.as_("sam", "admin", "globex") as sam, running.as_() as ed:
                assert (await sam.post("/api/webhooks/retry")).json() == {"count": 0}
                assert (await ed.post("/api/webhooks/retry")).status_code == 403
            assert (await admin.post("/api/webhooks/retry")).json() == {"count": 3}
            await all_are("done")
            assert (await admin.post("/api/webhooks/retry")).json() == {"count": 0}
    assert sorted(each["webhook-id"] for each in seen[:3]) == sorted(
        each["webhook-id"] for each in seen[3:]
    )


def test_ended_runs_and_times_are_counted() -> None:
    metrics = Metrics()
    metrics.run_left(run(phase=Phase.WAITING_VALIDATION, waiting=WAITS))
    ended = {"started_time": 4_000, "scheduled_time": 1_000, "ended_time": 9_000}
    metrics.run_left(run(phase=Phase.COMPLETED, end_reason=EndReason.ERROR, **ended))
    metrics.count("occurrences", "unchanged")
    text = metrics.text().decode()
    assert 'nodius_sessions_total{kind="automation",reason="ERROR"} 1.0' in text
    assert "nodius_session_start_delay_seconds_sum 3.0" in text
    assert 'nodius_occurrences_total{result="unchanged"} 1.0' in text


async def test_a_time_at_which_no_server_ran_is_told_once_by_whichever_server_comes(
    tmp_path: Path,
) -> None:
    given: dict[str, Any] = {
        "db": address_in(await nba_file(tmp_path)),
        "notify_url": "http://127.0.0.1:9",
        "automations_at_once": 0,
    }
    draft = {"graphKey": GRAPH, "name": "Nightly", "message": "Check", "cron": "0 2 * * *"}
    async with service(**given) as running, running.as_("al", "admin") as admin:
        made = (await admin.post("/api/automations", json=draft)).json()
    missed = made["nextTime"] - 86_400_000 * 2
    async with open_database(given["db"], "default") as database:
        store = Automations(database.records("default"), workspace="default")
        await store.update(made["id"], lambda one: one.model_copy(update={"next_time": missed}))
    async with service(**given) as one, service(**given) as other:
        for each in (one, other):
            await each.state.backend.scheduler.tick()
        async with one.as_("al", "admin") as admin:
            told = (await admin.get("/api/webhooks")).json()["webhooks"]
            counted = [each.state.monitoring.metrics.text().decode() for each in (one, other)]
    assert [(hook["event"], hook["body"]["scheduledTime"]) for hook in told] == [
        ("automation_late", missed)
    ]
    assert "nodius_automations_due 1.0" in counted[0]
    assert sum("nodius_occurrences_late_total 1.0" in text for text in counted) == 1
