"""Adding a node by hand: from the palette, by keyboard and by toolbar, seen by all and taken back."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.e2e.conftest import OpenPage
from tests.e2e.site import GRAPH, Site
from tests.e2e.talk import node, seen


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


def test_a_question_about_a_node_is_put_into_the_message_and_not_sent(
    offline_site: Site, open_page: OpenPage
) -> None:
    page = open_page(offline_site)
    node(page, "fetch-api").focus()
    page.keyboard.press("Enter")
    page.locator(".inspector").get_by_role("button", name="Ask about it").click()
    expect(page.locator("#composer")).to_have_value("What does {{node:fetch-api}} do?")
    expect(page.locator(".turn")).to_have_count(0)
