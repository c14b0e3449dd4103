"""The way back over REST: export as another tool's file, copy some nodes, paste what was copied there."""

from __future__ import annotations

import orjson

from mock_data import load_text
from tests.support.service import GRAPH, service

FLOW = load_text("workflows/order_refund.json")


async def test_an_imported_workflow_is_changed_and_exported_for_its_tool_without_secrets() -> None:
    raw = orjson.loads(FLOW)
    raw["nodes"][0]["parameters"]["apiKey"] = "sk-verysecretverysecret123456"
    raw["nodes"][0]["credentials"] = {"httpBasicAuth": {"id": "17", "name": "Shop", "password": "hunter2!"}}
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
