"""The view of a proposal for other programs: a document that loads nothing, bounded data without secrets."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from typing import Any

from graphrag.approvals import Approval
from graphrag.i18n import LANGUAGES
from server.mcp.app_resource import app_html, resource_meta, tool_ui
from server.mcp.tool_answers import MAX_BYTES, MAX_ITEMS, proposal_view
from server.workspaces import WorkspaceResolver
from tests.support.service import GRAPH, Service, service

KEY = "sk-proj-" + "Ab1" * 16


class Elements(HTMLParser):
    """The elements of a document with their attributes, and the text of scripts and styles."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {"script": [], "style": []}
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        tag = self.found[-1][0] if self.found else ""
        if tag in self.texts and data.strip():
            self.texts[tag].append(data)


def digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def test_the_document_loads_nothing_and_runs_only_its_own_script() -> None:
    elements = Elements(app_html())
    policy = next(a["content"] or "" for _, a in elements.found if a.get("http-equiv"))
    data, script = elements.texts["script"]
    (style,) = elements.texts["style"]
    assert policy.split("; ") == [
        "default-src 'none'",
        f"script-src {digest(script)}",
        f"style-src {digest(style)}",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    assert not [a for _, a in elements.found if {"src", "href", "style"} & set(a)]
    assert not [name for _, a in elements.found for name in a if name.startswith("on")]
    assert not re.search(r"url\((?!#)|@import", style)
    assert not re.search(
        r"\b(fetch|XMLHttpRequest|WebSocket|EventSource)\(", script.split("host/bridge.js")[1]
    )
    assert set(json.loads(data)["texts"]) == set(LANGUAGES)
    assert resource_meta()["ui"]["csp"] == {"connectDomains": [], "resourceDomains": [], "frameDomains": []}


def test_every_text_that_the_script_names_comes_with_it() -> None:
    data, script = Elements(app_html()).texts["script"]
    english = json.loads(data)["texts"]["en"]
    named = set(re.findall(r'\bt\("([\w.]+)"', script)) | set(re.findall(r'say\("([\w.]+)"', script))
    of_the_page_alone = {key for key in named - set(english) if key.startswith(("canvas.", "find.", "tidy."))}
    assert named - set(english) - of_the_page_alone == set()
    assert {"ghost.added", "state.pending", "state.expired", "view.open", "change.node.added"} <= set(english)
    assert len(english) < 200


def test_only_tools_that_propose_have_the_view() -> None:
    assert tool_ui("propose_update_node") == {"ui": {"resourceUri": "ui://nodius/proposal"}}
    assert tool_ui("search_nodes") is None


async def waiting(running: Service, message: str) -> tuple[Any, Approval]:
    async with running.as_() as ed:
        said = (await ed.post("/api/ai/chat", json={"graphKey": GRAPH, "message": message})).json()
        token = ed.headers["authorization"].removeprefix("Bearer ")
    identity = await running.state.authenticator.authenticate(token, "mcp")
    return await WorkspaceResolver(running.state, identity).of_approval(said["approvals"][0]["id"])


async def test_a_view_has_the_graph_around_and_the_address_of_the_page() -> None:
    async with service() as running:
        place, approval = await waiting(running, 'rename error-handler to "Report error"')
        view = await proposal_view(place, approval, "en")
    assert view["link"].endswith(f"/#graph={GRAPH}&panel=review&approval={approval.id}")
    assert view["proposal"]["status"] == "pending"
    assert view["proposal"]["preview"] == approval.preview
    assert "action" not in view["proposal"]
    nodes = {node["_key"] for node in view["around"]["nodes"]}
    assert nodes >= {"error-handler", "fetch-api"}
    assert {end for edge in view["around"]["edges"] for end in (edge["source"], edge["target"])} <= nodes
    assert {one["type"] for one in view["around"]["types"]} == {n["type"] for n in view["around"]["nodes"]}
    assert view["around"]["graph"]["name"] == "NBA Stats Pipeline"


async def test_a_view_is_bounded_and_masks_secrets() -> None:
    async with service() as running:
        place, approval = await waiting(running, 'rename error-handler to "Report error"')
        node = {"_key": "x", "type": "log-node", "sheet": "0", "data": {"text": f"key={KEY} " + "y" * 9_000}}
        many = approval.model_copy(update={"preview": {"nodesAdded": [node] * 500}})
        view = await proposal_view(place, many, "en")
        deep: Any = "z"
        for _ in range(50):
            deep = [deep]
        wide = {
            **node,
            "data": {str(i): {str(j): "w" * 1_900 for j in range(20)} for i in range(20)},
            "deep": deep,
        }
        huge = approval.model_copy(update={"preview": {"nodesAdded": [wide] * 5}})
        cut = await proposal_view(place, huge, "en")
    assert len(view["proposal"]["preview"]["nodesAdded"]) == MAX_ITEMS
    assert KEY not in json.dumps(view)
    assert (cut["proposal"]["preview"], cut["proposal"]["cut"]) == ({}, True)
    assert cut["proposal"]["title"]
    for each in (view, cut):
        assert len(json.dumps(each, ensure_ascii=False).encode()) <= MAX_BYTES
