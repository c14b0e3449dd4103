"""What somebody new to the page looks for: a node, a file, what a change did, how to
take it back.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.e2e.conftest import OpenPage, Trouble
from tests.e2e.site import Site, running_site
from tests.e2e.talk import RENAME, answered, ask, card, node, press, proposes
from tests.graphrag.importers.helpers import n8n, n8n_node, to
from tests.graphrag.llm.wire import openai_text, streamed
from tests.support.identity_providers import mock_provider, oidc_settings
from tests.support.scripted_http import Answer, ScriptedServer
from tests.support.scripted_provider import Says, ScriptedProvider
from tests.support.service import SECRET, token


def test_a_node_is_found_by_its_name_and_by_its_code_on_any_sheet(page: Page) -> None:
    page.locator(".stage").focus()
    page.keyboard.press("Control+f")
    field = page.get_by_role("searchbox", name="Name, type, data or code")
    expect(field).to_be_focused()
    field.fill("sort points")
    dialog = page.get_by_role("dialog", name="Find a node")
    expect(dialog.locator("button.palette-type")).to_have_count(1)
    expect(dialog).to_contain_text("on data-processing")
    field.press("Enter")
    expect(page.locator(".node.selected")).to_have_attribute("data-key", "sort-stats")
    page.get_by_role("button", name="Find a node").click()
    field.fill("incoming.data;")
    expect(dialog.locator("button.palette-type").first).to_contain_text("Log fetch error")
    field.fill("<b>nothing of the kind")
    expect(dialog.get_by_role("status")).to_have_text("0 nodes")


def test_the_graph_that_is_open_is_exported_as_it_is(page: Page) -> None:
    with page.expect_download() as download:
        page.locator("header").get_by_label("Export JSON").click()
    document = json.loads(download.value.path().read_text(encoding="utf-8"))
    assert {one["_key"] for one in document["nodes"]} >= {"root", "sort-stats"}


def test_what_was_approved_is_marked_and_undo_says_where_it_is_taken_back(
    page: Page, script: ScriptedProvider
) -> None:
    script.play(proposes(RENAME), "Renamed.")
    ask(page, "Rename it")
    press(card(page, "pending"), "Approve")
    expect(page.locator(".node.done")).to_have_attribute("data-key", "fetch-api")
    answered(page, "Renamed.")
    expect(page.locator(".node.done")).to_have_count(0)
    page.locator(".stage").focus()
    page.keyboard.press("Control+z")
    page.locator(".toast").get_by_role("button", name="Approved changes").click()
    item = page.locator("#panel-review .history-item").first
    item.locator("summary").click()
    press(item, "Undo…")
    press(page.locator("dialog"), "Undo it")
    expect(node(page, "fetch-api")).to_contain_text("Fetch NBA players")


def test_an_empty_sheet_offers_the_first_node(offline_site: Site, open_page: OpenPage) -> None:
    document = json.loads(
        json.dumps({"graph": {"_key": "none", "name": "None", "sheetsList": {"0": "main"}}})
    )
    offline_site.import_graph({**document, "nodes": [], "edges": [], "configs": []}, "none")
    page = open_page(offline_site, "none")
    page.locator(".empty-sheet").get_by_role("button", name="Add a node").click()
    page.get_by_role("searchbox", name="Find a type").press("Enter")
    expect(page.locator(".node")).to_have_count(1)
    expect(page.locator(".empty-sheet")).to_be_hidden()


KEY = "sk-a-key-of-the-form-4711"


def test_an_admin_reads_the_settings_and_tries_a_key(page: Page) -> None:
    page.get_by_role("tab", name="Administration").click()
    panel = page.get_by_role("tabpanel", name="Administration")
    dialog = panel.get_by_role("region", name="All settings")
    dialog.get_by_text("Limits").click()
    expect(dialog.get_by_role("row", name="NODIUS_RATE_LIMIT")).to_contain_text("30")
    with ScriptedServer() as server:
        dialog.get_by_label("Provider").select_option("compatible")
        dialog.get_by_label("Model", exact=True).fill("my-model")
        dialog.get_by_label("Address of the server").fill(f"{server.url}/v1")
        dialog.get_by_label("Key").fill(KEY)
        server.play(Answer(status=401, body={"error": {"message": "who are you?"}}))
        dialog.get_by_role("button", name="Ask it a question").click()
        expect(dialog.get_by_text("It does not work")).to_be_visible()
        server.play(streamed(openai_text("Blue.")))
        page.keyboard.press("Enter")
        expect(dialog.get_by_text("It answers")).to_be_visible()
        assert server.requests[-1].headers["authorization"] == f"Bearer {KEY}"
    expect(dialog.locator(".trial-detail")).to_have_text("Blue.")
    expect(dialog.locator(".trial-line")).to_contain_text("NODIUS_MODEL=my-model")
    assert KEY not in dialog.inner_text()
    assert KEY not in page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}])")


def test_somebody_signs_in_at_the_provider_works_on_past_their_token_and_signs_out(
    tmp_path: Path, open_page: OpenPage, trouble: Trouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.sign_in_routes.TOKEN_S", 3)
    with mock_provider(alice=["staff"]) as issuer:
        settings = oidc_settings(issuer, auth_secret=SECRET, auth_leeway_s=0)
        with running_site(tmp_path, graph=False, **settings) as site:
            site.import_graph(token=token())
            (graph,) = site.rest("GET", "/api/graphs", token=token())["graphs"]
            address = f"{site.url}#graph={graph['graphKey']}&sheet=0&panel=chat"
            page = open_page(site, None)
            page.goto(address)
            dialog = page.get_by_role("dialog", name="Sign in")
            expect(dialog.get_by_label("Access token")).to_be_hidden()
            dialog.get_by_role("button", name="Sign in").click()
            page.get_by_role("button", name="alice").click()
            page.wait_for_selector("main[data-state=ready]")
            expect(page).to_have_url(address)
            assert page.evaluate("sessionStorage.getItem('nodius.token')") is None
            other = open_page(site, None, context=page.context)  # another tab is signed in, too
            page.wait_for_timeout(3_500)  # their tokens have expired by now
            other.get_by_role("button", name="NBA Stats Pipeline").first.click()
            for one in (page, other):
                expect(one.locator(".connection.open")).to_be_attached()
                expect(one.locator("dialog[open]")).to_have_count(0)
            page.get_by_role("button", name=re.compile("Sign out: .*Alice")).click()
            page.wait_for_url(f"{issuer}/**")
            page.goto(site.url)
            expect(page.get_by_role("dialog", name="Sign in")).to_be_visible()
            page.context.close()
    # the provider's page wants a style sheet
    trouble.forgive("401", "ERR_NAME_NOT_RESOLVED", "404 (NOT FOUND)")


@pytest.mark.parametrize(("theme", "width"), [("dark", 1280), ("light", 390)])
def test_a_developer_tries_the_api_from_its_pages(
    page: Page, offline_site: Site, trouble: Trouble, theme: str, width: int
) -> None:
    page.keyboard.press("?")
    with page.context.expect_page() as opened:
        page.get_by_role("link", name="API for programs").click()
    docs = opened.value
    trouble.watch(docs)
    docs.emulate_media(color_scheme="dark" if theme == "dark" else "light")
    docs.set_viewport_size({"width": width, "height": 800})
    elsewhere: list[str] = []
    docs.on(
        "request",
        lambda sent: elsewhere.append(sent.url) if offline_site.url not in sent.url else None,
    )
    docs.reload()
    docs.locator(".opblock-summary-control", has_text="/api/ai/chat").click()
    docs.get_by_role("button", name="Try it out").click()
    docs.get_by_role("button", name="Execute").click()
    expect(
        docs.locator(".live-responses-table .response-col_status", has_text="200")
    ).to_be_visible()
    message = docs.locator("#websocket details", has_text="ai:complete").first
    message.locator("summary").click()
    expect(message.locator("pre")).to_contain_text('"fullText"')
    assert [url for url in elsewhere if not url.startswith(("data:", "blob:"))] == []
    assert _background(docs) == ("rgb(28, 32, 34)" if theme == "dark" else "rgb(250, 250, 250)")
    assert docs.evaluate("document.documentElement.scrollWidth") <= width


def _background(docs: Page) -> str:
    return docs.evaluate("getComputedStyle(document.body).backgroundColor")


def test_what_an_answer_rests_on_lights_up_and_what_lies_behind_leaves_the_rest_dimmed(
    page: Page, script: ScriptedProvider
) -> None:
    script.play(
        Says(text="It fetches: {{node:fetch-api}}."),
        Says(text="{{node:fetch-api}} fails: {{highlight:error-handler}}."),
    )
    lit = page.locator(".node.lit")
    dimmed = page.locator(".node.dimmed")
    ask = page.get_by_placeholder("Ask, or say what to change")
    ask.fill("What fetches?")
    ask.press("Enter")
    expect(lit).to_have_attribute("data-key", "fetch-api")
    expect(dimmed).to_have_count(0)
    ask.fill("And if it fails?")
    ask.press("Enter")
    expect(lit).to_have_count(2)
    expect(dimmed).to_have_count(5)
    expect(page.locator(".edge.path")).to_have_attribute("data-key", "edge-fetch-error")
    page.reload()  # also of an answer that is stored
    expect(dimmed).to_have_count(5)
    page.locator(".stage").focus()
    page.keyboard.press("Escape")
    expect(page.locator(".node.lit, .node.dimmed, .edge.path")).to_have_count(0)


SHOP = n8n(
    [
        n8n_node("Start", "n8n-nodes-base.manualTrigger"),
        n8n_node(
            "Charge", "n8n-nodes-base.httpRequest", position=[300, 0], onError="continueErrorOutput"
        ),
        n8n_node("Ship", "n8n-nodes-base.httpRequest", position=[600, -150]),
        n8n_node("Refund", "n8n-nodes-base.httpRequest", position=[600, 150]),
        n8n_node("Log", position=[900, 0]),
    ],
    {
        "Start": {"main": [[to("Charge")]]},
        "Charge": {"main": [[to("Ship")], [to("Refund")]]},
        "Ship": {"main": [[to("Log")]]},
        "Refund": {"main": [[to("Log")]]},
    },
)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_what_runs_and_what_does_not_after_a_failure_are_two_colours_with_a_legend(
    offline_site: Site, open_page: OpenPage, theme: str
) -> None:
    offline_site.import_graph(SHOP, key="shop")
    page = open_page(offline_site, "shop", color_scheme=theme)
    ask(page, "What happens if Charge fails?")
    runs = page.locator(".node.runs")
    stops = page.locator(".node.stops")
    legend = page.locator(".outcome-legend:not([hidden])")
    for _ in range(2):  # as answered, and as it is stored
        expect(runs).to_have_count(2)
        expect(stops).to_have_attribute("data-key", "ship")
        expect(node(page, "charge")).to_have_class(re.compile(r"\basked\b"))
        expect(node(page, "start")).to_have_class(re.compile(r"\bdimmed\b"))
        expect(page.locator(".edge.runs, .edge.stops")).to_have_count(4)
        expect(node(page, "refund")).to_have_accessible_description("Runs")
        expect(node(page, "ship")).to_have_accessible_description("Does not run")
        colours = [_outline(found) for found in (runs.first, stops, node(page, "charge"))]
        assert len(set(colours)) == 3
        expect(legend.get_by_role("button")).to_have_text(["Runs2", "Does not run1", "Hide"])
        page.reload()
        page.wait_for_selector("main[data-state=ready]")
    legend.get_by_role("button", name="Does not run").focus()
    page.keyboard.press("Enter")
    expect(page.locator(".node.selected")).to_have_attribute("data-key", "ship")
    page.locator(".stage").focus()
    page.keyboard.press("Escape")  # the selection
    page.keyboard.press("Escape")
    expect(page.locator(".node.runs, .node.stops, .node.dimmed, .edge.stops")).to_have_count(0)
    expect(legend).to_have_count(0)


def _outline(found: Locator) -> str:
    return found.locator(".node-body").evaluate("(body) => getComputedStyle(body).outlineColor")
