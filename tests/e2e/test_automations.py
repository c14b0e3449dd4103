"""A day in the life of an automation on the page: made, run, decided by two people,
not asked again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from graphrag.leases import now_ms
from tests.e2e.conftest import OpenPage, Trouble
from tests.e2e.site import GRAPH, PATIENCE_S, Site, running_site
from tests.e2e.talk import HOSTILE, card, press
from tests.e2e.test_review import key_of, signed_in
from tests.support.service import SECRET, token

Contexts = Callable[..., BrowserContext]
PANEL = "automations"
RECORDINGS = Path(__file__).parents[1] / "data" / "recordings"
NAME = f"Nightly {HOSTILE}"[:80]


def _step(name: str, x: int, reference: str | None = None) -> dict[str, Any]:
    value = "" if reference is None else "={{ $('" + reference + "').item.json.id }}"
    return {
        "id": name,
        "name": name,
        "type": "n8n-nodes-base.set",
        "typeVersion": 1,
        "position": [x, 0],
        "parameters": {"value": value},
    }


def _workflow() -> dict[str, Any]:
    """Return an n8n workflow in which two nodes call another by a name that
    is spelled otherwise.
    """
    steps = [
        _step("Read Order", 0),
        _step("Charge", 300, "Read order"),
        _step(HOSTILE, 600, "read Order"),
    ]
    names = [step["name"] for step in steps]
    wires = {
        one: {"main": [[{"node": other, "type": "main", "index": 0}]]}
        for one, other in pairwise(names)
    }
    return {"name": f"Orders {HOSTILE}", "nodes": steps, "connections": wires}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Site]:
    """A service with sign-in and without a language model."""
    with running_site(tmp_path, graph=False, auth_secret=SECRET) as running:
        yield running


def three(within: Locator | Page) -> list[str]:
    """How a run ended, what it found, and what waits."""
    return within.locator(".auto-three dd").all_inner_texts()


def set_to_night(place: Site) -> dict[str, Any]:
    """Set the clock of the automations to when the only one runs next; return it as it
    is soon after.
    """
    (automation,) = place.rest("GET", "/api/automations", token=token())["automations"]
    at = automation["nextTime"]

    async def move() -> None:
        workspace = await place.state.workspace("default")
        shift = at + 1_000 - now_ms()
        for store in (workspace.worker.automations, workspace.automations.store):
            store.clock = lambda: now_ms() + shift
        place.state.backend.scheduler.wake()

    place.run(move)
    deadline = time.monotonic() + PATIENCE_S
    while automation["nextTime"] == at:
        assert time.monotonic() < deadline, "the night brought nothing"
        time.sleep(0.1)
        (automation,) = place.rest("GET", "/api/automations", token=token())["automations"]
    return automation


def shown_run(page: Page, *, ended: bool = False) -> Locator:
    """Open the last run of the only automation; return its view."""
    page.get_by_role("button", name=f"{'Runs' if ended else 'Show the run'}: {NAME}").click()
    if ended:
        page.locator("article.auto .auto-run").first.click()
    view = page.locator(".auto-run-view")
    expect(view).to_have_attribute("aria-busy", "false")
    return view


def import_orders(editor: Page) -> None:
    with editor.expect_file_chooser() as chooser:
        editor.get_by_role("button", name="Import").first.click()
    payload = json.dumps(_workflow()).encode()
    chooser.value.set_files(
        {"name": "orders.json", "mimeType": "application/json", "buffer": payload}
    )
    editor.wait_for_selector("main[data-state=ready]")


def make_by_keyboard(editor: Page) -> None:
    """Make the automation of a template, for an hour in another zone, after what is
    wrong was said.
    """
    editor.keyboard.press("Alt+3")
    editor.get_by_role("button", name="Nightly check", exact=True).click()
    form = editor.get_by_role("dialog")
    form.get_by_label("Name", exact=True).fill(NAME)
    form.get_by_label("Time", exact=True).fill("02:30")
    expect(form.locator(".auto-next li")).to_have_count(5)
    expect(form.locator(".auto-next")).to_contain_text("at 02:30 every day")
    form.get_by_label("Time zone").fill("Mars/Olympus")
    expect(form.locator("#auto-zone-error")).to_contain_text("there is no time zone")
    form.get_by_text("Limits").click()
    form.get_by_label("Model calls a run").fill("0")
    form.get_by_label("Time zone").fill("Europe/Paris")
    expect(form.locator("#auto-zone-error")).to_be_hidden()
    press(form, "Make it")
    expect(form.locator("#auto-modelCalls-error")).to_be_visible()
    expect(form.get_by_label("Model calls a run")).to_be_focused()
    form.get_by_label("Model calls a run").fill("10")
    form.get_by_label("Model calls a run").press("Enter")
    row = editor.locator("article.auto")
    expect(row).to_contain_text(NAME)
    title = row.locator(".auto-schedule time").get_attribute("title") or ""
    assert "(Europe/Paris)" in title
    assert "(America/New_York)" in title


def see_what_it_would_do(place: Site, editor: Page) -> None:
    """Try it before its first night: two repairs are shown, and nothing waits afterwards."""
    editor.get_by_role("button", name=f"Try: {NAME}").click()
    view = editor.locator(".auto-run-view")
    expect(view.get_by_role("heading", name="It would propose 2 changes")).to_be_visible()
    expect(view.locator(".auto-would .change")).to_have_count(2)
    assert place.rest("GET", "/api/approvals", token=token())["approvals"] == []
    view.get_by_role("button", name="Back to the automations").click()
    expect(editor.locator("article.auto")).to_contain_text("It has not run yet")


def decide_by_two(place: Site, editor: Page, reviewer: Page, key: str) -> None:
    """Run it: a reviewer rejects one repair, its owner approves the other, and the run ends."""
    set_to_night(place)
    view = shown_run(editor)
    expect(card(editor, "pending", PANEL)).to_have_count(2)
    expect(view.locator(".auto-three")).to_contain_text("waits for people")
    assert three(view) == ["waits for people", "not known yet", "2 proposals"]
    expect(reviewer.locator("#tab-automations .badge")).to_have_text("2")
    shown_run(reviewer)
    second = reviewer.locator(f"#panel-{PANEL} .card").nth(1)
    second.hover()
    expect(reviewer.locator(".ghost")).not_to_have_count(0)
    press(second, "Reject…")
    second.locator("textarea").fill("It is meant to be so")
    press(second, "Reject")
    expect(card(editor, "rejected", PANEL)).to_contain_text("Rejected by rev")
    press(card(editor, "pending", PANEL), "Approve")
    expect(card(reviewer, "applied", PANEL)).to_contain_text("Approved by ed")
    expect(view.locator(".auto-report")).to_be_visible()
    expect(view.locator(".auto-three")).to_contain_text("as planned")
    assert three(view) == ["as planned", "something to look at", "nothing"]
    charge = next(
        n
        for n in place.rest("GET", f"/api/graphs/{key}/view", token=token())["nodes"]
        if n["data"]["name"] == "Charge"
    )
    assert "$('Read Order')" in json.dumps(charge, ensure_ascii=False)


def is_not_asked_again(place: Site, editor: Page) -> None:
    editor.get_by_role("button", name="Back to the automations").click()
    assert set_to_night(place)["spentToday"]["runs"] == 1
    view = shown_run(editor, ended=True)
    expect(view.locator(".auto-three")).to_contain_text("as planned")
    expect(view.locator(".auto-report")).to_be_visible()
    expect(view.locator(".card")).to_have_count(0)
    assert three(view) == ["as planned", "something to look at", "nothing"]
    expect(editor.locator("#tab-automations .badge")).to_have_count(0)
    assert set_to_night(place)["skipped"][0]["reason"] == "unchanged"


def go_on_as_chat(editor: Page) -> None:
    """Find the run in the history, go on with it in the chat, and make an automation of that."""
    editor.locator("#tab-review").click()
    editor.get_by_role("button", name="History").last.click()
    lines = editor.locator("#panel-review .history > li.is-run")
    expect(lines).to_have_count(2)
    expect(lines.last).to_contain_text("1 change")
    lines.last.locator("summary").first.click()
    press(lines.last, "Show the run")
    expect(editor.locator(".auto-run-view .card")).to_have_count(2)
    press(editor.locator(".auto-run-view"), "Go on as chat")
    expect(editor.locator("#panel-chat .turn.is-user").first).to_contain_text("check_graph")
    expect(editor.locator("#panel-chat .chat-title h2")).to_contain_text("Nightly")
    press(editor.locator("#panel-chat"), "Save as automation")
    press(editor.get_by_role("dialog"), "Make it")
    expect(editor.get_by_role("dialog").locator("#auto-name-error")).to_contain_text("already")
    editor.get_by_role("dialog").get_by_label("Name", exact=True).fill("By hand")
    editor.get_by_role("dialog").get_by_label("Name", exact=True).press("Enter")
    expect(editor.locator("article.auto")).to_have_count(2)


def pause_and_remove(editor: Page) -> None:
    row = editor.locator("article.auto").filter(has_text=NAME)
    row.get_by_role("switch").click()
    expect(row).to_contain_text("paused")
    expect(row.locator(".auto-run")).to_have_count(2)
    editor.set_viewport_size({"width": 390, "height": 800})
    assert editor.evaluate("() => document.querySelector('#panel-automations').scrollWidth") <= 390
    editor.get_by_role("button", name=f"Remove: {NAME}").click()
    press(editor.get_by_role("dialog"), "Remove")
    expect(row).to_have_count(0)


def test_a_nightly_check_is_made_run_decided_by_two_people_and_does_not_ask_again(
    place: Site, open_page: OpenPage, contexts: Contexts, trouble: Trouble
) -> None:
    in_new_york = signed_in(contexts, "ed", "editor", timezone_id="America/New_York")
    editor = open_page(place, None, context=in_new_york)
    import_orders(editor)
    make_by_keyboard(editor)
    see_what_it_would_do(place, editor)
    key = key_of(place)
    reviewer = open_page(place, key, panel=PANEL, context=signed_in(contexts, "rev", "reviewer"))
    decide_by_two(place, editor, reviewer, key)
    is_not_asked_again(place, editor)
    go_on_as_chat(editor)
    pause_and_remove(editor)
    trouble.forgive("422", "409")  # what was wrong in the form


def test_a_conversation_says_which_run_makes_way_for_it(
    offline_site: Site, open_page: OpenPage
) -> None:
    """As the server sends it while a conversation goes on: recorded (`make recordings`)."""
    recorded = json.loads((RECORDINGS / "automations.json").read_text(encoding="utf-8"))["paused"]
    (automation,) = recorded["automations"]
    assert (automation["graphKey"], automation["last"]["endReason"]) == (GRAPH, "SUSPENDED")
    page = open_page(offline_site, None)
    page.route("**/api/automations?*", lambda route: route.fulfill(json=recorded))
    page.goto(f"{offline_site.url}#graph={GRAPH}&sheet=0&panel=chat")
    said = page.locator(".chat-paused")
    expect(said).to_have_text(
        f"“{automation['name']}” was paused for this conversation and goes on by itself"
    )
    page.get_by_role("button", name="Langue : français").click()
    expect(said).to_contain_text("reprendra toute seule")
    page.locator("#tab-automations").click()
    expect(page.locator("article.auto")).to_contain_text("en pause pour une conversation")
