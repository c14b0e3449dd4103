"""The three documents that stand beside the repository, as they are: a scripted model drives
them in chat.

A real API on loopback gets the requests, and each is compared byte for byte.
"""

import json
from typing import Any, get_args

import pytest

from graphrag.agents.document_check import CheckedDocument, check_document
from graphrag.agents.voice_fields import Voice
from tests.support.data_files import PUBLISHED
from tests.support.driven_documents import AT, LATER, PHONE, compact, declared, drive
from tests.support.scripted_provider import Says, call

PIZZA = "a1b2c3d4-e5f6-7890-abcd-ef1234567890"


TOOLS = [
    declared("check_availability", mode="string", requested_time="string", party_size="integer"),
    declared("confirm_order", items="array", order_type="string", customer_name="string"),
    declared(
        "confirm_reservation",
        customer_name="string",
        party_size="integer",
        reservation_time="string",
    ),
    declared("cancel_order", order_number="integer"),
    declared("cancel_reservation", reservation_id="string"),
    declared("lookup_reservation", customer_phone="string"),
    declared("check_order_status", customer_phone="string"),
    declared(
        "leave_message",
        caller_name="string",
        content="string",
        category="string",
        is_urgent="boolean",
    ),
    declared("save_customer_info", first_name="string", delivery_city="string"),
    declared("log_new_faq", question="string", category="string"),
]
KNOWN = {"id": "cus-1", "firstName": "Jean", "totalOrders": 4}
SESSION: dict[str, Any] = {
    "systemPrompt": "Tu prends les commandes de Pizza Bella. {{secret.X}}",
    "tools": TOOLS,
    "voice": "coral",
    "itemMap": {"3": {"id": "uuid-pizza-marg", "name": "Margherita"}},
    "avgPrepTimeMin": 25,
    "deliveryEnabled": True,
    "customerContext": KNOWN,
}
RESTAURANT: dict[str, Any] = {
    "GET /api/blocked-phones/check": {"blocked": False},
    "GET /api/ai": SESSION,
    "POST /api/calls": (201, {"id": "call-77"}),
    "PATCH /api/calls": {},
    "POST /api/messages": (201, {"id": "msg-1"}),
    "POST /api/availability/check": {
        "available": True,
        "estimatedTime": "20h30",
        "estimatedTimeISO": "2025-01-15T19:30:00Z",
        "deliveryFee": 2.5,
    },
    "POST /api/orders": (201, {"id": "ord-9"}),
    "POST /api/reservations": (201, {"id": "res-4"}),
    "GET /api/orders/status": {
        "found": True,
        "orders": [
            {"orderNumber": 41, "id": "ord-41", "status": "delivered"},
            {"orderNumber": 42, "id": "ord-42", "status": "pending"},
        ],
    },
    "PATCH /api/orders": {"ok": True},
    "PATCH /api/reservations": {"ok": True},
    "GET /api/reservations/lookup": {"found": True, "reservations": [{"id": "res-4"}]},
}


LARGE = [{"name": "Taille", "choice": "Grande", "extra_price": 2}]
ORDERED = {
    "items": [{"id": 3, "quantity": 1, "unit_price": 9.50, "selected_options": LARGE}],
    "order_type": "pickup",
    "customer_name": "Jean",
}
MENU_ITEM = {
    "menuItemId": "uuid-pizza-marg",
    "name": "Margherita",
    "quantity": 1,
    "unitPrice": 9.5,
    "totalPrice": 9.5,
    "selectedOptions": LARGE,
}


async def test_an_order_from_the_first_word_to_the_last() -> None:
    async with drive("restaurant", RESTAURANT) as run:
        await run.begin("Une pizza", "Sur place ?")
        check = call("check_availability", {"mode": "pickup"})
        checked, ordered = await run.tools(
            check, call("confirm_order", ORDERED, call_id="call_order")
        )
        part = await run.end()

    assert [each.line for each in run.api.arrived] == [
        f"GET /api/blocked-phones/check?restaurantId={PIZZA}&phone=%2B33612345678",
        f"GET /api/ai?restaurantId={PIZZA}&callerPhone=%2B33612345678",
        "POST /api/calls",
        "POST /api/availability/check",
        "POST /api/orders",
        "PATCH /api/calls",
    ]
    begun = compact(restaurantId=PIZZA, callerNumber=PHONE, customerId="cus-1", startedAt=AT)
    assert run.bodies("POST /api/calls") == [begun]
    assert run.bodies("POST /api/availability/check") == [
        compact(restaurantId=PIZZA, mode="pickup")
    ]
    sent = compact(
        restaurantId=PIZZA,
        callId="call-77",
        customerId="cus-1",
        customerPhone=PHONE,
        customerName="Jean",
        total=11.5,
        orderType="pickup",
        estimatedReadyAt="2025-01-15T19:30:00Z",
        items=[MENU_ITEM],
    )
    assert run.bodies("POST /api/orders") == [sent]
    key = run.api.only("POST /api/orders").headers["idempotency-key"]
    assert key == f"{run.thread_id}:call_order:0"
    assert "idempotency-key" not in run.api.arrived[0].headers

    ended = json.loads(run.api.only("PATCH /api/calls").body)
    transcript = ended.pop("transcript")
    assert ended.items() >= {
        ("id", "call-77"), ("endedAt", LATER), ("durationSec", 90), ("outcome", "order_placed"),
    }  # fmt: skip
    said = [
        ("user", "Une pizza"),
        ("assistant", "Sur place ?"),
        ("user", "Oui"),
        ("assistant", "Voilà."),
    ]
    assert [(entry["role"], entry["content"]) for entry in transcript] == said
    assert set(transcript[0]) == {"role", "content", "timestamp"}

    assert checked["estimatedTimeISO"] == "2025-01-15T19:30:00Z"
    message = {"message": "Commande enregistree", "heure_estimee": "20h30"}
    assert ordered == {"success": True, "order_id": "ord-9", **message}
    assert (part.outcome, part.ctx["order_placed"], part.ctx["call_id"]) == (
        "order_placed",
        True,
        "call-77",
    )
    assert part.ctx["item_map"] == SESSION["itemMap"]
    assert "Le client Jean vient d'appeler (client fidele, 4 commandes)" in run.prompt()
    assert "Tu prends les commandes de Pizza Bella. {{secret.X}}" in run.prompt()


async def test_a_reservation_keeps_its_whole_numbers() -> None:
    async with drive("restaurant", RESTAURANT) as run:
        await run.begin("Une table", "Pour combien ?")
        made = await run.tools(
            call(
                "check_availability",
                {"mode": "reservation", "requested_time": "20:30", "party_size": 4},
            ),
            call(
                "confirm_reservation",
                {"customer_name": "Jean", "party_size": 4, "reservation_time": "20:30"},
            ),
        )
        part = await run.end()
    assert run.bodies("POST /api/availability/check") == [
        compact(restaurantId=PIZZA, mode="reservation", requestedTime="20:30", partySize=4)
    ]
    assert run.bodies("POST /api/reservations") == [
        compact(
            restaurantId=PIZZA,
            callId="call-77",
            customerId="cus-1",
            customerName="Jean",
            customerPhone=PHONE,
            partySize=4,
            reservationTime="2025-01-15T19:30:00Z",
            status="confirmed",
        )
    ]
    assert made[1]["reservation_id"] == "res-4"
    assert part.outcome == "reservation_placed"


@pytest.mark.parametrize(
    ("number", "result", "sent"),
    [
        (
            42,
            {"success": True, "message": "Commande annulee"},
            [compact(id="ord-42", status="cancelled")],
        ),
        (41, {"success": False, "error": "Annulation impossible"}, []),
        (7, {"success": False, "error": "Commande introuvable"}, []),
        ("42 || true", {"success": False, "error": "Commande introuvable"}, []),
    ],
)
async def test_only_an_order_that_can_still_be_cancelled_is(
    number: Any, result: Any, sent: Any
) -> None:
    session = SESSION | {"tools": [declared("cancel_order")]}
    async with drive("restaurant", RESTAURANT | {"GET /api/ai": session}) as run:
        await run.begin("Annulez", "Laquelle ?")
        assert await run.tools(call("cancel_order", {"order_number": number})) == [result]
    assert run.api.only("GET /api/orders/status").line.endswith(
        f"?restaurantId={PIZZA}&phone=%2B33612345678"
    )
    assert run.bodies("PATCH /api/orders") == sent


async def test_a_reservation_is_looked_up_and_cancelled_and_a_status_read() -> None:
    async with drive("restaurant", RESTAURANT) as run:
        await run.begin("Ma table", "Oui ?")
        found, cancelled, status = await run.tools(
            call("lookup_reservation", {}),
            call("cancel_reservation", {"reservation_id": "res-4"}),
            call("check_order_status", {"customer_phone": "+33799999999"}),
        )
    assert run.api.only("GET /api/reservations/lookup").line.endswith("phone=%2B33612345678")
    assert run.api.only("GET /api/orders/status").line.endswith("phone=%2B33799999999")
    assert run.bodies("PATCH /api/reservations") == [compact(id="res-4", status="cancelled")]
    assert found["reservations"] == [{"id": "res-4"}]
    assert cancelled == {"success": True, "message": "Reservation annulee"}
    assert status["orders"][1]["status"] == "pending"


async def test_a_message_is_left_by_somebody_unknown_whose_number_is_withheld() -> None:
    session = SESSION | {"customerContext": None}
    async with drive("restaurant", RESTAURANT | {"GET /api/ai": session}) as run:
        await run.begin("Bonjour", "Bonjour !", caller=None)
        await run.tools(
            call("leave_message", {"content": "Rappelez-moi {{agent.id}}", "is_urgent": False}),
            call("save_customer_info", {"first_name": "Zoé"}),
        )
        part = await run.end()
    assert run.api.arrived[0].line == f"GET /api/blocked-phones/check?restaurantId={PIZZA}"
    assert run.bodies("POST /api/calls") == [compact(restaurantId=PIZZA, startedAt=AT)]
    assert run.bodies("POST /api/messages") == [
        compact(
            restaurantId=PIZZA,
            callId="call-77",
            content="Rappelez-moi {{agent.id}}",
            isUrgent=False,
        )
    ]
    assert run.bodies("POST /api/customers") == [compact(restaurantId=PIZZA, firstName="Zoé")]
    assert "Un nouveau client vient d'appeler." in run.prompt()
    assert part.outcome == "message_left"
    assert part.ctx["customer_id"] is None


async def test_an_end_without_action_leaves_a_note_first() -> None:
    async with drive("restaurant", RESTAURANT) as run:
        await run.begin("Vous ouvrez quand ?", "À 18 h.")
        part = await run.end()
    assert [each.what for each in run.api.arrived[-2:]] == [
        "POST /api/messages",
        "PATCH /api/calls",
    ]
    note = json.loads(run.api.only("POST /api/messages").body)
    assert list(note) == [
        "restaurantId",
        "callId",
        "callerPhone",
        "content",
        "category",
        "isUrgent",
    ]
    assert note["isUrgent"] is False
    assert note["content"].startswith(
        "Appel sans commande ni reservation.\n\nDernieres echanges:\n"
    )
    assert note["content"].count("\n") == 4
    assert note["content"].endswith(": À 18 h.")
    assert part.outcome == "info_only"
    assert json.loads(run.api.only("PATCH /api/calls").body)["outcome"] == "info_only"


async def test_an_api_that_goes_down_is_said_and_what_is_owed_arrives_later() -> None:
    async with drive("restaurant", RESTAURANT) as run:
        await run.begin("Une pizza", "Oui.")
        run.api.answers.update({what: (503, {"trace": "secret"}) for what in RESTAURANT})
        checked, order = await run.tools(
            call("check_availability", {"mode": "pickup"}),
            call("confirm_order", {"items": [{"id": 3, "quantity": 2, "unit_price": 9}]}),
        )
        await run.end()
        run.api.answers.update(RESTAURANT)
        first = [each.headers["idempotency-key"] for each in run.api.of("PATCH /api/calls")]
        run.clock.now += 24 * 3_600_000 - 120_000
        await run.setting.life.deliveries.send_due()
        await run.setting.all_sent(run.thread_id)
    assert checked["available"] is False
    assert order["success"] is False
    assert (
        len(run.api.of("POST /api/orders")) == 1
    )  # an act that may have been carried out is not repeated
    assert "secret" not in json.dumps([checked, order])
    sent = run.api.of("PATCH /api/calls")
    assert len({each.headers["idempotency-key"] for each in sent}) == 1
    assert len(sent) > len(first)
    assert {json.loads(each.body)["outcome"] for each in sent} == {"info_only"}


MEDICAL: dict[str, Any] = {
    "GET /api/ai-config": {
        "systemPrompt": "Tu es le cabinet.",
        "tools": [
            declared("check_availability", practitioner="string", date="string", type="string"),
            declared("confirm_appointment", practitioner="string", type="string", notes="string"),
            declared("cancel_appointment", appointment_id="string"),
            declared("leave_message", content="string", is_urgent="boolean"),
        ],
        "patientContext": {"id": 12, "name": "Mme Durand"},
    },
    "POST /api/slots/check": {"available": True, "slotId": 990},
    "POST /api/appointments": (201, {"id": "apt-1"}),
    "POST /api/messages": (201, None),
}


def with_voice(document: dict[str, Any]) -> None:
    document["openai"]["voice"] = "coral"


async def test_the_medical_practice_books_what_it_checked() -> None:
    async with drive("medical", MEDICAL, with_voice) as run:
        await run.begin("Un rendez-vous", "Quand ?")
        results = await run.tools(
            call(
                "check_availability",
                {"practitioner": "Martin", "date": "2025-01-20", "type": "suivi"},
            ),
            call("confirm_appointment", {"practitioner": "Martin", "type": "suivi"}),
        )
        part = await run.end()
    assert (
        run.api.arrived[0].line
        == "GET /api/ai-config?cabinetId=cabinet-dr-martin&callerPhone=%2B33612345678"
    )
    assert run.bodies("POST /api/slots/check") == [
        compact(
            cabinetId="cabinet-dr-martin",
            practitioner="Martin",
            requestedDate="2025-01-20",
            consultationType="suivi",
        )
    ]
    assert run.bodies("POST /api/appointments") == [
        compact(
            cabinetId="cabinet-dr-martin",
            patientId=12,
            patientPhone=PHONE,
            practitioner="Martin",
            slotId=990,
            type="suivi",
        )
    ]
    assert results[1] == {"id": "apt-1"}
    assert (part.outcome, part.ctx["appointment_booked"]) == ("appointment_booked", True)
    assert "Le patient Mme Durand appelle." in run.prompt()
    assert len(run.api.arrived) == 3  # it has no on_start and no on_end


async def test_the_medical_practice_cancels_one_appointment_and_only_that() -> None:
    path = "PATCH /api/appointments/apt%2F1%3Fall%3Dtrue"
    async with drive("medical", MEDICAL | {path: None}, with_voice) as run:
        await run.begin("Annulez", "Lequel ?")
        results = await run.tools(
            call("cancel_appointment", {"appointment_id": "apt/1?all=true"}),
            call("cancel_appointment", {"appointment_id": ".."}),
            call("cancel_appointment", {}),
            call("leave_message", {"content": "Merci", "is_urgent": True}),
        )
        part = await run.end()
    patched = [each for each in run.api.arrived if each.line.startswith("PATCH")]
    assert [(each.line, each.body) for each in patched] == [(path, compact(status="cancelled"))]
    assert results[0] == {"success": True, "message": "Rendez-vous annule"}
    assert [result["success"] for result in results[1:3]] == [False, False]
    assert "args.appointment_id" in results[2]["error"]
    assert run.bodies("POST /api/messages") == [
        compact(callerPhone=PHONE, content="Merci", isUrgent=True)
    ]
    assert part.outcome == "message_left"


SWITCHBOARD: dict[str, Any] = {
    "POST /api/calls": (201, {"id": 501}),
    "PATCH /api/calls": {},
    "POST /api/transfers": (202, {"queued": True}),
    "POST /api/messages": (201, {"id": "m"}),
}


async def test_the_switchboard_transfers_and_hangs_up() -> None:
    async with drive("switchboard", SWITCHBOARD) as run:
        await run.begin("Le support", "Je vous transfère.")
        wrong, made = await run.tools(
            call("transfer_call", {"department": "cuisine"}),
            call("transfer_call", {"department": "support"}),
        )
        run.model.play(Says(calls=[call("end_call", {})]), "Au revoir.")
        await run.setting.say("Merci", run.thread_id)
        await run.setting.all_sent(run.thread_id)
        part = await run.setting.part(run.thread_id)
    assert "commercial" in wrong  # what is allowed is said
    assert made == {"queued": True}
    assert run.bodies("POST /api/calls") == [compact(callerNumber=PHONE, startedAt=AT)]
    assert run.bodies("POST /api/transfers") == [compact(callId=501, department="support")]
    assert run.bodies("PATCH /api/calls") == [
        compact(id=501, endedAt=LATER, durationSec=90, outcome="transferred")
    ]
    assert (part.outcome, part.end_reason) == ("transferred", "agent_hung_up")


async def test_the_switchboard_takes_a_message_and_knows_when_nothing_was_done() -> None:
    async with drive("switchboard", SWITCHBOARD) as run:
        await run.begin("La compta", "Elle est fermée.")
        await run.tools(call("leave_message", {"content": "Rappel", "department": "comptabilite"}))
        part = await run.end()
    assert run.bodies("POST /api/messages") == [
        compact(callId=501, department="comptabilite", callerPhone=PHONE, content="Rappel")
    ]
    assert part.outcome == "message_left"
    async with drive("switchboard", SWITCHBOARD) as run:
        await run.begin("Allô", "Bonjour.")
        assert (await run.end()).outcome == "abandoned"


async def test_the_model_is_offered_the_sessions_tools_and_an_end() -> None:
    async with drive("restaurant", RESTAURANT) as run:
        await run.begin("Bonjour", "Bonjour !")
    offered = {tool["function"]["name"] for tool in run.model.requests[0].tools}
    assert offered == {tool["name"] for tool in TOOLS} | {"end_call"}


def found(checked: CheckedDocument) -> list[tuple[str, str]]:
    return [(problem.code, problem.where) for problem in (*checked.errors, *checked.warnings)]


def test_the_documents_that_stand_beside_the_repository_load_as_they_are() -> None:
    restaurant = check_document((PUBLISHED / "agents/restaurant.json").read_bytes())
    assert restaurant.agent is not None
    assert set(found(restaurant)) == {
        ("ignored_field", "openai.temperature"),
        ("model_retires", "openai.model"),
        ("model_retires", "openai.input_audio_transcription.model"),
    }
    switchboard = check_document((PUBLISHED / "agents/switchboard.json").read_bytes())
    assert switchboard.agent is not None
    assert found(switchboard) == [("ignored_field", "openai.temperature")]
    medical = json.loads((PUBLISHED / "agents/medical.json").read_bytes())
    refused = check_document(medical)
    assert found(refused) == [("unknown_voice", "openai.voice")]
    assert all(f'"{voice}"' in (refused.errors[0].allowed or "") for voice in get_args(Voice))
    medical["openai"]["voice"] = "sage"
    assert found(check_document(medical)) == [("ignored_field", "openai.temperature")]
