"""Addresses: they bring back what was shown, in a graph that is open, without a graph, and
after a reload; Back closes what was opened last.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.conftest import OpenPage
from tests.e2e.site import GRAPH, Site
from tests.e2e.talk import answered, ask, node, press

SELECTED = re.compile(r"\bselected\b")
NIGHTLY = {"graphKey": GRAPH, "name": "Nightly", "message": "Check the graph", "cron": "0 2 * * *"}


@pytest.fixture
def run_id(offline_site: Site) -> str:
    """The run of an automation."""
    automation: dict[str, Any] = offline_site.rest("POST", "/api/automations", json=NIGHTLY)
    started = offline_site.rest("POST", f"/api/automations/{automation['id']}/run")
    return str(started["sessionId"])


def run_view(page: Page) -> Any:
    return page.locator("#panel-automations .auto-run-view h2")


def open_run(page: Page, run_id: str) -> None:
    page.get_by_role("button", name="Runs: Nightly").click()
    page.locator("article.auto .auto-run").first.click()
    expect(run_view(page)).to_have_text("Nightly")
    page.wait_for_url(f"**run={quote(run_id, safe='')}**")


def test_an_address_opens_a_run_without_a_graph_in_an_open_graph_and_again_after_a_reload(
    offline_site: Site, open_page: OpenPage, run_id: str
) -> None:
    page = open_page(offline_site, None)
    page.goto(f"{offline_site.url}#run={quote(run_id, safe='')}")
    expect(run_view(page)).to_have_text("Nightly")
    page.reload()
    expect(run_view(page)).to_have_text("Nightly")
    expect(page.locator("main")).to_have_attribute("data-state", "home")
    page.go_back()
    expect(page.locator("#side")).to_be_hidden()

    page = open_page(offline_site)
    page.evaluate(f"location.hash = '#graph={GRAPH}&run={quote(run_id, safe='')}'")
    expect(run_view(page)).to_have_text("Nightly")
    page.reload()
    expect(run_view(page)).to_have_text("Nightly")
    expect(node(page, "fetch-api")).to_be_visible()


def test_back_closes_the_run_then_the_panel_and_then_the_graph(
    offline_site: Site, open_page: OpenPage, run_id: str
) -> None:
    page = open_page(offline_site, None)
    page.get_by_role("button", name="NBA Stats Pipeline").first.click()
    page.locator("#tab-automations").click()
    open_run(page, run_id)
    page.get_by_role("button", name="Back to the automations").click()
    page.get_by_role("button", name="Runs: Nightly").click()  # what the button closed is no entry
    open_run(page, run_id)
    page.go_back()
    expect(page.locator("article.auto")).to_be_visible()
    page.go_back()
    expect(page.locator("#tab-chat")).to_have_attribute("aria-selected", "true")
    expect(page.locator("main")).to_have_attribute("data-state", "ready")
    page.go_back()
    expect(page.locator("main")).to_have_attribute("data-state", "home")
    page.go_forward()
    expect(page.locator("main")).to_have_attribute("data-state", "ready")


def test_a_selected_node_and_a_conversation_are_in_the_address_and_come_back(
    offline_site: Site, open_page: OpenPage
) -> None:
    page = open_page(offline_site)
    ask(page, "What is connected to fetch-api?")
    answered(page, "fetch")
    node(page, "fetch-api").click()
    expect(node(page, "fetch-api")).to_have_class(SELECTED)
    page.wait_for_url("**node=fetch-api**")
    address = page.url
    assert "thread=" in address
    other = open_page(offline_site)
    expect(other.locator(".turn.is-assistant")).to_have_count(0)
    other.evaluate("(hash) => (location.hash = hash)", address.partition("#")[2])
    answered(other, "fetch")
    expect(node(other, "fetch-api")).to_have_class(SELECTED)
    other.reload()
    answered(other, "fetch")
    expect(node(other, "fetch-api")).to_have_class(SELECTED)
    press(other, "New conversation")
    expect(other.locator(".turn.is-assistant")).to_have_count(0)
    expect(other).not_to_have_url(re.compile("thread="))
