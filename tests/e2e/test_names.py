"""People are called by the names that their tokens have, not by their ids."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, expect

from tests.e2e.conftest import OpenPage
from tests.e2e.site import Site, running_site
from tests.e2e.talk import RENAME, card, press, proposes
from tests.e2e.test_review import key_of
from tests.support.scripted_provider import ScriptedProvider
from tests.support.service import SECRET, token

ADA, GRACE = "auth0|64f1c0ffee", "auth0|64f1decade"
NAMES = {ADA: "Ada Lovelace", GRACE: "Grace Hopper"}


@pytest.fixture
def shared(tmp_path: Path, script: ScriptedProvider) -> Iterator[Site]:
    """A service with sign-in, whose tokens have the names of people."""
    with running_site(tmp_path, script=script, graph=False, auth_secret=SECRET) as running:
        running.import_graph(token=named(ADA, "editor"))
        yield running
    script.check()


def named(user: str, role: str) -> str:
    return token(user, role, name=NAMES[user])


def signed_in(contexts: Callable[..., BrowserContext], user: str, role: str) -> BrowserContext:
    context = contexts()
    put = f"sessionStorage.setItem('nodius.token', '{named(user, role)}')"
    context.add_init_script(f"if (location.protocol === 'http:') {put}")
    return context


def test_pointers_cards_toasts_and_the_audit_log_call_people_by_their_names(
    shared: Site,
    script: ScriptedProvider,
    open_page: OpenPage,
    contexts: Callable[..., BrowserContext],
) -> None:
    script.play(proposes(RENAME))
    key = key_of(shared)
    ada = open_page(shared, key, context=signed_in(contexts, ADA, "editor"))
    body = {"graphKey": key, "message": "Rename it"}
    shared.rest("POST", "/api/ai/chat", token=named(ADA, "editor"), json=body)
    grace = open_page(shared, key, panel="review", context=signed_in(contexts, GRACE, "reviewer"))
    expect(card(grace, "pending", "review")).to_contain_text("asked for by Ada Lovelace")
    expect(grace.locator(".people")).to_have_attribute("title", "Also here: Ada Lovelace")
    grace.mouse.move(300, 300)
    grace.mouse.move(320, 320)
    expect(ada.locator(".other-name")).to_have_text("Grace Hopper")
    press(card(grace, "pending", "review"), "Approve")
    expect(ada.locator(".toast")).to_contain_text("Grace Hopper")
    press(grace, "History")
    grace.locator(".audit summary").click()
    entries = grace.locator(".audit-list")
    expect(entries).to_contain_text("Ada Lovelace")
    for page in (ada, grace):
        assert "auth0" not in page.locator("body").inner_text()
