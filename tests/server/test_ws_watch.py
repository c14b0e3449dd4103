"""A client that watches receives what waits for a decision and what was decided,
wherever it was.
"""

import asyncio
import json
import random
import socket
import string
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus

from graphrag.approvals import Approve, Reject
from graphrag.roles import Person
from server.ws import WsOptions
from server.ws_outbox import OutboxLimits
from tests.server.test_ws_ai import chat
from tests.support.scripted_provider import Says, ScriptedProvider, call
from tests.support.waiting import until
from tests.support.ws_server import GRAPH, Client, Running, answered_ws, token, ws_server

CHANGE = {"node_key": "error-handler", "changes": {"data.level": "warning"}, "reason": "asked for"}


def proposes(**changes: Any) -> Says:
    return Says(text="I propose this.", calls=[call("propose_update_node", {**CHANGE, **changes})])


async def watch(client: Client, **fields: Any) -> dict[str, Any]:
    """Subscribe to reviews; return the first."""
    await client.send("ai:watch", _id=90, **fields)
    assert (await client.until("ai:watching", 90))["_id"] == 90
    return await client.until("ai:review", 90)


async def test_a_reviewer_receives_a_proposal_and_the_asker_its_decision() -> None:
    reviewing = token("rev", "reviewer")
    async with answered_ws(proposes()) as (asker, server, _), server.client(reviewing) as reviewer:
        begun = await watch(reviewer)
        assert (begun["workspace"], begun["waiting"], begun["decided"]) == ("default", {}, [])
        await watch(asker)
        await chat(asker, 1)
        assert (await reviewer.until("ai:review"))["waiting"] == {GRAPH: 1}
        services = await server.app.state.server.services("default")
        (approval,) = await services.approvals.list(by=services.local_person())
        by = Person(user_id="rev", role="reviewer", workspace="default")
        await services.approvals.decide(approval.id, Reject("not now"), by)  # past any connection
        news = await asker.until("ai:review")
        while not news["decided"]:
            news = await asker.until("ai:review")
        (decided,) = news["decided"]
        while news["waiting"]:  # counted after the decisions were read, it may be of the next look
            news = await asker.until("ai:review")
    facts = (decided["approvalId"], decided["event"], decided["asker"], decided["userId"])
    assert facts == (approval.id, "rejected", "ed", "rev")


async def test_who_watches_receives_how_many_proposals_they_may_decide_themselves() -> None:
    """The asker does, and so do reviewers; another editor and a viewer do not."""
    async with (
        answered_ws(proposes(), proposes(changes={"data.level": "notice"})) as (asker, server, _),
        server.client(token("rev", "reviewer")) as reviewer,
        server.client(token("other")) as other,
        server.client(token("vi", "viewer")) as viewer,
    ):
        await chat(asker, 1)
        await chat(other, 1)
        seen = {}
        for client in (asker, reviewer, other, viewer):
            news = await watch(client)
            while news["waiting"] != {GRAPH: 2}:
                news = await client.until("ai:review")
            seen[client] = news["decidable"]
        assert list(seen.values()) == [{GRAPH: 1}, {GRAPH: 2}, {GRAPH: 1}, {}]


async def test_what_is_proposed_said_and_decided_is_sent_itself_to_who_asks_for_it() -> None:
    async with (
        answered_ws(proposes(), proposes(changes={"data.level": "notice"})) as (asker, server, _),
        server.client(token("rev", "reviewer")) as reviewer,
    ):
        begun = await watch(reviewer, approvals=True)
        assert (begun["approvals"], begun["conflicts"], begun["complete"]) == ([], [], False)
        assert "approvals" not in await watch(asker)
        await chat(asker, 1)
        news = await reviewer.until("ai:review")
        ((one,), is_complete) = (news["approvals"], news["complete"])
        assert (one["status"], one["title"][:6], is_complete) == ("pending", "change", True)
        await chat(asker, 2)
        news = await reviewer.until("ai:review")
        assert [len(news[name]) for name in ("approvals", "conflicts")] == [1, 1]
        services = await server.app.state.server.services("default")
        by = Person(user_id="rev", role="reviewer", workspace="default")
        await services.approvals.comment(one["id"], "Why?", by)
        news = await reviewer.until("ai:review")
        assert (news["approvals"][0]["comments"][0]["text"], news["decided"]) == ("Why?", [])
        approvals = await services.approvals.list(by=by)
        await services.approvals.decide_all(approvals, Reject("no"), by)
        seen: dict[str, str] = {}
        while len(seen) < 2:
            news = await reviewer.until("ai:review")
            seen |= {shown["id"]: shown["status"] for shown in news["approvals"]}
        assert (set(seen.values()), news["waiting"], news["conflicts"]) == ({"rejected"}, {}, [])


async def test_who_was_away_receives_decisions_of_their_own_proposals_alone() -> None:
    with ScriptedProvider(proposes(), proposes(changes={"data.level": "notice"})) as model:
        async with ws_server(model) as server:
            async with server.client(token()) as asker, server.client(token("other")) as other:
                await chat(asker, 1)
                await chat(other, 1)
            services = await server.app.state.server.services("default")
            mine, theirs = sorted(
                await services.approvals.list(by=services.local_person()),
                key=lambda one: one.asker != "ed",
            )
            for approval in (mine, theirs):
                await services.approvals.decide(approval.id, Approve(), services.local_person())
            async with server.client(token()) as again:
                assert [one["approvalId"] for one in (await watch(again, since=0))["decided"]] == [
                    mine.id
                ]
            async with server.client(token()) as later:
                at = (await services.approvals.audit.entries(limit=1))[0].at
                assert (await watch(later, since=at))["decided"] == []


async def test_nobody_receives_news_of_another_workspace() -> None:
    async with (
        answered_ws(proposes()) as (asker, server, _),
        server.client(token("eve", "admin", "elsewhere")) as other,
    ):
        assert (await watch(other))["workspace"] == "elsewhere"
        await watch(asker)
        await asker.send("ai:chat", _id=1, graphKey=GRAPH, message="hello")
        await asker.until("ai:review")  # while the turn goes on, or after it
        await other.send("__ping__", _id=5)
        await other.until("__pong__")
    assert [m["workspace"] for m in other.seen if m["type"] == "ai:review"] == ["elsewhere"]


async def test_however_many_watch_the_store_is_looked_at_by_one_and_by_none_when_all_have_gone() -> (
    None
):
    async with ScriptedProvider("Hello.") as model, ws_server(model) as server:
        feed = (await server.app.state.server.workspace("default")).reviews
        async with server.client(token()) as one, server.client(token("b")) as two:
            for client in (one, two):
                await watch(client)
                await watch(client)
            assert feed.readers == 2
        async with server.client(token()) as again:
            await chat(again, 1)
        assert feed.readers == 0


async def test_sign_in_tells_who_one_is() -> None:
    async with ws_server() as server, server.client() as client:
        received = await client.ask(
            "authenticate", _id=3, token=token("ed", "reviewer", "default", "other")
        )
    assert received == {
        "type": "authResult",
        "success": True,
        "_id": 3,
        "userId": "ed",
        "username": "ed",
        "workspaces": ["default", "other"],
        "role": "reviewer",
    }


@pytest.mark.parametrize(
    "first",
    [
        {"type": "__ping__"},
        {"type": "forceSave", "_id": 1},
        {"type": "ai:chat", "_id": 1, "graphKey": GRAPH, "message": "hi"},
        {"type": "ai:interrupt", "_id": 1},
        {"type": "nonsense"},
        ["no", "object"],
    ],
)
async def test_anything_before_sign_in_is_answered_with_a_failed_one(
    ws: Running, first: Any
) -> None:
    async with ws.client() as client:
        await client.raw(json.dumps(first))
        received = await client.read()
        assert (received["type"], received["success"]) == ("authResult", False)
        assert (await client.ask("authenticate", _id=2, token=token()))["success"]


@pytest.mark.parametrize(
    "bad",
    [
        "no.token.at-all",
        token(lasts_s=-3600),
        token()[:-4] + "AAAA",
        "eyJhbGciOiJub25lIn0.eyJzdWIiOiJlZCJ9.",
        "",
    ],
)
async def test_a_token_that_is_not_good_is_turned_away(ws: Running, bad: str) -> None:
    async with ws.client() as client:
        await client.send("authenticate", token=bad)
        received = await client.read()
        assert (received["type"], received["success"]) == ("authResult", False)
        assert await client.closed() == 4001


async def test_a_token_without_a_workspace_is_denied() -> None:
    async with ws_server() as server, server.client() as client:
        await client.send("authenticate", token=token("ed", "editor", ""))
        assert await client.closed() == 4003
        assert not client.seen[0]["success"]


async def test_a_silent_client_is_turned_away_in_time() -> None:
    async with ws_server(options=WsOptions(sign_in_s=0.05)) as server, server.client() as client:
        assert await client.closed() == 4002
        assert [m["type"] for m in client.seen] == ["authResult"]


async def test_a_client_that_signed_in_is_not_timed_out() -> None:
    async with (
        ws_server(options=WsOptions(sign_in_s=0.2)) as server,
        server.client(token()) as client,
    ):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.connection.recv(), 0.4)
        await client.send("__ping__")
        assert await client.read() == {"type": "__pong__"}


async def test_a_message_may_carry_its_token() -> None:
    async with (
        ScriptedProvider("Hi.") as model,
        ws_server(model) as server,
        server.client() as client,
    ):
        await client.send("ai:chat", _id=1, graphKey=GRAPH, message="hello", token=token())
        assert (await client.turn(1))[-1]["fullText"] == "Hi."
        refused = await client.ask("ai:chat", _id=2, graphKey=GRAPH, message="x", token="forged")
        assert (refused["type"], refused["code"]) == ("ai:error", "auth_error")


async def test_nobody_takes_over_a_connection_of_somebody_else() -> None:
    async with ws_server() as server, server.client(token("ed")) as client:
        assert not (await client.ask("authenticate", _id=1, token=token("eve", "admin")))["success"]
        assert (await client.ask("authenticate", _id=2, token=token("ed")))["success"]


async def test_without_sign_in_configured_one_is_the_local_admin_at_once() -> None:
    with ScriptedProvider("Hi.") as model:
        async with ws_server(model, auth_secret=None) as server, server.client() as client:
            await client.send("__ping__")
            assert (await client.read())["type"] == "__pong__"
            await client.send("ai:chat", _id=1, graphKey=GRAPH, message="hello")
            assert (await client.turn(1))[-1]["fullText"] == "Hi."
            assert (await client.ask("authenticate", _id=2, token="anything"))["role"] == "admin"


@pytest.mark.parametrize("origin", ["https://evil.example", "http://127.0.0.1:1", "null"])
async def test_a_page_of_another_site_gets_no_connection_without_sign_in(origin: str) -> None:
    async with ws_server(auth_secret=None) as server:
        with pytest.raises(InvalidStatus, match="403"):
            async with server.client(origin=origin):
                pass


def malformed(rng: random.Random) -> str | bytes:
    """A frame that is no message of the protocol."""
    kinds = [
        "ai:chat",
        "ai:resume",
        "ai:interrupt",
        "authenticate",
        "applyInstructionToGraph",
        "createSheet",
    ]
    strange = [
        "x" * rng.randrange(50),
        None,
        -1,
        1e308,
        True,
        [],
        {},
        "\x00",
        "é\U0001f600",
        {"a": [None]},
    ]
    match rng.randrange(9):
        case 0:
            return "".join(rng.choices(string.printable, k=rng.randrange(200)))
        case 1:
            return bytes(rng.randrange(256) for _ in range(rng.randrange(50)))
        case 2:
            return json.dumps(rng.choice([[], 1, "text", None, True, {}, {"_id": 4}, {"type": 5}]))
        case 3:
            return json.dumps({"type": rng.choice(kinds) + "x", "_id": rng.choice(strange)})
        case 4:
            return json.dumps(
                {"type": "ai:chat", "_id": 1, "graphKey": GRAPH, "message": "x", "extra": 1}
            )
        case 5:
            return json.dumps({"type": rng.choice(kinds), "_id": "one", "key": rng.choice(strange)})
        case 6:
            return "[" * rng.randrange(1, 3000)
        case 7:
            fields = {
                rng.choice(["graphKey", "threadId", "approved", "token"]): rng.choice(strange)
            }
            return json.dumps({"type": "ai:resume", "_id": rng.randrange(9), **fields})
        case _:
            return json.dumps({"type": "ai:chat", "_id": 1, "graphKey": GRAPH, "message": "x"})[
                : rng.randrange(60)
            ]


def is_error(message: dict[str, Any]) -> bool:
    response = message.get("_response")
    refused = message["type"] == "authResult" and not message["success"]
    return (
        message["type"] == "ai:error"
        or refused
        or (response is not None and not response["status"])
    )


async def bombarded(client: Client, count: int, seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(count):
        frame = malformed(rng)
        await client.raw(frame)
        answer = await client.read()
        assert is_error(answer), (frame, answer)
    await client.send("__ping__")
    assert (await client.read())["type"] == "__pong__"


async def test_each_malformed_message_gets_an_error_and_the_connection_stays() -> None:
    async with ws_server() as server, server.client(token()) as client:
        await bombarded(client, 300, seed=1)


@pytest.mark.slow
async def test_ten_thousand_malformed_messages_get_an_error_each() -> None:
    async with ws_server() as server, server.client(token()) as client:
        await bombarded(client, 10_000, seed=2)


async def test_malformed_messages_before_sign_in_leave_it_possible() -> None:
    rng = random.Random(3)
    async with ws_server() as server, server.client() as client:
        for _ in range(50):
            await client.raw(malformed(rng))
            assert is_error(await client.read())
        assert (await client.ask("authenticate", _id=1, token=token()))["success"]


async def test_a_message_that_is_too_long_is_refused() -> None:
    async with ws_server() as server, server.client(token()) as client:
        refused = await client.ask("ai:chat", _id=1, graphKey=GRAPH, message="x" * 200_000)
        assert refused["code"] == "invalid_message"
        await client.send("__ping__")
        assert (await client.read())["type"] == "__pong__"


async def test_a_client_that_does_not_read_is_dropped_and_its_turn_stopped() -> None:
    """What it does not read is bounded: the model is not asked for more than fits."""
    flood = Says(pieces=["so many words " * 100] * 20_000)
    limits = WsOptions(outbox=OutboxLimits(chars=20_000, patience_s=0.1))
    model = ScriptedProvider(flood)
    async with (
        ws_server(model, options=limits, send_buffer=4096) as server,
        server.client(token(), max_queue=1, sock=narrow(server.port)) as client,
    ):
        await client.send("ai:chat", _id=1, graphKey=GRAPH, message="hello")
        await client.until("ai:token", 1)
        await until(lambda: not len(server.app.state.server.activity.turns))
        client.connection.transport.abort()
    assert model.closed_early == 1


def narrow(port: int) -> socket.socket:
    """A connection that takes little at once, so that little is on its way."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    made.connect(("127.0.0.1", port))
    made.setblocking(False)
    return made
