"""The parts of the page as somebody sees them: each scene opens one, for checks
and for pictures.
"""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Page, expect

from tests.e2e.conftest import OpenPage
from tests.e2e.site import Site
from tests.e2e.talk import CHANGE, answered, ask, card, press, press_more, proposes
from tests.e2e.test_agents import document as sample_agent
from tests.e2e.test_automation_form import add_block
from tests.e2e.voice import voice_agent
from tests.support.scripted_provider import Says, ScriptedProvider, call

MARKDOWN = (
    "See {{node:fetch-api}} “Fetch NBA players”.\n\n"
    "| a | b |\n|---|---|\n| 1 | `2` |\n\n```js\nlet x;\n```"
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

SILENT_MICROPHONE = """() => { navigator.mediaDevices.getUserMedia = async () =>
  new AudioContext().createMediaStreamDestination().stream; }"""

Scene = Callable[[OpenPage, Site, ScriptedProvider, str], Page]


def opened(
    open_page: OpenPage, site: Site, theme: str, graph: bool = True, panel: str = "chat"
) -> Page:
    options = {"color_scheme": theme, "reduced_motion": "reduce"}
    return open_page(site, panel=panel, **options) if graph else open_page(site, None, **options)


def home(open_page: OpenPage, site: Site, script: ScriptedProvider, theme: str) -> Page:
    page = opened(open_page, site, theme, graph=False)
    expect(page.locator(".graph-card").first).to_be_visible()
    return page


def canvas_and_answer(
    open_page: OpenPage, site: Site, script: ScriptedProvider, theme: str
) -> Page:
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
    press_more(card(page, "pending"), "Edit…")
    return page


def review_queue(open_page: OpenPage, site: Site, script: ScriptedProvider, theme: str) -> Page:
    script.play(proposes(CHANGE))
    site.rest("POST", "/api/ai/chat", json={"graphKey": "testgraph001", "message": "change it"})
    page = opened(open_page, site, theme, panel="review")
    expect(card(page, "pending", "review")).to_be_visible()
    return page


def remark(open_page: OpenPage, site: Site, script: ScriptedProvider, theme: str) -> Page:
    page = review_queue(open_page, site, script, theme)
    press_more(card(page, "pending", "review"), "Approve with a remark…")
    return page


def history_and_audit(
    open_page: OpenPage, site: Site, script: ScriptedProvider, theme: str
) -> Page:
    page = review_queue(open_page, site, script, theme)
    press(card(page, "pending", "review"), "Approve")
    press(page, "History")
    page.locator(".history-item summary").first.click()
    page.locator(".audit summary").click()
    expect(page.locator(".audit-list li")).to_have_count(2)
    return page


def reviewing(open_page: OpenPage, site: Site, script: ScriptedProvider, theme: str) -> Page:
    """Two of one answer that exclude two others, one with a comment and a field for the next, and
    filters.
    """
    script.play(*[proposes(CHANGE, {**CHANGE, "changes": {"data.note": n}}) for n in ("a", "b")])
    for _ in range(2):
        site.rest("POST", "/api/ai/chat", json={"graphKey": "testgraph001", "message": "change it"})
    first = site.rest("GET", "/api/approvals")["approvals"][0]["id"]
    site.rest("POST", f"/api/approvals/{first}/comments", json={"text": "Why?"})
    page = opened(open_page, site, theme, panel="review")
    page.locator(".filter-fold").click()
    page.locator(f'.review-row[data-approval="{first}"]').click()
    expect(page.locator(".card-conflict").first).to_be_visible()
    expect(page.get_by_label("What do you want to say")).to_be_visible()
    return page


def code_wide(open_page: OpenPage, site: Site, script: ScriptedProvider, theme: str) -> Page:
    """The code of a proposal over the whole page, which cannot be parsed."""
    code = "// Done.\nconst text = 'a' + 10;\nreturn (text;"
    script.play(proposes({**CHANGE, "changes": {"process": code}}))
    site.rest("POST", "/api/ai/chat", json={"graphKey": "testgraph001", "message": "change it"})
    page = opened(open_page, site, theme, panel="review")
    press(card(page, "pending", "review"), "Open wide")
    expect(page.locator(".code-line.is-broken")).to_be_visible()
    return page


def thread_menu(open_page: OpenPage, site: Site, script: ScriptedProvider, theme: str) -> Page:
    page = threads(open_page, site, script, theme)
    page.locator("#panel-threads .more-menu summary").click()
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


def automation_made(open_page: OpenPage, site: Site, script: ScriptedProvider, theme: str) -> Page:
    page = opened(open_page, site, theme, panel="automations")
    page.get_by_role("button", name="What changed", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Make it").click()
    expect(page.locator("article.auto")).to_have_count(1)
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
    page.get_by_text("Versions").click()
    for section in ("tools", "secrets", "outcomes"):
        page.locator(f"[data-section={section}]").evaluate("(section) => (section.open = true)")
    tool = page.locator(".doc-tool").first
    tool.locator("summary").first.click()
    tool.get_by_text("Try it").click()
    press(page.locator("#panel-agents"), "Check")
    expect(page.locator(".doc-form [aria-invalid=true]").first).to_be_attached()
    return page


def agent_chat(open_page: OpenPage, site: Site, script: ScriptedProvider, theme: str) -> Page:
    """A conversation with an agent, which was ended."""
    site.rest(
        "PUT",
        "/api/agents/desk",
        json={"document": {**sample_agent("http://127.0.0.1:9"), **ALONE}},
    )
    site.rest("POST", "/api/agents/desk/start")
    script.play("Good day.")
    said = {"graphKey": "", "agentId": "desk", "message": "Hello"}
    site.rest(
        "POST", f"/api/ai/thread/{site.rest('POST', '/api/ai/chat', json=said)['threadId']}/end"
    )
    page = opened(open_page, site, theme, panel="threads")
    page.locator("#panel-threads select").select_option("all")
    page.locator(".thread").click()
    page.get_by_text("What the conversation knows").click()
    return page


def talking(open_page: OpenPage, site: Site, script: ScriptedProvider, theme: str) -> Page:
    """A conversation by microphone that goes on; silence stands for the microphone's sound."""
    site.stop()
    site.settings["realtime"] = "double"
    site.start()
    site.rest("PUT", "/api/agents/desk", json={"document": voice_agent("testgraph001")})
    site.rest("POST", "/api/agents/desk/start")
    page = opened(open_page, site, theme, panel="calls")
    page.evaluate(SILENT_MICROPHONE)
    press(page.locator("#panel-calls .talk"), "Talk")
    expect(page.locator(".talk .is-listening, .talk .is-speaking").first).to_be_visible()
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


def trace(open_page: OpenPage, site: Site, script: ScriptedProvider, theme: str) -> Page:
    page = canvas_and_answer(open_page, site, script, theme)
    page.get_by_role("button", name="How it came about").click()
    search = page.get_by_role("treeitem", name="Search in the graph")
    search.click()
    search.press("ArrowRight")
    expect(page.get_by_role("treeitem", name="Words of the text")).to_be_visible()
    return page


def usage(open_page: OpenPage, site: Site, script: ScriptedProvider, theme: str) -> Page:
    page = threads(open_page, site, script, theme)
    page.get_by_role("button", name="Usage").click()
    expect(page.locator("dialog table")).to_be_visible()
    return page


def decided_and_inbox(
    open_page: OpenPage, site: Site, script: ScriptedProvider, theme: str
) -> Page:
    page = review_queue(open_page, site, script, theme)
    press(card(page, "pending", "review"), "Reject…")
    page.keyboard.type("No need.")
    page.keyboard.press("Enter")
    page.locator("[data-view=inbox]").click()
    expect(card(page, "rejected", "review")).to_be_visible()
    return page
