"""Plays both sides' events in any order: what holds of every call, whatever happens."""

import os
import random
import string
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datasources.mock import MemoryDatabase
from graphrag.bridge import signals
from graphrag.roles import Person
from graphrag.voice.errors import CallError, StreamRefused
from tests.graphrag.bridge.fed_call import Call, a_session, sound
from tests.server.probing import TWISTS
from tests.support.agent_life import Api
from tests.support.phone_calls import SID, PhoneServer, phone_server_on

MODES = st.sampled_from(["immediate", "confirmed", "off"])
KINDS = [
    *(
        "audio",
        "mark",
        "late_mark",
        "speech",
        "stop",
        "commit",
        "created",
        "delta",
        "done",
        "cancelled",
    ),
    *("failed", "tool", "finish", "silence", "digit", "note", "lost", "session", "error", "wait"),
    *("wait_long", "filler"),
]
STEPS = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 5)), max_size=80)
LAST = st.sampled_from(["hang_up", "drain", "tool"])


class AnyCall(Call):
    """Does one step of a random call, as a server would: only what the state of
    its session allows.
    """

    def step(self, kind: str, n: int) -> None:
        self.now += 0.01 * n
        match kind:
            case "audio":
                self.feed(signals.PhoneAudio(sound(20)))
            case "mark":
                for frame in self.waiting_marks()[: n + 1]:
                    self.feed(signals.PhoneMark(frame))
            case "late_mark":
                self.feed(signals.PhoneMark(f"0.{n}"))
            case "speech":
                self.model("input_audio_buffer.speech_started", item_id=f"u{next(self.numbers)}")
            case "stop":
                self.model("input_audio_buffer.speech_stopped", item_id="u")
            case "commit":
                self.model("input_audio_buffer.committed", item_id=f"u{n}", previous_item_id=None)
            case "created" if self.server is None:
                self.server = self.respond()
            case "delta" if self.server is not None:
                self.speak(self.server, f"i{self.server}.{n % 2}", 50 * (n + 1), "word ")
            case "done" | "cancelled" | "failed" if self.server is not None:
                ended = self.server
                self.server = None
                self.done(ended, "completed" if kind == "done" else kind)
            case "tool" if self.server is not None:
                self.calls_tool(self.server, "look", f"c{n}")
            case "finish":
                running = [tool.call_id for tool in self.tools]
                self.feed(
                    signals.ToolAnswered(running[n % len(running)] if running else "none", "out")
                )
            case "silence":
                self.model("input_audio_buffer.timeout_triggered")
            case "digit":
                self.feed(signals.PhoneDigit("1#"[n % 2]))
            case "note":
                self.feed(signals.Note("decided"))
            case "lost":
                self.server = None
                self.feed(signals.ModelLost())
            case "session":
                self.model("session.created", session={})
                self.model("session.updated")
            case "error":
                codes = [
                    "conversation_already_has_active_response",
                    "unknown",
                    "response_cancel_not_active",
                ]
                self.model("error", error={"code": codes[n % 3], "message": f"{n} ms"})
            case "filler":
                self.respond(response=f"f{n}", metadata={"purpose": "filler"})
                self.speak(f"f{n}", f"fi{n}", 100)
                self.done(f"f{n}")
            case "wait":
                self.wait(0.3 * n)
            case "wait_long":
                self.wait(3.0 * n)
            case _:
                pass

    server: str | None = None

    def waiting_marks(self) -> list[str]:
        return list(self.bridge.playback._pieces)  # pyright: ignore[reportPrivateUsage]


@given(STEPS, MODES, LAST, st.booleans())
@settings(max_examples=60)
def test_what_holds_of_every_call(
    steps: list[tuple[str, int]], mode: str, last: str, greeted: bool
) -> None:
    call = AnyCall(
        a_session(greeting="Hello." if greeted else None, options={"barge_in": {"mode": mode}})
    )
    for kind, n in steps:
        call.step(kind, n)
    if not call.ends:
        finish(call, last)
    assert len(call.ends) == 1, "it ends exactly once"
    assert call.actions[-1] is call.ends[0], "nothing is wanted after the end"
    assert call.feed(signals.PhoneAudio(sound(20))) == []
    answers = Counter(
        event["item"]["call_id"]
        for event in call.sent()
        if event["type"] == "conversation.item.create"
        and event["item"]["type"] == "function_call_output"
    )
    assert all(count == 1 for count in answers.values()), "an output is sent once"
    runs = Counter(tool.call_id for tool in call.tools)
    assert all(count == 1 for count in runs.values()), "a tool runs once"
    assert_truncations(call)


def finish(call: AnyCall, last: str) -> None:
    if last == "hang_up":
        call.feed(signals.PhoneStopped())
        return
    call.feed(signals.EndWanted("draining"))
    for _ in range(4):
        call.feed(signals.PhoneAudio(sound(20)))
        call.wait(9)


def assert_truncations(call: Call) -> None:
    """No truncation goes beyond what came, and after a clear no sound of what was
    cleared is sent.
    """
    received: Counter[str] = Counter()
    for event in call.sent():
        if event["type"] == "conversation.item.truncate":
            received[event["item_id"]] += 1
            assert event["audio_end_ms"] <= call.received_ms.get(event["item_id"], 0)
    names: list[Any] = [
        frame["mark"]["name"] for frame in call.phone_frames() if frame["event"] == "mark"
    ]
    assert len(names) == len(set(names)), "a mark has a name of its own"
    epochs = [int(name.partition(".")[0]) for name in names]
    assert epochs == sorted(epochs)
    clears = sum(isinstance(a, signals.SendPhone) and '"clear"' in a.text for a in call.actions)
    assert (epochs[-1] if epochs else 0) <= clears


PROBES = int(os.environ.get("PROBES", "8000"))
STRANGER = Person("eve", "admin", "elsewhere")
MADE_UP = "f" * 32


def tokens(choose: random.Random, token: str, other: str) -> str:
    """Return a token that is not that of the call, but nearly."""
    workspace, call_id, secret = token.split(".")
    theirs = other.split(".")
    place = choose.randrange(len(secret))
    letter = choose.choice(string.ascii_letters + string.digits + "-_")
    changed = secret[:place] + letter + secret[place + 1 :]
    made = [
        f"{theirs[0]}.{call_id}.{secret}",
        f"{workspace}.{call_id}.{theirs[2]}",
        f"{workspace}.{theirs[1]}.{secret}",
        f"{workspace}.{call_id}.{changed if changed != secret else secret[::-1]}",
        f"{workspace.upper()}.{call_id}.{secret}",
        f"{workspace}.{call_id}.{secret}\n",
        f"{call_id}.{secret}",
    ]
    return choose.choice(made)


async def answer(server: PhoneServer, what: int, call_id: str) -> str:
    """Return what a stranger is answered about a call."""
    calls = server.calls
    try:
        match what:
            case 0:
                return str((await calls.get(call_id, STRANGER)).call_id)
            case 1:
                return str(await calls.document(call_id, STRANGER))
            case 2:
                return str((await calls.end(call_id, STRANGER)).status)
            case 3:
                return str(await calls.forget(call_id, STRANGER))
            case 4:
                return str([each async for each in calls.follow(call_id, STRANGER)])
            case _:
                return str(await calls.after(call_id))
    except CallError as exc:
        return exc.text("en").replace(call_id[:80], "KEY")


async def probed(count: int) -> None:
    api = Api()
    choose = random.Random(5)
    async with MemoryDatabase() as database:
        real = phone_server_on(database, api)
        strange = phone_server_on(database, api, clock=real.clock, workspace="elsewhere")
        call, token = await real.ring()
        _, own = await strange.ring("CA-own")
        before = await database.records("default").get("call", call.call_id)
        for number in range(count):
            if number % 2:
                text = tokens(choose, token, own)
                for server in (real, strange):
                    with pytest.raises(StreamRefused):
                        await server.calls.take(text, SID)
            else:
                what = choose.randrange(6)
                twist = choose.choice(TWISTS)
                expected = await answer(strange, what, twist(MADE_UP))
                assert await answer(strange, what, twist(call.call_id)) == expected
        with pytest.raises(StreamRefused):
            await strange.calls.take(token, SID)
        assert await database.records("default").get("call", call.call_id) == before
        assert (await strange.calls.listed(STRANGER).list())[0][0].call_sid == "CA-own"
        assert (await real.calls.take(token, SID)).call_id == call.call_id


async def test_probes_for_calls_and_tokens_find_nothing() -> None:
    await probed(500)


@pytest.mark.slow
async def test_many_probes_for_calls_and_tokens_find_nothing() -> None:
    await probed(PROBES)
