"""What the page says of who must be asked: on a card that waits, and of what was applied by policy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.e2e.conftest import OpenPage
from tests.e2e.site import Site, running_site
from tests.e2e.talk import answered, ask, card, press
from tests.e2e.test_automations import Contexts
from tests.e2e.test_review import key_of, signed_in
from tests.support.scripted_provider import Says, ScriptedProvider, call
from tests.support.service import SECRET, token

PLACE = {"nodeKey": "root", "posX": 5, "posY": 6}
MOVE = {"type": "move_node", "payload": PLACE}
CODE = {"type": "update_node", "payload": {"nodeKey": "fetch-api", "changes": {"process": "next('0', 1)"}}}


@pytest.fixture
def relaxed(tmp_path: Path, script: ScriptedProvider) -> Iterator[Site]:
    """A service whose settings want a person for code alone, answered by `script`."""
    with running_site(tmp_path, script=script, require_validation="code") as running:
        yield running


def test_a_card_says_who_wants_a_person_and_what_to_know(
    relaxed: Site, script: ScriptedProvider, open_page: OpenPage
) -> None:
    both = {"actions": [MOVE, CODE], "reason": "<b>tidier</b>", "askFirst": True}
    script.play(Says(calls=[call("propose_batch", both)]))
    page = open_page(relaxed)
    ask(page, "Tidy up")
    waiting = card(page, "pending")
    expect(waiting.locator(".card-parts li")).to_have_count(2)
    expect(waiting.locator(".card-parts li").first).to_contain_text("(the assistant)")
    expect(waiting.locator(".card-parts li").last).to_contain_text("(settings: code; the assistant)")
    expect(waiting.locator(".card-warning")).to_contain_text("It changes code that runs")
    expect(waiting.locator("p.card-asked")).to_contain_text("A person decides")


def test_what_was_applied_by_policy_is_shown_as_that(
    relaxed: Site, script: ScriptedProvider, open_page: OpenPage
) -> None:
    script.play(Says(calls=[call("propose_move_node", {**PLACE, "reason": "tidier"})]), "Moved.")
    page = open_page(relaxed)
    ask(page, "Move it")
    answered(page, "Moved.")
    page = open_page(relaxed, panel="review")
    page.get_by_role("button", name="Decided").click()
    expect(card(page, "applied", "review")).to_contain_text("Applied by policy")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Site]:
    """A service with sign-in, whose settings want a person for code alone."""
    with running_site(tmp_path, graph=False, auth_secret=SECRET, require_validation="code") as running:
        running.import_graph(token=token(role="admin"))
        yield running


def test_a_reviewer_sets_the_graph_and_a_node_type_an_admin_also_the_workspace(
    place: Site, open_page: OpenPage, contexts: Contexts
) -> None:
    key = key_of(place)
    editor = open_page(place, key, panel="review", context=signed_in(contexts, "ed", "editor"))
    expect(editor.get_by_role("button", name="Who must be asked")).to_have_count(0)

    page = open_page(place, key, panel="review", context=signed_in(contexts, "rev", "reviewer"))
    page.get_by_role("button", name="Who must be asked").press("Enter")
    dialog = page.get_by_role("dialog")
    settings = dialog.get_by_role("group", name="Settings of the service")
    expect(settings.get_by_label("Code")).to_be_checked()
    expect(settings.get_by_label("Code")).to_be_disabled()
    expect(dialog.get_by_role("group", name="Workspace").get_by_label("Code")).to_be_disabled()
    dialog.get_by_role("group", name="Graph").get_by_label("Deletion").press("Space")
    dialog.get_by_label("Add a node type").select_option("api-call")
    page.keyboard.press("Space")  # its first class has the focus
    press(dialog, "Save")
    expect(dialog).to_have_count(0)
    found = place.rest("GET", f"/api/policy?graphKey={key}", token=token())
    assert (found["graph"], found["nodeTypes"]) == (["delete"], {"api-call": ["layout"]})

    page = open_page(place, key, panel="review", context=signed_in(contexts, "ada", "admin"))
    page.get_by_role("button", name="Who must be asked").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("group", name="Node type").get_by_label("Layout")).to_be_checked()
    page.get_by_role("group", name="Graph").get_by_label("Deletion").uncheck()
    page.get_by_role("group", name="Workspace").get_by_label("Structure").check()
    press(page.get_by_role("dialog"), "Save")
    expect(page.get_by_role("dialog")).to_have_count(0)
    found = place.rest("GET", f"/api/policy?graphKey={key}", token=token())
    assert (found["workspace"], found["graph"]) == (["structure"], [])
