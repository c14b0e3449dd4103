"""`nodius call` and `nodius calls`: calls without a telephone, on the database that
the demo filled.
"""

import json
import wave
from pathlib import Path
from typing import Any

import pytest

from graphrag.agent.thread_agent import ThreadAgent
from graphrag.app.call_replay import (
    CannotReplay,
    caller_script,
    quiet_document,
    recorded_answers,
)
from graphrag.simulator.mu_law import encode
from graphrag.simulator.simulated_call import CallRecording
from mock_data import load_json
from tests.cli.conftest import Env, invoke, printed
from tests.support.recorded_calls import silent_after_ms, words_of_caller_ms
from tests.tools.http.values import EVERY, parse_template, scope

CALL = {
    "callId": "c1",
    "transcript": [
        {"role": "system", "content": "Greet them."},
        {"role": "assistant", "content": "Hello!"},
        {"role": "user", "content": "Two, please."},
        {"role": "assistant", "content": "Shall I?"},
        {"role": "user", "content": "[inaudible]"},
        {"role": "user", "content": "Yes."},
    ],
    "tools": [
        {
            "name": "check",
            "turn": 1,
            "ok": True,
            "arguments": '{"mode":"pickup"}',
            "result": '{"ok":1}',
        },
        {"name": "order", "turn": 2, "ok": False, "arguments": "{", "result": "{}"},
    ],
}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "write one of --simulate SCRIPT"),
        (("--say", "a", "--replay", "b"), "write one of --simulate SCRIPT"),
        (("--simulate", "nowhere.yaml"), "cannot read nowhere.yaml"),
    ],
)
def test_a_call_says_what_it_lacks(demo_db: str, arguments: tuple[str, ...], said: str) -> None:
    assert said in invoke("call", "helpdesk", *arguments, exits=2).output


def test_a_broken_script_is_said_with_its_places(demo_db: str, folder: Path) -> None:
    (folder / "broken.yaml").write_text("name: a\nsteps: [{sya: Hello}, {wait: forever}]")
    refused = invoke("call", "helpdesk", "--simulate", "broken.yaml", exits=2)
    assert "steps.0.sya" in refused.output
    assert "steps.1.wait" in refused.output


def test_a_script_is_checked_without_a_call(demo_db: str, folder: Path) -> None:
    good = invoke("call", "nobody", "--simulate", "order", "--check", "--json", exits=0)
    assert (printed(good)["says"], printed(good)["expectations"]) == (2, 1)
    (folder / "broken.yaml").write_text("name: a\nsteps: [{say: Hello, replies: [{tells: b}]}]")
    refused = invoke("call", "nobody", "--simulate", "broken.yaml", "--check", exits=2)
    assert "steps.0.replies.0" in refused.output
    assert "says, calls, arguments" in refused.output
    assert "--check needs" in invoke("call", "nobody", "--say", "a", "--check", exits=2).stderr


def test_what_is_not_there_ends_with_3(demo_db: str) -> None:
    assert "there is no agent nobody" in invoke("call", "nobody", "--say", "Hello", exits=3).stderr
    assert "there is no call nobody" in invoke("calls", "show", "nobody", exits=3).stderr
    assert (
        "no delivery nothing" in invoke("calls", "deliveries", "--retry", "nothing", exits=3).stderr
    )
    assert "'odd' is not one of" in invoke("calls", "list", "--status", "odd", exits=2).stderr


@pytest.mark.slow
def test_a_delivered_script_holds_and_its_call_is_kept_replayed_and_forgotten(
    demo_copy: Path, folder: Path, env: Env
) -> None:
    """Also: it is recorded, the interrupted answer is silent within 150 ms, no
    trial agent stays.
    """
    made = printed(
        invoke("call", "catalogue", "--simulate", "order", "--record", "order.wav", "--json")
    )
    assert made["holds"], made["expectations"]
    assert [tool["name"] for tool in made["call"]["tools"]] == [
        "check_availability",
        "confirm_order",
    ]
    cut = [entry for entry in made["call"]["transcript"] if entry.get("interrupted")]
    assert len(cut) == 1
    assert silent_after_last_words_ms(folder / "order.wav") <= 150
    call_id = made["callId"]
    assert call_id in [
        call["callId"] for call in printed(invoke("calls", "list", "--json"))["calls"]
    ]
    assert printed(invoke("calls", "show", call_id, "--json"))["outcome"] == "ordered"
    assert "order is placed" in invoke("calls", "show", call_id).output
    assert "order is placed" in invoke("calls", "follow", call_id).output
    assert "catalogue" not in invoke("agents", "list").output
    env(NODIUS_AGENT_HTTP_ALLOW="127.0.0.1:8770")
    document = load_json("agents/catalogue.json")
    tools = {"type": "function", "parameters": {"type": "object"}}
    declared = [
        {**tools, "name": name, "description": "-"}
        for name in ("check_availability", "confirm_order")
    ]
    document["session"] = {"mode": "inline", "instructions": "Take orders.", "tools": declared}
    document["tools"] = {
        name: document["tools"][name] for name in ("check_availability", "confirm_order")
    }
    document.pop("greeting")
    document.pop("pre_call_checks")
    (folder / "changed.json").write_text(json.dumps(document))
    again = invoke("call", "catalogue", "--replay", call_id, "--document", "changed.json", "--json")
    replayed = printed(again)
    assert replayed["call"]["outcome"] == "ordered"
    assert "confirm_order" in [tool["name"] for tool in replayed["call"]["tools"] if tool["ok"]]
    assert replayed["recorded"]["callId"] == call_id
    invoke("calls", "forget", call_id, exits=0)
    assert printed(invoke("calls", "show", call_id, "--json"))["transcript"] == []


def silent_after_last_words_ms(file: Path) -> float:
    import numpy as np

    with wave.open(str(file)) as opened:
        both = np.frombuffer(opened.readframes(1 << 24), "<i2").reshape(-1, 2)
    recording = CallRecording(caller=encode(both[:, 0].copy()), agent=encode(both[:, 1].copy()))
    *_, began = words_of_caller_ms(recording)
    silent = silent_after_ms(recording, began)
    assert silent is not None
    return silent


def test_a_replay_says_what_was_said_and_sends_nothing() -> None:
    script = caller_script(CALL)
    assert script.lines == ["Two, please.", "Yes."]
    assert script.greeting == "Hello!"
    [first, second] = [step for step in script.steps if step.say is not None]
    assert [reply.calls or reply.says for reply in first.replies] == ["check", "Shall I?"]
    assert [reply.calls for reply in second.replies] == ["order"]
    tools: Any = {"check": {"type": "http"}, "order": {"type": "http"}, "end": {"type": "builtin"}}
    answers = recorded_answers(CALL, {"tools": tools})
    assert answers("check", {"mode": "pickup"}) == CALL["tools"][0]
    for name in ("check", "order", "propose_create_node"):
        unknown = answers(name, {"mode": "other"})
        assert unknown is not None
        assert unknown["ok"] is False
    assert answers("search_nodes", {}) is None
    rules = [{"flag": None, "outcome": "x"}]
    life = {"on_end": {"url": "a"}, "outcome_rules": rules}
    quiet = quiet_document({"lifecycle": life, "pre_call_checks": [{"url": "b"}]}, "c1", None)
    assert (quiet["lifecycle"], quiet["pre_call_checks"]) == ({"outcome_rules": rules}, [])


def test_a_replay_takes_a_fetched_session_from_the_stored_call() -> None:
    document = {
        "session": {"mode": "config_url", "url": "http://a"},
        "tools": {"check": {"type": "http"}},
    }
    declared = [{"type": "function", "name": name} for name in ("check", "removed")]
    part = ThreadAgent(agent_id="a", version=1, instructions="Say {{name}}.", declarations=declared)
    session = quiet_document(document, "c1", part)["session"]
    assert (session["mode"], session["tools"]) == ("inline", declared[:1])
    written = parse_template(session["instructions"], EVERY).render(scope())
    assert written == "Say {{name}}."
    with pytest.raises(CannotReplay, match="write `session` with `mode: inline`"):
        quiet_document(document, "c1", part.model_copy(update={"declarations": None}))


TRANSFERRING = {
    "version": "2.0",
    "agent": {"id": "desk", "name": "Desk"},
    "session": {"mode": "inline", "instructions": "Connect them.", "tools": []},
    "tools": {"connect": {"type": "builtin", "action": "transfer"}},
    "lifecycle": {
        "outcome_rules": [
            {"flag": "transfer_answered", "outcome": "human"},
            {"flag": None, "outcome": "message"},
        ]
    },
    "voice": {
        "destinations": {
            "sales": {
                "number": "+33123456789",
                "attempts": 2,
                "summary": "spoken",
                "on_unanswered": "message",
            }
        }
    },
}
TRANSFER_SCRIPT = """
name: Somebody is asked for
greeting: Hello.
dials: {dials}
steps:
  - wait: answer
  - say: Let me talk to somebody.
    replies: [{{calls: connect, arguments: {{destination: sales, summary: Wants a chair.}}}}]
{steps}
"""
BACK = """
  - returned: true
    replies: [{says: "Nobody is there. What is it about?"}]
  - wait: answer
  - say: A red chair.
    replies: [{says: I pass it on.}]
  - wait: answer
  - hangup: true
  - expect: {words: [Nobody is there, pass it on], outcome: message, reason: caller_hung_up,
             transfers: [sales busy, sales no-answer]}
"""
PUT_THROUGH = """
  - wait: 20
  - expect: {outcome: human, reason: transferred, told: [Wants a chair.],
             transfers: [sales busy, sales completed]}
"""


@pytest.mark.parametrize(
    ("changes", "dials"),
    [
        ({}, []),
        ({"endReason": "transferred"}, ["answered"]),
        (
            {
                "endReason": "transferred",
                "transfers": [
                    {"destination": "a", "status": "busy"},
                    {"destination": "a", "status": "canceled"},
                    {"destination": "b", "answeredTime": 5},
                    {"destination": "b", "status": "completed"},
                ],
            },
            ["busy", "no-answer", "answered", "answered"],
        ),
    ],
)
def test_a_replay_ends_transfers_as_they_ended(changes: dict[str, Any], dials: list[str]) -> None:
    assert caller_script({**CALL, **changes}).dials == dials


@pytest.mark.parametrize(
    ("dials", "steps"), [("[busy, no-answer]", BACK), ("[busy, answered]", PUT_THROUGH)]
)
def test_a_script_says_who_answers_a_transfer(
    demo_copy: Path, folder: Path, dials: str, steps: str
) -> None:
    (folder / "desk.json").write_text(json.dumps(TRANSFERRING))
    (folder / "asked.yaml").write_text(TRANSFER_SCRIPT.format(dials=dials, steps=steps))
    made = invoke("agents", "apply", "desk.json", exits=0)
    assert "desk" in made.output
    played = ("call", "desk", "--simulate", "asked.yaml", "--document", "desk.json")
    shown = invoke(*played, exits=0)
    assert "MISSING" not in shown.output
    assert "transfer to sales: busy" in shown.output
    (folder / "asked.yaml").write_text(TRANSFER_SCRIPT.format(dials="[answered]", steps=BACK))
    assert "the caller comes back" in invoke(*played, exits=1).output


TEXT_AGENT = """
version: "2.0"
agent: {id: reader, name: Reader}
session: {mode: inline, instructions: You answer questions about our workflows.}
graphs: [testgraph001]
channels: [voice]
greeting: {unknown_customer: 'Say "Welcome to the desk."'}
voice: {engine: text}
tools: {bye: {type: builtin, action: hangup}}
"""
TEXT_SCRIPT = """
name: A question, answered by rules
steps:
  - wait: answer
  - say: What comes after fetch-api?
  - wait: answer
  - say: Thank you.
    replies:
      - says: You are welcome. Goodbye!
      - calls: bye
  - wait: answer
  - expect: {words: [Welcome to the desk, fetch-api, You are welcome], sources: [fetch-api]}
"""


def test_an_agent_that_the_model_of_chats_answers_is_called_without_any_model(
    demo_copy: Path, folder: Path
) -> None:
    (folder / "reader.yaml").write_text(TEXT_AGENT)
    (folder / "reader_script.yaml").write_text(TEXT_SCRIPT)
    invoke("agents", "apply", "reader.yaml", "--start", exits=0)
    called = invoke("call", "reader", "--simulate", "reader_script.yaml", "--json", exits=0)
    call = printed(called)["call"]
    assert (call["engine"], call["tools"][0]["name"]) == ("text", "search_nodes")
    assert "NODIUS_" not in json.dumps(call["transcript"]), "callers hear no notice about settings"
    again = invoke("call", "reader", "--replay", call["callId"], "--json", exits=0)
    assert "Welcome to the desk." in json.dumps(printed(again)["call"]["transcript"])
    refused = invoke("call", "reader", "--say", "Hello?", "--record", "none.wav", exits=1)
    assert "no sound to record" in refused.output
    assert not (folder / "none.wav").exists()
