"""A page that is open while the server is updated says so, and no typed text is lost."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from server import page_bundle
from tests.e2e.conftest import OpenPage, Trouble
from tests.e2e.site import Site
from tests.e2e.talk import press

SAID = "The program was updated"
BUILT = "() => document.documentElement.dataset.built"


@pytest.fixture
def newer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns the files of a newer version of the page, not served yet."""
    root = tmp_path / "newer"
    shutil.copytree(page_bundle.ROOT, root)
    with (root / "css" / "base.css").open("a", encoding="utf-8") as styles:
        styles.write(".newer { color: red; }\n")
    monkeypatch.setattr(page_bundle, "ROOT", page_bundle.ROOT)  # put back at the end
    return root


def said(page: Page) -> None:
    expect(page.locator(".toast", has_text=SAID)).to_have_count(1)


def test_a_page_that_is_open_across_an_update_says_so_and_brings_the_message_back(
    newer: Path, offline_site: Site, open_page: OpenPage, trouble: Trouble
) -> None:
    page = open_page(offline_site)
    before = page.evaluate(BUILT)
    page.get_by_role("textbox", name="Message").fill("What happens when")
    offline_site.stop()
    page.wait_for_selector(".connection.closed", state="attached")
    page_bundle.ROOT = newer
    offline_site.start()
    page.evaluate("() => dispatchEvent(new Event('online'))")
    said(page)
    with page.expect_navigation():
        page.get_by_role("button", name="Reload the page").press("Enter")
    page.wait_for_selector("html[data-ready=true]", state="attached")
    assert page.evaluate(BUILT) != before
    expect(page.get_by_role("textbox", name="Message")).to_have_value("What happens when")
    expect(page.locator(".toast")).to_have_count(0)
    page.reload()
    expect(page.get_by_role("textbox", name="Message")).to_have_value("What happens when")
    page.context.close()
    trouble.forgive("404", "WebSocket", "ERR_CONNECTION")


def test_a_part_that_is_gone_with_the_old_version_says_that_the_page_is_to_be_reloaded(
    newer: Path, offline_site: Site, open_page: OpenPage, trouble: Trouble
) -> None:
    page = open_page(offline_site, locale="fr-FR")
    page_bundle.ROOT = newer
    page.get_by_role("tab", name="Appels").click()
    expect(page.locator(".toast", has_text="Le programme a été mis à jour")).to_be_visible()
    page.context.close()
    trouble.forgive("404", "dynamically imported module", "messages: later")


def test_text_that_is_stored_nowhere_is_asked_about_before_the_page_is_reloaded(
    newer: Path, offline_site: Site, open_page: OpenPage, trouble: Trouble
) -> None:
    page = open_page(offline_site)
    page.locator(".node").first.dblclick()
    page.locator(".inspector .section-head", has_text="Data").get_by_role("button").click()
    field = page.locator(".inspector textarea")
    field.fill('{"name": "Written"}')
    page_bundle.ROOT = newer
    page.get_by_role("tab", name="Calls").click()
    said(page)
    press(page.locator(".toast", has_text=SAID), "Reload the page")
    dialog = page.get_by_role("dialog", name="Reload and give up what you wrote?")
    press(dialog, "Cancel")
    expect(field).to_have_value('{"name": "Written"}')
    said(page)
    page.context.close()
    trouble.forgive("404", "dynamically imported module", "messages: later")
