"""History over REST: one list, who set each field, the graph as it was, what differs, and back to it."""

from __future__ import annotations

import asyncio
from typing import Any

from graphrag.approvals import Approve, Asked
from graphrag.leases import now_ms
from graphrag.roles import Person
from tests.server.test_live_edits import Edited, edited
from tests.support.service import GRAPH, error_of, token

PATH = f"/api/graphs/{GRAPH}"


async def _get(it: Edited, path: str, **query: Any) -> dict[str, Any]:
    answer = await it.ed.get(f"{PATH}/{path}", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_a_person_looks_back_compares_and_brings_a_node_back() -> None:
    async with edited() as it:
        was = it.value("root", "posX")
        begin = now_ms()
        await asyncio.sleep(0.003)
        for value in range(1, 6):
            await it.does("root", "posX", 1000 + value, "ann")
        first = await _get(it, "revisions", limit=3)
        rest = await _get(it, "revisions", limit=3, cursor=first["cursor"])
        shown = [*first["revisions"], *rest["revisions"]]
        assert [(one["kind"], one["by"]) for one in shown[:5]] == [("edit", "ann")] * 5
        assert len({one["revision"] for one in shown}) == len(shown)
        past = await _get(it, f"revisions/{begin}")
        assert next(node for node in past["nodes"] if node["_key"] == "root")["posX"] == was
        [moved] = (await _get(it, "compare", **{"from": begin}))["preview"]["nodesMoved"]
        assert moved["key"] == "root"
        assert moved["fields"] == [{"path": ["posX"], "before": was, "after": 1005}]
        fields = {one["field"]: one for one in (await _get(it, "blame", node="root"))["fields"]}
        assert (fields["posX"]["by"], fields["posX"]["time"]) == ("ann", first["revisions"][0]["revision"])
        restore = f"{PATH}/revisions/{begin}/restore"
        proposed = (await it.ed.post(restore, json={"propose": True, "nodes": ["root"]})).json()["approval"]
        assert (proposed["status"], it.value("root", "posX")) == ("pending", 1005)
        done = await it.ed.post(restore, json={})
        assert it.value("root", "posX") == was
        assert error_of(await it.ed.post(restore, json={}))["code"] == "invalid"
        assert (await it.undo(done.json()["id"])).status_code == 200
        assert it.value("root", "posX") == 1005


async def test_viewers_look_and_strangers_find_nothing() -> None:
    async with edited() as it, it.running.as_("vic", "viewer") as viewer:
        await it.does("root", "posX", 11)
        assert (await viewer.get(f"{PATH}/blame", params={"node": "root"})).status_code == 200
        assert (await viewer.post(f"{PATH}/revisions/1/restore", json={})).status_code == 403
        assert error_of(await viewer.get(f"{PATH}/blame", params={"node": "nope"}))["code"] == "invalid"
        assert (await viewer.get(f"{PATH}/revisions/-1")).status_code == 422
        async with it.running.client(token("sam", "admin", ("globex",))) as stranger:
            for path in ("revisions", "revisions/5", "compare?from=5", "blame?node=root"):
                assert (await stranger.get(f"{PATH}/{path}")).status_code == 404
            assert (await stranger.post(f"{PATH}/revisions/5/restore", json={})).status_code == 404


async def test_a_deletion_and_a_restore_change_nothing_of_the_graph_as_it_was() -> None:
    async with edited() as it, it.running.as_("rita", "reviewer") as rita:
        begin = now_ms()
        await asyncio.sleep(0.003)
        await it.does("root", "posX", 1234, "ann")
        changes = {"nodeKey": "error-handler", "changes": {"data.level": "warning"}}
        action = {"type": "update_node", "payload": changes}
        approvals = (await it.running.state.services("default")).approvals
        ed, reviewer = Person("ed", "editor", "default"), Person("rita", "reviewer", "default")
        made = await approvals.propose(
            action, Asked(graph_key=GRAPH, thread_id="t", turn=0, tool_call_id="c", asker=ed, model="m")
        )
        await approvals.decide(made.id, Approve(), reviewer)
        past = await _get(it, f"revisions/{begin}")
        assert (await it.ed.delete(PATH)).status_code == 200
        assert (await it.ed.post(f"{PATH}/restore")).status_code == 200
        again = await _get(it, f"revisions/{begin}")
        assert (again["nodes"], again["edges"], again["gaps"]) == (past["nodes"], past["edges"], 0)
        [level] = [
            one
            for one in (await _get(it, "blame", node="error-handler"))["fields"]
            if one["field"] == "data.level"
        ]
        assert level["approvalId"] == made.id
        assert (await rita.post(f"{PATH}/undo", json={"approvalId": made.id})).status_code == 200
