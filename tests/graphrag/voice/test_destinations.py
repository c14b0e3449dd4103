"""Which number is called next: where a transfer is not answered, and where the agent cannot serve
a caller.
"""

from typing import Any
from xml.etree.ElementTree import fromstring

import pytest

from datasources.base import Database
from graphrag.agents.document_check import check_document
from graphrag.bridge.signals import CallOver
from graphrag.voice.follow_up import FollowUp, after_dial, without_service
from tests.graphrag.voice.test_transfers import DESKS
from tests.support.agent_life import LOCALE, Api, compiled, document
from tests.support.phone_calls import call_of, dialled, phone_server_on


def answered(after: FollowUp) -> tuple[str | None, int, tuple[str, ...]]:
    return after.destination, after.timeout_s, after.tried


@pytest.mark.parametrize("status", ["busy", "no-answer", "failed", "canceled", ""])
async def test_a_transfer_that_nobody_answers_goes_on_to_each_destination_once(
    memory: Database, api: Api, status: str
) -> None:
    agent = compiled(document(voice=DESKS))
    server = phone_server_on(memory, api, agent=agent)
    call, serving = await server.connect(f"CA{status}")
    server.speakers[-1].over.set_result(CallOver("transferred", "sales"))
    await serving
    after = await server.calls.after(call.call_id)
    assert answered(after) == ("+33111111111", 15, ("sales",))
    tried: list[Any] = []
    while after.destination is not None:
        tried.append(after.destination)
        after = await dialled(server, call.call_id, after, status)
    assert tried == ["+33111111111", "sip:shop@example.com", "+33333333333"]
    assert after.text.startswith("Nobody can take your call")
    assert (await call_of(server, call.call_id)).dial_status == status


async def test_after_a_conversation_with_somebody_else_the_call_is_over(
    memory: Database, api: Api
) -> None:
    server = phone_server_on(memory, api, agent=compiled(document(voice=DESKS)))
    for status in ("completed", "answered"):
        after = await dialled(server, "call1", FollowUp(tried=("sales",)), status)
        assert after == FollowUp()
    gone = await dialled(server, "call1", FollowUp(tried=("nobody",)), "busy")
    assert gone.destination == "+33333333333", "what a newer document does not name is left out"


@pytest.mark.parametrize(
    ("reason", "passes_on"),
    [
        *(
            (reason, True)
            for reason in (
                "model_refused",
                "model_unreachable",
                "session_failed",
                "error",
                "draining",
            )
        ),
        *(
            (reason, False)
            for reason in ("caller_hung_up", "agent_hung_up", "caller_silent", "max_duration")
        ),
    ],
)
async def test_whoever_the_agent_cannot_serve_is_connected_with_the_fallback(
    memory: Database, api: Api, reason: Any, passes_on: bool
) -> None:
    server = phone_server_on(memory, api, agent=compiled(document(voice=DESKS)))
    call, serving = await server.connect(f"CA{reason}")
    server.speakers[-1].over.set_result(CallOver(reason))
    await serving
    after = await server.calls.after(call.call_id)
    assert (after.destination == "+33333333333") == passes_on


async def test_who_is_refused_when_it_rings_is_passed_on_where_the_document_names_somebody(
    memory: Database, api: Api
) -> None:
    server = phone_server_on(memory, api, agent=compiled(document(voice=DESKS)))
    found = await server.calls.passed_on("shop", "CA9")
    assert found is not None
    assert answered(found[1]) == ("+33333333333", 30, ("desk",))
    nobody = phone_server_on(memory, api, agent=compiled(document()))
    assert await nobody.calls.passed_on("shop", "CA9") is None


def test_twilio_keeps_an_answer_for_the_time_when_nothing_here_can_be_reached() -> None:
    kept = fromstring(without_service(compiled(document(voice=DESKS)), LOCALE))
    assert [each.tag for each in kept] == ["Dial", "Say", "Hangup"], (
        "without an action what follows is reached"
    )
    assert kept[0].attrib == {"timeout": "30"}
    nobody = fromstring(without_service(compiled(document()), LOCALE))
    assert [each.tag for each in nobody] == ["Say", "Hangup"]


def test_a_chain_of_destinations_ends_whatever_a_document_says() -> None:
    agent = compiled(document(voice={**DESKS, "fallback": "sales"}))
    tried = ("shop",)
    for _ in range(5):
        after = after_dial(agent, LOCALE, tried, "busy")
        if after.destination is None:
            break
        tried = after.tried
    assert tried == ("shop", "sales")


@pytest.mark.parametrize(
    ("voice", "where"),
    [
        ({**DESKS, "fallback": "desc"}, "voice.fallback"),
        (
            {"destinations": {"sales": {"number": "+33111111111", "fallback": "shop"}}},
            "voice.destinations.sales.fallback",
        ),
    ],
)
def test_a_fallback_that_is_no_destination_is_refused(voice: dict[str, Any], where: str) -> None:
    errors = check_document(document(voice=voice)).errors
    assert [(each.code, each.where) for each in errors] == [("unknown_destination", where)]
