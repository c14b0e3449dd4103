"""The frame of the page: what stands where, its names, and what is read and painted first."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.benchmarks.page import watched
from tests.e2e.conftest import OpenPage, Trouble
from tests.e2e.site import GRAPH, Site
from tests.e2e.talk import answered, ask
from tests.e2e.test_canvas import box

PHONE = {"width": 390, "height": 800}
OTHERS = ["Automations", "Agents", "Calls", "Threads", "Today", "Administration"]
OVERFLOWS = """() => ["top", "panel-tabs", "bottom"].map((id) => document.getElementById(id))
  .filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.id)"""
FRAME = """() => {
  const top = getComputedStyle(document.getElementById("top"));
  const { display } = getComputedStyle(document.body);
  return [document.styleSheets.length, top.height, top.backgroundColor, display];
}"""
MOST_FILES = 14  # of the page itself, for the first view of a graph
MOST_KB = 120


def test_two_panels_are_tabs_by_name_and_the_others_pictures_with_names(page: Page) -> None:
    tabs = page.locator("#panel-tabs")
    expect(tabs.locator(".tab:not(.is-picture)")).to_have_text(["Chat", "Review"])
    pictures = tabs.locator(".tab.is-picture")
    expect(pictures).to_have_count(len(OTHERS))
    for picture, name in zip(pictures.all(), OTHERS, strict=True):
        expect(picture).to_have_accessible_name(name)
        picture.click()
        expect(page.get_by_role("tabpanel", name=name)).to_be_visible()
    pictures.last.press("ArrowRight")  # goes round
    expect(page.get_by_role("tab", name="Chat")).to_be_focused()


def test_on_a_phone_the_other_panels_are_behind_more_by_keyboard_too(
    offline_site: Site, open_page: OpenPage
) -> None:
    page = open_page(offline_site, viewport=PHONE)
    bar = page.locator("#bottom")
    expect(bar.get_by_role("button")).to_have_text(["Canvas", "Chat", "Review", "More"])
    for name in reversed(OTHERS):
        bar.get_by_role("button", name="More").focus()
        page.keyboard.press("Enter")
        item = page.get_by_role("menuitem", name=name)
        while item.evaluate("(one) => one !== document.activeElement"):
            page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        expect(page.get_by_role("tabpanel", name=name)).to_be_visible()
        expect(bar.get_by_role("button", name="More")).to_have_attribute("aria-current", "page")


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("locale", ["fr-FR", "en-US"])
def test_the_frame_fits_in_both_languages(
    offline_site: Site, open_page: OpenPage, width: int, locale: str
) -> None:
    page = open_page(offline_site, viewport={"width": width, "height": 800}, locale=locale)
    assert page.evaluate(OVERFLOWS) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("panel", ["canvas", "review"])
@pytest.mark.parametrize("width", [1280, 1000, 800, 390])
def test_news_cover_neither_the_overview_nor_the_tools_nor_the_inspector(
    offline_site: Site, open_page: OpenPage, trouble: Trouble, width: int, panel: str
) -> None:
    page = open_page(offline_site, panel=panel, viewport={"width": width, "height": 800})
    has_inspector = panel == "canvas" and width in (1280, 390)
    if has_inspector:
        page.locator(".node").first.focus()
        page.keyboard.press("Enter")
        expect(page.locator(".inspector")).to_be_visible()
    veiled = page.evaluate_handle("new DataTransfer()")
    page.evaluate(
        """(data) => {
      for (let i = 0; i < 3; i += 1) data.items.add(new File(["{"], `a file with a long name ${i}.json`));
      dispatchEvent(new DragEvent("drop", { dataTransfer: data, cancelable: true }));
    }""",
        veiled,
    )
    toasts = page.locator(".toast.error")
    expect(toasts).to_have_count(3)
    kept = [".minimap", ".canvas-tools", ".sheets", *([".inspector"] if has_inspector else [])]
    for toast in toasts.all():
        mine = box(toast)
        assert mine["width"] > 180
        for name in kept:
            if not page.locator(name).is_visible():
                continue
            theirs = box(page.locator(name))
            is_beside = (
                mine["x"] + mine["width"] <= theirs["x"]
                or theirs["x"] + theirs["width"] <= mine["x"]
                or mine["y"] + mine["height"] <= theirs["y"]
                or theirs["y"] + theirs["height"] <= mine["y"]
            )
            assert is_beside, (name, mine, theirs)
    trouble.forgive("422")


SEGMENTS = """() => [...document.querySelectorAll(".segments button")].map((one) => {
  const { paddingLeft, paddingRight } = getComputedStyle(one);
  return [Math.min(parseFloat(paddingLeft), parseFloat(paddingRight)), one.scrollWidth - one.clientWidth];
})"""


@pytest.mark.parametrize("locale", ["fr-FR", "en-US"])
def test_segments_have_padding_and_room_for_their_words(
    offline_site: Site, open_page: OpenPage, locale: str
) -> None:
    for width in (1280, 390):
        page = open_page(
            offline_site, panel="review", locale=locale, viewport={"width": width, "height": 800}
        )
        expect(page.locator(".segments button").first).to_be_visible()
        for padding, missing in page.evaluate(SEGMENTS):
            assert padding >= 10
            assert missing <= 0
        page.close()


def test_the_first_paint_has_its_styles_before_any_file_of_the_page_came(
    browser: Browser, offline_site: Site
) -> None:
    context = browser.new_context(viewport={"width": 1280, "height": 800}, color_scheme="dark")
    held: list[Route] = []
    refused: list[str] = []
    page = context.new_page()
    page.on("console", lambda said: refused.append(said.text) if said.type == "error" else None)
    page.route(re.compile(r"/web/.*\.(css|js|json)$"), lambda route: held.append(route))
    page.goto(offline_site.url, wait_until="commit")
    page.wait_for_selector("#top", state="attached")
    sheets, height, colour, display = page.evaluate(FRAME)
    assert held
    assert (sheets, height, display) == (1, "48px", "grid")
    assert colour == "rgb(24, 27, 34)"
    assert refused == []
    context.close()


def test_a_chosen_theme_stands_from_the_first_script_on(
    offline_site: Site, open_page: OpenPage, trouble: Trouble
) -> None:
    page = open_page(offline_site, None, color_scheme="light")
    page.evaluate("localStorage.setItem('nodius.theme', 'dark')")
    page.route("**/app.js", lambda route: route.abort())
    page.reload(wait_until="commit")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    trouble.forgive("ERR_FAILED")


def test_the_first_view_reads_no_more_than_it_may(browser: Browser, offline_site: Site) -> None:
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    _, traffic = watched(context, page)
    page.goto(f"{offline_site.url}#graph={GRAPH}")
    page.wait_for_selector("html[data-ready=true]", state="attached")
    page.wait_for_selector(".connection.open", state="attached")
    page.wait_for_load_state("networkidle")
    own = [(url, size) for url, size in traffic if "/api/" not in url]
    assert len(own) <= MOST_FILES, own
    assert sum(size for _, size in own) <= MOST_KB * 1000
    context.close()


def test_what_leads_to_all_graphs_and_what_searches_them_have_names_of_their_own(
    offline_site: Site, open_page: OpenPage
) -> None:
    page = open_page(offline_site, None)
    expect(page.get_by_role("button", name="Nodius: all graphs", exact=True)).to_be_visible()
    page.get_by_role("button", name="Search all graphs", exact=True).click()
    expect(page.get_by_role("dialog", name="Search all graphs")).to_be_visible()


def test_that_no_model_is_configured_is_said_once(page: Page) -> None:
    said = page.get_by_text(re.compile("no language model", re.IGNORECASE))
    said = said.locator("visible=true").and_(page.locator(":not(.sr-only *)"))
    expect(said).to_have_count(1)
    ask(page, "What comes after fetch-api?")
    answered(page, "Keep active players")
    expect(said).to_have_count(1)
    ask(page, "What comes after filter-active?")
    answered(page, "Player table")
    expect(said).to_have_count(1)
    page.get_by_role("button", name="New conversation").click()
    expect(said).to_have_count(1)


def test_how_an_answer_of_rules_came_about_has_an_address(page: Page) -> None:
    ask(page, "What comes after fetch-api?")
    answered(page, "Keep active players")
    page.get_by_role("button", name="How it came about").click()
    dialog = page.get_by_role("dialog", name="How the answers came about")
    expect(dialog.get_by_role("treeitem", name="Rules").first).to_be_visible()
    expect(page).to_have_url(re.compile("trace="))
    page.reload()
    expect(dialog.get_by_role("treeitem", name="Rules").first).to_be_visible()
    dialog.get_by_role("button", name="Close").click()
    expect(page).not_to_have_url(re.compile("trace="))
