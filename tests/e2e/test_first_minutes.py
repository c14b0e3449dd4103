"""What somebody new to the page looks for: a node, a file, what a change did, how to take it back."""

from __future__ import annotations

import json

from playwright.sync_api import expect

from tests.e2e.conftest import OpenPage
from tests.e2e.site import Site
from tests.e2e.talk import RENAME, answered, ask, card, node, press, proposes
from tests.support.scripted_provider import ScriptedProvider


def test_a_node_is_found_by_its_name_and_by_its_code_on_any_sheet(
    offline_site: Site, open_page: OpenPage
) -> None:
    page = open_page(offline_site)
    page.locator(".stage").focus()
    page.keyboard.press("Control+f")
    field = page.get_by_role("searchbox", name="Name, type, data or code")
    expect(field).to_be_focused()
    field.fill("sort points")
    dialog = page.get_by_role("dialog", name="Find a node")
    expect(dialog.locator("button.palette-type")).to_have_count(1)
    expect(dialog).to_contain_text("on data-processing")
    field.press("Enter")
    expect(page.locator(".node.selected")).to_have_attribute("data-key", "sort-stats")
    page.get_by_role("button", name="Find a node").click()
    field.fill("incoming.data;")
    expect(dialog.locator("button.palette-type").first).to_contain_text("Log fetch error")
    field.fill("<b>nothing of the kind")
    expect(dialog.get_by_role("status")).to_have_text("0 nodes")


def test_the_graph_that_is_open_is_exported_as_it_is(offline_site: Site, open_page: OpenPage) -> None:
    page = open_page(offline_site)
    with page.expect_download() as download:
        page.locator("header").get_by_label("Export JSON").click()
    document = json.loads(download.value.path().read_text(encoding="utf-8"))
    assert {one["_key"] for one in document["nodes"]} >= {"root", "sort-stats"}


def test_what_was_approved_is_marked_and_undo_says_where_it_is_taken_back(
    site: Site, script: ScriptedProvider, open_page: OpenPage
) -> None:
    script.play(proposes(RENAME), "Renamed.")
    page = open_page(site)
    ask(page, "Rename it")
    press(card(page, "pending"), "Approve")
    expect(page.locator(".node.done")).to_have_attribute("data-key", "fetch-api")
    answered(page, "Renamed.")
    expect(page.locator(".node.done")).to_have_count(0)
    page.locator(".stage").focus()
    page.keyboard.press("Control+z")
    page.locator(".toast").get_by_role("button", name="Approved changes").click()
    item = page.locator("#panel-review .history-item").first
    item.locator("summary").click()
    press(item, "Undo…")
    press(page.locator("dialog"), "Undo it")
    expect(node(page, "fetch-api")).to_contain_text("Fetch NBA players")


def test_an_empty_sheet_offers_the_first_node(offline_site: Site, open_page: OpenPage) -> None:
    document = json.loads(
        json.dumps({"graph": {"_key": "none", "name": "None", "sheetsList": {"0": "main"}}})
    )
    offline_site.import_graph({**document, "nodes": [], "edges": [], "configs": []}, "none")
    page = open_page(offline_site, "none")
    page.locator(".empty-sheet").get_by_role("button", name="Add a node").click()
    page.get_by_role("searchbox", name="Find a type").press("Enter")
    expect(page.locator(".node")).to_have_count(1)
    expect(page.locator(".empty-sheet")).to_be_hidden()
