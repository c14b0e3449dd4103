"""The API's pages: a developer comes from the page's help, sends an example, and reads a message's schema."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.conftest import OpenPage, Trouble
from tests.e2e.site import Site


@pytest.mark.parametrize(("theme", "width"), [("dark", 1280), ("light", 390)])
def test_a_developer_tries_the_api_from_its_pages(
    offline_site: Site, open_page: OpenPage, trouble: Trouble, theme: str, width: int
) -> None:
    page = open_page(offline_site)
    page.keyboard.press("?")
    with page.context.expect_page() as opened:
        page.get_by_role("link", name="API for programs").click()
    docs = opened.value
    trouble.watch(docs)
    docs.emulate_media(color_scheme="dark" if theme == "dark" else "light")
    docs.set_viewport_size({"width": width, "height": 800})
    elsewhere: list[str] = []
    docs.on("request", lambda sent: elsewhere.append(sent.url) if offline_site.url not in sent.url else None)
    docs.reload()
    docs.locator(".opblock-summary-control", has_text="/api/ai/chat").click()
    docs.get_by_role("button", name="Try it out").click()
    docs.get_by_role("button", name="Execute").click()
    expect(docs.locator(".live-responses-table .response-col_status", has_text="200")).to_be_visible()
    message = docs.locator("#websocket details", has_text="ai:complete").first
    message.locator("summary").click()
    expect(message.locator("pre")).to_contain_text('"fullText"')
    assert [url for url in elsewhere if not url.startswith(("data:", "blob:"))] == []
    assert _background(docs) == ("rgb(28, 32, 34)" if theme == "dark" else "rgb(250, 250, 250)")
    assert docs.evaluate("document.documentElement.scrollWidth") <= width


def _background(docs: Page) -> str:
    return docs.evaluate("getComputedStyle(document.body).backgroundColor")
