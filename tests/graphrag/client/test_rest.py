"""The client against the real service, and against what is none."""

from __future__ import annotations

import httpx2
import pytest

from graphrag.client.rest import NodiusClient, ServiceError, ServiceUnreachable
from tests.support.each_row import each_row
from tests.support.scripted_provider import Says, ScriptedProvider, call
from tests.support.service import CHANGE, GRAPH, Service, service, token


def client(running: Service, role: str = "editor", *, user: str = "ed") -> NodiusClient:
    transport = httpx2.ASGITransport(app=running.app, client=("127.0.0.1", 1))
    return NodiusClient("http://127.0.0.1:8426", token=token(user, role), transport=transport)


async def test_a_whole_story_from_question_to_undo() -> None:
    with ScriptedProvider("Hello.", Says(calls=[call("propose_update_node", CHANGE)]), "Done.") as provider:
        async with service(provider) as running, client(running) as ed:
            assert (await ed.me())["userId"] == "ed"
            first = await ed.chat(GRAPH, "hello")
            waits = await ed.chat(GRAPH, "warn", threadId=first["threadId"])
            assert waits["type"] == "interrupt"
            [listed] = await ed.approvals(status="pending")
            assert listed["id"] == waits["approvals"][0]["id"]
            assert (await ed.resume(first["threadId"], approved=True))["message"] == "Done."
            level = {n["_key"]: n.get("data") async for n in ed.nodes(GRAPH)}["error-handler"]["level"]
            assert level == "warning"
            assert (await ed.undo(GRAPH))["undoes"] == listed["id"]
            assert (await ed.approval(listed["id"]))["undoneBy"]
            assert [t["threadId"] for t in await ed.threads()] == [first["threadId"]]
            assert (await ed.usage())["threads"] == 1
            assert (await ed.thread_messages(first["threadId"]))["conversationHistory"]
            await ed.delete_thread(first["threadId"])
            assert await ed.threads() == []


async def test_a_reviewer_decides_and_reads_the_audit_log() -> None:
    steps = [Says(calls=[call("propose_update_node", CHANGE)]) for _ in range(2)]
    with ScriptedProvider(*steps) as provider:
        async with (
            service(provider) as running,
            client(running) as ed,
            client(running, "reviewer", user="rev") as rev,
        ):
            await ed.chat(GRAPH, "one")
            await ed.chat(GRAPH, "two")
            one, two = await rev.approvals()
            assert (await rev.reject(one["id"], feedback="no"))["status"] == "rejected"
            assert (await rev.approve(two["id"]))["status"] == "applied"
            assert [entry["event"] for entry in await rev.audit(graphKey=GRAPH)] == ["applied", "rejected"]


async def test_graphs_are_exported_and_imported() -> None:
    async with service() as running, client(running) as ed:
        raw = await ed.export_graph(GRAPH)
        made = await ed.import_graph(raw, graphKey="a copy with #signs?")
        assert made["action"] == "created"
        assert made["graphKey"].startswith("a copy with #signs?-")
        assert [g["graphKey"] for g in await ed.graphs()] == [made["graphKey"], GRAPH]
        assert len([e async for e in ed.edges(GRAPH)]) == (await ed.graph(GRAPH))["edges"]


@each_row("key", ["a/b", "a\\b", "a%2Fb", " a", "a\x01b"])
async def test_a_key_that_no_address_can_name_makes_no_graph(key: str) -> None:
    async with service() as running, client(running) as ed:
        raw = await ed.export_graph(GRAPH)
        with pytest.raises(ServiceError) as refused:
            await ed.import_graph(raw, graphKey=key)
        assert refused.value.status == 422
        assert "key" in str(refused.value)
        assert [g["graphKey"] for g in await ed.graphs()] == [GRAPH]


async def test_a_graph_is_looked_at_whole_and_nobody_edits_it() -> None:
    async with service() as running, client(running) as ed:
        seen = await ed.view(GRAPH)
        assert (seen["graph"]["_key"], seen["timestamp"]) == (GRAPH, 0)
        detail = await ed.graph(GRAPH)
        assert (len(seen["nodes"]), len(seen["edges"])) == (detail["nodes"], detail["edges"])
        assert set(detail["types"]) <= {shown["type"] for shown in seen["types"]}
        assert await ed.editors(GRAPH) == []
        for lost in (ed.view("nowhere"), ed.editors("nowhere")):
            with pytest.raises(ServiceError) as missing:
                await lost
            assert missing.value.status == 404


async def test_a_refusal_carries_what_the_service_said() -> None:
    async with service(rate_limit=1) as running, client(running) as ed:
        with pytest.raises(ServiceError, match="nope") as caught:
            await ed.graph("nope")
        assert (caught.value.status, caught.value.code, caught.value.retryable) == (404, "not_found", False)
        await ed.chat(GRAPH, "hello")
        with pytest.raises(ServiceError) as limited:
            await ed.chat(GRAPH, "hello")
        assert limited.value.retryable
        assert limited.value.retry_after_s


async def test_an_address_that_is_not_this_service_is_an_error_of_its_own() -> None:
    def proxy(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(502 if request.url.path == "/api/me" else 200, text="<html>")

    async with NodiusClient(transport=httpx2.MockTransport(proxy)) as lost:
        with pytest.raises(ServiceError) as caught:
            await lost.me()
        assert (caught.value.code, caught.value.retryable) == ("unknown", True)
        with pytest.raises(ServiceError, match="malformed"):
            await lost.graphs()
    async with NodiusClient("http://127.0.0.1:9") as nobody:
        with pytest.raises(ServiceUnreachable, match=r"127\.0\.0\.1:9"):
            await nobody.me()
