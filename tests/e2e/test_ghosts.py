"""Previews of proposals on the canvas: shown at once, switched, hidden, and always where they are seen."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.e2e.conftest import OpenPage
from tests.e2e.site import Site, running_site
from tests.e2e.talk import CHANGE, RENAME, answered, ask, card, node, press, proposes, release, seen
from tests.e2e.test_live import drag
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
    page: Page, script: ScriptedProvider
) -> None:
    script.play(proposes(CHANGE), "Done.")
    ask(page, "Make it a warning")
    expect(ghost(page, "error-handler")).to_be_visible()
    expect(page.locator(".legend")).to_contain_text("Preview:")
    expect(page.locator(".legend")).to_contain_text("Log fetch error")
    press(card(page, "pending"), "Approve")
    expect(page.locator(".ghost")).to_have_count(0)
    expect(page.locator(".legend")).to_be_hidden()
    answered(page, "Done.")


def test_the_newest_is_drawn_and_another_cards_focus_switches(page: Page, script: ScriptedProvider) -> None:
    script.play(proposes(CHANGE, RENAME))
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
    page: Page, script: ScriptedProvider
) -> None:
    script.play(proposes(CHANGE))
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


@pytest.fixture
def other(tmp_path: Path, site: Site, script: ScriptedProvider) -> Iterator[Site]:
    """A second service on the database of `site`, answered by the same script."""
    with running_site(tmp_path, script=script, graph=False) as running:
        yield running


def test_a_graph_that_another_server_edits_is_shown_as_read_only_until_it_is_free(
    site: Site, other: Site, open_page: OpenPage
) -> None:
    owner = open_page(site)
    page = open_page(other)
    mark = page.locator(".connection")
    expect(mark).to_have_text("Read only here")
    expect(page.locator(".look-only")).to_contain_text("is being edited through another server")
    green = owner.locator(".connection .dot").evaluate("dot => getComputedStyle(dot).backgroundColor")
    assert mark.locator(".dot").evaluate("dot => getComputedStyle(dot).backgroundColor") != green
    drag(page, "root", 60, 0)
    expect(page.locator(".toast")).to_contain_text("For now you can only view it here")

    drag(owner, "root", 60, 0)
    owner.get_by_label("Save now").click()
    owner.wait_for_selector(".save-mark.saved")
    moved = site.node("root")
    place = f"matrix(1, 0, 0, 1, {moved['posX']}, {moved['posY']})"
    expect(node(page, "root")).to_have_css("transform", place)

    owner.context.close()
    site.stop()
    page.get_by_role("button", name="Try to edit now").click()
    expect(mark).to_have_text("Live")
    expect(page.locator(".look-only")).to_be_hidden()
    drag(page, "root", 60, 0)
    page.wait_for_selector(".save-mark.unsaved")


def test_a_turn_at_another_server_is_shown_when_it_has_ended(
    site: Site, other: Site, script: ScriptedProvider, open_page: OpenPage
) -> None:
    held = asyncio.Event()
    script.play("One.", Says(text="Two.", held=held))
    first = open_page(site)
    ask(first, "Hello?")
    answered(first, "One.")
    second = open_page(other, panel="threads")
    second.locator(".thread").first.click()
    answered(second, "One.")
    ask(first, "And then?")
    expect(second.locator(".turn.is-user").last).to_have_text("And then?")
    expect(second.locator(".turn-note")).to_contain_text("is being answered elsewhere")
    release(site, held)
    answered(second, "Two.")
    expect(second.locator(".turn-note")).to_have_count(0)
