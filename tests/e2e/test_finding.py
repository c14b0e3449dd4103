"""Everything is found from one field by keyboard, and a conversation gets a title, a file and a link."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import expect

from tests.e2e.conftest import OpenPage
from tests.e2e.graphs import large_graph
from tests.e2e.site import GRAPH, Site
from tests.e2e.talk import CHANGE, HOSTILE, card, node, press, proposes
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
    assert f"graph={GRAPH}" in page.url
    found("zebra")
    expect(page.locator("#panel-chat .log")).to_contain_text("The zebra.")
    page.locator("#tab-threads").click()
    page.get_by_label("Search conversations").fill("zebra")
    expect(page.locator(".thread")).to_have_count(1)
    page.locator(".thread-menu summary").click()
    press(page.locator(".thread-menu[open]"), "Rename…")
    page.get_by_label("Title", exact=True).fill(HOSTILE[:80])
    page.keyboard.press("Enter")
    expect(page.locator(".thread-title")).to_contain_text("<img src=x")
    assert page.locator("#side img").count() == 0
    page.locator(".thread-menu summary").click()
    with page.expect_download() as download:
        press(page.locator(".thread-menu[open]"), "Export")
    assert "The zebra." in Path(download.value.path()).read_text()
    thread = site.rest("POST", "/api/ai/threads", json={"limit": 10})["threads"][-1]["threadId"]
    page.goto(f"{site.url}#graph={GRAPH}&panel=chat&thread={thread}")
    page.reload()
    expect(page.locator("#panel-chat .log")).to_contain_text("The zebra.")
