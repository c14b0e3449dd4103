"""An agent's document as a form and as JSON: views of one document, of which nothing is lost."""

from __future__ import annotations

import copy
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from mock_data import load_json
from tests.e2e.conftest import OpenPage, Trouble
from tests.e2e.site import GRAPH, Site, running_site
from tests.e2e.talk import press
from tests.e2e.test_review import Contexts, key_of, signed_in
from tests.support.agent_documents import agent_document, fetched_document, mutated
from tests.support.data_files import PUBLISHED
from tests.support.service import SECRET, token

PANEL = "agents"
OURS = ("agents/helpdesk.json", "agents/incident_intake.json")
MUTATED = 40

# Writes something else into every control and then what was there, as a person who thinks again.
TOUCH = """() => {
  const controls = document.querySelectorAll(".doc-form :is(input, textarea, select)");
  const event = (type) => new Event(type, { bubbles: true });
  const tell = (one) => ["input", "change"].forEach((type) => one.dispatchEvent(event(type)));
  for (const one of controls) {
    if (one.type === "checkbox") { one.click(); one.click(); continue; }
    if (one.tagName === "SELECT") continue;
    const before = one.value;
    one.value = `${before}x`;
    tell(one);
    one.value = before;
    tell(one);
  }
  return controls.length;
}"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("NODIUS_SECRET_ORDERS_KEY", "orders-key-0123456789")
    with running_site(tmp_path, script=None) as running:
        yield running


def documents() -> list[dict[str, Any]]:
    """Return the documents of the house, those published beside it, and changed copies of one."""
    chance = random.Random(43)
    published = sorted(PUBLISHED.glob("agents/*.json"))
    changed: list[dict[str, Any]] = []
    while len(changed) < MUTATED:
        made = mutated(chance.choice((agent_document(), fetched_document())), chance)
        if made == json.loads(json.dumps(made)) and is_held(made):
            changed.append(made)
    return [
        *(load_json(name) for name in OURS),
        *(json.loads(path.read_text()) for path in published),
        agent_document(),
        fetched_document(),
        *changed,
    ]


def is_held(value: Any) -> bool:
    """Return whether JavaScript holds all numbers of a value."""
    if isinstance(value, dict | list):
        inner = value.values() if isinstance(value, dict) else value
        return all(map(is_held, inner))
    return not isinstance(value, int | float) or abs(value) < 2**53


def opened(page: Page, view: str) -> Locator:
    panel = page.locator(f"#panel-{PANEL}")
    panel.get_by_role("button", name=view, exact=True).click()
    return panel


def stored(place: Site, agent_id: str) -> dict[str, Any]:
    return place.rest("GET", f"/api/agents/{agent_id}")["document"]


def put(place: Site, document: dict[str, Any]) -> None:
    place.rest("PUT", f"/api/agents/{document['agent']['id']}", json={"document": document})


def test_a_document_whose_every_field_was_touched_in_the_form_is_equal(
    place: Site, open_page: OpenPage
) -> None:
    page = open_page(place, panel=PANEL)
    press(page.locator(f"#panel-{PANEL}"), "New")
    for document in documents():
        panel = opened(page, "JSON")
        text = panel.locator(".doc-text")
        text.fill(json.dumps(document))
        opened(page, "Form")
        expect(panel.locator(".doc-form")).to_be_visible()
        assert page.evaluate(TOUCH) > 10
        opened(page, "JSON")
        assert json.loads(text.input_value()) == document


def test_an_agent_is_written_by_form_and_the_server_says_at_the_field_what_is_wrong(
    place: Site, open_page: OpenPage, trouble: Trouble
) -> None:
    page = open_page(place, panel=PANEL)
    panel = page.locator(f"#panel-{PANEL}")
    press(panel, "New")
    form = panel.locator(".doc-form")
    form.get_by_label("Name", exact=True).first.fill("Orders")
    form.get_by_label("Id", exact=True).fill("orders")
    form.get_by_label("Address of its API").fill("https://api.example.com")
    form.get_by_text("Greeting and voice").click()
    form.get_by_label("First words in a chat").fill("Good day.")
    form.get_by_label("voice", exact=True).uncheck()
    press(form, "Add an HTTP tool")
    tool = form.locator(".doc-tool")
    tool.get_by_label("Name", exact=True).first.fill("order_status")
    tool.get_by_label("When the model should call it").fill("Looks up an order.")
    tool.get_by_label("Address", exact=True).fill("{{base_url}}/orders/{{args.number | shout}}")
    press(tool, "Add an argument")
    argument = tool.locator(".doc-argument")
    argument.get_by_label("Name", exact=True).fill("number")
    argument.get_by_label("Type", exact=True).select_option("whole number")
    argument.get_by_label("needed").check()
    press(tool, "Add a header")
    header = tool.locator(".doc-row").first
    header.get_by_label("Name", exact=True).fill("Authorization")
    header.get_by_label("Value", exact=True).fill("Bearer {{secret.ORDERS_KEY}}")
    tool.get_by_label("Sets these flags").fill("order_found")
    form.get_by_text("Secrets", exact=True).first.click()
    press(form, "Add a secret")
    secrets = form.locator("[data-section=secrets]")
    secrets.get_by_label("Name", exact=True).fill("ORDERS_KEY")
    secrets.get_by_label("Hosts that may get it").fill("api.example.com")
    form.get_by_text("Outcomes", exact=True).click()
    outcomes = form.locator("[data-section=outcomes]")
    for flag, outcome in (("", "nothing"), ("order_found", "answered")):
        press(form, "Add a rule")
        row = outcomes.locator(".doc-row").last
        row.get_by_label("Flag").fill(flag)
        row.get_by_label("Outcome", exact=True).fill(outcome)
    outcomes.get_by_role("button", name="Move up: 2").press("Enter")
    expect(outcomes.get_by_role("button", name="Move down: 1")).to_be_focused()

    tool.locator("summary").first.click()  # what is wrong in it opens it again
    press(panel, "Save as a new version")
    address = tool.get_by_label("Address", exact=True)
    expect(address).to_be_focused()
    expect(address).to_have_attribute("aria-invalid", "true")
    field = address.locator("xpath=..")
    expect(field.locator(".field-error")).to_contain_text("shout")
    assert place.rest("GET", "/api/agents")["agents"] == []
    opened(page, "JSON")  # the same fault, where it stands in the text
    expect(panel.locator(".doc-marks mark").first).to_contain_text("shout")
    opened(page, "Form")
    expect(field.locator(".field-error")).to_contain_text("shout")
    address.fill("{{base_url}}/orders/{{args.number}}")
    expect(field.locator(".field-error")).to_be_hidden()
    trouble.forgive("422")
    press(panel, "Save as a new version")
    expect(panel.locator("h2").last).to_have_text("Orders")
    assert stored(place, "orders") == written()


def test_transfers_and_recording_are_written_by_form(
    place: Site, open_page: OpenPage, trouble: Trouble
) -> None:
    put(place, {**written(), "agent": {"id": "orders", "name": "Orders"}})
    page = open_page(place, panel=PANEL)
    panel = page.locator(f"#panel-{PANEL}")
    panel.get_by_role("button", name="Show: Orders").click()
    form = panel.locator(".doc-form")
    form.get_by_text("Telephone: transfers and recording").click()
    phone = form.locator("[data-section=phone]")
    for name, number in (("sales", "+33123456789"), ("boss", "sip:boss@example.com")):
        press(phone, "Add somebody")
        somebody = phone.locator(".doc-destination").last
        somebody.get_by_label("Name", exact=True).fill(name)
        somebody.get_by_label("Number or sip: address").fill(number)
    sales = phone.locator(".doc-destination").first
    sales.get_by_label("How often it is called").fill("2")
    sales.get_by_label("If nobody answers at all").select_option("The agent takes a message")
    sales.get_by_label("Summary of the call").select_option(
        "Read to whoever answers, before they are connected"
    )
    phone.locator(".doc-destination").last.get_by_role("button", name="Remove").click()
    phone.get_by_label("Record the agent's part of calls").check()
    press(panel, "Save as a new version")
    notice = phone.get_by_label("Notice", exact=True)
    expect(notice).to_have_attribute("aria-invalid", "true")
    trouble.forgive("422")
    notice.fill("This call is recorded.")
    press(panel, "Save as a new version")
    expect(panel.get_by_text("Document, version 2")).to_be_visible()
    assert stored(place, "orders")["voice"] == {
        "destinations": {
            "sales": {
                "number": "+33123456789",
                "attempts": 2,
                "on_unanswered": "message",
                "summary": "spoken",
            }
        },
        "recording": {"enabled": True, "notice": "This call is recorded."},
    }


def written() -> dict[str, Any]:
    """Return the document that the form makes of what the test writes into it."""
    return {
        "version": "2.0",
        "agent": {"id": "orders", "name": "Orders", "language": "en"},
        "graphs": [GRAPH],
        "channels": ["chat"],
        "session": {
            "mode": "inline",
            "instructions": "You answer questions about this workspace. Be brief, and name what "
            "your answers rest on.",
            "tools": [
                {
                    "type": "function",
                    "name": "order_status",
                    "description": "Looks up an order.",
                    "parameters": {
                        "type": "object",
                        "properties": {"number": {"type": "integer", "description": ""}},
                        "required": ["number"],
                    },
                }
            ],
        },
        "base_url": "https://api.example.com",
        "chat": {"opening": "Good day."},
        "tools": {
            "order_status": {
                "type": "http",
                "url": "{{base_url}}/orders/{{args.number}}",
                "headers": {"Authorization": "Bearer {{secret.ORDERS_KEY}}"},
                "on_success_flags": ["order_found"],
            }
        },
        "secrets": [{"name": "ORDERS_KEY", "hosts": ["api.example.com"]}],
        "lifecycle": {
            "outcome_rules": [
                {"flag": "order_found", "outcome": "answered"},
                {"flag": None, "outcome": "nothing"},
            ]
        },
    }


def test_what_answers_calls_is_chosen_in_the_form_with_the_fields_of_that_alone(
    place: Site, open_page: OpenPage
) -> None:
    put(place, {**written(), "agent": {"id": "orders", "name": "Orders"}})
    page = open_page(place, panel=PANEL)
    panel = page.locator(f"#panel-{PANEL}")
    panel.get_by_role("button", name="Show: Orders").click()
    form = panel.locator(".doc-form")
    form.get_by_text("Greeting and voice").click()
    voice = form.get_by_label("Voice", exact=True)
    expect(voice).to_be_visible()
    form.get_by_label("What answers calls").select_option("The model of chats")
    expect(voice).to_have_count(0)
    form.get_by_label("First words of a call").fill("Welcome to the shop.")
    form.get_by_label("Words that callers are likely to say").fill("pizza, salad")
    press(panel, "Save as a new version")
    expect(panel.get_by_text("Document, version 2")).to_be_visible()
    saved = stored(place, "orders")["voice"]
    assert saved["engine"] == "text"
    assert saved["speech"] == {"welcome": "Welcome to the shop.", "hints": ["pizza", "salad"]}


def test_text_that_is_no_json_is_not_left_and_neither_is_a_field_that_cannot_be_read(
    place: Site, open_page: OpenPage
) -> None:
    document = load_json(OURS[0])
    put(place, document)
    page = open_page(place, panel=PANEL)
    panel = page.locator(f"#panel-{PANEL}")
    panel.get_by_role("button", name="Show: Workflow helpdesk").click()
    name = panel.locator(".doc-form").get_by_label("Name", exact=True).first
    name.fill("Desk")
    opened(page, "JSON")
    text = panel.locator(".doc-text")
    expect(text).to_have_value(
        json.dumps(
            {**document, "agent": {**document["agent"], "name": "Desk"}},
            indent=2,
            ensure_ascii=False,
        )
    )
    good = text.input_value()
    broken = good.replace('"name": "Desk",', '"name": "Desk"')
    text.fill(broken)
    opened(page, "Form")
    expect(panel.get_by_role("alert")).to_contain_text("line 6, column 5")
    expect(text).to_be_focused()
    expect(text).to_have_value(broken)
    expect(panel.locator(".doc-form")).to_be_hidden()
    text.fill(good.replace('"id": "helpdesk",', '"id": "helpdesk", "id": "other",'))
    opened(page, "Form")  # one of the two would be lost
    expect(panel.get_by_role("alert")).to_contain_text("line 4")
    text.fill(good.replace("Desk", "The desk"))
    opened(page, "Form")
    expect(name).to_have_value("The desk")

    panel.locator(".doc-tool summary", has_text="leave_message").click()
    body = panel.locator(".doc-form").get_by_label("Body (JSON)", exact=True)
    body.fill('{"content": }')
    opened(page, "JSON")
    expect(body).to_be_focused()
    expect(body).to_have_attribute("aria-invalid", "true")
    expect(body.locator("xpath=..").locator(".field-error")).to_contain_text("line 1, column 13")
    press(panel, "Save as a new version")
    expect(body).to_be_focused()
    assert stored(place, "helpdesk") == document
    body.fill('{"content": "{{args.content}}"}')
    press(panel, "Save as a new version")
    expect(panel.locator(".auto-three").last).to_contain_text("v2")
    wanted = copy.deepcopy(document)
    wanted["agent"]["name"] = "The desk"
    wanted["tools"]["leave_message"]["body"] = {"content": "{{args.content}}"}
    assert stored(place, "helpdesk") == wanted


def test_tools_and_arguments_are_renamed_moved_and_removed_by_keyboard(
    place: Site, open_page: OpenPage
) -> None:
    document = agent_document()
    page = open_page(place, panel=PANEL)
    press(page.locator(f"#panel-{PANEL}"), "New")
    panel = opened(page, "JSON")
    panel.locator(".doc-text").fill(json.dumps(document))
    opened(page, "Form")
    tools = panel.locator(".doc-tool")
    expect(tools.locator("summary strong")).to_have_text(
        ["order_status", "cancel_order", "forward", "end_call"]
    )
    first = tools.first
    first.locator("summary").first.press("Enter")
    first.get_by_label("Name", exact=True).first.fill("cancel_order")  # there is one already
    first.get_by_label("Name", exact=True).first.blur()
    expect(first.locator(".field-error").first).to_have_text("This name is taken.")
    first.get_by_label("Name", exact=True).first.fill("status")
    first.get_by_role("button", name="Move down: number").press("Enter")
    expect(first.get_by_role("button", name="Move up: number")).to_be_focused()
    first.get_by_role("button", name="Remove: phone").press("Enter")
    expect(first.get_by_role("button", name="Add an argument")).to_be_focused()
    first.get_by_role("button", name="Move down: status").press("Enter")
    moved = tools.nth(1)
    expect(moved.get_by_role("button", name="Move up: status")).to_be_focused()
    tools.first.locator("summary").first.press("Enter")
    tools.first.get_by_role("button", name="Remove: cancel_order").press("Enter")
    expect(tools.first.locator("summary").first).to_be_focused()
    opened(page, "JSON")
    session = document["session"]
    session["tools"] = [{**session["tools"][0], "name": "status"}]
    del session["tools"][0]["parameters"]["properties"]["phone"]
    del document["tools"]["cancel_order"]
    document["tools"]["status"] = document["tools"].pop("order_status")
    assert json.loads(panel.locator(".doc-text").input_value()) == document


def test_an_agent_has_an_address_and_what_is_written_is_not_lost_without_a_word(
    place: Site, open_page: OpenPage
) -> None:
    put(place, load_json(OURS[0]))
    page = open_page(place, None)
    page.goto(f"{place.url}#panel=agents&agent=helpdesk")
    page.reload()
    panel = page.locator(f"#panel-{PANEL}")
    name = panel.locator(".doc-form").get_by_label("Name", exact=True).first
    expect(name).to_have_value("Workflow helpdesk")
    name.fill("Desk")
    press(panel, "Back to the agents")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Leave without saving?")
    press(dialog, "Cancel")
    expect(name).to_have_value("Desk")
    expect(page).to_have_url(re.compile("agent=helpdesk"))
    press(panel, "Back to the agents")
    press(dialog, "Leave")
    panel.get_by_role("button", name="Show: Workflow helpdesk").click()
    expect(name).to_have_value("Workflow helpdesk")


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Site]:
    """A service with sign-in."""
    with running_site(tmp_path, script=None, graph=False, auth_secret=SECRET) as running:
        running.import_graph(token=token("ann", "admin"))
        yield running


def test_who_may_not_change_an_agent_reads_its_form(
    guarded: Site, open_page: OpenPage, contexts: Contexts
) -> None:
    document = {**agent_document(), "graphs": []}
    address = f"/api/agents/{document['agent']['id']}"
    guarded.rest("PUT", address, json={"document": document}, token=token("ann", "admin"))
    context = signed_in(contexts, "ed", "editor")
    page = open_page(guarded, key_of(guarded), panel=PANEL, context=context)
    panel = page.locator(f"#panel-{PANEL}")
    expect(panel.get_by_role("button", name="New", exact=True)).to_be_disabled()
    panel.get_by_role("button", name=re.compile("^Show: ")).click()
    form = panel.locator(".doc-form")
    expect(form).to_be_visible()
    changeable = ":is(input, textarea):not([readonly], [disabled]), select:not([disabled])"
    expect(form.locator(changeable)).to_have_count(0)
    for each in form.get_by_role("button", name="Add", exact=False).all():
        expect(each).to_be_disabled()
    for absent in ("Save", "Try it"):
        expect(panel.get_by_role("button", name=absent, exact=True)).to_have_count(0)
    opened(page, "JSON")
    text = panel.locator(".doc-text")
    expect(text).to_have_attribute("readonly", "")
    assert json.loads(text.input_value()) == document
