"""A block of a message is chosen, shown and sent."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.e2e.conftest import OpenPage
from tests.e2e.site import Site
from tests.e2e.talk import answered
from tests.support.scripted_provider import ScriptedProvider


def test_a_block_is_chosen_by_keys_shown_with_its_tokens_and_sent_with_the_message(
    site: Site, script: ScriptedProvider, open_page: OpenPage
) -> None:
    script.play("It fetches the players.")
    page = open_page(site)
    field = page.locator("#composer")
    field.press_sequentially("a@b @")
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("searchbox").fill("use fetch nba")
    page.keyboard.press("Enter")
    block = page.locator(".blocks .block")
    expect(block).to_contain_text("tokens")
    expect(block).to_contain_text("Fetch NBA players")
    expect(field).to_be_focused()
    page.keyboard.type("what is it? @")
    page.keyboard.press("Escape")
    expect(field).to_have_value("a@b what is it? @")
    field.press("Enter")
    answered(page, "It fetches the players.")
    expect(block).to_have_count(0)
    said = page.locator(".turn.is-user")
    shown = said.inner_text()
    assert shown.startswith("a@b [")
    page.reload()
    expect(said).to_have_text(shown)
