"""Adding a node by hand: from the palette, by keyboard and by toolbar, seen by all and taken back."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.e2e.conftest import OpenPage
from tests.e2e.site import GRAPH, Site
from tests.e2e.talk import answered, node, seen


def test_a_node_is_added_by_keyboard_where_one_looks_and_taken_back(site: Site, open_page: OpenPage) -> None:
    page = open_page(site)
    other = open_page(site)
    page.locator(".stage").focus()
    page.keyboard.press("n")
    field = page.get_by_role("searchbox", name="Find a type")
    expect(field).to_be_focused()
    field.fill("api")
    field.press("Enter")
    made = page.locator(".node.selected")
    expect(made).to_have_count(1)
    expect(made).to_contain_text("API Call")
    expect(made).to_be_focused()
    seen(made)
    key = made.get_attribute("data-key")
    assert key
    stored = site.node(key)
    assert (stored["type"], stored["sheet"], stored["graphKey"]) == ("api-call", "0", GRAPH)
    assert set(stored["handles"]) == {"L", "R"}
    expect(other.locator(f".node[data-key='{key}']")).to_be_visible()
    page.keyboard.press("Control+z")
    expect(page.locator(f".node[data-key='{key}']")).to_have_count(0)
    expect(other.locator(f".node[data-key='{key}']")).to_have_count(0)


def test_two_nodes_added_at_one_place_do_not_hide_each_other(site: Site, open_page: OpenPage) -> None:
    page = open_page(site, sheet="1")
    for count in (1, 2):
        page.get_by_role("button", name="Add a node").click()
        page.locator("dialog .palette-type", has_text="Logger").click()
        expect(page.locator(".node", has_text="Logger")).to_have_count(1 + count)
    places = page.evaluate(
        "() => [...document.querySelectorAll('.node')].map((node) => node.style.transform)"
    )
    assert len(set(places)) == len(places)


def test_what_is_selected_is_asked_about_by_enter_or_in_other_words(
    offline_site: Site, open_page: OpenPage
) -> None:
    page = open_page(offline_site)
    page.locator(".stage").focus()
    node(page, "fetch-api").click()
    node(page, "filter-active").click(modifiers=["Shift"])
    node(page, "fetch-api").click(button="right")
    page.get_by_role("menuitem", name="Ask about it").click()
    about = page.locator(".composer .block")
    expect(about).to_have_count(2)
    expect(about.first).to_contain_text("Fetch NBA players")
    about.last.get_by_role("button").click()
    expect(about).to_have_count(1)
    page.locator("#composer").press("Enter")
    answered(page, "Fetch NBA players")
    expect(node(page, "fetch-api")).to_have_class(re.compile(r"\blit\b"))
    node(page, "fetch-api").click(button="right")
    page.get_by_role("menuitem", name="Ask about it").click()
    expect(about).to_have_count(2)
    page.keyboard.type("What happens if this fails?")  # takes the place of the words that were there
    page.keyboard.press("Enter")
    answered(page, "Log fetch error")
    expect(page.locator(".turn.is-user")).to_have_count(2)
