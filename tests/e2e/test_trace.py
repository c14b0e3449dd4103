"""How an answer came about, as a tree: its steps, keys, what is stored of each, and its bounds."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator, Page, expect

from tests.e2e.conftest import OpenPage
from tests.e2e.site import GRAPH, Site
from tests.e2e.talk import CHANGE, answered, ask, card, press, proposes
from tests.support.scripted_provider import Says, ScriptedProvider, call

PHONE = {"width": 390, "height": 800}
READS = Says(calls=[call("search_nodes", {"query": "error"})])


def trace_of(page: Page) -> Locator:
    page.get_by_role("button", name="How it came about").last.click()
    dialog = page.get_by_role("dialog", name="How the answers came about")
    expect(dialog.get_by_role("treeitem", name="Answer", exact=False).first).to_be_focused()
    return dialog


def step(dialog: Locator, name: str) -> Locator:
    title = dialog.page.locator("strong", has_text=re.compile(f"^{name}"))
    return dialog.get_by_role("treeitem").filter(has=title)


def test_a_changed_graph_is_told_from_the_question_to_the_decision(
    page: Page, script: ScriptedProvider
) -> None:
    script.play(READS, proposes(CHANGE), "It is changed.")
    ask(page, "Rename the fetching, please")
    press(card(page, "pending"), "Approve")
    answered(page, "It is changed.")
    dialog = trace_of(page)
    expect(dialog.get_by_role("treeitem").locator("strong")).to_have_text(
        [
            *("Answer 1", "Question", "Search in the graph", "What the model saw"),
            *("Model", "Search nodes", "Model", "Propose: update node", "Proposal"),
            *("Waited for a decision", "Model", "Answer"),
        ]
    )
    levels = [row.get_attribute("aria-level") for row in dialog.get_by_role("treeitem").all()]
    assert levels == list("122223234222")
    expect(step(dialog, "Proposal")).to_contain_text("Applied")
    for row in step(dialog, "Model").all():
        expect(row.locator(".trace-bar")).to_have_count(1)
        expect(row.locator(".trace-ms")).to_contain_text(re.compile(r"\d m?s"))
    step(dialog, "Search nodes").click()
    detail = dialog.get_by_role("region", name="What is stored of this step")
    expect(detail).to_contain_text('"query": "error"')
    expect(detail).to_contain_text("found[")
    step(dialog, "Proposal").click()
    detail.get_by_role("button", name="Open in Review").click()
    expect(dialog).to_have_count(0)
    expect(page).to_have_url(re.compile("approval="))


def test_the_tree_is_read_by_keyboard_and_says_what_each_search_found(page: Page) -> None:
    ask(page, "What comes after fetch-api?")
    answered(page, "Keep active players")
    dialog = trace_of(page)
    search = step(dialog, "Search in the graph")
    expect(search).to_have_attribute("aria-expanded", "false")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(search).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(search).to_have_attribute("aria-expanded", "true")
    expect(search).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(step(dialog, "Searches")).to_be_focused()
    page.keyboard.press("ArrowRight")
    words = step(dialog, "Words of the text")
    expect(words).to_be_focused()
    detail = dialog.get_by_role("region", name="What is stored of this step")
    score = detail.locator("tbody tr").first.locator("td.number")
    assert float(score.inner_text()) > 0
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    expect(words).to_have_count(0)
    page.keyboard.press("Home")
    page.keyboard.press("Enter")
    expect(dialog.get_by_role("treeitem")).to_have_count(1)
    page.keyboard.press("Enter")
    page.keyboard.press("End")
    expect(step(dialog, "Answer").last).to_be_focused()
    expect(detail.locator(".md")).to_contain_text("Keep active players")


def test_older_answers_are_read_when_they_are_opened(page: Page) -> None:
    for number, word in ((1, "fetch-api"), (2, "filter-active")):
        ask(page, f"What comes after {word}?")
        expect(page.locator(".turn.is-assistant .turn-facts button")).to_have_count(number)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    dialog = trace_of(page)
    expect(step(dialog, "Rules").first).to_be_visible()
    traces = [url.rpartition("?")[2] for url in asked if "/trace" in url]
    assert traces == ["brief=true", "turn=2"]
    first = step(dialog, "Answer 1")
    expect(first).to_contain_text("What comes after fetch-api?")
    expect(first).to_have_attribute("aria-expanded", "false")
    first.click()
    first.press("ArrowRight")
    expect(step(dialog, "Search in the graph")).to_have_count(2)
    assert asked[-1].endswith("trace?turn=1")


@pytest.mark.parametrize(
    "how", [{"viewport": PHONE}, {"color_scheme": "dark"}, {"locale": "fr-FR"}]
)
def test_it_fits_and_is_accessible(
    offline_site: Site, open_page: OpenPage, how: dict[str, Any]
) -> None:
    page = open_page(offline_site, panel="chat", **how)
    ask(page, "What comes after fetch-api?")
    answered(page, "Keep active players")
    page.locator(".turn-facts button").last.click()
    dialog = page.locator("dialog.trace-dialog")
    expect(dialog.locator(".trace-row.is-rules").first).to_be_visible()
    dialog.locator(".trace-row.is-search").click()
    dialog.locator(".trace-row.is-search").press("ArrowRight")
    expect(dialog.locator(".trace-row.is-searches")).to_be_visible()
    assert Axe().run(page).response["violations"] == []
    for part in (dialog, dialog.locator(".trace-tree"), dialog.locator(".trace-detail")):
        assert part.evaluate("e => e.scrollWidth <= e.clientWidth")


def test_how_a_run_came_about_has_an_address(offline_site: Site, open_page: OpenPage) -> None:
    check = {"graphKey": GRAPH, "name": "Check", "message": "Check the graph", "cron": "0 2 * * *"}
    automation = offline_site.rest("POST", "/api/automations", json=check)
    started = offline_site.rest("POST", f"/api/automations/{automation['id']}/run")
    run = quote(started["sessionId"], safe="")
    page = open_page(offline_site, panel="automations")
    page.goto(f"{offline_site.url}#run={run}")
    again = page.get_by_role("button", name="Run again for that time")  # of a run that has ended
    expect(again).to_be_visible()
    page.goto(f"{offline_site.url}#run={run}&trace={run}")
    dialog = page.get_by_role("dialog", name="How the answers came about")
    expect(step(dialog, "Rules").first).to_be_visible()
