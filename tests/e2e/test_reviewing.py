"""Many proposals decided by keyboard, by two people at once, over a connection that breaks, with comments."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Page, Request, expect

from server import approval_documents
from tests.e2e.conftest import OpenPage, Trouble
from tests.e2e.site import Site
from tests.e2e.talk import CHANGE, HOSTILE, RENAME, card, press, proposes
from tests.e2e.test_review import proposed
from tests.support.scripted_provider import Says, ScriptedProvider, call

MANY = 30


def many(site: Site, script: ScriptedProvider, count: int = MANY) -> None:
    """Have so many changes of different fields proposed, ten in an answer."""
    for answer in range(count // 10):
        calls = [
            call("propose_update_node", {**CHANGE, "changes": {f"data.field{answer * 10 + i}": i}})
            for i in range(10)
        ]
        script.play(Says(text="These.", calls=calls))
        proposed(site)


def watched(page: Page) -> list[str]:
    """The requests of a page from now on."""
    asked: list[str] = []

    def note(request: Request) -> None:
        if "/api/" in request.url:
            asked.append(f"{request.method} {request.url.split('/api/')[1]}")

    page.on("request", note)
    return asked


def focused(page: Page) -> Any:
    return page.evaluate("document.activeElement.dataset.approval ?? null")


def test_thirty_proposals_are_decided_in_at_most_sixty_keys(
    site: Site, script: ScriptedProvider, open_page: OpenPage
) -> None:
    """Two of three approved, the third rejected; each time the next has the focus, and one is taken back."""
    many(site, script)
    page = open_page(site, panel="review")
    waiting = card(page, "pending", "review")
    expect(waiting).to_have_count(MANY)
    expect(page).to_have_title(re.compile(r"^\(30\) "))
    asked, keys = watched(page), 0

    def key(name: str) -> None:
        nonlocal keys
        page.keyboard.press(name)
        keys += 1

    key("j")
    for left in range(MANY, 0, -1):
        current = focused(page)
        assert current is not None
        if left % 3:
            key("a")
        else:
            key("r")
            key("Enter")
        expect(waiting).to_have_count(left - 1)
        page.wait_for_function("id => document.activeElement.dataset.approval !== id", arg=current)
    assert keys <= 60
    expect(page.locator("#panel-review")).to_contain_text("Nothing waits for a decision")
    expect(page.locator("#tab-review .badge")).to_have_count(0)
    expect(page).to_have_title(re.compile(r"^[^(]"))
    page.keyboard.press("u")
    expect(page.locator(".toast")).to_contain_text("undone")
    states = [one["status"] for one in site.rest("GET", "/api/approvals?limit=100")["approvals"]]
    assert (states.count("applied"), states.count("rejected")) == (21, 10)
    others = [one for one in asked if "/decision" not in one]
    assert len(others) <= 6, others  # the undo, who is here; nothing for each decision


def test_two_decide_at_once_and_what_one_was_typing_is_kept(
    site: Site, script: ScriptedProvider, open_page: OpenPage
) -> None:
    """The other rejects what one writes about, comments with hostile text, and approves the rest at once."""
    script.play(proposes(CHANGE), proposes({**CHANGE, "changes": {"data.level": "notice"}}))
    first, second = proposed(site), proposed(site)
    script.play(proposes(RENAME, {**RENAME, "changes": {"data.note": "x"}}))
    proposed(site)
    one, other = open_page(site, panel="review"), open_page(site, panel="review")
    one.locator(f'#panel-review [data-approval="{first}"]').get_by_role("button", name="Reject…").click()
    one.keyboard.type("half a sent")
    there = other.locator(f'#panel-review [data-approval="{first}"]')
    expect(there.locator(".card-conflict")).to_contain_text("both change “level”")
    there.get_by_text("Comment…").click()
    there.get_by_label("What do you want to say").fill(HOSTILE)
    press(there, "Send the comment")
    mine = one.locator(f'#panel-review [data-approval="{first}"]')
    expect(mine.locator(".comments")).to_contain_text("<img src=x")
    expect(mine.get_by_label("What should be different?")).to_be_focused()
    assert one.locator("#side img, #side script").count() == 0
    there.focus()
    other.keyboard.press("a")
    expect(mine).to_contain_text("Approved by you")
    expect(mine.get_by_label("What do you want to say")).to_have_value("half a sent")
    expect(card(one, "pending", "review").locator(".card-conflict")).to_have_count(0)
    group = other.locator(".review-group")
    press(group, "Show all on canvas")
    expect(other.locator("#canvas")).to_contain_text("Answer to")
    press(group, "Approve all 2")
    expect(card(one, "pending", "review")).to_have_count(1)
    assert site.node("fetch-api")["data"]["name"] == "Get the players"
    press(one, "Mine")
    expect(card(one, "applied", "review")).to_have_count(3)
    approval = site.rest("GET", f"/api/approvals/{second}")
    assert approval["status"] == "pending"


def test_what_was_missed_while_the_connection_was_gone_is_read_once(
    site: Site, script: ScriptedProvider, open_page: OpenPage, trouble: Trouble
) -> None:
    script.play(proposes(CHANGE), proposes(RENAME))
    gone = proposed(site)
    page = open_page(site, panel="review")
    expect(card(page, "pending", "review")).to_have_count(1)
    asked = watched(page)
    page.context.set_offline(True)
    page.evaluate("dispatchEvent(new Event('offline'))")
    expect(page.locator(".connection.open")).to_have_count(0)
    site.rest("POST", f"/api/approvals/{gone}/decision", json={"verdict": "reject"})
    proposed(site)
    page.context.set_offline(False)
    page.evaluate("dispatchEvent(new Event('online'))")
    expect(card(page, "pending", "review")).to_contain_text("Get the players")
    expect(card(page, "pending", "review")).to_have_count(1)
    expect(page.locator("#tab-review .badge")).to_have_text("1")
    assert len([one for one in asked if one.startswith("GET approvals")]) <= 2, asked
    trouble.forgive("ERR_INTERNET_DISCONNECTED")


def test_what_a_long_list_left_out_is_shown_before_anybody_can_decide_it(
    site: Site,
    script: ScriptedProvider,
    open_page: OpenPage,
    trouble: Trouble,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(approval_documents, "MAX_LISTED", 0)
    script.play(proposes(RENAME, CHANGE))
    proposed(site)
    page = open_page(site)
    page.route("**/api/approvals/ap_*", lambda route: route.abort())
    page.locator("#tab-review").click()
    waiting = card(page, "pending", "review")
    expect(waiting).to_have_count(2)
    expect(waiting.get_by_text("Show what changes")).to_have_count(2)
    expect(waiting.first.get_by_role("button", name="Approve", exact=True)).to_be_disabled()
    expect(page.get_by_role("button", name="Approve all 2")).to_be_disabled()
    page.unroute("**/api/approvals/ap_*")
    for one in waiting.all():
        one.get_by_text("Show what changes").click()
    expect(waiting.filter(has_text="Get the players")).to_contain_text("1 change")
    press(waiting.filter(has_text="Get the players"), "Approve")
    expect(waiting).to_have_count(1)
    press(page, "Decided 1")
    expect(card(page, "applied", "review")).to_have_count(1)
    trouble.forgive("ERR_FAILED")  # the requests that were held up
