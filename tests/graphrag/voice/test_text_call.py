"""A call that the model of chats answers is held from its start to its end, however it ends."""

import asyncio
from typing import Any

import pytest

from graphrag.approvals import Approve
from graphrag.llm.base import AssistantMessage, SystemMessage, ToolMessage, UserMessage
from graphrag.llm.errors import ModelUnreachable
from tests.graphrag.voice.test_call_tools import PROPOSE
from tests.support.agent_life import Api, document
from tests.support.agents import GRAPH, REVIEWER
from tests.support.held_calls import shop
from tests.support.scripted_provider import Says, ScriptedProvider, call
from tests.support.service import CHANGE
from tests.support.text_calls import TextCall, text_call
from tests.support.timeless import by_clock
from tools.http.fetch import HttpAnswer

GREETING = {"unknown_customer": "Greet them."}


async def history(held: TextCall) -> list[tuple[str, str]]:
    """Return what the model remembers of both."""
    messages = (await held.thread()).messages
    return [
        ("user" if isinstance(m, UserMessage) else "assistant", m.content)
        for m in messages
        if isinstance(m, UserMessage | AssistantMessage)
    ]


@by_clock
async def test_a_plain_call_from_its_greeting_to_the_callers_goodbye() -> None:
    api = Api(answers={"/calls": HttpAnswer(status=201, value={"id": "c-7"})})
    script = ScriptedProvider("Good day.", "Until **six**.")
    async with script as model, text_call(shop(greeting=GREETING), model, api=api) as held:
        await held.said("Good day.\n")
        held.phone.spoken()
        held.phone.hears("Are you open?")
        await held.said("Until six.\n")
        held.phone.spoken()
        await asyncio.sleep(1)
        over = await held.hang_up()
        assert (over.reason, held.records.stored["status"]) == ("caller_hung_up", "ending")
        await held.parts.life.endings.end_held(held.runner.call_id, over.reason)
        await held.parts.life.deliveries.wait_until_sent(timeout_s=5)
        part = await held.part()
        assert await held.transcript() == [
            ("system", "Greet them."),
            ("assistant", "Good day."),
            ("user", "Are you open?"),
            ("assistant", "Until six."),
        ]
        first, second = model.requests
    assert (part.channel, part.outcome) == ("voice", "info_only")
    assert "You sell." in first.messages[0].content
    assert first.messages[1].content == "Greet them."
    assert [m.content for m in second.messages if isinstance(m, UserMessage)] == ["Are you open?"]
    assert held.records.stored["usage"]["textIn"] == 200
    assert (api.sent[-1].body["reason"], api.sent[-1].body["id"]) == ("caller_hung_up", "c-7")


@by_clock
async def test_words_go_to_the_telephone_while_the_model_still_writes() -> None:
    held_back = asyncio.Event()
    slow = Says(text="One two three", held=held_back)
    async with ScriptedProvider(slow) as model, text_call(shop(), model) as held:
        held.phone.hears("Count.")
        await held.said("One two ")
        assert not any(frame["last"] for frame in held.phone.sent)
        held_back.set()
        await held.said("One two three\n")
        await held.hang_up()
    assert held.counts.seen["voice_turn_seconds"]


@by_clock
async def test_an_interruption_cuts_the_transcript_and_what_the_model_remembers() -> None:
    script = ScriptedProvider("We open at nine. We close at six.", "Gladly.")
    async with script as model, text_call(shop(), model) as held:
        held.phone.hears("When are you open?")
        await held.said("six.\n")
        held.phone.interrupts("We open at nine.", 1_100)
        held.phone.hears("Thanks, book it.")
        await held.said("Gladly.\n")
        held.phone.spoken()
        await asyncio.sleep(1)
        assert await history(held) == [
            ("user", "When are you open?"),
            ("assistant", "We open at nine."),
            ("user", "Thanks, book it."),
            ("assistant", "Gladly."),
        ]
        await held.hang_up()
        cut = (await held.part()).transcript[1]
    assert (cut["content"], cut["unheard"]) == ("We open at nine.", "We close at six.")
    assert (cut["interrupted"], cut["heardMs"]) == (True, 1_100)
    assert held.counts.seen["voice_barge_in"] == [1.0]


@by_clock
async def test_an_interruption_breaks_off_an_answer_that_is_still_written() -> None:
    never = asyncio.Event()
    script = ScriptedProvider(Says(text="First this and then", held=never), "Yes?")
    async with script as model, text_call(shop(), model) as held:
        held.phone.hears("Tell me all.")
        await held.said("First this ")
        held.phone.interrupts("First")
        await held.until(lambda: model.closed_early == 1)
        held.phone.hears("Stop.")
        await held.said("Yes?\n")
        assert ("assistant", "First") in await history(held)
        await held.hang_up()


@by_clock
async def test_the_agent_hangs_up_once_its_last_words_were_spoken() -> None:
    script = ScriptedProvider(Says(text="Bye then.", calls=[call("bye")], finish="tool_calls"))
    async with script as model, text_call(shop(), model) as held:
        held.phone.hears("That is all.")
        await held.said("Bye then.\n")
        held.phone.tells("info", name="agentSpeaking", value="on")
        await asyncio.sleep(0.5)
        assert not held.task.done()
        held.phone.tells("info", name="agentSpeaking", value="off")
        over = await held.over()
        part = await held.part()
    assert (over.reason, part.ctx["should_hangup"]) == ("agent_hung_up", True)
    assert held.phone.sent[-1] == {"type": "end"}


@by_clock
async def test_a_caller_is_transferred_to_a_named_destination_only() -> None:
    voice = {"destinations": {"sales": {"number": "+33123456789"}}}
    tools = {"connect": {"type": "builtin", "action": "transfer"}}
    script = ScriptedProvider(
        Says(calls=[call("connect", {"destination": "+33999999999"})], finish="tool_calls"),
        Says(calls=[call("connect", {"destination": "sales"})], finish="tool_calls"),
        "I connect you.",
    )
    agent = document(voice=voice, tools=tools, lifecycle={})
    async with script as model, text_call(agent, model) as held:
        held.phone.hears("Sales, please.")
        over = await held.over()
        assert "I connect you." in held.phone.words
    assert (over.reason, over.destination) == ("transferred", "sales")
    assert held.records.stored["destination"] == "sales"


@by_clock
async def test_an_act_that_an_interruption_meets_is_finished_and_the_model_learns_its_result() -> (
    None
):
    api = Api(held={"/orders": asyncio.Event()})
    script = ScriptedProvider(
        Says(text="I order it.", calls=[call("order", {})], finish="tool_calls"), "It is done."
    )
    async with script as model, text_call(shop(), model, api=api) as held:
        held.phone.hears("A pizza.")
        await held.until(lambda: bool(api.of("/orders")))
        held.phone.interrupts("I order it.")
        held.phone.hears("And?")
        api.held["/orders"].set()
        await held.said("It is done.\n")
        (result,) = [m for m in model.requests[-1].messages if isinstance(m, ToolMessage)]
        await held.hang_up()
        part = await held.part()
    assert len(api.of("/orders")) == 1
    assert [each.ok for each in part.tools] == [True]
    assert "stopped" not in result.content
    assert part.ctx["order_placed"] is True


@by_clock
async def test_a_silent_caller_is_asked_and_then_taken_leave_of() -> None:
    voice = {"silence_s": 5, "silence_prompts": 1}
    script = ScriptedProvider("Still there?", "Goodbye.")
    async with script as model, text_call(shop(voice=voice), model) as held:
        over = await held.over()
        asked, bye = model.requests
        assert "says nothing" in asked.messages[-1].content
        assert isinstance(bye.messages[-1], SystemMessage)
    assert (over.reason, over.said_goodbye) == ("caller_silent", True)
    assert held.phone.sent[-1] == {"type": "end"}


@by_clock
async def test_a_call_ends_after_its_longest_time_with_a_goodbye() -> None:
    script = ScriptedProvider("Goodbye.")
    voice = {"silence_s": 120}
    agent = shop(limits={"max_call_s": 30}, voice=voice)
    async with script as model, text_call(agent, model) as held:
        over = await held.over()
        notes = [m.content for m in model.requests[0].messages if isinstance(m, SystemMessage)]
    assert over.reason == "max_duration"
    assert any("come to an end" in note for note in notes)


@by_clock
async def test_digits_reach_the_model_as_text() -> None:
    async with ScriptedProvider("Order 42.") as model, text_call(shop(), model) as held:
        for digit in "42#":
            held.phone.tells("dtmf", digit=digit)
        await held.said("Order 42.\n")
        await held.hang_up()
        assert (await held.transcript())[0] == ("user", "[keypad] 42#")


@by_clock
async def test_a_slow_tool_is_waited_for_aloud() -> None:
    api = Api(held={"/stock": asyncio.Event()})
    script = ScriptedProvider(Says(calls=[call("look", {})], finish="tool_calls"), "Two.")
    async with script as model, text_call(shop(), model, api=api) as held:
        held.phone.hears("How many?")
        await held.said("One moment, please. ")
        api.held["/stock"].set()
        await held.said("Two.\n")
        assert ("assistant", "Two.") in await history(held)
        assert not any("moment" in words for _, words in await history(held))
        await held.hang_up()


@pytest.mark.parametrize(("code", "reason"), [(1000, "caller_hung_up"), (1006, "line_lost")])
@by_clock
async def test_a_connection_that_is_lost_is_told_from_a_caller_who_hangs_up(
    code: int, reason: str
) -> None:
    async with ScriptedProvider() as model, text_call(shop(), model) as held:
        await asyncio.sleep(0.1)
        assert (await held.hang_up(code)).reason == reason


@pytest.mark.parametrize(
    "message", [
    "no json", "[]", '{"type":"media"}', '{"type":"prompt"}', '{"type":"dtmf","digit":"x"}',
    '{"type":"setup","sessionId":"VX2"}', '{"type":"prompt","voicePrompt":"' + "a" * 70_000 + '"}',
    '{"type":"interrupt","durationUntilInterruptMs":"soon"}',
])  # fmt: skip
@by_clock
async def test_a_message_that_breaks_the_protocol_ends_the_call(message: str) -> None:
    async with ScriptedProvider() as model, text_call(shop(), model) as held:
        held.phone.inbox.put_nowait(message)
        over = await held.over()
    assert over.reason == "error"
    assert held.phone.closed in (1003, 1008)


@by_clock
async def test_what_a_caller_says_while_an_answer_is_written_is_answered_after_it() -> None:
    never = asyncio.Event()
    script = ScriptedProvider(Says(text="", pieces=(), held=never), "Both, then.")
    async with script as model, text_call(shop(), model) as held:
        held.phone.hears("A pizza.")
        await held.until(lambda: len(model.requests) == 1)
        held.phone.hears("And a salad.")
        await held.said("Both, then.\n")
        users = [m.content for m in model.requests[-1].messages if isinstance(m, UserMessage)]
        await held.hang_up()
    assert users == ["A pizza.", "And a salad."]


@by_clock
async def test_a_model_that_fails_once_is_asked_again_and_twice_ends_the_call() -> None:
    down = ModelUnreachable(provider="scripted", reason="down")
    script = ScriptedProvider(down, "Hello.", down, down)
    async with script as model, text_call(shop(), model) as held:
        held.phone.hears("Hello?")
        await held.said("Hello.\n")
        held.phone.spoken()
        held.phone.hears("Still?")
        over = await held.over()
        users = [m.content for m in model.requests[1].messages if isinstance(m, UserMessage)]
    assert (over.reason, users) == ("model_unreachable", ["Hello?"])


@by_clock
async def test_what_a_caller_proposes_a_person_decides_and_the_caller_learns() -> None:
    clerk = document(graphs=[GRAPH], permissions={"propose": True, "role": "editor"}, lifecycle={})
    script = ScriptedProvider(
        Says(calls=[call(PROPOSE, CHANGE)], finish="tool_calls"), "It waits.", "It was decided."
    )
    async with script as model, text_call(clerk, model, graph=GRAPH) as held:
        held.phone.hears("Rename it.")
        await held.said("It waits.\n")
        held.phone.spoken()
        (approval,) = await held.parts.approvals.list(by=REVIEWER)
        assert approval.asker == "caller:call1"
        (result,) = [m for m in model.requests[1].messages if isinstance(m, ToolMessage)]
        assert str(approval.voice_code) in result.content
        await held.parts.approvals.decide(approval.id, Approve(), REVIEWER)
        await held.said("It was decided.\n")
        assert str(approval.voice_code) in model.requests[-1].messages[-1].content
        await held.hang_up()
    assert held.records.stored["approvals"][0]["approvalId"] == approval.id


@by_clock
async def test_a_welcome_is_spoken_by_the_telephone_service_and_remembered() -> None:
    voice = {"speech": {"welcome": "Welcome to the shop."}}
    async with ScriptedProvider("Six.") as model, text_call(shop(voice=voice), model) as held:
        held.phone.interrupts("Welcome")
        held.phone.hears("Open until?")
        await held.said("Six.\n")
        sent: list[Any] = [m.content for m in model.requests[0].messages[1:]]
        await held.hang_up()
        assert (await held.transcript())[0] == ("assistant", "Welcome")
    assert "shop" not in held.phone.words
    assert sent == ["Welcome", "Open until?"]


@by_clock
async def test_a_server_that_stops_lets_the_agent_say_goodbye() -> None:
    never = asyncio.Event()
    script = ScriptedProvider(Says(text="A long story ", held=never), "We have to stop. Goodbye.")
    async with script as model, text_call(shop(), model) as held:
        held.phone.hears("Tell me.")
        await held.said("A long ")
        held.runner.end_soon("draining")
        await held.said("Goodbye.\n")
        over = await held.over()
    assert (over.reason, over.said_goodbye) == ("draining", True)
    assert held.phone.sent[-1] == {"type": "end"}


@by_clock
async def test_tokens_of_the_model_of_chats_are_those_of_the_call() -> None:
    async with ScriptedProvider("Hello.") as model, text_call(shop(), model) as held:
        held.phone.hears("Hello?")
        await held.said("Hello.\n")
        await held.hang_up()
        usage = held.records.stored["usage"]
    assert (usage["textIn"], usage["textOut"], usage["audioIn"]) == (100, 10, 0)
    assert usage["costUsd"] == 0.0


@by_clock
async def test_a_model_that_fails_in_the_middle_of_an_answer_goes_on() -> None:
    broken = ModelUnreachable(provider="scripted", reason="down")
    script = ScriptedProvider(Says(text="We are open ", then=broken), "until six.")
    async with script as model, text_call(shop(), model) as held:
        held.phone.hears("Until when?")
        await held.said("until six.\n")
        held.phone.spoken()
        await asyncio.sleep(1)
        await held.hang_up()
        said = [m.content for m in model.requests[1].messages[1:]]
        transcript = await held.transcript()
    assert said[:2] == ["Until when?", "We are open "]
    assert "Go on where you were" in said[2]
    assert [words for _, words in transcript] == ["Until when?", "We are open", "until six."]


@by_clock
async def test_words_that_the_next_ones_overtook_before_the_model_was_asked_are_not_lost() -> None:
    async with ScriptedProvider("Both.") as model, text_call(shop(), model) as held:
        held.phone.hears("A pizza.")
        held.phone.hears("And a salad.")
        await held.said("Both.\n")
        users = [m.content for m in model.requests[-1].messages if isinstance(m, UserMessage)]
        await held.hang_up()
    assert "A pizza." in "\n".join(users)
    assert "And a salad." in "\n".join(users)
