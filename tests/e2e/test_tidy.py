"""Tidying a sheet: shown before it is done, done as one edit, undone by one step, for all editors."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.e2e.conftest import OpenPage
from tests.e2e.site import Site
from tests.e2e.talk import node

KEYS = ("root", "fetch-api", "error-handler")


def test_a_sheet_is_tidied_after_a_preview_and_undone_in_one_step(site: Site, open_page: OpenPage) -> None:
    page, other = open_page(site), open_page(site)

    def places() -> list[tuple[float, float]]:
        return [(site.node(key)["posX"], site.node(key)["posY"]) for key in KEYS]

    before = places()
    page.get_by_role("button", name="Tidy").click()
    bar = page.locator(".tidy-bar")
    expect(bar).to_contain_text("would stand in order")
    expect(page.locator(".ghost.moved").first).to_be_visible()
    page.keyboard.press("Escape")
    expect(bar).to_be_hidden()
    expect(page.locator(".ghost")).to_have_count(0)
    assert places() == before
    page.get_by_role("button", name="Tidy").click()
    expect(bar.get_by_role("button", name="Apply")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_text("Tidied.")).to_be_visible()
    after = places()
    assert after != before
    x, y = after[1]
    expect(node(other, KEYS[1])).to_have_css("transform", f"matrix(1, 0, 0, 1, {x:g}, {y:g})")
    page.get_by_role("button", name="Tidy").click()
    expect(page.get_by_text("Everything stands in order already.")).to_be_visible()
    page.locator(".stage").focus()
    page.keyboard.press("Control+z")
    expect(node(other, KEYS[1])).not_to_have_css("transform", f"matrix(1, 0, 0, 1, {x:g}, {y:g})")
    assert places() == before
