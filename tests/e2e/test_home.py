"""The list of many graphs: dense, in an order, in folders, found by words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.e2e.conftest import OpenPage
from tests.e2e.site import GRAPH, Site, running_site
from tests.e2e.test_connected import has_no_violation
from tests.e2e.test_names import GRACE, signed_in
from tests.support.service import SECRET

COUNT = 20
IN_VIEW = (
    """(cards) => cards.filter((one) => one.getBoundingClientRect().bottom <= innerHeight).length"""
)


@pytest.fixture
def many(offline_site: Site) -> Site:
    """Graphs G00, G01, … and two in the folder Sales."""
    names = [f"G{number:02}" for number in range(COUNT)] + ["Sales / Orders", "Sales / Invoices"]
    for name in names:
        offline_site.rest("POST", "/api/graphs", json={"name": name})
    return offline_site


def names_of(page: Page) -> list[str]:
    return page.locator(".graph-card .graph-name").all_inner_texts()


def test_many_graphs_are_seen_at_once_ordered_foldered_and_found(
    many: Site, open_page: OpenPage
) -> None:
    page = open_page(many, None)
    expect(page.locator(".graph-card")).to_have_count(COUNT + 3)
    assert page.locator(".graph-card").evaluate_all(IN_VIEW) >= 12
    expect(page.locator("h2.graph-folder")).to_have_text(["Sales"])
    page.get_by_label("Order of the graphs").select_option("name")
    assert names_of(page)[:2] == ["G00", "G01"]
    assert names_of(page)[-2:] == ["Sales / Invoices", "Sales / Orders"]
    page.get_by_label("Order of the graphs").select_option("nodes")
    assert names_of(page)[0] == "NBA Stats Pipeline"
    page.reload()
    expect(page.locator(".graph-card").first).to_contain_text("NBA Stats Pipeline")
    has_no_violation(page)
    page.get_by_label("Find a graph").fill("sales")
    expect(page.locator(".graph-card")).to_have_count(2)
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate("document.querySelector('.home').scrollWidth") <= 390


@pytest.mark.parametrize(
    ("locale", "open_it", "import_it"),
    [("en-US", "Open a sample", "Import…"), ("fr-FR", "Ouvrir un exemple", "Importer…")],
)
def test_an_empty_workspace_leads_to_a_sample_and_to_an_import_by_keyboard(
    tmp_path: Path, open_page: OpenPage, locale: str, open_it: str, import_it: str
) -> None:
    with running_site(tmp_path, graph=False) as site:
        page = open_page(site, None, locale=locale)
        expect(page.get_by_role("button", name=open_it)).to_be_visible()
        has_no_violation(page)
        focused = page.locator(":focus")
        page.keyboard.press("Tab")
        while import_it not in focused.inner_text():
            page.keyboard.press("Tab")
        with page.expect_file_chooser():
            page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        expect(focused).to_have_text(open_it)
        page.keyboard.press("Enter")
        page.wait_for_selector("main[data-state=ready]")
        expect(page.locator(".crumb-now")).to_have_text("Order refund")
        assert len(site.rest("GET", "/api/graphs")["graphs"]) == 1
        page.close()


def test_a_workspace_whose_graphs_were_deleted_offers_a_sample_too(
    offline_site: Site, open_page: OpenPage
) -> None:
    offline_site.rest("DELETE", f"/api/graphs/{GRAPH}")
    page = open_page(offline_site, None)
    page.get_by_role("button", name="Open a sample").press("Enter")
    page.wait_for_selector("main[data-state=ready]")
    page.close()


def test_readers_of_an_empty_workspace_are_offered_nothing_that_they_may_not_do(
    tmp_path: Path, open_page: OpenPage, contexts: Callable[..., BrowserContext]
) -> None:
    with running_site(tmp_path, graph=False, auth_secret=SECRET) as site:
        context = signed_in(contexts, GRACE, "viewer")
        page = open_page(site, None, context=context)
        expect(page.locator(".notice")).to_contain_text("Editors can")
        expect(page.get_by_role("button", name="Open a sample")).to_have_count(0)
        expect(page.get_by_role("button", name="Import…")).to_have_count(0)
        page.close()
