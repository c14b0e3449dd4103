"""The administration in the page: a model is set, somebody is invited, a backup is made."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.e2e.conftest import OpenPage, Trouble
from tests.e2e.site import Site, running_site
from tests.e2e.talk import answered, ask
from tests.graphrag.llm.wire import openai_text, streamed
from tests.support.scripted_http import ScriptedServer
from tests.support.service import SECRET, token

KEY = "sk-a-key-of-the-page-4711"


def signed_in(contexts: Callable[..., BrowserContext], role: str) -> BrowserContext:
    context = contexts()
    given = json.dumps(token("ada", role))
    keep = f"sessionStorage.setItem('nodius.token', {given})"
    context.add_init_script(f"if (location.protocol === 'http:') {keep}")
    return context


def open_admin(site: Site, context: BrowserContext) -> Page:
    page = context.new_page()
    (graph,) = site.rest("GET", "/api/graphs", token=token())["graphs"]
    page.goto(f"{site.url}#graph={graph['graphKey']}&sheet=0&panel=settings")
    page.wait_for_selector("html[data-ready=true]", state="attached")
    return page


def test_an_admin_sets_a_model_asks_it_and_never_sees_the_key_again(
    tmp_path: Path, contexts: Callable[..., BrowserContext], trouble: Trouble
) -> None:
    with ScriptedServer() as server:
        settings = {"agent_http_allow": (server.url.removeprefix("http://"),), "provider": None}
        with running_site(tmp_path, graph=False, auth_secret=SECRET, **settings) as site:
            site.import_graph(token=token())
            page = open_admin(site, signed_in(contexts, "admin"))
            model = page.get_by_role("region", name="Model", exact=True)
            model.get_by_label("Provider", exact=True).select_option("compatible")
            model.get_by_label("Model", exact=True).fill("my-model")
            model.get_by_label("Address of the server", exact=True).fill("ftp://nowhere")
            model.get_by_label("Key", exact=True).fill(KEY)
            model.get_by_role("button", name="Save").click()
            expect(model.get_by_role("alert")).to_contain_text("llm_base_url")
            model.get_by_label("Address of the server", exact=True).fill(f"{server.url}/v1")
            page.keyboard.press("Enter")
            expect(model).to_contain_text("compatible answers with my-model")
            expect(model.get_by_label("Key", exact=True)).to_have_value("")
            server.play(streamed(openai_text("Blue, says the model.")))
            page.get_by_role("tab", name="Chat").click()
            ask(page, "Which colour has the sky?")
            answered(page, "Blue, says the model.")
            assert server.requests[-1].headers["authorization"] == f"Bearer {KEY}"
            page.reload()
            page.get_by_role("tab", name="Administration").click()
            expect(model).to_contain_text("A key is kept, encrypted")
            assert KEY not in page.content()
            page.context.close()
    trouble.forgive("422")  # the address that is refused


def test_somebody_who_is_invited_by_a_link_is_signed_in_until_it_is_revoked(
    tmp_path: Path, contexts: Callable[..., BrowserContext], trouble: Trouble
) -> None:
    with running_site(tmp_path, graph=False, auth_secret=SECRET) as site:
        site.import_graph(token=token())
        page = open_admin(site, signed_in(contexts, "admin"))
        people = page.get_by_role("region", name="People and roles")
        people.get_by_label("Name or mail address").fill("bea@example.org")
        people.get_by_label("Role").select_option("reviewer")
        page.keyboard.press("Tab")
        people.get_by_role("button", name="Make a link").click()
        link = people.locator("code").inner_text()
        guest = contexts().new_page()
        guest.goto(link)
        expect(guest.locator(".graph-card")).to_have_count(1)
        expect(
            guest.get_by_role("button", name="Sign out: bea@example.org (reviewer)")
        ).to_be_visible()
        expect(guest).not_to_have_url(re.compile("invite"))
        people.get_by_role("button", name="Revoke: bea@example.org").click()
        page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
        expect(people).to_contain_text("Nobody has a key yet")
        guest.context.close()
        page.context.close()
    trouble.forgive("401")


def test_a_backup_is_made_and_downloaded(offline_site: Site, open_page: OpenPage) -> None:
    page = open_page(offline_site, panel="settings")
    backup = page.get_by_role("region", name="Backup")
    backup.get_by_role("button", name="Back up now").click()
    with page.expect_download() as download:
        backup.get_by_role("button", name="Download").click()
    assert download.value.path().read_bytes().startswith(b"SQLite format 3")


def test_the_page_says_how_another_database_is_backed_up(
    tmp_path: Path, open_page: OpenPage
) -> None:
    with running_site(tmp_path, graph=False, db="memory:") as site:
        page = open_page(site, None)
        page.goto(f"{site.url}#panel=settings")
        backup = page.get_by_role("region", name="Backup")
        expect(backup).to_contain_text("This database is in memory and ends with the server")
        expect(backup.get_by_role("button", name="Back up now")).to_be_disabled()


@pytest.mark.parametrize("locale", ["en-US", "fr-FR"])
def test_what_the_environment_sets_cannot_be_changed_there(
    offline_site: Site, open_page: OpenPage, locale: str
) -> None:
    page = open_page(offline_site, panel="settings", locale=locale)
    provider = page.locator("#setting-provider")
    expect(provider).to_be_disabled()
    expect(provider).to_have_accessible_description(
        "Set by the environment (NODIUS_PROVIDER); it cannot be changed here."
        if locale == "en-US"
        else "Défini par l’environnement (NODIUS_PROVIDER) ; ne se change pas ici."
    )
