"""The page at a server that does not hold the graph: what it shows is true, and comes to life when it can."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.e2e.conftest import OpenPage
from tests.e2e.site import Site, running_site
from tests.e2e.talk import answered, ask, node, release
from tests.e2e.test_live import drag
from tests.support.scripted_provider import Says, ScriptedProvider


@pytest.fixture
def other(tmp_path: Path, site: Site, script: ScriptedProvider) -> Iterator[Site]:
    """A second service on the database of `site`, answered by the same script."""
    with running_site(tmp_path, script=script, graph=False) as running:
        yield running


def test_a_graph_that_another_server_edits_is_shown_as_read_only_until_it_is_free(
    site: Site, other: Site, open_page: OpenPage
) -> None:
    owner = open_page(site)
    page = open_page(other)
    mark = page.locator(".connection")
    expect(mark).to_have_text("Read only here")
    expect(page.locator(".look-only")).to_contain_text("is being edited through another server")
    green = owner.locator(".connection .dot").evaluate("dot => getComputedStyle(dot).backgroundColor")
    assert mark.locator(".dot").evaluate("dot => getComputedStyle(dot).backgroundColor") != green
    drag(page, "root", 60, 0)
    expect(page.locator(".toast")).to_contain_text("For now you can only view it here")

    drag(owner, "root", 60, 0)
    owner.get_by_label("Save now").click()
    owner.wait_for_selector(".save-mark.saved")
    moved = site.node("root")
    place = f"matrix(1, 0, 0, 1, {moved['posX']}, {moved['posY']})"
    expect(node(page, "root")).to_have_css("transform", place)

    owner.context.close()
    site.stop()
    page.get_by_role("button", name="Try to edit now").click()
    expect(mark).to_have_text("Live")
    expect(page.locator(".look-only")).to_be_hidden()
    drag(page, "root", 60, 0)
    page.wait_for_selector(".save-mark.unsaved")


def test_a_turn_at_another_server_is_shown_when_it_has_ended(
    site: Site, other: Site, script: ScriptedProvider, open_page: OpenPage
) -> None:
    held = asyncio.Event()
    script.play("One.", Says(text="Two.", held=held))
    first = open_page(site)
    ask(first, "Hello?")
    answered(first, "One.")
    second = open_page(other, panel="threads")
    second.locator(".thread").first.click()
    answered(second, "One.")
    ask(first, "And then?")
    expect(second.locator(".turn.is-user").last).to_have_text("And then?")
    expect(second.locator(".turn-note")).to_contain_text("is being answered elsewhere")
    release(site, held)
    answered(second, "Two.")
    expect(second.locator(".turn-note")).to_have_count(0)
