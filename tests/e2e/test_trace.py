"""How an answer came about, in its own words and figures; its beginning stays in view."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.e2e.conftest import OpenPage
from tests.e2e.site import Site
from tests.e2e.talk import answered, ask
from tests.support.scripted_provider import Says, ScriptedProvider, call

READS = Says(
    calls=[call("get_node_detail", {"node_key": "fetch-api"}), call("search_nodes", {"query": "error"})]
)
LONG = "\n\n".join(f"Paragraph {n} of a long answer." for n in range(60))


def test_an_answer_keeps_its_beginning_in_view_and_says_how_it_came_about(
    site: Site, script: ScriptedProvider, open_page: OpenPage
) -> None:
    script.play(READS, LONG)
    page = open_page(site)
    ask(page, "What fails?")
    answered(page, "Paragraph 59 of a long answer.")
    expect(page.locator(".tools-fold > summary")).to_contain_text("2 steps")
    expect(page.locator(".tools-fold .tool").first).to_be_hidden()
    expect(page.locator(".md p", has_text="Paragraph 0 ")).to_be_in_viewport()
    expect(page.locator(".md p", has_text="Paragraph 59 ")).not_to_be_in_viewport()
    page.locator(".log-jump").click()
    expect(page.locator(".md p", has_text="Paragraph 59 ")).to_be_in_viewport()
    page.get_by_role("button", name="How it came about").click()
    dialog = page.get_by_role("dialog", name="How the answers came about")
    expect(dialog.locator(".trace-spans > li")).not_to_have_count(0)
    expect(dialog).to_contain_text("tokens read")
    dialog.get_by_text("What the model was sent first").click()
    expect(dialog.locator("pre").last).to_contain_text("What fails?")
