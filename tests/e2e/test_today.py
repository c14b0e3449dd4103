"""The morning view: what happened since a person last looked, by keyboard, each line leads on."""

from __future__ import annotations

import time
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.e2e.conftest import OpenPage
from tests.e2e.site import GRAPH, PATIENCE_S, Site
from tests.e2e.test_connected import has_no_violation
from tests.support.automations import finish
from tests.support.scripted_provider import ScriptedProvider

FIRST = "- Node fetch-api has no error output\n- The log is never read by anybody"
SECOND = "- Node fetch-api has no error output\n- Two nodes have the same name"


@pytest.fixture
def script() -> ScriptedProvider:
    return ScriptedProvider(finish("findings", FIRST), finish("findings", SECOND))


def run(site: Site, automation: dict[str, Any]) -> None:
    """Runs an automation to its end."""
    started = site.rest("POST", f"/api/automations/{automation['id']}/run")["sessionId"]
    deadline = time.monotonic() + PATIENCE_S
    while site.rest("GET", f"/api/sessions/{started}")["phase"] != "completed":
        assert time.monotonic() < deadline, "the run did not end"
        time.sleep(0.1)


def test_what_happened_is_read_from_the_list_of_graphs_and_leads_to_the_run(
    site: Site, open_page: OpenPage
) -> None:
    draft = {"graphKey": GRAPH, "name": "Nightly", "message": "Check", "onlyIfChanged": False}
    automation = site.rest("POST", "/api/automations", json=draft)
    run(site, automation)
    run(site, automation)
    page = open_page(site, None)
    page.get_by_role("button", name="Today").first.press("Enter")
    panel = page.locator("#panel-today")
    row = panel.get_by_role("link", name="Nightly").first
    expect(row).to_contain_text("1 new · 1 the same · 1 gone")
    expect(panel.locator(".today-findings .is_new")).to_contain_text("Two nodes have the same name")
    expect(panel.locator(".today-findings .is_gone")).to_contain_text("The log is never read")
    has_no_violation(page)
    row.press("Enter")
    expect(page.locator("#panel-automations .auto-run-view h2")).to_have_text("Nightly")
    expect(page.locator("main")).to_have_attribute("data-state", "ready")
    page.go_back()
    expect(row).to_be_visible()
    expect(page.locator("main")).to_have_attribute("data-state", "home")
    panel.get_by_role("button", name="Seen").press("Enter")
    expect(row).to_contain_text("2 of 48 runs")  # what is left is what today has cost
    page.reload()
    expect(panel.locator(".today-findings")).to_have_count(0)
    expect(row).to_contain_text("2 of 48 runs")
