"""The form of an automation: what its message is about, over which period, and trying it first."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.e2e.conftest import OpenPage, Trouble
from tests.e2e.site import Site, running_site
from tests.e2e.talk import answered, ask, card, press
from tests.e2e.test_automations import Contexts
from tests.e2e.test_review import key_of, signed_in
from tests.support.scripted_provider import Says, ScriptedProvider, call
from tests.support.service import SECRET, token

DAYS = {"from": "-7_DAY", "to": "NOW"}


def blocks_of(site: Site) -> list[dict[str, Any]]:
    """Return the blocks of the only automation's message, as they are stored."""
    (made,) = site.rest("GET", "/api/automations")["automations"]
    (message,) = site.rest("GET", f"/api/automations/{made['id']}")["messages"]
    return [part["block"] for part in message["segments"] if "block" in part]


def add_block(page: Page, field: Locator, words: str) -> None:
    """Choose a block by keys, as `@` lets one do."""
    field.press_sequentially(" @")
    page.get_by_role("dialog").last.get_by_role("searchbox").fill(words)
    page.keyboard.press("Enter")


def test_blocks_and_periods_of_a_conversation_become_an_automation_that_was_tried_and_changed(
    page: Page, site: Site, script: ScriptedProvider, trouble: Trouble
) -> None:
    script.play("Nothing changed there.", "Still nothing.")
    field = page.locator("#composer")
    add_block(page, field, "use fetch nba")
    page.locator("#panel-chat .block").get_by_label("Period").select_option("days7")
    field.press_sequentially("What changed?")
    field.press("Enter")
    answered(page, "Nothing changed there.")

    press(page.locator("#panel-chat"), "Save as automation")
    form = page.get_by_role("dialog")
    message = form.locator("#auto-message")
    chips = form.locator(".block")
    expect(message).to_have_value("What changed?")
    expect(chips.get_by_label("Period")).to_have_value("dates")  # as it was sent
    form.get_by_role("button", name="Count from each run").press("Enter")
    expect(chips.get_by_label("Period")).to_have_value("days7")
    expect(form.locator(".block-offer")).to_have_count(0)
    message.press("End")
    add_block(page, message, "create")
    expect(chips).to_have_count(2)
    expect(chips.last.get_by_label("Period")).to_have_count(0)  # it takes none
    form.get_by_label("Name", exact=True).fill("Weekly look")
    form.locator("#auto-when").select_option("weekly")
    expect(form.locator(".auto-next li")).to_have_count(5)
    form.get_by_role("radio", name="Look and report only").check()

    form.get_by_role("button", name="Try it").press("Enter")
    answered(page, "Still nothing.")
    expect(page.locator(".turn.is-user")).to_have_count(1)
    expect(page.locator(".turn.is-user")).to_contain_text("Fetch NBA players")
    assert site.rest("GET", "/api/automations")["automations"] == []
    press(page.locator("#panel-chat"), "Back to the automation")
    expect(form.get_by_label("Name", exact=True)).to_have_value("Weekly look")
    expect(form.locator("#auto-when")).to_have_value("weekly")
    expect(form.get_by_role("radio", name="Look and report only")).to_be_checked()
    expect(chips).to_have_count(2)
    press(form, "Make it")
    expect(page.locator("article.auto")).to_have_count(1)
    stored = blocks_of(site)
    assert [one["type"] for one in stored] == ["USE", "CREATE"]
    assert stored[0]["period"] == DAYS

    page.get_by_role("button", name="Edit: Weekly look").click()
    expect(message).to_have_value("What changed?")
    chips.first.get_by_label("Period").select_option("dates")
    form.get_by_label("First day").fill("2026-01-05")
    form.get_by_label("Last day").fill("2026-01-02")
    expect(chips.first).to_have_class("block is-wrong")
    expect(chips.first).to_contain_text("before it begins")
    press(form, "Save")
    expect(form.get_by_role("alert")).to_contain_text("before it begins")
    form.get_by_label("Last day").fill("2026-01-06")
    chips.last.get_by_role("button").click()
    press(form, "Save")
    expect(form).to_have_count(0)
    (kept,) = blocks_of(site)
    assert [kept["period"][end][:10] for end in ("from", "to")] == ["2026-01-05", "2026-01-07"]
    trouble.forgive("422")  # what was wrong in the form


PLACE = {"nodeKey": "root", "posX": 5, "posY": 6}
MOVE = {"type": "move_node", "payload": PLACE}
CODE = {
    "type": "update_node",
    "payload": {"nodeKey": "fetch-api", "changes": {"process": "next('0', 1)"}},
}


@pytest.fixture
def relaxed(tmp_path: Path, script: ScriptedProvider) -> Iterator[Site]:
    """A service whose settings want a person for code alone, answered by `script`."""
    with running_site(tmp_path, script=script, require_validation="code") as running:
        yield running


def test_a_card_says_who_wants_a_person_and_what_to_know(
    relaxed: Site, script: ScriptedProvider, open_page: OpenPage
) -> None:
    both = {"actions": [MOVE, CODE], "reason": "<b>tidier</b>", "askFirst": True}
    script.play(Says(calls=[call("propose_batch", both)]))
    page = open_page(relaxed)
    ask(page, "Tidy up")
    waiting = card(page, "pending")
    expect(waiting.locator(".card-parts li")).to_have_count(2)
    expect(waiting.locator(".card-parts li").first).to_contain_text("(the assistant)")
    expect(waiting.locator(".card-parts li").last).to_contain_text(
        "(settings: code; the assistant)"
    )
    expect(waiting.locator(".card-warning")).to_contain_text("It changes code that runs")
    expect(waiting.locator("p.card-asked")).to_contain_text("A person decides")


def test_what_was_applied_by_policy_is_shown_as_that(
    relaxed: Site, script: ScriptedProvider, open_page: OpenPage
) -> None:
    script.play(Says(calls=[call("propose_move_node", {**PLACE, "reason": "tidier"})]), "Moved.")
    page = open_page(relaxed)
    ask(page, "Move it")
    answered(page, "Moved.")
    page = open_page(relaxed, panel="review")
    page.get_by_role("button", name="Decided").click()
    expect(card(page, "applied", "review")).to_contain_text("Applied by policy")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Site]:
    """A service with sign-in, whose settings want a person for code alone."""
    with running_site(
        tmp_path, graph=False, auth_secret=SECRET, require_validation="code"
    ) as running:
        running.import_graph(token=token(role="admin"))
        yield running


def test_a_reviewer_sets_the_graph_and_a_node_type_an_admin_also_the_workspace(
    place: Site, open_page: OpenPage, contexts: Contexts
) -> None:
    key = key_of(place)
    editor = open_page(place, key, panel="review", context=signed_in(contexts, "ed", "editor"))
    expect(editor.get_by_role("button", name="Who must be asked")).to_have_count(0)

    page = open_page(place, key, panel="review", context=signed_in(contexts, "rev", "reviewer"))
    page.get_by_role("button", name="Who must be asked").press("Enter")
    dialog = page.get_by_role("dialog")
    settings = dialog.get_by_role("group", name="Settings of the service")
    expect(settings.get_by_label("Code")).to_be_checked()
    expect(settings.get_by_label("Code")).to_be_disabled()
    expect(dialog.get_by_role("group", name="Workspace").get_by_label("Code")).to_be_disabled()
    dialog.get_by_role("group", name="Graph").get_by_label("Deletion").press("Space")
    dialog.get_by_label("Add a node type").select_option("api-call")
    page.keyboard.press("Space")  # its first class has the focus
    press(dialog, "Save")
    expect(dialog).to_have_count(0)
    found = place.rest("GET", f"/api/policy?graphKey={key}", token=token())
    assert (found["graph"], found["nodeTypes"]) == (["delete"], {"api-call": ["layout"]})

    page = open_page(place, key, panel="review", context=signed_in(contexts, "ada", "admin"))
    page.get_by_role("button", name="Who must be asked").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("group", name="Node type").get_by_label("Layout")).to_be_checked()
    page.get_by_role("group", name="Graph").get_by_label("Deletion").uncheck()
    page.get_by_role("group", name="Workspace").get_by_label("Structure").check()
    press(page.get_by_role("dialog"), "Save")
    expect(page.get_by_role("dialog")).to_have_count(0)
    found = place.rest("GET", f"/api/policy?graphKey={key}", token=token())
    assert (found["workspace"], found["graph"]) == (["structure"], [])
