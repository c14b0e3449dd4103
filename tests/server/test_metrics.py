"""What a scrape tells after a story: everything that happened is counted, under labels
that are bounded.
"""

import asyncio
import json
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families
from websockets.asyncio.client import connect

from datasources.base import RecordStore
from graphrag.app.wiring import LOCAL_USER
from graphrag.llm.base import UsageReport
from graphrag.roles import Person
from server.housekeeping import BEAT_S, LATE_S
from server.metrics import MAX_AGENTS
from server.write_probe import WriteProbe
from tests.server.test_two_servers import prepared
from tests.server.test_ws_sync import move
from tests.support.arango import ArangoServer
from tests.support.scripted_provider import Asked, Says, ScriptedProvider, call
from tests.support.served import Served, served
from tests.support.service import CHANGE, GRAPH, error_of, replace_part, service, token
from tests.support.waiting import drained, until
from tests.support.ws_server import Client as Socket

LABELS = {
    *("method", "route", "status", "kind", "provider", "model", "direction", "tool"),
    *("error", "ending", "ok", "le", "why"),
}
"""None of them can name a person, a workspace, a graph or a thread."""


def counted(running: Served) -> dict[tuple[str, ...], float]:
    """Return every sample by its name and the values of its labels."""
    found: dict[tuple[str, ...], float] = {}
    for family in text_string_to_metric_families(running.state.monitoring.metrics.text().decode()):
        for sample in family.samples:
            assert set(sample.labels) <= LABELS, sample
            found[(sample.name, *(v for k, v in sorted(sample.labels.items()) if k != "le"))] = (
                sample.value
            )
    return found


async def test_a_scrape_after_a_story_counts_all_of_it() -> None:
    changes = [Says(calls=[call("propose_update_node", CHANGE)]), "Done."]
    looks = Says(calls=[call("read_graph_overview"), call("made_up_tool")])
    with ScriptedProvider(looks, *changes) as model:
        async with (
            served(model, auth_secret=None, rate_limit=0) as running,
            connect(f"ws://127.0.0.1:{running.port}/ws", proxy=None) as connection,
        ):
            ed = Socket(connection)
            pending = (await ed.talk("ai:chat", _id=1, graphKey=GRAPH, message="let it warn"))[-1]
            approval = json.loads(pending["fullText"])["approvals"][0]["id"]
            decided = {"threadId": pending["threadId"], "approved": True, "approvalId": approval}
            assert (await ed.talk("ai:resume", _id=2, **decided))[-1]["type"] == "ai:complete"
            await ed.ask(
                "registerUserOnGraph", _id=3, name="e", sheetId="0", graphKey=GRAPH, fromTimestamp=0
            )
            for number in range(3):
                edit = [move("root", number + 1)]
                await ed.ask("applyInstructionToGraph", _id=10 + number, instructions=edit)
            await ed.ask("applyInstructionToGraph", _id=20, instructions=[move("nowhere", 1)])
            await ed.ask("forceSave", _id=21)
            services = await running.state.services("default")
            await services.approvals.undo(GRAPH, by=Person(LOCAL_USER, "admin", "default"))
            found = counted(running)
    assert found["nodius_approval_decisions_total", "applied"] == 1
    assert found["nodius_approval_decisions_total", "undone"] == 1
    assert found["nodius_live_journalled_total", "true"] == 3
    assert found["nodius_live_journal_seconds_count",] >= 1
    assert found["nodius_live_saves_total", "true"] == 1
    assert found["nodius_live_save_seconds_count",] == 1
    assert found["nodius_live_edits_total", "applyInstructionToGraph", "true"] == 3
    assert found["nodius_live_edits_total", "applyInstructionToGraph", "false"] == 1
    assert found["nodius_proposals_total",] == 1
    assert found["nodius_turns_running",] == 0
    assert found["nodius_retrieval_seconds_count",] >= 1
    assert found["nodius_tool_calls_total", "true", "other"] == 1
    assert sum(v for k, v in found.items() if k[0] == "nodius_tool_calls_total") >= 2
    assert found["nodius_tool_seconds_count", "read_graph_overview"] == 1
    assert found["nodius_tool_refused_total", "unknown_tool"] == 1
    assert sum(v for k, v in found.items() if k[0] == "nodius_model_calls_total") >= 3


async def test_tokens_are_counted_by_model_and_so_are_those_of_a_cache() -> None:
    usages = [
        UsageReport(prompt=300, completion=20, cached=200),
        UsageReport(prompt=40, completion=2),
    ]
    with ScriptedProvider(*(Says(text="Yes.", usage=usage) for usage in usages)) as model:
        async with (
            served(model, auth_secret=None, rate_limit=0) as running,
            connect(f"ws://127.0.0.1:{running.port}/ws", proxy=None) as connection,
        ):
            ed = Socket(connection)
            for number in (1, 2):
                await ed.send("ai:chat", _id=number, graphKey=GRAPH, message=f"question {number}")
                assert (await ed.turn(number))[-1]["type"] == "ai:complete"
            found = counted(running)
    tokens = {
        k[1:]: v
        for k, v in found.items()
        if k[0] == "nodius_model_tokens_total" and k[3] == "scripted"
    }
    assert tokens == {
        ("prompt", "script-1", "scripted"): 340,
        ("completion", "script-1", "scripted"): 22,
        ("cached", "script-1", "scripted"): 200,
    }


async def test_what_is_embedded_in_the_background_and_what_waits_is_counted() -> None:
    async with (
        service(embeddings="local") as running,
        running.as_() as ed,
        running.as_("ad", "admin") as ad,
    ):
        sample = (await ed.get(f"/api/graphs/{GRAPH}/export")).json()
        await ed.post("/api/graphs/import", params={"graphKey": "copy"}, json=sample)
        await drained(running.state.backend.shared.embedding_queue)
        text = (await ad.get("/metrics")).text
        assert 'nodius_embedded_nodes_total{outcome="embedded"} 9.0' in text
        assert "nodius_embedding_pending 0.0" in text
        rows = (await ed.get("/api/graphs")).json()["graphs"]
        assert sorted(row["embedded"] for row in rows) == [0, 9]


async def test_calls_are_counted_by_agent_and_state_under_labels_that_are_bounded() -> None:
    async with service() as running:
        metrics = running.state.monitoring.metrics
        for number in range(MAX_AGENTS + 5):
            metrics.state(f"call-{number}", f"agent-{number}", "ringing")
        metrics.state("call-0", "agent-0", "active")
        metrics.state("call-1", "agent-1", None)
        metrics.state("call-1", "agent-1", None)
        metrics.state("of another server", "agent-0", None)
        metrics.counted("voice_errors", code="token")
        metrics.counted("voice_errors", code="token", agent_id="agent-0")
        for number in range(1_000):
            metrics.counted("voice_errors", code=f"made-up-{number}")
        metrics.counted("voice_marks_overdue", 3, agent_id="agent-0")
        metrics.counted("voice_turn_seconds", 0.7, agent_id="agent-made-up")
        metrics.counted("made_up")
        text = metrics.text().decode()
    for line in (
        'nodius_voice_calls{agent="agent-0",state="active"} 1.0',
        'nodius_voice_calls{agent="agent-0",state="ringing"} 0.0',
        'nodius_voice_calls{agent="agent-1",state="ringing"} 0.0',
        'nodius_voice_calls{agent="other",state="ringing"} 5.0',
        'nodius_voice_errors_total{agent="",code="token"} 1.0',
        'nodius_voice_errors_total{agent="agent-0",code="token"} 1.0',
        'nodius_voice_errors_total{agent="",code="other"} 951.0',
        'nodius_voice_marks_overdue_total{agent="agent-0"} 3.0',
        'nodius_voice_turn_seconds_sum{agent="other"} 0.7',
    ):
        assert line in text, line
    assert "made_up" not in text


async def test_a_late_event_loop_is_counted() -> None:
    async with service() as running:
        await asyncio.sleep(0)
        time.sleep(LATE_S + 3 * BEAT_S)  # noqa: ASYNC251 - somebody computes in the event loop
        metrics = running.state.monitoring.metrics
        await until(lambda: b"nodius_event_loop_late_total 0.0" not in metrics.text())


@contextmanager
def full_disk(file: Path) -> Iterator[None]:
    """Let no file grow beyond what this one has."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (file.stat().st_size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


async def test_a_server_whose_disk_is_full_is_not_ready_until_there_is_room(tmp_path: Path) -> None:
    path = tmp_path / "n.db"
    async with service(db=f"sqlite:{path}") as running, running.client() as monitor:
        replace_part(running.app, "monitoring", write_probe=WriteProbe(every_s=0))
        assert (await monitor.get("/readyz")).status_code == 200
        with full_disk(path.with_name("n.db-wal")):
            answer = await monitor.get("/readyz")
            assert answer.status_code == 503
            assert answer.json() == {"status": "unavailable"}
            assert (await monitor.get("/healthz")).status_code == 200
        assert (await monitor.get("/readyz")).status_code == 200


async def test_however_often_it_is_asked_the_database_is_written_to_seldom() -> None:
    now = 0.0
    async with service() as running:
        records = running.state.backend.shared.database.records("default")
        probe = WriteProbe(every_s=5, clock=lambda: now)

        async def version(store: RecordStore) -> str | None:
            assert await probe.failure(records) == ""
            stored = await store.get("lease", "readyz")
            return stored.version if stored else None

        first = await version(records)
        assert {await version(records) for _ in range(20)} == {first}
        now = 5.0
        assert await version(records) != first


DOWN = 1_000_000


@pytest.fixture
async def db(arango_address: str) -> str:
    await prepared(arango_address)
    return arango_address


async def test_reads_and_a_running_turn_fail_with_503_and_go_on_when_it_is_back(
    db: str, arango: ArangoServer
) -> None:
    asked = asyncio.Event()
    go = asyncio.Event()

    def second(_: Asked) -> Says:
        asked.set()
        return Says(text="Two.", held=go)

    async with ScriptedProvider("One.", second, "Three.") as model, served(model, db=db) as running:
        headers = {"Authorization": f"Bearer {token()}"}
        async with httpx2.AsyncClient(
            base_url=running.address, headers=headers, trust_env=False, timeout=60
        ) as ed:
            body = {"graphKey": GRAPH, "message": "hello"}
            thread = (await ed.post("/api/ai/chat", json=body)).json()["threadId"]
            body["threadId"] = thread
            turn = asyncio.create_task(ed.post("/api/ai/chat", json=body))
            await asked.wait()
            arango.inject("/_api/", "drop", DOWN)
            try:
                refused = error_of(await ed.get(f"/api/graphs/{GRAPH}/nodes"))
                assert (refused["code"], refused["retryable"]) == ("unavailable", True)
                assert arango.place not in refused["message"]
                assert (await ed.get("/readyz")).status_code == 503
                assert (await ed.get("/healthz")).status_code == 200
                go.set()
                broken = error_of(await turn)
                assert broken["retryable"] is True
                assert broken["code"] in ("network", "unavailable", "busy")
                assert arango.place not in broken["message"]
            finally:
                arango.heal()
            again = await ed.post("/api/ai/chat", json=body)
            assert again.json()["message"] == "Three."
            assert (await ed.get(f"/api/graphs/{GRAPH}/nodes")).status_code == 200
