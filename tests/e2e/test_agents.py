"""A declarative agent on the page: its document corrected, tried, started, talked with, ended."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.conftest import OpenPage, Trouble
from tests.e2e.site import GRAPH, Site, running_site
from tests.e2e.talk import HOSTILE, answered, ask, press
from tests.support.scripted_http import Answer, ScriptedServer
from tests.support.scripted_provider import Says, ScriptedProvider, call

PANEL = "agents"
NAME = f"Desk {HOSTILE}"


def document(address: str, **more: Any) -> dict[str, Any]:
    """Return an agent that leaves messages by HTTP, and tells its API how a conversation ended."""
    parameters = {
        "type": "object",
        "properties": {"text": {"type": "string"}},
        "required": ["text"],
    }
    return {
        "version": "2.0",
        "agent": {"id": "desk", "name": NAME},
        "base_url": address,
        "chat": {"opening": "Good day."},
        "channels": ["chat"],
        "session": {
            "mode": "inline",
            "instructions": "Take messages.",
            "tools": [{"type": "function", "name": "leave_message", "parameters": parameters}],
        },
        "tools": {
            "leave_message": {
                "type": "http",
                "method": "POST",
                "url": "{{base_url}}/messages",
                "headers": {"Authorization": "Bearer {{secret.DESK_KEY}}"},
                "body": {"text": "{{args.text}}"},
                "store_in_ctx": {"number": "$.id"},
                "on_success_flags": ["message_left"],
            }
        },
        "lifecycle": {
            "on_end": {"url": "{{base_url}}/ended", "body": {"outcome": "{{outcome}}"}},
            "outcome_rules": [
                {"flag": "message_left", "outcome": "message"},
                {"flag": None, "outcome": "none"},
            ],
        },
        "secrets": [{"name": "DESK_KEY", "hosts": ["127.0.0.1"]}],
        **more,
    }


@pytest.fixture
def agent_api() -> Iterator[ScriptedServer]:
    with ScriptedServer() as server:
        yield server


@pytest.fixture
def place(
    tmp_path: Path,
    script: ScriptedProvider,
    agent_api: ScriptedServer,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Site]:
    """A service that may reach the agent's API, answered by `script`."""
    monkeypatch.setenv("NODIUS_SECRET_DESK_KEY", "desk-key-0123456789")
    with running_site(tmp_path, script=script, agent_http_allow="127.0.0.1") as running:
        yield running
    script.check()


def selected(page: Page) -> str:
    return page.evaluate(
        "() => { const f = document.querySelector('.doc-text');"
        " return f.value.slice(f.selectionStart, f.selectionEnd); }"
    )


def test_a_person_corrects_a_document_tries_its_tool_talks_with_the_agent_and_ends_the_conversation(
    place: Site,
    script: ScriptedProvider,
    agent_api: ScriptedServer,
    open_page: OpenPage,
    trouble: Trouble,
) -> None:
    good = document(agent_api.url)
    wrong = document(agent_api.url)
    wrong["tools"]["leave_message"]["body"]["text"] = "{{args.text | shout}}"
    page = open_page(place, panel=PANEL)
    panel = page.locator(f"#panel-{PANEL}")
    expect(panel).to_contain_text("nodius agents apply FILE --start")
    press(panel, "New")
    panel.get_by_role("button", name="JSON", exact=True).click()
    text = panel.locator(".doc-text")
    text.fill(json.dumps(wrong, indent=2))
    panel.get_by_role("button", name="Save as a new version").press("Enter")
    expect(panel.locator(".doc .doc-problems li")).to_contain_text("tools.leave_message.body.text")
    expect(panel.locator(".doc-marks mark")).to_have_text('"{{args.text | shout}}"')
    expect(text).to_be_focused()
    assert selected(page) == '"{{args.text | shout}}"'
    assert place.rest("GET", "/api/agents")["agents"] == []
    text.fill(json.dumps(good, indent=2))
    expect(panel.locator(".doc .doc-problems")).to_be_hidden()
    press(panel, "Save as a new version")
    expect(panel.locator("h2").last).to_have_text(NAME)
    expect(panel.locator(".auto-three").last).to_contain_text("stopped")
    panel.get_by_role("button", name="Start: Desk").press("Enter")
    expect(panel.locator(".auto-three").last).to_contain_text("running")

    panel.get_by_role("button", name="Form", exact=True).click()
    tool = panel.locator(".doc-tool", has_text="leave_message")
    tool.locator("summary").first.click()
    tool.get_by_text("Try it").click()
    tool.get_by_label("text (needed)").fill("call me")
    press(tool, "Show the request")
    shown = panel.locator(".trial")
    expect(shown).to_contain_text(f"POST {agent_api.url}/messages")
    expect(shown).to_contain_text('"text": "call me"')
    expect(shown).to_contain_text("[secret DESK_KEY]")
    expect(shown).not_to_contain_text("0123456789")
    assert agent_api.requests == []

    agent_api.play(Answer(status=201, body={"id": 7}), Answer(body={}))
    script.play(Says(calls=[call("leave_message", {"text": "call me"})]), "I passed it on.")
    page.locator("#tab-chat").click()
    page.get_by_label("Who answers").select_option("desk")
    chat = page.locator("#panel-chat")
    expect(chat.locator(".welcome")).to_contain_text("Good day.")
    ask(page, "Please have somebody call me")
    answered(page, "I passed it on.")
    facts = chat.locator(".chat-agent")
    expect(facts.locator(".tag", has_text="message_left")).to_be_visible()
    page.reload()
    expect(facts).to_contain_text(NAME)
    chat.get_by_role("button", name="End conversation").press("Enter")
    expect(facts).to_contain_text("Outcome: message")
    expect(page.locator("#composer")).to_be_disabled()
    facts.get_by_text("What the conversation knows").click()
    expect(facts).to_contain_text('"number": 7')
    expect(facts.locator("li", has_text="leave_message")).to_contain_text("done")
    expect(facts.locator(".delivery", has_text="on_end")).to_contain_text("delivered")
    assert [(r.method, r.path, r.json) for r in agent_api.requests][1:] == [
        ("POST", "/ended", {"outcome": "message"})
    ]
    press(chat, "New conversation")
    expect(facts).to_be_hidden()
    expect(page.locator("#composer")).to_be_enabled()
    trouble.forgive("422")  # what was wrong in the document


def test_versions_are_shown_and_brought_back_and_an_agent_without_graphs_needs_none(
    place: Site,
    script: ScriptedProvider,
    agent_api: ScriptedServer,
    open_page: OpenPage,
    trouble: Trouble,
) -> None:
    """The API is down when the conversation ends; the delivery is refused later, and sent
    again by hand.
    """
    for name in ("First", "Second"):
        place.rest(
            "PUT",
            "/api/agents/desk",
            json={"document": {**document(agent_api.url), "agent": {"id": "desk", "name": name}}},
        )
    place.rest("POST", "/api/agents/desk/start")
    elsewhere = {
        **document(agent_api.url, graphs=[GRAPH]),
        "agent": {"id": "graphs", "name": "Of a graph"},
    }
    place.rest("PUT", "/api/agents/graphs", json={"document": elsewhere})
    place.rest("POST", "/api/agents/graphs/start")

    page = open_page(place, None)
    page.get_by_role("button", name="Agents", exact=True).click()
    panel = page.locator(f"#panel-{PANEL}")
    panel.get_by_role("button", name="Show: Second").click()
    panel.get_by_role("button", name="JSON", exact=True).click()
    panel.get_by_text("Versions").click()
    panel.get_by_role("button", name="Show version 1").click()
    expect(panel.locator(".doc-text")).to_have_value(
        json.dumps({**document(agent_api.url), "agent": {"id": "desk", "name": "First"}}, indent=2)
    )
    panel.get_by_role("button", name="Make current 1").click()
    expect(panel.locator("h2").last).to_have_text("First")

    page.locator("#tab-chat").click()
    who = page.get_by_label("Who answers")
    expect(who.locator("option")).to_have_text(["Choose an agent", "First"])
    expect(page.locator("#composer")).to_be_disabled()
    who.select_option("desk")
    script.play("Good day to you.")
    ask(page, "Hello")
    answered(page, "Good day to you.")
    agent_api.play(Answer(status=400, body={}), Answer(body={}))
    press(page.locator("#panel-chat"), "End conversation")
    facts = page.locator(".chat-agent")
    expect(facts).to_contain_text("Outcome: none")
    page.locator(f"#tab-{PANEL}").click()
    press(panel, "Back to the agents")
    panel.get_by_role("button", name="Show: First").click()
    owed = panel.locator(".deliveries li", has_text="on_end")
    expect(owed).to_contain_text("refused")
    owed.get_by_role("button", name="Send again").press("Enter")
    expect(owed).to_contain_text("delivered")
    page.locator("#tab-threads").click()
    page.locator(".thread").click()
    expect(facts).to_contain_text("First")
    expect(page.locator("#composer")).to_be_disabled()


def test_a_tool_is_sent_as_it_stands_in_the_form_and_shows_request_status_answer_and_time(
    place: Site, agent_api: ScriptedServer, open_page: OpenPage, trouble: Trouble
) -> None:
    page = open_page(place, panel=PANEL)
    panel = page.locator(f"#panel-{PANEL}")
    press(panel, "New")
    panel.get_by_role("button", name="JSON", exact=True).click()
    panel.locator(".doc-text").fill(json.dumps(document(agent_api.url)))
    panel.get_by_role("button", name="Form", exact=True).click()
    tool = panel.locator(".doc-tool")
    tool.locator("summary").first.click()
    tool.get_by_label("Address", exact=True).fill("{{base_url}}/notes")  # stored nowhere
    tool.get_by_text("Try it").click()
    tool.get_by_label("text (needed)").fill("call me")
    agent_api.play(Answer(status=201, body={"id": 7, "seen": "desk-key-0123456789"}))
    press(tool, "Send it")
    shown = tool.locator(".trial")
    expect(shown).to_contain_text("HTTP 201")
    expect(shown).to_contain_text(" ms")
    expect(shown.get_by_label("The answer")).to_contain_text('"id": 7')
    expect(shown.get_by_label("What would be sent")).to_contain_text("[secret DESK_KEY]")
    expect(shown).not_to_contain_text("0123456789")
    [sent] = agent_api.requests
    assert (sent.method, sent.path, sent.json) == ("POST", "/notes", {"text": "call me"})
    assert sent.headers["authorization"] == "Bearer desk-key-0123456789"
    assert place.rest("GET", "/api/agents")["agents"] == []

    agent_api.play(Answer(status=503, body={"why": "closed"}))
    press(tool, "Send it")
    expect(shown).to_contain_text("HTTP 503")
    expect(shown).to_contain_text("It failed")
    tool.get_by_label("Address", exact=True).fill("{{base_url}}/{{args.nothing}}")
    press(tool, "Send it")  # the document is wrong: nothing is sent, and the field says it
    expect(tool.get_by_label("Address", exact=True)).to_have_attribute("aria-invalid", "true")
    assert len(agent_api.requests) == 2
    trouble.forgive("422")
