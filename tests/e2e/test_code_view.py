"""The code of a proposal over the whole page, and the field that edits it."""

from __future__ import annotations

import json
from collections.abc import Mapping

from playwright.sync_api import Page, expect

from tests.e2e.conftest import OpenPage
from tests.e2e.site import GRAPH, Site
from tests.e2e.talk import card, press, row
from tests.e2e.test_review import proposed
from tests.support.scripted_provider import Says, ScriptedProvider, call

LINE = 120
SAMPLE = "const value = rows[0] ? rows[0].points : 0; "
LONG = (SAMPLE * 4)[:LINE]
PATCHED = {
    "node_key": "filter-active",
    "patches": [{"search": "node.data.minGames", "replace": "10"}],
    "reason": "ten games are enough",
}
HEIGHTS = "rows => rows.map((one) => one.getBoundingClientRect().height)"


def plays(site: Site, script: ScriptedProvider, arguments: Mapping[str, object]) -> None:
    script.play(Says(text="This.", calls=[call("propose_update_node", arguments)]))
    proposed(site)


def code_of(arguments: object) -> dict[str, object]:
    """Return the arguments that set the code of a node."""
    return {"node_key": "filter-active", "changes": {"process": arguments}, "reason": "shorter"}


def opened(site: Site, open_page: OpenPage, **options: object) -> Page:
    page = open_page(site, panel="review", **options)
    expect(row(page, "pending")).to_be_focused()
    page.keyboard.press("o")
    expect(page.locator("dialog.code-view")).to_be_visible()
    return page


def test_a_replacement_stands_in_its_place_in_the_code_with_what_differs_marked(
    site: Site, script: ScriptedProvider, open_page: OpenPage
) -> None:
    plays(site, script, PATCHED)
    page = opened(site, open_page)
    view = page.locator(".code-view")
    expect(view.locator("tr")).to_have_count(7)  # six lines, one of them before and after
    expect(view.locator(".code-line.diff-removed mark")).to_have_text("node.data.minGames")
    expect(view.locator(".code-line.diff-added mark")).to_have_text("10")
    expect(view.locator(".word-keyword").first).to_have_text("const")
    expect(view.locator(".code-head")).to_contain_text("Syntax checked")
    press(view, "Side by side")
    expect(view.locator("tr")).to_have_count(6)
    page.reload()
    row(page, "pending").focus()
    page.keyboard.press("o")
    expect(page.locator(".code-table.is-two")).to_be_visible()
    page.keyboard.press("a")
    expect(page.locator(".code-view")).to_have_count(0)
    expect(row(page, "pending")).to_have_count(0)
    assert "gamesPlayed >= 10" in site.node("filter-active")["process"]


def test_a_line_of_120_characters_and_numbers_of_any_length_stand_in_one_line(
    site: Site, script: ScriptedProvider, open_page: OpenPage
) -> None:
    plays(site, script, code_of("\n".join([LONG] * 120)))
    page = opened(site, open_page)
    heights = page.locator(".code-view tr").evaluate_all(HEIGHTS)
    assert len(heights) == 126
    assert max(heights) < 1.5 * min(heights)
    page.keyboard.press("Escape")
    numbers = card(page, "pending", "review").locator(".diff-no")
    one_line = numbers.first.evaluate("e => parseFloat(getComputedStyle(e).lineHeight)")
    widths = numbers.evaluate_all(
        """cells => cells.filter((cell) => cell.textContent).map((cell) => {
        const range = document.createRange();
        range.selectNodeContents(cell);
        return range.getBoundingClientRect().height;
      })"""
    )
    assert max(widths) <= one_line


def test_code_that_cannot_be_parsed_is_marked_at_its_line(
    site: Site, script: ScriptedProvider, open_page: OpenPage
) -> None:
    plays(site, script, code_of("const a = 1;\nreturn (a;\n"))
    page = opened(site, open_page)
    view = page.locator(".code-view")
    expect(view.locator(".code-head")).to_contain_text("Cannot be parsed, line 2")
    expect(view.locator(".is-broken")).to_have_text("added: return (a;")


def test_the_field_that_edits_code_opens_at_the_change(
    site: Site, script: ScriptedProvider, open_page: OpenPage
) -> None:
    code = "\n".join(f"const value{i} = {i};" for i in range(200))
    document = json.loads(json.dumps(site.rest("GET", f"/api/graphs/{GRAPH}/export")))
    for node in document["nodes"]:
        if node["_key"] == "filter-active":
            node["process"] = code
    site.import_graph(document, "long")
    changed = code.replace("value150 = 150", "value150 = 1")
    script.play(
        Says(text="This.", calls=[call("propose_update_node", code_of(changed))]),
    )
    proposed(site, graph="long")
    page = open_page(site, "long", panel="review")
    expect(row(page, "pending")).to_be_focused()
    page.keyboard.press("o")
    expect(page.locator(".code-fold")).to_have_count(2)
    folded = page.locator(".code-view tr").count()
    page.locator(".code-fold button").first.click()
    expect(page.locator(".code-fold")).to_have_count(1)
    assert page.locator(".code-view tr").count() > folded
    page.keyboard.press("e")
    field = page.get_by_role("textbox", name="Code")
    expect(field).to_be_focused()
    before = field.evaluate("e => e.value.slice(0, e.selectionStart)")
    assert before.count("\n") == 150
    assert before.endswith("\n")
    assert field.evaluate("e => e.scrollTop > 0")
