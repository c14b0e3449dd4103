"""Proposals decided on the page: the queue, edits, refusals, what is out of date,
history and undo.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.e2e.conftest import OpenPage, Trouble
from tests.e2e.site import GRAPH, Site, running_site
from tests.e2e.talk import (
    CHANGE,
    HOSTILE,
    RENAME,
    answered,
    ask,
    card,
    node,
    press,
    press_more,
    proposes,
    row,
)
from tests.support.scripted_provider import ScriptedProvider
from tests.support.service import SECRET, token

Contexts = Callable[..., BrowserContext]


@pytest.fixture
def guarded(tmp_path: Path, script: ScriptedProvider) -> Iterator[Site]:
    """A service with sign-in, where nobody decides what they asked for themselves."""
    with running_site(
        tmp_path, script=script, graph=False, auth_secret=SECRET, deciders="four-eyes"
    ) as running:
        running.import_graph(token=token("ed", "editor"))
        yield running
    script.check()


def signed_in(contexts: Contexts, user: str, role: str, **options: Any) -> BrowserContext:
    """A browser in which somebody has signed in."""
    context = contexts(**options)
    script = f"sessionStorage.setItem('nodius.token', '{token(user, role)}')"
    context.add_init_script(f"if (location.protocol === 'http:') {script}")
    return context


def key_of(site: Site) -> str:
    """The key of the graph: with sign-in the service chooses it."""
    return site.rest("GET", "/api/graphs", token=token())["graphs"][0]["graphKey"]


def proposed(site: Site, user: str | None = None, graph: str = GRAPH) -> str:
    """Ask for a change past the page; return the approval's id."""
    by = None if user is None else token(user)
    body = {"graphKey": graph, "message": "change it"}
    return site.rest("POST", "/api/ai/chat", token=by, json=body)["approvals"][0]["id"]


def test_a_reviewer_decides_what_somebody_else_asked_for(
    guarded: Site, script: ScriptedProvider, open_page: OpenPage, contexts: Contexts
) -> None:
    script.play(proposes(RENAME), "A reviewer approved it.")
    key = key_of(guarded)
    asker = open_page(guarded, key, context=signed_in(contexts, "ed", "editor"))
    ask(asker, "Rename it")
    expect(card(asker, "pending")).to_contain_text("somebody else must decide")
    expect(card(asker, "pending").get_by_role("button", name="Approve", exact=True)).to_have_count(
        0
    )

    reviewer = open_page(
        guarded, key, panel="review", context=signed_in(contexts, "rev", "reviewer")
    )
    waiting = card(reviewer, "pending", "review")
    expect(waiting).to_contain_text("asked for by ed")
    waiting.hover()
    expect(reviewer.locator(".ghost")).to_have_count(1)
    expect(reviewer.get_by_role("button", name="To decide")).to_contain_text("1")
    press(waiting, "Approve")
    expect(reviewer.locator("#panel-review [role=status]").first).to_contain_text(
        "Approved: Rename"
    )
    press(reviewer, "Decided 1")
    expect(card(reviewer, "applied", "review")).to_contain_text("Approved by you")
    press(reviewer, "To decide")
    expect(reviewer.locator("#panel-review")).to_contain_text("Nothing waits for a decision")

    expect(card(asker, "applied")).to_contain_text("Approved by rev")
    answered(asker, "A reviewer approved it.")
    expect(node(asker, "fetch-api")).to_contain_text("Get the players")


def test_a_viewer_may_look_but_not_decide(
    guarded: Site, script: ScriptedProvider, open_page: OpenPage, contexts: Contexts
) -> None:
    script.play(proposes(CHANGE))
    key = key_of(guarded)
    proposed(guarded, "ed", key)
    page = open_page(guarded, key, panel="review", context=signed_in(contexts, "vi", "viewer"))
    waiting = card(page, "pending", "review")
    said = "only an editor, a reviewer or an admin may decide"
    expect(waiting).to_contain_text(said)
    expect(waiting.get_by_role("button", name="Approve", exact=True)).to_have_count(0)
    waiting.focus()
    for key in "are":
        page.keyboard.press(key)
        expect(page.locator(".toast")).to_contain_text(said)
    expect(page.locator("#tab-review .badge")).to_have_count(0)
    expect(page.locator("[data-view=open] .count")).to_be_empty()


def test_what_is_wrong_with_an_edit_is_said_at_its_field(
    page: Page, script: ScriptedProvider, trouble: Trouble
) -> None:
    move = {**CHANGE, "changes": {"posX": 120, "data.level": "warning"}}
    script.play(proposes(move), "Done.")
    ask(page, "Change it")
    waiting = card(page, "pending")
    press_more(waiting, "Edit…")
    press(waiting, "Edit as JSON")
    raw = waiting.get_by_label("The action as JSON")
    raw.fill("{")
    press(waiting, "Approve with my changes")
    expect(waiting.locator(".field-error").first).to_have_text("This is not valid JSON.")
    action = '{"type": "update_node", "payload": {"nodeKey": "error-handler", "changes": {"posX": "left"}}}'
    raw.fill(action)
    press(waiting, "Approve with my changes")
    expect(waiting.locator(".field-error:visible")).to_contain_text("Position x")
    expect(raw).to_be_focused()
    expect(raw).to_have_attribute("aria-invalid", "true")
    press(waiting, "Edit as a form")
    press(waiting, "Approve with my changes")
    field = waiting.get_by_label("Position x")
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(field).to_be_focused()
    field.fill("left of it")
    press(waiting, "Cancel")
    press(waiting, "Approve")
    answered(page, "Done.")
    trouble.forgive("422")


def test_what_is_wrong_with_an_edit_is_a_french_sentence_for_a_french_reader(
    site: Site, script: ScriptedProvider, open_page: OpenPage, trouble: Trouble
) -> None:
    script.play(proposes({**CHANGE, "changes": {"posX": 120, "data.level": "warning"}}))
    page = open_page(site, locale="fr-FR")
    ask(page, "Change")
    waiting = card(page, "pending")
    press_more(waiting, "Modifier…")
    press(waiting, "Modifier en JSON")
    action = {
        "type": "update_node",
        "payload": {"nodeKey": "error-handler", "changes": {"posX": "left"}},
    }
    waiting.get_by_label("L’action en JSON").fill(json.dumps(action))
    press(waiting, "Modifier par formulaire")
    press(waiting, "Approuver avec mes modifications")
    said = waiting.locator(".edit-field .field-error:not([hidden])")
    expect(said).to_contain_text("Cette valeur n’est pas acceptée.")
    expect(said.locator("[lang=en]")).to_be_visible()
    trouble.forgive("422")


def test_a_proposal_that_is_out_of_date_says_so_and_can_be_asked_for_again(
    page: Page, site: Site, script: ScriptedProvider
) -> None:
    script.play(
        proposes(RENAME),
        proposes({**RENAME, "changes": {"data.name": "Other"}}),
        "First.",
        "Second.",
    )
    ask(page, "Rename it")
    expect(card(page, "pending")).to_be_visible()
    other = proposed(site)
    site.rest("POST", f"/api/approvals/{other}/decision", json={"verdict": "approve"})
    press(card(page, "pending"), "Approve")
    stale = card(page, "stale")
    expect(stale).to_contain_text("Nothing has changed")
    answered(page, "First.")
    press(stale, "Ask for it again")
    expect(page.locator("#composer")).to_have_value(
        "Propose this again: Rename “Fetch NBA players” to “Get the players”"
    )
    ask(page, "Thanks")
    answered(page, "Second.")


def test_history_lists_what_was_applied_and_takes_it_back(
    site: Site, script: ScriptedProvider, open_page: OpenPage, trouble: Trouble
) -> None:
    script.play(proposes(CHANGE), proposes({**CHANGE, "changes": {"data.level": "notice"}}))
    first, second = (
        site.rest("POST", f"/api/approvals/{proposed(site)}/decision", json={"verdict": "approve"})[
            "id"
        ]
        for _ in range(2)
    )
    assert first != second
    page = open_page(site, panel="review")
    press(page, "History")
    items = page.locator("details.history-item")
    expect(items).to_have_count(2)
    items.last.locator("summary").first.click()
    press(items.last, "Undo…")
    press(page.locator("dialog"), "Undo it")
    expect(items.last.locator(".card")).to_contain_text("later changes depend on it")
    items.first.locator("summary").first.click()
    press(items.first, "Undo…")
    press(page.locator("dialog"), "Undo it")
    expect(items).to_have_count(3)
    assert site.node("error-handler")["data"]["level"] == "warning"
    page.locator(".audit summary").click()
    expect(page.locator(".audit-list li")).to_have_count(4)
    press(page, "Check the log")
    expect(page.locator(".audit")).to_contain_text("4 entries, none changed")
    trouble.forgive("409")


def test_feedback_and_names_of_others_are_text(
    site: Site, script: ScriptedProvider, open_page: OpenPage
) -> None:
    script.play(proposes({**CHANGE, "reason": HOSTILE}))
    approval = proposed(site)
    decision = {"verdict": "reject", "feedback": HOSTILE}
    site.rest("POST", f"/api/approvals/{approval}/decision", json=decision)
    page = open_page(site, panel="review")
    press(page, "Decided 1")
    expect(page.locator(".card-feedback")).to_contain_text("<img src=x")
    assert page.locator("#side img, #side script").count() == 0


def test_what_is_typed_in_a_card_outlives_news_of_others(
    site: Site, script: ScriptedProvider, open_page: OpenPage
) -> None:
    script.play(proposes(CHANGE), proposes(RENAME))
    proposed(site)
    page = open_page(site, panel="review")
    first = card(page, "pending", "review").first
    press(first, "Reject…")
    page.get_by_label("What should be different?").fill("half a sentence")
    proposed(site)
    expect(row(page, "pending")).to_have_count(2)
    expect(page.get_by_label("What should be different?")).to_have_value("half a sentence")
    expect(page.get_by_label("What should be different?")).to_be_focused()


def test_a_proposal_is_decided_by_keyboard_alone(
    page: Page, site: Site, script: ScriptedProvider
) -> None:
    script.play(proposes(CHANGE), "Done.")
    ask(page, "Change it")
    expect(card(page, "pending")).to_be_visible()
    approve = card(page, "pending").get_by_role("button", name="Approve", exact=True)
    for _ in range(40):
        page.keyboard.press("Shift+Tab")
        if approve.evaluate("e => e === document.activeElement"):
            break
    expect(approve).to_be_focused()
    proposed_id = card(page, "pending").get_attribute("data-approval")
    site.rest("POST", f"/api/approvals/{proposed_id}/comments", json={"text": "Is it urgent?"})
    expect(page.get_by_text("Is it urgent?")).to_be_visible()
    expect(approve).to_be_focused()
    page.keyboard.press("Enter")
    answered(page, "Done.")
    expect(card(page, "applied")).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_is_wider_than_its_panel(
    site: Site, script: ScriptedProvider, open_page: OpenPage, width: int, scheme: Any
) -> None:
    long = "averyverylongword" * 30
    changes = {"data.name": long, "process": f"const x = '{long}';\n"}
    text = f"{long}\n\n| {long} | b |\n|---|---|\n| 1 | 2 |\n\n```\n{long}\n```\n{{{{node:fetch-api}}}}"
    script.play(proposes({**CHANGE, "changes": changes, "reason": long}, text=text))
    page = open_page(
        site, viewport={"width": width, "height": 844}, color_scheme=scheme, locale="fr-FR"
    )
    ask(page, long)
    waiting = card(page, "pending")
    press_more(waiting, "Modifier…")
    for selector in ("#side", ".log", ".review-list"):
        for element in page.locator(selector).all():
            assert element.evaluate("e => e.scrollWidth <= e.clientWidth + 1"), selector
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")


def test_code_that_cannot_be_parsed_is_said_before_approve_on_the_card_and_on_an_edit(
    page: Page, site: Site, script: ScriptedProvider
) -> None:
    script.play(proposes({**CHANGE, "changes": {"process": "return (1;"}}), "Done.")
    ask(page, "Change the code")
    waiting = card(page, "pending")
    expect(waiting.locator(".card-warning", has_text="cannot be parsed, line 1")).to_be_visible()
    press_more(waiting, "Edit…")
    code = waiting.get_by_role("textbox", name="Code")
    code.fill("return 1;\nreturn {;")
    press(waiting, "Approve with my changes")
    expect(waiting.locator(".field-error:visible")).to_contain_text("cannot be parsed, line 2")
    assert site.node("error-handler")["process"] != "return 1;\nreturn {;"
    code.fill("return 2;")
    press(waiting, "Approve with my changes")
    answered(page, "Done.")
    assert site.node("error-handler")["process"] == "return 2;"
