"""The review panel as rows beside one card: what is in view, what filters leave, and thirty
mixed proposals decided by keyboard.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.e2e.conftest import OpenPage
from tests.e2e.site import Site, running_site
from tests.e2e.talk import CHANGE, card, row
from tests.e2e.test_review import Contexts, key_of, proposed, signed_in
from tests.support.scripted_provider import Says, ScriptedProvider, call
from tests.support.service import SECRET, token

ASKERS = ("ed", "ann", "bob")
MANY = 30
LEAST_IN_VIEW = 12
IN_VIEW = """() => {
  const box = document.querySelector(".review-list").getBoundingClientRect();
  return [...document.querySelectorAll(".review-row")].filter((row) => {
    const { top, bottom } = row.getBoundingClientRect();
    return top >= box.top && bottom <= Math.min(box.bottom, innerHeight);
  }).length;
}"""


def mixed(number: int) -> Any:
    """Return a call of one of five kinds; no two exclude each other."""
    node = {
        "type_key": "log-node",
        "sheet": "0",
        "pos_x": 100 * number,
        "pos_y": 900,
        "data": {"name": f"Log {number}"},
        "reason": "Somebody must see it.",
    }
    code = {**CHANGE, "node_key": "filter-active", "changes": {"process": "return 1;\n"}}
    kinds: dict[int, tuple[str, dict[str, Any]]] = {
        0: ("propose_update_node", {**CHANGE, "changes": {f"data.field{number}": number}}),
        1: ("propose_create_node", node),
        2: ("propose_update_node", {**CHANGE, "changes": {f"data.note{number}": "x"}}),
        3: ("propose_create_node", node),
        4: ("propose_update_node", {**CHANGE, "changes": {f"data.more{number}": True}}),
    }
    if number == MANY - 1:
        return call("propose_update_node", code)
    return call(*kinds[number % len(kinds)])


@pytest.fixture
def shared(tmp_path: Path, script: ScriptedProvider) -> Iterator[Site]:
    """A service with sign-in, where three people have thirty changes proposed."""
    with running_site(tmp_path, script=script, graph=False, auth_secret=SECRET) as running:
        running.import_graph(token=token("ed", "editor"))
        for number in range(MANY):
            script.play(Says(text="This.", calls=[mixed(number)]))
            proposed(running, ASKERS[number % len(ASKERS)], key_of(running))
        yield running
    script.check()


def reviewer(contexts: Contexts, **options: Any) -> BrowserContext:
    return signed_in(contexts, "rev", "reviewer", **options)


def opened(site: Site, open_page: OpenPage, contexts: Contexts, **options: Any) -> Page:
    page = open_page(site, key_of(site), panel="review", context=reviewer(contexts, **options))
    expect(row(page, "pending")).to_have_count(MANY)
    return page


def test_thirty_mixed_proposals_are_scanned_filtered_and_decided_by_keyboard(
    shared: Site, open_page: OpenPage, contexts: Contexts
) -> None:
    """At least twelve rows are in view, one card is drawn, and each decision takes one key, or
    two for a rejection.
    """
    page = opened(shared, open_page, contexts)
    assert page.evaluate(IN_VIEW) >= LEAST_IN_VIEW
    expect(page.locator("#panel-review .card")).to_have_count(1)
    expect(row(page, "pending").first).to_be_focused()
    keys = 0
    for left in range(MANY, 0, -1):
        approval = row(page, "pending").first.get_attribute("data-approval")
        expect(page.locator(f'.review-detail [data-approval="{approval}"]')).to_be_visible()
        pressed = ["a"] if left % 3 else ["r", "Enter"]
        for key in pressed:
            page.keyboard.press(key)
        keys += len(pressed)
        expect(row(page, "pending")).to_have_count(left - 1)
    assert keys == MANY + MANY // 3
    states = [
        one["status"]
        for one in shared.rest("GET", "/api/approvals?limit=100", token=token())["approvals"]
    ]
    assert (states.count("applied"), states.count("rejected")) == (MANY - 10, 10)
    expect(page.locator(".review-strip")).to_contain_text("30, 20 applied")


def test_filters_offer_what_occurs_and_say_which_of_them_leaves_nothing(
    shared: Site, open_page: OpenPage, contexts: Contexts
) -> None:
    page = opened(shared, open_page, contexts)
    page.locator(".filter-fold").click()
    kind = page.locator(".filter-bar").get_by_label("Kind")
    expect(kind.locator("option")).to_have_text(["All", "Change (17)", "New node (12)", "Code (1)"])
    expect(page.locator(".filter-bar").get_by_label("State")).to_have_count(0)
    kind.select_option("code")
    expect(row(page, "pending")).to_have_count(1)
    expect(card(page, "pending", "review")).to_contain_text("Change its code")
    person = page.locator(".filter-bar").get_by_label("Person")
    expect(person).to_have_count(0)  # bob's alone
    kind.select_option("create")
    person.select_option("ann")
    expect(row(page, "pending")).not_to_have_count(MANY)
    for one in row(page, "pending").all():
        expect(one).to_contain_text("ann")
    kind.select_option("")
    person.select_option("bob")
    kind.select_option("code")
    shared.rest(
        "POST",
        f"/api/approvals/{row(page, 'pending').get_attribute('data-approval')}/decision",
        token=token("rev", "reviewer"),
        json={"verdict": "reject"},
    )
    page.locator(".filter-fold").focus()
    expect(page.get_by_text("No proposal fits these filters")).to_be_visible()
    page.get_by_role("button", name="Clear: Kind").click()
    expect(row(page, "pending")).to_have_count(9)


def test_what_is_written_about_one_is_there_when_another_was_looked_at(
    shared: Site, open_page: OpenPage, contexts: Contexts
) -> None:
    page = opened(shared, open_page, contexts)
    page.keyboard.press("r")
    page.keyboard.type("half a sentence")
    row(page, "pending").nth(3).click()
    expect(page.locator("#panel-review .card")).to_have_count(1)
    expect(page.get_by_label("What should be different?")).to_have_count(0)
    row(page, "pending").first.click()
    expect(page.get_by_label("What should be different?")).to_have_value("half a sentence")


def test_the_address_leads_to_a_proposal_and_the_row_to_its_card(
    shared: Site, open_page: OpenPage, contexts: Contexts
) -> None:
    page = opened(shared, open_page, contexts)
    fifth = row(page, "pending").nth(4)
    approval = fifth.get_attribute("data-approval")
    graph = key_of(shared)
    page.goto("about:blank")
    page.goto(f"{shared.url}#graph={graph}&panel=review&approval={approval}")
    shown = page.locator(f'.review-detail [data-approval="{approval}"]')
    expect(shown).to_be_focused()
    expect(fifth).to_have_attribute("aria-current", "true")
    fifth.focus()
    page.keyboard.press("ArrowDown")
    expect(row(page, "pending").nth(5)).to_be_focused()
    page.keyboard.press("End")
    expect(row(page, "pending").last).to_be_focused()
    page.keyboard.press("Enter")
    expect(card(page, "pending", "review")).to_be_focused()
    page.keyboard.press("k")
    expect(row(page, "pending").nth(MANY - 2)).to_be_focused()
