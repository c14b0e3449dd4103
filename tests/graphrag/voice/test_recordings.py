"""Recordings that the telephone service makes: announced, known by their ids, and named when a
call is forgotten.
"""

from typing import Any

import pytest

from datasources.base import Database
from graphrag.agents.document_check import check_document
from graphrag.bridge.signals import CallOver
from graphrag.roles import Person
from graphrag.voice.errors import StreamRefused
from graphrag.voice.recordings import MAX_RECORDINGS, StreamOpening
from tests.support.agent_life import SECOND, Api, compiled, document
from tests.support.phone_calls import SID, call_of, phone_server_on

NOTICE = "This call is recorded. Hang up if you do not want that."
ADMIN = Person("ann", "admin", "default")
OTHER = "RE" + "b" * 32
ONE = "RE" + "a" * 32


def recorded(**recording: Any) -> dict[str, Any]:
    voice = {"recording": {"enabled": True, "notice": NOTICE} | recording, "say_voice": "Polly.Lea"}
    return document(voice=voice)


def report(sid: str, status: str, **more: str) -> dict[str, str]:
    return {"CallSid": SID, "RecordingSid": sid, "RecordingStatus": status} | more


@pytest.mark.parametrize("notice", [None, " "])
def test_nobody_is_recorded_without_a_notice(notice: str | None) -> None:
    (error,) = check_document(recorded(notice=notice)).errors
    assert (error.code, error.where) == ("missing_field", "voice.recording.notice")
    assert not check_document(recorded(notice=notice, enabled=False)).errors
    assert not check_document(recorded()).errors


async def test_a_call_is_recorded_only_where_its_document_says_so(
    memory: Database, api: Api
) -> None:
    for agent, opening in (
        (recorded(enabled=False), StreamOpening()),
        (
            recorded(),
            StreamOpening(notice=NOTICE, voice="Polly.Lea", language="en-US", records=True),
        ),
    ):
        server = phone_server_on(memory, api, agent=compiled(agent))
        call, _ = await server.ring(None, channel="phone")
        assert await server.calls.opening(call) == opening


async def test_the_stream_may_begin_after_the_notice(memory: Database, api: Api) -> None:
    server = phone_server_on(memory, api, agent=compiled(recorded()))
    call, token = await server.ring()
    server.clock.now += 20 * SECOND
    await (await _ended(server, token))
    late, token = await server.ring("CA2")
    server.clock.now += 30 * SECOND
    with pytest.raises(StreamRefused):
        await server.calls.take(token, "CA2")
    assert call.call_id != late.call_id


async def _ended(server: Any, token: str) -> Any:
    serving = await server.answer(token)
    server.speakers[-1].over.set_result(CallOver("caller_hung_up"))
    return serving


async def test_what_the_service_reports_of_a_recording_is_stored_once(
    memory: Database, api: Api
) -> None:
    server = phone_server_on(memory, api, agent=compiled(recorded()))
    call, token = await server.ring()
    await server.calls.recorded(call.call_id, report(ONE, "in-progress"))
    await (await _ended(server, token))
    for given in (
        report(ONE, "completed", RecordingDuration="42"),
        report(ONE, "completed", RecordingDuration="43"),
        report(ONE, "in-progress"),
        report(OTHER, "absent"),
        report("../RE", "completed"),
        report(OTHER[:-1] + "c", "said"),
        report(OTHER[:-1] + "c", "completed") | {"CallSid": "CA9"},
    ):
        await server.calls.recorded(call.call_id, given)
    stored = await call_of(server, call.call_id)
    facts = [(each.sid, each.status, each.seconds) for each in stored.recordings]
    assert facts == [(ONE, "completed", 42), (OTHER, "absent", None)]
    for number in range(20):
        await server.calls.recorded(call.call_id, report(f"RE{number:032x}", "completed"))
    assert len((await call_of(server, call.call_id)).recordings) == MAX_RECORDINGS
    await server.calls.recorded("no such call", report(ONE, "completed"))


async def test_who_forgets_a_call_learns_what_to_delete_at_the_service(
    memory: Database, api: Api
) -> None:
    server = phone_server_on(memory, api, agent=compiled(recorded()))
    call, token = await server.ring()
    await (await _ended(server, token))
    await server.calls.recorded(call.call_id, report(ONE, "completed"))
    await server.calls.recorded(call.call_id, report(OTHER, "absent"))
    assert await server.calls.forget(call.call_id, ADMIN) == [ONE]
    stored = await call_of(server, call.call_id)
    assert (stored.call_sid, [each.sid for each in stored.recordings]) == (None, [ONE, OTHER])
