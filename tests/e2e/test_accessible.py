"""Every part of the page as axe-core checks it, in both themes: nothing that keeps somebody
from using it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import BrowserContext, Page, Route, expect

from tests.e2e.canvas_scenes import SCENES
from tests.e2e.conftest import PATIENCE_MS, OpenPage, Trouble
from tests.e2e.scenes import Scene
from tests.e2e.site import GRAPH, Site
from tests.e2e.talk import CHANGE, RENAME, card, node, press, proposes
from tests.e2e.test_asked import move, moved
from tests.e2e.test_review import proposed
from tests.support.scripted_provider import ScriptedProvider

NAMED = re.compile(
    r'^ *- (button|link|tab|menuitem|dialog|region|heading|img) "((?:[^"\\]|\\.)*)"', re.MULTILINE
)
BARE_KEY = re.compile(r"[a-z]+[0-9]*(?:[-_.][a-z0-9]+)+|[0-9a-f]{12,}|\{\w+\}")
"""What a screen reader must not be given as a name: `fetch-api`, `graphs.title`, an id."""
COLOURS_REST = "() => !document.getAnimations().some((one) => one instanceof CSSTransition)"
UNLABELLED = """() => {
  const named = (select) => [...select.labels, select.closest("fieldset")?.querySelector("legend")];
  const isShown = (select) => named(select).filter(Boolean).some((label) => {
    const range = document.createRange();
    const texts = document.createTreeWalker(label, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
      if (texts.currentNode.parentElement.closest("select")) continue;
      range.selectNodeContents(texts.currentNode);
      const isHidden = texts.currentNode.parentElement.closest(".sr-only");
      if (range.getBoundingClientRect().width > 4 && !isHidden) return true;
    }
    return false;
  });
  const selects = [...document.querySelectorAll("select")].filter((one) => one.checkVisibility());
  return selects.filter((one) => !isShown(one)).map((one) => one.outerHTML.slice(0, 120));
}"""
"""The selects that people see without a name beside them."""
EXPECTED = {
    "agent_document": ("422",),
    "graph_gone": ("404",),
    "server_away": ("ERR_CONNECTION", "WebSocket"),
    "sign_in": ("401",),
}
"""What the browser says of the answers that a scene is about."""


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_nothing_keeps_somebody_from_using(
    scene: Scene, site: Site, script: ScriptedProvider, open_page: OpenPage, trouble: Trouble
) -> None:
    """Both themes as axe-core sees them, and names in words: no control is called by a key
    of the graph.
    """
    page = scene(open_page, site, script, "light")
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        page.wait_for_function(COLOURS_REST)
        found = Axe().run(page).response["violations"]
        wrong = [
            f"{theme} {one['impact']} {one['id']}: {at['html'][:160]} {at['failureSummary'][:260]}"
            for one in found
            for at in one["nodes"]
        ]
        assert not wrong, "\n".join(wrong)
    assert page.evaluate(UNLABELLED) == []
    named = NAMED.findall(page.locator("body").aria_snapshot())
    assert len(named) > 3
    assert [one for one in named if BARE_KEY.fullmatch(one[1])] == []
    trouble.forgive(*EXPECTED.get(scene.__name__, ()))


Contexts = Callable[..., BrowserContext]
AWAY = """
window.WebSocket = class extends WebSocket {
  constructor(url) { super(window.isAway ? `ws://${location.host}/nowhere` : url); }
};
"""
PAST_THE_LIMIT = "00:40"


def hangs(page: Page, address: str, count: int = 1000) -> list[Route]:
    """Let the next so many requests to an address go unanswered; those that came are
    in the list.
    """
    held: list[Route] = []
    page.route(
        address, lambda route: held.append(route) if len(held) < count else route.continue_()
    )
    return held


def held_back(page: Page, held: list[Route]) -> None:
    """Wait until a request came and was left without an answer."""
    until = time.monotonic() + PATIENCE_MS / 1000
    while not held:
        assert time.monotonic() < until, "no such request came"
        page.wait_for_timeout(20)


def timed(contexts: Contexts) -> BrowserContext:
    """A browser whose clock the test may put forward."""
    context = contexts()
    context.clock.install()
    return context


def reads(page: Page) -> list[str]:
    """The readings of a whole graph from now on."""
    found: list[str] = []
    page.on(
        "request", lambda request: found.append(request.url) if "/view" in request.url else None
    )
    return found


def test_a_request_that_hangs_does_not_stop_the_review_queue(
    site: Site, script: ScriptedProvider, open_page: OpenPage, contexts: Contexts, trouble: Trouble
) -> None:
    script.play(proposes(CHANGE))
    page = open_page(site, panel="review", context=timed(contexts))
    expect(page.get_by_text("Nothing waits for a decision")).to_be_visible()
    held = hangs(page, "**/api/approvals?**", count=1)
    page.get_by_label("Graphs", exact=True).select_option("all")
    held_back(page, held)
    proposed(site)
    page.clock.fast_forward(PAST_THE_LIMIT)
    expect(card(page, "pending", "review")).to_be_visible()
    trouble.forgive("ERR_ABORTED")


@pytest.mark.parametrize("is_decided", [True, False])
def test_a_decision_whose_answer_never_came_is_looked_up_and_said(
    site: Site,
    script: ScriptedProvider,
    open_page: OpenPage,
    contexts: Contexts,
    trouble: Trouble,
    is_decided: bool,
) -> None:
    script.play(proposes(CHANGE))
    approval = proposed(site)
    page = open_page(site, panel="review", context=timed(contexts))
    held = hangs(page, "**/decision")
    press(card(page, "pending", "review"), "Approve")
    held_back(page, held)
    if is_decided:
        site.rest("POST", f"/api/approvals/{approval}/decision", json={"verdict": "approve"})
    page.clock.fast_forward(PAST_THE_LIMIT)
    if is_decided:
        expect(page.get_by_role("button", name="Decided 1")).to_be_visible()
    else:
        expect(card(page, "pending", "review")).to_contain_text("did not answer in time")
        expect(
            card(page, "pending", "review").get_by_role("button", name="Approve", exact=True)
        ).to_be_enabled()
    trouble.forgive("ERR_ABORTED")


def test_a_graph_that_did_not_change_is_not_read_again_after_a_break(
    offline_site: Site, open_page: OpenPage
) -> None:
    one = open_page(offline_site)
    two = open_page(offline_site)
    found = reads(one)
    before = offline_site.node("root")["posX"]
    one.evaluate("() => dispatchEvent(new Event('offline'))")
    move(two, "root")
    moved(one, offline_site, before)
    one.wait_for_selector(".save-mark.unsaved")
    assert found == []


def test_a_graph_that_did_not_change_is_not_read_again_when_the_server_was_restarted(
    page: Page, offline_site: Site, trouble: Trouble
) -> None:
    found = reads(page)
    before = offline_site.node("root")["posX"]
    offline_site.stop()
    page.wait_for_selector(".connection.closed", state="attached")
    offline_site.start()
    page.evaluate("() => dispatchEvent(new Event('online'))")
    page.wait_for_selector(".save-mark.saved")
    move(page, "root")
    page.wait_for_selector(".save-mark.unsaved")
    assert offline_site.node("root")["posX"] > before
    assert found == []
    page.context.close()
    trouble.forgive("WebSocket", "ERR_CONNECTION")


def test_what_was_stored_past_the_editors_during_a_break_is_read(
    site: Site, script: ScriptedProvider, open_page: OpenPage, contexts: Contexts, trouble: Trouble
) -> None:
    script.play(proposes(RENAME))
    approval = proposed(site)
    context = contexts()
    context.add_init_script(AWAY)
    page = open_page(site, context=context)
    found = reads(page)
    page.evaluate("() => (window.isAway = true)")
    site.stop()
    page.wait_for_selector(".connection.closed", state="attached")
    site.start()
    site.rest("POST", f"/api/approvals/{approval}/decision", json={"verdict": "approve"})
    page.evaluate("() => (window.isAway = false, dispatchEvent(new Event('online')))")
    expect(node(page, "fetch-api")).to_contain_text("Get the players")
    assert [GRAPH in address for address in found] == [True]
    page.context.close()
    trouble.forgive("WebSocket", "ERR_CONNECTION")
