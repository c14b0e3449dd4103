"""What a yes or no to a waiting thread means when somebody else has decided already."""

from __future__ import annotations

from typing import Any

import pytest

from tests.server.test_rest_review import proposed, proposing
from tests.support.each_row import each_row
from tests.support.scripted_provider import Says, ScriptedProvider, call
from tests.support.service import CHANGE, GRAPH, error_of, service


@each_row("verdict", "approve", "reject")
async def test_a_decision_said_again_lets_a_thread_go_on_that_has_not_heard_of_it(verdict: str) -> None:
    step = Says(calls=[call("propose_update_node", CHANGE)])
    with ScriptedProvider(step, "I heard.") as provider:
        async with service(provider) as running, running.as_() as ed, running.as_("rev", "reviewer") as rev:
            asked = (await ed.post("/api/ai/chat", json={"graphKey": GRAPH, "message": "change it"})).json()
            approval = asked["approvals"][0]["id"]
            await rev.post(f"/api/approvals/{approval}/decision", json={"verdict": verdict})
            again = {"threadId": asked["threadId"], "approved": verdict == "approve", "approvalId": approval}
            contrary = {**again, "approved": verdict != "approve"}
            assert error_of(await ed.post("/api/ai/resume", json=contrary))["code"] == "conflict"
            assert (await ed.post("/api/ai/resume", json=again)).json()["message"].endswith("I heard.")
            received = await ed.post("/api/ai/resume", json=again)
            assert error_of(received)["code"] == "conflict"  # by now it has heard


async def test_a_decision_reads_its_conversation_once(monkeypatch: pytest.MonkeyPatch) -> None:
    step = Says(calls=[call("propose_update_node", CHANGE)])
    async with ScriptedProvider(step, "Done.") as provider, service(provider) as running, running.as_() as ed:
        asked = (await ed.post("/api/ai/chat", json={"graphKey": GRAPH, "message": "change it"})).json()
        store = type(running.state.shared.database.records("default"))
        get, reads = store.get, list[str]()

        async def counted(self: Any, kind: str, key: str) -> Any:
            reads.append(kind)
            return await get(self, kind, key)

        monkeypatch.setattr(store, "get", counted)
        done = await ed.post("/api/ai/resume", json={"threadId": asked["threadId"], "approved": True})
        assert done.json()["message"] == "Done."
        assert reads.count("thread") == 1


async def test_an_edit_of_the_wrong_shape_names_the_field() -> None:
    async with proposing() as provider, service(provider) as running, running.as_() as ed:
        approval = await proposed(ed)
        action = {"type": "move_node", "payload": {"nodeKey": "root", "posX": "left", "posY": 1}}
        refused = await ed.post(
            f"/api/approvals/{approval}/decision", json={"verdict": "approve", "editedAction": action}
        )
        assert error_of(refused)["details"][0]["where"].startswith("payload.posX")
