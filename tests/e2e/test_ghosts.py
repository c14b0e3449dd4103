"""Previews of proposals on the canvas: shown at once, switched, hidden, and always where they are seen."""

from __future__ import annotations

from playwright.sync_api import Locator, Page, expect

from tests.e2e.conftest import OpenPage
from tests.e2e.site import Site
from tests.e2e.talk import CHANGE, RENAME, answered, ask, card, press, proposes, seen
from tests.support.scripted_provider import Says, ScriptedProvider, call

FAR_AWAY = {
    "type_key": "log-node",
    "sheet": "0",
    "pos_x": 9000,
    "pos_y": 7000,
    "data": {"name": "Far away"},
    "reason": "it was asked for",
}


def ghost(page: Page, key: str) -> Locator:
    return page.locator(f".ghost[data-key='{key}']")


def hide_chip(page: Page) -> Locator:
    return page.locator(".legend").get_by_role("button", name="Hide", exact=True)


def test_a_proposal_is_drawn_when_it_arrives_and_goes_when_it_is_decided(
    site: Site, script: ScriptedProvider, open_page: OpenPage
) -> None:
    script.play(proposes(CHANGE), "Done.")
    page = open_page(site)
    ask(page, "Make it a warning")
    expect(ghost(page, "error-handler")).to_be_visible()
    expect(page.locator(".legend")).to_contain_text("Preview:")
    expect(page.locator(".legend")).to_contain_text("Log fetch error")
    press(card(page, "pending"), "Approve")
    expect(page.locator(".ghost")).to_have_count(0)
    expect(page.locator(".legend")).to_be_hidden()
    answered(page, "Done.")


def test_the_newest_is_drawn_and_another_cards_focus_switches(
    site: Site, script: ScriptedProvider, open_page: OpenPage
) -> None:
    script.play(proposes(CHANGE, RENAME))
    page = open_page(site)
    ask(page, "Do both")
    expect(ghost(page, "fetch-api")).to_be_visible()
    expect(ghost(page, "error-handler")).to_have_count(0)
    first = card(page, "pending").first
    first.focus()
    expect(ghost(page, "error-handler")).to_be_visible()
    expect(ghost(page, "fetch-api")).to_have_count(0)
    page.locator("#composer").focus()
    expect(ghost(page, "fetch-api")).to_be_visible()
    press(first, "Show on canvas")
    page.locator("#composer").focus()
    page.mouse.move(300, 400)
    expect(ghost(page, "error-handler")).to_be_visible()


def test_what_a_person_hides_stays_hidden_for_that_card_also_after_a_reload(
    site: Site, script: ScriptedProvider, open_page: OpenPage
) -> None:
    script.play(proposes(CHANGE))
    page = open_page(site)
    ask(page, "Make it a warning")
    expect(ghost(page, "error-handler")).to_be_visible()
    hide_chip(page).click()
    expect(page.locator(".ghost")).to_have_count(0)
    card(page, "pending").hover()
    expect(card(page, "pending").get_by_role("button", name="Show on canvas")).to_be_visible()
    expect(page.locator(".ghost")).to_have_count(0)
    page.reload()
    page.wait_for_selector("main[data-state=ready]")
    expect(card(page, "pending")).to_be_visible()
    expect(page.locator(".ghost")).to_have_count(0)
    press(card(page, "pending"), "Show on canvas")
    expect(ghost(page, "error-handler")).to_be_visible()
    page.locator(".stage").focus()
    page.keyboard.press("Escape")
    expect(page.locator(".ghost")).to_have_count(0)


def test_the_canvas_moves_to_ghosts_that_are_out_of_view(
    site: Site, script: ScriptedProvider, open_page: OpenPage
) -> None:
    script.play(Says(text="I propose this.", calls=[call("propose_create_node", FAR_AWAY)]))
    page = open_page(site, reduced_motion="reduce")
    ask(page, "Add a note")
    expect(page.locator(".ghost.added")).to_contain_text("Far away")
    seen(page.locator(".ghost.added"))
    page.locator(".stage").focus()
    page.keyboard.press("f")
    page.locator(".legend-title").click()
    seen(page.locator(".ghost.added"))


def test_on_a_narrow_screen_a_proposal_does_not_take_the_conversation_away(
    site: Site, script: ScriptedProvider, open_page: OpenPage
) -> None:
    script.play(Says(text="I propose this.", calls=[call("propose_create_node", FAR_AWAY)]))
    page = open_page(site, viewport={"width": 390, "height": 844})
    ask(page, "Add a note")
    expect(card(page, "pending")).to_be_visible()
    page.locator("#bottom").get_by_role("button", name="Canvas").click()
    seen(page.locator(".ghost.added"))
