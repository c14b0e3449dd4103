"""What the page says of who must be asked: on a card that waits, and of what was applied by policy."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import expect

from tests.e2e.conftest import OpenPage
from tests.e2e.site import running_site
from tests.e2e.talk import answered, ask, card
from tests.support.scripted_provider import Says, ScriptedProvider, call

PLACE = {"nodeKey": "root", "posX": 5, "posY": 6}
MOVE = {"type": "move_node", "payload": PLACE}
CODE = {"type": "update_node", "payload": {"nodeKey": "fetch-api", "changes": {"process": "next('0', 1)"}}}


def test_a_card_says_who_wants_a_person_and_what_to_know(tmp_path: Path, open_page: OpenPage) -> None:
    batch = call("propose_batch", {"actions": [MOVE, CODE], "reason": "<b>tidier</b>", "askFirst": True})
    script = ScriptedProvider(Says(calls=[batch]))
    with running_site(tmp_path, script=script, require_validation="code") as site:
        page = open_page(site)
        ask(page, "Tidy up")
        waiting = card(page, "pending")
        expect(waiting.locator(".card-parts li")).to_have_count(2)
        expect(waiting.locator(".card-parts li").first).to_contain_text("(the assistant)")
        expect(waiting.locator(".card-parts li").last).to_contain_text("(settings: code; the assistant)")
        expect(waiting.locator(".card-warning")).to_contain_text("It changes code that runs")
        expect(waiting.locator("p.card-asked")).to_contain_text("A person decides")


def test_what_was_applied_by_policy_is_shown_as_that(tmp_path: Path, open_page: OpenPage) -> None:
    move = call("propose_move_node", {**PLACE, "reason": "tidier"})
    script = ScriptedProvider(Says(calls=[move]), "Moved.")
    with running_site(tmp_path, script=script, require_validation="code") as site:
        page = open_page(site)
        ask(page, "Move it")
        answered(page, "Moved.")
        page = open_page(site, panel="review")
        page.get_by_role("button", name="Decided").click()
        expect(card(page, "applied", "review")).to_contain_text("Applied by policy")
