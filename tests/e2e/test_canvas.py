"""The canvas: opening, looking around, sheets, keys, large graphs."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.e2e.conftest import OpenPage, Trouble
from tests.e2e.graphs import large_graph
from tests.e2e.site import Site

FRAMES = """() => new Promise((done) =>
  requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 60))))"""


def at_rest(page: Page, script: str, value: Any) -> Any:
    """What a script finds, when it has come to rest."""
    return settled(page, lambda: page.evaluate(script, value))


def settled(page: Page, find: Callable[[], Any]) -> Any:
    """What `find` returns, when it returns the same twice: the view moves for a while after a key.

    A movement begins in one frame and is seen in the next, however long a frame takes.
    """
    earlier = None
    while (now := find()) != earlier:
        earlier = now
        page.evaluate(FRAMES)
    assert now
    return now


def box(found: Locator) -> dict[str, float]:
    """Where something is shown, when it has come to rest. It is looked for each time: a node is
    drawn anew when its texts have come, and the element before has no place.
    """
    return settled(found.page, lambda: found.evaluate(BOX))


def node(page: Page, key: str) -> Locator:
    return page.locator(f".node[data-key='{key}']")


PAINTED = """() => {
  const canvas = document.querySelector("canvas.far");
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  let found = 0;
  for (let i = 3; i < data.length; i += 4) if (data[i]) found += 1;
  return found;
}"""
BOX = """(element) => {
  const { x, y, width, height } = element.getBoundingClientRect();
  return { x, y, width, height };
}"""
PLACE_OF = """([left, top]) => {
  const { a: k, e: x, f: y } = new DOMMatrix(getComputedStyle(document.querySelector(".world")).transform);
  const stage = document.querySelector(".stage").getBoundingClientRect();
  return [stage.left + x + (left + 110) * k, stage.top + y + (top + 70) * k];
}"""


def test_a_graph_opens_from_the_list_and_is_shown_whole(
    offline_site: Site, open_page: OpenPage
) -> None:
    page = open_page(offline_site, None)
    page.get_by_role("button", name="NBA Stats Pipeline").first.click()
    expect(page.locator(".node")).to_have_count(7)
    expect(page).to_have_url(re.compile("graph=testgraph001"))
    stage = box(page.locator(".stage"))
    for shown in (box(found) for found in page.locator(".node").all()):
        assert stage["x"] <= shown["x"]
        assert shown["x"] + shown["width"] <= stage["x"] + stage["width"]
        assert stage["y"] <= shown["y"]
    page.go_back()
    expect(page.locator("main")).to_have_attribute("data-state", "home")


def test_a_graph_that_is_not_there_is_said_with_a_way_back(
    offline_site: Site, open_page: OpenPage, trouble: Trouble
) -> None:
    page = open_page(offline_site, None)
    page.goto(f"{offline_site.url}#graph=nothing&sheet=0&panel=chat")
    expect(page.get_by_role("heading", name="This graph could not be loaded")).to_be_visible()
    page.get_by_role("button", name="Back to all graphs").click()
    expect(page.get_by_role("heading", name="Graphs", exact=True)).to_be_visible()
    trouble.forgive("404")


def test_dragging_the_ground_pans_and_the_wheel_zooms_at_the_pointer(page: Page) -> None:
    before = box(node(page, "fetch-api"))
    page.mouse.move(440, 640)
    page.mouse.down()
    page.mouse.move(500, 600, steps=4)
    page.mouse.up()
    after = box(node(page, "fetch-api"))
    assert (after["x"] - before["x"], after["y"] - before["y"]) == pytest.approx((60, -40), abs=1)
    x = after["x"] + after["width"] / 2
    y = after["y"] + after["height"] / 2
    page.mouse.move(x, y)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -100)
    page.keyboard.up("Control")
    zoomed = box(node(page, "fetch-api"))
    assert zoomed["width"] > after["width"] * 1.3
    assert zoomed["x"] + zoomed["width"] / 2 == pytest.approx(x, abs=2)
    page.keyboard.press("f")
    fitted = box(node(page, "fetch-api"))
    assert (fitted["x"], fitted["width"]) == pytest.approx((before["x"], before["width"]), abs=1)


def test_sheets_show_their_own_nodes_and_are_in_the_address(page: Page) -> None:
    page.get_by_role("tab", name="data-processing").click()
    expect(page.locator(".node")).to_have_count(2)
    expect(page).to_have_url(re.compile("sheet=1"))
    page.locator(".stage").focus()
    page.keyboard.press("PageUp")
    expect(page.locator(".node")).to_have_count(7)
    page.reload()
    expect(page.locator(".node")).to_have_count(7)


def test_the_overview_goes_where_it_is_clicked(page: Page) -> None:
    page.locator(".percent").click()
    page.locator(".minimap").click(position={"x": 20, "y": 50})
    first = box(node(page, "root"))
    page.locator(".minimap").click(position={"x": 150, "y": 50})
    assert box(node(page, "root"))["x"] < first["x"] - 300


def test_keys_walk_through_nodes_open_one_and_come_back(page: Page) -> None:
    page.locator(".stage").focus()
    page.keyboard.press("Tab")
    focused = page.locator(".node:focus")
    expect(focused).to_have_count(1)
    first = focused.get_attribute("data-key")
    page.keyboard.press("Tab")
    assert page.locator(".node:focus").get_attribute("data-key") != first
    page.keyboard.press("Shift+Tab")
    assert page.locator(".node:focus").get_attribute("data-key") == first
    expect(node(page, str(first))).to_have_attribute("aria-pressed", "true")
    page.keyboard.press("Enter")
    expect(page.locator(".inspector")).to_be_visible()
    expect(page.locator(".node-does")).to_have_text(re.compile(r"\S"))
    page.keyboard.press("Escape")
    expect(page.locator(".inspector")).to_be_hidden()
    assert page.locator(".node:focus").get_attribute("data-key") == first
    for _ in range(8):
        page.keyboard.press("Tab")
    assert page.locator(".node:focus").count() == 0, "the canvas must not keep the focus"


def test_the_help_lists_the_keys_and_escape_closes_it(page: Page) -> None:
    page.locator(".stage").focus()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_language_and_theme_are_chosen_and_kept(offline_site: Site, open_page: OpenPage) -> None:
    page = open_page(offline_site, color_scheme="light")
    ground = "() => getComputedStyle(document.querySelector('.stage')).backgroundColor"
    light = page.evaluate(ground)
    page.locator(".theme-switch").click()
    page.locator(".theme-switch").click()
    assert page.evaluate(ground) != light
    page.locator(".lang-switch").click()
    expect(page.get_by_role("tab", name="Discussion")).to_be_visible()
    page.reload()
    expect(page.get_by_role("tab", name="Discussion")).to_be_visible()
    expect(page.locator("html")).to_have_attribute("lang", "fr")
    expect(page.locator(".connection")).to_have_class(re.compile("open"))
    assert page.evaluate(ground) != light


def test_a_large_graph_opens_at_its_start_and_only_what_is_near_has_elements(
    offline_site: Site, open_page: OpenPage
) -> None:
    """What has none yet is reached all the same: by keys, by the search, and by choosing all."""
    offline_site.import_graph(large_graph("large", 2_000), "large")
    page = open_page(offline_site, "large")
    expect(page.locator(".percent")).to_have_text("55 %")
    expect(node(page, "n0")).to_be_in_viewport(ratio=1)
    assert 0 < page.locator(".node").count() < 250
    assert page.locator("path.edge").count() < 250
    order = [str(found.get_attribute("data-key")) for found in page.locator(".node").all()]
    assert order == sorted(order, key=lambda key: (int(key[1:]) % 25, int(key[1:]))), (
        "as it is read"
    )
    page.locator(".stage").focus()
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Step 0, Start", exact=True)).to_be_focused()
    page.keyboard.press("Control+f")
    expect(page.get_by_role("searchbox", name="Name, type, data or code")).to_be_focused()
    page.keyboard.type("Step 1999")
    page.keyboard.press("Enter")
    expect(node(page, "n1999")).to_be_in_viewport(ratio=1)
    expect(node(page, "n1999")).to_have_attribute("aria-pressed", "true")
    page.locator(".stage").focus()
    page.keyboard.press("Tab")
    expect(node(page, "n0")).to_be_focused()
    expect(node(page, "n0")).to_be_in_viewport()


def test_a_large_sheet_that_is_painted_from_far_away_is_used_by_pointer_and_by_keys(
    offline_site: Site, open_page: OpenPage
) -> None:
    offline_site.import_graph(large_graph("large", 500), "large")
    page = open_page(offline_site, "large")
    page.locator(".stage").focus()
    page.keyboard.press("f")
    page.wait_for_selector(".stage.painted")
    expect(page.locator(".node:visible")).to_have_count(0)
    assert page.evaluate(PAINTED) > 1000
    place = at_rest(page, PLACE_OF, [12 * 300, 0])
    page.mouse.click(*place)
    expect(page.locator(".node.selected")).to_have_attribute("data-key", "n12")
    page.mouse.dblclick(*place)
    expect(page.get_by_label("Name of the node")).to_have_value("Step 12")
    page.get_by_label("Close").first.click()
    page.locator(".stage").focus()
    page.keyboard.press("Tab")
    expect(node(page, "n0")).to_be_focused()
    expect(node(page, "n0")).to_be_visible()


def test_on_a_narrow_screen_one_part_is_shown_at_a_time(
    offline_site: Site, open_page: OpenPage
) -> None:
    page = open_page(offline_site, viewport={"width": 390, "height": 844}, has_touch=True)
    expect(page.locator("#panel-chat")).to_be_visible()
    page.locator("#bottom").get_by_role("button", name="Canvas").click()
    expect(page.locator("#side")).to_be_hidden()
    expect(node(page, "root")).to_be_in_viewport()
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
