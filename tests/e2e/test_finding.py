"""Everything is found from one field by keyboard, and a conversation gets a title, a file
and a link.
"""

from __future__ import annotations

import re
from pathlib import Path

from playwright.sync_api import Page, Route, expect

from tests.e2e.conftest import OpenPage
from tests.e2e.graphs import large_graph
from tests.e2e.site import GRAPH, Site
from tests.e2e.talk import CHANGE, HOSTILE, answered, card, node, press, proposes, seen
from tests.e2e.test_review import proposed
from tests.support.scripted_provider import ScriptedProvider


def test_everything_is_found_by_keyboard_and_conversations_are_renamed_linked_and_exported(
    site: Site, script: ScriptedProvider, open_page: OpenPage
) -> None:
    script.play("The zebra.", proposes(CHANGE))
    site.import_graph(large_graph("large", 40), "large")
    site.rest("POST", "/api/ai/chat", json={"graphKey": GRAPH, "message": "What is striped?"})
    proposed(site)
    page = open_page(site)
    page.locator("#composer").focus()

    def found(words: str) -> None:
        page.keyboard.press("Control+k")
        expect(page.get_by_label("Graphs, nodes, conversations")).to_be_focused()
        page.keyboard.type(words)
        expect(page.locator("dialog [role=status]")).to_contain_text("found")
        page.keyboard.press("Enter")

    found("Step 17")
    expect(node(page, "n17")).to_be_visible()
    found("change level")
    expect(card(page, "pending", "review")).to_be_focused()
    expect(page).to_have_url(re.compile(f"graph={GRAPH}"))
    found("zebra")
    expect(page.locator("#panel-chat .log")).to_contain_text("The zebra.")
    page.locator("#tab-threads").click()
    page.get_by_label("Search conversations").fill("zebra")
    expect(page.locator(".thread")).to_have_count(1)
    page.locator("#panel-threads .more-menu summary").click()
    press(page.locator("#panel-threads .more-menu[open]"), "Rename…")
    page.get_by_label("Title", exact=True).fill(HOSTILE[:80])
    page.keyboard.press("Enter")
    expect(page.locator(".thread-title")).to_contain_text("<img src=x")
    assert page.locator("#side img").count() == 0
    page.locator("#panel-threads .more-menu summary").click()
    with page.expect_download() as download:
        press(page.locator("#panel-threads .more-menu[open]"), "Export")
    assert "The zebra." in Path(download.value.path()).read_text()
    thread = site.rest("POST", "/api/ai/threads", json={"limit": 10})["threads"][-1]["threadId"]
    page.goto(f"{site.url}#graph={GRAPH}&panel=chat&thread={thread}")
    page.reload()
    expect(page.locator("#panel-chat .log")).to_contain_text("The zebra.")


def test_what_depends_on_a_node_is_shown_replaced_everywhere_and_undone(page: Page) -> None:
    page.locator('.node[data-key="fetch-api"]').dblclick()
    page.get_by_role("button", name="What depends on this").click()
    dialog = page.get_by_role("dialog", name="What depends on this")
    value = dialog.locator("li button.link").first
    expect(value).to_contain_text("http")
    value.click()
    expect(dialog).to_contain_text("refers to it")
    old = dialog.get_by_role("searchbox").input_value()
    dialog.get_by_role("textbox", name="New value").fill("https://api.example.com/v9")
    dialog.get_by_role("button", name="Replace everywhere").click()
    dialog.locator("details summary").first.click()
    expect(dialog.locator("ins").first).to_contain_text("https://api.example.com/v9")
    dialog.get_by_role("button", name="Approve the chosen").click()
    expect(dialog).to_contain_text("applied")
    dialog.get_by_role("button", name="Undo all").click()
    expect(dialog).to_contain_text("undone")
    dialog.get_by_role("searchbox").fill(old)
    dialog.get_by_role("searchbox").press("Enter")
    expect(dialog).to_contain_text("refers to it")
    dialog.get_by_role("searchbox").fill("Which graphs log errors?")
    dialog.get_by_role("button", name="Ask").click()
    expect(dialog.locator(".markdown")).to_contain_text("Across all graphs")


def test_a_node_is_added_by_keyboard_where_one_looks_and_taken_back(
    site: Site, open_page: OpenPage
) -> None:
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


def test_two_nodes_added_at_one_place_do_not_hide_each_other(
    site: Site, open_page: OpenPage
) -> None:
    page = open_page(site, sheet="1")
    for count in (1, 2):
        page.get_by_role("button", name="Add a node").click()
        page.locator("dialog .palette-type", has_text="Logger").click()
        expect(page.locator(".node", has_text="Logger")).to_have_count(1 + count)
    places = page.evaluate(
        "() => [...document.querySelectorAll('.node')].map((node) => node.style.transform)"
    )
    assert len(set(places)) == len(places)


def test_what_is_selected_is_asked_about_by_enter_or_in_other_words(page: Page) -> None:
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
    # takes the place of the words that were there
    page.keyboard.type("What happens if this fails?")
    page.keyboard.press("Enter")
    answered(page, "Log fetch error")
    expect(page.locator(".turn.is-user")).to_have_count(2)


def test_a_late_list_of_one_graph_does_not_replace_that_of_all(
    site: Site, script: ScriptedProvider, open_page: OpenPage
) -> None:
    script.play("An answer.")
    site.rest("POST", "/api/ai/chat", json={"graphKey": GRAPH, "message": "A question"})
    site.import_graph(large_graph("other", 3), "other")
    page = open_page(site, graph="other")
    held: list[Route] = []

    def hold(route: Route) -> None:
        if "graphKey" in route.request.post_data_json:
            held.append(route)
        else:
            route.continue_()

    page.route("**/api/ai/threads", hold)
    with page.expect_request("**/api/ai/threads"):
        page.locator("#tab-threads").click()
    page.locator("#panel-threads select").select_option("all")
    expect(page.locator(".thread")).to_have_count(1)
    with page.expect_response("**/api/ai/threads") as late:
        held[0].continue_()
    late.value.finished()
    page.evaluate("() => new Promise(requestAnimationFrame)")
    expect(page.locator(".thread")).to_have_count(1)
