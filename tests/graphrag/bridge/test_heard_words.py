"""Words count as said when they were heard: answers, texts, goodbyes; and what the caller
says by keypad.
"""

from typing import Any

import pytest

from graphrag.bridge import signals
from graphrag.simulator.double_session import DoubleSession
from tests.graphrag.bridge.fed_call import Call, a_session, sound
from tests.graphrag.realtime.test_call_with_double import GREETING, called, words
from tests.support.agent_life import Api
from tests.support.faulty_double import Faults
from tests.support.held_calls import ended, opened_call, shop
from tests.support.scripted_mind import ScriptedMind
from tests.support.timeless import by_clock

LONG = "one two three four five six seven eight nine ten"


def transcript(call: Call) -> list[tuple[str, str]]:
    return [(entry.role, entry.text) for entry in call.bridge.transcript.ordered()]


def heard(call: Call) -> list[tuple[str, str]]:
    return [(entry.role, entry.text) for entry in call.bridge.heard(call.now)]


def text_only(call: Call, response: str, item: str, words: str) -> list[signals.Action]:
    where = {"response_id": response, "item_id": item}
    call.model("response.output_text.delta", **where, delta=words)
    call.model("response.output_text.done", **where, text=words)
    return call.done(response)


def test_every_answer_that_is_text_alone_is_spoken_and_counts_when_it_was_heard() -> None:
    call = Call()
    for number in range(3):
        made = text_only(call, call.respond(), f"t{number}", f"It is {number}.")
        delete, ask = call.sent(made)
        assert (delete["type"], delete["item_id"]) == ("conversation.item.delete", f"t{number}")
        assert f"It is {number}." in ask["response"]["instructions"]
        assert ask["response"]["input"] == [], "it says these words and nothing else"
        assert len(transcript(call)) == number, "nobody has heard them yet"
        spoken = call.respond()
        call.speak(spoken, f"i{number}", 400, f"It is {number}.")
        call.model("response.output_audio.done", response_id=spoken, item_id=f"i{number}")
        call.done(spoken)
        call.marks()
    assert heard(call) == [("assistant", f"It is {number}.") for number in range(3)]
    assert call.kinds(call.wait(5)) == []


def test_a_model_that_never_speaks_is_another_fault_than_a_silent_caller() -> None:
    call = Call(a_session(greeting="Hi."))
    for _ in range(9):
        if not (call.ends or call.reconnects):
            text_only(call, call.respond(), "t", "Only words.")
    assert call.reconnects == 1
    assert transcript(call) == []


def test_what_waits_to_be_said_is_forgotten_when_the_caller_goes_on() -> None:
    call = Call()
    response = call.respond()
    call.model("input_audio_buffer.speech_started", item_id="u1")
    assert call.kinds(text_only(call, response, "t1", "It is late.")) == [
        "conversation.item.delete"
    ]
    call.model("input_audio_buffer.speech_stopped", item_id="u1")
    call.done(call.respond())
    assert "It is late." not in str(call.sent()[-1].get("response"))


@pytest.mark.parametrize("reason", ["caller_hung_up", "line_lost"])
def test_an_answer_that_the_call_cuts_off_is_kept_as_far_as_it_was_heard(reason: Any) -> None:
    call = Call()
    response = call.respond()
    call.speak(response, "i1", 5_000, LONG)
    call.model("response.output_audio.done", response_id=response, item_id="i1")
    call.speak(response, "i2", 1_000, "And more.")
    call.done(response)
    call.now += 2.5
    assert heard(call) == [("assistant", "one two three four five")]
    call.feed(signals.PhoneStopped(reason))
    (entry,) = call.bridge.transcript.ordered()
    assert (entry.text, entry.is_interrupted) == ("one two three four five", True)
    assert entry.unheard == "six seven eight nine ten"


@by_clock
async def test_the_api_and_the_record_are_told_what_was_heard_when_the_caller_hangs_up() -> None:
    api = Api()
    async with opened_call(shop(), api=api) as call:
        call.model.answers(LONG, 10_000)
        await call.rest(4)
        _, part = await ended(call, hangs_up=True)
    (said,) = part.transcript
    assert LONG.startswith(said["content"])
    assert 10 <= len(said["content"]) <= 25
    assert api.sent[-1].body["transcript"][0]["content"] == said["content"]


@by_clock
async def test_an_answer_that_was_heard_is_whole_in_the_record_before_the_call_ends() -> None:
    async with opened_call(shop()) as call:
        call.model.answers(LONG, 2_000)
        await call.rest(0.5)
        await call.rest(2)
        call.phone.play()
        await call.rest(2)
        assert (await call.part()).transcript[0]["content"] == LONG, "also a kill leaves it whole"
        await ended(call, hangs_up=True)


def test_a_response_without_an_end_is_ended_and_what_waits_for_it_goes_on() -> None:
    call = Call()
    response = call.respond()
    call.calls_tool(response, "look", "c1")
    call.feed(signals.ToolAnswered("c1", "done"))
    made = [
        action
        for _ in range(3)
        for action in (*call.wait(3), *call.feed(signals.PhoneAudio(sound(20))))
    ]
    assert [kind for kind in call.kinds(made) if kind.startswith("response")] == [
        "response.cancel",
        "response.create",
    ]
    late = call.done(response, "cancelled")
    assert call.kinds(late) == []
    call.done(call.respond())
    assert not call.ends


async def test_a_text_is_said_and_stands_in_the_models_conversation_once() -> None:
    faults = Faults(text_responses=1)
    async with called(ScriptedMind(["Good day."]), faults=[faults], greeting=GREETING) as (
        call,
        double,
    ):
        await call.until(lambda: ("assistant", "Good day.") in words(call))
        session: DoubleSession = double.sessions[0]
        assert session.errors == {}
        assert [item["role"] for item in session.items] == ["user", "assistant"]
        await call.hang_up()


def test_digits_are_words_of_the_caller_in_their_place_also_when_the_call_ends_first() -> None:
    call = Call()
    call.speak(call.respond(response="r1"), "i1", 200, "Your number?")
    call.model("response.output_audio.done", response_id="r1", item_id="i1")
    call.done("r1")
    call.marks()
    for digit in "42#":
        call.feed(signals.PhoneDigit(digit))
    created = next(event for event in call.sent() if event["type"] == "conversation.item.create")
    call.done(call.respond())
    call.model("input_audio_buffer.committed", item_id="u1", previous_item_id=created["item"]["id"])
    call.model(
        "conversation.item.input_audio_transcription.completed", item_id="u1", transcript="Hello?"
    )
    call.feed(signals.PhoneDigit("7"))
    call.feed(signals.PhoneStopped())
    assert transcript(call) == [
        ("assistant", "Your number?"),
        ("user", "[keypad] 42#"),
        ("user", "Hello?"),
        ("user", "[keypad] 7"),
    ]


@by_clock
async def test_a_caller_who_presses_keys_has_had_a_conversation() -> None:
    async with opened_call(shop()) as call:
        call.phone.says("dtmf", dtmf={"digit": "5"})
        await call.rest(3)
        _, part = await ended(call, hangs_up=True)
    assert (part.ctx["had_conversation"], part.outcome) == (True, "info_only")
    assert [each["content"] for each in part.transcript] == ["[keypad] 5"]
