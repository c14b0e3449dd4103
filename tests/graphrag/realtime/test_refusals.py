"""What the service of a Realtime model refuses: told to who operates the agent, and the caller
does not wait.

The error objects are those of public reports of the service.
"""

from typing import Any

import pytest

from graphrag.agents.model_refusal import ModelRefusal, refusal_of, wait_of
from graphrag.bridge import signals
from tests.graphrag.bridge.fed_call import Call, a_session, sound
from tests.graphrag.realtime.conversing import silence, speech
from tests.graphrag.realtime.test_call_with_double import GREETING, called, say, words
from tests.support.faulty_double import Faults
from tests.support.held_calls import HeldCall, ended
from tests.support.scripted_mind import ScriptedMind

QUOTA = {
    "type": "insufficient_quota",
    "code": "insufficient_quota",
    "message": "You exceeded your current quota, please check your plan and billing details.",
    "param": None,
}
NO_MODEL = {
    "type": "invalid_request_error",
    "code": "model_not_found",
    "message": "The model `gpt-realtime` does not exist or you do not have access to it.",
}
UNKNOWN_PARAMETER = {
    "type": "invalid_request_error",
    "code": "unknown_parameter",
    "message": "Unknown parameter: 'session.tools[2].meta'.",
    "param": "session.tools[2].meta",
}
NO_TRANSCRIBER = {
    "type": "invalid_request_error",
    "code": "invalid_value",
    "message": "Invalid value: 'gpt-transcribr'. Supported values are: 'whisper-1' and 'gpt-4o-transcribe'.",
    "param": "session.audio.input.transcription.model",
}
SERVER = {
    "type": "server_error",
    "code": None,
    "message": "The server had an error while processing your request. Sorry about that!",
}
BUSY = {
    "type": "invalid_request_error",
    "code": "inference_rate_limit_exceeded",
    "message": "We're currently processing too many requests — please try again later.",
}


def limit(wait: str) -> dict[str, Any]:
    message = (
        "Rate limit reached for gpt-realtime in organization org-x on requests per day (RPD): Limit 1000, "
        f"Used 1000, Requested 1. Please try again in {wait}. Visit the page of limits to learn more."
    )
    return {"type": "requests", "code": "rate_limit_exceeded", "message": message}


def failed(error: dict[str, Any]) -> Faults:
    return Faults(response_ends=[("failed", {"error": error})])


def noted(call: HeldCall) -> ModelRefusal:
    found = call.records.stored["model_error"]
    assert isinstance(found, ModelRefusal)
    return found


@pytest.mark.parametrize(
    ("faults", "code", "param"),
    [
        (
            Faults(refusals={"session.update": [UNKNOWN_PARAMETER]}),
            "unknown_parameter",
            "session.tools[2].meta",
        ),
        (Faults(refusals={"session.update": [QUOTA]}), "insufficient_quota", None),
        (Faults(refusals={"response.create": [NO_MODEL]}), "model_not_found", None),
        (failed(QUOTA), "insufficient_quota", None),
        (failed(NO_MODEL), "model_not_found", None),
        (failed(UNKNOWN_PARAMETER), "unknown_parameter", "session.tools[2].meta"),
        (failed(limit("1m26.4s")), "rate_limit_exceeded", None),
        (Faults(refusals={"session.update": [limit("6m0s")]}), "rate_limit_exceeded", None),
        (Faults(refused_code="insufficient_quota"), "insufficient_quota", None),
    ],
)
async def test_a_refusal_ends_the_call_without_another_try_and_its_words_are_kept(
    faults: Faults, code: str, param: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    async with called(ScriptedMind(["Hello."]), faults=[faults] * 2, greeting=GREETING) as (
        call,
        double,
    ):
        over = await call.over()
        assert over.reason == "model_refused"
        assert (noted(call).code, noted(call).param) == (code, param)
        assert noted(call).message
        assert noted(call) in call.parts.agents.refusals  # type: ignore[attr-defined]
        assert len(double.sessions) == 1, (
            "no other connection is tried: the apology comes when the stream ends"
        )
    logged = next(each for each in reversed(caplog.records) if each.getMessage() == "model_refused")
    assert (logged.code, logged.param, logged.sentence) == (code, param, noted(call).message)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "faults",
    [
        Faults(refusals={"session.update": [limit("120ms")]}),
        Faults(refusals={"response.create": [limit("0.1s"), limit("0.1s")]}),
        failed(limit("150ms")),
        failed(SERVER),
        Faults(refusals={"response.create": [SERVER]}),
        Faults(response_ends=[("incomplete", {"reason": "content_filter"})]),
    ],
)
async def test_what_is_refused_for_a_moment_is_asked_for_again_and_the_call_goes_on(
    faults: Faults,
) -> None:
    async with called(ScriptedMind(["Hello."]), faults=[faults], greeting=GREETING) as (
        call,
        double,
    ):
        await call.until(lambda: ("assistant", "Hello.") in words(call))
        assert len(double.sessions) == 1
        assert noted(call).message
        assert (await call.hang_up()).reason == "caller_hung_up"


async def test_a_refused_transcription_is_left_out_and_the_conversation_takes_place() -> None:
    faults = Faults(refusals={"session.update": [NO_TRANSCRIBER]})
    async with called(ScriptedMind(["Of course."]), faults=[faults]) as (call, double):
        await call.until(lambda: bool(double.sessions))
        await say(call, speech(800) + silence(700))
        await call.until(lambda: ("assistant", "Of course.") in words(call))
        assert double.sessions[0].sound_in["transcription"] is None
        assert noted(call).param == "session.audio.input.transcription.model"
        await call.until(lambda: call.bridge is not None and call.bridge.gate.state == "idle")
        call.phone.play()
        reason, part = await ended(call, hangs_up=True)
    assert (reason, part.ctx["had_conversation"]) == ("caller_hung_up", True)
    assert [each["role"] for each in part.transcript] == ["user", "assistant"]


def opening(**options: Any) -> Call:
    call = Call(a_session(**options), opened=False)
    call.model("session.created", session={})
    return call


def refuse(call: Call, error: dict[str, Any], kind: str) -> list[signals.Action]:
    caused = next(event for event in reversed(call.sent()) if event["type"] == kind)
    return call.model("error", error={**error, "event_id": caused["event_id"]})


@pytest.mark.parametrize("error", [UNKNOWN_PARAMETER, QUOTA, NO_MODEL, limit("1m")])
def test_no_time_passes_between_a_refusal_and_the_end_of_the_call(error: dict[str, Any]) -> None:
    call = opening()
    refuse(call, error, "session.update")
    assert [end.reason for end in call.ends] == ["model_refused"]
    call = opening(greeting="Hi.")
    call.model("session.updated")
    refuse(call, error, "response.create")
    assert [end.reason for end in call.ends] == ["model_refused"]


def test_a_rate_limit_is_waited_for_as_long_as_it_says_and_no_longer_than_a_caller_waits() -> None:
    call = Call(a_session(greeting="Hi."))
    call.model("response.created", response={"id": "r1"})
    details = {"type": "failed", "error": limit("12s")}
    call.model(
        "response.done", response={"id": "r1", "status": "failed", "status_details": details}
    )
    asked = call.kinds().count("response.create")
    for _ in range(11):
        call.feed(signals.PhoneAudio(sound(20)))
        call.wait(1)
    assert call.kinds().count("response.create") == asked, "nothing is asked for meanwhile"
    call.wait(1.5)
    assert call.kinds().count("response.create") == asked + 1
    assert not call.ends
    for number in range(2, 6):
        if not call.ends:
            call.model("response.created", response={"id": f"r{number}"})
            details = {"type": "failed", "error": limit("2s")}
            response = {"id": f"r{number}", "status": "failed", "status_details": details}
            call.model("response.done", response=response)
            call.feed(signals.PhoneAudio(sound(20)))
            call.wait(2)
    assert [end.reason for end in call.ends] == ["model_refused"], "not for ever"


def test_a_limit_without_a_time_is_waited_for_as_the_server_said_of_its_limits() -> None:
    call = Call(a_session(greeting="Hi."))
    used_up = {"name": "tokens", "limit": 9, "remaining": 0, "reset_seconds": 3.5}
    call.model(
        "rate_limits.updated", rate_limits=[used_up, {"name": "requests", "remaining": 7}, "x"]
    )
    call.model("response.created", response={"id": "r1"})
    details = {"type": "failed", "error": BUSY}
    call.model(
        "response.done", response={"id": "r1", "status": "failed", "status_details": details}
    )
    asked = call.kinds().count("response.create")
    call.wait(3.4)
    assert call.kinds().count("response.create") == asked
    call.wait(0.2)
    assert call.kinds().count("response.create") == asked + 1


@pytest.mark.parametrize(
    "error",
    [
        {"code": "invalid_value", "message": NO_TRANSCRIBER["message"], "param": None},
        NO_TRANSCRIBER,
    ],
)
def test_a_transcription_is_left_out_once_and_only_where_it_is_what_was_refused(
    error: dict[str, Any],
) -> None:
    call = opening()
    refuse(call, NO_TRANSCRIBER, "session.update")
    first, second = [event["session"] for event in call.sent() if event["type"] == "session.update"]
    assert "transcription" in first["audio"]["input"]
    assert "transcription" not in second["audio"]["input"]
    refuse(call, error, "session.update")
    assert call.ends or call.reconnects == 1


def test_a_goodbye_that_is_refused_is_not_said() -> None:
    call = Call()
    call.feed(signals.EndWanted("draining"))
    call.model("response.created", response={"id": "r1"})
    details = {"type": "failed", "error": SERVER}
    call.model(
        "response.done", response={"id": "r1", "status": "failed", "status_details": details}
    )
    assert [(end.reason, end.said_goodbye) for end in call.ends] == [("draining", False)]


@pytest.mark.parametrize(
    ("message", "seconds"),
    [
        ("Please try again in 1m26.4s. Visit the page.", 86.4),
        ("Please try again in 6m0s.", 360),
        ("please try again in 20ms", 0.02),
        ("Please retry after 12 seconds.", 12),
        ("please try again later.", None),
        ("", None),
    ],
)
def test_how_long_a_limit_asks_to_wait_is_read_from_its_sentence(
    message: str, seconds: float | None
) -> None:
    assert wait_of(message) == (None if seconds is None else pytest.approx(seconds))


@pytest.mark.parametrize(
    "error",
    [None, [], "text", {"code": 7, "message": ["x"], "param": {}}, {"message": "a" * 9_000}],
)
def test_a_refusal_of_any_form_is_one_bounded_line(error: object) -> None:
    said = refusal_of(error)
    assert said.code
    assert len(said.sentence()) < 800
    keyed = refusal_of(
        {"code": "invalid_api_key", "message": "Incorrect API key:\nsk-proj-abcdef123*"}
    )
    assert keyed.sentence() == "invalid_api_key: Incorrect API key: [key]"
