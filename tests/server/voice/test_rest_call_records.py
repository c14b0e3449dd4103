"""REST and WebSocket of calls: who may read, follow, end and forget them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from graphrag.approvals.proposing import CHAT_SESSION
from graphrag.roles import Person
from graphrag.voice.call_records import Call, CallStatus
from server.server_state import ServerState
from tests.support.agents import an_ask
from tests.support.service import Service, error_of, service
from tests.support.ws_server import Client, token, ws_server

CALLS = 7
NUMBER = "+33612345678"


def made(
    number: int, *, workspace: str = "default", status: CallStatus = "ended", **more: Any
) -> Call:
    """Return a record; each two began in one millisecond."""
    return Call.model_validate(
        {
            "callId": f"{number:032x}", "agentId": f"agent-{number % 2}", "agentVersion": 1,
            "workspace": workspace, "channel": "phone", "status": status, "callerPhone": NUMBER,
            "startedTime": 1_000 + number // 2, "usage": {"audioIn": 1}, **more,
        }
    )  # fmt: skip


async def with_records(state: ServerState, workspace: str = "default", first: int = 0) -> list[str]:
    """Store calls, the newest of them open; return their ids, newest first."""
    calls = (await state.workspace(workspace)).calls
    stored = [
        made(first + n, workspace=workspace, status="active" if n == CALLS - 1 else "ended")
        for n in range(CALLS)
    ]
    for each in stored:
        assert await calls.records.add(each)
    return newest_first([each.call_id for each in stored])


def newest_first(ids: list[str]) -> list[str]:
    """Return ids in the order of lists: of one moment, by key."""
    return sorted(ids, key=lambda call_id: (-(int(call_id, 16) // 2), call_id))


@asynccontextmanager
async def with_calls() -> AsyncIterator[tuple[Service, list[str]]]:
    async with service() as running:
        yield running, await with_records(running.state)


async def test_reviewers_page_through_calls_and_filter_them() -> None:
    async with with_calls() as (running, ids), running.as_("rev", "reviewer") as rev:
        seen: list[str] = []
        cursor: dict[str, str] = {}
        while True:
            page = (await rev.get("/api/calls", params={"limit": "2", **cursor})).json()
            seen += [call["callId"] for call in page["calls"]]
            if "cursor" not in page:
                break
            cursor = {"cursor": page["cursor"]}
        assert seen == ids
        one = (await rev.get("/api/calls", params={"agent": "agent-0", "status": "active"})).json()[
            "calls"
        ]
        assert [call["callId"] for call in one] == ids[:1]
        assert one[0]["callerPhone"] == NUMBER
        assert not {"usage", "transcript", "ctx", "tools"} & set(one[0])
        late = (await rev.get("/api/calls", params={"since": "1003"})).json()["calls"]
        assert [call["callId"] for call in late] == ids[:1]


async def test_calls_of_several_workspaces_are_one_list() -> None:
    async with service() as running:
        ids = await with_records(running.state)
        others = await with_records(running.state, "elsewhere", first=CALLS)
        async with running.as_("rev", "reviewer", "default", "elsewhere") as rev:
            seen: list[str] = []
            cursor: dict[str, str] = {}
            for _ in range(CALLS):
                page = (await rev.get("/api/calls", params={"limit": "3", **cursor})).json()
                seen += [call["callId"] for call in page["calls"]]
                if "cursor" not in page:
                    break
                cursor = {"cursor": page["cursor"]}
            assert seen == newest_first(others + ids)


async def test_a_call_is_shown_whole_and_forgotten_by_admins() -> None:
    async with with_calls() as (running, ids), running.as_("al", "admin") as admin:
        found = (await admin.get(f"/api/calls/{ids[1]}")).json()
        assert found["usage"] == {"audioIn": 1}
        assert found["transcript"] == []
        assert error_of(await admin.delete(f"/api/calls/{ids[0]}"))["code"] == "conflict"
        assert (await admin.delete(f"/api/calls/{ids[1]}")).status_code == 200
        found = (await admin.get(f"/api/calls/{ids[1]}")).json()
        assert "callerPhone" not in found
        assert found["forgottenTime"]
        assert error_of(await admin.post(f"/api/calls/{ids[1]}/end"))["code"] == "conflict"
        ended = (await admin.post(f"/api/calls/{ids[0]}/end")).json()
        assert (ended["status"], ended["endReason"]) == ("ended", "lost"), (
            "nobody served it any more"
        )


async def test_a_reviewer_finds_a_proposal_by_the_code_that_its_caller_says() -> None:
    async with service() as running, running.as_("rev", "reviewer") as rev:
        approvals = (await running.state.services("default")).approvals
        for number, code in enumerate(("amber river 42", "amber river 43", None)):
            await approvals.propose(
                {
                    "type": "update_node",
                    "payload": {"nodeKey": "root", "changes": {"posX": number}},
                },
                an_ask(
                    asker=Person(f"caller:{number:032x}", "editor", "default"),
                    thread_id=f"{number:032x}",
                    session=replace(CHAT_SESSION, voice_code=code),
                ),
            )
        listed = (await rev.get("/api/approvals", params={"spokenCode": " Amber-RIVER 42."})).json()
        assert [each["spokenCode"] for each in listed["approvals"]] == ["amber river 42"]
        whole = (await rev.get("/api/approvals")).json()["approvals"]
        assert len(whole) == 3


async def test_roles_reach_as_far_as_they_should() -> None:
    async with with_calls() as (running, ids):
        requests = [
            ("GET", "/api/calls"),
            ("GET", f"/api/calls/{ids[0]}"),
            ("POST", f"/api/calls/{ids[0]}/end"),
        ]
        for role in ("viewer", "editor"):
            async with running.as_("ed", role) as client:
                for method, path in requests:
                    assert error_of(await client.request(method, path))["code"] == "forbidden", (
                        role,
                        path,
                    )
        async with running.as_("rev", "reviewer") as rev:
            assert error_of(await rev.delete(f"/api/calls/{ids[1]}"))["code"] == "forbidden"
        async with running.as_("ed", "viewer") as viewer:
            assert (
                error_of(await viewer.post("/api/agents/helpdesk/talk", json={}))["code"]
                == "forbidden"
            )
        async with running.as_("al", "admin", "elsewhere") as stranger:
            for method, path in [*requests[1:], ("DELETE", f"/api/calls/{ids[0]}")]:
                assert error_of(await stranger.request(method, path))["code"] == "call_not_found", (
                    path
                )
            assert (await stranger.get("/api/calls")).json() == {"calls": []}


async def test_who_talks_reads_and_ends_their_own_call() -> None:
    async with service() as running:
        calls = (await running.state.workspace("default")).calls
        own = made(1, status="active", channel="browser", userId="ed")
        assert await calls.records.add(own)
        async with running.as_("ed", "editor") as ed, running.as_("olga", "editor") as other:
            assert (await ed.get(f"/api/calls/{own.call_id}")).json()["channel"] == "browser"
            assert error_of(await other.get(f"/api/calls/{own.call_id}"))["code"] == "forbidden"
            assert (await ed.post(f"/api/calls/{own.call_id}/end")).json()["status"] == "ended"


async def test_followers_see_a_call_and_the_list_change() -> None:
    async with (
        ws_server() as server,
        server.client(token("rev", "reviewer")) as rev,
        server.client(token("ed")) as ed,
        server.client(token("al", "admin", "elsewhere")) as stranger,
    ):
        ids = await with_records(server.state)
        records = (await server.state.workspace("default")).calls.records
        await rev.send("calls:watch", _id=1)
        assert (await rev.read())["type"] == "calls:watching"
        listed = await rev.until("call:listed", 1)
        assert (listed["call"]["callId"], listed["call"]["status"]) == (ids[0], "active")
        await rev.send("call:follow", _id=2, callId=ids[0])
        assert (await rev.until("call:following", 2))["callId"] == ids[0]
        assert (await rev.until("call:state", 2))["status"] == "active"
        blocked = made(99, startedTime=9_999_999_999_999, endReason="blocked")
        assert await records.add(blocked)
        assert (await rev.until("call:listed", 1))["call"]["endReason"] == "blocked"
        await records.change(
            ids[0], lambda call: call.model_copy(update={"status": "ended", "end_reason": "lost"})
        )
        over = await rev.until("call:ended", 2)
        assert (over["callId"], over["reason"]) == (ids[0], "lost")
        assert (await listed_as(rev, "ended"))["callId"] == ids[0]
        for client, code in ((ed, "forbidden"), (stranger, "not_found")):
            refused = await client.ask("call:follow", _id=3, callId=ids[0])
            assert refused["type"] == "ai:error"
            assert refused["code"] == code
        assert (await ed.ask("calls:watch", _id=4))["code"] == "forbidden"
        assert (await rev.ask("call:follow", _id=5))["code"] == "invalid_message"


async def listed_as(client: Client, status: str) -> dict[str, Any]:
    async with asyncio.timeout(60):
        for message in client.seen:
            listed = message.get("call", {})
            if (listed.get("status"), listed.get("endReason")) == (status, "lost"):
                return listed
        while True:
            found = (await client.until("call:listed"))["call"]
            if found["status"] == status and found.get("endReason") == "lost":
                return found


async def test_calls_are_found_by_number_and_id_page_by_page() -> None:
    async with service() as running:
        ids = await with_records(running.state)
        calls = (await running.state.workspace("default")).calls
        other = "+33700000000"
        rare = [made(n, callerPhone=None, calledPhone=other) for n in range(20, 25)]
        for each in rare:
            assert await calls.records.add(each)
        wanted = newest_first([each.call_id for each in rare])
        async with running.as_("rev", "reviewer") as rev:
            seen: list[str] = []
            cursor: dict[str, str] = {}
            for _ in range(10):
                asked = {"number": other, "limit": "2", **cursor}
                page = (await rev.get("/api/calls", params=asked)).json()
                seen += [call["callId"] for call in page["calls"]]
                if "cursor" not in page:
                    break
                cursor = {"cursor": page["cursor"]}
            assert seen == wanted
            one = (await rev.get("/api/calls", params={"callId": ids[2]})).json()
            assert [call["callId"] for call in one["calls"]] == [ids[2]]
            assert "cursor" not in one
            none = (await rev.get("/api/calls", params={"callId": "nobody"})).json()
            assert none["calls"] == []
            for wrong in ({"number": "0612"}, {"callId": ""}, {"callId": "a" * 101}):
                assert (await rev.get("/api/calls", params=wrong)).status_code == 422


async def test_calls_of_another_workspace_are_neither_found_nor_counted() -> None:
    async with service() as running:
        (foreign, *_) = await with_records(running.state, "other", first=50)
        async with running.as_("rev", "reviewer") as rev:
            for asked in ({"callId": foreign}, {"number": NUMBER}):
                assert (await rev.get("/api/calls", params=asked)).json()["calls"] == []
            found = (await rev.get("/api/calls/figures", params={"since": "0"})).json()
            assert (found["total"]["calls"], found["days"]) == (0, [])
        async with running.as_("ed", "editor") as editor:
            assert (await editor.get("/api/calls/figures")).status_code == 403


async def test_figures_of_calls_are_counted_by_day() -> None:
    day = 86_400_000
    ends: list[dict[str, Any]] = [
        {"endReason": "caller_hung_up", "outcome": "ordered", "usage": {"costUsd": 0.25}},
        {"endReason": "transferred", "outcome": "passed", "usage": {"costUsd": 0.5}},
        {"endReason": "model_refused", "usage": {}},
    ]
    async with service() as running:
        calls = (await running.state.workspace("default")).calls
        for number, end in enumerate(ends):
            facts = {"startedTime": 10 * day + number, "answeredTime": 10 * day, **end}
            latency = {"firstAudioMs": 100, "turns": [100 * number + 1, 100 * number + 2]}
            timed = {"endedTime": 10 * day + 60_000, "latency": latency}
            assert await calls.records.add(made(number, **facts, **timed))
        assert await calls.records.add(made(9, startedTime=11 * day))
        assert await calls.records.add(made(10, startedTime=11 * day, status="active"))
        async with running.as_("rev", "reviewer") as rev:
            found = (await rev.get("/api/calls/figures", params={"since": "0"})).json()
            assert [row["day"] for row in found["days"]] == ["1970-01-12", "1970-01-11"]
            row = found["days"][1]
            assert (row["calls"], row["contained"], row["transferred"]) == (3, 1, 1)
            assert row["failures"] == {"model_refused": 1}
            assert row["outcomes"] == {"ordered": 1, "passed": 1, "none": 1}
            assert row["answerWaits"] == {"count": 6, "p50": 101, "p95": 202}
            assert (row["costUsd"], row["withoutCost"], row["seconds"]) == (0.75, 1, 180.0)
            assert found["total"]["calls"] == 4
            asked = {"since": str(11 * day), "agent": "agent-1"}
            late = (await rev.get("/api/calls/figures", params=asked)).json()
            assert late["total"]["calls"] == 1
