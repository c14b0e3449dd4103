"""An agent of our own, driven in chat by a scripted model; an API on loopback gets what
its document says.
"""

import json
from typing import Any

import pytest

from graphrag.agents.document_check import check_document
from tests.support.data_files import ours
from tests.support.driven_documents import AT, PHONE, compact, declared, drive
from tests.support.scripted_provider import call

TOOLS = [
    declared("find_slot", work="string", day="string", hours="integer"),
    declared("book_repair", bike="string"),
    declared("cancel_repair", ticket="integer"),
    declared("leave_note", text="string", urgent="boolean"),
]
SESSION: dict[str, Any] = {
    "prompt": "You answer the phone of a bicycle workshop. {{secret.X}}",
    "functions": TOOLS,
    "rider": {"number": 31, "name": "Zoé", "count": 2, "bikes": ["red", "folding"]},
}
WORKSHOP: dict[str, Any] = {
    "GET /v1/unpaid": {"sum": 0},
    "GET /v1/assistant": SESSION,
    "POST /v1/talks": (201, {"talk": "t-9"}),
    "PATCH /v1/talks": {},
    "POST /v1/slots": {"number": 4, "at": "Tuesday 9:00"},
    "POST /v1/repairs": (201, {"repair": "r-5"}),
    "GET /v1/repairs": {
        "repairs": [
            {"ticket": 70, "repair": "r-70", "state": "on the stand"},
            {"ticket": 71, "repair": "r-71", "state": "waiting"},
        ]
    },
    "PATCH /v1/repairs/r-71": {"ok": True},
    "POST /v1/notes": (201, {}),
}


def test_our_documents_are_right() -> None:
    for path in ours("agents", "*.json"):
        checked = check_document(path.read_bytes())
        assert checked.errors == (), path
        assert [problem.code for problem in checked.warnings] == ["ignored_field"]


async def test_a_repair_is_booked_from_the_first_word_to_the_last() -> None:
    async with drive("workshop", WORKSHOP) as run:
        await run.begin("My brakes squeal", "Which bike?")
        slot, booked = await run.tools(
            call("find_slot", {"work": "brakes", "hours": 2}), call("book_repair", {"bike": "red"})
        )
        part = await run.end()
    assert [each.line.partition("?")[0] for each in run.api.arrived] == [
        "GET /v1/unpaid",
        "GET /v1/assistant",
        "POST /v1/talks",
        "POST /v1/slots",
        "POST /v1/repairs",
        "PATCH /v1/talks",
    ]
    assert run.bodies("POST /v1/talks") == [compact(phone=PHONE, rider=31, begun=AT)]
    assert run.bodies("POST /v1/slots") == [compact(work="brakes", hours=2)]
    assert run.bodies("POST /v1/repairs") == [compact(talk="t-9", rider=31, slot=4, bike="red")]
    assert run.bodies("PATCH /v1/talks") == [
        compact(talk="t-9", seconds=90, result="repair_booked")
    ]
    assert slot == WORKSHOP["POST /v1/slots"]
    assert booked == {"done": True, "repair": "r-5", "at": "Tuesday 9:00"}
    assert (part.outcome, part.ctx["bikes"]) == ("repair_booked", ["red", "folding"])
    assert "Zoé is calling, who owns 2 bikes." in run.prompt()
    assert "You answer the phone of a bicycle workshop. {{secret.X}}" in run.prompt()
    offered = {tool["function"]["name"] for tool in run.model.requests[0].tools}
    assert offered == {tool["name"] for tool in TOOLS} | {"end_call"}


@pytest.mark.parametrize(
    ("ticket", "result", "sent"),
    [
        (71, {"done": True}, ["PATCH /v1/repairs/r-71"]),
        (70, {"done": False, "why": "it is on the stand already"}, []),
        (7, {"done": False, "why": "no such ticket"}, []),
        ("71 || true", {"done": False, "why": "no such ticket"}, []),
    ],
)
async def test_only_a_repair_that_still_waits_is_cancelled(
    ticket: Any, result: Any, sent: Any
) -> None:
    session = SESSION | {"functions": [declared("cancel_repair")]}
    async with drive("workshop", WORKSHOP | {"GET /v1/assistant": session}) as run:
        await run.begin("Cancel it", "Which ticket?")
        assert await run.tools(call("cancel_repair", {"ticket": ticket})) == [result]
    assert [each.line for each in run.api.arrived if each.line.startswith("PATCH")] == sent


async def test_what_an_unknown_person_leaves_is_sent_word_for_word() -> None:
    session = SESSION | {"rider": None}
    async with drive("workshop", WORKSHOP | {"GET /v1/assistant": session}) as run:
        await run.begin("Hello", "Hello!", caller=None)
        await run.tools(call("leave_note", {"text": "Call {{agent.id}} back", "urgent": False}))
        part = await run.end()
    assert run.api.arrived[0].line == "GET /v1/unpaid"
    assert run.bodies("POST /v1/talks") == [compact(begun=AT)]
    assert run.bodies("POST /v1/notes") == [
        compact(talk="t-9", text="Call {{agent.id}} back", urgent=False)
    ]
    assert "Somebody new is calling." in run.prompt()
    assert part.outcome == "note_left"


async def test_an_end_without_an_act_leaves_a_note_before_it() -> None:
    async with drive("workshop", WORKSHOP) as run:
        await run.begin("When do you open?", "At nine.")
        part = await run.end()
    assert [each.what for each in run.api.arrived[-2:]] == ["POST /v1/notes", "PATCH /v1/talks"]
    note = json.loads(run.api.only("POST /v1/notes").body)
    assert note["text"].startswith("Nothing was booked.\n")
    assert note["text"].endswith(": At nine.")
    assert part.outcome == "asked"


async def test_an_act_that_may_have_been_carried_out_is_not_repeated_when_the_api_fails() -> None:
    async with drive("workshop", WORKSHOP) as run:
        await run.begin("My brakes squeal", "Which bike?")
        run.api.answers.update({what: (503, {"trace": "secret"}) for what in WORKSHOP})
        slot, booked = await run.tools(
            call("find_slot", {"work": "brakes"}), call("book_repair", {"bike": "red"})
        )
        run.api.answers.update(WORKSHOP)
        part = await run.end()
    assert (slot["free"], booked["done"]) == (False, False)
    assert "secret" not in json.dumps([slot, booked])
    assert len(run.api.of("POST /v1/repairs")) == 1
    assert part.outcome == "asked"
