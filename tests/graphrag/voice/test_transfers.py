"""Transfers from their first attempt to the end of the call, or to the caller who comes back."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Any

import orjson
import pytest

from datasources.base import Database
from datasources.mock import MemoryDatabase
from graphrag.agent.thread_store import StoredThread
from graphrag.agents.chat_values import agent_part
from graphrag.agents.document_check import check_document
from graphrag.bridge.bridge import Bridge
from graphrag.bridge.signals import CallOver, ModelEvent, SendModel
from graphrag.voice.call_recorder import CallRecorder
from graphrag.voice.call_records import Call
from graphrag.voice.call_setup import CallSetup, EarlierPart
from graphrag.voice.errors import StreamRefused
from graphrag.voice.follow_up import FollowUp
from graphrag.voice.transfers import MAX_RETURNS, TALK_MS
from tests.support.agent_life import SECOND, Api, Killed, compiled, document
from tests.support.agents import REVIEWER
from tests.support.held_calls import HeldCall, ended, opened_call, shop
from tests.support.phone_calls import NUMBER, PhoneServer, call_of, dialled, phone_server_on
from tests.support.timeless import by_clock
from tools.http.fetch import HttpAnswer

DESKS: dict[str, Any] = {
    "destinations": {
        "sales": {"number": "+33111111111", "timeout_s": 15, "fallback": "shop"},
        "shop": {"number": "sip:shop@example.com", "fallback": "sales"},
        "desk": {"number": "+33333333333"},
    },
    "fallback": "desk",
}


@by_clock
async def test_tools_of_the_service_set_flags_that_decide_the_outcome() -> None:
    tools = {
        "connect": {"type": "builtin", "action": "transfer", "on_success_flags": ["passed_on"]}
    }
    rules = [{"flag": "passed_on", "outcome": "human"}, {"flag": None, "outcome": "none"}]
    agent = document(voice=DESKS, tools=tools, lifecycle={"outcome_rules": rules})
    assert not [each for each in check_document(agent).warnings if each.code == "unset_flag"]
    async with opened_call(agent) as call:
        call.model.answers("", 0, ("connect", {"destination": "nobody"}))
        await call.rest(1)
        call.model.answers("", 0, ("connect", {"destination": "desk"}))
        reason, part = await ended(call)
    assert (reason, part.outcome, part.ctx["passed_on"]) == ("transferred", "human", True)


def asking(**sales: Any) -> dict[str, Any]:
    """Return a document whose destination `sales` says what happens with an unanswered caller."""
    voice = {"destinations": {"sales": {"number": "+33111111111", "timeout_s": 15, **sales}}}
    lifecycle = document()["lifecycle"]
    lifecycle["on_transfer"] = {
        "url": "{{base_url}}/transfers",
        "body": {
            "to": "{{ctx.transfer_destination}}",
            "summary": "{{ctx.transfer_summary}}",
            "said": "{{transcript_summary}}",
        },
    }
    body = lifecycle["on_end"]["body"]
    body |= {"answered": "{{ctx.transfer_answered}}", "status": "{{ctx.transfer_status}}"}
    return document(voice=voice, lifecycle=lifecycle)


async def transferred(
    server: PhoneServer, sid: str = "CA1", **ctx: Any
) -> tuple[str, FollowUp, asyncio.Task[None]]:
    """Let a call ring, be answered and transferred; return its id and what follows."""
    call, token = await server.ring(sid)
    server.ctx = {"had_conversation": True, **ctx}
    serving = await server.answer(token, sid)
    if serving.done():  # the server was killed
        await serving
    server.speakers[-1].over.set_result(CallOver("transferred", "sales"))
    await serving
    return call.call_id, await server.calls.after(call.call_id), serving


async def test_a_caller_who_is_put_through_ends_when_the_conversation_does(
    memory: Database, api: Api
) -> None:
    agent = compiled(asking(summary="spoken", on_unanswered="agent"))
    server = phone_server_on(memory, api, agent=agent)
    call_id, after, _ = await transferred(server, transfer_summary="Wants two <chairs>.")
    assert (after.number, after.waits) == (0, True)
    assert (await call_of(server, call_id)).status == "transferring"
    transferred_at = server.clock()
    server.clock.now += 5 * SECOND
    said = await server.calls.answered(call_id, 0)
    assert said.text == "A call passed on by Shop. Wants two <chairs>."
    server.clock.now += 300 * SECOND
    await server.tick()
    assert api.of("/messages") == [], "it is not over"
    assert [each.path for each in api.sent] == ["/calls"], "on_start alone"
    for _ in range(2):  # a webhook may be repeated
        report = {"DialCallDuration": "300"}
        assert await dialled(server, call_id, after, "completed", **report) == FollowUp()
    await server.quiet()
    call = await call_of(server, call_id)
    assert (call.status, call.end_reason, call.ended_time) == (
        "ended",
        "transferred",
        transferred_at,
    )
    (attempt,) = call.transfers
    assert (attempt.destination, attempt.status, attempt.seconds) == ("sales", "completed", 300)
    assert attempt.answered_time == transferred_at + 5 * SECOND
    assert "+33111111111" not in str(call), "names, no numbers"
    assert api.of("/messages") == [], "on_no_action is not for a caller who was put through"
    (end,) = [each.body for each in api.sent if each.method == "PATCH"]
    assert (end["answered"], end["status"], end["reason"]) == (True, "completed", "transferred")


@pytest.mark.parametrize("back", ["agent", "message"])
async def test_a_caller_whom_nobody_answers_comes_back_to_the_same_conversation(
    memory: Database, api: Api, back: str
) -> None:
    server = phone_server_on(memory, api, agent=compiled(asking(on_unanswered=back, attempts=2)))
    call_id, after, _ = await transferred(server, basket=3)
    again = await dialled(server, call_id, after, "busy")
    assert (again.destination, again.number) == ("+33111111111", 1)
    returned = await dialled(server, call_id, again, "no-answer")
    assert returned.token is not None
    assert returned.destination is None
    serving = await server.answer(returned.token, "CA1")
    speaker = server.speakers[-1]
    earlier = speaker.opening.earlier
    assert earlier is not None
    assert (earlier.call.returns, earlier.call.return_to) == (1, back)
    ctx = agent_part(earlier.stored.thread).ctx
    known = {name: ctx[name] for name in ("basket", "transfer_answered", "transfer_status")}
    assert known == {"basket": 3, "transfer_answered": False, "transfer_status": "no-answer"}
    assert api.of("/messages") == [], "the conversation has not ended"
    speaker.over.set_result(CallOver("caller_hung_up"))
    await serving
    await server.quiet()
    call = await call_of(server, call_id)
    assert (call.status, call.end_reason) == ("ended", "caller_hung_up")
    assert [(each.status, each.destination) for each in call.transfers] == [
        ("busy", "sales"),
        ("no-answer", "sales"),
    ]
    assert len(api.of("/messages")) == 1, "as its condition says"
    assert len(api.of("/calls")) == 2, "one start, one end"
    assert (await server.calls.after(call_id)) == FollowUp()


async def test_a_caller_comes_back_twice_at_most(memory: Database, api: Api) -> None:
    server = phone_server_on(memory, api, agent=compiled(asking(on_unanswered="agent")))
    call_id, after, _ = await transferred(server)
    for _ in range(MAX_RETURNS):
        returned = await dialled(server, call_id, after, "busy")
        assert returned.token is not None
        serving = await server.answer(returned.token, "CA1")
        server.speakers[-1].over.set_result(CallOver("transferred", "sales"))
        await serving
        after = await server.calls.after(call_id)
    last = await dialled(server, call_id, after, "failed")
    assert last.token is None
    assert last.text.startswith("Nobody can take your call")
    call = await call_of(server, call_id)
    assert (call.status, call.end_reason, len(call.transfers)) == ("ended", "transferred", 3)
    await server.quiet()
    assert [each.body["answered"] for each in api.sent if each.method == "PATCH"] == [False]


@pytest.mark.parametrize(
    "hinders", ["draining", "hung_up", "stopped"], ids=lambda why: f"as it is {why}"
)
async def test_a_caller_whom_the_agent_cannot_take_back_hears_so(
    memory: Database, api: Api, hinders: str
) -> None:
    server = phone_server_on(memory, api, agent=compiled(asking(on_unanswered="agent")))
    call_id, after, _ = await transferred(server)
    report = {}
    if hinders == "draining":
        server.slots.stop_accepting()
    elif hinders == "stopped":
        await server.life.endings.end_all(agent_id="shop")
    else:
        report = {"CallStatus": "completed"}
    last = await dialled(server, call_id, after, "no-answer", **report)
    assert last.token is None
    assert last.text.startswith("Nobody") == (hinders != "hung_up")
    call = await call_of(server, call_id)
    assert call.end_reason == ("draining" if hinders == "stopped" else "transferred")
    await server.quiet()
    assert sum(each.method == "PATCH" for each in api.sent) == 1
    assert server.slots.taken == 0


@pytest.mark.parametrize("picked_up", [True, False])
async def test_a_transfer_without_a_report_ends_by_itself(
    memory: Database, api: Api, picked_up: bool
) -> None:
    server = phone_server_on(memory, api, agent=compiled(asking(on_unanswered="agent")))
    call_id, _, _ = await transferred(server)
    if picked_up:
        assert (await server.calls.answered(call_id, 0)).text == ""
    server.clock.now += 74 * SECOND
    await server.tick()
    assert (await call_of(server, call_id)).status == "transferring"
    server.clock.now += (TALK_MS if picked_up else 0) + 2 * SECOND
    await server.tick()
    await server.quiet()
    assert (await call_of(server, call_id)).status == "ended"
    assert [each.body["answered"] for each in api.sent if each.method == "PATCH"] == [picked_up]


async def test_a_caller_who_does_not_come_back_ends_the_call(memory: Database, api: Api) -> None:
    server = phone_server_on(memory, api, agent=compiled(asking(on_unanswered="message")))
    call_id, after, _ = await transferred(server)
    returned = await dialled(server, call_id, after, "busy")
    server.clock.now += 16 * SECOND
    await server.tick()
    await server.quiet()
    assert (await call_of(server, call_id)).end_reason == "transferred"
    assert [each.body["answered"] for each in api.sent if each.method == "PATCH"] == [False]
    with pytest.raises(StreamRefused):
        await server.calls.take(returned.token or "", "CA1")


async def test_a_summary_is_posted_for_each_transfer_until_it_arrives(
    memory: Database, api: Api
) -> None:
    api.answers["/transfers"] = HttpAnswer(status=503)
    agent = compiled(asking(on_unanswered="agent", summary="posted"))
    server = phone_server_on(memory, api, agent=agent)
    call_id, after, _ = await transferred(server, transfer_destination="sales")
    await server.quiet()
    (first,) = api.of("/transfers")
    assert first.body["to"] == "sales"
    assert first.body["summary"] == f"The caller said: I am {NUMBER}."
    assert not after.waits
    assert (await server.calls.answered(call_id, 0)).text == "", "it is posted, not read"
    api.answers.clear()
    server.clock.now += 5 * SECOND
    await server.tick()
    returned = await dialled(server, call_id, after, "busy")
    serving = await server.answer(returned.token or "", "CA1")
    server.speakers[-1].over.set_result(CallOver("transferred", "sales"))
    await serving
    await server.quiet()
    keys = [each.key for each in api.of("/transfers")]
    assert keys == [f"{call_id}:on_transfer"] * 2 + [f"{call_id}:on_transfer:2"]


async def test_a_transferred_call_takes_no_slot_and_no_place_of_its_agent(
    memory: Database, api: Api
) -> None:
    document = asking() | {"limits": {"max_calls": 1}}
    server = phone_server_on(memory, api, agent=compiled(document))
    await transferred(server)
    assert server.slots.taken == 0
    await server.ring("CA2")


@by_clock
async def test_the_model_goes_on_with_what_was_said_and_done_before_a_transfer() -> None:
    async with opened_call(shop(voice=asking(on_unanswered="message")["voice"])) as call:
        call.model.answers("Which chair?")
        call.model.heard("The red one.")
        call.model.answers("", 0, ("look", {}))
        await call.rest(1)
        call.phone.hang_up()
        await call.task
        setup = returned_setup(call, await call.threads.get_of(call.runner.call_id, "default"))
        stored, session, prompt = await setup.answered()
        settings = setup.settings(stored, session, prompt, [])
        recorder = CallRecorder(setup, "MZ2")
        await setup.close()
    assert settings.greeting is None
    assert settings.note is not None
    assert settings.note.startswith("You have transferred the caller")
    assert settings.earlier == [("user", "The red one.")]
    assert settings.limits.max_call_s < 900
    bridge = Bridge(settings, "MZ2", 0.0)
    sent = [
        orjson.loads(each.text)
        for event in ({"type": "session.created"}, {"type": "session.updated"})
        for each in bridge.feed(ModelEvent(event), 0.0)
        if isinstance(each, SendModel)
    ]
    kinds = [(each["type"], each.get("item", {}).get("role")) for each in sent]
    assert kinds[1:] == [
        ("conversation.item.create", "user"),
        ("conversation.item.create", "system"),
        ("response.create", None),
    ]
    seen = [message async for message in _until_now(recorder)]
    assert {"call:said", "call:tool"} <= {message["type"] for message in seen}


async def _until_now(recorder: CallRecorder) -> AsyncGenerator[dict[str, Any]]:
    recorder.feed.close()
    async for message in recorder.feed.follow():
        yield message


def returned_setup(call: HeldCall, stored: StoredThread) -> CallSetup:
    """Return the setup of a held call whose caller comes back."""
    part = agent_part(stored.thread)
    record = Call(
        call_id=call.runner.call_id, agent_id="shop", agent_version=1, workspace="default",
        channel="phone", started_time=0, answered_time=part.started_time, returns=1,
        return_to="message",
    )  # fmt: skip
    agent = call.runner._setup.agent  # pyright: ignore[reportPrivateUsage]
    return CallSetup(call.parts, agent, stored.thread, EarlierPart(call=record, stored=stored))


def test_a_posted_summary_needs_an_address() -> None:
    agent = asking(summary="posted")
    assert not check_document(agent).errors
    del agent["lifecycle"]["on_transfer"]
    (error,) = check_document(agent).errors
    assert (error.code, error.where) == ("missing_field", "lifecycle.on_transfer")
    assert "sales" in error.what
    (warning,) = [
        each for each in check_document(asking()).warnings if each.where == "lifecycle.on_transfer"
    ]
    assert warning.code == "ignored_field"


@by_clock
async def test_the_model_is_asked_for_a_summary_where_somebody_gets_it() -> None:
    tools = {"connect": {"type": "builtin", "action": "transfer"}}
    for summary, is_asked in (("none", False), ("spoken", True)):
        voice = asking(summary=summary)["voice"]
        async with opened_call(document(voice=voice, tools=tools)) as call:
            (declared,) = call.model.sent[0]["session"]["tools"]
            assert ("summary" in declared["parameters"]["properties"]) == is_asked
            given = {"summary": " S" * 1_000} if is_asked else {}
            call.model.answers("", 0, ("connect", {"destination": "sales", **given}))
            _, part = await ended(call)
        assert part.ctx["transfer_destination"] == "sales"
        assert len(part.ctx["transfer_summary"] or "") == (600 if is_asked else 0)


async def transferred_and_back(server: PhoneServer) -> None:
    """Let a caller be transferred, come back as nobody answers, and be put through at last."""
    call_id, after, _ = await transferred(server)
    returned = await dialled(server, call_id, after, "busy")
    serving = await server.answer(returned.token or "", "CA1")
    if serving.done():
        await serving
    server.speakers[-1].over.set_result(CallOver("transferred", "sales"))
    await serving
    after = await server.calls.after(call_id)
    await server.calls.answered(call_id, after.number or 0)
    await dialled(server, call_id, after, "completed", DialCallDuration="9")
    await server.life.deliveries.wait_until_sent(timeout_s=1)


@pytest.mark.parametrize("after", [False, True])
async def test_killed_at_any_write_of_a_transfer_the_call_ends_once_on_another_server(
    api: Api, after: bool
) -> None:
    agent = compiled(asking(on_unanswered="agent", summary="posted"))
    number, died = 0, True
    while died:
        number += 1
        async with MemoryDatabase() as database:
            api.sent.clear()
            dying = phone_server_on(database, api, agent=agent, dies_at=number, after=after)
            with suppress(Killed, StreamRefused):
                await transferred_and_back(dying)
            died = dying.records.is_dead
            await dying.life.deliveries.close()
            other = phone_server_on(database, api, agent=agent, clock=dying.clock)
            for _ in range(12):
                other.clock.now += 3_600 * SECOND
                await other.tick()
            calls, _ = await other.calls.listed(REVIEWER).list()
            assert all(call.status == "ended" for call in calls), number
            owed = await other.life.deliveries.list()
            assert all(each.status == "done" for each in owed), number
            assert {each.key for each in api.sent} == {each.id for each in owed}, number
            threads = await database.records("default").query("thread")
            assert all(not thread.data["agentOpen"] for thread in threads), number
            ends = [each.key for each in api.sent if each.method == "PATCH"]
            assert len(set(ends)) == len(threads), number
    assert number > 20, "every write of it"
    assert {each.event for each in owed} == {"on_start", "on_transfer", "on_end"}
    assert [each.status for each in calls[0].transfers] == ["busy", "completed"]
