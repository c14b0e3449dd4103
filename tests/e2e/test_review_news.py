"""What others propose and decide reaches a person where they are: badges, notices, the audit log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.e2e.conftest import OpenPage
from tests.e2e.site import GRAPH, Site, running_site
from tests.e2e.talk import CHANGE, RENAME, answered, ask, card, press, proposes
from tests.e2e.test_reaching import timed
from tests.e2e.test_review import key_of, proposed, signed_in
from tests.support.scripted_provider import ScriptedProvider
from tests.support.service import SECRET, token

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


def decide(site: Site, approval: str, verdict: str = "reject", user: str = "rev", feedback: str = "") -> None:
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
    page.on("request", lambda request: asked.append(request.url) if "approvals" in request.url else None)
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
    expect(entries.nth(1)).to_contain_text("applied · Rename “Fetch NBA players” to “Get the players”")
    expect(entries.first).to_contain_text("rejected · Change level of “Log fetch error”")


@pytest.mark.parametrize("is_edited", [False, True])
def test_a_remark_goes_with_an_approval_and_stays_with_it(
    site: Site, script: ScriptedProvider, open_page: OpenPage, is_edited: bool
) -> None:
    script.play(proposes(CHANGE), "Done.")
    page = open_page(site)
    ask(page, "Change it")
    waiting = card(page, "pending")
    press(waiting, "Edit…" if is_edited else "Approve with a remark…")
    waiting.get_by_label("A remark for the assistant (optional)").fill("but tell the team")
    press(waiting, "Approve with my changes" if is_edited else "Approve")
    answered(page, "Done.")
    (approval,) = site.rest("GET", f"/api/approvals?graphKey={GRAPH}")["approvals"]
    assert approval["decision"]["feedback"] == "but tell the team"
    expect(page.locator("#panel-chat .card-feedback")).to_contain_text("but tell the team")
    assert "but tell the team" in str(script.requests[-1])


def test_all_changes_of_an_answer_are_taken_back_in_one_step(
    site: Site, script: ScriptedProvider, open_page: OpenPage
) -> None:
    script.play(proposes(RENAME, CHANGE), "Done.")
    page = open_page(site)
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
