"""A graph as it is read: names that are large enough, and what each node does."""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from mock_data import load_text
from tests.e2e.conftest import OpenPage
from tests.e2e.graphs import large_graph
from tests.e2e.site import GRAPH, Site, running_site
from tests.e2e.test_canvas import at_rest, box, node
from tests.e2e.test_connected import has_no_violation
from tests.support.data_files import workflow_batches

LEAST_PX = 9.0
SAMPLES = ("order_refund.json", "greenhouse_climate.json")
# The sizes on the screen of the names that are in view, by text.
NAMES = """() => {
  const stage = document.querySelector(".stage").getBoundingClientRect();
  const { a: k } = new DOMMatrix(getComputedStyle(document.querySelector(".world")).transform);
  const seen = [...document.querySelectorAll(".node:not([data-shape=note]) .node-name")].filter((name) => {
    const { left, right, top, bottom } = name.getBoundingClientRect();
    const isAcross = right > left && left < stage.right && right > stage.left;
    return isAcross && top < stage.bottom && bottom > stage.top;
  });
  return seen.map((name) => [name.textContent, parseFloat(getComputedStyle(name).fontSize) * k]);
}"""
INKED = """() => {
  const canvas = document.querySelector("canvas.far-names");
  if (canvas.hidden) return 0;
  const { width, height } = canvas;
  const copy = Object.assign(document.createElement("canvas"), { width, height });
  const pen = copy.getContext("2d", { willReadFrequently: true });
  pen.drawImage(canvas, 0, 0);
  const { data } = pen.getImageData(0, 0, width, height);
  let found = 0;
  for (let i = 3; i < data.length; i += 4) if (data[i] > 128) found += 1;
  return found;
}"""


def names_in_view(page: Page) -> list[tuple[str, float]]:
    return at_rest(page, NAMES, None)


def import_workflow(site: Site, path: Path) -> str:
    address = f"/api/graphs/import?graphKey={path.stem}&fileName={path.name}"
    return site.rest("POST", address, content=path.read_bytes())["graphKey"]


@pytest.mark.parametrize("name", SAMPLES)
def test_names_of_a_sample_can_be_read_when_it_opens(
    offline_site: Site, open_page: OpenPage, name: str
) -> None:
    offline_site.import_graph(json.loads(load_text(f"workflows/{name}")), key="sample")
    page = open_page(offline_site, "sample")
    found = names_in_view(page)
    assert min(size for _, size in found) >= LEAST_PX, found


def test_names_of_the_demo_graph_can_be_read_when_it_opens_whole(page: Page) -> None:
    found = names_in_view(page)
    assert len(found) == page.locator(".node").count()
    assert min(size for _, size in found) >= LEAST_PX, found


def opened_workflows(
    browser: Browser, tmp_path: Path, files: Sequence[Path]
) -> Generator[tuple[str, Page]]:
    """Yields the key of each workflow and a page that has just opened it."""
    with running_site(tmp_path, graph=False) as site:
        page = browser.new_context(viewport={"width": 1280, "height": 800}).new_page()
        for key in [import_workflow(site, path) for path in files]:
            page.goto(f"{site.url}?{key}#graph={key}")
            page.wait_for_selector("main[data-state=ready]")
            page.wait_for_selector(".stage[data-detail]")
            yield key, page
        page.context.close()


@pytest.mark.timeout(900)
@pytest.mark.parametrize("files", workflow_batches())
def test_names_of_every_workflow_can_be_read_when_it_opens(
    browser: Browser, tmp_path: Path, files: Sequence[Path]
) -> None:
    small: dict[str, Any] = {}
    for key, page in opened_workflows(browser, tmp_path, files):
        found = page.evaluate(NAMES, None)
        has_names = page.locator(".node:not([data-shape=note]) .node-name").count() > 0
        if (has_names and not found) or any(size < LEAST_PX for _, size in found):
            small[key] = found
    assert small == {}


@pytest.mark.parametrize("count", [60, 400])
def test_names_are_painted_over_a_graph_that_is_seen_from_far_away(
    offline_site: Site, open_page: OpenPage, count: int
) -> None:
    offline_site.import_graph(large_graph("large", count), key="large")
    page = open_page(offline_site, "large")
    assert min(size for _, size in names_in_view(page)) >= LEAST_PX
    expect(page.locator("canvas.far-names")).to_be_hidden()
    page.locator(".stage").focus()
    page.keyboard.press("f")
    page.wait_for_selector(".stage[data-detail=far]")
    expect(page.locator("canvas.far-names")).to_be_visible()
    assert at_rest(page, INKED, None) > 2000
    page.keyboard.press("0")
    expect(page.locator("canvas.far-names")).to_be_hidden()


def test_a_node_says_under_its_name_what_the_service_says_it_does(
    page: Page, offline_site: Site
) -> None:
    asked = {"nodes": ["fetch-api", "filter-active", "root"]}
    does = offline_site.rest("POST", f"/api/graphs/{GRAPH}/meanings", json=asked)["does"]
    assert set(does) == {"fetch-api", "filter-active"}
    for key, line in does.items():
        expect(node(page, key).locator(".node-effect")).to_have_text(line)
    expect(node(page, "root").locator(".node-effect")).to_contain_text("Starts the workflow")
    page.locator(".stage").focus()
    page.keyboard.press("0")
    expect(page.locator(".stage")).to_have_attribute("data-detail", "near")
    expect(node(page, "fetch-api").locator(".node-effect")).to_be_visible()


def test_a_changed_node_says_what_it_does_now(offline_site: Site, open_page: OpenPage) -> None:
    one, two = open_page(offline_site), open_page(offline_site)
    line = node(two, "filter-active").locator(".node-effect")
    expect(line).to_have_text("minGames: 10")
    node(one, "filter-active").dblclick()
    field = one.get_by_label("minGames", exact=True)
    field.fill("25")
    field.press("Enter")
    expect(line).to_have_text("minGames: 25")


def workflow(*nodes: dict[str, Any], connections: dict[str, Any] | None = None) -> dict[str, Any]:
    """Returns an n8n workflow of nodes in a row, 200 points apart."""
    row: list[dict[str, Any]] = [
        {
            "id": one["name"],
            "typeVersion": 1,
            "position": [200 * i, 0],
            "parameters": {},
            **one,
        }
        for i, one in enumerate(nodes)
    ]
    return {"name": "w", "nodes": row, "connections": connections or {}}


def import_n8n(site: Site, document: dict[str, Any]) -> None:
    path = "/api/graphs/import?graphKey=w&fileName=w.json"
    site.rest("POST", path, content=json.dumps(document).encode())


def test_a_node_shows_the_icon_of_its_service_or_of_its_kind_in_both_themes(
    offline_site: Site, open_page: OpenPage
) -> None:
    types = {"Sheet": "n8n-nodes-base.googleSheetsTool", "Call": "n8n-nodes-base.httpRequest"}
    nodes = [{"name": name, "type": type_} for name, type_ in types.items()]
    import_n8n(offline_site, workflow(*nodes))
    page = open_page(offline_site, "w")
    service = node(page, "sheet").locator(".node-icon .icon")
    kind = node(page, "call").locator(".node-icon .icon")
    expect(service).to_have_class("icon is-outline")
    expect(kind).to_have_class("icon")
    outline = offline_site.rest("GET", "/web/icons?names=googlesheets")["icons"]["googlesheets"]
    expect(service.locator("path")).to_have_attribute("d", outline)
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        fill, ground = page.evaluate(
            "(icon) => [getComputedStyle(icon).fill, getComputedStyle(icon.parentElement).backgroundColor]",
            service.element_handle(),
        )
        assert fill != ground


def test_a_note_is_read_as_markdown_and_runs_nothing(
    offline_site: Site, open_page: OpenPage
) -> None:
    text = "# Plan\n\n- one **bold** thing\n- [docs](https://example.org/x)\n\n<b>raw</b> [bad](javascript:1)"
    note = {"type": "n8n-nodes-base.stickyNote", "name": "N", "parameters": {"content": text}}
    import_n8n(offline_site, workflow(note, {"name": "A", "type": "n8n-nodes-base.set"}))
    page = open_page(offline_site, "w")
    shown = page.locator(".node[data-shape=note]")
    expect(shown.locator(".md-h1")).to_have_text("Plan")
    expect(shown.locator("li")).to_have_count(2)
    expect(shown.locator("strong")).to_have_text("bold")
    link = shown.get_by_role("link")
    expect(link).to_have_count(1)
    expect(link).to_have_attribute("rel", "noopener noreferrer nofollow")
    expect(shown).to_contain_text("<b>raw</b>")
    expect(shown).to_have_role("group")
    has_no_violation(page)


def test_an_edge_that_leads_back_runs_below_the_nodes_that_it_passes(
    offline_site: Site, open_page: OpenPage
) -> None:
    names = ["First", "Second", "Third", "Fourth"]
    nodes = [{"name": name, "type": "n8n-nodes-base.set"} for name in names]
    ahead = [*pairwise(names), ("Fourth", "First")]
    connections = {
        source: {"main": [[{"node": target, "type": "main", "index": 0}]]}
        for source, target in ahead
    }
    import_n8n(offline_site, workflow(*nodes, connections=connections))
    page = open_page(offline_site, "w")
    expect(page.locator("path.edge")).to_have_count(4)
    crossed = page.evaluate(
        """() => {
      const solid = [...document.querySelectorAll(".node-body, .node-name")];
      const boxes = solid.map((one) => one.getBoundingClientRect());
      return [...document.querySelectorAll("path.edge")].flatMap((path) => {
        const matrix = path.getScreenCTM();
        const length = path.getTotalLength();
        const at = (i) => path.getPointAtLength((length * i) / 200).matrixTransform(matrix);
        const points = Array.from({ length: 181 }, (_, i) => at(i + 10));
        return points.filter(({ x, y }) => boxes.some((box) =>
          x > box.left + 1 && x < box.right - 1 && y > box.top + 1 && y < box.bottom - 1));
      }).length;
    }"""
    )
    assert crossed == 0


def test_the_tabs_of_sheets_never_lie_over_the_tools(
    offline_site: Site, open_page: OpenPage
) -> None:
    graph = large_graph("sheets", 3)
    graph["graph"]["sheetsList"] = {
        str(i): f"A sheet with a rather long name {i}" for i in range(6)
    }
    offline_site.import_graph(graph, key="sheets")
    for width, height in ((1280, 800), (900, 700), (390, 800)):
        page = open_page(
            offline_site, "sheets", panel="canvas", viewport={"width": width, "height": height}
        )
        sheets = box(page.locator(".sheets"))
        tools = box(page.locator(".canvas-tools"))
        is_left = sheets["x"] + sheets["width"] <= tools["x"]
        is_above = sheets["y"] + sheets["height"] <= tools["y"]
        is_below = sheets["y"] >= tools["y"] + tools["height"]
        assert is_left or is_above or is_below, (width, sheets, tools)
        page.close()
