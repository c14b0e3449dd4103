"""Connected servers: the guided form, the list, and where the open graph stands."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator, Page, expect

from tests.e2e.conftest import OpenPage, Trouble
from tests.e2e.site import Site, running_site
from tests.e2e.talk import press
from tests.e2e.test_asked import rename
from tests.e2e.test_automations import Contexts
from tests.e2e.test_review import signed_in
from tests.graphrag.connections.conftest import workflow
from tests.graphrag.connections.test_node_red import flow
from tests.support.in_thread import in_thread
from tests.support.service import SECRET, token
from tests.support.workflow_servers import (
    N8N_KEY,
    WRITE_SCOPES,
    N8nDouble,
    n8n_double,
    node_red,
)

LANGUAGES = {"en": "Connected servers", "fr": "Serveurs connectés"}


@pytest.fixture
def n8n() -> Generator[N8nDouble]:
    with in_thread(n8n_double()) as (double, _):
        yield double


@pytest.fixture
def guarded(tmp_path: Path) -> Generator[Site]:
    """A service with sign-in, so that keys can be stored."""
    with running_site(tmp_path, graph=False, auth_secret=SECRET) as site:
        yield site


def has_no_violation(page: Page) -> None:
    """Both themes as axe-core sees them."""
    checker: Any = Axe()
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme, reduced_motion="reduce")
        page.wait_for_function(
            "() => !document.getAnimations().some((one) => one instanceof CSSTransition)"
        )
        found = checker.run(page).response["violations"]
        assert [f"{one['id']}: {at['html'][:120]}" for one in found for at in one["nodes"]] == []


def the_list(page: Page) -> Locator:
    page.get_by_role("button", name="Connected servers").press("Enter")
    return page.get_by_role("dialog")


def test_an_n8n_server_is_connected_by_keyboard_with_errors_at_their_fields_and_disconnected(
    guarded: Site, n8n: N8nDouble, open_page: OpenPage, contexts: Contexts, trouble: Trouble
) -> None:
    n8n.put(workflow("Order", "Check"))
    page = open_page(guarded, None, context=signed_in(contexts, "ann", "admin"))
    the_list(page)
    press(page.get_by_role("dialog"), "Connect a server")
    form = page.get_by_role("dialog").last
    address = form.get_by_label("Address", exact=True)
    expect(address).to_be_focused()
    address.press_sequentially(n8n.address)
    expect(form.get_by_label("Name of the connection")).to_have_value("n8n")
    form.get_by_label("Key", exact=True).fill("wrong-key-0123456789")
    page.keyboard.press("Enter")
    private = form.get_by_role("checkbox", name="private network")
    expect(private).to_be_focused()
    expect(private).to_have_attribute("aria-invalid", "true")
    has_no_violation(page)
    page.keyboard.press("Space")
    press(form, "Connect")
    key = form.get_by_label("Key", exact=True)
    expect(key).to_have_attribute("aria-invalid", "true")
    expect(form.locator("#server-key-error")).to_contain_text("refused the key")
    key.fill(N8N_KEY)
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_have_count(1)
    row = page.locator("article[data-connection=n8n]")
    expect(row).to_contain_text("1 in step")
    press(row, "Workflows: n8n")
    there = row.get_by_role("link", name="Open in n8n: Order")
    expect(there).to_have_attribute("href", f"{n8n.address}/workflow/{next(iter(n8n.workflows))}")
    has_no_violation(page)
    assert N8N_KEY not in page.content()
    press(row, "Disconnect: n8n")
    press(page.get_by_role("dialog").last, "Disconnect")
    expect(page.get_by_text("No server is connected yet")).to_be_visible()
    graphs = guarded.rest("GET", "/api/graphs", token=token())["graphs"]
    assert [graph["name"] for graph in graphs] == ["Order"]
    trouble.forgive("422")


def test_a_graph_says_where_it_stands_and_opens_its_workflow_in_node_red(
    tmp_path: Path, open_page: OpenPage
) -> None:
    (tmp_path / "red").mkdir()
    with (
        running_site(tmp_path, graph=False) as site,
        in_thread(node_red(tmp_path / "red")) as (server, loop),
    ):

        def deploy(text: str) -> None:
            deploying = server.deploy(flow(text))
            asyncio.run_coroutine_threadsafe(deploying, loop).result(60)

        deploy("return msg;")
        page = open_page(site, None)
        the_list(page)
        press(page.get_by_role("dialog"), "Connect a server")
        form = page.get_by_role("dialog").last
        form.get_by_role("radio", name="Node-RED").check()
        form.get_by_label("Address", exact=True).fill(server.address)
        form.get_by_role("checkbox", name="private network").check()
        form.get_by_label("Name of the connection").fill("home")
        form.get_by_label("Look for changes").select_option("only on request")
        press(form, "Connect")
        row = page.locator("article[data-connection=home]")
        expect(row).to_contain_text("1 in step")
        press(row, "Workflows: home")
        row.get_by_role("button", name="home", exact=True).press("Enter")
        page.wait_for_selector("main[data-state=ready]")
        mark = page.locator(".link-mark")
        expect(mark).to_contain_text("in step")
        rename(page, "check", "Checked here")
        expect(mark).to_contain_text("changed here")
        mark.press("Enter")
        dialog = page.get_by_role("dialog")
        link = dialog.get_by_role("link", name="Open in Node-RED")
        expect(link).to_have_attribute("href", f"{server.address}/")
        deploy("return null;")
        press(dialog, "Compare")
        expect(dialog.get_by_role("status")).to_contain_text("return null;")
        has_no_violation(page)
        page.screenshot(path=str(tmp_path / "linked.png"))
        press(dialog, "Synchronise now")
        expect(dialog.locator(".linked-result")).to_be_empty()
        press(dialog, "Compare")
        expect(dialog.get_by_role("status")).to_contain_text("Nothing.")
        expect(mark).to_contain_text("changed here")
        page.goto("about:blank")  # it asks nothing more when the servers end


def test_a_change_is_shown_field_by_field_written_to_n8n_and_taken_back(
    guarded: Site, n8n: N8nDouble, open_page: OpenPage, contexts: Contexts
) -> None:
    n8n.scopes = WRITE_SCOPES
    order = n8n.put(workflow("Order", "Check"))
    page = open_page(guarded, None, context=signed_in(contexts, "ann", "admin"))
    the_list(page)
    press(page.get_by_role("dialog"), "Connect a server")
    form = page.get_by_role("dialog").last
    form.get_by_label("Address", exact=True).fill(n8n.address)
    form.get_by_role("checkbox", name="private network").check()
    form.get_by_label("Key", exact=True).fill(N8N_KEY)
    form.get_by_label("Write changes back").select_option("ask")
    press(form, "Connect")
    row = page.locator("article[data-connection=n8n]")
    expect(row).to_contain_text("1 in step")
    press(row, "Workflows: n8n")
    row.get_by_role("button", name="Order", exact=True).press("Enter")
    page.wait_for_selector("main[data-state=ready]")
    rename(page, "check", "Checked here")
    mark = page.locator(".link-mark")
    expect(mark).to_contain_text("changed here")
    mark.press("Enter")
    dialog = page.get_by_role("dialog")
    press(dialog, "Write back…")
    push = dialog.locator(".push")
    expect(push).to_contain_text("waits for a decision")
    expect(push.get_by_role("row").last).to_contain_text("Checked here")
    has_no_violation(page)
    assert n8n.workflows[order]["nodes"][1]["name"] == "Check"
    press(push, "Write it")
    expect(push).to_contain_text("written and read back")
    expect(mark).to_contain_text("in step")
    assert n8n.workflows[order]["nodes"][1]["name"] == "Checked here"
    press(push, "Take it back…")
    undo = dialog.locator(".push").first
    press(undo, "Write it")
    expect(undo).to_contain_text("written and read back")
    assert n8n.workflows[order]["nodes"][1]["name"] == "Check"


WORDS = {
    "en": (
        "Publish…",
        "Publish it",
        "written and read back",
        "Make the open graph a workflow of n8n…",
    ),
    "fr": ("Publier…", "Publier", "écrit et relu", "Faire du graphe ouvert un workflow de n8n…"),
}


def connect(site: Site, n8n: N8nDouble) -> None:
    body = {"name": "shop", "kind": "n8n", "address": n8n.address, "key": N8N_KEY}
    more = {"allowPrivate": True, "push": "ask"}
    site.rest("POST", "/api/connections", json={**body, **more}, token=token("ann", "admin"))


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_draft_is_published_once_what_goes_live_was_seen(
    language: str,
    guarded: Site,
    n8n: N8nDouble,
    open_page: OpenPage,
    contexts: Contexts,
    tmp_path: Path,
) -> None:
    publish, publish_it, is_done, _ = WORDS[language]
    n8n.scopes = (*WRITE_SCOPES, "workflow:activate")
    order = n8n.put(workflow("Order", "Check", mode="a"))
    n8n.run_published(order)
    n8n.put(workflow("Order", "Check", mode="b"), id=order)
    connect(guarded, n8n)
    context = signed_in(contexts, "ann", "admin", locale=language)
    page = open_page(guarded, "order", context=context)
    page.locator(".link-mark").press("Enter")
    dialog = page.get_by_role("dialog")
    press(dialog, publish)
    push = dialog.locator(".push")
    expect(push.get_by_role("row").last).to_contain_text("mode")
    has_no_violation(page)
    page.screenshot(path=str(tmp_path / "publish.png"))
    assert n8n.went_live == []
    press(push, publish_it)
    expect(push).to_contain_text(is_done)
    assert n8n.runs(order)[1]["parameters"] == {"mode": "b"}


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_open_graph_becomes_a_workflow_of_a_connected_n8n_once(
    language: str,
    guarded: Site,
    n8n: N8nDouble,
    open_page: OpenPage,
    contexts: Contexts,
    tmp_path: Path,
) -> None:
    _, _, is_done, create = WORDS[language]
    n8n.scopes = (*WRITE_SCOPES, "workflow:create")
    content = json.dumps(workflow("Return", "Check")).encode()
    path = "/api/graphs/import?fileName=return.json"
    graph = guarded.rest("POST", path, content=content, token=token())["graphKey"]
    connect(guarded, n8n)
    context = signed_in(contexts, "ann", "admin", locale=language)
    page = open_page(guarded, graph, context=context)
    page.get_by_role("button", name=LANGUAGES[language]).press("Enter")
    row = page.locator("article[data-connection=shop]")
    press(row, create)
    push = row.locator(".push")
    expect(push.get_by_role("row").first).to_be_visible()
    has_no_violation(page)
    page.screenshot(path=str(tmp_path / "create.png"))
    assert not n8n.workflows
    push.locator(".primary").press("Enter")
    expect(push).to_contain_text(is_done)
    expect(row.get_by_role("button", name=create)).to_have_count(0)
    [created] = n8n.workflows.values()
    assert (created["name"], created["active"]) == ("Return", False)
    page.keyboard.press("Escape")
    expect(page.locator(".link-mark")).to_be_visible()


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_dialog_speaks_the_language_of_the_page_and_a_viewer_is_offered_nothing(
    language: str, guarded: Site, open_page: OpenPage, contexts: Contexts
) -> None:
    context = signed_in(contexts, "ed", "editor", locale=language)
    page = open_page(guarded, None, context=context)
    press(page.locator("body"), LANGUAGES[language])
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("heading", name=LANGUAGES[language])).to_be_visible()
    expect(dialog.locator(".dialog-actions .primary")).to_be_hidden()
    viewer = open_page(guarded, None, context=signed_in(contexts, "vic", "viewer"))
    expect(viewer.get_by_role("button", name="Connected servers")).to_have_count(0)
