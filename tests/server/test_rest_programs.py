"""Programs over REST: what a program named itself stands on its proposals; admins rule it and undo it."""

from __future__ import annotations

from tests.support.service import service

RENAME = 'rename error-handler to "Report error"'


async def test_a_program_that_names_itself_is_seen_ruled_and_undone() -> None:
    async with service() as running, running.as_("ada", "admin") as client:
        named = {"X-Nodius-Client": "my-bot/1.2"}
        asked = {"graphKey": "testgraph001", "message": RENAME}
        answer = (await client.post("/api/ai/chat", json=asked, headers=named)).json()
        (waiting,) = answer["approvals"]
        document = (await client.get(f"/api/approvals/{waiting['id']}")).json()
        assert document["client"] == {"channel": "api", "name": "my-bot", "version": "1.2"}
        assert document["program"] == "api/my-bot"
        (seen,) = (await client.get("/api/programs")).json()["programs"]
        assert (seen["id"], seen["proposed"]) == ("api/my-bot", 1)
        decided = await client.post(f"/api/approvals/{waiting['id']}/decision", json={"verdict": "approve"})
        assert decided.json()["status"] == "applied"
        undone = (await client.post("/api/programs/undo", json={"program": "api/my-bot"})).json()
        assert [one["undoes"] for one in undone["undone"]] == [waiting["id"]]
        rule = {"program": "api/my-bot", "rule": {"blocked": True}}
        assert (await client.put("/api/programs/rule", json=rule)).status_code == 200
        refused = (await client.post("/api/ai/chat", json=asked, headers=named)).json()
        assert refused["type"] == "message"
        assert "blocked it" in str(refused["toolCalls"])
        page = (await client.post("/api/ai/chat", json=asked, headers={"X-Nodius-Client": "page"})).json()
        assert page["type"] == "interrupt"


async def test_only_admins_see_programs_and_what_names_none_is_refused() -> None:
    async with service() as running, running.as_("rita", "reviewer") as reviewer:
        assert (await reviewer.get("/api/programs")).status_code == 403
        assert (await reviewer.post("/api/programs/undo", json={"program": "mcp"})).status_code == 403
    async with service() as running, running.as_("ada", "admin") as client:
        for program in ("page", "x" * 300, "mcp/\u0000"):
            body = {"program": program, "rule": {"daily": 1}}
            answer = await client.put("/api/programs/rule", json=body)
            assert answer.status_code in (403, 422), answer.text
            assert answer.json()["error"]["message"]
