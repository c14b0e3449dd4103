"""Hostile names, data, labels and files do nothing but be shown."""

from __future__ import annotations

import json
from pathlib import Path

from playwright.sync_api import expect

from tests.e2e.conftest import OpenPage, Trouble
from tests.e2e.graphs import HOSTILE, hostile_graph, large_graph
from tests.e2e.site import Site
from tests.e2e.test_canvas import box
from tests.support.injection_payloads import hostile_document, injection_payloads


def test_what_a_graph_holds_is_shown_and_never_run(offline_site: Site, open_page: OpenPage) -> None:
    offline_site.import_graph(hostile_graph("hostile"), "hostile")
    page = open_page(offline_site, None)
    expect(page.locator(".graph-name", has_text=HOSTILE[0])).to_be_visible()
    page.locator(".graph-card[data-graph=hostile] .graph-open").click()
    expect(page.locator(".node")).to_have_count(len(HOSTILE))
    for i, text in enumerate(HOSTILE):
        expect(page.locator(f".node[data-key=h{i}] .node-name")).to_have_text(text)
        page.locator(f".node[data-key=h{i}]").dblclick()
        expect(page.locator(".inspector pre.process")).to_have_text(text)
        expect(page.get_by_label("Name of the node")).to_have_value(text)
    expect(page.locator(".edge-label", has_text=HOSTILE[2])).to_be_attached()
    page.get_by_role("tab", name=HOSTILE[0]).click()
    assert page.title().endswith("Nodius")
    assert page.locator("main img, main script:not([src]), main iframe").count() == 0


def test_texts_that_take_over_pages_are_shown_and_never_run(
    offline_site: Site, open_page: OpenPage
) -> None:
    marked = [text for text in injection_payloads() if "<" in text or "javascript:" in text]
    assert len(marked) >= 12
    offline_site.import_graph(hostile_document(tuple(marked[:12])), "payloads")
    page = open_page(offline_site, "payloads")
    title = page.title()
    expect(page.locator(".node")).to_have_count(12)
    for i, text in enumerate(marked[:12]):
        page.locator(f".node[data-key=n{i}]").dblclick()
        expect(page.locator(".inspector pre.process")).to_have_text(text)
    assert page.title() == title
    assert page.locator("main img, main script:not([src]), main iframe").count() == 0


def test_files_are_imported_by_choosing_them_and_bad_ones_are_said(
    offline_site: Site, open_page: OpenPage, tmp_path: Path, trouble: Trouble
) -> None:
    good = tmp_path / "good.json"
    bad = tmp_path / HOSTILE[0].replace("/", "_")
    good.write_text(json.dumps(hostile_graph("imported")))
    bad.write_text("{not json")
    page = open_page(offline_site, None)
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Import…").click()
    chooser.value.set_files([bad, good])
    expect(page.locator(".toast.error")).to_contain_text(f"{bad.name} was not imported")
    expect(page.locator(".toast.ok")).to_contain_text(f"imported {len(HOSTILE)} nodes")
    expect(page.locator(".graph-card")).to_have_count(2)
    trouble.forgive("422")


def test_the_address_leads_nowhere_else(
    offline_site: Site, open_page: OpenPage, trouble: Trouble
) -> None:
    page = open_page(offline_site, None)
    for address in (
        "#graph=__proto__&sheet=__proto__",
        "#panel=javascript:x",
        "#sheet=" + "x" * 5000,
    ):
        page.goto(f"{offline_site.url}{address}")
        page.reload()
        page.wait_for_selector("html[data-ready=true]", state="attached")
    assert page.url.startswith(offline_site.url)
    trouble.forgive("404")


ODD = {
    "right to left": "مرحبا بالعالم " * 4,
    "long": "a" * 3000,
    "lines": "one\ntwo\n\n" * 40,
    "emoji": "👩‍👩‍👧‍👦🏳️‍🌈" * 30,
    "marks": "Z" + "\u0334\u0351" * 200,
}
OUTSIDE = """() => [...document.querySelectorAll(".node, .inspector, .edge-label")].filter((element) => {
  const within = element.getBoundingClientRect();
  return [...element.querySelectorAll(".node-name, .node-type, .node-value")].some((text) => {
    const box = text.getBoundingClientRect();
    return box.width > 0 && (box.right > within.right + 1 || box.left < within.left - 1);
  });
}).map((element) => element.dataset.key ?? element.className)"""


def test_odd_names_and_long_code_stay_within_their_nodes(
    offline_site: Site, open_page: OpenPage
) -> None:
    document = large_graph("odd", len(ODD))
    code = "// " + "x" * 200 + "\n" + "const value = 1;\n" * 600
    for node, text in zip(document["nodes"], ODD.values(), strict=True):
        node["data"] = {"name": text, "field " * 50: text}
        node["process"] = code
    for edge, text in zip(document["edges"], ODD.values(), strict=False):
        edge["label"] = text
    offline_site.import_graph(document, "odd")
    page = open_page(offline_site, "odd")
    for number, text in enumerate(ODD.values()):
        page.locator(f".node[data-key=n{number}]").focus()
        page.keyboard.press("Enter")
        expect(page.locator(".inspector pre.process")).to_have_text(code, use_inner_text=False)
        name = page.get_by_label("Name of the node")
        assert name.input_value() == text.strip().replace("\n", "")
        assert page.evaluate(OUTSIDE) == []
        page.keyboard.press("Escape")
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")


def test_a_long_label_takes_two_lines_in_the_inspector_and_is_read_whole_at_a_press(
    offline_site: Site, open_page: OpenPage
) -> None:
    document = large_graph("long", 3)
    label = "l" * 600
    document["edges"][0]["label"] = label
    document["nodes"][0]["data"] = {"name": "n" * 600}
    offline_site.import_graph(document, "long")
    for width in (1280, 390):
        page = open_page(
            offline_site, "long", panel="canvas", viewport={"width": width, "height": 800}
        )
        page.locator(".node[data-key=n1]").focus()
        page.keyboard.press("Enter")
        row = page.locator(".inspector .connections li", has=page.locator(".tag"))
        link, tag = row.locator(".link"), row.locator(".tag")
        expect(tag).to_have_text(label)
        assert box(link)["width"] > 200
        assert box(link)["height"] < 70
        assert box(tag)["height"] < 50
        tag.focus()
        page.keyboard.press("Enter")
        expect(tag).to_have_attribute("aria-expanded", "true")
        assert box(tag)["height"] > 60
        assert box(tag)["width"] <= box(page.locator(".inspector"))["width"]
        page.close()


def test_five_thousand_nodes_are_shown_found_and_edited(
    offline_site: Site, open_page: OpenPage
) -> None:
    offline_site.import_graph(large_graph("many", 5_000), "many")
    page = open_page(offline_site, "many")
    page.get_by_role("button", name="Show all").click()
    page.wait_for_selector(".stage.painted")
    page.get_by_label("Find a node").click()
    field = page.get_by_role("searchbox", name="Name, type, data or code")
    field.fill("Step 4321")
    field.press("Enter")
    page.wait_for_selector(".stage:not(.painted)")
    expect(page.locator(".node[data-key=n4321]")).to_be_in_viewport()
    page.locator(".stage").focus()
    page.keyboard.press("Delete")
    expect(page.locator(".node[data-key=n4321]")).to_have_count(0)
    page.keyboard.press("Control+z")
    expect(page.locator(".node[data-key=n4321]")).to_be_visible()
    assert page.locator(".node:visible").count() < 1_000


ROWS = """async (diff) => {
  const { renderDiff } = await import("/web/js/diff.js");
  const cells = renderDiff(diff, (key) => key).querySelectorAll(".diff-text");
  return [...cells].map((cell) => cell.lastChild.textContent);
}"""
VISIBLE = """async (text) => (await import("/web/js/hidden.js")).visible(text)"""


def test_overrides_of_direction_and_odd_line_ends_are_seen_in_a_diff(
    offline_site: Site, open_page: OpenPage
) -> None:
    page = open_page(offline_site, None)
    diff = (
        "--- a\n+++ b\n@@ -1 +1 @@\n-run()\n+/*\u202e } \u2066if (admin)*/ run() //\r-check()\x0bx"
    )
    assert page.evaluate(ROWS, diff) == [
        "run()",
        "/*⟨U+202E⟩ } ⟨U+2066⟩if (admin)*/ run() //␍-check()⟨U+000B⟩x",
    ]
    assert (
        page.evaluate(VISIBLE, "می\u200cخواهم שלום\u200f 👩\u200d👩\ttab")
        == "می\u200cخواهم שלום\u200f 👩\u200d👩\ttab"
    )
