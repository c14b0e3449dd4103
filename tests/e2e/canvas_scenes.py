"""The scenes of the canvas, of whole graphs, and of what may keep a page from being shown."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.e2e import scenes
from tests.e2e.conftest import OpenPage
from tests.e2e.graphs import large_graph
from tests.e2e.scenes import Scene, opened
from tests.e2e.site import Site
from tests.e2e.talk import node, press
from tests.e2e.test_asked import rename
from tests.e2e.test_importing import import_again
from tests.support.scripted_provider import ScriptedProvider


def draft_in_conflict(
    open_page: OpenPage, site: Site, script: ScriptedProvider, theme: str
) -> Page:
    page = inspector(open_page, site, script, theme)
    other = open_page(site)
    page.get_by_label("Name of the node").fill("Half a na")
    rename(other, "fetch-api", "Theirs")
    expect(page.locator(".inspector .stale:visible")).to_be_visible()
    return page


def find_dialog(open_page: OpenPage, site: Site, script: ScriptedProvider, theme: str) -> Page:
    page = opened(open_page, site, theme)
    page.keyboard.press("Control+k")
    expect(page.locator("dialog input")).to_be_focused()
    page.keyboard.type("fetch")
    expect(page.locator("dialog [role=status]")).to_contain_text("found")
    return page


def inspector(open_page: OpenPage, site: Site, script: ScriptedProvider, theme: str) -> Page:
    page = opened(open_page, site, theme)
    node(page, "fetch-api").focus()
    page.keyboard.press("Enter")
    expect(page.locator(".inspector")).to_be_visible()
    return page


def help_dialog(open_page: OpenPage, site: Site, script: ScriptedProvider, theme: str) -> Page:
    page = opened(open_page, site, theme)
    page.locator(".stage").focus()
    page.keyboard.press("?")
    expect(page.locator("dialog")).to_be_visible()
    return page


def palette(open_page: OpenPage, site: Site, script: ScriptedProvider, theme: str) -> Page:
    page = inspector(open_page, site, script, theme)
    page.get_by_role("button", name="Add a node after it").click()
    expect(page.locator("dialog .palette-type").first).to_be_visible()
    return page


def context_menu(open_page: OpenPage, site: Site, script: ScriptedProvider, theme: str) -> Page:
    page = opened(open_page, site, theme)
    node(page, "fetch-api").click(button="right")
    expect(page.get_by_role("menu")).to_be_visible()
    return page


def asking_about_several(
    open_page: OpenPage, site: Site, script: ScriptedProvider, theme: str
) -> Page:
    page = opened(open_page, site, theme)
    page.locator(".stage").focus()
    page.keyboard.press("Control+a")
    node(page, "fetch-api").click(button="right")
    page.get_by_role("menuitem", name="Ask about it").click()
    expect(page.locator(".composer .block")).to_have_count(7)
    return page


def timeline(open_page: OpenPage, site: Site, script: ScriptedProvider, theme: str) -> Page:
    """Two moments compared."""
    page = opened(open_page, site, theme)
    rename(page, "fetch-api", "Players")
    page.locator("header").get_by_label("Timeline", exact=True).click()
    expect(page.get_by_role("slider")).not_to_have_attribute("max", "0")
    page.get_by_role("slider").press("Home")
    page.get_by_role("button", name="Compare from here").click()
    page.get_by_role("slider").press("End")
    expect(page.locator(".timeline .note, .ghost").first).to_be_attached()
    return page


def tidy(open_page: OpenPage, site: Site, script: ScriptedProvider, theme: str) -> Page:
    page = opened(open_page, site, theme)
    page.get_by_role("button", name="Tidy").click()
    expect(page.locator(".tidy-bar")).to_be_visible()
    return page


def everywhere(open_page: OpenPage, site: Site, script: ScriptedProvider, theme: str) -> Page:
    page = inspector(open_page, site, script, theme)
    page.get_by_role("button", name="What depends on this").click()
    page.locator("dialog li button.link").first.click()
    expect(page.locator("dialog")).to_contain_text("refers to it")
    return page


def nothing_yet(open_page: OpenPage, site: Site, script: ScriptedProvider, theme: str) -> Page:
    page = opened(open_page, site, theme, panel="agents")
    expect(page.locator("#panel-agents")).to_contain_text("No agent")
    return page


def graph_gone(open_page: OpenPage, site: Site, script: ScriptedProvider, theme: str) -> Page:
    page = opened(open_page, site, theme, graph=False)
    page.evaluate("location.hash = '#graph=none'")
    expect(page.locator(".notice h2")).to_be_visible()
    return page


def server_away(open_page: OpenPage, site: Site, script: ScriptedProvider, theme: str) -> Page:
    page = opened(open_page, site, theme)
    site.stop()
    expect(page.locator("body[data-offline]")).to_be_attached()
    return page


def sign_in(open_page: OpenPage, site: Site, script: ScriptedProvider, theme: str) -> Page:
    page = opened(open_page, site, theme)
    refused = {"error": {"code": "unauthorized", "message": "Sign in first."}}
    page.route("**/api/**", lambda route: route.fulfill(status=401, json=refused))
    page.locator("#tab-threads").dispatch_event("click")
    # Another request of the page may have asked for the sign-in before those of the panel.
    expect(page.locator("#panel-threads [role=alert]")).to_be_visible()
    expect(page.locator("#token")).to_be_visible()
    return page


def administration(open_page: OpenPage, site: Site, script: ScriptedProvider, theme: str) -> Page:
    page = opened(open_page, site, theme, panel="settings")
    page.locator("summary", has_text="Limits").click()
    page.get_by_role("button", name="Look now").click()
    expect(page.locator(".findings li").first).to_be_visible()
    expect(page.get_by_role("row", name="NODIUS_RATE_LIMIT")).to_be_visible()
    return page


def from_far_away(open_page: OpenPage, site: Site, script: ScriptedProvider, theme: str) -> Page:
    """A large graph as it is painted when all of it is in view."""
    site.import_graph(large_graph("large", 2_000), "large")
    page = open_page(site, "large", color_scheme=theme, reduced_motion="reduce")
    page.locator(".stage").focus()
    page.keyboard.press("f")
    expect(page.locator(".far")).to_be_visible()
    return page


def imported_again(open_page: OpenPage, site: Site, script: ScriptedProvider, theme: str) -> Page:
    """What became of a file that was imported again, which somebody is to decide on."""
    page = opened(open_page, site, theme)
    rename(page, "error-handler", "Mine")
    page.locator(".save-mark.unsaved").click()
    page.wait_for_selector(".save-mark.saved")
    page.get_by_role("button", name="All graphs").first.click()
    import_again(page, error_handler="Theirs", fetch_api="Fetched")
    press(page.locator(".toast").filter(has_text="imported again"), "Details…")
    expect(page.get_by_role("dialog")).to_be_visible()
    return page


def no_graphs(open_page: OpenPage, site: Site, script: ScriptedProvider, theme: str) -> Page:
    """A workspace with no graph."""
    site.rest("DELETE", "/api/graphs/testgraph001")
    page = opened(open_page, site, theme, graph=False)
    expect(page.locator(".graph-card")).to_have_count(0)
    return page


SCENES: tuple[Scene, ...] = (
    scenes.home,
    administration,
    scenes.canvas_and_answer,
    scenes.proposal,
    scenes.proposal_in_edit,
    scenes.review_queue,
    scenes.reviewing,
    scenes.code_wide,
    find_dialog,
    scenes.thread_menu,
    scenes.threads,
    scenes.automation,
    scenes.automation_form,
    scenes.automation_made,
    scenes.talking,
    scenes.policy_levels,
    scenes.agent_document,
    scenes.agent_chat,
    scenes.call_record,
    inspector,
    scenes.remark,
    scenes.history_and_audit,
    draft_in_conflict,
    help_dialog,
    palette,
    context_menu,
    asking_about_several,
    timeline,
    tidy,
    from_far_away,
    imported_again,
    no_graphs,
    scenes.trace,
    scenes.usage,
    everywhere,
    scenes.decided_and_inbox,
    nothing_yet,
    graph_gone,
    server_away,
    sign_in,
)
