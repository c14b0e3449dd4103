"""The view of a proposal inside another program: a small host speaks with it as MCP Apps do,
in a sandbox.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import BrowserContext, FrameLocator, Page, expect

from server.mcp.app_resource import MIME_TYPE, RESULT_META, URI, app_html, tool_ui
from server.mcp.tool_answers import proposal_view
from server.workspaces import WorkspaceResolver
from tests.e2e.site import GRAPH, Site
from tests.e2e.talk import CHANGE, HOSTILE, RENAME
from tests.support.node_packages import node, node_modules
from tests.support.scripted_provider import Says, ScriptedProvider, call

ADD = {
    "type_key": "log-node",
    "sheet": "0",
    "pos_x": 640,
    "pos_y": 300,
    "data": {"name": "Players kept"},
    "reason": "to see how many are left",
}
HOST = """<!doctype html><meta charset="utf-8"><title>Host</title><style>body { margin: 16px; background: %s }
iframe { width: 100%%; border: 0; height: 200px; color-scheme: normal }</style>
<iframe sandbox="allow-scripts" title="Proposal"></iframe>"""
SPEAK = """([html, context, result]) => {
  window.heard = [];
  const frame = document.querySelector("iframe");
  const send = (message) => frame.contentWindow.postMessage({ jsonrpc: "2.0", ...message }, "*");
  window.send = send;
  window.addEventListener("message", ({ source, data }) => {
    if (source !== frame.contentWindow) return;
    heard.push(data);
    if (data.method === "ui/initialize") send({ id: data.id, result: { protocolVersion: "2026-01-26",
      hostInfo: { name: "a host", version: "1" }, hostCapabilities: context.can, hostContext: context } });
    if (data.method === "ui/notifications/initialized")
      send({ method: "ui/notifications/tool-result", params: result });
    if (data.method === "ui/open-link") send({ id: data.id, result: {} });
    if (data.method === "tools/call") send({ id: data.id, result: { structuredContent: window.now } });
    if (data.method === "ui/notifications/size-changed") frame.style.height = `${data.params.height}px`;
  });
  frame.srcdoc = html;
}"""
Host = Callable[..., tuple[Page, FrameLocator]]


@pytest.fixture
def host(contexts: Callable[..., BrowserContext]) -> Host:
    """Show a result in a host of a theme and language; return the host's page and the
    view in it.
    """

    def opened(
        result: dict[str, Any],
        *,
        theme: str = "light",
        locale: str = "en-US",
        can: Sequence[str] = ("openLinks",),
    ) -> tuple[Page, FrameLocator]:
        page = contexts(viewport={"width": 720, "height": 900}).new_page()
        page.set_content(HOST % ("#fff" if theme == "light" else "#1a1b20"))
        page.evaluate(
            SPEAK,
            [
                app_html(),
                {"theme": theme, "locale": locale, "can": {name: {} for name in can}},
                result,
            ],
        )
        return page, page.frame_locator("iframe[title=Proposal]")

    return opened


def proposed(
    site: Site, script: ScriptedProvider, tool: str, arguments: dict[str, Any]
) -> dict[str, Any]:
    """Propose a change; return the tool's result as a host gives it to the view."""
    script.play(Says(text="I propose this.", calls=[call(tool, arguments)]))
    said = site.rest("POST", "/api/ai/chat", json={"graphKey": GRAPH, "message": "Change it"})

    async def view() -> dict[str, Any]:
        identity = await site.state.authentication.authenticator.authenticate(None, "mcp")
        place, approval = await WorkspaceResolver(
            site.state.backend.workspaces, identity
        ).of_approval(said["approvals"][0]["id"])
        return await proposal_view(place, approval, "en")

    return {"content": [], "_meta": {RESULT_META: json.loads(json.dumps(site.run(view)))}}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_preview_and_the_card_are_shown_as_in_the_page(
    theme: str, site: Site, script: ScriptedProvider, host: Host
) -> None:
    result = proposed(site, script, "propose_update_node", CHANGE)
    asker = result["_meta"][RESULT_META]["proposal"]["userId"]
    result["_meta"][RESULT_META]["names"] = {asker: "Ada Lovelace"}
    page, view = host(result, theme=theme)
    expect(view.locator(".ghost.changed[data-key='error-handler']")).to_be_visible()
    expect(view.locator(".node[data-key='fetch-api']")).to_be_visible()
    card = view.locator(".card.is-pending")
    expect(card).to_contain_text("it was asked for")
    expect(card).to_contain_text("asked for by Ada Lovelace")
    expect(card.get_by_role("heading")).to_have_text("Change level of “Log fetch error”")
    expect(card.locator(".change-line")).to_contain_text("warning")
    expect(card).to_contain_text("A person approves or rejects it in Nodius.")
    assert view.get_by_role("button", name="Approve").count() == 0
    assert view.locator("html").evaluate("root => getComputedStyle(root).colorScheme") == theme
    frame = page.frames[1]
    assert Axe().run(frame).response["violations"] == []  # type: ignore[arg-type] - it takes a frame as well
    heights = "() => [document.documentElement.scrollHeight, window.innerHeight]"
    page.wait_for_function("() => document.querySelector('iframe').offsetHeight > 300")
    inner, outer = frame.evaluate(heights)
    assert inner <= outer + 1, "the host is told how high the view is"


def test_it_leads_to_the_page_and_sends_nothing_else(
    site: Site, script: ScriptedProvider, host: Host
) -> None:
    result = proposed(site, script, "propose_create_node", ADD)
    page, view = host(result)
    expect(view.locator(".ghost.added")).to_contain_text("Players kept")
    view.get_by_role("button", name="Open in Nodius").click()
    page.wait_for_function("() => heard.some(({ method }) => method === 'ui/open-link')")
    heard = page.evaluate("() => heard")
    opened = next(one for one in heard if one.get("method") == "ui/open-link")
    assert opened["params"] == {"url": result["_meta"][RESULT_META]["link"]}
    assert f"#graph={GRAPH}&panel=review&approval=ap_" in opened["params"]["url"]
    assert {one.get("method") for one in heard} == {
        "ui/initialize",
        "ui/notifications/initialized",
        "ui/notifications/size-changed",
        "ui/open-link",
    }


def test_what_became_of_it_meanwhile_is_asked_of_the_host(
    site: Site, script: ScriptedProvider, host: Host
) -> None:
    result = proposed(site, script, "propose_update_node", RENAME)
    approval = result["_meta"][RESULT_META]["proposal"]["id"]
    page, view = host(result, can=("openLinks", "serverTools"))
    expect(view.locator(".card.is-pending")).to_be_visible()
    page.wait_for_function("() => heard.some(({ method }) => method === 'tools/call')")
    decided = {"id": approval, "status": "rejected", "outcome": "Rejected by al: not now."}
    page.evaluate("(decided) => (window.now = decided)", {**decided, "id": "ap_of_another"})
    focus = "() => window.dispatchEvent(new Event('focus'))"
    page.frames[1].evaluate(focus)
    page.wait_for_function("() => heard.filter(({ method }) => method === 'tools/call').length > 1")
    expect(view.locator(".card.is-pending")).to_be_visible()
    page.evaluate("(decided) => (window.now = decided)", decided)
    page.frames[1].evaluate(focus)
    card = view.locator(".card.is-rejected")
    expect(card).to_contain_text("Rejected by al: not now.")
    expect(card).not_to_contain_text("A person approves or rejects it in Nodius.")
    asked = page.evaluate(
        "() => heard.filter(({ method }) => method === 'tools/call').map(({ params }) => params)"
    )
    assert asked == [{"name": "proposal_status", "arguments": {"id": approval}}] * len(asked)


def test_in_french_and_in_a_host_that_opens_no_links(
    site: Site, script: ScriptedProvider, host: Host
) -> None:
    result = proposed(site, script, "propose_update_node", RENAME)
    page, view = host(result, locale="fr-CA", can=())
    expect(view.locator(".card")).to_contain_text("Une personne approuve ou refuse dans Nodius.")
    expect(view.locator(".proposal-link")).to_have_text(result["_meta"][RESULT_META]["link"])
    assert view.get_by_role("button", name="Nodius").count() == 0
    changed = {
        "method": "ui/notifications/host-context-changed",
        "params": {"theme": "dark", "locale": "en"},
    }
    page.evaluate("(changed) => send(changed)", changed)
    expect(view.locator(".card")).to_contain_text("A person approves or rejects it in Nodius.")
    expect(view.locator("html")).to_have_attribute("data-theme", "dark")


@pytest.mark.parametrize(
    "result",
    [
        {"content": [], "isError": True},
        {"content": []},
        {"content": [], "structuredContent": {"a": 1}},
    ],
)
def test_a_result_without_a_proposal_is_said(result: dict[str, Any], host: Host) -> None:
    page, view = host(result)
    expect(view.get_by_role("status")).to_have_text("Nothing is proposed here.")
    page.evaluate("() => send({ id: 7, method: 'ui/resource-teardown', params: {} })")
    page.wait_for_function("() => heard.some(({ id, result }) => id === 7 && result)")
    page.evaluate("() => send({ method: 'ui/notifications/tool-cancelled', params: {} })")
    expect(view.get_by_role("status")).to_have_text("It was stopped: nothing is proposed.")


def test_texts_of_a_graph_and_links_that_are_none_stay_text(
    site: Site, script: ScriptedProvider, host: Host
) -> None:
    evil = {**RENAME, "changes": {"data.name": HOSTILE}, "reason": f"{HOSTILE} as well"}
    result = proposed(site, script, "propose_update_node", evil)
    drawn = result["_meta"][RESULT_META]
    drawn["link"] = "javascript:alert(9)"
    drawn["proposal"]["title"] = HOSTILE
    # of a host that leaves `_meta` out
    page, view = host({"content": [], "structuredContent": drawn})
    expect(view.locator(".card-title")).to_have_text(HOSTILE)
    expect(view.locator(".card-reason")).to_contain_text(HOSTILE)
    assert view.locator("img, a, .card-foot button, #proposal script").count() == 0
    # What another window says is not listened to.
    page.evaluate("""() => {
      const other = document.createElement("iframe");
      const said = '{ jsonrpc: "2.0", method: "ui/notifications/tool-cancelled" }';
      other.srcdoc = `<script>parent.frames[0].postMessage(${said}, "*")</script>`;
      document.body.append(other);
      return new Promise((resolve) => other.addEventListener("load", resolve));
    }""")
    expect(view.locator(".card-title")).to_have_text(HOSTILE)


@pytest.fixture(scope="module")
def bridge(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The script of a host, made with the protocol's own package."""
    modules = node_modules(
        "@modelcontextprotocol/ext-apps@2.0.4",
        "@modelcontextprotocol/client@2.4.0",
        "@modelcontextprotocol/core@2.4.0",
        "zod@4.6.7",
        "esbuild@0.28.2",
    )
    folder = tmp_path_factory.mktemp("host")
    (folder / "node_modules").symlink_to(modules)
    script = shutil.copy(Path(__file__).with_name("app_bridge_host.mjs"), folder)
    join = [str(node()), str(modules / "esbuild/bin/esbuild"), script, "--bundle", "--format=iife"]
    return subprocess.run(
        join, cwd=folder, check=True, capture_output=True, text=True, timeout=60
    ).stdout


def test_the_protocols_own_host_shows_it(
    bridge: str, site: Site, script: ScriptedProvider, contexts: Callable[..., BrowserContext]
) -> None:
    result = proposed(site, script, "propose_update_node", CHANGE)
    page = contexts(viewport={"width": 720, "height": 900}).new_page()
    page.set_content(HOST % "#1a1b20")
    page.add_script_tag(content=bridge)
    tool = {"name": "propose_update_node", "inputSchema": {"type": "object"}}
    given = {"html": app_html(), "result": result, "context": {"theme": "dark", "locale": "fr-FR"}}
    page.evaluate(
        "(given) => host(given)", {**given, "tool": {**tool, "_meta": tool_ui(tool["name"])}}
    )
    view = page.frame_locator("iframe[title=Proposal]")
    expect(view.locator(".ghost.changed[data-key='error-handler']")).to_be_visible()
    expect(view.locator("html")).to_have_attribute("data-theme", "dark")
    view.get_by_role("button", name="Ouvrir dans Nodius").click()
    page.wait_for_function("() => heard.opened.length > 0")
    assert page.evaluate("() => bridge.getAppVersion()") == {
        "name": "nodius-proposal",
        "version": version("nodius-graphrag"),
    }
    heard = page.evaluate("() => heard")
    assert heard["opened"] == [result["_meta"][RESULT_META]["link"]]
    assert heard["sizes"][-1] > 300
    assert (heard["uri"], heard["mimeType"]) == (URI, MIME_TYPE)
    assert page.evaluate("() => bridge.teardownResource({})") == {}
