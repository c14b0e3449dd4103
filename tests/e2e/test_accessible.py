"""Every part of the page as axe-core checks it, in both themes: nothing that keeps somebody from using it."""

from __future__ import annotations

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

GRAVE = ("serious", "critical")
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
    expect(page.locator(".inspector .stale")).to_be_visible()
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


SCENES: tuple[Scene, ...] = (
    home,
    canvas_and_answer,
    proposal,
    proposal_in_edit,
    review_queue,
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
)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_nothing_keeps_somebody_from_using(
    scene: Scene, theme: str, site: Site, script: ScriptedProvider, open_page: OpenPage, trouble: Trouble
) -> None:
    page = scene(open_page, site, script, theme)
    if scene is agent_document:
        trouble.forgive("422")  # what is wrong in the document
    found = Axe().run(page).response["violations"]
    grave = [
        f"{one['impact']} {one['id']}: {at['html'][:160]} {at['failureSummary'][:260]}"
        for one in found
        if one["impact"] in GRAVE
        for at in one["nodes"]
    ]
    assert not grave, "\n".join(grave)
