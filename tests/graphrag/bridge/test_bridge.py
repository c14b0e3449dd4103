"""What a call comes to: greeting, tools, interruption, silence, the end, a lost model."""

import asyncio
import json
from typing import Any, get_args

import pytest
from openai.types.realtime import RealtimeClientEvent, RealtimeServerEvent
from pydantic import TypeAdapter

from graphrag.agents.document import ConversationLimits
from graphrag.bridge import signals
from graphrag.bridge.dialogue import EarlyAudio
from graphrag.bridge.phone_messages import clear_frame, mark_frame, media_frame
from graphrag.bridge.transcript import MAX_TOTAL_CHARS, Transcript
from graphrag.realtime.model_messages import read_event
from graphrag.voice.send_queue import MAX_CHARS, SendQueue
from tests.graphrag.bridge.fed_call import Call, a_session, sound
from tests.graphrag.realtime.conversing import at_hand, recorded

CLIENT = TypeAdapter[Any](RealtimeClientEvent)


def _server_events() -> list[str]:
    models, *_ = get_args(RealtimeServerEvent)
    return [get_args(model.model_fields["type"].annotation)[0] for model in get_args(models)]


def test_the_callers_sound_is_kept_until_the_session_is_ready_and_then_sent_in_one_piece() -> None:
    early = EarlyAudio()
    for _ in range(5_000):  # pieces of nothing take no room
        early.add("")
    assert len(early.take()) <= 1_000
    assert early.take() == []
    call = Call(opened=False)
    for _ in range(300):  # six seconds: the first is dropped
        call.feed(signals.PhoneAudio(sound(20)))
    assert call.kinds() == []
    call.model("session.created", session={})
    call.model("session.updated")
    update, append = call.sent()
    assert (update["type"], append["type"]) == ("session.update", "input_audio_buffer.append")
    assert len(append["audio"]) == pytest.approx(5_000 * 8 * 4 / 3, rel=0.02)
    assert call.kinds(call.feed(signals.PhoneAudio(sound(20)))) == ["input_audio_buffer.append"]


def test_what_was_said_into_a_protected_greeting_is_forgotten_once_it_was_played() -> None:
    call = Call(a_session(greeting="Say hello.", greeting_is_interruptible=False))
    response = call.respond()
    call.speak(response, "i1", 1_000)
    assert "clear" not in str(
        call.phone_frames(call.model("input_audio_buffer.speech_started", item_id="u"))
    )
    call.model("input_audio_buffer.speech_stopped", item_id="u")
    assert call.kinds(call.done(response)) == []
    assert call.kinds(call.marks()) == ["input_audio_buffer.clear"]
    assert call.kinds(call.wait(1)) == []


def test_a_tool_runs_once_and_the_model_goes_on_when_all_of_a_response_have_their_output() -> None:
    call = Call()
    response = call.respond()
    call.calls_tool(response, "look", "c1")
    call.calls_tool(response, "look", "c1")
    call.calls_tool(response, "look", "c2")
    assert [tool.call_id for tool in call.tools] == ["c1", "c2"]
    assert call.kinds(call.feed(signals.ToolAnswered("c1", "one"))) == ["conversation.item.create"]
    assert call.kinds(call.feed(signals.ToolAnswered("c2", "two"))) == ["conversation.item.create"]
    assert call.kinds(call.done(response)) == ["response.create"]
    assert call.kinds(call.feed(signals.ToolAnswered("c2", "again"))) == []


def test_a_tool_that_is_faster_than_the_next_call_of_its_response_makes_no_second_answer() -> None:
    call = Call()
    response = call.respond()
    call.calls_tool(response, "look", "c1")
    assert call.kinds(call.feed(signals.ToolAnswered("c1", "one"))) == ["conversation.item.create"]
    call.calls_tool(response, "look", "c2")
    assert call.kinds(call.done(response)) == []
    assert call.kinds(call.feed(signals.ToolAnswered("c2", "two"))) == [
        "conversation.item.create",
        "response.create",
    ]
    assert call.kinds(call.wait(1)) == []


def test_calls_that_are_not_complete_are_never_run_and_too_many_are_answered() -> None:
    call = Call(a_session(limits=ConversationLimits(max_tool_calls=1)))
    response = call.respond()
    item = {"type": "function_call", "status": "incomplete", "name": "look", "call_id": "c0"}
    call.model("response.output_item.done", response_id=response, item=item)
    call.calls_tool(response, "look", "c1")
    answered = call.calls_tool(response, "look", "c2")
    assert [tool.call_id for tool in call.tools] == ["c1"]
    assert "Nothing was done" in call.sent(answered)[0]["item"]["output"]


def test_an_interruption_clears_the_phone_first_and_the_model_knows_what_was_heard() -> None:
    call = Call()
    response = call.respond()
    call.speak(response, "i1", 2_000, "One two three four")
    first = call.phone_frames()[1]
    call.now += 0.3  # 200 ms of sound and 100 ms on the line
    call.feed(signals.PhoneMark(first["mark"]["name"]))
    call.now += 0.4
    made = call.model("input_audio_buffer.speech_started", item_id="u1", audio_start_ms=700)
    assert call.phone_frames(made)[0]["event"] == "clear"
    (truncate,) = call.sent(made)
    assert truncate["type"] == "conversation.item.truncate"
    assert truncate["audio_end_ms"] == pytest.approx(700, abs=5)
    assert call.speak(response, "i1", 200) == [], "no sound of it comes after the clear"
    heard = next(iter(call.bridge.transcript.ordered()))
    assert (heard.text, heard.is_interrupted) == ("One", True)
    call.marks()
    call.done(response, "cancelled")
    assert call.ends == []


def test_with_confirmed_interruption_a_cough_stops_nobody() -> None:
    call = Call(a_session(options={"barge_in": {"mode": "confirmed", "min_speech_ms": 300}}))
    response = call.respond()
    call.speak(response, "i1", 4_000)
    call.model("input_audio_buffer.speech_started", item_id="u1")
    call.wait(0.2)
    call.model("input_audio_buffer.speech_stopped", item_id="u1")
    call.wait(1)
    assert all(frame["event"] != "clear" for frame in call.phone_frames())
    call.model("input_audio_buffer.speech_started", item_id="u2")
    made = call.wait(0.35)
    assert call.phone_frames(made)[0]["event"] == "clear"
    assert call.kinds(made) == ["response.cancel", "conversation.item.truncate"]


def test_a_slow_tool_has_the_caller_asked_to_wait_beside_the_conversation() -> None:
    call = Call()
    response = call.respond()
    call.calls_tool(response, "look", "c1")
    call.done(response)
    (filler,) = call.sent(call.wait(3))
    assert filler["response"]["conversation"] == "none"
    call.respond(response="f1", metadata={"purpose": "filler"})
    assert call.bridge.gate.state == "idle"
    call.speak("f1", "fi", 500)
    call.done("f1")
    assert call.kinds(call.feed(signals.ToolAnswered("c1", "done"))) == [
        "conversation.item.create",
        "response.create",
    ]


def test_a_silent_caller_is_asked_and_then_the_call_ends_with_a_goodbye() -> None:
    call = Call(a_session(options={"silence_s": 40, "silence_prompts": 1}))
    for _ in range(30):
        call.feed(signals.PhoneAudio(sound(20)))
        call.wait(4)
        if call.bridge.gate.state == "requested":
            response = call.respond()
            call.speak(response, f"i{response}", 200, "Goodbye.")
            call.done(response)
    assert call.kinds().count("response.create") == 2, "asked once, then the goodbye"
    assert [(end.reason, end.said_goodbye) for end in call.ends] == [("caller_silent", True)]


def test_a_line_without_sound_is_lost_and_a_call_is_not_longer_than_allowed() -> None:
    lost = Call()
    lost.wait(11)
    assert [end.reason for end in lost.ends] == ["line_lost"]
    long = Call(a_session(limits=ConversationLimits(max_call_s=60)))
    for _ in range(100):
        long.feed(signals.PhoneAudio(sound(20)))
        long.wait(1)
        if long.bridge.gate.state == "requested":
            long.done(long.respond())
    assert [end.reason for end in long.ends] == ["max_duration"]


def test_digits_and_notes_reach_the_model() -> None:
    call = Call()
    for digit in "12#":
        call.feed(signals.PhoneDigit(digit))
    assert call.sent()[-2]["item"]["content"][0]["text"] == "[keypad] 12#"
    call.done(call.respond())
    call.feed(signals.Note("It was approved."))
    assert call.sent()[-2]["item"]["role"] == "system"
    call.feed(signals.PhoneStopped())
    assert [end.reason for end in call.ends] == ["caller_hung_up"]
    assert call.feed(signals.EndWanted("draining")) == []


@pytest.mark.parametrize("names_it", [True, False])
def test_a_truncation_beyond_the_sound_is_said_once_more_with_its_length(names_it: bool) -> None:
    call = Call()
    response = call.respond()
    call.speak(response, "i1", 2_000)
    call.now += 1
    made = call.model("input_audio_buffer.speech_started", item_id="u1")
    (truncate,) = call.sent(made)
    beyond = truncate["audio_end_ms"]
    error = {"code": "invalid_value", "event_id": truncate["event_id"] if names_it else None}
    error["message"] = f"Audio content of 450ms is already shorter than {beyond}ms"
    (again,) = call.sent(call.model("error", error=error))
    assert (again["type"], again["audio_end_ms"]) == ("conversation.item.truncate", 450)
    error = {"code": "invalid_value", "event_id": again["event_id"] if names_it else None}
    error["message"] = "Audio content of 440ms is already shorter than 450ms"
    assert call.sent(call.model("error", error=error)) == []


@pytest.mark.parametrize(
    "name", ["tool_round", *at_hand("tool_call_round", "azure_spoken_turn_tool_audio")]
)
def test_a_recorded_session_gets_what_the_recording_sent(name: str) -> None:
    call = Call(opened=False)
    ours = ("function_call_output",)
    wanted: list[str] = []
    for step in recorded(name):
        event = step["data"]
        if step["direction"] == "received":
            call.feed(signals.ModelEvent(event))
            for tool in call.tools[len(wanted) :]:
                wanted.append(tool.call_id)
                call.feed(signals.ToolAnswered(tool.call_id, "It is foggy"))
    outputs = [
        e
        for e in call.sent()
        if e["type"] == "conversation.item.create" and e["item"]["type"] in ours
    ]
    assert [e["item"]["call_id"] for e in outputs] == wanted
    assert len(wanted) == 1
    place = call.kinds().index("response.create")
    assert call.sent()[place - 1] == outputs[-1], "the output, then the request to go on"
    if name == "tool_call_round":  # it answers with text, which is asked to be said
        assert "foggy" in str(call.sent()[-1]["response"])
    else:
        assert [entry.role for entry in call.bridge.transcript.ordered()][-1] == "assistant"
    for event in call.sent():
        CLIENT.validate_python(event)
    json.dumps([entry.to_document() for entry in call.bridge.transcript.ordered()])


@pytest.mark.parametrize("wrong", [7, [], ["x"], "text", True])
def test_an_event_of_another_form_is_counted_and_the_call_goes_on(wrong: Any) -> None:
    call = Call(a_session())
    kinds = ["response.created", "response.done", "response.output_item.done", "error"]
    for kind in kinds:
        made = call.model(kind, response=wrong, item=wrong, error=wrong, session=wrong)
        assert [counted.name for counted in made if isinstance(counted, signals.Counted)] == [
            "voice_errors.event"
        ]
        assert not call.kinds(made)
    call.model("response.created")  # without an id nobody could say when it is over
    call.model(
        "response.output_item.done",
        item={"type": "function_call", "status": "completed", "name": "x"},
    )
    call.model("input_audio_buffer.committed", item_id="u0", previous_item_id=["u"])
    call.model(
        "conversation.item.input_audio_transcription.completed", item_id="u1", transcript=None
    )
    for delta in (None, 7, ["Hi"]):
        call.model(
            "response.output_audio_transcript.delta", item_id="i1", response_id="r1", delta=delta
        )
    assert not list(call.bridge.transcript.ordered())
    assert call.bridge.gate.state == "idle"
    assert not call.bridge.tools.is_running
    response = call.respond()
    call.speak(response, "i2", 100, "Hello.")
    call.done(response)
    assert [entry.text for entry in call.bridge.transcript.ordered()] == ["Hello."]


@pytest.mark.parametrize("kind", sorted(_server_events()))
def test_every_event_of_the_published_protocol_is_known(kind: str) -> None:
    call = Call()
    assert "unknown_event" not in str(call.model(kind))
    assert "voice_errors.unknown_event" in str(call.model(f"{kind}.of_tomorrow"))


def test_a_session_that_is_said_to_begin_again_is_the_one_that_there_is() -> None:
    call = Call()
    call.model("session.created", session={})
    call.wait(6)
    assert (call.reconnects, call.kinds(call.model("session.updated"))) == (0, [])


@pytest.mark.parametrize("field", ["item_id", "response_id", "call_id", "item", "response"])
def test_ids_that_are_too_long_to_be_kept_are_no_event(field: str) -> None:
    sane = "i" * 256
    long = "i" * 257
    event = {
        "type": "conversation.item.done",
        field: {"id": sane} if field in ("item", "response") else sane,
    }
    assert read_event(json.dumps(event)) == event
    event[field] = {"id": long} if field in ("item", "response") else long
    assert read_event(json.dumps(event)) is None


def test_the_words_of_a_call_are_bounded_together() -> None:
    said = Transcript()
    for number in range(100):
        said.begin(f"i{number}", "user", number)
        said.add(f"i{number}", "a" * 30_000)
        said.finish(f"i{number}", "b" * 30_000)
    assert sum(len(entry.text) for entry in said.entries.values()) == MAX_TOTAL_CHARS
    assert not said.add("i99", "more")


async def test_an_interruption_passes_what_waits_and_what_waits_is_bounded() -> None:
    may = asyncio.Event()
    sent = list[str]()
    full = list[str]()

    async def send(text: str) -> None:
        await may.wait()
        sent.append(text)

    line = SendQueue(send, lambda: full.append("full"))
    running = asyncio.create_task(line.run())
    for number in range(5):
        line.put(media_frame("MZ1", "A" * 8))
        line.put(mark_frame("MZ1", f"0.{number}"))
        await asyncio.sleep(0)  # the first is under way
    line.put(clear_frame("MZ1"))
    line.put(mark_frame("MZ1", "1.0"))
    may.set()
    while len(sent) < 3:  # noqa: ASYNC110 - it goes on by itself
        await asyncio.sleep(0)
    assert sent == [media_frame("MZ1", "A" * 8), clear_frame("MZ1"), mark_frame("MZ1", "1.0")]
    may.clear()
    for _ in range(6):
        line.put("x" * (MAX_CHARS // 4))
    assert full == ["full"], "said once"
    may.set()
    await asyncio.wait_for(running, 60)
