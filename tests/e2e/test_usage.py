"""The charts of use: by day, person and model, their table, and whose they are."""

from __future__ import annotations

from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator, Page, expect

from tests.e2e.conftest import OpenPage
from tests.e2e.site import Site
from tests.e2e.talk import answered, ask
from tests.support.scripted_provider import ScriptedProvider

PHONE = {"width": 390, "height": 800}


def usage_of(page: Page) -> Locator:
    page.locator("#panel-threads .usage-open").click()
    dialog = page.locator("dialog:has(.usage)")
    expect(dialog.locator(".usage-chart, .note").first).to_be_visible()
    return dialog


def test_tokens_questions_and_decisions_are_charted_by_day_and_model(
    site: Site, script: ScriptedProvider, open_page: OpenPage
) -> None:
    script.play("One.", "Two.")
    page = open_page(site)
    for word in ("One.", "Two."):
        ask(page, "Hello?")
        answered(page, word)
    page.get_by_role("tab", name="Threads").click()
    dialog = usage_of(page)
    expect(dialog.locator(".usage-chart rect")).to_have_count(30)
    heights = dialog.locator(".usage-chart rect").evaluate_all(
        "all => all.map(one => Number(one.getAttribute('height')))"
    )
    assert [height > 0 for height in heights] == [False] * 29 + [True]
    row = dialog.locator("tbody tr")
    assert row.locator("td").all_inner_texts()[2:] == ["2", "0", "2"]
    dialog.get_by_label("Period").select_option("7")
    expect(dialog.locator(".usage-chart rect")).to_have_count(7)
    dialog.get_by_label("Show").select_option("questions")
    expect(dialog.locator("figcaption")).to_have_text("Questions by day, 2 at most")
    dialog.get_by_label("Add up by").select_option("model")
    expect(dialog.locator("tbody th")).to_have_text("scripted script-1")
    expect(dialog.locator("thead th")).to_have_text(
        ["Model", "Tokens", "Cost", "Questions", "Calls"]
    )


def test_where_nothing_was_used_that_is_said_with_its_period(
    offline_site: Site, open_page: OpenPage
) -> None:
    page = open_page(offline_site, panel="threads")
    dialog = usage_of(page)
    expect(dialog).to_contain_text("Nothing was used in the last 30 days.")
    dialog.get_by_label("Period").select_option("90")
    expect(dialog).to_contain_text("Nothing was used in the last 90 days.")
    expect(dialog).to_contain_text("Calls are kept for 30 days")


@pytest.mark.parametrize(
    "how", [{"viewport": PHONE}, {"color_scheme": "dark"}, {"locale": "fr-FR"}]
)
def test_the_charts_fit_and_are_accessible(
    offline_site: Site, open_page: OpenPage, how: dict[str, Any]
) -> None:
    page = open_page(offline_site, **how)
    ask(page, "What comes after fetch-api?")
    answered(page, "Keep active players")
    page.goto(f"{offline_site.url}#graph=testgraph001&panel=threads")
    dialog = usage_of(page)
    for by in ("day", "person"):
        dialog.locator("select").first.select_option(by)
        drawn = ".usage-share" if by == "person" else ".usage-chart"
        expect(dialog.locator(drawn).first).to_be_visible()
        assert Axe().run(page).response["violations"] == []
        assert dialog.evaluate("e => e.scrollWidth <= e.clientWidth")
