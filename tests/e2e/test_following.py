"""A second tab on the same conversation shows what the first one does there, as it happens."""

from __future__ import annotations

import asyncio

from playwright.sync_api import Page, expect

from tests.e2e.conftest import OpenPage
from tests.e2e.site import Site
from tests.e2e.talk import CHANGE, answered, ask, card, press, proposes, release
from tests.e2e.test_live import drag, node
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


READS = Says(
    calls=[
        call("get_node_detail", {"node_key": "fetch-api"}),
        call("search_nodes", {"query": "error"}),
    ]
)
LONG = "\n\n".join(f"Paragraph {n} of a long answer." for n in range(60))


def test_an_answer_keeps_its_beginning_in_view_and_says_how_it_came_about(
    page: Page, script: ScriptedProvider
) -> None:
    script.play(READS, LONG)
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
    expect(dialog.locator(".trace-row.is-model").first).to_contain_text("tokens read")
    dialog.get_by_role("treeitem", name="What the model saw").click()
    expect(dialog.locator("pre").last).to_contain_text("What fails?")


def test_a_person_drags_back_compares_and_restores_while_somebody_edits(
    offline_site: Site, open_page: OpenPage
) -> None:
    one = open_page(offline_site)
    two = open_page(offline_site)
    begin = offline_site.node("root")["posX"]
    for _ in range(3):
        drag(one, "root", 40, 0)
        one.wait_for_timeout(150)
    one.locator("header").get_by_label("Timeline", exact=True).click()
    timeline = one.get_by_role("region", name="Timeline")
    moment = timeline.get_by_role("slider")
    expect(moment).to_be_focused()
    for _ in range(3):
        moment.press("ArrowLeft")
    expect(timeline).to_contain_text("moved Start")
    now = offline_site.node("root")["posX"]
    there = "e => getComputedStyle(e).transform"
    expect(node(one, "root")).not_to_have_css("transform", node(two, "root").evaluate(there))
    timeline.get_by_role("button", name="Compare from here").click()
    expect(one.locator(".ghost.moved[data-key=root]")).to_be_visible()
    # somebody goes on meanwhile; the comparison with now follows
    drag(two, "error-handler", 40, 40)
    expect(one.locator(".ghost.moved[data-key='error-handler']")).to_be_visible()
    timeline.get_by_role("button", name="Compare from here").click()
    expect(one.locator(".ghost")).to_have_count(0)
    moment.press("Home")
    kept = offline_site.node("error-handler")["posX"]
    node(one, "root").click()
    timeline.get_by_role("button", name="Restore what is selected").click()
    expect(timeline).to_have_count(0)
    one.wait_for_timeout(500)  # both are sent it
    assert node(one, "root").evaluate(there) == node(two, "root").evaluate(there)
    assert begin <= offline_site.node("root")["posX"] < now
    assert offline_site.node("error-handler")["posX"] == kept
    node(one, "root").dblclick()
    one.get_by_text("Who set this").click()
    expect(one.locator(".blame").first).to_contain_text("by hand")
