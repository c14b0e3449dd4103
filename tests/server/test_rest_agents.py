"""Declarative agents over REST: the life of one, the roles, errors by
where, another workspace's.
"""

import asyncio
from typing import Any

import httpx2
import pytest

from tests.graphrag.agents.managing import document
from tests.support.commands import run_command
from tests.support.scripted_http import Answer, ScriptedServer
from tests.support.scripted_provider import Says, ScriptedProvider, call
from tests.support.served import served
from tests.support.service import GRAPH, Service, answered, error_of, service

AT = "/api/agents/helpdesk"
TOOL = {
    "type": "http",
    "method": "POST",
    "url": "https://api.example.com/orders/{{args.number}}",
    "headers": {"Authorization": "Bearer {{secret.KEY}}"},
    "body": {"note": "{{args.note}}", "phone": "{{ctx.phone}}"},
}
WITH_TOOL = {"tools": {"cancel": TOOL}, "secrets": [{"name": "KEY", "hosts": ["api.example.com"]}]}


async def stored(client: httpx2.AsyncClient, **changes: Any) -> dict[str, Any]:
    answer = await client.put(AT, json={"document": document(**changes)})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_an_agent_is_stored_started_changed_rolled_back_and_deleted() -> None:
    async with service() as running, running.as_("ann", "admin") as ann:
        answer = await ann.put(AT, json={"document": document()}, headers={"If-Match": "0"})
        assert (answer.json()["agent"]["state"], answer.json()["agent"]["version"]) == (
            "stopped",
            1,
        )
        assert (await ann.post(f"{AT}/start")).json()["state"] == "running"
        text = 'version: "2.0"\nagent: {id: helpdesk, name: "Desk ${CITY}"}\n'
        text += "session: {mode: inline, instructions: null}\n".replace("null", "Help.")
        body = {
            "document": text,
            "variables": {"CITY": "Paris"},
            "baseUrl": "https://api.example.com",
        }
        two = (await ann.put(AT, json=body, headers={"If-Match": '"1"'})).json()
        assert (two["changed"], two["agent"]["name"], two["agent"]["state"]) == (
            True,
            "Desk Paris",
            "running",
        )
        conflict = error_of(await ann.put(AT, json=body, headers={"If-Match": "1"}))
        assert conflict["code"] == "conflict"
        assert (await ann.put(AT, json=body)).json()["changed"] is False
        detail = (await ann.get(AT)).json()
        assert detail["variables"] == {"CITY": "Paris"}
        assert detail["document"]["base_url"] == "https://api.example.com"
        assert [each["version"] for each in detail["versions"]] == [2, 1]
        assert (await ann.get(AT, params={"version": 1})).json()["document"]["agent"][
            "name"
        ] == "Help desk"
        assert error_of(await ann.get(AT, params={"version": 9}))["code"] == "agent_not_found"
        back = (await ann.post(f"{AT}/rollback", json={"version": 1})).json()
        assert (back["version"], back["name"], back["state"]) == (1, "Help desk", "running")
        assert error_of(await ann.delete(AT))["code"] == "agent_state"
        assert (await ann.post(f"{AT}/stop", json={"now": True})).json()["state"] == "stopped"
        assert (await ann.delete(AT)).json() == {"success": True}
        assert error_of(await ann.get(AT))["code"] == "agent_not_found"
        assert (await ann.get("/api/agents")).json() == {"agents": [], "lists": []}


async def test_every_fault_is_said_at_once_with_its_place() -> None:
    async with service() as running, running.as_("ann", "admin") as ann:
        wrong = {**document(graphs=["nowhere"]), "surprise": 1, "chat": {"temperature": 9}}
        error = error_of(await ann.put(AT, json={"document": wrong}))
        assert (error["code"], {each["where"] for each in error["details"]}) == (
            "invalid_agent",
            {"surprise", "chat.temperature"},
        )
        unused = {"secrets": [{"name": "KEY", "hosts": ["api.example.com"]}]}
        faulty = {"document": document(graphs=["x"], **unused)}
        refused = await ann.post("/api/agents/check", json=faulty)
        error = error_of(refused)
        assert (refused.status_code, error["code"]) == (422, "invalid_agent")
        assert {(each["where"], each["code"]) for each in error["details"]} == {
            ("graphs.0", "graph_not_found"),
            ("secrets.0.name", "secret_missing"),
        }
        assert [each["code"] for each in error["warnings"]] == ["unused_secret"]
        fine = await ann.post("/api/agents/check", json={"document": document()})
        assert (fine.status_code, fine.json()) == (200, {"ok": True, "warnings": []})
        await stored(ann, graphs=[GRAPH, "gone"])
        error = error_of(await ann.post(f"{AT}/start"))
        assert (error["code"], error["details"][0]["where"]) == ("invalid_agent", "graphs.1")
        [shown] = (await ann.get("/api/agents")).json()["agents"]
        assert (shown["state"], shown["health"]) == ("failed", "failed")
        assert shown["problems"][0]["where"] == "graphs.1"
        too_large = await ann.put(AT, json={"document": document(instructions="é" * 200_000)})
        assert error_of(too_large)["code"] == "too_large"
        assert too_large.status_code == 413


@pytest.fixture
def secret(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("NODIUS_SECRET_KEY", "s3cret-of-the-api")
    return "s3cret-of-the-api"


async def test_a_tool_is_tried_dry_and_shows_no_secret(secret: str) -> None:
    async with service() as running, running.as_("ann", "admin") as ann:
        await stored(ann, **WITH_TOOL)
        body = {"args": {"number": "a/b", "note": None}, "ctx": {"phone": "+33"}}
        answer = await ann.post(f"{AT}/tools/cancel/try", json=body)
        assert secret not in answer.text
        [request] = answer.json()["requests"]
        assert (request["method"], request["url"]) == (
            "POST",
            "https://api.example.com/orders/a%2Fb",
        )
        assert request["body"] == {"phone": "+33"}
        assert error_of(await ann.post(f"{AT}/tools/cancel/try", json={}))["code"] == "invalid"
        assert error_of(await ann.post(f"{AT}/tools/other/try", json={}))["code"] == "not_found"
        leak = {"document": document(name="${N}"), "variables": {"N": secret}}
        refused = await ann.put(AT, json=leak)
        assert error_of(refused)["code"] == "invalid_agent"
        assert secret not in refused.text
        other = await ann.put("/api/agents/other", json=leak)
        assert {(each["where"], each["code"]) for each in error_of(other)["details"]} == {
            ("variables.N", "secret_not_allowed_here"),
            ("agent.id", "bad_name"),
        }
        assert [each["id"] for each in (await ann.get("/api/agents")).json()["agents"]] == [
            "helpdesk"
        ]


async def test_a_tool_of_a_document_that_is_not_stored_is_sent_and_shows_request_answer_and_time(
    secret: str,
) -> None:
    with ScriptedServer() as api:
        host = api.url.removeprefix("http://")
        step = {"url": "{{base_url}}/number", "extract": {"n": "$.n"}}
        tool = {
            **TOOL,
            "url": "{{base_url}}/orders/{{pre.n}}",
            "pre_steps": [step],
            "on_success_flags": ["cancelled"],
        }
        given = document(
            base_url=api.url,
            tools={"cancel": tool},
            secrets=[{"name": "KEY", "hosts": [host]}],
        )
        api.play(
            Answer(body={"n": 7}),
            Answer(status=201, body={"said": secret, "none": None, "long": "x" * 20_000}),
        )
        async with (
            service(agent_http_allow=host) as running,
            running.as_("ann", "admin") as ann,
        ):
            body = {"document": given, "tool": "cancel", "args": {}, "ctx": {"phone": "+33"}}
            # Dry, the number that the step would find is missing in the address.
            dry = error_of(await ann.post("/api/agent-trials", json=body))
            assert (dry["code"], api.requests) == ("invalid", [])
            sent = await ann.post("/api/agent-trials", json={**body, "dryRun": False})
            assert secret not in sent.text
            found = sent.json()
            assert (found["ok"], found["status"], found["flags"]) == (True, 201, ["cancelled"])
            first, second = found["requests"]
            assert (first["status"], first["answer"]) == (200, '{"n":7}')
            assert second["url"] == f"{api.url}/orders/7"
            assert second["headers"] == {"Authorization": "Bearer [secret KEY]"}
            assert second["answer"].startswith('{"said":"[secret KEY]","none":null')
            assert len(second["answer"]) <= 16_100
            assert second["ms"] >= 0
            assert api.requests[1].headers["authorization"] == f"Bearer {secret}"
            assert (await ann.get("/api/agents")).json()["agents"] == []


async def test_a_try_is_refused_where_a_call_would_be(secret: str) -> None:
    async with service() as running, running.as_("ann", "admin") as ann:
        closed = document(tools={"look": {"type": "http", "url": "http://127.0.0.1:9/x"}})
        body = {"document": closed, "tool": "look", "dryRun": False}
        [request] = (await ann.post("/api/agent-trials", json=body)).json()["requests"]
        assert request["code"] == "address_not_allowed"
        wrong = {"document": document(channels=[]), "tool": "look"}
        assert error_of(await ann.post("/api/agent-trials", json=wrong))["code"] == "invalid_agent"
        other = {"document": closed, "tool": "other"}
        assert error_of(await ann.post("/api/agent-trials", json=other))["code"] == "not_found"
        huge = {"document": "x" * 400_000, "tool": "look"}
        assert (await ann.post("/api/agent-trials", json=huge)).status_code in (413, 422)


async def test_the_secrets_of_the_service_are_not_those_of_other_workspaces(secret: str) -> None:
    async with service() as running, running.as_("eve", "admin", "elsewhere") as eve:
        await stored(eve, **WITH_TOOL)
        for dry in (True, False):
            body = {"args": {"number": 1}, "dryRun": dry}
            tried = (await eve.post(f"{AT}/tools/cancel/try", json=body)).json()
            assert ("result" not in tried) if dry else ("secret" in tried["result"]["error"])
        refused = await eve.post(f"{AT}/start")
        assert [each["code"] for each in refused.json()["error"]["details"]][-1] == "secret_missing"


async def test_tools_and_deliveries_of_agents_are_counted() -> None:
    async with service() as running, running.as_("ann", "admin") as ann:
        await stored(ann, tools={"look": {"type": "http", "url": "http://127.0.0.1:9/x"}})
        sent = await ann.post(f"{AT}/tools/look/try", json={"dryRun": False})
        assert sent.json()["ok"] is False
        counted = (await ann.get("/metrics")).text
        assert (
            'nodius_agent_tool_seconds_count{agent="helpdesk",ok="false",tool="look"} 1.0'
            in counted
        )


READS = [("GET", "/api/agents"), ("GET", AT), ("GET", "/api/agents/schema")]
WRITES: list[tuple[str, str, dict[str, Any] | None]] = [
    ("PUT", AT, {"document": document()}),
    ("POST", "/api/agents/check", {"document": document()}),
    ("POST", f"{AT}/start", None),
    ("POST", f"{AT}/stop", None),
    ("POST", f"{AT}/rollback", {"version": 1}),
    ("POST", f"{AT}/tools/cancel/try", {}),
    ("POST", "/api/agent-trials", {"document": document(), "tool": "cancel"}),
    ("DELETE", AT, None),
    ("POST", "/api/deliveries/x:on_end/retry", None),
]


@pytest.mark.parametrize("role", ["viewer", "editor", "reviewer"])
async def test_only_admins_write_and_reviewers_see_deliveries(running: Service, role: str) -> None:
    async with running.as_("ann", "admin") as ann, running.as_("x", role) as person:
        await stored(ann)
        for method, address in READS:
            assert (await person.request(method, address)).status_code == 200
        for method, address, body in WRITES:
            assert error_of(await person.request(method, address, json=body))["code"] == "forbidden"
        expected = 200 if role == "reviewer" else 403
        assert (await person.get("/api/deliveries")).status_code == expected
        assert error_of(await ann.post("/api/deliveries/x:on_end/retry"))["code"] == "not_found"


async def test_an_admin_sees_the_last_calls_of_their_workspaces_and_nobody_else_any() -> None:
    same = call("read_graph_overview")
    calls = [
        same,
        call("read_graph_overview"),
        call("made_up"),
        call("read_node_detail", {"key": "nowhere"}),
    ]
    async with (
        answered(Says(calls=calls, cut=[call("search_nodes", '{"que')]), "Done.") as (
            ed,
            running,
            _,
        ),
        running.as_("ad", "admin") as admin,
        running.as_("other", "admin", "elsewhere") as stranger,
    ):
        asked = await ed.post("/api/ai/chat", json={"graphKey": GRAPH, "message": "look"})
        found = (await admin.get("/api/tool-calls")).json()["calls"]
        assert (await ed.get("/api/tool-calls")).status_code == 403
        assert (await stranger.get("/api/tool-calls")).json() == {"calls": []}
        narrowed = await admin.get("/api/tool-calls", params={"workspace": "elsewhere"})
        assert narrowed.json() == {"calls": []}
    outcomes = [(one["tool"], one["outcome"], one.get("error")) for one in reversed(found)]
    assert outcomes == [
        ("read_graph_overview", "ok", None),
        ("read_graph_overview", "duplicate", None),
        ("made_up", "error", "unknown_tool"),
        ("read_node_detail", "error", "not_found"),
        ("search_nodes", "cut", "malformed_arguments"),
    ]
    assert {(one["threadId"], one["turn"], one["round"]) for one in found} == {
        (asked.json()["threadId"], 1, 1)
    }
    assert found[-1]["ms"] > 0
    assert "nowhere" not in str(found), "arguments are not kept"


@pytest.mark.slow
async def test_the_record_keeps_two_hundred_calls_and_doctor_prints_it() -> None:
    reads = [
        Says(calls=[call("search_nodes", {"query": f"{r}.{i}"}) for i in range(10)])
        for r in range(5)
    ]
    script = [step for _ in range(5) for step in (*reads, "Done.")]
    with ScriptedProvider(*script) as model:
        async with service(model, rate_limit=0) as running, running.as_("ad", "admin") as admin:
            for _ in range(5):
                await admin.post("/api/ai/chat", json={"graphKey": GRAPH, "message": "look"})
            assert len((await admin.get("/api/tool-calls")).json()["calls"]) == 200
    with ScriptedProvider(Says(calls=[call("read_graph_overview")]), "Done.") as model:
        async with served(model, auth_secret=None) as running:
            shown = await asyncio.to_thread(
                run_command, "doctor", "--calls", "--url", running.address
            )
            assert "No tool was called" in shown.output
            place = await running.state.workspace("default")
            events = place.agent.run(None, GRAPH, "look", place.services.local_person())
            assert [event async for event in events]
            shown = await asyncio.to_thread(
                run_command, "doctor", "--calls", "--url", running.address
            )
    assert shown.exit_code == 0
    assert "read_graph_overview" in shown.output
    assert "1.1" in shown.output


RENAME = 'rename error-handler to "Report error"'


async def test_a_proposal_names_the_program_that_named_itself() -> None:
    async with service() as running, running.as_("ada", "admin") as client:
        named = {"X-Nodius-Client": "my-bot/1.2"}
        asked = {"graphKey": "testgraph001", "message": RENAME}
        answer = (await client.post("/api/ai/chat", json=asked, headers=named)).json()
        (waiting,) = answer["approvals"]
        document = (await client.get(f"/api/approvals/{waiting['id']}")).json()
        assert document["client"] == {"channel": "api", "name": "my-bot", "version": "1.2"}
        assert document["program"] == "api/my-bot"
