"""The client against the real service, and against what is none."""

from typing import Any

import httpx2
import pytest

from graphrag.client.rest import NodiusClient, ServiceError, ServiceUnreachable
from tests.support.scripted_provider import Says, ScriptedProvider, call
from tests.support.service import CHANGE, GRAPH, Service, service, token


def client(running: Service, role: str = "editor", *, user: str = "ed") -> NodiusClient:
    transport = httpx2.ASGITransport(app=running.app, client=("127.0.0.1", 1))
    return NodiusClient("http://127.0.0.1:8426", token=token(user, role), transport=transport)


async def chat(ed: NodiusClient, message: str, **more: str) -> dict[str, Any]:
    return await ed.post("ai", "chat", body={"graphKey": GRAPH, "message": message, **more})


async def threads(ed: NodiusClient) -> list[dict[str, Any]]:
    return (await ed.post("ai", "threads", body={}))["threads"]


async def test_a_whole_story_from_question_to_undo() -> None:
    with ScriptedProvider(
        "Hello.", Says(calls=[call("propose_update_node", CHANGE)]), "Done."
    ) as provider:
        async with service(provider) as running, client(running) as ed:
            assert (await ed.get("me"))["userId"] == "ed"
            first = await chat(ed, "hello")
            waits = await chat(ed, "warn", threadId=first["threadId"])
            assert waits["type"] == "interrupt"
            [listed] = (await ed.get("approvals", status="pending"))["approvals"]
            assert listed["id"] == waits["approvals"][0]["id"]
            decided = {"threadId": first["threadId"], "approved": True, "feedback": None}
            assert (await ed.post("ai", "resume", body=decided))["message"] == "Done."
            nodes = {n["_key"]: n for n in (await ed.get("graphs", GRAPH, "nodes"))["nodes"]}
            assert nodes["error-handler"]["data"]["level"] == "warning"
            assert (await ed.post("graphs", GRAPH, "undo", body={}))["undoes"] == listed["id"]
            assert (await ed.get("approvals", listed["id"]))["undoneBy"]
            assert [t["threadId"] for t in await threads(ed)] == [first["threadId"]]
            assert (await ed.get("usage"))["threads"] == 1
            assert (await ed.get("ai", "thread", first["threadId"], "messages"))[
                "conversationHistory"
            ]
            await ed.delete("ai", "thread", first["threadId"])
            assert await threads(ed) == []


async def test_graphs_are_exported_and_imported() -> None:
    async with service() as running, client(running) as ed:
        raw = (await ed.send("GET", "graphs", GRAPH, "export")).content
        answer = await ed.send("POST", "graphs", "import", body=raw, graphKey="a copy with #signs?")
        made = answer.json()
        assert made["action"] == "created"
        assert made["graphKey"].startswith("a copy with #signs?-")
        assert [g["graphKey"] for g in (await ed.get("graphs"))["graphs"]] == [
            made["graphKey"],
            GRAPH,
        ]
        edges = (await ed.get("graphs", made["graphKey"], "edges"))["edges"]
        assert len(edges) == (await ed.get("graphs", GRAPH))["edges"]


@pytest.mark.parametrize("key", ["a/b", "a\\b", "a%2Fb", " a", "a\x01b"])
async def test_a_key_that_no_address_can_name_makes_no_graph(key: str) -> None:
    async with service() as running, client(running) as ed:
        raw = (await ed.send("GET", "graphs", GRAPH, "export")).content
        with pytest.raises(ServiceError) as refused:
            await ed.send("POST", "graphs", "import", body=raw, graphKey=key)
        assert refused.value.status == 422
        assert "key" in str(refused.value)
        assert [g["graphKey"] for g in (await ed.get("graphs"))["graphs"]] == [GRAPH]


async def test_a_refusal_carries_what_the_service_said() -> None:
    async with service(rate_limit=1) as running, client(running) as ed:
        with pytest.raises(ServiceError, match="nope") as caught:
            await ed.get("graphs", "nope")
        assert (caught.value.status, caught.value.code, caught.value.retryable) == (
            404,
            "not_found",
            False,
        )
        await chat(ed, "hello")
        with pytest.raises(ServiceError) as limited:
            await chat(ed, "hello")
        assert limited.value.retryable
        assert limited.value.retry_after_s


async def test_an_address_that_is_not_this_service_is_an_error_of_its_own() -> None:
    def proxy(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(502 if request.url.path == "/api/me" else 200, text="<html>")

    async with NodiusClient(transport=httpx2.MockTransport(proxy)) as lost:
        with pytest.raises(ServiceError) as caught:
            await lost.get("me")
        assert (caught.value.code, caught.value.retryable) == ("unknown", True)
        with pytest.raises(ServiceError, match="malformed"):
            await lost.get("graphs")
    async with NodiusClient("http://127.0.0.1:9") as nobody:
        with pytest.raises(ServiceUnreachable, match=r"127\.0\.0\.1:9"):
            await nobody.get("me")
