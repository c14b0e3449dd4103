"""What a turn does as spans of OpenTelemetry: the SDK is real; in memory, and sent by a server
of its own.
"""

import asyncio
import gzip
import json
import signal
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from websockets.asyncio.client import connect

from datasources import store_spans
from datasources.base import Record
from graphrag.agent import assistant, turn_trace
from graphrag.agent.turn_trace import KIND, TURNS, Traces, TurnTrace
from graphrag.app.databases import open_database
from graphrag.llm.errors import ModelUnauthorized
from graphrag.retrieval.retrieval_result import TOP_HITS
from tests.server.test_two_servers import EVENTS, a_process, opened, streamed
from tests.support.chosen_database import address_in
from tests.support.scripted_http import Answer, ScriptedServer
from tests.support.scripted_provider import Asked, Says, ScriptedProvider, call
from tests.support.served import served
from tests.support.service import CHANGE, GRAPH, answered, token

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACEPARENT = f"00-{TRACE}-{PARENT}-01"
ASKED = {"graphKey": GRAPH, "message": "Who logs errors with sk-abcdefghijklmnopqrstuvwxyz123456?"}
STEPS = (Says(calls=[call("read_node_detail", {"nodeKey": "fetch-api"})]), "It is logged.")


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    for module in (turn_trace, store_spans):
        monkeypatch.setattr(module, "_TRACER", provider.get_tracer("nodius-graphrag"))
    yield exporter
    provider.shutdown()


def operation(span: ReadableSpan) -> str:
    return str((span.attributes or {}).get("gen_ai.operation.name", ""))


def of(spans: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    return [span for span in spans.get_finished_spans() if operation(span) == name]


async def test_a_turn_is_a_tree_of_spans_under_the_request_that_asks(
    spans: InMemorySpanExporter,
) -> None:
    async with answered(*STEPS) as (ed, _, _):
        answer = await ed.post("/api/ai/chat", json=ASKED, headers={"traceparent": TRACEPARENT})
        thread = answer.json()["threadId"]
        shown = (await ed.get(f"/api/ai/thread/{thread}/trace")).json()["turns"][0]["spans"]
    (turn,) = of(spans, "invoke_agent")
    assert (f"{turn.context.trace_id:032x}", f"{turn.parent.span_id:016x}") == (TRACE, PARENT)
    assert (turn.attributes or {})["gen_ai.conversation.id"] == thread
    made = [span for span in spans.get_finished_spans() if operation(span)]
    assert [operation(span) for span in made] == [span["operation"] for span in shown], (
        "the page's own"
    )
    assert {span.parent.span_id for span in made if span.parent and span is not turn} == {
        turn.context.span_id
    }
    (called,) = of(spans, "execute_tool")
    assert (called.attributes or {})["gen_ai.tool.name"] == "read_node_detail"
    (found,) = of(spans, "retrieval")
    documents = json.loads(str((found.attributes or {})[turn_trace.DOCUMENTS]))
    assert documents[0].keys() == {"id", "score"}
    asked = of(spans, "chat")
    assert [(span.attributes or {})["gen_ai.usage.input_tokens"] for span in asked] == [100, 100]
    assert all(
        turn.start_time <= span.start_time <= span.end_time <= turn.end_time for span in asked
    )
    stores = [
        span for span in spans.get_finished_spans() if "db.system.name" in (span.attributes or {})
    ]
    assert {span.context.trace_id for span in stores} <= {turn.context.trace_id}


async def test_the_handshake_of_a_websocket_names_the_trace_of_its_turns(
    spans: InMemorySpanExporter,
) -> None:
    async with ScriptedProvider("It is logged.") as model, served(model) as running:
        url = running.address.replace("http", "ws", 1) + "/ws"
        headers = {"traceparent": TRACEPARENT}
        async with connect(url, additional_headers=headers, proxy=None) as connection:
            await connection.send(json.dumps({"type": "authenticate", "_id": 1, "token": token()}))
            await connection.send(json.dumps({"type": "ai:chat", "_id": 2, **ASKED}))
            async for message in connection:
                if json.loads(message)["type"] == "ai:complete":
                    break
    (turn,) = of(spans, "invoke_agent")
    assert f"{turn.context.trace_id:032x}" == TRACE


async def test_texts_are_recorded_only_where_that_is_asked_for_and_without_secrets(
    spans: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    for captured in (False, True):
        monkeypatch.setenv(turn_trace.CAPTURE, str(captured).lower())
        spans.clear()
        async with answered(*STEPS) as (ed, _, _):
            await ed.post("/api/ai/chat", json=ASKED)
        recorded = " ".join(span.to_json() for span in spans.get_finished_spans())
        assert ("Who logs errors" in recorded) is captured
        assert ("gen_ai.tool.call.arguments" in recorded) is captured
        assert "sk-abcdefghijklmnopqrstuvwxyz123456" not in recorded


async def test_what_fails_and_what_waits_ends_its_spans(spans: InMemorySpanExporter) -> None:
    denied = ModelUnauthorized(provider="scripted", reason="no key")
    steps = (Says(calls=[call("propose_update_node", CHANGE)]), "Done.", denied)
    async with answered(*steps) as (ed, _, _):
        waits = (await ed.post("/api/ai/chat", json=ASKED)).json()
        await ed.post("/api/ai/resume", json={"threadId": waits["threadId"], "approved": True})
        await ed.post("/api/ai/chat", json=ASKED)
    turns = of(spans, "invoke_agent")
    assert [turn.status.is_ok for turn in turns] == [True, True, False]
    assert [turn.status.status_code.name for turn in turns] == ["UNSET", "UNSET", "ERROR"]


async def test_a_turn_that_cannot_begin_and_a_statement_that_fails_end_their_spans(
    spans: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(*_: Any) -> None:
        with store_spans.traced("sqlite", "read"):
            await asyncio.sleep(0.01)
            raise RuntimeError("no")

    monkeypatch.setattr(assistant.GraphAssistant, "open", fails)
    async with answered() as (ed, _, _):
        assert (await ed.post("/api/ai/chat", json=ASKED)).status_code == 500
    (turn,) = of(spans, "invoke_agent")
    (read,) = [span for span in spans.get_finished_spans() if span.name == "read sqlite"]
    assert [span.status.status_code.name for span in (turn, read)] == ["ERROR", "ERROR"]
    assert read.parent.span_id == turn.context.span_id


async def test_without_a_collector_nothing_is_recorded() -> None:
    async with answered("Yes.") as (ed, _, _):
        await ed.post("/api/ai/chat", json=ASKED)
    assert not turn_trace.TurnTrace().span.is_recording()


class Collector(ThreadingHTTPServer):
    """Takes spans as an OpenTelemetry collector does."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Taking)
        self.spans: list[Span] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Taking(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        sent = ExportTraceServiceRequest.FromString(body)
        collector = cast(Collector, self.server)
        collector.spans += [
            span
            for each in sent.resource_spans
            for scope in each.scope_spans
            for span in scope.spans
        ]
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as made:
        threading.Thread(
            target=made.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        ).start()
        yield made
        made.shutdown()


@pytest.mark.slow
async def test_a_server_sends_its_spans_and_hands_the_context_on(
    collector: Collector, file: Path
) -> None:
    given = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.address}
    with ScriptedServer() as model:
        model.play(Answer(pieces=streamed("It is logged."), headers=EVENTS))
        async with a_process(address_in(file), model.url, environment=given) as (process, port):
            async with await opened(port) as connection:  # it answers
                await connection.close()
            address = f"http://127.0.0.1:{port}"
            async with httpx2.AsyncClient(base_url=address, trust_env=False, timeout=60) as http:
                headers = {"traceparent": TRACEPARENT, "baggage": "user.email=ann@example.org"}
                await http.post("/api/ai/chat?token=SECRETQ", json=ASKED, headers=headers)
                transport = streamable_http_client(f"{address}/mcp", http_client=http)
                async with Client(transport, mode="2026-07-28") as mcp:
                    meta: Any = {"traceparent": TRACEPARENT.replace("4bf9", "5bf9", 1)}
                    arguments = {"graphKey": GRAPH, "nodeKey": "fetch-api"}
                    found = await mcp.call_tool("read_node_detail", arguments, meta=meta)
                    assert not found.is_error
            process.send_signal(signal.SIGTERM)
            await asyncio.wait_for(process.wait(), 60)
        sent = model.requests[-1].headers["traceparent"]
        assert "baggage" not in model.requests[-1].headers
    turn = next(span for span in collector.spans if span.name == "invoke_agent")
    assert turn.trace_id.hex() == TRACE
    assert sent.split("-")[1:3] == [TRACE, turn.span_id.hex()], (
        "the model's server gets the context"
    )
    stores = [span for span in collector.spans if span.name.endswith(" sqlite")]
    assert turn.trace_id in {span.trace_id for span in stores}
    called = [span for span in collector.spans if span.name == "tools/call read_node_detail"]
    assert [span.trace_id.hex() for span in called] == [TRACE.replace("4bf9", "5bf9", 1)]
    assert "sk-abc" not in str(collector.spans)
    assert "SECRETQ" not in str(collector.spans)


READS = Says(calls=[call("read_node_detail", {"node_key": "fetch-api"})])
CHANGES = Says(
    calls=[
        call(
            "propose_update_node",
            {"nodeKey": "fetch-api", "changes": {"data.name": "Players"}, "reason": "r"},
        )
    ]
)


async def test_a_turn_is_traced_over_its_wait_and_seen_by_owner_and_admins_alone() -> None:
    async with (
        answered(READS, CHANGES, "Done.") as (ed, running, _),
        running.as_("al", "admin") as admin,
    ):
        asked = {"graphKey": GRAPH, "message": "Rename the fetching, please"}
        waits = (await ed.post("/api/ai/chat", json=asked)).json()
        path = f"/api/ai/thread/{waits['threadId']}"
        await ed.post("/api/ai/resume", json={"threadId": waits["threadId"], "approved": True})
        traced = await ed.get(f"{path}/trace")
        [turn] = traced.json()["turns"]
        spans = turn["spans"]
        names = [span["operation"] for span in spans]
        assert names == [
            *(
                "embeddings",
                "retrieval",
                "chat",
                "execute_tool",
                "chat",
                "execute_tool",
                "invoke_agent",
            ),
            *("chat", "invoke_agent"),
        ]
        [found] = [span["attributes"] for span in spans if span["operation"] == "retrieval"]
        assert found["query"] == asked["message"]
        assert found["nodes"][0]["score"] > 0
        assert found["nodes"][0]["reasons"]
        assert spans[5]["attributes"]["approvalId"] == waits["approvals"][0]["id"]
        assert spans[2]["attributes"]["inputTokens"] > 0
        by = {one["name"]: one for one in found["searches"]}
        assert by["text"]["hits"] == len(by["text"]["best"]) or len(by["text"]["best"]) == TOP_HITS
        assert found["stages"]["search"] > 0
        assert spans[3]["attributes"]["result"].startswith("_key: fetch-api")
        assert [spans[6]["attributes"]["status"], spans[8]["attributes"]["status"]] == [
            "waiting",
            "idle",
        ]
        assert spans[8]["attributes"]["answer"].endswith("Done.")
        assert turn["question"] == asked["message"]
        [brief] = (await ed.get(f"{path}/trace?brief=true")).json()["turns"]
        assert brief == {**turn, "spans": [], "context": []}
        assert (await ed.get(f"{path}/trace?turn=1")).json() == traced.json()
        assert (await ed.get(f"{path}/trace?turn=2")).json()["turns"] == []
        for wrong in ("turn=0", "turn=99999999999", "turn=x", "brief=perhaps"):
            assert (await ed.get(f"{path}/trace?{wrong}")).status_code == 422
        assert turn["context"][0]["role"] == "system"
        assert asked["message"] in turn["context"][-1]["text"]
        assert (await admin.get(f"{path}/trace")).json() == traced.json()
        for user, workspace in (("eve", "default"), ("eve", "other")):
            async with running.as_(user, "reviewer", workspace) as other:
                assert (await other.get(f"{path}/trace")).status_code == 404
        async with running.as_("sam", "admin", "other") as stranger:
            assert (await stranger.get(f"{path}/trace")).status_code == 404
            assert (await stranger.get("/api/usage?by=person")).json()["groups"] == []
        for by, name in (
            ("person", "ed"),
            ("graph", GRAPH),
            ("day", time.strftime("%Y-%m-%d", time.gmtime())),
        ):
            [group] = (await admin.get("/api/usage", params={"by": by})).json()["groups"]
            assert (group["name"], group["calls"]) == (name, 3)
            assert (group["questions"], group["decisions"]) == (1, 1)
            assert group["totalTokens"] > 0
            assert (await ed.get("/api/usage", params={"by": by})).json()["groups"] == [group]
        for days in (0, 91, "x"):
            assert (
                await ed.get("/api/usage", params={"by": "day", "days": days})
            ).status_code == 422
        async with running.as_("vic", "viewer") as viewer:
            assert (await viewer.get("/api/usage?by=person")).json()["groups"] == []
        await ed.delete(path)
        records = running.state.backend.shared.database.records("default")
        assert await records.query(KIND) == []


async def test_parts_of_a_trace_are_bounded() -> None:
    long = "é" * 9_000
    async with answered(Says(calls=[call("search_nodes", {"query": long})]), long) as (ed, _, _):
        done = (await ed.post("/api/ai/chat", json={"graphKey": GRAPH, "message": "hi"})).json()
        [turn] = (await ed.get(f"/api/ai/thread/{done['threadId']}/trace")).json()["turns"]
    facts = {span["operation"]: span["attributes"] for span in turn["spans"]}
    assert len(facts["execute_tool"]["arguments"]) == turn_trace.MAX_ARGUMENT_CHARS
    assert len(facts["execute_tool"]["result"]) <= turn_trace.MAX_RESULT_CHARS
    assert len(facts["invoke_agent"]["answer"]) == turn_trace.MAX_ANSWER_CHARS
    assert facts["invoke_agent"]["answerChars"] == len(long)


@pytest.mark.parametrize("days", [0, 30])
async def test_nothing_is_noted_where_it_is_switched_off(days: int) -> None:
    async with answered("Hello.", trace_days=days) as (ed, _, _):
        done = (await ed.post("/api/ai/chat", json={"graphKey": GRAPH, "message": "hi"})).json()
        path = f"/api/ai/thread/{done['threadId']}/trace"
        assert len((await ed.get(path)).json()["turns"]) == bool(days)


@pytest.mark.slow
async def test_what_is_kept_is_bounded_by_count_age_and_size(db_url: str) -> None:
    async with open_database(db_url, "w") as database:
        await _bounded(database.records("w"))


async def _bounded(db_records: Any) -> None:
    traces = Traces(db_records, days=2)
    now = turn_trace.now_ms()
    facts = {"threadId": "t", "graphKey": "g", "userId": "u"}

    async def keep(turn: int, **more: Any) -> None:
        trace = TurnTrace(traces)
        for _ in range(1_000):
            trace.add("execute_tool", "x", 1.0)
        await traces.keep({**facts, "turn": turn, "time": now, **more}, trace)

    old = {**facts, "threadId": "old", "turn": 1, "time": now - 3 * turn_trace.DAY_MS, "spans": []}
    for number in range(2 * turn_trace.AT_ONCE + 1):
        await db_records.put(
            Record(kind=KIND, key=f"old/{number:06}", data=old), expected_version=None
        )
    for turn in range(1, TURNS + 4):
        await keep(turn)
    await keep(TURNS + 3)  # it waited, and went on
    turns = await traces.of_thread("t")
    assert [one["turn"] for one in turns] == list(range(4, TURNS + 4))
    assert {len(one["spans"]) for one in turns} == {turn_trace.MAX_SPANS}
    assert await traces.of_thread("old") == []
    assert [turn.calls async for turn in traces.turns(0)] == [[]] * TURNS
    chat = TurnTrace(traces)
    chat.add("chat", "chat m", 1.0, model="m")
    for number in range(21):
        more = {"threadId": f"c{number}", "turn": 2, "time": now + 1 + number // 3}
        await traces.keep({**facts, **more}, chat)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(turn_trace, "PAGE", 5)
        assert len([turn async for turn in traces.turns(now + 1)]) == 21


async def test_of_a_conversation_that_is_deleted_while_it_is_answered_nothing_stays() -> None:
    held = asyncio.Event()
    is_asked = asyncio.Event()

    def answer(_: Asked) -> Says:
        is_asked.set()
        return Says(text="Of numbats.", held=held)

    async with answered(answer) as (ed, running, _):
        body = {"graphKey": GRAPH, "message": "What of the secret numbat?"}
        asking = asyncio.create_task(ed.post("/api/ai/chat", json=body))
        await asyncio.wait_for(is_asked.wait(), 60)
        [thread] = (await ed.post("/api/ai/threads", json={})).json()["threads"]
        assert (await ed.delete(f"/api/ai/thread/{thread['threadId']}")).status_code == 200
        held.set()
        await asking
        records = (await running.state.services("default")).approvals.records
        assert await records.query(KIND) == []


@pytest.fixture(params=["memory", "sqlite", "arango"])
def db_url(request: pytest.FixtureRequest, tmp_path: Any) -> str:
    urls = {"memory": "memory:", "sqlite": address_in(tmp_path / "n.db")}
    return urls.get(request.param) or request.getfixturevalue("arango_address")
