"""Texts of the canvas have room: names, what nodes do and labels of edges cover no other."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from mock_data import load_text
from tests.e2e.conftest import OpenPage
from tests.e2e.site import Site
from tests.e2e.test_canvas import at_rest, box, node
from tests.e2e.test_readable import opened_workflows
from tests.support.data_files import workflow_batches

KNOWN = """() => [...document.querySelectorAll(".node-effect")].some((one) => one.textContent)
  || ![...document.querySelectorAll(".node-effect")].length"""
# The texts that are drawn (their lines, clipped as they are seen), the shapes of nodes, and which
# of them cross. Nodes over one another, or one closely below the other, are the graph's own doing.
CROSSED = """() => {
  const stage = document.querySelector(".stage").getBoundingClientRect();
  const world = getComputedStyle(document.querySelector(".world"));
  const { a: k } = new DOMMatrix(world.transform);
  const isSolid = (node) => !["note", "group"].includes(node.dataset.shape);
  const clipped = (one, by) => ({
    left: Math.max(one.left, by.left), right: Math.min(one.right, by.right),
    top: Math.max(one.top, by.top), bottom: Math.min(one.bottom, by.bottom),
  });
  const width = (one, other) => Math.min(one.right, other.right) - Math.max(one.left, other.left);
  const height = (one, other) => Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top);
  const crosses = (one, other) => width(one, other) > 1 && height(one, other) > 2;
  const linesOf = (element) => {
    const range = document.createRange();
    range.selectNodeContents(element);
    const box = element.getBoundingClientRect();
    const lines = [...range.getClientRects()].map((line) => clipped(line, box));
    return lines.filter((line) => crosses(line, line) && crosses(line, stage));
  };
  const textOf = (element) => ({
    owner: element.closest(".node"), text: element.textContent, boxes: linesOf(element),
    px: parseFloat(getComputedStyle(element).fontSize) * k,
  });
  const texts = (selector) => [...document.querySelectorAll(selector)].map(textOf)
    .filter(({ owner, boxes }) => boxes.length && (!owner || isSolid(owner)));
  const names = texts(".nodes .node-name");
  const lines = texts(".node-effect");
  const labels = texts(".edge-label");
  const shapeOf = (owner) => owner.querySelector(".node-body").getBoundingClientRect();
  const shapes = [...document.querySelectorAll(".node")].filter(isSolid)
    .map((owner) => ({ owner, text: owner.dataset.key, boxes: [shapeOf(owner)] }));
  const isBelow = (mine, theirs) => {
    const below = theirs.top - mine.bottom;
    return below > -2 && below < 40 * k && width(mine, theirs) > 0;
  };
  const isCrowded = (one, other) => {
    if (!one || !other) return false;
    const [mine, theirs] = [shapeOf(one), shapeOf(other)];
    return crosses(mine, theirs) || isBelow(mine, theirs) || isBelow(theirs, mine);
  };
  const pairs = (ones, others) => ones.flatMap((one, i) => others
    .slice(ones === others ? i + 1 : 0)
    .filter((other) => one.owner !== other.owner || !one.owner)
    .filter((other) => one.boxes.some((box) => other.boxes.some((its) => crosses(box, its))))
    .filter((other) => !isCrowded(one.owner, other.owner))
    .map((other) => [one.text, other.text]));
  const isFar = document.querySelector(".stage").dataset.detail !== "near";
  const of = (ones, ...others) => others.flatMap((other) => pairs(ones, other));
  return {
    names: names.length, lines: lines.length,
    small: [...names, ...lines, ...labels].filter(({ px }) => px < 9).map(({ text }) => text),
    crossed: [
      ...of(names, names, shapes), ...of(lines, names, lines, shapes),
      ...(isFar ? of(labels, names, lines, labels, shapes) : []),
    ],
  };
}"""


def read_texts(page: Page) -> dict[str, Any]:
    """Returns the texts of the canvas once the lines have come that say what nodes do."""
    page.wait_for_function(KNOWN)
    return at_rest(page, CROSSED, None)


@pytest.mark.parametrize("locale", ["en-US", "fr-FR"])
def test_no_text_of_the_order_refund_covers_another_when_it_opens(
    offline_site: Site, open_page: OpenPage, locale: str
) -> None:
    offline_site.import_graph(json.loads(load_text("workflows/order_refund.json")), key="refund")
    page = open_page(offline_site, "refund", locale=locale)
    found = read_texts(page)
    assert found["names"] == 15
    assert (found["small"], found["crossed"]) == ([], [])
    name = node(page, "chat-model").locator(".node-name")
    assert name.evaluate("(one) => one.scrollHeight <= one.clientHeight + 1")  # nothing is cut
    for _ in range(3):  # nearer, in larger steps of the texts
        page.locator(".stage").focus()
        page.keyboard.press("+")
        found = read_texts(page)
        assert (found["small"], found["crossed"]) == ([], [])


def test_texts_have_room_again_when_a_neighbour_was_moved(
    offline_site: Site, open_page: OpenPage
) -> None:
    offline_site.import_graph(json.loads(load_text("workflows/order_refund.json")), key="refund")
    page = open_page(offline_site, "refund")
    read_texts(page)
    line = node(page, "refuse-late-request").locator(".node-effect")
    expect(line).to_be_visible()
    mine, theirs = box(node(page, "order-not-found")), box(node(page, "refuse-late-request"))
    page.mouse.move(mine["x"] + 10, mine["y"] + 10)
    page.mouse.down()
    page.mouse.move(theirs["x"] - 42, theirs["y"] + 10, steps=5)
    page.mouse.up()
    expect(line).to_be_hidden()
    assert read_texts(page)["crossed"] == []


@pytest.mark.timeout(900)
@pytest.mark.parametrize("files", workflow_batches())
def test_no_text_of_a_workflow_covers_another_when_it_opens(
    browser: Browser, tmp_path: Path, files: Sequence[Path]
) -> None:
    bad: dict[str, Any] = {}
    counts = {"names": 0, "lines": 0}
    for key, page in opened_workflows(browser, tmp_path, files):
        found = read_texts(page)
        counts = {name: count + found[name] for name, count in counts.items()}
        if found["crossed"] or found["small"]:
            bad[key] = found
    print(f"{len(files)} workflows, {counts}")
    assert bad == {}
