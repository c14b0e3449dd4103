"""The double holds conversations as the recorded server does: turns,
tools, interruptions, errors.
"""

import asyncio
import base64
import json
from itertools import groupby
from typing import Any

import pytest

from graphrag.realtime.model_side import RealtimeUnreachable
from graphrag.realtime.openai_side import OpenAISide
from graphrag.simulator.double_session import MAX_WAITING
from graphrag.simulator.minds import CallsTool, Says
from tests.graphrag.realtime.conversing import (
    RECORDINGS,
    SERVER,
    TONES,
    Client,
    Event,
    conversing,
    recorded,
    silence,
    speech,
)
from tests.support.faulty_double import Faults


async def test_a_turn_by_voice_has_its_words_and_the_answers_sound_and_words() -> None:
    async with conversing("It is in Paris, near the river.") as (client, double):
        double.hear(["Where is the tower?"])
        await client.update()
        await client.speak(silence(500) + speech(1_000) + silence(700))
        done = await client.until("response.done")
        (started,), (stopped,) = (
            client.of("input_audio_buffer.speech_started"),
            client.of("input_audio_buffer.speech_stopped"),
        )
        assert (started["audio_start_ms"], stopped["audio_end_ms"]) == (200, 2_000), (
            "300 ms before, 500 after"
        )
        heard = client.of("conversation.item.input_audio_transcription.completed")
        assert [event["transcript"] for event in heard] == ["Where is the tower?"]
        said = b"".join(
            base64.b64decode(e["delta"]) for e in client.of("response.output_audio.delta")
        )
        assert said == await TONES.say("It is in Paris, near the river.")
        assert (
            done["response"]["output"][0]["content"][0]["transcript"]
            == "It is in Paris, near the river."
        )
        usage = done["response"]["usage"]
        assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"] > 0
        assert double.sessions[0].errors == {}


async def test_speech_interrupts_an_answer_whose_item_can_be_truncated_but_not_beyond_its_sound() -> (
    None
):
    async with conversing("word " * 200, "Yes?", rate=10) as (client, double):
        await client.update()
        await client.write("Tell me all")
        await client.send("response.create")
        first = await client.until("response.output_audio.delta")
        double.hear(["Stop"])
        await client.speak(speech(300) + silence(600))
        done = await client.until("response.done")
        assert done["response"]["status_details"] == {
            "type": "cancelled",
            "reason": "turn_detected",
        }
        assert done["response"]["output"][0]["status"] == "incomplete"
        received = sum(
            len(base64.b64decode(e["delta"])) // 8 for e in client.of("response.output_audio.delta")
        )
        where = {"item_id": first["item_id"], "content_index": 0}
        sent = await client.send("conversation.item.truncate", **where, audio_end_ms=received + 1)
        error = (await client.until("error"))["error"]
        assert (error["code"], error["event_id"]) == ("invalid_value", sent)
        assert f"{received}ms" in error["message"]
        await client.send("conversation.item.truncate", **where, audio_end_ms=received)
        assert (await client.until("conversation.item.truncated"))["audio_end_ms"] == received
        await client.until("response.done", lambda e: e["response"]["status"] == "completed")


async def test_a_tool_is_called_and_its_output_answered() -> None:
    script = [
        [Says("Let me look."), CallsTool("look", '{"city": "London"}'), CallsTool("look")],
        "Foggy.",
    ]
    async with conversing(*script) as (client, _):
        await client.update()
        await client.write("Weather?")
        await client.send("response.create")
        done = await client.until("response.done")
        kinds = [item["type"] for item in done["response"]["output"]]
        assert kinds == ["message", "function_call", "function_call"], (
            "several items in one response"
        )
        call = done["response"]["output"][1]
        assert (call["status"], call["arguments"]) == ("completed", '{"city": "London"}')
        item = {"type": "function_call_output", "output": "fog"}
        await client.send("conversation.item.create", item={**item, "call_id": call["call_id"]})
        await client.send("conversation.item.create", item={**item, "call_id": "call_unknown"})
        assert (await client.until("error"))["error"]["code"] == "invalid_tool_call_id"
        await client.send("response.create")
        await client.until(
            "response.done", lambda e: e["response"]["output"][0]["type"] == "message"
        )


async def test_a_response_beside_the_conversation_runs_at_the_same_time_and_leaves_no_item() -> (
    None
):
    async with conversing("word " * 100, rate=20) as (client, double):
        await client.update()
        await client.write("Go")
        await client.send("response.create")
        await client.until("response.output_audio.delta")
        await client.send("response.create")
        assert (await client.until("error"))["error"][
            "code"
        ] == "conversation_already_has_active_response"
        beside: Event = {
            "conversation": "none",
            "input": [],
            "tool_choice": "none",
            "metadata": {"purpose": "filler"},
        }
        await client.send(
            "response.create", response={**beside, "instructions": "Say exactly: One moment."}
        )
        done = await client.until("response.done", lambda e: bool(e["response"]["metadata"]))
        assert done["response"]["output"][0]["content"][0]["transcript"] == "One moment."
        assert done["response"]["conversation_id"] is None
        await client.send("response.cancel")
        done = await client.until("response.done")
        assert done["response"]["status_details"]["reason"] == "client_cancelled"
        await client.send("response.cancel")
        assert (await client.until("error"))["error"]["code"] == "response_cancel_not_active"
        assert [item["role"] for item in double.sessions[0].items] == ["user", "assistant"]


async def test_a_silent_caller_is_asked_by_the_server() -> None:
    async with conversing("Hello.", "Still there?") as (client, _):
        await client.update(options={"silence_s": 5, "silence_prompts": 1})
        await client.send("response.create")
        await client.until("response.done")
        await client.speak(silence(6_000))
        await client.until("input_audio_buffer.timeout_triggered")
        await client.until("response.done")
        (event,) = client.of("input_audio_buffer.timeout_triggered")
        assert event["audio_end_ms"] - event["audio_start_ms"] == pytest.approx(5_000, abs=20)


async def test_what_is_wrong_with_an_event_is_said_and_the_session_goes_on() -> None:
    async with conversing("Hello.") as (client, double):
        await client.update()
        create = "conversation.item.create"
        no_words = {"type": "message", "role": "user"}
        no_content = {"type": "message", "role": "user", "content": 5}
        no_format = {"audio": {"input": {"format": {"type": "mp3"}}}}
        wrong = [
            ("{", "invalid_json"),
            ("[]", "invalid_json"),
            ('{"type": "no.such", "event_id": "e1"}', "invalid_value"),
            ('{"type": "conversation.item.truncate", "event_id": "e2"}', "missing_required_parameter"),
            ('{"type": "conversation.item.delete", "item_id": "x"}', "item_delete_invalid_item_id"),
            (json.dumps({"type": create, "item": no_words}), "missing_required_parameter"),
            (json.dumps({"type": create, "item": no_content}), "invalid_value"),
            (json.dumps({"type": "session.update", "session": no_format}), "invalid_value"),
            ('{"type": "input_audio_buffer.append", "audio": "?"}', "invalid_value"),
            ('{"type": "response.cancel"}', "response_cancel_not_active"),
        ]  # fmt: skip
        for text, code in wrong:
            await client.side.send(text)
            assert (await client.until("error"))["error"]["code"] == code, text
        await client.send("response.create")
        await client.until("response.done")
        assert sum(double.sessions[0].errors.values()) == len(wrong)


@pytest.mark.slow
async def test_a_hundred_conversations_at_once_leave_no_task_and_no_socket() -> None:
    before = asyncio.all_tasks()
    async with conversing(*["word " * 50] * 101, rate=1) as (first, double):

        async def one() -> None:
            side = OpenAISide(double.url, "k", "m")
            await side.open()
            client = Client(side)
            await client.update()
            await client.send("response.create")
            await client.until("response.output_audio.delta")
            await side.close()

        await asyncio.gather(*(one() for _ in range(100)))
        await first.update()
        assert len(double.sessions) == 101
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before


async def test_what_waits_for_a_client_that_does_not_read_is_bounded() -> None:
    async def long(_text: str, _language: str) -> bytes:
        return silence(600_000)

    async with conversing("Hello.", voice=long) as (client, double):
        await client.update()
        session = double.sessions[0]
        await client.send("response.create")
        waiting = -1
        async with asyncio.timeout(60):
            while session.out.qsize() < MAX_WAITING or waiting != session.out.qsize():
                waiting = session.out.qsize()
                await asyncio.sleep(0.02)
        assert waiting < 2 * MAX_WAITING
        assert not session.has_room.is_set()
        session.active.cancel("client_cancelled") if session.active else None
        done = await client.until("response.done")
        assert done["response"]["status"] == "cancelled"


def _turns(events: list[dict[str, Any]]) -> list[str]:
    """Return the types in order, runs of one type once; words of the caller may come at any time,
    and sound and words of the answer alternate as they like.
    """
    free = "conversation.item.input_audio_transcription."
    kinds = [str(event["type"]) for event in events if not event["type"].startswith(free)]
    same = {
        "response.output_audio.delta": "sound",
        "response.output_audio_transcript.delta": "sound",
    }
    return [key for key, _ in groupby([same.get(kind, kind) for kind in kinds])]


@pytest.mark.parametrize("name", sorted(RECORDINGS))
async def test_the_order_of_events_is_that_of_the_recorded_server(name: str) -> None:
    session = recorded(name)
    wanted = [step["data"] for step in session if step["direction"] == "received"]
    for event in wanted:
        SERVER[event["type"]].model_validate(event)
    script: list[Any] = []
    for event in wanted:
        if event["type"] == "response.done":
            script.append(
                [
                    CallsTool(item["name"], item["arguments"])
                    if item["type"] == "function_call"
                    else Says(
                        str(item["content"][0].get("transcript") or item["content"][0].get("text"))
                    )
                    for item in event["response"]["output"]
                ]
            )
    async with conversing(*script) as (client, _):
        await _replay(client, session)
        assert _turns(client.seen) == _turns(wanted)


async def _replay(client: Client, session: list[dict[str, Any]]) -> None:
    """Send what the recording sent, when it had received as much."""
    calls: dict[str, str] = {}
    spoke = False
    for step in session:
        event = dict(step["data"])
        if step["direction"] == "received":
            if not event["type"].startswith("conversation.item.input_audio_transcription."):
                await _follow(client, event)
            if event["type"] == "response.function_call_arguments.done":
                calls[event["call_id"]] = client.of(event["type"])[-1]["call_id"]
        elif event["type"] == "input_audio_buffer.append":
            if not spoke:  # the recorder cut the sound
                spoke = True
                await client.speak((speech(1_000) + silence(600)), piece_ms=100)
        else:
            if event["type"] == "session.update":
                for side in event["session"]["audio"].values():
                    side["format"] = {"type": "audio/pcmu"}
            if event.get("item", {}).get("type") == "function_call_output":
                event["item"]["call_id"] = calls[event["item"]["call_id"]]
            await client.send(event.pop("type"), **event)


async def _follow(client: Client, event: dict[str, Any]) -> None:
    """Read up to this event if it was not read yet."""
    ends = ("session.", "response.done", "response.function_call_arguments.done")
    if event["type"].startswith(ends):
        await client.until(event["type"])


async def ask(client: Client) -> str:
    """Return how the response ends that is asked for."""
    await client.send("response.create")
    return (await client.until("response.done"))["response"]["status"]


async def test_the_first_responses_fail() -> None:
    async with conversing("A.", "B.", "C.", faults=Faults(failed_responses=2)) as (client, _):
        await client.update()
        assert [await ask(client) for _ in range(3)] == ["failed", "failed", "completed"]
        assert (
            client.of("response.done")[0]["response"]["status_details"]["error"]["type"]
            == "server_error"
        )


async def test_an_event_gets_an_error() -> None:
    async with conversing(faults=Faults(errors={"response.create": "rate_limit_exceeded"})) as (
        client,
        double,
    ):
        await client.update()
        sent = await client.send("response.create")
        error = (await client.until("error"))["error"]
        assert (error["code"], error["event_id"]) == ("rate_limit_exceeded", sent)
        assert double.sessions[0].errors == {"rate_limit_exceeded": 1}


async def test_sound_comes_late() -> None:
    async with conversing("Hello.", faults=Faults(late_audio_s=30)) as (client, _):
        await client.update()
        await client.send("response.create")
        await client.until("response.content_part.added")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await client.until("response.output_audio.delta")


async def test_a_session_has_an_end_that_it_names() -> None:
    async with conversing() as (client, double):
        created = await client.until("session.created")
        assert created["session"]["expires_at"] > 0
        double.sessions[0].expire()
        assert (await client.until("error"))["error"]["code"] == "session_expired"
        assert [event async for event in client.events] == []
        with pytest.raises(RealtimeUnreachable):
            await client.send("response.create")
