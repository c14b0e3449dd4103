"""The webhook of calls: who gets an answer, and what it says."""

from typing import Any
from urllib.parse import urlencode
from xml.etree.ElementTree import Element, fromstring

import httpx2
import pytest
from twilio.request_validator import RequestValidator

from graphrag.agents.errors import AgentNotFound, AgentNotRunning
from graphrag.voice.errors import CallBlocked, CallsFull
from graphrag.voice.follow_up import FollowUp
from graphrag.voice.recordings import StreamOpening
from tests.server.voice.fake_calls import PUBLIC, TWILIO_TOKEN, Answering, with_calls
from tests.support.served import Served

SID = "CA" + "0" * 32
FORM = {
    "CallSid": SID,
    "From": "+33612345678",
    "To": "+33123456789",
    "CallStatus": "ringing",
    "Note": "",
}
CALL = f"{1:032x}"
TOKEN = f"default.{CALL}.{'s' * 22}"
RECORDING = "RE" + "0" * 32
HOSTILE = 'Closed <today> & "tomorrow" \x00\x08\ud83d ]]> {{secret.X}} é'


async def post(
    running: Served, path: str = "/voice/default/desk", form: dict[str, str] = FORM, **more: Any
) -> httpx2.Response:
    """Send a request as Twilio does."""
    signature = RequestValidator(TWILIO_TOKEN).compute_signature(PUBLIC + path, form)
    headers = {"X-Twilio-Signature": signature, "Content-Type": "application/x-www-form-urlencoded"}
    headers |= more.pop("headers", {})
    content = more.pop("content", urlencode(form))
    async with httpx2.AsyncClient(base_url=running.address, trust_env=False, timeout=20) as client:
        return await client.post(path, content=content, headers=headers)


def twiml(answer: httpx2.Response) -> Element:
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/xml")
    return fromstring(answer.content)


def shape(element: Element) -> Any:
    """Return an element as (name, attributes, text, children)."""
    return (element.tag, element.attrib, element.text or "", [shape(child) for child in element])


async def test_a_signed_call_is_connected_with_a_token_of_its_own(answering: Answering) -> None:
    running, calls = answering
    answer = twiml(await post(running))
    action = f"{PUBLIC}/voice/after/{CALL}?workspace=default"
    parameter = ("Parameter", {"name": "token", "value": TOKEN}, "", [])
    stream = ("Stream", {"url": "wss://voice.example.com/voice/stream"}, "", [parameter])
    assert shape(answer) == (
    "Response", {}, "", [("Connect", {"action": action, "method": "POST"}, "", [stream])]
    )  # fmt: skip
    assert calls.begun == [
    {
        "agent_id": "desk", "caller_phone": "+33612345678", "called_phone": "+33123456789",
        "channel": "phone", "call_sid": SID,
    }
    ]  # fmt: skip


async def test_a_recording_begins_after_its_notice_and_ends_before_somebody_else_speaks(
    answering: Answering,
) -> None:
    running, calls = answering
    calls.before = StreamOpening(notice=HOSTILE, voice="Polly.Lea", language="fr-FR", records=True)
    said, start, connect = shape(twiml(await post(running)))[3]
    words = 'Closed <today> & "tomorrow"  ]]> {{secret.X}} é'
    assert said == ("Say", {"voice": "Polly.Lea", "language": "fr-FR"}, words, [])
    told = f"/voice/recorded/{CALL}?workspace=default"
    asks = {
        "name": "agent",
        "recordingStatusCallback": PUBLIC + told,
        "recordingStatusCallbackMethod": "POST",
        "recordingStatusCallbackEvent": "in-progress completed absent",
    }
    assert start == ("Start", {}, "", [("Recording", asks, "", [])])
    assert connect[0] == "Connect"
    calls.afterwards = FollowUp(
        destination="+33900000000", tried=("sales",), agent_id="desk", stops_recording=True
    )
    after = shape(twiml(await post(running, f"/voice/after/{CALL}?workspace=default")))[3]
    assert after[0] == ("Stop", {}, "", [("Recording", {"name": "agent"}, "", [])])
    assert after[1][0] == "Dial"
    calls.afterwards = FollowUp(token=TOKEN, starts_recording=True)
    back = twiml(await post(running, DIALLED_PATH, {**FORM, "DialCallStatus": "busy"}))
    assert [each.tag for each in back] == ["Start", "Connect"], "the notice was said before"
    report = {**FORM, "RecordingSid": RECORDING, "RecordingStatus": "completed"}
    assert shape(twiml(await post(running, told, report)))[3] == []
    unsigned = await post(running, told, report, headers={"X-Twilio-Signature": ""})
    assert unsigned.status_code == 403
    assert calls.recordings == [(CALL, RECORDING)]


WITHHELD = [
    "anonymous", "Restricted", "sip:me@example.com", "", "+266696687", "+7378742833", "+2562533",
    "+8656696", "+86282452253", "0612345678", "+33612345678\n+1", "+" + "9" * 40,
]  # fmt: skip


async def test_a_withheld_number_is_none(answering: Answering) -> None:
    running, calls = answering
    for given in WITHHELD:
        twiml(await post(running, form={**FORM, "From": given}))
    form = {name: value for name, value in FORM.items() if name != "From"}
    twiml(await post(running, form=form))
    assert [begun["caller_phone"] for begun in calls.begun] == [None] * (len(WITHHELD) + 1)


REJECT = ("Reject", {}, "", [])
BUSY = ("Reject", {"reason": "busy"}, "", [])


@pytest.mark.parametrize(
    ("refusal", "expected"), [
    (AgentNotRunning(agent_id="desk", state="draining"), [BUSY]),
    (CallsFull(), [BUSY]),
    (RuntimeError("the database is away"), [BUSY]),
    (AgentNotFound(agent_id="desk"), [REJECT]),
    (CallBlocked(message="", voice=None, language="en-US"), [REJECT]),
    (
        CallBlocked(message=HOSTILE, voice="Polly.Lea", language="fr-FR"),
        [
            ("Say", {"voice": "Polly.Lea", "language": "fr-FR"},
             'Closed <today> & "tomorrow"  ]]> {{secret.X}} é', []),
            ("Hangup", {}, "", []),
        ],
    ),
])  # fmt: skip
async def test_a_call_that_is_not_taken_gets_an_answer(
    answering: Answering, refusal: Exception, expected: list[Any]
) -> None:
    running, calls = answering
    calls.refusal = refusal
    assert shape(twiml(await post(running)))[3] == expected


async def test_an_unknown_workspace_or_call_is_rejected(answering: Answering) -> None:
    running, calls = answering
    assert shape(twiml(await post(running, "/voice/other/desk")))[3] == [REJECT]
    assert shape(twiml(await post(running, form={**FORM, "CallSid": "../x"})))[3] == [REJECT]
    assert calls.begun == []


DIALLED_PATH = f"/voice/dialled/{CALL}?workspace=default&agent=desk&tried=sales"
DIALLED = {"action": PUBLIC + DIALLED_PATH, "method": "POST"}


async def test_when_a_transfer_has_ended_twilio_asks_what_comes_next_until_nobody_is_left(
    answering: Answering,
) -> None:
    running, calls = answering
    second = f"/voice/dialled/{CALL}?workspace=default&agent=desk&tried=sales&tried=desk+two"
    calls.afterwards = FollowUp(
        destination="+33900000000", tried=("sales", "desk two"), agent_id="desk"
    )
    (dial,) = twiml(await post(running, DIALLED_PATH, {**FORM, "DialCallStatus": "no-answer"}))
    assert dial.get("action") == PUBLIC + second
    calls.afterwards = FollowUp(text="Nobody is there.")
    answer = twiml(await post(running, second, {**FORM, "DialCallStatus": "busy"}))
    assert [each.tag for each in answer] == ["Say", "Hangup"]
    assert calls.dialled == [
        {"call_id": CALL, "agent_id": "desk", "tried": tried, "number": None, "report": report}
        for tried, report in (
            (["sales"], {**FORM, "DialCallStatus": "no-answer"}),
            (["sales", "desk two"], {**FORM, "DialCallStatus": "busy"}),
        )
    ]
    unsigned = await post(running, DIALLED_PATH, headers={"X-Twilio-Signature": ""})
    assert unsigned.status_code == 403


async def test_who_answers_a_transfer_hears_the_summary_before_they_are_connected(
    answering: Answering,
) -> None:
    running, calls = answering
    calls.afterwards = FollowUp(
        destination="+33900000000", tried=("sales",), agent_id="desk", number=2, waits=True
    )
    (dial,) = twiml(await post(running, f"/voice/after/{CALL}?workspace=default"))
    asked = f"/voice/answered/{CALL}?workspace=default&attempt=2"
    assert dial.attrib == {
        "timeout": "30",
        "action": f"{PUBLIC}{DIALLED_PATH}&attempt=2",
        "method": "POST",
        "answerOnBridge": "true",
    }
    assert shape(dial)[3] == [
        ("Number", {"url": PUBLIC + asked, "method": "POST"}, "+33900000000", [])
    ]
    calls.afterwards = FollowUp(text=HOSTILE, voice="Polly.Lea", language="fr-FR")
    whispered = shape(twiml(await post(running, asked)))[3]
    words = 'Closed <today> & "tomorrow"  ]]> {{secret.X}} é'
    assert whispered == [("Say", {"voice": "Polly.Lea", "language": "fr-FR"}, words, [])], (
        "without a hang-up: they are connected afterwards"
    )
    assert calls.answers == [(CALL, 2)]
    assert shape(twiml(await post(running, asked.replace("=default", "=other"))))[3] == []
    unsigned = await post(running, asked, headers={"X-Twilio-Signature": ""})
    assert unsigned.status_code == 403


async def test_a_caller_whom_nobody_answers_opens_a_stream_to_the_agent_again(
    answering: Answering,
) -> None:
    running, calls = answering
    calls.afterwards = FollowUp(token=TOKEN)
    (connect,) = twiml(await post(running, DIALLED_PATH, {**FORM, "DialCallStatus": "busy"}))
    assert connect.attrib["action"] == f"{PUBLIC}/voice/after/{CALL}?workspace=default"
    parameter = ("Parameter", {"name": "token", "value": TOKEN}, "", [])
    assert shape(connect[0])[3] == [parameter]


@pytest.mark.parametrize(
    "refusal", [AgentNotRunning(agent_id="desk", state="stopped"), CallsFull()]
)
async def test_a_caller_who_cannot_be_served_is_connected_with_the_fallback(
    answering: Answering, refusal: Exception
) -> None:
    running, calls = answering
    calls.refusal = refusal
    calls.fallback = FollowUp(destination="+33123456789", tried=("desk",), agent_id="desk")
    (dial,) = twiml(await post(running))
    assert dial.tag == "Dial"
    assert dial.get("action", "").startswith(f"{PUBLIC}/voice/dialled/{7:032x}?")


@pytest.mark.parametrize(
    ("after", "expected"), [
    (FollowUp(), [("Hangup", {}, "", [])]),
    (
        FollowUp(destination="+33123456789", timeout_s=20, tried=("sales",), agent_id="desk"),
        [("Dial", {"timeout": "20", **DIALLED}, "", [("Number", {}, "+33123456789", [])])],
    ),
    (
        FollowUp(destination="sip:desk@example.com", tried=("sales",), agent_id="desk"),
        [("Dial", {"timeout": "30", **DIALLED}, "", [("Sip", {}, "sip:desk@example.com", [])])],
    ),
    (
        FollowUp(text="Try <later>", voice=None, language="en-US"),
        [("Say", {"language": "en-US"}, "Try <later>", []), ("Hangup", {}, "", [])],
    ),
])  # fmt: skip
async def test_after_its_stream_a_call_goes_on_as_it_ended(
    answering: Answering, after: FollowUp, expected: list[Any]
) -> None:
    running, calls = answering
    calls.afterwards = after
    assert (
        shape(twiml(await post(running, f"/voice/after/{CALL}?workspace=default")))[3] == expected
    )
    elsewhere = await post(running, f"/voice/after/{CALL}?workspace=other")
    assert shape(twiml(elsewhere))[3] == [("Hangup", {}, "", [])]


async def test_what_twilio_did_not_sign_is_refused_and_counted(answering: Answering) -> None:
    running, calls = answering
    tampered = await post(running, content=urlencode({**FORM, "From": "+33600000000"}))
    unsigned = await post(running, headers={"X-Twilio-Signature": ""})
    moved = await post(
        running, headers={"X-Forwarded-Host": "voice.example.com"}, content=b"\xff=1"
    )
    for answer in (tampered, unsigned, moved):
        assert answer.status_code == 403
        assert answer.json()["error"]["code"] == "signature"
    assert calls.begun == []
    assert (
        b'nodius_voice_errors_total{agent="",code="signature"} 3.0'
        in running.state.monitoring.metrics.text()
    )


async def test_a_large_form_is_refused_before_it_is_read(answering: Answering) -> None:
    running, calls = answering
    answer = await post(running, form={**FORM, "More": "x" * 70_000})
    assert answer.status_code == 413
    assert calls.begun == []


@pytest.mark.parametrize("host", ["127.0.0.1", "voice.example.com"])
async def test_without_a_token_only_this_computer_calls(
    monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    async with with_calls(monkeypatch, signed=False) as (running, _):
        name = f"{host}:{running.port}"
        answer = await post(running, headers={"Host": name, "X-Twilio-Signature": ""})
    if host == "127.0.0.1":
        url = twiml(answer).find("Connect/Stream")
        assert url.get("url") == f"ws://{name}/voice/stream"
    else:
        assert answer.status_code == 403
