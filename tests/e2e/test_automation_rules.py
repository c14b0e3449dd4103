"""All automations paused with a reason, a run watched as it comes and run again for its time."""

from __future__ import annotations

import asyncio

import pytest
from playwright.sync_api import expect

from tests.e2e.conftest import OpenPage
from tests.e2e.site import GRAPH, Site
from tests.e2e.test_connected import has_no_violation
from tests.support.automations import finish
from tests.support.scripted_provider import Says, ScriptedProvider, call

WHY = "The model is being replaced"
SAID = "I look at what leads nowhere"


@pytest.fixture
def held() -> asyncio.Event:
    return asyncio.Event()


@pytest.fixture
def script(held: asyncio.Event) -> ScriptedProvider:
    looking = Says(text=SAID, calls=[call("check_graph")], held=held)
    return ScriptedProvider(looking, finish(), finish())


def test_a_run_is_watched_as_it_comes_run_again_and_all_are_paused_with_a_reason(
    site: Site, open_page: OpenPage, held: asyncio.Event
) -> None:
    draft = {"graphKey": GRAPH, "name": "Nightly", "message": "Check", "onlyIfChanged": False}
    site.rest("POST", "/api/automations", json=draft)
    page = open_page(site, panel="automations")
    panel = page.locator("#panel-automations")
    panel.get_by_role("button", name="Run now: Nightly").press("Enter")
    expect(panel.locator(".auto-live")).to_contain_text(SAID)

    async def release() -> None:
        held.set()

    site.run(release)
    expect(panel.locator(".auto-run-view .auto-three")).to_contain_text("as planned")
    expect(panel.locator(".auto-live")).to_be_empty()
    panel.get_by_role("button", name="Run again for that time").press("Enter")
    expect(panel.locator(".auto-run-top .card-meta time")).to_have_count(2)  # its own, and that
    expect(panel.locator(".auto-run-view .auto-three")).to_contain_text("as planned")
    panel.get_by_role("button", name="Back to the automations").click()

    panel.get_by_role("button", name="Pause all…").press("Enter")
    page.get_by_role("dialog").get_by_role("textbox").fill(WHY)
    page.keyboard.press("Enter")
    expect(panel.locator(".auto-all-paused")).to_contain_text(WHY)
    panel.get_by_role("button", name="Budget of a day…").press("Enter")
    page.get_by_label("Tokens a day").fill("5000")
    page.keyboard.press("Enter")
    expect(panel.locator(".auto-rules")).to_contain_text("of 5,000 tokens")
    has_no_violation(page)
    page.reload()
    expect(panel.locator(".auto-all-paused")).to_contain_text("paused by")
    panel.get_by_role("button", name="Resume all").press("Enter")
    expect(panel.locator(".auto-all-paused")).to_have_count(0)
