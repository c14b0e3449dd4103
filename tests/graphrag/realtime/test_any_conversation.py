"""Random conversations: of a call's bridge with the double, and of a client that sends
what it likes.
"""

import asyncio
import base64
import json
from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from graphrag.bridge.signals import (
    ModelEvent,
    Note,
    PhoneAudio,
    PhoneDigit,
    PhoneMark,
    ToolAnswered,
)
from graphrag.simulator.double_session import DoubleSession, DoubleSetup
from graphrag.simulator.minds import CallsTool, Says
from graphrag.simulator.speech import tones
from tests.graphrag.bridge.fed_call import Call, a_session
from tests.graphrag.realtime.conversing import CLIENT, SERVER, Event, silence, speech
from tests.support.scripted_mind import ScriptedMind

REPLIES = [
    "Yes.",
    "word " * 30,
    [Says("One."), Says("Two.")],
    [Says("I look."), CallsTool("look")],
    [CallsTool("look"), CallsTool("look")],
]


class Talk:
    """A session of the double without a socket. All that it sends is checked."""

    def __init__(self) -> None:
        self.tasks = set[asyncio.Task[None]]()

        async def voice(text: str, _language: str) -> bytes:
            return tones(text)

        setup = DoubleSetup(
            mind=ScriptedMind(REPLIES, again=True), voice=voice, hear=lambda: "Words"
        )
        self.session = DoubleSession("m", setup, self.start)
        self.sent: list[Event] = []

    def start(self, work: Any) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    async def take(self, turns: int) -> list[Event]:
        """Let the double work a little; return what it sent."""
        for _ in range(turns):
            await asyncio.sleep(0)
        made: list[Event] = []
        while not self.session.out.empty():
            event = json.loads(self.session.out.get_nowait())
            SERVER[event["type"]].model_validate(event)
            made.append(event)
        self.session.has_room.set()
        self.sent += made
        return made

    async def end(self) -> None:
        while self.tasks:
            await self.take(1)
        await self.take(1)

    def assert_lives(self) -> None:
        """Each response and each item of it begins and ends once, and nothing comes of it
        after its end.
        """
        begun = Counter[str]()
        ended = Counter[str]()
        active = set[str]()
        for event in self.sent:
            response: Event = event.get("response") or {}
            of = str(event.get("response_id") or response.get("id") or "")
            if event["type"] == "response.created":
                begun[of] += 1
                active.add(of)
                running = sum(1 for each in active if each not in self.beside())
                assert running <= 1, "one response of the conversation at a time"
            elif event["type"] == "response.done":
                ended[of] += 1
                active.remove(of)
            elif of:
                assert of in active, event["type"]
        assert begun == ended
        items = Counter(
            e["item"]["id"] for e in self.sent if e["type"] == "response.output_item.done"
        )
        assert items == Counter(
            e["item"]["id"] for e in self.sent if e["type"] == "response.output_item.added"
        )
        assert all(count == 1 for count in (*begun.values(), *items.values()))

    def beside(self) -> set[str]:
        created = [e["response"] for e in self.sent if e["type"] == "response.created"]
        return {response["id"] for response in created if response["conversation_id"] is None}


ACTS = (
    *("speech", "silence", "item", "output", "respond", "beside", "cancel", "truncate", "delete"),
    *("update", "clear", "work"),
)
STEPS = st.lists(st.tuples(st.sampled_from(ACTS), st.integers(0, 40)), max_size=40)


@given(STEPS)
@settings(max_examples=25)
async def test_whatever_a_client_sends_the_double_keeps_its_interface(
    steps: list[tuple[str, int]],
) -> None:
    talk = Talk()
    talk.session.begin()
    talk.session.receive(json.dumps({"type": "session.update", "session": a_session().update()}))
    for kind, n in steps:
        talk.session.receive(json.dumps(_event(kind, n, talk)))
        await talk.take(n if kind == "work" else 1)
    await talk.end()
    talk.assert_lives()
    for event in talk.sent:
        if event["type"] == "conversation.item.truncated":
            assert event["audio_end_ms"] <= _received_ms(talk.sent, event["item_id"])


def _event(kind: str, n: int, talk: Talk) -> Event:
    ids = [item["id"] for item in talk.session.items] or ["none"]
    item_id = ids[n % len(ids)]
    asked: Event = {
        "conversation": "none",
        "input": [],
        "metadata": {"n": "1"},
        "instructions": "Say: wait",
    }
    calls = [item["call_id"] for item in talk.session.items if "call_id" in item]
    events: dict[str, Event] = {
        "speech": _sound(speech(20 * n)),
        "silence": _sound(silence(50 * n)),
        "item": {"type": "conversation.item.create", "item": {
            "type": "message", "role": "system", "content": [{"type": "input_text", "text": "note"}]}},
        "output": {"type": "conversation.item.create", "item": {
            "type": "function_call_output", "output": "x", "call_id": calls[-1] if calls else "c"}},
        "respond": {"type": "response.create"},
        "beside": {"type": "response.create", "response": asked},
        "cancel": {"type": "response.cancel"},
        "truncate": {"type": "conversation.item.truncate", "item_id": item_id, "content_index": 0,
                     "audio_end_ms": n * 50},
        "delete": {"type": "conversation.item.delete", "item_id": item_id},
        "update": {"type": "session.update", "session": {"type": "realtime", "output_modalities": [
            "text" if n % 2 else "audio"]}},
        "clear": {"type": "input_audio_buffer.clear"},
        "work": {"type": "input_audio_buffer.clear"},
    }  # fmt: skip
    CLIENT[events[kind]["type"]].model_validate(events[kind])
    return events[kind]


def _sound(sound: bytes) -> Event:
    return {"type": "input_audio_buffer.append", "audio": base64.b64encode(sound).decode()}


def _received_ms(events: list[Event], item_id: str) -> int:
    deltas = [
        e for e in events if e["type"] == "response.output_audio.delta" and e["item_id"] == item_id
    ]
    return sum(len(base64.b64decode(event["delta"])) // 8 for event in deltas)


CALLER = st.lists(
    st.tuples(
        st.sampled_from(["speech", "silence", "digit", "note", "marks", "tool", "work"]),
        st.integers(0, 30),
    ),
    min_size=5,
    max_size=60,
)


@given(CALLER, st.sampled_from(["immediate", "confirmed", "off"]), st.booleans())
@settings(max_examples=25)
async def test_a_call_gets_no_error_from_the_double_whenever_it_is_interrupted(
    steps: list[tuple[str, int]], mode: str, greeted: bool
) -> None:
    greeting = "Say hello." if greeted else None
    call = Call(a_session(greeting=greeting, options={"barge_in": {"mode": mode}}), opened=False)
    talk = Talk()
    sent = 0
    talk.session.begin()
    for kind, n in steps:
        match kind:
            case "speech" | "silence":
                sound = speech(100 + 20 * n) if kind == "speech" else silence(40 * n)
                for at in range(0, len(sound), 160):
                    call.feed(PhoneAudio(base64.b64encode(sound[at : at + 160]).decode()))
                    call.wait(0.02)
            case "digit":
                call.feed(PhoneDigit("12#"[n % 3]))
            case "note":
                call.feed(Note("It was approved."))
            case "tool" if call.tools:
                call.feed(ToolAnswered(call.tools[n % len(call.tools)].call_id, "out"))
            case "marks":
                for frame in call.phone_frames()[-n:]:
                    if frame["event"] == "mark":
                        call.feed(PhoneMark(frame["mark"]["name"]))
            case _:
                pass
        for event in call.sent(call.actions[sent:]):
            CLIENT[event["type"]].model_validate(event)
            talk.session.receive(json.dumps(event))
        sent = len(call.actions)
        for event in await talk.take(n // 3):
            call.feed(ModelEvent(event))
    await talk.end()
    talk.assert_lives()
    races = {"response_cancel_not_active", "conversation_already_has_active_response"}
    assert set(talk.session.errors) <= races, [e for e in talk.sent if e["type"] == "error"]
