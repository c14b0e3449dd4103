"""Many proposals decided by keyboard, by two people at once, over a connection that
breaks, with comments.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, Request, expect

from mock_data import load_text
from server import approval_documents
from tests.e2e.conftest import OpenPage, Trouble
from tests.e2e.site import GRAPH, Site, running_site
from tests.e2e.talk import (
    CHANGE,
    HOSTILE,
    RENAME,
    answered,
    ask,
    card,
    press,
    press_more,
    proposes,
    row,
)
from tests.e2e.test_accessible import timed
from tests.e2e.test_review import key_of, proposed, signed_in
from tests.support.scripted_provider import Says, ScriptedProvider, call
from tests.support.service import SECRET, token

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
    """The requests of a page that are answered from now on."""
    asked: list[str] = []

    def note(request: Request) -> None:
        if "/api/" in request.url:
            asked.append(f"{request.method} {request.url.split('/api/')[1]}")

    page.on("requestfinished", note)
    return asked


def focused(page: Page) -> Any:
    return page.evaluate("document.activeElement.dataset.approval ?? null")


def test_thirty_proposals_are_decided_in_at_most_sixty_keys(
    site: Site, script: ScriptedProvider, open_page: OpenPage
) -> None:
    """Two of three approved, the third rejected; each time the next has the focus, and one
    is taken back.
    """
    many(site, script)
    page = open_page(site, panel="review")
    waiting = row(page, "pending")
    expect(waiting).to_have_count(MANY)
    expect(page).to_have_title(re.compile(r"^\(30\) "))
    asked = watched(page)
    keys = 0

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
    # What a changed node does is the canvas's question, not the list's.
    others = [one for one in asked if "/decision" not in one and "/meanings" not in one]
    assert len(others) <= 6, others  # the undo, who is here; nothing for each decision


def test_two_decide_at_once_and_what_one_was_typing_is_kept(
    site: Site, script: ScriptedProvider, open_page: OpenPage
) -> None:
    """The other rejects what one writes about, comments with hostile text, and approves the
    rest at once.
    """
    script.play(proposes(CHANGE), proposes({**CHANGE, "changes": {"data.level": "notice"}}))
    first = proposed(site)
    second = proposed(site)
    script.play(proposes(RENAME, {**RENAME, "changes": {"data.note": "x"}}))
    proposed(site)
    one = open_page(site, panel="review")
    other = open_page(site, panel="review")
    one.locator(f'.review-detail [data-approval="{first}"]').get_by_role(
        "button", name="Reject…"
    ).click()
    one.keyboard.type("half a sent")
    there = other.locator(f'.review-detail [data-approval="{first}"]')
    expect(there.locator(".card-conflict")).to_contain_text("both change “level”")
    there.get_by_text("Comment…").click()
    there.get_by_label("What do you want to say").fill(HOSTILE)
    press(there, "Send the comment")
    mine = one.locator(f'.review-detail [data-approval="{first}"]')
    expect(mine.locator(".comments")).to_contain_text("<img src=x")
    expect(mine.get_by_label("What should be different?")).to_be_focused()
    assert one.locator("#side img, #side script").count() == 0
    expect(there.locator(".comments")).to_contain_text("<img src=x")  # drawn anew with it
    there.press("a")
    expect(mine).to_contain_text("Approved by you")
    expect(mine.get_by_label("What do you want to say")).to_have_value("half a sent")
    expect(card(one, "pending", "review").locator(".card-conflict")).to_have_count(0)
    group = other.locator(".review-group")
    press(group, "Show all on canvas")
    expect(other.locator("#canvas")).to_contain_text("Answer to")
    press(group, "Approve all 2")
    expect(row(one, "pending")).to_have_count(1)
    assert site.node("fetch-api")["data"]["name"] == "Get the players"
    press(one, "Mine")
    expect(row(one, "applied")).to_have_count(3)
    approval = site.rest("GET", f"/api/approvals/{second}")
    assert approval["status"] == "pending"


def test_what_was_missed_while_the_connection_was_gone_is_read_once(
    site: Site, script: ScriptedProvider, open_page: OpenPage, trouble: Trouble
) -> None:
    script.play(proposes(CHANGE), proposes(RENAME))
    gone = proposed(site)
    page = open_page(site, panel="review")
    expect(card(page, "pending", "review")).to_have_count(1)
    page.wait_for_load_state("networkidle")  # the opening reads the list too, and its news
    asked = watched(page)
    page.context.set_offline(True)
    page.evaluate("dispatchEvent(new Event('offline'))")
    expect(page.locator(".connection.open")).to_have_count(0)
    site.rest("POST", f"/api/approvals/{gone}/decision", json={"verdict": "reject"})
    proposed(site)
    page.context.set_offline(False)
    page.evaluate("dispatchEvent(new Event('online'))")
    expect(row(page, "pending")).to_contain_text("Get the players")
    expect(row(page, "pending")).to_have_count(1)
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
    expect(row(page, "pending")).to_have_count(2)
    expect(waiting.get_by_text("Show what changes")).to_be_visible()
    expect(waiting.first.get_by_role("button", name="Approve", exact=True)).to_be_disabled()
    expect(page.get_by_role("button", name="Approve all 2")).to_be_disabled()
    page.unroute("**/api/approvals/ap_*")
    waiting.get_by_text("Show what changes").click()
    expect(waiting.locator(".change-line")).to_contain_text("Get the players")
    row(page, "pending").last.click()
    expect(waiting.locator(".change-line")).to_contain_text("warning")
    row(page, "pending").first.click()
    press(waiting, "Approve")
    expect(row(page, "pending")).to_have_count(1)
    press(page, "Decided 1")
    expect(card(page, "applied", "review")).to_have_count(1)
    trouble.forgive("ERR_FAILED")  # the requests that were held up


Contexts = Callable[..., BrowserContext]
WORDS = {
    "en-US": ("rev rejected your change: Rename “Fetch NBA players” to “Get the players”", "Show"),
    "fr-FR": (
        "rev a rejeté votre changement : Renommer « Fetch NBA players » en « Get the players »",
        "Afficher",
    ),
}


@pytest.fixture
def shared(tmp_path: Path, script: ScriptedProvider) -> Iterator[Site]:
    """A service with sign-in, which several people use."""
    with running_site(tmp_path, script=script, graph=False, auth_secret=SECRET) as running:
        running.import_graph(token=token("ed", "editor"))
        yield running
    script.check()


def decide(
    site: Site, approval: str, verdict: str = "reject", user: str = "rev", feedback: str = ""
) -> None:
    """Decide past the page."""
    body = {"verdict": verdict, "feedback": feedback}
    by = token(user, "reviewer")
    site.rest("POST", f"/api/approvals/{approval}/decision", token=by, json=body)


def badge(page: Page) -> str:
    return page.locator("#tab-review .badge").inner_text()


def test_a_reviewer_sees_what_others_propose_without_looking_for_it(
    shared: Site, script: ScriptedProvider, open_page: OpenPage, contexts: Contexts
) -> None:
    script.play(proposes(RENAME), proposes(CHANGE))
    key = key_of(shared)
    reviewer = open_page(shared, key, context=signed_in(contexts, "rev", "reviewer"))
    first = proposed(shared, "ed", key)
    expect(reviewer.locator("#tab-review .badge")).to_have_text("1")
    proposed(shared, "eve", key)
    expect(reviewer.locator("#tab-review .badge")).to_have_text("2")
    decide(shared, first, user="somebody")
    expect(reviewer.locator("#tab-review .badge")).to_have_text("1")
    reviewer.locator("#tab-review").click()
    expect(card(reviewer, "pending", "review")).to_have_count(1)
    expect(card(reviewer, "pending", "review")).to_contain_text("asked for by eve")


@pytest.mark.parametrize("locale", ["en-US", "fr-FR"])
def test_the_asker_gets_notice_of_a_decision_and_is_led_to_it(
    shared: Site, script: ScriptedProvider, open_page: OpenPage, contexts: Contexts, locale: str
) -> None:
    script.play(proposes(RENAME))
    key = key_of(shared)
    context = signed_in(contexts, "ed", "editor", locale=locale)
    asker = open_page(shared, key, panel="threads", context=context)
    approval = proposed(shared, "ed", key)
    expect(asker.locator("#tab-review .badge")).to_have_text("1")
    decide(shared, approval, feedback="not now")
    said, show = WORDS[locale]
    notice = asker.locator(".toast").filter(has_text=said)
    expect(notice).to_be_visible()
    notice.get_by_role("button", name=show).click()
    decided = card(asker, "rejected", "review")
    expect(decided).to_contain_text("not now")
    expect(decided).to_be_focused()
    expect(asker.locator("#tab-review .badge")).to_have_count(0)


def test_the_asker_gets_notice_that_a_newer_file_replaces_what_an_older_one_proposed(
    shared: Site, script: ScriptedProvider, open_page: OpenPage, contexts: Contexts
) -> None:
    script.play(proposes(RENAME))
    key = key_of(shared)
    decide(shared, proposed(shared, "ed", key), verdict="approve")
    asker = open_page(shared, key, panel="threads", context=signed_in(contexts, "ed", "editor"))
    expect(asker.locator(".connection.open")).to_be_attached()
    for name, user in (("Fetched", "ed"), ("Fetched again", "rev")):
        file = json.loads(load_text("nba.json"))
        (fetch,) = [each for each in file["nodes"] if each["_key"] == "fetch-api"]
        fetch["data"]["name"] = name
        role = "editor" if user == "ed" else "reviewer"
        shared.import_graph(file, key, token(user, role))
    notice = asker.locator(".toast").filter(has_text="A newer version of its file replaces")
    expect(notice).to_be_visible()


def test_who_was_away_gets_notice_when_they_come_back_and_once(
    shared: Site, script: ScriptedProvider, open_page: OpenPage, contexts: Contexts
) -> None:
    script.play(proposes(RENAME))
    key = key_of(shared)
    context = signed_in(contexts, "ed", "editor")
    page = open_page(shared, key, context=context)
    approval = proposed(shared, "ed", key)
    expect(page.locator("#tab-review .badge")).to_have_text("1")
    page.close()
    decide(shared, approval)
    page = open_page(shared, key, context=context)
    expect(page.locator(".toast")).to_contain_text("rev rejected your change")
    page.reload()
    expect(page.locator(".connection.open")).to_be_attached()
    page.locator("#tab-review").click()
    press(page, "Decided 1")
    expect(card(page, "rejected", "review")).to_be_visible()
    expect(page.locator(".toast").filter(has_text="rejected your change")).to_have_count(0)


def test_an_open_queue_asks_for_nothing_while_nothing_happens(
    site: Site, script: ScriptedProvider, open_page: OpenPage, contexts: Contexts
) -> None:
    script.play(proposes(CHANGE))
    proposed(site)
    page = open_page(site, panel="review", context=timed(contexts))
    expect(card(page, "pending", "review")).to_be_visible()
    page.wait_for_load_state("networkidle")
    asked: list[str] = []
    page.on(
        "request", lambda request: asked.append(request.url) if "approvals" in request.url else None
    )
    page.clock.run_for(20_000)
    assert asked == []


def test_the_audit_log_says_what_was_changed(
    site: Site, script: ScriptedProvider, open_page: OpenPage
) -> None:
    script.play(proposes(RENAME), proposes(CHANGE))
    for verdict in ("approve", "reject"):
        site.rest("POST", f"/api/approvals/{proposed(site)}/decision", json={"verdict": verdict})
    page = open_page(site, panel="review")
    press(page, "History")
    page.locator(".audit summary").click()
    entries = page.locator(".audit-list li")
    expect(entries).to_have_count(3)
    expect(entries.last).to_contain_text("imported a file · import “graph.json”")
    expect(entries.nth(1)).to_contain_text(
        "applied · Rename “Fetch NBA players” to “Get the players”"
    )
    expect(entries.first).to_contain_text("rejected · Change level of “Log fetch error”")


def test_the_audit_log_is_filtered_and_given_as_files_and_on_paper(
    site: Site, script: ScriptedProvider, open_page: OpenPage
) -> None:
    script.play(proposes(RENAME), proposes(CHANGE))
    for verdict in ("approve", "reject"):
        site.rest("POST", f"/api/approvals/{proposed(site)}/decision", json={"verdict": verdict})
    page = open_page(site, panel="review")
    press(page, "History")
    page.locator(".audit summary").click()
    entries = page.locator(".audit-list li")
    expect(entries).to_have_count(3)
    page.locator(".audit").get_by_label("What").select_option("applied")
    expect(entries).to_have_count(1)
    with page.expect_download() as given:
        press(page, "As CSV")
    table = list(csv.DictReader(Path(given.value.path()).read_text().splitlines()))
    assert [(one["event"], one["by"], one["what"]) for one in table] == [
        ("applied", "local", "Rename “Fetch NBA players” to “Get the players”")
    ]
    page.locator(".audit").get_by_label("What").select_option("")
    with page.expect_download() as given:
        press(page, "As JSON")
    assert (
        json.loads(Path(given.value.path()).read_text())
        == site.rest("GET", "/api/audit")["entries"]
    )
    page.emulate_media(media="print")
    expect(entries.first).to_be_visible()
    expect(page.locator("#canvas")).to_be_hidden()
    expect(page.get_by_role("button", name="As CSV")).to_be_hidden()


@pytest.mark.parametrize("is_edited", [False, True])
def test_a_remark_goes_with_an_approval_and_stays_with_it(
    page: Page, site: Site, script: ScriptedProvider, is_edited: bool
) -> None:
    script.play(proposes(CHANGE), "Done.")
    ask(page, "Change it")
    waiting = card(page, "pending")
    press_more(waiting, "Edit…" if is_edited else "Approve with a remark…")
    waiting.get_by_label("A remark for the assistant (optional)").fill("but tell the team")
    press(waiting, "Approve with my changes" if is_edited else "Approve")
    answered(page, "Done.")
    (approval,) = site.rest("GET", f"/api/approvals?graphKey={GRAPH}")["approvals"]
    assert approval["decision"]["feedback"] == "but tell the team"
    expect(page.locator("#panel-chat .card-feedback")).to_contain_text("but tell the team")
    assert "but tell the team" in str(script.requests[-1])


def test_all_changes_of_an_answer_are_taken_back_in_one_step(
    page: Page, site: Site, script: ScriptedProvider
) -> None:
    script.play(proposes(RENAME, CHANGE), "Done.")
    before = [site.node(key)["data"] for key in ("fetch-api", "error-handler")]
    ask(page, "Change both")
    press(page, "Approve all 2")
    answered(page, "Done.")
    page.get_by_role("button", name="Undo all 2 of this answer…").first.click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Rename “Fetch NBA players” to “Get the players”")
    press(dialog, "Undo it")
    expect(page.locator("#panel-chat .card.is-undone")).to_have_count(2)
    assert [site.node(key)["data"] for key in ("fetch-api", "error-handler")] == before
    undone = [a for a in site.rest("GET", "/api/approvals")["approvals"] if a.get("undoes")]
    assert len(undone) == 1
