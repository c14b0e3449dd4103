"""Scripts of callers: what is wrong with one is said with its place, and what could stand there."""

import io
import wave

import numpy as np
import pytest

from graphrag.simulator import mu_law
from graphrag.simulator.call_script import (
    Expected,
    InvalidScript,
    ScriptMind,
    read_script,
    said_script,
)
from graphrag.simulator.minds import CallsTool, Says
from graphrag.simulator.script_player import check_call
from graphrag.simulator.simulated_call import CallRecording
from graphrag.simulator.speech import tones
from tests.support.recorded_calls import silent_after_ms, words_of_caller_ms
from tests.support.scripted_mind import ScriptedMind

SCRIPT = b"""
name: Order
greeting: Welcome.
steps:
  - wait: answer
  - say: Two reports.
    replies:
      - {calls: check, arguments: {n: 2}}
      - {says: Shall I?}
  - say: Yes.
    interrupt_after_s: 1.5
  - {dtmf: "1#"}
  - {wait: 2}
  - decide: approve
    replies: [{says: Approved.}]
  - {hangup: true}
  - expect: {tool: check, words: [placed], outcome: null, sources: [a], approval: applied}
"""


@pytest.mark.parametrize(
    ("text", "where", "what"),
    [
        ("steps: [{wait: answer}]", "name", "required"),
        ("name: a\nsteps: []", "steps", "at least 1"),
        ("name: a\nsteps: [{sya: Hello}]", "steps.0.sya", "no field here, but say, wav"),
        ("name: a\nsteps: [{say: Hello, wait: answer}]", "steps.0", "one of say, wait"),
        ("name: a\nsteps: [{wav: a.wav, wait: 1}]", "steps.0", "belong to a say"),
        ("name: a\nsteps: [{wait: forever}]", "steps.0.wait", "'answer'"),
        ("name: a\nsteps: [{wait: 1000}]", "steps.0", "0 to 120"),
        ("name: a\nsteps: [{decide: maybe}]", "steps.0.decide", "'approve' or 'reject'"),
        (
            "name: a\nsteps: [{expect: {tools: a}}]",
            "steps.0.expect.tools",
            "no field here, but tool, words",
        ),
        ("name: a\nsteps: [{expect: {}}]", "steps.0.expect", "at least one of tool"),
        (
            "name: a\nsteps: [{say: a, replies: [{says: a, calls: b}]}]",
            "steps.0.replies.0",
            "either",
        ),
        ("name: a\nsteps: [{dtmf: 12x}]", "steps.0.dtmf", "pattern"),
        ("name: a\ncaller: Ada\nsteps: [{wait: 1}]", "caller", "pattern"),
        ("- a list", "", "no object"),
        ("name: [", "", ""),
    ],
)
def test_a_mistake_is_said_with_its_place(text: str, where: str, what: str) -> None:
    with pytest.raises(InvalidScript) as caught:
        read_script("a.yaml", text.encode())
    problem = caught.value.problems[0]
    assert problem.where == where
    assert what in problem.what


def test_a_script_says_what_the_caller_and_the_double_say() -> None:
    script = read_script("order", SCRIPT)
    assert script.lines == ["Two reports.", "Yes."]
    said = said_script(["One.", "Two.", "Three."], barge_in_at_s=1.5)
    assert [step.model_dump(exclude_defaults=True) for step in said.steps] == [
        {"wait": "answer"},
        {"say": "One."},
        {"say": "Two.", "interrupt_after_s": 1.5},
        {"wait": "answer"},
        {"say": "Three."},
        {"wait": "answer"},
        {"hangup": True},
    ]


async def test_the_double_follows_the_script_and_else_its_own_mind() -> None:
    mind = ScriptMind(read_script("order", SCRIPT), ScriptedMind(["Of my own."], again=True))
    items: list[dict[str, object]] = [_item("user", "Greet them.")]

    async def reply() -> object:
        return (await mind.reply("", items, []))[0]

    assert await reply() == Says("Welcome.")
    items += [_item("assistant", "Welcome."), _item("user", "Two reports.")]
    assert await reply() == CallsTool("check", '{"n":2}')
    items += [
        {"type": "function_call", "name": "check"},
        {"type": "function_call_output", "output": "{}"},
    ]
    assert await reply() == Says("Shall I?")
    items += [_item("assistant", "Shall I?"), _item("user", "Something else.")]
    assert await reply() == Says("Of my own.")
    items += [_item("user", "Yes.")]
    assert await reply() == Says("Of my own.")
    items += [_item("assistant", "Of my own."), _item("system", "Decided.")]
    assert await reply() == Says("Approved.")


def _item(role: str, words: str) -> dict[str, object]:
    return {"type": "message", "role": role, "content": [{"type": "input_text", "text": words}]}


def test_what_is_expected_is_looked_for_in_the_record() -> None:
    call = {
        "tools": [{"name": "check", "ok": True}, {"name": "order", "ok": False}],
        "transcript": [
            {"role": "assistant", "content": "It is Placed."},
            {"role": "user", "content": "no"},
        ],
        "outcome": None,
        "endReason": "caller_hung_up",
        "sources": [{"turn": 1, "nodes": ["a", {"key": "b"}]}],
    }
    expected = {"tool": "check", "words": ["placed"], "outcome": None, "sources": ["b"]}
    holding = Expected.model_validate(
        {**expected, "approval": "applied", "reason": "caller_hung_up"}
    )
    assert all(one.holds for one in check_call(holding, call, [{"status": "applied"}]))
    failing = Expected.model_validate(
        {"tool": "order", "words": ["no"], "outcome": "x", "sources": ["c"], "approval": "pending"}
    )
    found = check_call(failing, call, [])
    assert len(found) == 5
    assert not any(one.holds for one in found)
    assert found[0].found == "check ok, order failed"


ANSWER = tones("The first answer of a call.")
OTHER = tones("Something else entirely.")


def quiet(ms: int) -> bytes:
    return bytes([mu_law.SILENCE]) * (8 * ms)


def test_the_silence_after_an_interruption_is_measured() -> None:
    recording = CallRecording(
        agent=ANSWER[: 8 * 1000] + quiet(1000) + OTHER, caller=quiet(900) + OTHER + quiet(100)
    )
    (began,) = words_of_caller_ms(recording)
    assert began == 900
    assert silent_after_ms(recording, began) == 100
    assert silent_after_ms(CallRecording(agent=ANSWER), 0) is None


def test_both_directions_stand_in_one_file() -> None:
    recording = CallRecording(caller=OTHER, agent=quiet(100) + ANSWER)
    with wave.open(io.BytesIO(recording.wav())) as file:
        assert (file.getnchannels(), file.getframerate(), file.getsampwidth()) == (2, 8000, 2)
        both = np.frombuffer(file.readframes(1 << 20), "<i2").reshape(-1, 2)
    assert len(both) == recording.length_ms * 8
    assert both[: len(OTHER), 0].tolist() == mu_law.decode(OTHER).tolist()
    assert both[800 : 800 + len(ANSWER), 1].tolist() == mu_law.decode(ANSWER).tolist()
