"""Previews of proposals on the canvas: shown at once, switched, hidden, and always where
they are seen.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.e2e.conftest import OpenPage
from tests.e2e.site import Site, running_site
from tests.e2e.talk import (
    CHANGE,
    RENAME,
    answered,
    ask,
    card,
    node,
    press,
    press_more,
    proposes,
    release,
    seen,
)
from tests.e2e.test_live import drag
from tests.e2e.test_review import proposed
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


def test_the_newest_is_drawn_and_another_cards_focus_switches(
    page: Page, script: ScriptedProvider
) -> None:
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
    press_more(first, "Show on canvas")
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
    more = card(page, "pending").locator(".more-menu > summary")
    more.click()
    expect(card(page, "pending").get_by_role("button", name="Show on canvas")).to_be_visible()
    page.keyboard.press("Escape")
    expect(more).to_be_focused()
    expect(page.locator(".ghost")).to_have_count(0)
    page.reload()
    page.wait_for_selector("main[data-state=ready]")
    expect(card(page, "pending")).to_be_visible()
    expect(page.locator(".ghost")).to_have_count(0)
    press_more(card(page, "pending"), "Show on canvas")
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
    green = owner.locator(".connection .dot").evaluate(
        "dot => getComputedStyle(dot).backgroundColor"
    )
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


def test_review_opens_on_the_card_on_top_and_draws_that_one(
    site: Site, script: ScriptedProvider, open_page: OpenPage
) -> None:
    """By its tab, by its key and by its address; along the tabs by arrow keys the
    focus stays there.
    """
    script.play(proposes(RENAME), proposes(CHANGE))
    first = proposed(site)
    _ = proposed(site)
    page = open_page(site, panel="review")
    top = page.locator(".review-row").first
    legend = page.locator(".legend")
    for enter in ("address", "tab", "key"):
        if enter == "tab":
            page.locator("#tab-chat").click()
            page.locator("#tab-review").click()
        elif enter == "key":
            page.locator("#tab-chat").click()
            page.keyboard.press("Alt+2")
        expect(top).to_be_focused()
        expect(top).to_have_attribute("data-approval", first)
        expect(legend).to_contain_text("Get the players")
    page.locator("#tab-chat").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#tab-review")).to_be_focused()
    expect(legend).to_contain_text("Get the players")


def test_deleting_a_note_does_not_look_like_deleting_what_lies_in_it(
    site: Site, script: ScriptedProvider, open_page: OpenPage
) -> None:
    note: dict[str, Any] = {
        "_key": "note",
        "graphKey": "notes",
        "type": "note",
        "sheet": "0",
        "posX": 0,
        "posY": 0,
        "size": {"width": 600, "height": 400},
        "data": {"text": "What is inside"},
    }
    inside = {
        **note,
        "_key": "inside",
        "type": "starter",
        "posX": 200,
        "posY": 150,
        "data": {"name": "In"},
    }
    inside["size"] = {"width": 220, "height": 100}
    graph = {"_key": "notes", "name": "Notes", "workspace": "default", "sheetsList": {"0": "main"}}
    site.import_graph(
        {"graph": graph, "nodes": [note, inside], "edges": [], "configs": []}, "notes"
    )
    deletes = call("propose_delete_node", {"node_key": "note", "reason": "it is old"})
    script.play(Says(text="I propose this.", calls=[deletes]))
    proposed(site, graph="notes")
    page = open_page(site, "notes", panel="review")
    ghost = page.locator(".ghost.removed")
    expect(ghost).to_contain_text("what lies in it stays")
    assert ghost.evaluate("e => getComputedStyle(e).backgroundImage") == "none"
    assert ghost.evaluate("e => getComputedStyle(e).backgroundColor") == "rgba(0, 0, 0, 0)"
