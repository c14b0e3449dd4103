"""A second tab on the same conversation shows what the first one does there, as it happens."""

from __future__ import annotations

import asyncio

from playwright.sync_api import Page, expect

from tests.e2e.conftest import OpenPage
from tests.e2e.site import Site
from tests.e2e.talk import CHANGE, answered, ask, card, press, proposes, release
from tests.support.scripted_provider import Says, ScriptedProvider, call


def looking_on(site: Site, open_page: OpenPage) -> Page:
    """A second tab that shows the newest conversation."""
    page = open_page(site, panel="threads")
    page.locator(".thread").first.click()
    page.wait_for_selector(".turn.is-user")
    return page


def test_question_tools_text_and_cards_come_in_both_tabs(
    site: Site, script: ScriptedProvider, open_page: OpenPage
) -> None:
    held = asyncio.Event()
    looks = Says(text="Let me look.", calls=[call("search_nodes", {"query": "fetch"})])
    script.play("One.", looks, Says(text="Some **text**", held=held), proposes(CHANGE), "Changed.")
    first = open_page(site)
    ask(first, "Hello?")
    answered(first, "One.")
    second = looking_on(site, open_page)
    answered(second, "One.")

    ask(first, "And now?")
    expect(second.locator(".turn.is-user").last).to_have_text("And now?")
    turn = second.locator(".turn.is-assistant").last
    expect(turn.locator(".tool.is-ok")).to_contain_text("Search nodes")
    expect(turn.locator("strong")).to_have_text("text")
    expect(turn).to_have_attribute("aria-busy", "true")
    release(site, held)
    answered(second, "Some text")
    answered(first, "Some text")
    expect(second.locator(".turn")).to_have_count(4)

    ask(second, "Make it a warning")
    expect(card(first, "pending")).to_be_visible()
    press(card(first, "pending"), "Approve")
    answered(first, "Changed.")
    answered(second, "Changed.")
    expect(card(second, "applied")).to_be_visible()
    expect(second.locator(".turn")).to_have_count(6)
    expect(first.locator(".turn")).to_have_count(6)


def test_a_tab_that_comes_in_the_middle_shows_the_answer_from_its_beginning_and_may_stop_it(
    site: Site, script: ScriptedProvider, open_page: OpenPage
) -> None:
    looks = Says(text="Let me look.", calls=[call("search_nodes", {"query": "fetch"})])
    script.play(looks, Says(text="Half of it", held=asyncio.Event()))
    first = open_page(site)
    ask(first, "Hello?")
    expect(first.locator(".turn.is-assistant")).to_contain_text("Half of it")
    second = looking_on(site, open_page)
    turn = second.locator(".turn.is-assistant")
    expect(turn).to_contain_text("Half of it")
    expect(turn).to_have_count(1)
    assert turn.inner_text().count("Let me look.") == 1
    second.get_by_role("button", name="Stop the answer").click()
    answered(second, "You stopped this answer")
    answered(first, "You stopped this answer")


def test_a_tab_that_is_closed_in_the_middle_leaves_what_was_kept(
    site: Site, script: ScriptedProvider, open_page: OpenPage
) -> None:
    script.play("One.", Says(text="Half of it", held=asyncio.Event()))
    first = open_page(site)
    ask(first, "Hello?")
    answered(first, "One.")
    second = looking_on(site, open_page)
    ask(first, "More")
    expect(second.locator(".turn.is-assistant").last).to_contain_text("Half of it")
    first.context.close()
    answered(second, "You stopped this answer")
    expect(second.locator(".turn.is-user").last).to_have_text("More")
