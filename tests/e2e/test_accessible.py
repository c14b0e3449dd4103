"""Every part of the page as axe-core checks it, in both themes: nothing that keeps somebody from using it."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.e2e.conftest import OpenPage, Trouble
from tests.e2e.site import Site
from tests.e2e.talk import CHANGE, answered, ask, card, node, press, proposes
from tests.e2e.test_agents import document as sample_agent
from tests.e2e.test_automation_form import add_block
from tests.e2e.test_drafts import rename
from tests.support.scripted_provider import Says, ScriptedProvider, call

NAMED = re.compile(
    r'^ *- (button|link|tab|menuitem|dialog|region|heading|img) "((?:[^"\\]|\\.)*)"', re.MULTILINE
)
BARE_KEY = re.compile(r"[a-z]+[0-9]*(?:[-_.][a-z0-9]+)+|[0-9a-f]{12,}|\{\w+\}")
"""What a screen reader must not be given as a name: `fetch-api`, `graphs.title`, an id."""
COLOURS_REST = "() => !document.getAnimations().some((one) => one instanceof CSSTransition)"
EXPECTED = {
    "agent_document": ("422",),
    "graph_gone": ("404",),
    "server_away": ("ERR_CONNECTION", "WebSocket"),
    "sign_in": ("401",),
}
"""What the browser says of the answers that a scene is about."""

MARKDOWN = (
    "See {{node:fetch-api}} “Fetch NBA players”.\n\n| a | b |\n|---|---|\n| 1 | `2` |\n\n```js\nlet x;\n```"
)

ALONE = {
    "lifecycle": {},
    "secrets": [],
    "tools": {},
    "session": {"mode": "inline", "instructions": "Be brief."},
}

CALL = {
    "callId": "c1",
    "agentId": "desk",
    "channel": "phone",
    "callerPhone": None,
    "status": "ended",
    "startedTime": 1_790_000_000_000,
    "durationSec": 42,
    "endReason": "caller_hung_up",
    "outcome": "answered",
    "flags": {"message_left": True},
    "ctx": {"name": "Ann"},
    "transcript": [
        {"itemId": "a", "role": "system", "content": "Greet."},
        {"itemId": "b", "role": "user", "content": "Hello?"},
        {
            "itemId": "c",
            "role": "assistant",
            "content": "Good",
            "interrupted": True,
            "unheard": "day to you.",
        },
    ],
    "tools": [{"toolCallId": "t", "name": "search_nodes", "ok": True, "ms": 12}],
    "sources": [{"turn": 1, "graph": "testgraph001", "nodes": ["fetch-api", "error-handler"]}],
}

Scene = Callable[[OpenPage, Site, ScriptedProvider, str], Page]


def opened(open_page: OpenPage, site: Site, theme: str, graph: bool = True, panel: str = "chat") -> Page:
    options = {"color_scheme": theme, "reduced_motion": "reduce"}
    return open_page(site, panel=panel, **options) if graph else open_page(site, None, **options)


def home(open_page: OpenPage, site: Site, script: ScriptedProvider, theme: str) -> Page:
    page = opened(open_page, site, theme, graph=False)
    expect(page.locator(".graph-card").first).to_be_visible()
    return page


def canvas_and_answer(open_page: OpenPage, site: Site, script: ScriptedProvider, theme: str) -> Page:
    script.play(Says(text="Looking.", calls=[call("search_nodes", {"query": "fetch"})]), MARKDOWN)
    page = opened(open_page, site, theme)
    ask(page, "What does it do?")
    answered(page, "See Fetch NBA players").locator(".tool summary").click()
    page.mouse.move(300, 700)
    return page


def proposal(open_page: OpenPage, site: Site, script: ScriptedProvider, theme: str) -> Page:
    script.play(proposes(CHANGE))
    page = opened(open_page, site, theme)
    ask(page, "Make it a warning")
    expect(page.locator(".ghost")).to_have_count(1)
    return page


def proposal_in_edit(open_page: OpenPage, site: Site, script: ScriptedProvider, theme: str) -> Page:
    page = proposal(open_page, site, script, theme)
    press(card(page, "pending"), "Edit…")
    return page


def review_queue(open_page: OpenPage, site: Site, script: ScriptedProvider, theme: str) -> Page:
    script.play(proposes(CHANGE))
    site.rest("POST", "/api/ai/chat", json={"graphKey": "testgraph001", "message": "change it"})
    page = opened(open_page, site, theme, panel="review")
    expect(card(page, "pending", "review")).to_be_visible()
    return page


def remark(open_page: OpenPage, site: Site, script: ScriptedProvider, theme: str) -> Page:
    page = review_queue(open_page, site, script, theme)
    press(card(page, "pending", "review"), "Approve with a remark…")
    return page


def history_and_audit(open_page: OpenPage, site: Site, script: ScriptedProvider, theme: str) -> Page:
    page = review_queue(open_page, site, script, theme)
    press(card(page, "pending", "review"), "Approve")
    press(page, "History")
    page.locator(".history-item summary").first.click()
    page.locator(".audit summary").click()
    expect(page.locator(".audit-list li")).to_have_count(2)
    return page


def draft_in_conflict(open_page: OpenPage, site: Site, script: ScriptedProvider, theme: str) -> Page:
    page, other = inspector(open_page, site, script, theme), open_page(site)
    page.get_by_label("Name of the node").fill("Half a na")
    rename(other, "fetch-api", "Theirs")
    expect(page.locator(".inspector .stale:visible")).to_be_visible()
    return page


def reviewing(open_page: OpenPage, site: Site, script: ScriptedProvider, theme: str) -> Page:
    """Two of one answer that exclude two others, one with a comment and a field for the next."""
    script.play(*[proposes(CHANGE, {**CHANGE, "changes": {"data.note": n}}) for n in ("a", "b")])
    for _ in range(2):
        site.rest("POST", "/api/ai/chat", json={"graphKey": "testgraph001", "message": "change it"})
    first = site.rest("GET", "/api/approvals")["approvals"][0]["id"]
    site.rest("POST", f"/api/approvals/{first}/comments", json={"text": "Why?"})
    page = opened(open_page, site, theme, panel="review")
    expect(page.locator(".card-conflict").first).to_be_visible()
    expect(page.get_by_label("What do you want to say")).to_be_visible()
    return page


def find_dialog(open_page: OpenPage, site: Site, script: ScriptedProvider, theme: str) -> Page:
    page = opened(open_page, site, theme)
    page.keyboard.press("Control+k")
    expect(page.locator("dialog input")).to_be_focused()
    page.keyboard.type("fetch")
    expect(page.locator("dialog [role=status]")).to_contain_text("found")
    return page


def thread_menu(open_page: OpenPage, site: Site, script: ScriptedProvider, theme: str) -> Page:
    page = threads(open_page, site, script, theme)
    page.locator(".thread-menu summary").click()
    return page


def threads(open_page: OpenPage, site: Site, script: ScriptedProvider, theme: str) -> Page:
    script.play("Yes.")
    site.rest("POST", "/api/ai/chat", json={"graphKey": "testgraph001", "message": "Is it so?"})
    page = opened(open_page, site, theme, panel="threads")
    expect(page.locator(".thread")).to_have_count(1)
    return page


def automation(open_page: OpenPage, site: Site, script: ScriptedProvider, theme: str) -> Page:
    """A run that ended, with its report and all that was said."""
    script.play("In words alone.", "Again.", "And again.")
    fields = {"graphKey": "testgraph001", "name": "Check", "message": "Look.", "cron": "0 2 * * *"}
    made = site.rest("POST", "/api/automations", json=fields)["id"]
    site.rest("POST", f"/api/automations/{made}/run")
    page = opened(open_page, site, theme, panel="automations")
    page.get_by_role("button", name="Runs: Check").click()
    expect(page.locator(".auto-run")).to_contain_text("as planned")
    page.locator(".auto-run").click()
    page.locator(".auto-messages > summary").click()
    expect(page.locator(".auto-report")).to_be_visible()
    return page


def automation_form(open_page: OpenPage, site: Site, script: ScriptedProvider, theme: str) -> Page:
    page = opened(open_page, site, theme, panel="automations")
    page.get_by_role("button", name="Nightly check", exact=True).click()
    page.locator(".auto-budget summary").click()
    page.locator("#auto-when").select_option("weekly")
    expect(page.locator(".auto-next li")).to_have_count(5)
    add_block(page, page.locator("#auto-message"), "fetch nba")
    page.locator(".block select").select_option("dates")
    expect(page.locator(".block-offer")).to_be_visible()
    return page


def policy_levels(open_page: OpenPage, site: Site, script: ScriptedProvider, theme: str) -> Page:
    page = opened(open_page, site, theme, panel="review")
    page.get_by_role("button", name="Who must be asked").click()
    expect(page.locator(".policy-level")).to_have_count(3)
    return page


def agent_document(open_page: OpenPage, site: Site, script: ScriptedProvider, theme: str) -> Page:
    """A document with what is wrong marked in it, a tool that is tried, no deliveries."""
    site.rest("PUT", "/api/agents/desk", json={"document": sample_agent("http://127.0.0.1:9")})
    page = opened(open_page, site, theme, panel="agents")
    page.get_by_role("button", name="Show: Desk").click()
    for closed in ("Versions", "Try a tool without sending"):
        page.get_by_text(closed).click()
    press(page.locator("#panel-agents"), "Check")
    expect(page.locator(".doc-marks mark").first).to_be_attached()
    return page


def agent_chat(open_page: OpenPage, site: Site, script: ScriptedProvider, theme: str) -> Page:
    """A conversation with an agent, which was ended."""
    site.rest("PUT", "/api/agents/desk", json={"document": {**sample_agent("http://127.0.0.1:9"), **ALONE}})
    site.rest("POST", "/api/agents/desk/start")
    script.play("Good day.")
    said = {"graphKey": "", "agentId": "desk", "message": "Hello"}
    site.rest("POST", f"/api/ai/thread/{site.rest('POST', '/api/ai/chat', json=said)['threadId']}/end")
    page = opened(open_page, site, theme, panel="threads")
    page.locator("#panel-threads select").select_option("all")
    page.locator(".thread").click()
    page.get_by_text("What the conversation knows").click()
    return page


def call_record(open_page: OpenPage, site: Site, script: ScriptedProvider, theme: str) -> Page:
    """A call that is over, below the button to talk that says why it cannot be pressed."""
    page = opened(open_page, site, theme)
    page.route("**/api/calls*", lambda route: route.fulfill(json={"calls": [CALL]}))
    page.route("**/api/calls/*", lambda route: route.fulfill(json=CALL))
    page.locator("#tab-calls").click()
    expect(page.locator("#talk-why")).to_contain_text("NODIUS_REALTIME=double")
    page.locator(".call-row").click()
    page.get_by_text("What the call knows").click()
    expect(page.locator(".call-line s")).to_have_text("day to you.")
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


def asking_about_several(open_page: OpenPage, site: Site, script: ScriptedProvider, theme: str) -> Page:
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


def trace(open_page: OpenPage, site: Site, script: ScriptedProvider, theme: str) -> Page:
    page = canvas_and_answer(open_page, site, script, theme)
    page.get_by_role("button", name="How it came about").click()
    expect(page.locator(".trace-spans > li").first).to_be_visible()
    return page


def usage(open_page: OpenPage, site: Site, script: ScriptedProvider, theme: str) -> Page:
    page = threads(open_page, site, script, theme)
    page.get_by_role("button", name="Usage").click()
    expect(page.locator("dialog table")).to_be_visible()
    return page


def everywhere(open_page: OpenPage, site: Site, script: ScriptedProvider, theme: str) -> Page:
    page = inspector(open_page, site, script, theme)
    page.get_by_role("button", name="What depends on this").click()
    page.locator("dialog li button.link").first.click()
    expect(page.locator("dialog")).to_contain_text("refers to it")
    return page


def decided_and_inbox(open_page: OpenPage, site: Site, script: ScriptedProvider, theme: str) -> Page:
    page = review_queue(open_page, site, script, theme)
    press(card(page, "pending", "review"), "Reject…")
    page.keyboard.type("No need.")
    page.keyboard.press("Enter")
    page.locator("[data-view=inbox]").click()
    expect(card(page, "rejected", "review")).to_be_visible()
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
    page.locator("#tab-threads").click()
    expect(page.locator("#token")).to_be_visible()
    return page


def settings_dialog(open_page: OpenPage, site: Site, script: ScriptedProvider, theme: str) -> Page:
    page = opened(open_page, site, theme)
    page.get_by_role("button", name="Settings").click()
    page.get_by_text("Limits").click()
    expect(page.get_by_role("row", name="NODIUS_RATE_LIMIT")).to_be_visible()
    return page


SCENES: tuple[Scene, ...] = (
    home,
    settings_dialog,
    canvas_and_answer,
    proposal,
    proposal_in_edit,
    review_queue,
    reviewing,
    find_dialog,
    thread_menu,
    threads,
    automation,
    automation_form,
    policy_levels,
    agent_document,
    agent_chat,
    call_record,
    inspector,
    remark,
    history_and_audit,
    draft_in_conflict,
    help_dialog,
    palette,
    context_menu,
    asking_about_several,
    timeline,
    tidy,
    trace,
    usage,
    everywhere,
    decided_and_inbox,
    nothing_yet,
    graph_gone,
    server_away,
    sign_in,
)


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_nothing_keeps_somebody_from_using(
    scene: Scene, site: Site, script: ScriptedProvider, open_page: OpenPage, trouble: Trouble
) -> None:
    """Both themes as axe-core sees them, and names in words: no control is called by a key of the graph."""
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
    named = NAMED.findall(page.locator("body").aria_snapshot())
    assert len(named) > 3
    assert [one for one in named if BARE_KEY.fullmatch(one[1])] == []
    trouble.forgive(*EXPECTED.get(scene.__name__, ()))
