"""Hostile names, data, labels and files do nothing but be shown."""

from __future__ import annotations

import json
from pathlib import Path

from playwright.sync_api import expect

from tests.e2e.conftest import OpenPage, Trouble
from tests.e2e.graphs import HOSTILE, hostile_graph
from tests.e2e.site import Site


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


def test_files_are_imported_by_choosing_them_and_bad_ones_are_said(
    offline_site: Site, open_page: OpenPage, tmp_path: Path, trouble: Trouble
) -> None:
    good, bad = tmp_path / "good.json", tmp_path / HOSTILE[0].replace("/", "_")
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


def test_the_address_leads_nowhere_else(offline_site: Site, open_page: OpenPage, trouble: Trouble) -> None:
    page = open_page(offline_site, None)
    for address in ("#graph=__proto__&sheet=__proto__", "#panel=javascript:x", "#sheet=" + "x" * 5000):
        page.goto(f"{offline_site.url}{address}")
        page.reload()
        page.wait_for_selector("html[data-ready=true]", state="attached")
    assert page.url.startswith(offline_site.url)
    trouble.forgive("404")
