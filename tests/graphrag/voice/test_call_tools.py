"""Tools of graphs by voice: proposals wait for people and are named by a code,
sources are noted.
"""

import asyncio
import json
from typing import Any

import pytest

from datasources.mock import MemoryDatabase
from graphrag.app.voice_diagnostics import examine_voice
from graphrag.app.voice_services import calls_of
from graphrag.approvals import Approve, NotAllowed, Person, Reject
from graphrag.approvals.voice_codes import new_code, normal
from graphrag.config import Settings, load_settings
from graphrag.realtime.openai_side import OpenAISide
from graphrag.simulator.realtime_double import RealtimeDouble
from tests.graphrag.agents.managing import ADMIN, ManagerCase
from tests.graphrag.agents.managing import document as agent_document
from tests.support.agent_life import document
from tests.support.agents import GRAPH, REVIEWER
from tests.support.held_calls import HeldCall, held_call, opened_call
from tests.support.opened import open_services
from tests.support.scripted_mind import ScriptedMind
from tests.support.service import CHANGE
from tests.support.timeless import by_clock

PROPOSE = "propose_update_node"


def clerk(**changes: Any) -> dict[str, Any]:
    may = {"propose": True, "role": "editor"}
    return document(graphs=[GRAPH], permissions=may, lifecycle={}, **changes)


def rename(number: int) -> tuple[str, dict[str, Any]]:
    return PROPOSE, {**CHANGE, "changes": {"data.level": f"level {number}"}}


async def proposed(call: HeldCall) -> Any:
    await call.open()
    call.model.heard("Rename it.")
    call.model.answers("", 0, (PROPOSE, CHANGE))
    await call.until(lambda: bool(call.model.outputs()))
    (approval,) = await call.approvals.list(by=REVIEWER)
    return approval


@pytest.mark.parametrize("decision", [Approve(), Reject(feedback="Not now.")])
@by_clock
async def test_what_a_caller_proposes_a_person_decides_and_the_caller_learns(
    decision: Approve | Reject,
) -> None:
    async with held_call(clerk(), graph=GRAPH) as call:
        approval = await proposed(call)
        code = approval.voice_code
        assert code in call.model.outputs()["r2c0"]
        assert (approval.asker, approval.needs_person) == ("caller:call1", True)
        assert "+336" not in json.dumps(approval.to_document())
        found = await call.approvals.list(voice_code=code.upper().replace(" ", " - "), by=REVIEWER)
        assert [each.id for each in found] == [approval.id]
        await call.runner.decided(approval.id)
        assert len(call.model.notes()) == 0, "nobody decided yet"
        decided = await call.approvals.decide(approval.id, decision, REVIEWER)
        if isinstance(decision, Approve):  # a rejection is found by the call itself
            await call.runner.decided(approval.id)
            await call.runner.decided(approval.id)
        await call.rest(2)
        (note,) = call.model.notes()
        assert code in note
        assert decided.status in ("applied", "rejected")
        assert call.model.kinds()[-1] in ("response.create", "input_audio_buffer.append")
        await call.hang_up()
        proposal = {"approvalId": approval.id, "spokenCode": code, "told": True}
        assert call.records.stored["approvals"] == [proposal]


@pytest.mark.parametrize("role", ["editor", "reviewer", "admin"])
@by_clock
async def test_nobody_decides_as_a_caller(role: Any) -> None:
    async with held_call(clerk(), graph=GRAPH) as call:
        approval = await proposed(call)
        for user_id in ("caller:call1", "caller:other"):
            with pytest.raises(NotAllowed) as refused:
                await call.approvals.decide(
                    approval.id, Approve(), Person(user_id, role, "default")
                )
            assert refused.value.code == "callers_decide_nothing"
        assert (await call.approvals.get(approval.id, REVIEWER)).is_open
        await call.hang_up()


@by_clock
async def test_a_call_makes_five_proposals() -> None:
    async with opened_call(clerk(), graph=GRAPH) as call:
        call.model.answers("", 0, *(rename(number) for number in range(7)))
        await call.until(lambda: len(call.model.outputs()) == 7)
        made = await call.approvals.list(by=REVIEWER)
        assert len(made) == 5
        assert len({approval.voice_code for approval in made}) == 5
        assert "5 proposals" in call.model.outputs()["r1c6"]
        await call.hang_up()


@by_clock
async def test_the_nodes_that_tools_return_are_the_sources_of_what_the_caller_asked(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", logger="tools.http")
    async with opened_call(clerk(), graph=GRAPH) as call:
        call.model.heard("Who plays?")
        search: tuple[str, dict[str, Any]] = ("search_nodes", {"query": "player"})
        call.model.answers("", 0, search, search, ("search_nodes", {"query": "zzzz"}))
        await call.until(lambda: len(call.model.outputs()) == 3)
        await call.hang_up()
        logged = [vars(each) for each in caplog.records if each.getMessage() == "tool_call"]
        assert [each["tool"] for each in logged] == ["search_nodes"] * 3
        (source,) = call.records.stored["sources"]
        graph = await call.parts.source.get_graph(GRAPH)
        assert (source["turn"], source["graph"], source["revision"]) == (1, GRAPH, graph.revision)
        keys = source["nodes"]
        assert len(await call.parts.source.get_nodes_by_key(GRAPH, keys)) == len(keys) > 0
        names = {tool["name"] for tool in call.model.sent[0]["session"]["tools"]}
        assert {"search_nodes", PROPOSE} <= names
        assert "order" not in names, "it is not declared"


@by_clock
async def test_who_follows_late_sees_a_call_from_its_beginning_on() -> None:
    async with held_call(clerk(), graph=GRAPH) as call:
        early = asyncio.create_task(followed(call))
        await proposed(call)
        call.model.answers("It waits.")
        await call.rest(1)
        late = asyncio.create_task(followed(call))
        await call.hang_up()
        call.runner.feed.add({"type": "call:ended", "outcome": None, "reason": "caller_hung_up"})
        call.runner.feed.close()
        for messages in (await early, await late, await followed(call)):
            assert {each["callId"] for each in messages} == {"call1"}
            last = {
                each["itemId"]: each["text"] for each in messages if each["type"] == "call:said"
            }
            assert list(last.values()) == ["Rename it.", "It waits."]
            kinds = [each["type"] for each in messages]
            assert {"call:state", "call:tool", "call:proposal"} <= set(kinds)
            assert kinds[-1] == "call:ended"


async def followed(call: HeldCall) -> list[dict[str, Any]]:
    return [message async for message in call.runner.feed.follow()]


@pytest.mark.parametrize("language", ["en", "fr"])
def test_a_code_is_two_words_and_two_digits_however_it_is_written(language: Any) -> None:
    for _ in range(200):
        code = new_code(language)
        first, second, number = code.split(" ")
        assert first.isalpha()
        assert second.isalpha()
        assert 10 <= int(number) <= 99
        assert normal(f"  {code.upper()}! ") == code


@by_clock
async def test_what_is_recorded_of_tools_answers_in_their_place() -> None:
    declared = [{"type": "function", "name": name} for name in ("order", "look")]
    session = {"mode": "inline", "instructions": "You sell.", "tools": declared}
    asked: list[tuple[str, Any]] = []

    def recorded(name: str, arguments: Any) -> Any:
        asked.append((name, arguments))
        return {"ok": name == "order", "result": f"{name} as then"}

    async with opened_call(document(session=session), recorded=recorded) as call:
        call.model.answers("", 0, ("order", {"dish": "soup"}), ("look", {}))
        await call.until(lambda: len(call.model.outputs()) == 2)
        await call.hang_up()
        part = await call.part()
        assert [each.path for each in call.api.sent] == ["/calls"], "only the call's own"
    assert call.model.outputs() == {"r1c0": "order as then", "r1c1": "look as then"}
    assert asked[0] == ("order", {"dish": "soup"})
    assert part.ctx["order_placed"] is True
    assert [tool.ok for tool in part.tools] == [True, False]


async def test_the_settings_choose_who_speaks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    found: list[str] = []
    for realtime, key in (
        ("auto", None),
        ("off", "sk-1"),
        ("openai", None),
        ("auto", "sk-1"),
        ("double", None),
    ):
        given = {} if key is None else {"realtime_api_key": key}
        async with open_services(
            load_settings(db="memory:", realtime=realtime, **given)
        ) as services:
            models = calls_of(services).deps.models
            side = models("gpt-realtime-2.1") if models else None
            found.append(
                "off" if side is None else "openai" if type(side) is OpenAISide else "double"
            )
    assert found == ["off", "off", "off", "openai", "double"]


async def test_a_double_lives_as_long_as_the_connection_to_it() -> None:
    async with open_services(load_settings(db="memory:", realtime="double")) as services:
        models = calls_of(services).deps.models
        assert models is not None
        before = asyncio.all_tasks()
        side = models("gpt-realtime-2.1")
        await side.open()
        async for event in side.events():
            assert event["type"] == "session.created"
            break
        await side.close()
        await side.close()
        assert asyncio.all_tasks() <= before


KEY = "sk-of-the-double"


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "OPENAI_API_KEY",
        "NODIUS_REALTIME",
        "NODIUS_PUBLIC_URL",
        "NODIUS_TWILIO_AUTH_TOKEN",
    ):
        monkeypatch.delenv(name, raising=False)


async def said(
    settings: Settings, *, ask: bool = False, **openai: object
) -> dict[str, tuple[str, str]]:
    async with MemoryDatabase() as database:
        manager = ManagerCase(database).manager()
        await manager.apply(agent_document(openai=openai), ADMIN)
        await manager.start("helpdesk")
        found = await examine_voice(settings, database, ask=ask)
    return {each.name: (each.status, each.detail) for each in found}


async def test_a_running_agent_that_nobody_can_call_is_a_warning() -> None:
    found = await said(Settings())
    assert found["calls"][0] == found["speaker"][0] == "warning"
    assert "NODIUS_PUBLIC_URL" in found["calls"][1]
    plain = await said(Settings(public_url="http://x.example", twilio_auth_token="t" * 32))  # type: ignore[arg-type]
    assert plain["calls"][0] == "warning"
    good = Settings(public_url="https://x.example", twilio_auth_token="t" * 32, realtime="double")  # type: ignore[arg-type]
    assert {status for status, _ in (await said(good)).values()} == {"ok"}


async def test_the_key_and_the_model_are_tried_and_the_key_is_shown_nowhere() -> None:
    async with RealtimeDouble(ScriptedMind([]), key=KEY) as double:
        settings = Settings(realtime="openai", realtime_url=double.url, realtime_api_key=KEY)  # type: ignore[arg-type]
        status, detail = (await said(settings, ask=True))["speaker"]
        assert (status, KEY in detail) == ("ok", False)
        assert "it takes gpt-realtime-2.1" in detail
        assert (await said(settings, ask=True, model="gpt-realtime"))["speaker"][0] == "warning"
        wrong = settings.model_copy(
            update={"realtime_api_key": Settings(realtime_api_key="no").realtime_api_key}
        )  # type: ignore[arg-type]
        status, detail = (await said(wrong, ask=True))["speaker"]
        assert (status, "no" in detail.split()) == ("error", False)
    assert (await said(settings, ask=True))["speaker"][0] == "error"
    assert (await said(Settings(realtime="openai")))["speaker"][0] == "error"


@by_clock
async def test_a_tool_that_is_not_there_is_said_in_the_language_of_the_agent() -> None:
    for code, said in (("fr-CA", "fonction inconnue : orders"), ("en", "unknown function: orders")):
        agent = {"id": "shop", "name": "Shop", "language": code}
        async with opened_call(document(agent=agent)) as call:
            call.model.answers("", 0, ("orders", {}))
            await call.rest(1)
            assert json.loads(call.model.outputs()["r1c0"])["error"] == said


@by_clock
async def test_what_is_measured_and_logged_of_a_call_names_its_agent(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", logger="graphrag.voice")
    async with opened_call(document()) as call:
        call.model.answers("Hello, what may I do for you?", 4_000)
        await call.rest(0.5)
        call.model.heard("Stop.")
        await call.rest(1)
        await call.hang_up()
    assert call.counts.seen.keys() >= {"voice_barge_in", "voice_first_audio_seconds"}
    assert call.counts.agents == {"shop"}
    logged = [each for each in caplog.records if each.name.startswith("graphrag.voice")]
    (interrupted,) = [vars(each) for each in logged if each.getMessage() == "barge_in"]
    assert 0 <= interrupted["reaction_ms"] < 1_000
    assert {vars(each).get("agent_id") for each in logged} == {"shop"}
