"""The form of an automation: what its message is about, over which period, and trying it first."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Locator, Page, expect

from tests.e2e.conftest import OpenPage, Trouble
from tests.e2e.site import Site
from tests.e2e.talk import answered, press
from tests.support.scripted_provider import ScriptedProvider

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
    site: Site, script: ScriptedProvider, open_page: OpenPage, trouble: Trouble
) -> None:
    script.play("Nothing changed there.", "Still nothing.")
    page = open_page(site)
    field = page.locator("#composer")
    add_block(page, field, "use fetch nba")
    page.locator("#panel-chat .block").get_by_label("Period").select_option("days7")
    field.press_sequentially("What changed?")
    field.press("Enter")
    answered(page, "Nothing changed there.")

    press(page.locator("#panel-chat"), "Save as automation")
    form = page.get_by_role("dialog")
    message, chips = form.locator("#auto-message"), form.locator(".block")
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
