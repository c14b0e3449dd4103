"""Whole graphs over REST: who may, what editors, proposals and automations of a deleted
graph come to.
"""

import gzip
import json
from typing import Any

import orjson
import pytest

from graphrag.leases import now_ms
from graphrag.live import Member
from graphrag.live.edits import create_elements, rename_sheet
from graphrag.live.errors import LiveGraphClosed
from mock_data import load_text
from tests.support.automations import move
from tests.support.scripted_provider import Says, ScriptedProvider, call
from tests.support.service import AUTOMATION, CHANGE, GRAPH, error_of, service
from tests.support.waiting import another_moment

BY_HAND = {"graphKey": GRAPH, "name": "Started by people", "message": "Look for errors."}


async def test_editors_proposals_and_automations_of_a_deleted_graph_end_and_it_comes_back_as_it_was() -> (
    None
):
    provider = ScriptedProvider(
        Says(calls=[call("propose_update_node", CHANGE)]), Says(calls=[move()])
    )
    async with service(provider, automations_at_once=1) as running, running.as_() as ed:
        waits = (await ed.post("/api/ai/chat", json={"graphKey": GRAPH, "message": "Warn."})).json()
        proposal = waits["approvals"][0]["id"]
        automation = (
            await ed.post("/api/automations", json={**AUTOMATION, "mode": "propose"})
        ).json()["id"]
        by_hand = (await ed.post("/api/automations", json=BY_HAND)).json()
        run = (await ed.post(f"/api/automations/{automation}/run")).json()["sessionId"]
        await running.state.backend.scheduler.run_due()
        assert (await ed.get("/api/graphs")).json()["graphs"][0]["waiting"] == 2
        live = await running.state.backend.live.open("default", GRAPH)
        member = live.join("olga", "0")
        await live.edit("ed", None, rename_sheet, "0", "Not saved yet")
        gone = (await ed.delete(f"/api/graphs/{GRAPH}")).json()
        assert (gone["graphKey"], gone["deletedBy"]) == (GRAPH, "ed")
        with pytest.raises(LiveGraphClosed) as sent_away:
            await _until_sent_away(member)
        assert sent_away.value.reason == "it was deleted"
        assert error_of(await ed.get(f"/api/graphs/{GRAPH}/view"))["code"] == "not_found"
        assert error_of(await ed.post(f"/api/automations/{automation}/run"))
        decided = (await ed.get(f"/api/approvals/{proposal}")).json()
        assert decided["status"] == "failed"
        await running.state.backend.scheduler.run_due()
        ended = (await ed.get(f"/api/sessions/{run}")).json()
        assert ended["phase"] == "completed"
        paused = (await ed.get(f"/api/automations/{automation}")).json()
        assert paused["pausedReason"] == "graph_gone"
        other = (await ed.get(f"/api/automations/{by_hand['id']}")).json()
        assert (other["enabled"], other["pausedReason"]) == (False, "graph_gone")
        assert (await ed.post(f"/api/graphs/{GRAPH}/restore")).json()["graphKey"] == GRAPH
        view = (await ed.get(f"/api/graphs/{GRAPH}/view")).json()
        assert view["graph"]["sheetsList"]["0"] == "Not saved yet"
        assert (await ed.get("/api/deleted-graphs")).json() == {"graphs": []}


async def test_a_new_name_is_shown_to_who_has_the_graph_open_and_stands_in_the_one_history() -> (
    None
):
    async with service() as running, running.as_() as ed:
        path = f"/api/graphs/{GRAPH}"
        live = await running.state.backend.live.open("default", GRAPH)
        member = live.join("olga", "0")
        await live.edit("olga", None, rename_sheet, "0", "Before")
        begin = now_ms()
        was = live.document().name
        await another_moment()
        assert (await ed.patch(path, json={"name": "Renamed"})).status_code == 200
        said = [json.loads(one.text) for one in member.waiting()]
        assert [(one["name"], one["userId"]) for one in said if one["type"] == "renameGraph"] == [
            ("Renamed", "system")
        ]
        assert live.document().name == "Renamed"
        assert (await ed.get(f"{path}/revisions/{begin}")).json()["graph"]["name"] == was
        await ed.delete(path)
        await ed.post(f"{path}/restore")
        listed = (await ed.get(f"{path}/revisions")).json()["revisions"]
        assert [(one["kind"], one["by"]) for one in listed[:3]] == [
            ("restored", "ed"),
            ("renamed", "ed"),
            ("edit", "olga"),
        ]
        assert "Renamed" in listed[1]["what"]


async def _until_sent_away(member: Member) -> None:
    while True:
        await member.next()


WORK = [
    ("POST", "/api/graphs", {"name": "New"}),
    ("PATCH", f"/api/graphs/{GRAPH}", {"name": "New"}),
    ("POST", f"/api/graphs/{GRAPH}/duplicate", {"name": "New"}),
    ("DELETE", f"/api/graphs/{GRAPH}", None),
    ("POST", f"/api/graphs/{GRAPH}/restore", None),
]


async def test_who_only_looks_and_who_is_elsewhere_changes_no_graph_and_nobody_gives_it_no_name() -> (
    None
):
    async with service() as running, running.as_() as ed, running.as_("val", "viewer") as val:
        other = running.as_("eve", "admin", "other")
        for method, path, body in WORK:
            assert error_of(await val.request(method, path, json=body))["code"] == "forbidden"
            if GRAPH in path:
                assert error_of(await other.request(method, path, json=body))["code"] == "not_found"
            for name in ("", "  ", "x" * 201, "a\nb", 7):
                if body:
                    answer = await ed.request(method, path, json={"name": name})
                    assert error_of(answer)["code"] == "invalid_message"
        await ed.delete(f"/api/graphs/{GRAPH}")
        assert error_of(await other.post(f"/api/graphs/{GRAPH}/restore"))["code"] == "not_found"
        assert (await other.get("/api/deleted-graphs")).json() == {"graphs": []}
        assert (await other.get("/api/thumbnails")).json() == {"thumbnails": []}


async def test_a_new_and_a_copied_graph_are_listed_and_drawn_small() -> None:
    async with service() as running, running.as_() as ed:
        new = (await ed.post("/api/graphs", json={"name": " Orders ", "type": "n8n"})).json()
        copy = (await ed.post(f"/api/graphs/{GRAPH}/duplicate", json={"name": "Copy"})).json()
        await ed.patch(f"/api/graphs/{copy['graphKey']}", json={"name": "Copy 2"})
        listed = {g["graphKey"]: g for g in (await ed.get("/api/graphs")).json()["graphs"]}
        assert (new["name"], listed[new["graphKey"]]["category"]) == ("Orders", "n8n")
        assert (listed[copy["graphKey"]]["name"], listed[copy["graphKey"]]["nodes"]) == (
            "Copy 2",
            listed[GRAPH]["nodes"],
        )
        drawn = {
            t["graphKey"]: t["boxes"]
            for t in (await ed.get("/api/thumbnails")).json()["thumbnails"]
        }
        assert drawn[new["graphKey"]] == []
        assert drawn[copy["graphKey"]] == drawn[GRAPH] != []


FLOW = load_text("workflows/order_refund.json")


async def test_an_imported_workflow_is_changed_and_exported_for_its_tool_without_secrets() -> None:
    raw = orjson.loads(FLOW)
    raw["nodes"][0]["parameters"]["apiKey"] = "sk-verysecretverysecret123456"
    raw["nodes"][0]["credentials"] = {
        "httpBasicAuth": {"id": "17", "name": "Shop", "password": "hunter2!"}
    }
    async with service() as running, running.as_() as client:
        done = (await client.post("/api/graphs/import", content=orjson.dumps(raw))).json()
        path = f"/api/graphs/{done['graphKey']}"
        answer = await client.get(f"{path}/export", params={"format": "n8n"})
        assert (answer.status_code, answer.headers["x-left-out"]) == (200, "0")
        assert "hunter2!" not in answer.text
        assert "verysecret" not in answer.text
        back = answer.json()
        assert back["nodes"][0]["credentials"] == {"httpBasicAuth": {"id": "17", "name": "Shop"}}
        assert [node["name"] for node in back["nodes"]] == [node["name"] for node in raw["nodes"]]
        assert back["connections"] == raw["connections"]
        nodius = (await client.get(f"{path}/export")).json()
        assert nodius["format"] == "nodius"

        source = next(edge for edge in nodius["edges"])
        keys = [source["source"], source["target"]]
        copied = (await client.post(f"{path}/copy", json={"nodes": keys, "format": "n8n"})).json()
        part = orjson.loads(copied["text"])
        assert part.keys() == {"nodes", "connections"}
        assert len(part["nodes"]) == 2
        assert orjson.dumps(part["connections"]).count(b'"node"') == 1

        refused = await client.get(f"{path}/export", params={"format": "node-red"})
        assert refused.status_code == 422
        assert "not of node-red" in refused.json()["error"]["message"]
        assert (await client.get(f"{path}/export", params={"format": "x"})).status_code == 422


async def test_copied_text_becomes_nodes_of_a_sheet_and_nothing_but_their_types_is_stored() -> None:
    async with service() as running, running.as_() as client:
        body = {"text": FLOW, "x": 100, "y": -50, "sheet": "1"}
        before = (await client.get(f"/api/graphs/{GRAPH}/export")).json()
        made = (await client.post(f"/api/graphs/{GRAPH}/paste", json=body)).json()
        assert min(node["posX"] for node in made["nodes"]) == 100
        assert min(node["posY"] for node in made["nodes"]) == -50
        assert {node["sheet"] for node in made["nodes"]} == {"1"}
        assert all("id" not in node.get("origin", {}) for node in made["nodes"])
        assert {config["node"]["type"] for config in made["types"]} <= {
            node["type"] for node in made["nodes"]
        }
        assert made["edges"]
        assert (await client.get(f"/api/graphs/{GRAPH}/export")).json() == before
        again = (await client.post(f"/api/graphs/{GRAPH}/paste", json=body)).json()
        assert again["types"] == []
        bad = await client.post(f"/api/graphs/{GRAPH}/paste", json={**body, "text": "hello"})
        assert (bad.status_code, bad.json()["error"]["code"]) == (422, "unreadable")
        async with running.as_("vera", "viewer") as viewer:
            path = f"/api/graphs/{GRAPH}"
            assert (await viewer.post(f"{path}/paste", json=body)).status_code == 403
            text = (await viewer.post(f"{path}/copy", json={"format": "nodius"})).json()["text"]
            assert orjson.loads(text)["format"] == "nodius"
        async with running.as_("eve", "admin", "elsewhere") as other:
            assert (await other.post(f"{path}/copy", json={"format": "n8n"})).status_code == 404


async def test_nodes_to_be_added_get_names_that_are_free_in_the_graph_as_people_edit_it() -> None:
    async with service() as running, running.as_() as client:
        key = (await client.post("/api/graphs", json={"name": "Orders", "type": "n8n"})).json()[
            "graphKey"
        ]
        path = f"/api/graphs/{key}/free-names"
        live = await running.state.backend.live.open("default", key)
        live.join("olga", "0")
        shown = {
            "_key": "set",
            "graphKey": key,
            "sheet": "0",
            "type": "starter",
            "data": {"name": "Set"},
        }
        await live.edit("ed", None, create_elements, "0", [shown], [])
        asked = {"key": "a", "type": "starter", "data": {"name": "Set"}}
        user = {
            "key": "b",
            "type": "starter",
            "data": None,
            "process": "$('Set').all() + $node.Set.json",
        }
        made = (await client.post(path, json={"nodes": [asked, user]})).json()
        assert made == {
            "nodes": [
                {"key": "a", "data": {"name": "Set1"}, "process": None},
                {"key": "b", "data": None, "process": "$('Set1').all() + $node.Set1.json"},
            ]
        }
        other = f"/api/graphs/{GRAPH}/free-names"  # its nodes do not call each other by name
        kept = (await client.post(other, json={"nodes": [asked, user]})).json()["nodes"]
        assert [node.get("process") for node in kept] == [None, user["process"]]
        refused: list[list[dict[str, Any]]] = [
            [],
            [{**asked, "key": ""}],
            [{**asked, "sheet": "0"}],
        ]
        for nodes in refused:
            assert (
                error_of(await client.post(path, json={"nodes": nodes}))["code"]
                == "invalid_message"
            )
        async with running.as_("vera", "viewer") as viewer:
            assert error_of(await viewer.post(path, json={"nodes": [asked]}))["code"] == "forbidden"


async def test_text_without_a_node_is_refused_and_types_that_no_node_has_are_not_stored() -> None:
    async with service() as running, running.as_() as client:
        path = f"/api/graphs/{GRAPH}/paste"
        spot = {"x": 0, "y": 0, "sheet": "0"}
        empty = [{"id": "t1", "type": "tab", "label": "Empty"}]
        refused = await client.post(path, json={"text": orjson.dumps(empty).decode(), **spot})
        assert (refused.status_code, refused.json()["error"]["code"]) == (422, "unreadable")
        whole = (await client.get(f"/api/graphs/{GRAPH}/export")).json()
        strange = [
            {
                **whole["configs"][0],
                "_key": f"c{at}",
                "node": {**whole["configs"][0]["node"], "type": f"t{at}"},
            }
            for at in range(50)
        ]
        text = orjson.dumps({**whole, "configs": [*whole["configs"], *strange]}).decode()
        made = await client.post(path, json={"text": text, **spot})
        assert (made.status_code, made.json()["types"]) == (200, [])


async def test_json_is_compressed_for_who_can_read_it_and_is_the_same() -> None:
    async with service() as running, running.as_() as client:
        whole = f"/api/graphs/{GRAPH}/view"
        for path in (whole, f"/api/graphs/{GRAPH}/export"):
            plain = await client.get(path, headers={"Accept-Encoding": "identity"})
            packed = await client.get(path, headers={"Accept-Encoding": "br, gzip"})
            assert "content-encoding" not in plain.headers
            assert packed.headers["content-encoding"] == "gzip"
            assert "Accept-Encoding" in packed.headers["vary"]
            assert "content-length" not in packed.headers
            assert packed.json() == plain.json(), path
        small = await client.get("/api/graphs", headers={"Accept-Encoding": "gzip"})
        assert "content-encoding" not in small.headers
        assert int(small.headers["content-length"]) == len(small.content)
        texts = await client.get("/messages/en.json", headers={"Accept-Encoding": "gzip"})
        assert texts.json(), "compressed once, not twice"
        async with client.stream("GET", whole, headers={"Accept-Encoding": "gzip"}) as raw:
            received = b"".join([piece async for piece in raw.aiter_raw()])
        plain = await client.get(whole)
        assert gzip.decompress(received) == plain.content
        assert len(received) * 2 < len(plain.content)
