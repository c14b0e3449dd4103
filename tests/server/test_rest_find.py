"""One search for everything, and conversations renamed and exported: each sees their own alone."""

from __future__ import annotations

import json

from tests.support.scripted_provider import Says, ScriptedProvider, call
from tests.support.service import CHANGE, GRAPH, error_of, service

HOSTILE = "<img src=x> of \u202eevil"


async def test_everything_that_holds_the_words_is_found_and_nothing_of_others() -> None:
    change = Says(text="Look.", calls=[call("propose_update_node", CHANGE)])
    with ScriptedProvider("The zebra is in the answer.", change) as provider:
        async with (
            service(provider) as running,
            running.as_() as ed,
            running.as_("al") as al,
            running.as_("ex", "admin", "elsewhere") as stranger,
        ):
            said = await ed.post("/api/ai/chat", json={"graphKey": GRAPH, "message": "What is striped?"})
            thread = said.json()["threadId"]
            await ed.post("/api/ai/chat", json={"graphKey": GRAPH, "message": "warn"})

            async def kinds(client: object, q: str) -> list[tuple[str, str]]:
                found = (await client.get("/api/find", params={"q": q})).json()["hits"]  # type: ignore[attr-defined]
                return [(hit["kind"], hit["key"]) for hit in found]

            assert ("node", "fetch-api") in await kinds(ed, "fetch players")
            assert ("graph", GRAPH) in await kinds(ed, "nba")
            assert await kinds(ed, "zebra") == [("thread", thread)]
            assert await kinds(al, "zebra") == []
            assert "proposal" in dict(await kinds(al, "log fetch level"))
            assert await kinds(stranger, "fetch") == []
            for bad in ("", "x" * 201):
                assert (await ed.get("/api/find", params={"q": bad})).status_code == 422
            for odd in ("%", "'; --", '"', "*", HOSTILE):
                assert (await ed.get("/api/find", params={"q": odd})).status_code == 200


async def test_a_conversation_is_renamed_and_exported_by_its_own_person_alone() -> None:
    with ScriptedProvider("Yes.") as provider:
        async with service(provider) as running, running.as_() as ed, running.as_("al", "admin") as al:
            said = await ed.post("/api/ai/chat", json={"graphKey": GRAPH, "message": "Is it so?"})
            path = f"/api/ai/thread/{said.json()['threadId']}"
            done = await ed.patch(path, json={"title": f"  {HOSTILE}\n x "})
            assert done.json()["title"] == f"{HOSTILE} x"
            for bad in ("", "  ", "x" * 81):
                assert (await ed.patch(path, json={"title": bad})).status_code == 422
            text = (await ed.get(f"{path}/export")).text
            assert text.startswith(f"# {HOSTILE} x\n\n## ed\n\nIs it so?\n\n## Nodius\n\nYes.")
            stored = json.loads((await ed.get(f"{path}/export", params={"format": "json"})).text)
            assert [message["role"] for message in stored["messages"]][-2:] == ["user", "assistant"]
            for answer in (await al.patch(path, json={"title": "x"}), await al.get(f"{path}/export")):
                assert answer.status_code == 404
            place = await running.state.workspace("default")
            async with place.agent.leases.held(path.rsplit("/", 1)[1]):  # it is being answered
                busy = await ed.patch(path, json={"title": "Meanwhile"})
            assert (busy.status_code, error_of(busy)["code"]) == (409, "busy")
