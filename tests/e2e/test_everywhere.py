"""All graphs at once: what depends on a node's reference, and a replacement proposed, approved and undone."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.e2e.conftest import OpenPage
from tests.e2e.site import Site


def test_what_depends_on_a_node_is_shown_replaced_everywhere_and_undone(
    offline_site: Site, open_page: OpenPage
) -> None:
    page = open_page(offline_site)
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
