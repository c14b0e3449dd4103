"""A client that watches receives what waits for a decision and what was decided, wherever it was."""

from __future__ import annotations

from typing import Any

from graphrag.approvals import Approve, Reject
from graphrag.roles import Person
from tests.server.test_ws_ai import chat
from tests.support.scripted_provider import Says, ScriptedProvider, call
from tests.support.ws_server import GRAPH, Client, token, ws_server

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
    with ScriptedProvider(proposes()) as model:
        async with (
            ws_server(model) as server,
            server.client(token()) as asker,
            server.client(reviewing) as reviewer,
        ):
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


async def test_what_is_proposed_said_and_decided_is_sent_itself_to_who_asks_for_it() -> None:
    with ScriptedProvider(proposes(), proposes(changes={"data.level": "notice"})) as model:
        async with (
            ws_server(model) as server,
            server.client(token()) as asker,
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
                await services.approvals.list(by=services.local_person()), key=lambda one: one.asker != "ed"
            )
            for approval in (mine, theirs):
                await services.approvals.decide(approval.id, Approve(), services.local_person())
            async with server.client(token()) as again:
                assert [one["approvalId"] for one in (await watch(again, since=0))["decided"]] == [mine.id]
            async with server.client(token()) as later:
                at = (await services.approvals.audit.entries(limit=1))[0].at
                assert (await watch(later, since=at))["decided"] == []


async def test_nobody_receives_news_of_another_workspace() -> None:
    with ScriptedProvider(proposes()) as model:
        async with (
            ws_server(model) as server,
            server.client(token()) as asker,
            server.client(token("eve", "admin", "elsewhere")) as other,
        ):
            assert (await watch(other))["workspace"] == "elsewhere"
            await watch(asker)
            await chat(asker, 1)
            await asker.until("ai:review")
            await other.send("__ping__", _id=5)
            await other.until("__pong__")
    assert [m["workspace"] for m in other.seen if m["type"] == "ai:review"] == ["elsewhere"]


async def test_however_many_watch_the_store_is_looked_at_by_one_and_by_none_when_all_have_gone() -> None:
    with ScriptedProvider("Hello.") as model:
        async with ws_server(model) as server:
            feed = (await server.app.state.server.workspace("default")).reviews
            async with server.client(token()) as one, server.client(token("b")) as two:
                for client in (one, two):
                    await watch(client)
                    await watch(client)
                assert feed.readers == 2
            async with server.client(token()) as again:
                await chat(again, 1)
            assert feed.readers == 0
