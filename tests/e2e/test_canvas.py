"""The canvas: opening, looking around, sheets."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.e2e.conftest import OpenPage
from tests.e2e.site import Site


def test_a_graph_opens_from_the_list_and_is_shown_whole(site: Site, open_page: OpenPage) -> None:
    page = open_page(site, None)
    page.get_by_role("button", name="NBA Stats Pipeline").first.click()
    expect(page.locator(".node")).to_have_count(7)
    assert "graph=testgraph001" in page.url
    stage = page.locator(".stage").bounding_box()
    assert stage
    for box in (node.bounding_box() for node in page.locator(".node").all()):
        assert box
        assert stage["x"] <= box["x"]
        assert box["x"] + box["width"] <= stage["x"] + stage["width"]
